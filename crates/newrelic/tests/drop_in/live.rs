//! Instrumentation changes while the program runs.

use crate::support::{Home, compile, run};
use newrelic_compat::shape::AgentShape;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{Extras, Runtime};

/// What a step of `Live.cs` prints: its name and result, and which methods had a tracer.
fn steps(lines: &[String]) -> Vec<(String, Vec<String>)> {
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        if let Some(step) = line.strip_prefix("STEP ") {
            steps.push((step.to_owned(), Vec::new()));
        } else if let Some(finished) = line.strip_prefix("FINISH ") {
            steps.last_mut().unwrap().1.push(finished.to_owned());
        } else if !line.starts_with("GETTRACER ") {
            assert_eq!(line, "called 2 2 s 6");
        }
    }
    steps
}

const ADD: &str = "Live.Traced.Add ret=System.Int32:2 ex=null";
const SAME: [&str; 2] =
    ["Live.Traced.Same ret=System.Int32:2 ex=null", "Live.Traced.Same ret=System.String:s ex=null"];
const TWICE: &str = "Live.Traced+Inner.Twice ret=System.Int32:6 ex=null";

/// Times that `Live.Traced.Add` gets a new body or its original one while points come and go.
const EVENTS_OF_ADD: usize = 6;

#[test]
fn points_come_and_go() {
    let program = compile("Live", "Live.cs", false, Extras::default());
    let all: &[&str] = &[ADD, SAME[0], SAME[1], TWICE];
    let expected: [(&str, &[&str]); 11] = [
        ("nothing to apply: 0x00000000", &[]),
        ("added: 0x00000000", &[]),
        ("applied: 0x00000000", all),
        ("taken back: 0x00000000", &[]),
        ("file: 0x00000000", all),
        ("broken file: 0x00000001", all),
        ("ignored: 0x00000000", &[TWICE]),
        ("broken configuration: 0x80004005", &[TWICE]),
        ("configuration: 0x00000000", all),
        ("no file: 0x00000000", &[]),
        ("nulls: 0x80004005", &[]),
    ];
    for runtime in [Runtime::V3_1, Runtime::V8, Runtime::V9] {
        for (shape, mode) in [
            (AgentShape::V10_53, "strict"),
            (AgentShape::V10_54, "strict"),
            (AgentShape::V10_54, "default"),
            (AgentShape::V10_55, "fast"),
        ] {
            let case = format!("{runtime}, agent {shape}, {mode}");
            let home = Home::new(shape, None);
            let events = home.path().join("events.jsonl");
            let launch =
                home.launch(&program, runtime, &[home.path()]).env("NEW_RELIC_CLRSCOPE_MODE", mode);
            let lines = run(launch.env("NEW_RELIC_CLRSCOPE_EVENT_LOG", &events)).well(&case);
            let steps = steps(&lines);
            let expected = expected.map(|(step, tracers)| {
                (step.to_owned(), tracers.iter().map(|&text| text.to_owned()).collect())
            });
            assert_eq!(steps, expected, "{case}\n{}", home.log().join("\n"));
            let log = home.log();
            // The event log has each of them in its order.
            let events = fs::read_to_string(events).unwrap();
            let of_add = events.lines().filter(|line| line.contains("\"name\":\"Live.Traced.Add("));
            let kinds: Vec<_> = of_add.map(|line| line.split('"').nth(3).unwrap()).collect();
            assert_eq!(kinds, ["rewrite", "revert"].repeat(4)[..EVENTS_OF_ADD], "{case}");
            // Tests of the agent wait for this line.
            assert!(
                log.iter().any(|line| line.ends_with(" Leave: InstrumentationRefresh")),
                "{case}"
            );
        }
    }
}

