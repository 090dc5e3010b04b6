//! Thread states on every runtime, with a program whose threads know for how long they were in
//! which state.
#![cfg(target_os = "linux")]
mod common;

use common::{Report, Running, clrscope, file, run, scratch, wait_until_recording};
use rustix::process::Signal;
use serde_json::Value;
use session::{SessionReader, SessionRecord};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::Path,
    time::Duration,
};
use testkit::{ControlGroup, Launch, Runtime, Sample, on_sample_runtimes_at_once, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// How far a share may be off, besides the noise of sampling.
const OFF: f64 = 0.02;

/// A control group of the CPU controller with a quota; `None` where this machine has no such
/// controller that we may use.
fn with_quota(time_us: u32, period_us: u32) -> Option<ControlGroup> {
    let group = ControlGroup::new("cpu", &format!("states-{time_us}"))?;
    if group.is_v1() {
        group.set("cpu.cfs_period_us", &period_us.to_string()).ok()?;
        group.set("cpu.cfs_quota_us", &time_us.to_string()).ok()?;
    } else {
        group.set("cpu.max", &format!("{time_us} {period_us}")).ok()?;
    }
    Some(group)
}

/// In how many periods a group was throttled, and for how many seconds, the sum over all
/// processors.
fn throttled(group: &ControlGroup) -> [f64; 2] {
    let stat = group.get("cpu.stat").unwrap();
    let number = |name: &str| {
        let line = stat
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{stat}"));
        line.trim().parse::<f64>().unwrap()
    };
    let seconds = if group.is_v1() {
        number("throttled_time ") / 1e9
    } else {
        number("throttled_usec ") / 1e6
    };
    [number("nr_throttled "), seconds]
}

/// A launch in a control group, on one processor of those that we may use.
fn in_group(launch: Launch, group: Option<&ControlGroup>) -> Launch {
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let first =
        allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = first.split([',', '-']).next().unwrap();
    let pinned = launch.under(["taskset", "-c", first]);
    match group {
        Some(group) => group.enter(pinned),
        None => pinned,
    }
}

/// Records the sample from its `go` to its truth; gives the report, the truth, and how much `group`
/// was throttled.
fn recorded(
    launch: Launch,
    profiler: &str,
    output: &Path,
    group: Option<&ControlGroup>,
) -> (Report, Value, [f64; 2]) {
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let mut recorder =
        Running::start(clrscope(["record", &pid, "-o", output.to_str().unwrap(), "-p", profiler]));
    wait_until_recording(output, &mut recorder);
    let before = group.map_or([0.0; 2], throttled);
    process.send_line("go").unwrap();
    let truth = process.truth(LIMIT);
    let now = group.map_or([0.0; 2], throttled);
    let throttled = [now[0] - before[0], now[1] - before[1]];
    recorder.signal(Signal::INT);
    recorder.wait().expect(0);
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    (Report::of(output), truth, throttled)
}

/// Seconds of each state in the samples of a thread.
fn measured(report: &Report, os_tid: &Value) -> BTreeMap<String, f64> {
    let threads = report.0["threads"].as_array().unwrap();
    let thread = threads.iter().find(|thread| thread["os_tid"] == *os_tid);
    let id = &thread.unwrap_or_else(|| panic!("{os_tid} is missing: {threads:?}"))["id"];
    let sums = &report.series("wall")["sums"];
    let column = |name: &str| sums[name].as_array().unwrap().iter();
    let mut seconds: BTreeMap<String, f64> = BTreeMap::new();
    for ((thread, state), weight) in column("thread").zip(column("state")).zip(column("weight")) {
        if thread == id {
            *seconds.entry(state.as_str().unwrap().to_owned()).or_default() +=
                weight.as_f64().unwrap() / 1e9;
        }
    }
    seconds
}

fn shares(seconds: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let all: f64 = seconds.values().sum();
    seconds.iter().map(|(state, seconds)| (state.clone(), seconds / all)).collect()
}

/// Times between the ticks of a recording, seconds. On a busy machine some ticks are left out to
/// spare the target.
fn intervals(session: &Path) -> Vec<f64> {
    let records = SessionReader::new(File::open(session).unwrap()).unwrap();
    let mut ticks = BTreeSet::new();
    for record in records {
        let SessionRecord::WallSamples(batch) = record.unwrap() else { continue };
        let mut time = batch.start;
        for delta in batch.time_delta {
            time += delta;
            ticks.insert(time);
        }
    }
    let ticks: Vec<u64> = ticks.into_iter().collect();
    ticks.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect()
}

/// Three standard errors of a share of `seconds` in which a thread changed its state `changes`
/// times.
///
/// A tick is too early or too late for a change by up to the interval in which that falls, evenly:
/// a standard error of interval/√12. A change falls into an interval the more likely the longer
/// that is, and the errors of all changes add up like random numbers. The first and the last tick
/// of a thread are such errors too.
fn noise(changes: f64, intervals: &[f64], seconds: f64) -> f64 {
    let sum = |power: i32| intervals.iter().map(|interval| interval.powi(power)).sum::<f64>();
    3.0 * ((changes + 2.0) * sum(3) / sum(1) / 12.0).sqrt() / seconds
}

/// Compares what was seen of each thread of a recording with its own truth.
fn compare(what: &str, report: &Report, session: &Path, truth: &Value) {
    let intervals = intervals(session);
    for (name, known) in truth["threads"].as_object().unwrap() {
        let number = |part: &Value| part.as_f64().unwrap();
        let seconds = known["seconds"].as_object().unwrap();
        let truth: BTreeMap<String, f64> =
            seconds.iter().map(|(state, time)| (state.clone(), number(time))).collect();
        let lifetime: f64 = truth.values().sum();
        let truth = shares(&truth);
        let seen = measured(report, &known["tid"]);
        // On a busy machine the next tick may not come before the thread has ended; nothing is
        // known of that time.
        let unseen = (1.0 - seen.values().sum::<f64>() / lifetime).max(0.0);
        let seen = shares(&seen);
        let (kernel, changes) = (&known["kernel"], number(&known["changes"]));
        let near = OFF + noise(changes, &intervals, lifetime) + unseen;
        let what = format!(
            "{what}: {name}: {seen:.3?}, the truth is {truth:.3?} within {near:.3}; {kernel}"
        );
        println!("{what}");
        let of = |shares: &BTreeMap<String, f64>, states: &[&str]| -> f64 {
            states.iter().filter_map(|state| shares.get(*state)).sum()
        };
        // A thread is ready from the moment it is woken, and notices the end of its wait when it
        // has a processor.
        let by_kernel = (number(&kernel["ran"]) + number(&kernel["waited"])) / 1e9 / lifetime;
        let computes = truth.contains_key("running");
        let late = (by_kernel - of(&truth, &["running", "no-processor"])).max(0.0);
        for state in ["lock", "event", "io", "sleep"] {
            let (seen, truth) = (of(&seen, &[state]), of(&truth, &[state]));
            assert!(seen < truth + near && seen > truth - near - late, "{state}: {what}");
        }
        if computes {
            // It waits for the runtime now and then.
            let ready = of(&seen, &["running", "no-processor", "throttled", "runtime", "gc"]);
            assert!(
                (ready - by_kernel).abs() < near,
                "{ready:.3} ready, {by_kernel:.3} by the kernel: {what}"
            );
        }
    }
}

#[test]
fn waits_have_their_right_names_and_shares() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "waits.clrscope");
        let launch = Sample::named("states").launch(runtime, &["--gate", "--seconds", "8"]);
        let (report, truth, _) = recorded(launch, "wall:rate=100", &output, None);
        compare(&runtime.to_string(), &report, &output, &truth);
        let text = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in ["event", "lock", "Processors: "] {
            assert!(text.contains(part), "{runtime}: `{part}` is missing in {text}");
        }
    }
}

