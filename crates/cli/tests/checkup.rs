//! `clrscope checkup` on real processes: it distinguishes the sick ones from the healthy ones.
#![cfg(unix)]
mod common;

use common::{run, scratch};
use serde_json::Value;
use std::time::Duration;
use testkit::{Kiosk, Runtime, Sample, TargetProcess, on_sample_runtimes_at_once, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// The findings about a clinic with these illnesses, on each runtime, looked at for some seconds.
/// Those that do not need the processors for themselves are looked at at the same time.
fn checkups(illnesses: &str, seconds: u32) -> Vec<(Runtime, Value, Vec<Value>)> {
    let look = |runtime: Runtime| {
        let mut clinic = Sample::named("clinic")
            .launch(runtime, &["--ill", illnesses, "--seconds", "100"])
            .private_tmp()
            .start();
        let truth = clinic.wait_for_line(LIMIT, |line| line.starts_with("truth ")).unwrap();
        clinic.wait_for_ready();
        let pid = clinic.pid().to_string();
        let found = run(["checkup", &pid, "-d", &format!("{seconds}s"), "--json"]).expect(0).json();
        assert_eq!(found["target"]["pid"], clinic.pid());
        let truth = serde_json::from_str(truth.strip_prefix("truth ").unwrap()).unwrap();
        (runtime, truth, of_the_program(&found))
    };
    if illnesses == "cpu-hot-spot" {
        return sample_runtimes().into_iter().map(look).collect();
    }
    on_sample_runtimes_at_once(look)
}

/// Findings about the program itself. Other tests are other processes that use the processors, and
/// that is found as such.
fn of_the_program(found: &Value) -> Vec<Value> {
    let by_others = |finding: &Value| {
        finding["id"] == "cpu-starved"
            && finding["title"].as_str().unwrap().starts_with("other processes")
    };
    found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| !by_others(finding))
        .cloned()
        .collect()
}

/// The clinic with one illness has it as its worst finding, and who is to blame.
fn is_found(illness: &str, seconds: u32) {
    for (runtime, truth, findings) in checkups(illness, seconds) {
        let worst = findings.first().unwrap_or_else(|| panic!("{runtime}: nothing is found"));
        assert_eq!(worst["id"], illness, "{runtime}: {findings:#?}");
        if let Some(culprit) = truth[illness]["culprit"].as_str() {
            assert!(worst["culprit"].as_str().unwrap().contains(culprit), "{runtime}: {worst:#?}");
        }
        assert!(
            !worst["evidence"].as_array().unwrap().is_empty()
                && !worst["next"].as_str().unwrap().is_empty()
        );
        let drawn = worst["figures"].as_array().unwrap().iter();
        let drawn: Vec<&str> = drawn
            .filter_map(|figure| figure["drawing"].as_object()?.keys().next())
            .map(String::as_str)
            .collect();
        if let Some((_, expected)) = DRAWN.iter().find(|(id, _)| *id == illness) {
            assert_eq!(drawn, *expected, "{runtime}: {worst:#?}");
        }
    }
}

/// Evidence that is drawn, too.
const DRAWN: &[(&str, &[&str])] = &[
    ("cpu-hot-spot", &["weights"]),
    ("deadlock", &["graph"]),
    ("exception-storm", &["weights"]),
    ("gc-pressure", &["series"]),
    ("hot-lock", &["weights"]),
    ("leak", &["series", "graph"]),
    ("native-memory", &["series"]),
    ("sync-over-async", &["weights"]),
    ("thread-leak", &["series"]),
];