#[test]
fn threads_call_what_is_toggled() {
    let program = compile("Live", "Live.cs", false, Extras::default());
    for (runtime, mode) in
        [(Runtime::V3_1, "default"), (Runtime::V9, "fast"), (Runtime::V9, "strict")]
    {
        let case = format!("{runtime}, {mode}");
        let home = Home::new(AgentShape::V10_54, None);
        let launch = home.launch(&program, runtime, &[home.path(), Path::new("stress")]);
        let launch = launch.env("NEW_RELIC_CLRSCOPE_MODE", mode).env("AGENT_COUNT", "true");
        // An event log that cannot be made changes nothing.
        let lines = run(launch.env("NEW_RELIC_CLRSCOPE_EVENT_LOG", "/dev/full")).well(&case);
        let is_told = |line: &String| {
            line.starts_with("[Warn ] ")
                && line.contains("Unable to make the event log /dev/full: ")
        };
        assert!(home.log().iter().any(is_told), "{case}");
        let [result, tracers] = &lines[..] else { panic!("{case}: {lines:?}") };
        assert_eq!(result, "STRESS wrong=0 called=True", "{case}");
        let counts =
            tracers.strip_prefix("TRACERS started=").and_then(|rest| rest.split_once(" finished="));
        let (started, finished) = counts.unwrap_or_else(|| panic!("{case}: {tracers}"));
        assert!(started == finished && started != "0", "{case}: {tracers}");
    }
}

/// Puts `MethodImplAttributes.Async` (0x2000, .NET 11) in the place of the options of the program's
/// method `Later`: columns `ImplFlags` and `Flags` of its row of the table of methods (ECMA-335,
/// II.22.26).
fn with_runtime_async(program: &Path, folder: &Path) -> PathBuf {
    let (before, after) = ([0x68, 0x00, 0x96, 0x00], [0x08, 0x20, 0x96, 0x00]);
    let mut bytes = fs::read(program).unwrap();
    let found: Vec<usize> =
        (0..bytes.len() - 4).filter(|&at| bytes[at..at + 4] == before).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    bytes[found[0]..found[0] + 4].copy_from_slice(&after);
    let config = "Live.runtimeconfig.json";
    fs::copy(program.with_file_name(config), folder.join(config)).unwrap();
    fs::write(folder.join("Live.dll"), bytes).unwrap();
    folder.join("Live.dll")
}

/// The runtimes here do not know the mark, and no agent before 10.55 traces such methods.
#[test]
fn a_runtime_async_method_that_may_keep_its_body_is_told() {
    let compiled = compile("Live", "Live.cs", false, Extras::default());
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let home = Home::new(AgentShape::V10_54, None);
        let program = with_runtime_async(&compiled, home.path());
        let lines = run(home.launch(&program, runtime, &[home.path(), Path::new("async")]))
            .well(&runtime.to_string());
        assert_eq!(lines, ["ASYNC 0x00000000 4 5"], "{runtime}");
        let log = home.log();
        let warnings: Vec<_> =
            log.iter().filter(|line| line.contains("keep their bodies")).collect();
        assert!(
            matches!(warnings[..], [line] if line.starts_with("[Warn ] ") && line.contains("1 \
                runtime-async methods of Live ")),
            "{runtime}\n{}",
            log.join("\n")
        );
        assert!(
            log.iter().any(|line| line.contains("Skipping a runtime-async method: ")),
            "{runtime}\n{}",
            log.join("\n")
        );
    }
}

#[test]
fn the_program_ends_during_a_refresh() {
    let program = compile("Live", "Live.cs", false, Extras::default());
    for runtime in [Runtime::V3_1, Runtime::V9] {
        for mode in ["strict", "default", "fast"] {
            for turn in 0..6 {
                let case = format!("{runtime}, {mode}, {turn}");
                let home = Home::new(AgentShape::V10_54, None);
                let launch = home.launch(&program, runtime, &[home.path(), Path::new("exit")]);
                let lines = run(launch.env("NEW_RELIC_CLRSCOPE_MODE", mode)).well(&case);
                assert_eq!(lines, ["END"], "{case}");
            }
        }
    }
}
