//! Programs that unload what they throw: nothing is asked of the runtime about a class, a method or
//! a module that is gone.
#![cfg(unix)]
mod common;

use common::{Report, Running, clrscope, file, run, scratch, wait_until_recording};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// How often each program is recorded: many times where `CLRSCOPE_HARM_RUNS` says so.
fn runs() -> u32 {
    std::env::var("CLRSCOPE_HARM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// Does something with all runtimes, side by side.
fn on_each_runtime(check: impl Fn(Runtime) + Sync) {
    let check = &check;
    // Once, and not by all of them at the same time.
    for runtime in sample_runtimes() {
        Sample::named("collectible").compile(runtime).unwrap();
    }
    std::thread::scope(|scope| {
        for runtime in sample_runtimes() {
            scope.spawn(move || (0..runs()).for_each(|_| check(runtime)));
        }
    });
}

/// A program that is recorded with these profilers from its first exception to its last; gives also
/// what it says of itself.
fn recorded(runtime: Runtime, profilers: &str, count: u32) -> (Report, serde_json::Value) {
    let complete = (0..10).find_map(|_| try_recording(runtime, profilers, count));
    complete.unwrap_or_else(|| panic!("{runtime}: the last sums never came"))
}

/// The same; `None` where not all was counted.
fn try_recording(
    runtime: Runtime,
    profilers: &str,
    count: u32,
) -> Option<(Report, serde_json::Value)> {
    let folder = scratch();
    let output = file(&folder, "collectible.clrscope");
    let count = count.to_string();
    let launch = Sample::named("collectible").launch(runtime, &["--count", &count, "--gate"]);
    let mut process: TargetProcess = launch.private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let mut recorder =
        Running::start(clrscope(["record", &pid, "-o", output.to_str().unwrap(), "-p", profilers]));
    wait_until_recording(&output, &mut recorder);
    std::thread::sleep(Duration::from_millis(300));
    process.send_line("go").unwrap();
    let truth = process.truth(LIMIT);
    recorder.signal(Signal::INT);
    // On a machine with far too much work it says that the last sums did not come.
    let is_complete =
        !recorder.wait().expect(0).out.contains("the process did not answer at the end");
    process.close_stdin();
    let status = process.wait(LIMIT).unwrap();
    assert!(status.success(), "{runtime}: {status}\n{}", process.transcript());
    is_complete.then(|| (Report::of(&output), truth))
}

#[test]
fn exceptions_of_types_that_are_unloaded_are_counted_and_named() {
    on_each_runtime(|runtime| {
        let (report, truth) = recorded(runtime, "exceptions", 300);
        // One of each type, also where the id of one came again as that of another.
        let expected: BTreeMap<String, u64> =
            (2..302).map(|number| (format!("Collectible{number}"), 1)).collect();
        assert_eq!(report.exceptions(), expected, "{runtime}");
        let functions = report.0["functions"].as_array().unwrap();
        let mut own = 0;
        for row in report.0["exceptions"]["types"].as_array().unwrap() {
            let Some(caught_by) = row["caught_by"].as_u64() else { continue };
            let caught_by = &functions[caught_by as usize];
            let (thrown, by) =
                (row["type_name"].as_str().unwrap(), caught_by["type_name"].as_str().unwrap());
            if caught_by["method"] == "Run" {
                assert_eq!(thrown, by, "{runtime}: {row}");
                own += 1;
            } else {
                assert_eq!(by, "Clrscope.Samples.Collectible", "{runtime}: {row}");
            }
        }
        assert_eq!(truth["caught_by_themselves"].as_u64(), Some(own), "{runtime}: {truth}");
        // Where code is removed from the runtime's map while it runs, it is looked up in
        // suspensions.
        let observer = report.0["observer"].as_array().unwrap().last().unwrap();
        let mut counters = observer["counters"].as_array().unwrap().iter();
        let suspends = counters.any(|counter| counter[0] == "suspensions");
        assert_eq!(suspends, runtime.major() >= 8, "{runtime}: {observer}");
    });
}

#[test]
fn allocations_and_walks_of_types_that_are_unloaded_do_no_harm() {
    on_each_runtime(|runtime| {
        let allocations = if runtime.major() < 6 { "" } else { "allocations," };
        let (report, truth) =
            recorded(runtime, &format!("{allocations}exceptions,wall,threads,loads,jit"), 300);
        assert_eq!(
            report.exceptions().values().sum::<u64>(),
            truth["total"].as_u64().unwrap(),
            "{runtime}"
        );
    });
}

/// Dynamic methods that are on stacks while a snapshot is taken, and are freed before it has their
/// names.
#[test]
fn dynamic_methods_that_a_snapshot_met_may_be_freed() {
    for runtime in sample_runtimes() {
        Sample::named("dynamics").compile(runtime).unwrap();
    }
    let check = |runtime: Runtime| {
        let folder = scratch();
        let output = file(&folder, "dynamics.clrscope");
        let output = output.to_str().unwrap();
        let launch = Sample::named("dynamics").launch::<&str>(runtime, &[]);
        let mut process: TargetProcess = launch.private_tmp().start();
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let heap = "heap:snapshots=3:every=1:strings=off";
        run(["record", &pid, "-q", "-p", heap, "-o", output]).expect(0);
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        process.send_line("end").unwrap();
        let truth = process.truth(LIMIT);
        assert!(truth["freed"].as_u64().unwrap() >= 40, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
        // What had a name in time has the right one.
        for number in ["1", "2", "3"] {
            let arguments = ["heap", output, "--snapshot", number, "--type", "Own", "--json"];
            let json = run(arguments).expect(0).json();
            let stacks: Vec<&str> = strings(&json).filter(|text| text.contains("nnnnnn")).collect();
            assert!(stacks.iter().all(|text| text.contains("Dynamic")), "{runtime}: {stacks:?}");
            assert!(strings(&json).all(|text| text.is_ascii()), "{runtime}: {json}");
        }
    };
    std::thread::scope(|scope| {
        for runtime in sample_runtimes() {
            scope.spawn(move || (0..runs()).for_each(|_| check(runtime)));
        }
    });
}

/// All strings in a value.
fn strings(value: &serde_json::Value) -> Box<dyn Iterator<Item = &str> + '_> {
    use serde_json::Value;
    match value {
        Value::String(text) => Box::new(std::iter::once(text.as_str())),
        Value::Array(values) => Box::new(values.iter().flat_map(strings)),
        Value::Object(values) => Box::new(values.values().flat_map(strings)),
        _ => Box::new(std::iter::empty()),
    }
}