#[test]
fn threads_that_take_no_lock_wait_for_none() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "computing.clrscope");
        let launch =
            Sample::named("states").launch(runtime, &["--gate", "--seconds", "5", "--compute"]);
        let (report, truth, _) = recorded(launch, "wall", &output, None);
        compare(&runtime.to_string(), &report, &output, &truth);
    }
}

#[test]
fn ready_threads_without_a_processor_do_not_run() {
    // Three loops on one processor, of which the quota leaves a half.
    let group = with_quota(50_000, 100_000);
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "starved.clrscope");
        let sample =
            Sample::named("states").launch(runtime, &["--gate", "--seconds", "8", "--spin", "3"]);
        let launch = in_group(sample, group.as_ref());
        let (report, truth, [periods, throttled]) =
            recorded(launch, "wall", &output, group.as_ref());
        let threads = truth["threads"].as_object().unwrap();
        let (mut known, mut seen, mut lifetime) = (0.0, BTreeMap::<String, f64>::new(), 0.0);
        for of in threads.values() {
            let part = |state: &str| of["seconds"][state].as_f64().unwrap();
            known += part("running");
            lifetime += part("running") + part("no-processor");
            for (state, seconds) in measured(&report, &of["tid"]) {
                *seen.entry(state).or_default() += seconds;
            }
        }
        let seen = shares(&seen);
        let of = |state: &str| seen.get(state).copied().unwrap_or_default();
        let known = known / lifetime;
        // While their only processor is throttled, all of them wait.
        let throttled = throttled * threads.len() as f64 / lifetime;
        // Ticks and periods of the quota are cut at both ends.
        let cut = intervals(&output).into_iter().fold(0.1, f64::max);
        let edges = 2.0 * cut * threads.len() as f64 / lifetime;
        let what = format!(
            "{runtime}: {seen:.3?}; {known:.3} ran, {throttled:.3} throttled; edges {edges:.3}"
        );
        println!("{what}");
        assert!((of("running") - known).abs() < OFF + edges, "{what}");
        assert!((of("throttled") - throttled).abs() < OFF + edges, "{what}");
        let waited = 1.0 - known - throttled;
        assert!((of("no-processor") - waited).abs() < OFF + 2.0 * edges, "{what}");
        let used = &report.0["processor_use"];
        assert_eq!(used["processors"], 1, "{what}: {used}");
        assert_eq!(
            used["quota"]["time_ns"].as_u64(),
            group.as_ref().map(|_| 50_000_000),
            "{what}: {used}"
        );
        // What the program does before its `go` and after its truth is in the one or the other.
        let counted = used["throttled_periods"].as_f64().unwrap();
        assert!((counted - periods).abs() <= 10.0, "{what}: {periods} {used}");
    }
}

