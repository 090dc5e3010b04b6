//! `clrscope record -p threads` on every runtime, with programs that know which of their threads
//! are zombies or leaked.
#![cfg(unix)]
mod common;

use common::{Fed, Report, file, recorded_work, run, scratch};
use serde_json::Value;
use std::{path::Path, time::Duration};
use testkit::{Runtime, Sample, on_sample_runtimes_at_once};

const LIMIT: Duration = Duration::from_secs(60);

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// What is reported of the thread with this thread id of the operating system.
fn thread<'a>(report: &'a Report, os_tid: &Value) -> &'a Value {
    let threads = array(&report.0["threads"]);
    // A number may have been another thread's before: the last is the one that lives.
    let id = threads
        .iter()
        .rposition(|thread| &thread["os_tid"] == os_tid)
        .unwrap_or_else(|| panic!("no {os_tid}"));
    let rows = array(&report.0["all_threads"]["threads"]);
    rows.iter()
        .find(|row| row["thread"] == id)
        .unwrap_or_else(|| panic!("no row of {os_tid}: {rows:?}"))
}

fn method(report: &Report, place: &Value) -> String {
    let function = place["function"].as_u64().unwrap_or_else(|| panic!("no place: {place}"));
    report.0["functions"][function as usize]["method"].as_str().unwrap().to_owned()
}

/// Records a sample from its `go` to its truth, and gives both.
fn recorded(runtime: Runtime, arguments: &[&str], output: &Path) -> (Report, Value) {
    let mut process = Sample::named("threader").launch(runtime, arguments).private_tmp().start();
    process.wait_for_ready();
    // The last threads end, too.
    let (report, truth) =
        recorded_work(&mut process, "threads", output, Duration::from_millis(1200));
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
    (report, truth)
}

#[test]
fn zombies_and_leaks_are_found() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "sick.clrscope");
        let arguments =
            ["--gate", "--zombie", "3", "--asleep", "2", "--leak", "3", "--seconds", "6"];
        let (report, truth) = recorded(runtime, &arguments, &output);
        for (name, os_tid) in truth["zombies"].as_object().unwrap() {
            let row = thread(&report, os_tid);
            let asleep = name.starts_with("asleep");
            assert_eq!(row["standing"], "zombie-suspect", "{runtime}: {name}: {row}");
            assert_eq!(
                row["confidence"],
                if asleep { "high" } else { "medium" },
                "{runtime}: {name}: {row}"
            );
            let expected = if asleep { "SleepForEver" } else { "WaitForNobody" };
            assert_eq!(method(&report, &row["at"]), expected, "{runtime}: {name}: {row}");
            assert_eq!(
                (&row["role"], &row["time_limit"]),
                (&"program".into(), &false.into()),
                "{runtime}: {row}"
            );
            assert_eq!(row["cpu_ns"], 0, "{runtime}: {row}");
            // The sample starts them before it is ready; `go` and the end of the recording are 7 s
            // later.
            assert!(
                (7.0..120.0).contains(&(row["age_ns"].as_f64().unwrap() / 1e9)),
                "{runtime}: {row}"
            );
        }
        let rows = array(&report.0["all_threads"]["threads"]);
        let suspects: Vec<&Value> =
            rows.iter().filter(|row| row["standing"] == "zombie-suspect").collect();
        for row in &suspects {
            let at = method(&report, &row["at"]);
            assert!(
                ["SleepForEver", "WaitForNobody"].contains(&at.as_str()),
                "{runtime}: {at}: {row}"
            );
        }
        let main = rows.iter().find(|row| row["role"] == "main").unwrap();
        assert_eq!(main["standing"], "progress", "{runtime}: {main}");

        let leaked = truth["leaked"].as_u64().unwrap();
        let starts = array(&report.0["all_threads"]["starts"]);
        assert_eq!(starts[0]["leak"], true, "{runtime}: {starts:?}");
        assert_eq!(method(&report, &starts[0]["at"]), truth["leaked_by"], "{runtime}");
        assert_eq!(
            (&starts[0]["started"], &starts[0]["ended"]),
            (&leaked.into(), &0.into()),
            "{runtime}: {starts:?}"
        );
        assert_eq!(
            starts.iter().filter(|row| row["leak"] == true).count(),
            1,
            "{runtime}: {starts:?}"
        );
        // Attaching starts a thread or two, and some of the runtime end when they have nothing to
        // do.
        let looks = array(&report.0["all_threads"]["snapshots"]);
        let [first, last] =
            [looks.first(), looks.last()].map(|look| look.unwrap()["threads"].as_u64().unwrap());
        assert!(last.abs_diff(first + leaked) <= 4, "{runtime}: {leaked} leaked: {looks:?}");
        let of_leak = rows.iter().filter(|row| !row["started_at"].is_null());
        let of_leak =
            of_leak.filter(|row| method(&report, &row["started_at"]) == truth["leaked_by"]);
        let ids: std::collections::HashSet<u64> =
            of_leak.filter_map(|row| row["managed_id"].as_u64()).collect();
        assert_eq!(ids.len() as u64, leaked, "{runtime}: each has an id of its own");
        // All that wait there, as the last snapshot saw them.
        let waiting = report.total_weight("threads", "Clrscope.Samples.Threader", "WaitForNobody");
        assert_eq!(waiting, leaked + 3, "{runtime}");
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in
            ["zombie, nearly sure", "SleepForEver", "leak  ", "StartLeaked", "merged stacks"]
        {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
    });
}

