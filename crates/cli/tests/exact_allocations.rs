//! `clrscope launch -p allocations:exact` on every runtime, with a program that knows what it
//! allocates.
#![cfg(unix)]
mod common;

use common::{Report, file, run, scratch};
use serde_json::Value;
use std::{collections::HashMap, path::Path, time::Duration};
use testkit::{Launch, Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

/// A launch of ours around a launch of the test kit.
fn under(launch: Launch, output: &Path, more: &[&str]) -> Launch {
    let prefix = [
        common::binary(),
        "launch",
        "-q",
        "-p",
        "allocations:exact",
        "-o",
        output.to_str().unwrap(),
    ];
    launch.under([&prefix[..], more, &["--"]].concat())
}

/// Objects and bytes.
fn counts(row: &Value) -> (u64, u64) {
    (row["objects"].as_u64().unwrap(), row["bytes"].as_u64().unwrap())
}

fn types(report: &Report) -> HashMap<&str, (u64, u64)> {
    let rows = report.0["allocations"]["exact"]["types"].as_array().unwrap();
    rows.iter().map(|row| (row["type_name"].as_str().unwrap(), counts(row))).collect()
}

#[test]
fn every_object_is_counted_also_of_threads_that_end_and_types_that_go() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "exact.clrscope");
        let launch = Sample::named("allocator")
            .launch(runtime, &["--exact", "--mb", "100", "--large", "40"]);
        let mut process = under(launch, &output, &[]).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}: {}", report.0["observer"]);
        let found = types(&report);
        for (ty, known) in truth["all"].as_object().unwrap() {
            assert_eq!(
                found.get(ty.as_str()),
                Some(&counts(known)),
                "{runtime}: {ty} in {found:#?}"
            );
        }
        // Nothing was counted under a wrong name.
        let passing = found.keys().filter(|ty| ty.starts_with("Passing")).count();
        assert_eq!(passing, 40, "{runtime}: {found:#?}");
        assert!(found.keys().all(|ty| !ty.starts_with("[un")), "{runtime}: {found:#?}");
        // The sums are those of the rows, by type and by thread; what is known is not all there is.
        let exact = &report.0["allocations"]["exact"];
        let total = |rows: &Value| {
            let rows = rows.as_array().unwrap().iter().map(counts);
            rows.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
        };
        assert_eq!(
            (total(&exact["types"]), total(&exact["threads"])),
            (counts(exact), counts(exact)),
            "{runtime}"
        );
        let allocated = truth["allocated"].as_u64().unwrap();
        assert!(
            counts(exact).1 > allocated + 20_000_000,
            "{runtime}: {} of {allocated} bytes",
            counts(exact).1
        );
        // The 40 threads that have ended, and the main thread, are distinguished.
        assert!(exact["threads"].as_array().unwrap().len() > 40, "{runtime}");
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in ["every one counted", "Clrscope.Samples.Heavy", "exact-allocations"] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        assert!(!page.contains('±') && !page.contains("No samples"), "{runtime}: {page}");
    }
}

#[test]
fn a_recording_may_end_before_the_program_and_attaching_is_refused() {
    let runtime = Runtime::V9.require();
    let folder = scratch();
    let output = file(&folder, "part.clrscope");
    let launch = Sample::named("allocator").launch(runtime, &["--seconds", "4", "--large", "0"]);
    let mut process = under(launch, &output, &["--duration", "1s"]).start();
    let truth = process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    let report = Report::of(&output);
    let heavy = types(&report)["Clrscope.Samples.Heavy"].0;
    let all = truth["types"]["Clrscope.Samples.Heavy"]["objects"].as_u64().unwrap();
    assert!(heavy > 1000 && heavy < all, "{heavy} of {all}");
    let notes = report.0["notes"].to_string();
    assert!(notes.contains("remains loaded"), "{notes}");
    let mut target =
        Sample::named("allocator").start(runtime, &["--seconds", "30", "--large", "0"]);
    target.wait_for_ready();
    let refused = run(["record", &target.pid().to_string(), "-p", "allocations:exact"]);
    refused.expect_error(2, &["exact-allocations", "launch"]);
}

#[test]
fn a_real_application_lives_and_answers() {
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    let mut process =
        under(TargetProcess::azmcp_launch(Runtime::V10.require()), &output, &[]).start();
    process.feed(20).unwrap();
    process.close_stdin();
    assert!(process.wait(LIMIT).is_ok(), "{}", process.transcript());
    let report = Report::of(&output);
    assert_eq!(report.0["recording"]["dropped"], 0, "{}", report.0["observer"]);
    let found = types(&report);
    assert!(
        found.len() > 500 && found["System.String"].0 > 10_000 && found["byte[]"].1 > 100_000,
        "{found:#?}"
    );
    let unnamed = found.keys().filter(|ty| ty.starts_with("[un")).count();
    assert_eq!(unnamed, 0, "{found:#?}");
}
