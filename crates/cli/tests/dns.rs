//! `clrscope record -p dns` on every runtime, with a program that knows which hosts it looks up.
#![cfg(unix)]
mod common;

use common::{Report, file, recorded_work, run, scratch};
use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

const LIMIT: Duration = Duration::from_secs(60);

fn start(runtime: Runtime) -> TargetProcess {
    let mut process = Sample::named("dns").launch(runtime, &["--gate"]).private_tmp().start();
    process.wait_for_ready();
    process
}

fn end(runtime: Runtime, mut process: TargetProcess) {
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

/// Lookups that one method begins before it waits for any: the ends of most are not known.
const ALL_AT_ONCE: &str = "LocalHost";
/// Lookups that take long.
const SLOW: &str = "localHost";

fn check(runtime: Runtime, report: &Report, truth: &Value) {
    assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
    let dns = &report.0["dns"];
    let (found, known) = (dns["hosts"].as_array().unwrap(), truth["hosts"].as_object().unwrap());
    assert_eq!(found.len(), known.len(), "{runtime}: {dns}");
    for (host, known) in known {
        let row = found.iter().find(|row| row["host"] == host.as_str());
        let row = row.unwrap_or_else(|| panic!("{runtime}: no {host} in {dns}"));
        let what = format!("{runtime}: {row}, truth: {known}");
        for field in ["lookups", "failed"] {
            assert_eq!(row[field], known[field], "{what}");
        }
        assert_eq!(row["open"] == 0, host != ALL_AT_ONCE, "{what}");
        // The events come within the calls.
        for field in ["took_ns", "longest_ns"] {
            assert!(number(row, field) <= number(known, field), "{what}");
            assert!(number(row, field) > 0, "{what}");
        }
    }
    let (row, known) = (&found[0], &known[SLOW]);
    assert_eq!(row["host"], SLOW, "{runtime}: {dns}");
    // They take 0.6 s. On a busy machine, the program's own clock is read somewhat after the end.
    for field in ["took_ns", "longest_ns"] {
        let (took, known) = (number(row, field), number(known, field));
        assert!(took * 10 > known * 8, "{runtime}: {took} of {known}");
    }
}

#[test]
fn every_lookup_is_counted_by_host() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "dns.clrscope");
        let mut process = start(runtime);
        if runtime.major() < 6 {
            let pid = process.pid().to_string();
            let record = ["record", &pid, "-p", "dns", "-o", output.to_str().unwrap()];
            run(record).expect_error(4, &["dns", ".NET 6", "leave out dns"]);
            return end(runtime, process);
        }
        let (report, truth) =
            recorded_work(&mut process, "dns", &output, Duration::from_millis(500));
        check(runtime, &report, &truth);
        let session = output.to_str().unwrap();
        let text = run(["report", session]).expect(0).out;
        let html = run(["report", session, "--format", "html"]).expect(0).out;
        for part in ["DNS lookups", "localHost", "xxxxx", "is not known"] {
            assert!(text.contains(part), "{runtime}: `{part}` is missing in {text}");
            assert!(html.contains(part), "{runtime}: `{part}` is missing in the page");
        }
        end(runtime, process);
    });
}
