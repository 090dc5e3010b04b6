//! `clrscope launch -p calls` on every runtime, with a program that knows how often it calls what.
#![cfg(all(unix, target_arch = "x86_64"))]
mod common;

use common::{Report, agent_is_mapped, file, run, scratch};
use std::{path::Path, time::Duration};
use testkit::{Launch, Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

/// A launch of ours around a launch of the test kit.
fn under(launch: Launch, output: &Path, profilers: &str, more: &[&str]) -> Launch {
    let prefix =
        [common::binary(), "launch", "-q", "-p", profilers, "-o", output.to_str().unwrap()];
    launch.under([&prefix[..], more, &["--"]].concat())
}

type Rows = Vec<(Vec<String>, u64, u64)>;

/// Calls of a method, by whatever way.
fn calls_of(rows: &Rows, method: &str) -> u64 {
    rows.iter()
        .filter(|(path, ..)| path.last().is_some_and(|last| last == method))
        .map(|(_, calls, _)| calls)
        .sum()
}

/// Calls by a way, whatever came before it.
fn calls_by(rows: &Rows, way: &str) -> u64 {
    let way: Vec<String> = way.split(';').map(str::to_owned).collect();
    rows.iter().filter(|(path, ..)| path.ends_with(&way)).map(|(_, calls, _)| calls).sum()
}

fn own_time(rows: &Rows, method: &str) -> Duration {
    let of = rows.iter().filter(|(path, ..)| path.last().is_some_and(|last| last == method));
    Duration::from_nanos(of.map(|(.., own)| own).sum())
}

#[test]
fn every_call_is_counted_on_its_path() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "calls.clrscope");
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "2000", "--fib", "20"]);
        let mut process = under(launch, &output, "calls:filter=Clrscope.Samples.*", &[]).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}: {}", report.0["observer"]);
        let rows = report.calls("calls");
        for (method, count) in truth["methods"].as_object().unwrap() {
            assert_eq!(
                Some(calls_of(&rows, method)),
                count.as_u64(),
                "{runtime}: {method}: {rows:#?}"
            );
        }
        for (way, count) in truth["paths"].as_object().unwrap() {
            // .NET 9 does not report handlers: what they call appears below what has thrown.
            let is_handler = ["Caller.CatchAll;Caller.After", "Caller.Deep;Caller.AtEnd"]
                .contains(&way.as_str());
            if !(is_handler && runtime.major() == 9) {
                assert_eq!(
                    Some(calls_by(&rows, way)),
                    count.as_u64(),
                    "{runtime}: {way}: {rows:#?}"
                );
            }
        }
        // Nothing that does not fit the filter.
        let functions: Vec<&String> = rows.iter().flat_map(|(path, ..)| path).collect();
        assert!(functions.iter().all(|name| !name.starts_with("Thread.")), "{runtime}");
        for (method, least, most) in [("Caller.Spin", 195, 400), ("Caller.Rest", 100, 400)] {
            let own = own_time(&rows, method);
            let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
            assert!((least..most).contains(&own), "{runtime}: {method} took {own:?}");
        }
        // The threads are distinguished.
        let sums = &report.series("calls")["sums"];
        let names: std::collections::BTreeSet<_> = sums["thread"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|thread| {
                report.0["threads"][thread.as_u64().unwrap() as usize]["name"].as_str()
            })
            .collect();
        assert!(
            ["worker-0", "worker-1", "worker-2", "worker-3"]
                .iter()
                .all(|name| names.contains(name)),
            "{names:?}"
        );
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in ["Calls", "Caller.Spin", "per call", "every one counted"] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
    }
}

/// glibc finds the places of a library's thread-locals without allocating them only as long as it
/// has room for them.
#[test]
fn arguments_are_kept_where_thread_locals_are_allocated_at_the_first_call() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "calls.clrscope");
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "50", "--fib", "10"]);
        let launch = launch.env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=0");
        // The first of these that a thread calls has arguments in all registers.
        let mut process = under(launch, &output, "calls:filter=*.Caller.Many", &[]).start();
        process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        assert!(calls_of(&Report::of(&output).calls("calls"), "Caller.Many") >= 50, "{runtime}");
    }
}

#[test]
fn threads_that_recurse_and_throw_stay_in_balance() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "stress.clrscope");
        let launch =
            Sample::named("caller").launch(runtime, &["--stress", "8", "--rounds", "2000"]);
        let profilers = "calls:filter=Clrscope.Samples.Caller.*,exceptions,gc";
        let mut process = under(launch, &output, profilers, &[]).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        let rows = report.calls("calls");
        for (method, count) in truth["methods"].as_object().unwrap() {
            assert_eq!(Some(calls_of(&rows, method)), count.as_u64(), "{runtime}: {method}");
        }
        // However often an exception has left them, no round is below another one.
        let nested = rows.iter().find(|(path, ..)| {
            path.iter().filter(|name| *name == "Caller.StressRound").count() > 1
        });
        assert_eq!(nested, None, "{runtime}");
        let deepest = rows
            .iter()
            .map(|(path, ..)| path.iter().filter(|name| *name == "Caller.Recurse").count())
            .max();
        assert_eq!(deepest, Some(65), "{runtime}");
    }
}