#[test]
fn threads_that_are_as_they_should_be_raise_no_alarm() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "healthy.clrscope");
        let (report, truth) =
            recorded(runtime, &["--gate", "--healthy", "--seconds", "6"], &output);
        let rows = array(&report.0["all_threads"]["threads"]);
        for row in rows {
            assert_ne!(row["standing"], "zombie-suspect", "{runtime}: {row}");
        }
        for (name, os_tid) in truth["healthy"].as_object().unwrap() {
            let row = thread(&report, os_tid);
            let expected = if name.starts_with("worker") { "progress" } else { "idle" };
            assert_eq!(row["standing"], expected, "{runtime}: {name}: {row}");
            let said = [
                ("out-of-work", "BlockingCollection"),
                ("acceptor", "connection"),
                ("janitor", "time limit"),
            ];
            for (_, part) in said.iter().filter(|(known, _)| known == name) {
                assert!(row["reason"].as_str().unwrap().contains(part), "{runtime}: {name}: {row}");
            }
        }
        let starts = array(&report.0["all_threads"]["starts"]);
        assert!(starts.iter().all(|row| row["leak"] == false), "{runtime}: {starts:?}");
        let short = starts
            .iter()
            .find(|row| !row["at"].is_null() && method(&report, &row["at"]) == truth["ended_by"]);
        let short = short.unwrap_or_else(|| panic!("{runtime}: {starts:?}"));
        assert_eq!(
            (&short["started"], &short["ended"]),
            (&truth["ended"], &truth["ended"]),
            "{runtime}: {short}"
        );
    });
}

#[test]
fn a_launched_program_is_looked_at_from_its_start() {
    let folder = scratch();
    let output = file(&folder, "launched.clrscope");
    let arguments = ["--leak", "4", "--zombie", "2", "--seconds", "5"];
    let launch = Sample::named("threader").launch(Runtime::V9.require(), &arguments);
    let prefix =
        [common::binary(), "launch", "-q", "-p", "threads", "-o", output.to_str().unwrap(), "--"];
    let mut process = launch.under(prefix).start();
    let truth = process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success());
    let report = Report::of(&output);
    let starts = array(&report.0["all_threads"]["starts"]);
    assert_eq!(method(&report, &starts[0]["at"]), "StartLeaked", "{starts:?}");
    assert_eq!(
        (&starts[0]["started"], &starts[0]["leak"]),
        (&truth["leaked"], &true.into()),
        "{starts:?}"
    );
    for os_tid in truth["zombies"].as_object().unwrap().values() {
        let row = thread(&report, os_tid);
        assert_eq!(row["standing"], "zombie-suspect", "{row}");
        assert_eq!(method(&report, &row["started_at"]), "Start", "{row}");
    }
}

#[test]
fn the_application_of_dotnet_10_has_no_zombies() {
    let folder = scratch();
    let output = file(&folder, "threads.clrscope");
    let fed = Fed::start(Runtime::V10.require());
    let pid = fed.pid.to_string();
    run(["record", &pid, "-p", "threads", "-d", "6s", "-o", output.to_str().unwrap()]).expect(0);
    let report = Report::of(&output);
    let rows = array(&report.0["all_threads"]["threads"]);
    let roles = |role: &str| rows.iter().filter(|row| row["role"] == role).count();
    assert!(
        rows.len() > 8 && roles("main") == 1 && roles("pool") > 0 && roles("runtime") > 3,
        "{rows:?}"
    );
    for row in rows {
        let name = &report.0["threads"][row["thread"].as_u64().unwrap() as usize]["name"];
        assert_ne!(row["standing"], "zombie-suspect", "{name}: {row}");
    }
    let starts = array(&report.0["all_threads"]["starts"]);
    assert!(starts.iter().all(|row| row["leak"] == false), "{starts:?}");
    fed.finish();
}

#[test]
fn looks_come_as_often_as_asked() {
    let folder = scratch();
    let output = file(&folder, "every.clrscope");
    let mut process = Sample::named("threader")
        .launch(Runtime::V9.require(), &["--seconds", "30"])
        .private_tmp()
        .start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    run(["record", &pid, "-p", "threads:every=3", "-d", "7s", "-o", output.to_str().unwrap()])
        .expect(0);
    let report = Report::of(&output);
    let looks = array(&report.0["all_threads"]["snapshots"]);
    assert!((2..=3).contains(&looks.len()), "{looks:?}");
    run(["record", &pid, "-p", "threads:every=0"])
        .expect_error(2, &["every", "whole number from 1"]);
}
