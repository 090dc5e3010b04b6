//! Whatever ends clrscope, its event sessions end in order: the recorded program continues.
//!
//! `CLRSCOPE_HARM_RUNS` is how often each program's recording is ended suddenly.
#![cfg(target_os = "linux")]
mod common;

use common::{Ended, Fed, Running, clrscope, file, scratch};
use rustix::process::Signal;
use session::SessionReader;
use std::{
    fs::File,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

const LIMIT: Duration = Duration::from_secs(60);

/// How a recording is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    TwoInterrupts,
}

/// How often, where nothing else is asked for.
const RUNS: u32 = 3;

fn runs() -> u32 {
    std::env::var("CLRSCOPE_HARM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

/// A number below `most`, by the clock.
fn chance(most: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (u64::from(now.subsec_nanos()) / 64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % most
}

/// What listens to events of the runtime: with what is on by default, and what brings most of them.
fn profilers(runtime: Runtime, run: u32) -> &'static str {
    match (runtime.major() < 6, run % 2) {
        (true, 0) => "cpu,wall,exceptions,gc",
        (true, _) => "gc,locks,threads,jit",
        (false, 0) => "allocations",
        (false, _) => "cpu,wall,exceptions,gc,allocations",
    }
}

/// Sockets that a process has.
fn sockets(pid: u32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process that a process has started. Which of its threads did so may have ended, so that not
/// their lists are read.
fn child_of(parent: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.into_iter().find(|pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields =
            stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').nth(1).map(str::to_owned));
        fields.flatten().is_some_and(|found| found == parent.to_string())
    })
}

/// Whether a process is there and is no zombie.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A recording that has begun; `None` when it was refused. .NET Core 3.1 on an overloaded machine is
/// tried again.
fn begin(pid: u32, profilers: &str, output: &Path) -> Option<Running> {
    let until = Instant::now() + LIMIT;
    loop {
        match begin_once(pid, profilers, output) {
            Ok(running) => return Some(running),
            Err(refused) if refused.err.contains("for a processor when it is ready") => {
                assert!(Instant::now() < until, "{}", refused.err);
            }
            Err(refused) => {
                refused.expect_error(4, &["another profiler is active"]);
                return None;
            }
        }
    }
}

fn begin_once(pid: u32, profilers: &str, output: &Path) -> Result<Running, Ended> {
    let _ = std::fs::remove_file(output);
    let (pid, path) = (pid.to_string(), output.to_str().unwrap());
    let mut recorder =
        Running::start(clrscope(["record", &pid, "-q", "-p", profilers, "-o", path]));
    let begun = || SessionReader::new(File::open(output).ok()?).ok()?.flatten().next();
    while begun().is_none() {
        if recorder.has_ended() {
            return Err(recorder.wait());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(recorder)
}

/// Records, ends that at a random moment, and requires that nothing is left.
fn end_suddenly(pid: u32, sockets_before: usize, runtime: Runtime, run: u32, output: &Path) {
    let end = if run % 3 == 2 { End::TwoInterrupts } else { End::Kill };
    let what = format!("{runtime}, run {run}, {end:?}");
    let until = Instant::now() + LIMIT;
    let mut recorder = loop {
        // The agent of the recording before may take some seconds to leave.
        if let Some(recorder) = begin(pid, profilers(runtime, run), output) {
            break recorder;
        }
        assert!(Instant::now() < until, "{what}: no recording begins");
    };
    let Some(keeper) = child_of(recorder.pid()) else {
        panic!("{what}: no keeper; {:?}", (recorder.has_ended(), recorder.wait()));
    };
    let command = std::fs::read(format!("/proc/{keeper}/cmdline")).unwrap();
    assert!(command.starts_with(b"event-keeper\0"), "{what}: {}", command.escape_ascii());
    std::thread::sleep(Duration::from_millis(chance(600)));
    match end {
        End::Kill => recorder.signal(Signal::KILL),
        End::TwoInterrupts => {
            recorder.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(chance(50)));
            if !recorder.has_ended() {
                recorder.signal(Signal::INT);
            }
        }
    }
    let from = Instant::now();
    recorder.wait();
    // Two seconds, and time for a busy machine.
    assert!(from.elapsed() < Duration::from_secs(6), "{what}: {:?}", from.elapsed());
    wait_until(&format!("{what}: the keeper is left"), || !lives(keeper));
    wait_until(&format!("{what}: a connection is left"), || sockets(pid) <= sockets_before);
}

#[test]
fn a_program_outlives_every_end_of_its_recordings() {
    let ends = on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        let mut process =
            Sample::named("storm").launch(runtime, &["--threads", "3"]).private_tmp().start();
        process.wait_for_ready();
        let mut arrays = progress(&mut process);
        let sockets_before = sockets(process.pid());
        for run in 0..runs() {
            end_suddenly(process.pid(), sockets_before, runtime, run, &output);
            let now = progress(&mut process);
            assert!(now > arrays, "{runtime}, run {run}: it makes no progress at {now}");
            arrays = now;
            // The next one can attach when the agent has gone.
            common::wait_until_clean(process.tmp().unwrap());
            wait_until("the agent is left", || {
                !process.is_running() || !has_agent_thread(process.pid())
            });
        }
        process.send_line("stop").unwrap();
        let truth = process.truth(LIMIT);
        assert_eq!(truth["wrong"], 0, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        arrays
    });
    println!("{} runs on each runtime, arrays: {ends:?}", runs());
}

/// A runtime that cannot write its events does not come to its end.
#[test]
fn a_program_ends_although_its_recorder_is_stopped() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        // Thousands of collections per second: the connection is soon full.
        let mut process = Sample::named("storm")
            .launch(runtime, &["--threads", "2"])
            .env("COMPlus_GCgen0size", "10000")
            .private_tmp()
            .start();
        process.wait_for_ready();
        let recorder = begin(process.pid(), "gc", &output).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        recorder.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(1500));
        progress(&mut process);
        process.send_line("stop").unwrap();
        let truth = process.truth(LIMIT);
        assert_eq!(truth["wrong"], 0, "{runtime}: {truth}");
        let end = process.wait(Duration::from_secs(20));
        recorder.signal(Signal::CONT);
        assert!(end.unwrap().success(), "{runtime}: {}", process.transcript());
        let ended = recorder.wait();
        assert!([0, 5].contains(&ended.code()), "{runtime}: {ended:?}");
    });
}

