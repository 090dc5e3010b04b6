//! `clrscope record -p locks` on every runtime, with a program that knows how long its threads
//! wait.
#![cfg(unix)]
mod common;

use common::{Report, file, recorded_work, run, scratch};
use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// What the rows of a lock have together: waits, nanoseconds, the longest wait.
fn sums(rows: &[&Value]) -> (u64, u64, u64) {
    let of = |row: &Value, field: &str| row["waits_ns"][field].as_u64().unwrap();
    rows.iter().fold((0, 0, 0), |sum, row| {
        (sum.0 + of(row, "count"), sum.1 + of(row, "total"), sum.2.max(of(row, "max")))
    })
}

#[test]
fn every_wait_is_counted_and_measured() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "locks.clrscope");
        let mut process =
            Sample::named("locker").launch(runtime, &["--gate"]).private_tmp().start();
        process.wait_for_ready();
        let (report, truth) =
            recorded_work(&mut process, "locks", &output, Duration::from_millis(500));
        assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
        let rows = report.0["locks"]["locks"].as_array().unwrap();
        for known in truth["locks"].as_object().unwrap().values() {
            let what = format!("{runtime}: {known}");
            let method = known["waited_in"].as_str().unwrap();
            let function = |row: &Value| {
                &report.0["functions"][row["waited_at"]["function"].as_u64().unwrap() as usize]
            };
            let of: Vec<&Value> =
                rows.iter().filter(|row| function(row)["method"] == method).collect();
            assert_eq!(of.len(), 1, "{what}: one row for a lock: {rows:?}");
            let (waits, total, longest) = sums(&of);
            // A thread that loses its processor while it spins may find the lock free: that was no
            // wait to the runtime.
            let all = known["waits"].as_u64().unwrap();
            assert!(waits <= all && waits + all / 20 >= all, "{what}: {of:?}");
            // What the program measures begins a little earlier, with spinning, and ends a little
            // later. On a busy machine a thread may also lose its processor between its own two
            // readings of the clock.
            let (waited, most) =
                (known["waited_ns"].as_u64().unwrap(), known["longest_ns"].as_u64().unwrap());
            let slack = all * 200_000;
            assert!(
                total <= waited && total + slack + waited / 10 > waited,
                "{what}: {total} of {waited} ns"
            );
            assert!(
                longest <= most && longest * 2 > most,
                "{what}: the longest is {longest} of {most} ns"
            );
            assert_eq!(
                report.total_weight("locks", "Clrscope.Samples.Locker", method),
                total,
                "{what}"
            );
            // .NET 8 and newer know the lock and its holder.
            assert_eq!(of[0]["lock"].is_string(), runtime.major() >= 8, "{what}: {of:?}");
            if runtime.major() >= 8 {
                let owner = &report.0["threads"][of[0]["owner"].as_u64().unwrap() as usize];
                assert_eq!(owner["name"], known["held_by"], "{what}: {owner}");
            }
        }
        let hottest =
            &report.0["functions"][rows[0]["waited_at"]["function"].as_u64().unwrap() as usize];
        assert_eq!(hottest["method"], "WaitHot", "{runtime}: {rows:?}");
        let all = &report.0["locks"]["waits_ns"];
        let histogram = all["histogram"].as_array().unwrap();
        let count: u64 = histogram.iter().map(|bar| bar["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(count), all["count"].as_u64(), "{runtime}: {all}");
        let states = report.series("locks")["states"].as_object().unwrap();
        assert_eq!(states.keys().collect::<Vec<_>>(), ["lock"], "{runtime}");
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in ["Locks", "WaitHot", "WaitCold", "mostly held by"] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_launched_program_is_recorded_from_its_start() {
    let folder = scratch();
    let output = file(&folder, "launched.clrscope");
    let launch = Sample::named("locker").launch(Runtime::V9.require(), &["--waits", "20"]);
    let prefix =
        [common::binary(), "launch", "-q", "-p", "locks,gc", "-o", output.to_str().unwrap(), "--"];
    let mut process = launch.under(prefix).start();
    process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success());
    let report = Report::of(&output);
    // Twenty for each lock, and three before the program begins to count.
    let waits = report.0["locks"]["waits_ns"]["count"].as_u64().unwrap();
    assert!((40..=50).contains(&waits), "{waits} waits");
}
