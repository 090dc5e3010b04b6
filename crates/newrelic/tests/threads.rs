//! The thread profiler in real runtimes: a program calls the library's functions and checks their
//! results.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "other tests need the rest")]
#[path = "drop_in/support.rs"]
mod support;

use newrelic_compat::shape::AgentShape;
use std::path::PathBuf;
use support::{Home, compile, run};
use testkit::{Extras, Runtime};

const RUNTIMES: [Runtime; 2] = [Runtime::V3_1, Runtime::V9];

/// What `Threads.cs` prints for threads with known stacks.
const KNOWN: [&str; 27] = [
    "null data: 0x80070057",
    "null count: 0x80070057",
    "no functions: 0x80070057",
    "fewer than none: 0x80070057",
    "null functions: 0x80070057",
    "null names: 0x80070057",
    "thread ids: True",
    "same tokens: True",
    "profile: 0x00000000",
    "not released: 0x80004005 not given",
    "threads differ: True",
    "first: 0 Test.Known.Leaf Second.Beta.Call First.Alpha.Call Test.Known.Root",
    "overloads: 0 Test.Known.Leaf Second.Beta.Call First.Alpha.Call Test.Known.Root",
    "nested: 0 Test.Known.Leaf Inner.CallNested Inner.CallNested Test.Known.Root",
    "generic: 0 Test.Known.Leaf Second.Generic`1.CallGeneric First.Generic`1.CallGeneric \
        Test.Known.Root",
    "deep: 1 1337 frames, 1300 at least, root is there: True",
    "overloads differ: True",
    "own: True True",
    "unknown: UnknownClass.UnknownMethod(error) UnknownClass.UnknownMethod(error) \
        UnknownClass.UnknownMethod(error)",
    "names outlive the profile: True",
    "again: True",
    "shut down: UnknownClass.UnknownMethod(error)",
    "and again: True",
    "names are back: True",
    "ended: True",
    "aborts: True True 0",
    "after aborts: True",
];

fn program() -> PathBuf {
    let library = |name: &str, symbol: &str| {
        compile(name, "Threads.cs", true, Extras { symbols: &[symbol], ..Extras::default() })
    };
    let (first, second) = (library("First", "FIRST"), library("Second", "SECOND"));
    compile(
        "Threads",
        "Threads.cs",
        false,
        Extras { libraries: &[&first, &second], ..Extras::default() },
    )
}

#[test]
fn known_stacks() {
    let program = program();
    for runtime in RUNTIMES {
        let home = Home::new(AgentShape::V10_54, None);
        let lines = run(home.launch(&program, runtime, &["known"])).well(&runtime.to_string());
        assert_eq!(lines, KNOWN, "{runtime}\n{}", home.log().join("\n"));
        let problems = home.log().into_iter().filter(|line| line.starts_with("[Error]"));
        assert_eq!(problems.collect::<Vec<_>>(), Vec::<String>::new(), "{runtime}");
    }
}

#[test]
fn a_busy_program() {
    let program = program();
    for runtime in RUNTIMES {
        let home = Home::new(AgentShape::V10_54, None);
        let lines =
            run(home.launch(&program, runtime, &["busy", "100", "50"])).well(&runtime.to_string());
        let all = "busy: all threads True, wrong 0, stuck 0, started True, unloaded True, names \
            True True, nameless True";
        assert_eq!(lines, [all], "{runtime}\n{}", home.log().join("\n"));
    }
}

#[test]
fn without_a_profiler() {
    let program = program();
    for runtime in RUNTIMES {
        let home = Home::new(AgentShape::V10_54, None);
        // Without a configuration the profiler does not start; the program loads the library by
        // itself.
        std::fs::remove_file(home.path().join("newrelic.config")).unwrap();
        let lines = run(home.launch(&program, runtime, &["refused"])).well(&runtime.to_string());
        assert_eq!(lines, ["0x8000ffff 0x8000ffff 0"], "{runtime}");
    }
}
