//! Metadata of many modules are made extensible while threads resolve members of them without a
//! pause: each member is found as before.
#![cfg(target_os = "linux")]
mod support;

use profilers::Selection;
use recorder::{EngineChoice, RecordOptions};
use rules::{Action, MethodPattern, Rule, RuleSet};
use std::time::Duration;
use testkit::{Runtime, Sample};

const LIMIT: Duration = Duration::from_secs(60);
/// Recordings of a process.
const TIMES: u64 = 5;
/// Modules at least that each of them opens: those of a copy of the assemblies that was loaded
/// before it.
const MODULES: u64 = 6;
/// Members that are resolved at least.
const MEMBERS: u64 = 50_000;

#[test]
fn members_are_found_while_modules_are_opened_for_additions() {
    // On the others assemblies lie in one file with the runtime, and cannot be loaded again.
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let mut process =
            Sample::named("resolver").start(runtime, &["--threads", "2", "--rounds", "100"]);
        process.wait_for_ready();
        let mut opened = 0;
        let mut restless = 0;
        for _ in 0..TIMES {
            // Copies come that nobody has looked at.
            std::thread::sleep(Duration::from_millis(700));
            let pattern = MethodPattern::parse("System.SR.UsingResourceKeys").unwrap();
            let options = RecordOptions {
                profilers: vec![Selection::parse("trace").unwrap()],
                instrument: Some(RuleSet::new(
                    vec![Rule::new("texts", pattern, Action::Count)],
                    Vec::new(),
                )),
                ..support::options(EngineChoice::Auto, 100, Duration::from_millis(300), None)
            };
            let summary = support::record(process.pid(), options);
            opened += support::counter(&summary, "modules extended");
            restless += support::counter(&summary, "modules extended while threads ran");
            assert!(summary.observer.target_stopped > 0, "{runtime}: {summary:?}");
        }
        process.close_stdin();
        let truth = process.truth(LIMIT);
        println!("{runtime}: {opened} modules, {restless} while threads ran; {truth}");
        assert_eq!(truth["wrong"], 0, "{runtime}: {truth} {}", process.transcript());
        assert!(truth["members"].as_u64().unwrap() >= MEMBERS, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        assert!(opened >= TIMES * MODULES, "{runtime}: {opened}");
        // A thread that compiles for longer than is waited may be met.
        assert!(restless * 20 <= opened, "{runtime}: {restless} of {opened}");
    }
}
