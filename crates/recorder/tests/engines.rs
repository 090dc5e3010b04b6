//! Which engine takes CPU samples where the machine forbids the better ones, and whether the report
//! says why.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod support;

use recorder::{EngineChoice, SessionSummary};
use session::{SessionReader, SessionRecord};
use std::{
    collections::HashMap, fs::File, io::BufReader, path::Path, process::Command, time::Duration,
};
use support::{filtered, is_mapped, options, record, without_kernel_ring};
use testkit::{Runtime, Sample, TargetProcess};

const TIME: Duration = Duration::from_secs(2);

fn burning() -> TargetProcess {
    let mut process = Sample::named("burn").start(Runtime::V9, &["--seconds", "60"]);
    process.wait_for_ready();
    process
}

/// A thread was sampled nearly all the time, by this engine and for this reason.
#[track_caller]
fn assert_sampled(process: &mut TargetProcess, summary: &SessionSummary, engine: &str, why: &str) {
    assert!(summary.engine.starts_with(engine), "{}", summary.engine);
    assert!(summary.engine.contains(why), "{}", summary.engine);
    let (_, samples) = summary.samples.iter().find(|(id, _)| *id == "cpu").unwrap();
    assert!(*samples >= 50, "{samples}: {summary:?}");
    assert!(process.is_running() && !is_mapped(process.pid()), "{}", process.transcript());
}

#[test]
fn without_bpf_threads_have_timers() {
    let mut process = burning();
    let pid = process.pid();
    let refuse = seccompiler::SeccompAction::Errno(libc::EPERM as u32);
    let summary = filtered(&[libc::SYS_bpf], refuse, move || {
        record(pid, options(EngineChoice::Auto, 100, TIME, None))
    });
    let why =
        "because the kernel ring is unavailable: the kernel takes no filter on a process (BPF: ";
    assert_sampled(&mut process, &summary, "timer signals inside the process", why);
}

#[test]
fn without_perf_events_threads_have_timers() {
    let mut process = burning();
    let pid = process.pid();
    let summary =
        without_kernel_ring(move || record(pid, options(EngineChoice::Auto, 100, TIME, None)));
    let why = "because the kernel ring is unavailable: watching processors requires root";
    assert_sampled(&mut process, &summary, "timer signals inside the process", why);
}

/// A program that is bound to another processor, by whomever, is sampled there.
#[test]
fn a_program_that_changes_its_processors_is_followed() {
    for engine in [EngineChoice::KernelRing, EngineChoice::Signals, EngineChoice::KernelRingThreads]
    {
        let mut process = burning();
        let pid = process.pid();
        let recording =
            std::thread::spawn(move || record(pid, options(engine, 100, TIME * 2, None)));
        for processors in ["0", "1", "0", "0-1"] {
            std::thread::sleep(Duration::from_millis(900));
            let bound = Command::new("taskset")
                .args(["-acp", processors, &pid.to_string()])
                .output()
                .unwrap();
            assert!(bound.status.success(), "{}", String::from_utf8_lossy(&bound.stderr));
        }
        let summary = recording.join().unwrap();
        assert_sampled(&mut process, &summary, "", "");
        let rate = summary.rate.as_ref().unwrap();
        assert!(!rate.differs(), "{engine:?}: {rate:?} {rate}");
    }
}

/// Some 120 frames take more than the 8 KB that are copied of a stack at first. What lies behind
/// the copy is found by frame pointers, so that no more is copied.
#[test]
fn stacks_deeper_than_their_copy_are_whole() {
    for runtime in [Runtime::V3_1, Runtime::V8, Runtime::V9] {
        let arguments = ["--seconds", "60", "--modes", "recursion", "--depth", "112"];
        let mut process = Sample::named("mixed").start(runtime, &arguments);
        process.wait_for_ready();
        let pid = process.pid();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep.clrscope");
        let summary = record(pid, options(EngineChoice::KernelRing, 500, TIME, Some(&path)));
        assert_sampled(&mut process, &summary, "kernel ring", "8 KB of stack");
        let (deep, cut, samples) = depths(&path, 112);
        assert!(2 * deep >= samples, "{runtime}: {deep} of {samples}");
        assert!(50 * cut <= samples, "{runtime}: {cut} of {samples}");
    }
}

/// How many CPU samples of a session have at least as many frames, and how many are cut, of how
/// many.
fn depths(path: &Path, frames: usize) -> (usize, usize, usize) {
    let mut depths = HashMap::new();
    let (mut deep, mut cut, mut samples) = (0, 0, 0);
    for record in SessionReader::new(BufReader::new(File::open(path).unwrap())).unwrap() {
        match record.unwrap() {
            SessionRecord::Stack(stack) => {
                let callers = stack.parent.map_or(0, |parent| depths[&parent]);
                depths.insert(stack.id, callers + 1);
            }
            SessionRecord::CpuSamples(batch) => {
                samples += batch.stack.len();
                deep += batch.stack.iter().filter(|stack| depths[stack] >= frames).count();
                cut += batch.truncated.iter().filter(|truncated| **truncated).count();
            }
            _ => {}
        }
    }
    (deep, cut, samples)
}

/// What a process in another pid namespace calls its threads is translated.
#[test]
fn a_program_in_another_pid_namespace_is_sampled_and_measured() {
    let own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    for engine in [EngineChoice::Auto, EngineChoice::Signals] {
        let mut process =
            Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]).under(own).start();
        process.wait_for_ready();
        let pid =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.pid())).unwrap();
        let pid = pid.trim().parse().unwrap();
        let summary = record(pid, options(engine, 100, TIME, None));
        let (_, samples) = summary.samples.iter().find(|(id, _)| *id == "cpu").unwrap();
        let rate = summary.rate.as_ref().unwrap();
        assert!(
            *samples >= 50 && rate.samples >= 50 && !rate.differs(),
            "{engine:?}: {samples} {rate:?}"
        );
        assert!(process.is_running() && !is_mapped(pid));
    }
}
