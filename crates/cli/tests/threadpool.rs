//! `clrscope record -p threadpool` on every runtime, with a program that starves its thread pool
//! and knows how much.
#![cfg(unix)]
mod common;

use common::{Report, Running, clrscope, file, run, scratch, wait_until_recording};
use rustix::process::Signal;
use serde_json::Value;
use std::{path::Path, time::Duration};
use testkit::{Runtime, Sample, on_sample_runtimes_at_once, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// Records a sample from its `go` to its truth, and gives both.
fn recorded(runtime: Runtime, arguments: &[&str], output: &Path) -> (Report, Value) {
    let mut process = Sample::named("starver").launch(runtime, arguments).private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let mut recorder = Running::start(clrscope([
        "record",
        &pid,
        "-o",
        output.to_str().unwrap(),
        "-p",
        "threadpool",
    ]));
    wait_until_recording(output, &mut recorder);
    process.send_line("go").unwrap();
    let truth = process.truth(LIMIT);
    recorder.signal(Signal::INT);
    recorder.wait().expect(0);
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    let report = Report::of(output);
    assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
    (report, truth)
}

/// The greatest value of a counter of the pool.
fn most(report: &Report, counter: &str) -> f64 {
    let values = report.0["threadpool"]["counters"][counter].as_array();
    let values =
        values.unwrap_or_else(|| panic!("no {counter} in {}", report.0["threadpool"]["counters"]));
    values.iter().map(|value| value["value"].as_f64().unwrap()).fold(0.0, f64::max)
}

/// The culprit is the first: method, state, and that hardly anything else blocks.
fn assert_blocked(report: &Report, what: &str, method: &str, state: &str) {
    let first = &report.0["threadpool"]["blocking"][0];
    let function = &report.0["functions"][first["at"]["function"].as_u64().unwrap() as usize];
    assert_eq!(
        (&function["method"], &first["state"]),
        (&method.into(), &state.into()),
        "{what}: {first}"
    );
    assert!(first["share"].as_f64().unwrap() > 0.9, "{what}: {first}");
}

/// The runtime writes an event each time a worker has run out of work.
#[test]
fn a_pool_that_runs_out_of_work_all_the_time_is_listened_to_now_and_then() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.major() >= 6) {
        let folder = scratch();
        let output = file(&folder, "busy.clrscope");
        let (report, truth) = recorded(runtime, &["--gate", "--busy", "--seconds", "6"], &output);
        let items = truth["done"].as_f64().unwrap() / truth["seconds"].as_f64().unwrap();
        assert!(items > 600.0, "{runtime}: {truth}");
        let notes = report.0["notes"].to_string();
        let (_, note) = notes
            .split_once("events of the thread pool came so fast")
            .unwrap_or_else(|| panic!("{runtime}: {notes}"));
        // Once at least it was not listened to, for 1.9 s.
        let (_, times) = note.split_once("recorded for ").unwrap();
        let mut times = times.split(' ').map_while(|word| match word {
            "of" => Some(f64::NAN),
            word => word.parse::<f64>().ok(),
        });
        let (open, all) = (times.next().unwrap(), times.nth(1).unwrap());
        assert!(open < all - 1.5, "{runtime}: {note}");
        assert!(most(&report, "completed_items_count") > 600.0, "{runtime}");
        assert_ne!(report.0["threadpool"]["health"], "starved", "{runtime}");
    }
}

#[test]
fn profilers_whose_ticks_come_together_look_once_and_suspend_nothing() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let mut busy = Sample::named("mixed")
            .launch(runtime, &["--modes", "cpu", "--threads", "2", "--seconds", "60"])
            .private_tmp()
            .start();
        busy.wait_for_ready();
        let pid = busy.pid().to_string();
        let counters = |engine: &str| {
            let output = file(&folder, "ticks.clrscope");
            let profilers = "wall:rate=10,threadpool,threads";
            let path = output.to_str().unwrap();
            run(["record", &pid, "-p", profilers, "-d", "4s", "--engine", engine, "-o", path])
                .expect(0);
            let report = Report::of(&output);
            let counted = report.0["observer"].as_array().unwrap().last().unwrap()["counters"]
                .as_array()
                .unwrap()
                .clone();
            ["suspensions", "ticks"].map(|name| {
                let counter = counted.iter().find(|counter| counter[0] == name);
                counter.and_then(|counter| counter[1].as_u64()).unwrap_or_default()
            })
        };
        // Four seconds with ten ticks each, at which all three have theirs.
        let [suspensions, ticks] = counters("auto");
        assert!(
            suspensions == 0 && ticks > 60,
            "{runtime}: {suspensions} suspensions, {ticks} ticks"
        );
        // How many of them suspend the runtime, where they must, hangs on what they may cost.
        let [suspensions, ticks] = counters("suspend-walk");
        assert!(
            (5..=46).contains(&suspensions),
            "{runtime}: {suspensions} suspensions, {ticks} ticks"
        );
        busy.kill();
    }
}