/// A program that continues loses only the events of the time in which they were not read.
#[test]
fn a_recorder_that_was_stopped_says_that_events_are_missing() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = Sample::named("storm")
        .launch(Runtime::V3_1, &["--threads", "2"])
        .env("COMPlus_GCgen0size", "10000")
        .private_tmp()
        .start();
    process.wait_for_ready();
    let recorder = begin(process.pid(), "gc,cpu", &output).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    recorder.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(3));
    recorder.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(500));
    recorder.signal(Signal::INT);
    recorder.wait().expect(0);
    let report = common::run(["report", output.to_str().unwrap()]).expect(0);
    let text = report.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["clrscope was stopped, or waited for its disk", "Nothing is left in the process."]
    {
        assert!(text.contains(part), "{part}: {}", report.out);
    }
    progress(&mut process);
    process.send_line("stop").unwrap();
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
}

/// Nothing would end the events in order if clrscope were killed as well.
#[test]
fn a_recording_without_its_keeper_ends_its_events_in_order_and_says_so() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        let mut process = Sample::named("storm")
            .launch(runtime, &["--threads", "2"])
            .env("COMPlus_GCgen0size", "100000")
            .private_tmp()
            .start();
        process.wait_for_ready();
        let recorder = begin(process.pid(), "gc,cpu", &output).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let sockets_before = sockets(process.pid());
        let keeper = child_of(recorder.pid()).unwrap();
        let pid = rustix::process::Pid::from_raw(keeper.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        // The recording continues.
        let what = format!("{runtime}: the event session is left");
        wait_until(&what, || sockets(process.pid()) < sockets_before);
        progress(&mut process);
        recorder.signal(Signal::INT);
        recorder.wait().expect(0);
        let report = common::run(["report", output.to_str().unwrap()]).expect(0);
        let text = report.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["the event-keeper was killed", "Nothing is left in the process."] {
            assert!(text.contains(part), "{runtime}: {part}: {}", report.out);
        }
        progress(&mut process);
        process.send_line("stop").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    });
}

/// How many arrays it has allocated, and that it answers.
fn progress(process: &mut TargetProcess) -> u64 {
    // Time for more of them.
    std::thread::sleep(Duration::from_millis(20));
    process.send_line("ping").unwrap();
    let line = process.wait_for_line(LIMIT, |line| line.starts_with("pong ")).unwrap();
    line["pong ".len()..].parse().unwrap()
}

/// Whether a thread of the agent runs in a process.
fn has_agent_thread(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .any(|name| name.starts_with("clrscope"))
}

#[test]
fn a_real_application_outlives_every_end_of_its_recordings() {
    let fed = Fed::start(Runtime::V10);
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let sockets_before = sockets(fed.pid);
    for run in 0..runs() {
        end_suddenly(fed.pid, sockets_before, Runtime::V10, run, &output);
        common::wait_until_clean(&fed.tmp);
        wait_until("the agent is left", || !has_agent_thread(fed.pid));
    }
    let mut process = fed.finish();
    assert!(process.feed(1).unwrap() > 0);
}
