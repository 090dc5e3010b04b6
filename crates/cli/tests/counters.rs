//! `clrscope record -p counters` on every runtime, with programs whose counters are known.
#![cfg(unix)]
mod common;

use common::{Fed, Report, file, run, scratch};
use serde_json::Value;
use testkit::{Runtime, Sample, sample_runtimes};

/// The counters of a source by name.
fn counters<'a>(report: &'a Report, source: &str) -> Vec<(&'a str, &'a Value)> {
    let all = report.0["counters"].as_array().unwrap().iter();
    all.filter(|counter| counter["source"] == source)
        .map(|counter| (counter["name"].as_str().unwrap(), counter))
        .collect()
}

fn values(counter: &Value) -> Vec<f64> {
    counter["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value["value"].as_f64().unwrap())
        .collect()
}

/// A value in the middle of all: the first and the last interval may be odd.
fn median(counter: &Value) -> f64 {
    let mut values = values(counter);
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn event_counters_and_meters_say_what_the_program_does() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.major() >= 6) {
        let folder = scratch();
        let output = file(&folder, "counters.clrscope");
        let arguments = ["--seconds", "16", "--rate", "500", "--only", "plain"];
        let mut process =
            Sample::named("thrower").launch(runtime, &arguments).private_tmp().start();
        process.wait_for_ready();
        let has_meter = runtime.major() >= 9;
        // Intervals of two seconds, so that an increase differs from a rate.
        let selection =
            if has_meter { "counters:interval=2:meters=System.Runtime" } else { "counters" };
        let pid = process.pid().to_string();
        let summary = run([
            "record",
            &pid,
            "-p",
            selection,
            "-d",
            "9s",
            "-o",
            output.to_str().unwrap(),
            "--json",
        ]);
        let summary = summary.expect(0).json();
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}: {summary}");
        let known = counters(&report, "System.Runtime");
        let find = |name: &str| {
            known
                .iter()
                .find(|(known, _)| *known == name)
                .unwrap_or_else(|| panic!("{runtime}: {known:?}"))
                .1
        };
        let exceptions = find("exception-count");
        assert_eq!(exceptions["kind"], "rate", "{runtime}");
        assert!((400.0..600.0).contains(&median(exceptions)), "{runtime}: {exceptions}");
        let heap = find("gc-heap-size");
        assert_eq!((&heap["kind"], &heap["unit"]), (&"level".into(), &"MB".into()), "{runtime}");
        assert!(values(heap).iter().all(|size| (0.0..500.0).contains(size)), "{runtime}: {heap}");
        let cpu = find("cpu-usage");
        assert!(values(cpu).iter().all(|share| (0.0..=100.0).contains(share)), "{runtime}: {cpu}");
        assert!(values(cpu).len() >= 3, "{runtime}: a value each interval: {cpu}");
        let times: Vec<u64> = cpu["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["time_ns"].as_u64().unwrap())
            .collect();
        assert!(
            times.is_sorted() && times.iter().all(|time| *time < 12_000_000_000),
            "{runtime}: {times:?}"
        );
        if has_meter {
            // The same from the meter of that name: .NET 9 counts exceptions by type.
            let is_it = |counter: &Value| counter["tags"] == "error.type=PlainException";
            let thrown =
                known.iter().find(|(name, counter)| *name == "dotnet.exceptions" && is_it(counter));
            let (_, thrown) = thrown.unwrap_or_else(|| panic!("{runtime}: {known:?}"));
            assert!((400.0..600.0).contains(&median(thrown)), "{runtime}: {thrown}");
        }
        let text = run(["report", output.to_str().unwrap()]).expect(0).out;
        assert!(
            text.contains("Counters") && text.contains("over time") && text.contains("CPU Usage"),
            "{text}"
        );
        process.truth(std::time::Duration::from_secs(60));
    }
}

#[test]
fn the_application_of_dotnet_10_counts_too() {
    let folder = scratch();
    let output = file(&folder, "counters.clrscope");
    let fed = Fed::start(Runtime::V10.require());
    let pid = fed.pid.to_string();
    let selection = "counters:providers=System.Runtime+No.Such.Source:meters=System.Runtime";
    run(["record", &pid, "-p", selection, "-d", "5s", "-o", output.to_str().unwrap()]).expect(0);
    let report = Report::of(&output);
    let known = counters(&report, "System.Runtime");
    for name in ["working-set", "threadpool-thread-count", "dotnet.process.memory.working_set"] {
        let counter = known
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("{name} in {known:?}"))
            .1;
        assert!(median(counter) > 0.0, "{counter}");
    }
    fed.finish();
}

#[test]
fn a_recording_without_values_says_so() {
    let folder = scratch();
    let output = file(&folder, "none.clrscope");
    let mut process = Sample::named("waiter")
        .launch(Runtime::V9.require(), &["--seconds", "30"])
        .private_tmp()
        .start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    run([
        "record",
        &pid,
        "-p",
        "counters:interval=3600",
        "-d",
        "300ms",
        "-o",
        output.to_str().unwrap(),
    ])
    .expect(0);
    let text = run(["report", output.to_str().unwrap()]).expect(0).out;
    assert!(text.contains("No values: recordings"), "{text}");
    run(["record", &pid, "-p", "counters:interval=0"])
        .expect_error(2, &["interval", "whole number from 1"]);
}

#[test]
fn old_runtimes_are_refused_before_anything_is_loaded() {
    let folder = scratch();
    let output = file(&folder, "refused.clrscope");
    let launch = Sample::named("allocator").launch(Runtime::V3_1.require(), &["--gate"]);
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let parts = ["counters", ".NET 6", ".NET Core 3.1", "crashes", "leave out counters"];
    run(["record", &pid, "-d", "1s", "-p", "gc,counters", "-o", output.to_str().unwrap()])
        .expect_error(4, &parts);
    assert!(!output.exists());
    assert!(!common::agent_is_mapped(process.pid()));
    assert_eq!(common::left_behind(process.tmp().unwrap()), Vec::<String>::new());

    // A checkup does without, and says so. For EventCounters, the runtime would load assemblies.
    let assemblies = || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let mut names: Vec<String> =
            paths.filter(|path| path.ends_with(".dll")).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    };
    let before = assemblies();
    let found = run(["checkup", &pid, "-d", "4s", "--no-heap", "--json"]).expect(0).json();
    let notes = found["notes"].to_string();
    assert!(notes.contains("counters was left out"), "{notes}");
    assert_eq!(assemblies(), before);
    process.close_stdin();
}