macro_rules! illnesses {
    ($($name:ident $id:literal $seconds:literal;)+) => {
        $(#[test] fn $name() { is_found($id, $seconds); })+
    };
}

illnesses! {
    a_hot_method "cpu-hot-spot" 5;
    dear_collections "gc-pressure" 5;
    collections_asked_for "induced-gc" 5;
    a_storm_of_exceptions "exception-storm" 5;
    a_hot_lock "hot-lock" 5;
    threads_that_block_on_tasks "sync-over-async" 5;
    a_starving_pool "pool-starvation" 8;
    threads_that_wait_for_ever "zombie-thread" 6;
    threads_that_do_not_end "thread-leak" 8;
    code_without_end "jit-storm" 9;
    memory_that_is_not_managed "native-memory" 8;
    locks_in_a_ring "deadlock" 4;
    objects_that_stay "leak" 5;
    texts_kept_twice "duplicate-strings" 4;
    timers_that_stay "timer-leak" 5;
    slow_finalizers "finalizer-backlog" 8;
    tasks_that_nobody_completes "stuck-task" 4;
}

#[test]
fn a_healthy_service_is_called_so() {
    for (runtime, _, findings) in checkups("", 9) {
        assert_eq!(findings, Vec::<Value>::new(), "{runtime}");
    }
}

#[test]
fn three_illnesses_at_once_stand_above_all_else() {
    let three = ["exception-storm", "hot-lock", "induced-gc"];
    for (runtime, _, findings) in checkups(&three.join(","), 6) {
        let mut first: Vec<&str> =
            findings.iter().take(3).map(|finding| finding["id"].as_str().unwrap()).collect();
        first.sort_unstable();
        assert_eq!(first, three, "{runtime}: {findings:#?}");
    }
}

#[test]
fn a_real_application_gives_no_false_alarm() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let mut azmcp = TargetProcess::azmcp_launch(runtime.require()).private_tmp().start();
        azmcp.feed(1).unwrap();
        let found =
            run(["checkup", &azmcp.pid().to_string(), "-d", "8s", "--json"]).expect(0).json();
        assert_eq!(of_the_program(&found), Vec::<Value>::new(), "{runtime}");
    }
}

#[test]
fn a_web_service_under_load_gives_no_false_alarm() {
    let kiosk = Kiosk::start();
    let load = kiosk.load(4, &["/ok", "/json"]);
    // Once its code is compiled in full.
    std::thread::sleep(Duration::from_secs(4));
    let found =
        run(["checkup", &kiosk.process.pid().to_string(), "-d", "8s", "--json"]).expect(0).json();
    assert!(load.finish() > 1000, "too few requests were answered");
    // The program has a thread that waits for an event that nobody sets.
    let line = Kiosk::line_of("waits-for-event");
    let is_true = |finding: &Value| {
        finding["id"] == "zombie-thread"
            && finding["culprit"].as_str().unwrap().ends_with(&format!(":{line}"))
    };
    let findings = of_the_program(&found);
    assert!(findings.iter().all(is_true), "{findings:#?}");
}

#[test]
fn a_command_is_looked_at_from_its_start_and_keeps_its_exit_code() {
    let folder = scratch();
    let page = common::file(&folder, "page.html");
    let launch = Sample::named("thrower")
        .launch(Runtime::V9.require(), &["--seconds", "4", "--rate", "2000", "--only", "plain"]);
    let checkup = [
        "checkup",
        "--launch",
        "-d",
        "3s",
        "--format",
        "html",
        "--report",
        page.to_str().unwrap(),
        "--",
    ];
    let mut process = launch.under([&[common::binary()], checkup.as_slice()].concat()).start();
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("exception-storm") && page.contains("Thrower"), "{page}");
}

#[test]
fn limits_are_the_users_to_set_and_the_recording_may_be_kept() {
    let folder = scratch();
    let kept = common::file(&folder, "kept.clrscope");
    let mut process = Sample::named("thrower")
        .launch(Runtime::V9.require(), &["--seconds", "30", "--rate", "200", "--only", "plain"])
        .private_tmp()
        .start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let ended = run(["checkup", &pid, "-d", "3s", "-o", kept.to_str().unwrap()]).expect(0);
    assert!(
        ended.out.contains("exception-storm") && ended.err.contains("is kept"),
        "{}{}",
        ended.out,
        ended.err
    );
    let limit = "exception-storm:rate=100000";
    let text = run(["checkup", &pid, "-d", "3s", "--limit", limit]).expect(0).out;
    // Other tests may keep the processors busy, which is found.
    assert!(!text.contains("exception-storm") && text.contains("observed for"), "{text}");
    run(["report", kept.to_str().unwrap()]).expect(0);
    run(["checkup", &pid, "--limit", "exception-storm:speed=1"])
        .expect_error(2, &["exception-storm", "rate"]);
    run(["checkup", "999999999"]).expect_error(3, &["999999999"]);
}