#[test]
fn hooks_in_every_method_there_is_do_no_harm() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "everything.clrscope");
        // Exceptions, faults, dynamic methods, short-lived threads, tasks, generics: .NET's own
        // methods included.
        let launch = Sample::named("mixed").launch(runtime, &["--seconds", "2"]);
        let mut process = under(launch, &output, "calls:filter=*,transitions,gc", &[]).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        assert_eq!(truth["sample"], "mixed", "{runtime}");
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}: {}", report.0["observer"]);
        let calls = report.series("calls")["samples"].as_u64().unwrap();
        assert!(calls > 500_000, "{runtime}: {calls} calls");
        assert!(report.series("transitions")["samples"].as_u64().unwrap() > 1000, "{runtime}");
    }
}

#[test]
fn what_does_not_fit_is_not_there_and_the_exit_code_stays() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "some.clrscope");
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "100"]);
        let filter = "calls:filter=*.Caller.F?b+*Circle.*+-*.ctor";
        let mut process = under(launch, &output, filter, &[]).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let rows = Report::of(&output).calls("calls");
        let known: std::collections::BTreeSet<&str> =
            rows.iter().filter_map(|(path, ..)| path.last()).map(String::as_str).collect();
        assert_eq!(
            known.into_iter().collect::<Vec<_>>(),
            ["Caller.Fib", "Circle.Area"],
            "{runtime}"
        );
        assert_eq!(
            Some(calls_of(&rows, "Circle.Area")),
            truth["methods"]["Circle.Area"].as_u64(),
            "{runtime}"
        );
    }
}

#[test]
fn the_program_goes_on_when_the_recording_ends_before_it() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "short.clrscope");
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "1000", "--wait"]);
        let mut process =
            under(launch, &output, "calls:filter=Clrscope.Samples.*", &["-d", "1s"]).start();
        let truth = process.truth(LIMIT);
        assert!(truth["methods"].is_object(), "{runtime}");
        // One second is long over when the program has rested, spun, and been compiled.
        std::thread::sleep(Duration::from_millis(1500));
        let child =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.pid())).unwrap();
        let child: u32 = child.split_whitespace().next().unwrap().parse().unwrap();
        assert!(agent_is_mapped(child), "{runtime}: hooks cannot be taken back");
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["end"]["reason"], "stopped", "{runtime}");
        let notes = report.0["notes"].to_string();
        assert!(notes.contains("never removes its hooks"), "{runtime}: {notes}");
        assert!(!report.calls("calls").is_empty(), "{runtime}");
    }
}

#[test]
fn it_needs_a_launch_and_the_main_slot() {
    let mut process = Sample::named("waiter").start(Runtime::V9.require(), &["--seconds", "30"]);
    process.wait_for_ready();
    let pid = process.pid().to_string();
    for profiler in ["calls", "transitions"] {
        run(["record", &pid, "-p", &format!("cpu,{profiler}")])
            .expect_error(2, &[profiler, "clrscope launch -p", "works only from the start"]);
    }
    let folder = scratch();
    let output = file(&folder, "beside.clrscope");
    let mut command =
        common::clrscope(["launch", "-p", "calls", "-o", output.to_str().unwrap(), "--", "true"]);
    command
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", "{00000000-0000-0000-0000-000000000001}");
    common::Running::start(command).wait().expect_error(125, &["calls", "CORECLR_PROFILER"]);
}

#[test]
fn a_real_application_lives_and_answers() {
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    let launch = TargetProcess::azmcp_launch(Runtime::V10.require());
    let mut process =
        under(launch, &output, "calls:filter=Azure.*+AzureMcp.*+ModelContextProtocol.*", &[])
            .start();
    let bytes = process.feed(3).unwrap();
    assert!(bytes > 10_000, "{bytes} bytes of answer");
    process.close_stdin();
    assert!(process.wait(LIMIT).is_ok(), "{}", process.transcript());
    let report = Report::of(&output);
    assert_eq!(report.0["recording"]["dropped"], 0, "{}", report.0["observer"]);
    let rows = report.calls("calls");
    let total: u64 = rows.iter().map(|(_, calls, _)| calls).sum();
    assert!(total > 10_000, "{total} calls");
}