#[test]
fn a_starved_pool_is_found_with_what_starves_it() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "starved.clrscope");
        let arguments =
            ["--gate", "--sync-over-async", "100", "--milliseconds", "1000", "--seconds", "7"];
        let (report, truth) = recorded(runtime, &arguments, &output);
        let pool = &report.0["threadpool"];
        let what = format!("{runtime}: {truth}: {}", pool["verdict"]);
        assert_eq!(pool["health"], "starved", "{what}");
        assert_blocked(&report, &what, truth["blocked_in"].as_str().unwrap(), "task");
        let notes = report.0["notes"].to_string();
        assert!(!notes.contains("came so fast"), "it never runs out of work: {what}: {notes}");
        let number = |name: &str| truth[name].as_f64().unwrap();
        let has_counters = runtime.major() >= 6;
        assert_eq!(
            pool["queue_evidence"],
            if has_counters { "length" } else { "workers" },
            "{what}"
        );
        if has_counters {
            // The program reads the length of the queue ten times in a second, and the counters do
            // once, maybe a moment after the program's last reading.
            let queue = most(&report, "queue_length");
            assert!(
                queue <= number("longest_queue") + 20.0 && queue > number("longest_queue") * 0.6,
                "{what}: {queue}"
            );
            let threads = most(&report, "thread_count");
            assert!(
                threads <= number("most_threads") && threads > number("most_threads") * 0.6,
                "{what}: {threads}"
            );
        } else {
            assert_eq!(pool["counters"], serde_json::json!({}), "{what}");
        }
        // Why the pool adds workers: .NET 6 and newer see that they block on tasks.
        let expected = if runtime.major() < 6 { "Starvation" } else { "CooperativeBlocking" };
        let reasons = &pool["adjustments"];
        assert_eq!(reasons[0]["reason"], expected, "{what}: {reasons}");
        let added = reasons[0]["workers"].as_f64().unwrap();
        assert!(
            (added - number("most_threads")).abs() <= 4.0 + number("most_threads") * 0.2,
            "{what}: {reasons}"
        );
        // Workers were blocked for all that the program has measured, and for what had not ended;
        // never for longer than there were workers.
        let blocked = pool["time_ns"]["task"].as_f64().unwrap();
        let most_time = number("most_threads") * (number("seconds") + 1.0) * 1e9;
        assert!(blocked > number("blocked_ns") * 0.8 && blocked < most_time, "{what}: {blocked}");
        let text = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in [
            "Thread pool",
            "Starved",
            "sync over async",
            "Starver.Block",
            if has_counters { "items in the queue" } else { "no worker was free" },
            expected,
        ] {
            assert!(text.contains(part), "{runtime}: `{part}` is missing in {text}");
        }
        assert!(
            !text.contains("\nCounters"),
            "{runtime}: they are in the section of the pool: {text}"
        );
    });
}

#[test]
fn the_same_work_that_awaits_starves_nothing() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "healthy.clrscope");
        let arguments = ["--gate", "--healthy", "100", "--milliseconds", "1000", "--seconds", "6"];
        let (report, truth) = recorded(runtime, &arguments, &output);
        let pool = &report.0["threadpool"];
        let what = format!("{runtime}: {truth}: {}", pool["verdict"]);
        assert_eq!(pool["health"], "healthy", "{what}");
        assert!(pool["time_ns"]["task"].is_null(), "{what}: {}", pool["time_ns"]);
        if runtime.major() < 6 {
            return;
        }
        // An item and the rest of it behind its `await`, a hundred times in a second, but for the
        // first one.
        let values = pool["counters"]["completed_items_count"].as_array().unwrap();
        let mut values: Vec<f64> =
            values.iter().map(|value| value["value"].as_f64().unwrap()).collect();
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        assert!((130.0..320.0).contains(&median), "{what}: {values:?}");
        assert!((5..=9).contains(&values.len()), "{what}: once a second: {values:?}");
    });
}

#[test]
fn sleep_is_told_from_tasks() {
    let folder = scratch();
    let output = file(&folder, "asleep.clrscope");
    let runtime = Runtime::V9.require();
    // Longer than the half second in which the pool wants to see an item taken.
    let arguments = ["--gate", "--sleep", "60", "--milliseconds", "2000", "--seconds", "6"];
    let (report, truth) = recorded(runtime, &arguments, &output);
    let what = format!("{truth}: {}", report.0["threadpool"]["verdict"]);
    assert_eq!(report.0["threadpool"]["health"], "starved", "{what}");
    assert_blocked(&report, &what, "Sleep", "sleep");
    let reasons = report.0["threadpool"]["adjustments"].as_array().unwrap();
    assert!(reasons.iter().any(|row| row["reason"] == "Starvation"), "{what}: {reasons:?}");
}

#[test]
fn a_launched_program_is_recorded_from_its_start() {
    let folder = scratch();
    let output = file(&folder, "launched.clrscope");
    let arguments = ["--sync-over-async", "100", "--milliseconds", "1000", "--seconds", "6"];
    let launch = Sample::named("starver").launch(Runtime::V9.require(), &arguments);
    let prefix = [common::binary(), "launch", "-q", "-p", "threadpool,counters:interval=2", "-o"];
    let mut process =
        launch.under(prefix.into_iter().chain([output.to_str().unwrap(), "--"])).start();
    process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success());
    let report = Report::of(&output);
    assert_eq!(
        report.0["threadpool"]["health"], "starved",
        "{}",
        report.0["threadpool"]["verdict"]
    );
    assert_blocked(&report, "launched", "Block", "task");
    // Both profilers get what they need: all counters, as often as the one that wants them more
    // often.
    let counters = report.0["counters"].as_array().unwrap();
    let heap = counters.iter().find(|counter| counter["name"] == "gc-heap-size").unwrap();
    assert!(heap["values"].as_array().unwrap().len() >= 4, "{heap}");
}
