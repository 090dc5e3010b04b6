//! `clrscope record -p allocations` on every runtime, with a program that knows what it allocates.
#![cfg(unix)]
mod common;

use common::{Fed, Report, Running, clrscope, file, recorded_work, run, scratch};
use diagnostics::{EventPipeConfig, Provider};
use nettrace::{Reader, allocations};
use profilers::allocations::{AllocationSample, AllocationSampling};
use serde_json::Value;
use std::{path::Path, time::Duration};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// Those that the profiler is for.
fn runtimes() -> impl Iterator<Item = Runtime> {
    sample_runtimes().into_iter().filter(|runtime| runtime.major() >= 6)
}

fn record(pid: u32, output: &Path, more: &[&str]) -> Running {
    let pid = pid.to_string();
    Running::start(clrscope([&["record", &pid, "-o", output.to_str().unwrap()], more].concat()))
}

/// The row of a type.
fn row<'a>(report: &'a Report, ty: &str) -> &'a Value {
    let rows = report.0["allocations"]["types"].as_array().unwrap();
    rows.iter().find(|row| row["type_name"] == ty).unwrap_or_else(|| panic!("no {ty}: {rows:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Asserts that an estimate agrees with the truth: within half as much again as its 95 % interval
/// (one in 300 that is right would fail), and `bias`, the share by which it may be off beyond.
#[track_caller]
fn assert_near(estimate: &Value, truth: f64, bias: f64, what: &str) {
    let (value, margin) =
        (estimate["value"].as_f64().unwrap(), estimate["margin"].as_f64().unwrap());
    let tolerance = margin * 1.5 + truth * bias;
    assert!((value - truth).abs() <= tolerance, "{what}: {value} ± {margin}, the truth is {truth}");
}

#[test]
fn types_and_methods_have_the_bytes_that_they_allocated() {
    for runtime in runtimes() {
        let folder = scratch();
        let output = file(&folder, "allocations.clrscope");
        let mut process =
            Sample::named("allocator").launch(runtime, &["--gate"]).private_tmp().start();
        process.wait_for_ready();
        let (report, truth) =
            recorded_work(&mut process, "allocations", &output, Duration::from_millis(500));
        let allocations = &report.0["allocations"];
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
        let random = runtime.major() >= 10;
        assert_eq!(allocations["sampling"], if random { "random" } else { "tick" }, "{runtime}");
        let all = truth["types"]
            .as_object()
            .unwrap()
            .values()
            .map(|known| known["bytes"].as_f64().unwrap())
            .sum();
        // What fills up 100 KB is a little more often large than it should be.
        let bias = if random { 0.0 } else { 0.05 };
        assert_near(&allocations["bytes"], all, bias + 0.01, &format!("{runtime}: all"));
        for (ty, known) in truth["types"].as_object().unwrap() {
            let what = format!("{runtime}: {ty}");
            let bytes = known["bytes"].as_f64().unwrap();
            let row = row(&report, ty);
            assert_near(&row["bytes"], bytes, bias, &what);
            assert_near(&row["objects"], known["objects"].as_f64().unwrap(), bias, &what);
            let heaps = row["heaps"].as_object().unwrap();
            let expected = if ty == "byte[]" { "large_objects" } else { "small_objects" };
            let on = heaps[expected].as_f64().unwrap() / row["bytes"]["value"].as_f64().unwrap();
            assert!(on > 0.99, "{what}: {heaps:?}");
            // The method that allocates it has its bytes, and is where the row says.
            let method = known["method"].as_str().unwrap();
            let weight =
                report.total_weight("allocations", "Clrscope.Samples.Allocator", method) as f64;
            let value = row["bytes"]["value"].as_f64().unwrap();
            assert!(
                (weight - value).abs() < value * 0.02,
                "{what}: {method} has {weight} of {value}"
            );
            let at = row["allocated_at"]["function"].as_u64().unwrap() as usize;
            assert_eq!(report.0["functions"][at]["method"], method, "{what}");
        }
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in ["Allocations", "Clrscope.Samples.Heavy", "MakeHeavy", "By heap: small objects"]
        {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        assert_eq!(page.contains("biased"), !random, "{runtime}: {page}");
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

/// .NET Core 3.1 can hang when tracing of allocations ends.
#[test]
fn old_runtimes_are_refused_before_anything_is_loaded() {
    let folder = scratch();
    let output = file(&folder, "refused.clrscope");
    let launch = Sample::named("allocator").launch(Runtime::V3_1.require(), &["--gate"]);
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    let parts = ["allocations", ".NET 6", ".NET Core 3.1", "leave out allocations"];
    record(process.pid(), &output, &["-p", "cpu,allocations"]).wait().expect_error(4, &parts);
    assert!(!output.exists());
    assert!(!common::agent_is_mapped(process.pid()));
    assert_eq!(common::left_behind(process.tmp().unwrap()), Vec::<String>::new());

    // A launched program continues.
    let launch = Sample::named("allocator").launch(Runtime::V3_1, &["--mb", "20"]);
    let prefix = [
        common::binary(),
        "launch",
        "-q",
        "-p",
        "allocations",
        "-o",
        output.to_str().unwrap(),
        "--",
    ];
    let mut process = launch.under(prefix).start();
    process.truth(LIMIT);
    assert_eq!(process.wait(LIMIT).unwrap().code(), Some(125), "{}", process.transcript());
    assert!(process.transcript().contains("needs .NET 6"), "{}", process.transcript());
}

/// A program that allocates as fast as it can is recorded in windows only. The estimate from them
/// is right within its error, which is wider.
#[test]
fn a_storm_is_followed_for_a_part_of_the_time() {
    for runtime in runtimes() {
        let folder = scratch();
        let output = file(&folder, "storm.clrscope");
        let launch = Sample::named("allocator").launch(runtime, &["--gate", "--seconds", "6"]);
        let mut process = launch.private_tmp().start();
        process.wait_for_ready();
        // So that a slot is a second or two: an estimate takes several of them.
        let most = 8_000.0;
        let selection = format!("allocations:samples={most},gc");
        let (report, truth) =
            recorded_work(&mut process, &selection, &output, Duration::from_millis(500));
        let allocations = &report.0["allocations"];
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
        let known = truth["types"].as_object().unwrap();
        let all: f64 = known.values().map(|known| known["bytes"].as_f64().unwrap()).sum();
        let [samples, followed] =
            ["samples", "duty_cycle"].map(|key| allocations[key].as_f64().unwrap());
        println!(
            "{runtime}: {all} bytes, {samples} samples, {followed} of the time, {}",
            allocations["bytes"]
        );
        // Two seconds' worth is recorded completely, and what comes until that is noticed: at most
        // half a second.
        let seconds = truth["seconds"].as_f64().unwrap();
        let (storm, noticing) = (all / 102_400.0 / seconds, 0.5);
        assert!(storm > most * 1.5, "{runtime}: no storm: {storm} samples per second");
        let bound = most * (seconds + 3.0) + storm * noticing;
        assert!(
            samples < bound,
            "{runtime}: {samples} samples, at most {bound} should have been taken"
        );
        assert!(followed < 0.9, "{runtime}: {followed}");
        let bias = 0.05;
        assert_near(&allocations["bytes"], all, bias, &format!("{runtime}: all"));
        for (ty, known) in known {
            assert_near(
                &row(&report, ty)["bytes"],
                known["bytes"].as_f64().unwrap(),
                bias,
                &format!("{runtime}: {ty}"),
            );
            let (value, margin) = (
                number(&row(&report, ty)["bytes"]["value"]),
                number(&row(&report, ty)["bytes"]["margin"]),
            );
            assert!(margin < value, "{runtime}: {ty}: {value} ± {margin} says nothing");
        }
        // Who listens to collections as well misses none of them.
        let collections: u64 = report.collections().iter().sum();
        assert!(collections > 10, "{runtime}: {collections}");
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in
            ["Allocations were recorded in windows", "came faster than 8000 samples per second"]
        {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

/// All allocation events, of a session of our own, while a process answers `requests` requests.
fn events_of_requests(
    process: &mut TargetProcess,
    requests: u32,
    keywords: u64,
    level: u32,
) -> Vec<AllocationSample> {
    let port = diagnostics::find_pid(process.pid()).and_then(|process| process.port()).unwrap();
    let provider = Provider::new(Provider::RUNTIME, keywords, level);
    let session = port.collect(&EventPipeConfig::new(vec![provider])).unwrap();
    let stopper = session.stopper();
    let reader = std::thread::spawn(move || {
        let (mut reader, mut events) = (Reader::new(session), Vec::new());
        loop {
            match reader.next_event() {
                Ok(Some(event)) => {
                    events.extend(allocations::parse(&event).map(|event| event.sample.row));
                }
                Err(error) if error.is_timeout() => {}
                Ok(None) | Err(_) => return events,
            }
        }
    });
    process.feed(requests).unwrap();
    stopper.stop(LIMIT).unwrap();
    reader.join().unwrap()
}

/// .NET 10 sends no ticks while it samples randomly, and no program of ours runs on it. So an
/// application does the same work twice: the bytes between ticks, which are counted, are the truth.
#[test]
fn samples_by_chance_agree_with_what_the_runtime_counts() {
    let mut process = TargetProcess::azmcp_launch(Runtime::V10.require()).private_tmp().start();
    process.feed(40).unwrap();
    let bytes = |samples: &[AllocationSample]| {
        samples.iter().map(|sample| sample.bytes as f64).sum::<f64>()
    };
    let before = bytes(&events_of_requests(&mut process, 200, 0x1, 5));
    let samples = events_of_requests(&mut process, 400, 0x800_0000_0000, 4);
    let after = bytes(&events_of_requests(&mut process, 200, 0x1, 5));
    assert!(
        samples
            .iter()
            .all(|sample| sample.sampling == AllocationSampling::Random && sample.size > 0),
        "{samples:?}"
    );
    let (estimate, truth) = (bytes(&samples), before + after);
    let margin =
        1.96 * samples.iter().map(|sample| (sample.bytes as f64).powi(2)).sum::<f64>().sqrt();
    let what = format!(
        "{} samples: {estimate} ± {margin}, the truth is {before} + {after}",
        samples.len()
    );
    println!("{what}");
    // What is compiled or begins meanwhile makes the halves differ.
    assert!(
        (estimate - truth).abs() < margin * 1.5 + truth * 0.03 + (before - after).abs(),
        "{what}"
    );
}

#[test]
fn a_real_application_is_sampled_by_chance() {
    let fed = Fed::start(Runtime::V10.require());
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    record(fed.pid, &output, &["-p", "allocations", "--duration", "3s"]).wait().expect(0);
    let report = Report::of(&output);
    let allocations = &report.0["allocations"];
    assert_eq!(allocations["sampling"], "random");
    let samples = allocations["samples"].as_f64().unwrap();
    assert!(samples > 100.0, "{allocations}");
    // The mean distance of samples is 100 KB; objects that are larger than that stand for
    // themselves.
    let bytes = allocations["bytes"]["value"].as_f64().unwrap();
    assert!(bytes >= samples * 102_400.0 * 0.99, "{samples} samples for {bytes} bytes");
    let most = &allocations["types"][0];
    assert!(most["objects"]["value"].as_f64().unwrap() > 100.0, "{most}");
    assert!(
        most["share"]["low"].as_f64().unwrap() < most["share"]["share"].as_f64().unwrap(),
        "{most}"
    );
    // Names are known of nearly all frames.
    let frames = report.0["frames"].as_array().unwrap();
    let named = |frame: &&Value| {
        report.0["functions"][frame["function"].as_u64().unwrap() as usize]["kind"] == "managed"
    };
    let share = frames.iter().filter(named).count() as f64 / frames.len() as f64;
    assert!(share > 0.9, "{share} of {} frames", frames.len());
    fed.finish();
}

#[test]
fn a_launched_program_is_recorded_from_its_start() {
    let folder = scratch();
    let output = file(&folder, "launched.clrscope");
    let launch = Sample::named("allocator").launch(Runtime::V9.require(), &["--mb", "200"]);
    let prefix = [
        common::binary(),
        "launch",
        "-q",
        "-p",
        "allocations",
        "-o",
        output.to_str().unwrap(),
        "--",
    ];
    let mut process = launch.under(prefix).start();
    let truth = process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success());
    let report = Report::of(&output);
    // What is allocated before the truth begins is seen as well: 20 MB of warming up, and the start
    // of the runtime.
    let bytes = report.0["allocations"]["bytes"]["value"].as_f64().unwrap();
    let known: f64 = truth["types"]
        .as_object()
        .unwrap()
        .values()
        .map(|known| known["bytes"].as_f64().unwrap())
        .sum();
    assert!(bytes > known && bytes < known + 60e6, "{bytes} bytes, {known} of them known");
}
