//! Methods are rewritten and reverted again and again, while eight threads call them and check what
//! they return.
#![cfg(target_os = "linux")]
mod support;

use profilers::Selection;
use recorder::{EngineChoice, RecordOptions};
use rules::{Action, MethodPattern, Rule, RuleSet};
use session::{InstrumentState, SessionReader, SessionRecord};
use std::{
    fs::File,
    path::Path,
    time::{Duration, Instant},
};
use testkit::{Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);
/// How often they are: each time on and off.
const TIMES: u64 = 100;
const THREADS: u64 = 8;
const METHODS: usize = 400;

fn rules() -> RuleSet {
    let rule = |name: &str, pattern: &str, action| {
        Rule::new(name, MethodPattern::parse(pattern).unwrap(), action)
    };
    // A quarter is only counted.
    let counted = rule("counted", "toggler!Clrscope.Samples.Toggler.M{1,2,3,4}*7*", Action::Count);
    let told = Action::Trace { slowest: 1, arguments: true };
    let told = rule("told", "toggler!Clrscope.Samples.Toggler.M*{0,2,4,6,8}", told);
    RuleSet::new(
        vec![counted, told, rule("timed", "toggler!Clrscope.Samples.Toggler.M*", Action::TRACE)],
        vec![MethodPattern::parse("Main").unwrap()],
    )
}

#[derive(Debug, Default)]
struct Seen {
    instrumented: usize,
    reverted: usize,
    calls: u64,
    /// Calls of methods that are timed, and how many of those have ended.
    timed: (u64, u64),
}

fn read(path: &Path) -> Seen {
    let mut seen = Seen::default();
    let mut is_timed = std::collections::HashMap::new();
    let mut reader = SessionReader::new(File::open(path).unwrap()).unwrap();
    while let Some(record) = reader.next().transpose().unwrap() {
        match record {
            SessionRecord::Instrumented(method) => match method.of.state {
                InstrumentState::Requested => {
                    seen.instrumented += 1;
                    is_timed.insert(method.of.slot.unwrap(), method.of.rule != "counted");
                }
                InstrumentState::Original => seen.reverted += 1,
                state => panic!("{state:?}"),
            },
            SessionRecord::Traced(traced) => {
                for method in traced.methods {
                    seen.calls += method.calls;
                    if is_timed[&method.slot] {
                        seen.timed.0 += method.calls;
                        seen.timed.1 += method.timed;
                    }
                }
            }
            _ => {}
        }
    }
    seen
}

#[test]
fn methods_are_rewritten_and_put_back_while_they_run() {
    for runtime in sample_runtimes() {
        let mut process =
            Sample::named("toggler").start(runtime, &["--threads", &THREADS.to_string()]);
        process.wait_for_ready();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toggle.clrscope");
        let options = RecordOptions {
            profilers: vec![Selection::parse("trace").unwrap()],
            instrument: Some(rules()),
            duration: None,
            ..support::options(EngineChoice::Auto, 100, LIMIT, Some(&path))
        };
        let recording =
            recorder::attach(&diagnostics::find_pid(process.pid()).unwrap(), options).unwrap();
        let handle = recording.rule_handle();
        let applied = |times: u64| {
            let deadline = Instant::now() + LIMIT;
            while recording.progress().rules_applied < times {
                assert!(
                    !recording.is_finished() && Instant::now() < deadline,
                    "{runtime}, {times}: {:?}",
                    recording.progress()
                );
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        applied(1);
        for time in 1..TIMES {
            handle.replace(RuleSet::default());
            applied(2 * time);
            handle.replace(rules());
            applied(2 * time + 1);
            // Some of the methods are compiled and called meanwhile, all of them now and then.
            std::thread::sleep(Duration::from_millis(if time % 10 == 0 { 200 } else { 5 }));
        }
        recording.stop_handle().stop();
        let summary = recording.wait().unwrap().sessions.remove(0);
        let seen = read(&path);
        let all = TIMES as usize * METHODS;
        assert_eq!((seen.instrumented, seen.reverted), (all, all), "{runtime}: {summary:?}");
        assert!(
            summary.observer.dropped.iter().all(|(_, dropped)| *dropped == 0),
            "{runtime}: {summary:?}"
        );
        // Each call that has begun has ended, but for those under way at the end.
        let (begun, ended) = seen.timed;
        assert!(begun > 0 && seen.calls > begun, "{runtime}: {seen:?}");
        assert!(begun >= ended && begun - ended <= 8 * THREADS, "{runtime}: {seen:?}");
        process.close_stdin();
        let truth = process.truth(LIMIT);
        assert_eq!(truth["wrong"], 0, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}
