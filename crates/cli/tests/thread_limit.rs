//! Programs near the limit of threads that they may have (`pids.max` of a container).
#![cfg(target_os = "linux")]
mod common;

use common::{Running, agent_is_mapped, clrscope, file, scratch};
use std::{thread::sleep, time::Duration};
use testkit::{ControlGroup, Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

const LIMIT: Duration = Duration::from_secs(60);

/// What one attached recording can record beside another profiler.
const MANY: &str = "cpu,wall,exceptions,gc,locks,threads,threadpool,jit,loads";

/// The program in a group of its own; `None` where this machine has no controller of threads that
/// we may use.
fn started(runtime: Runtime, mode: &str) -> Option<(ControlGroup, TargetProcess)> {
    let group = ControlGroup::new("pids", &format!("{mode}-{runtime}"))?;
    let launch = Sample::named("harmtarget").launch(runtime, &["--mode", mode, "--seconds", "120"]);
    let mut process = group.enter(launch).private_tmp().start();
    process.wait_for_ready();
    Some((group, process))
}

fn ends_well(runtime: Runtime, mut process: TargetProcess) {
    process.close_stdin();
    let ended = process.wait(LIMIT).unwrap();
    assert!(ended.success(), "{runtime}: {ended:?} {}", process.transcript());
}

/// It has 20 threads more for a moment, again and again, and at most other times few.
#[test]
fn a_program_that_starts_threads_in_bursts_keeps_the_room_for_them() {
    on_sample_runtimes_at_once(|runtime| {
        let Some((group, mut process)) = started(runtime, "smallstacks") else { return };
        let pid = process.pid().to_string();
        let most = (0..1000).map(|_| {
            sleep(Duration::from_millis(1));
            group.number("pids.current").unwrap()
        });
        let most = most.max().unwrap().max(group.number("pids.peak").unwrap_or(0));
        group.set("pids.max", &(most + 4).to_string()).unwrap();
        let folder = scratch();
        for _ in 0..10 {
            let output = file(&folder, "none.clrscope");
            let arguments =
                ["record", &pid, "-q", "-p", MANY, "-d", "1s", "-o", output.to_str().unwrap()];
            let ended = Running::start(clrscope(arguments)).wait();
            assert!(process.is_running(), "{runtime}: {}", process.transcript());
            ended.expect_error(4, &["no room for the agent", "threads and processes", "pids.max"]);
            assert!(!agent_is_mapped(process.pid()), "{runtime}");
        }
        ends_well(runtime, process);
    });
}

/// As many as [`a_program_that_starts_threads_in_bursts_keeps_the_room_for_them`] relies on.
#[test]
fn a_recording_adds_ten_threads_at_most() {
    on_sample_runtimes_at_once(|runtime| {
        let Some((group, process)) = started(runtime, "compute") else { return };
        let (pid, folder) = (process.pid().to_string(), scratch());
        let threads = || group.number("pids.current").unwrap();
        // What the program and its runtime start by themselves within the first seconds is there
        // now.
        sleep(Duration::from_secs(3));
        let before = threads();
        let output = file(&folder, "all.clrscope");
        let many = if runtime == Runtime::V3_1 {
            MANY.to_owned()
        } else {
            format!("{MANY},counters,allocations")
        };
        let arguments =
            ["record", &pid, "-q", "-p", &many, "-d", "4s", "-o", output.to_str().unwrap()];
        let mut recording = Running::start(clrscope(arguments));
        let mut most = 0;
        while !recording.has_ended() {
            most = most.max(threads());
            sleep(Duration::from_millis(1));
        }
        recording.wait().expect(0);
        println!("{runtime}: {before} before, {most} at most");
        assert!(
            (before + 2..=before + 10).contains(&most),
            "{runtime}: {before} before, {most} at most"
        );
        ends_well(runtime, process);
    });
}