#[test]
fn a_process_without_processors_is_found_to_be_starved() {
    let Some(group) = with_quota(20_000, 100_000) else {
        println!("no CPU controller that we may use: nothing to test");
        return;
    };
    let runtime = Runtime::V9.require();
    let sample = Sample::named("states").launch(runtime, &["--seconds", "60", "--spin", "2"]);
    let mut starved = in_group(sample, Some(&group)).private_tmp().start();
    starved.wait_for_ready();
    let found = run(["checkup", &starved.pid().to_string(), "-d", "5s", "--no-heap", "--json"])
        .expect(0)
        .json();
    let findings = found["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["id"] == "cpu-starved");
    let finding = finding.unwrap_or_else(|| panic!("{findings:#?}"));
    assert_eq!(finding["severity"], "high", "{finding:#?}");
    let evidence = finding["evidence"].to_string();
    for part in ["0.20 processors", "1 may be used", "of the time in which they were ready"] {
        assert!(evidence.contains(part), "`{part}` is missing in {evidence}");
    }
    starved.kill();
}

#[test]
fn a_busy_process_that_has_its_processors_is_not_starved() {
    let runtime = Runtime::V9.require();
    let loops = std::thread::available_parallelism().unwrap().to_string();
    let sample = Sample::named("states").launch(runtime, &["--seconds", "60", "--spin", &loops]);
    let mut busy = sample.private_tmp().start();
    busy.wait_for_ready();
    let found = run(["checkup", &busy.pid().to_string(), "-d", "5s", "--no-heap", "--json"])
        .expect(0)
        .json();
    let findings = found["findings"].as_array().unwrap();
    for starved in findings.iter().filter(|finding| finding["id"] == "cpu-starved") {
        // Where other tests keep the processors busy at the same time, that is found, and must be
        // true.
        let evidence: Vec<&str> = starved["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part.as_str().unwrap())
            .collect();
        let processors = evidence.iter().find(|part| part.starts_with("processors: ")).unwrap();
        let numbers: Vec<f64> =
            processors.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let [allowed, all, ours] = numbers[..] else { panic!("{starved:#?}") };
        assert!(all - ours >= 0.24 * allowed, "it has its processors for itself: {starved:#?}");
    }
    busy.kill();
}

/// More threads that compute than processors: nothing waits for them to stop, so the ticks come in
/// time.
#[test]
fn busy_threads_hold_up_no_tick() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "busy.clrscope");
        let launch =
            Sample::named("states").launch(runtime, &["--gate", "--seconds", "4", "--spin", "6"]);
        let (report, ..) = recorded(launch, "wall", &output, None);
        let intervals = intervals(&output);
        let held = intervals.len() as f64 / (intervals.iter().sum::<f64>() * 20.0);
        println!("{runtime}: {:.1} % of the ticks", held * 100.0);
        // Some are late on a machine that has other work.
        assert!(held > 0.8, "{runtime}: {held:.3} of the ticks: {intervals:.3?}");
        let observer = report.0["observer"].as_array().unwrap().last().unwrap();
        let counted = observer["counters"].as_array().unwrap();
        assert!(counted.iter().all(|counter| counter[0] != "suspensions"), "{runtime}: {observer}");
    }
}

/// Where running threads have no samples of their own, all are walked: the report says so, and the
/// states are the same.
#[test]
fn states_are_right_where_threads_are_walked() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "walked.clrscope");
        // Threads get their names while it is recorded: of those from before, .NET Core 3.1 tells
        // none.
        let mut process = Sample::named("states").start(runtime, &["--gate", "--seconds", "3"]);
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let to = output.to_str().unwrap();
        let mut recorder = Running::start(clrscope([
            "record",
            &pid,
            "-o",
            to,
            "-p",
            "wall",
            "--engine",
            "suspend-walk",
        ]));
        wait_until_recording(&output, &mut recorder);
        process.send_line("go").unwrap();
        process.truth(LIMIT);
        recorder.signal(Signal::INT);
        recorder.wait().expect(0);
        let report = Report::of(&output);
        let engine = report.0["recording"]["profilers"][0]["engine"].as_str().unwrap();
        assert!(engine.starts_with("suspend and walk"), "{runtime}: {engine}");
        let threads = report.0["threads"].as_array().unwrap();
        let thread = threads.iter().find(|thread| thread["name"] == "driver").unwrap();
        let seen = shares(&measured(&report, &thread["os_tid"]));
        assert!(seen.get("sleep").is_some_and(|share| *share > 0.9), "{runtime}: {seen:.3?}");
    });
}
