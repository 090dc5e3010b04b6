//! What belongs to the program stays the program's: file descriptors, signal handlers, alternate
//! stacks, queued signals.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod common;

use common::{
    Ended, Running, agent_is_mapped, clrscope, file, scratch, wait_until_left, wait_until_recording,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::Value;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

const LIMIT: Duration = Duration::from_secs(60);

/// How often each case is tried: more by `CLRSCOPE_HARM_RUNS`.
fn runs() -> usize {
    std::env::var("CLRSCOPE_HARM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// Starts the sample after a command of the shell that limits it.
fn tenant(runtime: Runtime, limits: &str, arguments: &[&str]) -> TargetProcess {
    let limits = format!("ulimit -c 0 && {limits} && exec \"$@\"");
    let sample = Sample::named("tenant").launch(runtime, arguments).private_tmp();
    let mut process = sample.under(["sh", "-c", &limits, "sh"]).start();
    process.wait_for_ready();
    process
}

/// Ends the sample, which must not have noticed anything.
#[track_caller]
fn truth(runtime: Runtime, process: &mut TargetProcess) -> Value {
    process.close_stdin();
    let truth = process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    assert_eq!(
        (&truth["failed_files"], &truth["changed"]),
        (&0.into(), &0.into()),
        "{runtime}: {truth}"
    );
    truth
}

fn record(process: &TargetProcess, session: &Path, arguments: &[&str]) -> Running {
    let pid = process.pid().to_string();
    let fixed = ["record", &pid, "-o", session.to_str().unwrap()];
    Running::start(clrscope(fixed.iter().chain(arguments).copied()))
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn descriptors_are_left_to_the_program() {
    for _ in 0..runs() {
        on_sample_runtimes_at_once(|runtime| {
            let mut process = tenant(runtime, "ulimit -n 500", &["--threads", "300", "--files"]);
            let folder = scratch();
            let session = file(&folder, "wall.clrscope");
            let before = descriptors(process.pid());
            let mut recording =
                record(&process, Path::new(&session), &["-p", "wall,cpu", "-d", "2s"]);
            let mut most = 0;
            while !recording.has_ended() {
                most = most.max(descriptors(process.pid()));
                std::thread::sleep(Duration::from_millis(2));
            }
            recording.wait().expect(0);
            let until = Instant::now() + LIMIT;
            // One of the program's own comes and goes, and a pipe of .NET Core 3.1 stays.
            while descriptors(process.pid()) > before + 3 {
                assert!(
                    Instant::now() < until,
                    "{runtime}: {} of {before}",
                    descriptors(process.pid())
                );
                std::thread::sleep(Duration::from_millis(10));
            }
            eprintln!("{runtime}: {before} descriptors, at most {most} while it was recorded");
            assert!((before..=before + 16).contains(&most), "{runtime}: {before} {most}");
            assert!(truth(runtime, &mut process)["opened"].as_u64().unwrap() > 100);
        });
    }
}

/// Records by signals, and does something while it is recorded.
#[track_caller]
fn record_signals(
    process: &mut TargetProcess,
    seconds: u32,
    act: impl FnOnce(&mut TargetProcess),
) -> Ended {
    let folder = scratch();
    let session = file(&folder, "cpu.clrscope");
    let duration = format!("{seconds}s");
    let arguments = ["-p", "cpu", "--engine", "signals", "--rate", "1000", "-d", &duration];
    let mut recording = record(process, Path::new(&session), &arguments);
    wait_until_recording(Path::new(&session), &mut recording);
    act(process);
    let ended = recording.wait();
    if ended.code() != 0 {
        eprintln!("the process: {:?}", process.wait(Duration::from_millis(100)));
    }
    ended.expect(0)
}

/// Sends a command to the sample, and gives its answer.
fn ask(process: &mut TargetProcess, command: &str) -> String {
    process.send_line(command).unwrap();
    process.wait_for_line(LIMIT, |_| true).unwrap()
}

/// How many mappings a process has, and how many of them are alternate stacks of ours.
fn mappings(pid: u32) -> (usize, usize) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    (maps.lines().count(), maps.lines().filter(|line| line.contains("clrscope-stack")).count())
}

#[test]
fn a_handler_that_was_set_meanwhile_is_the_programs() {
    for _ in 0..runs() {
        on_sample_runtimes_at_once(|runtime| {
            for how in ["take", "chain"] {
                let mut process = tenant(runtime, "true", &["--burn", "2", "--churn", "20"]);
                assert_eq!(ask(&mut process, "handler"), "none");
                let ended = record_signals(&mut process, 2, |process| {
                    std::thread::sleep(Duration::from_millis(500));
                    assert_eq!(ask(process, how), "taken");
                });
                assert_eq!(ask(&mut process, "handler"), "own", "{runtime}: {}", ended.err);
                for round in 0..100 {
                    process.send_line("raise").unwrap();
                    let answer = process.wait_for_line(LIMIT, |_| true);
                    assert!(
                        answer.as_ref().is_ok_and(|answer| answer == "raised"),
                        "{runtime}, {how}, signal {round}: {answer:?}, {:?}\n{}{}",
                        process.wait(LIMIT),
                        ended.out,
                        ended.err
                    );
                }
                // The handler may call ours.
                assert!(agent_is_mapped(process.pid()), "{runtime}");
                let told = ended.out + &ended.err;
                // On a busy machine the agent may still wait for its handlers when clrscope has
                // waited long enough.
                let is_told = [
                    "another tool has set a handler for SIGPROF",
                    "did not confirm that it has detached",
                ];
                assert!(is_told.iter().any(|part| told.contains(part)), "{runtime}: {told}");
                truth(runtime, &mut process);
            }
        });
    }
}

#[test]
fn alternate_stacks_come_and_go_with_the_recording() {
    for _ in 0..runs() {
        on_sample_runtimes_at_once(|runtime| {
            for churn in ["20", "1000"] {
                let arguments =
                    ["--churn", churn, "--foreign", churn, "--nullref", "1", "--threads", "20"];
                let mut process = tenant(runtime, "true", &arguments);
                let pid = process.pid();
                let (before, _) = mappings(pid);
                let mut most = 0;
                record_signals(&mut process, 3, |_| {
                    for _ in 0..100 {
                        most = most.max(mappings(pid).1);
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
                let (after, ours) = mappings(pid);
                eprintln!(
                    "{runtime}: {churn} threads in each second: {before} mappings, {after} after, \
                        {most} of ours at most"
                );
                assert!(most > 0, "{runtime}: there was nothing to give back");
                // A thread that throws for null references without end may need its own in each
                // moment in which it is asked. Each is two mappings.
                assert!(ours <= 2, "{runtime}: {ours}");
                // The heaps of the runtime and of the C library grow and shrink.
                assert!(after < before + 60, "{runtime}: {before} {after}");
                let truth = truth(runtime, &mut process);
                assert!(truth["foreign"].as_u64().unwrap() > 20, "{truth}");
            }
        });
    }
}

/// How many signals this user has queued.
fn queued() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:")).unwrap();
    line.trim().split_once('/').unwrap().0.parse().unwrap()
}

#[test]
fn queued_signals_are_left_to_the_program() {
    for _ in 0..runs() {
        // One after the other: all of them count for the same user.
        for runtime in testkit::sample_runtimes() {
            let mut process = tenant(
                runtime,
                "true",
                &["--threads", "100", "--burn", "3", "--nullref", "2", "--churn", "50"],
            );
            // .NET Core 3.1 needs some for itself, and aborts when it gets none.
            let (pid, limit) = (Pid::from_raw(process.pid() as i32), Some(queued() + 120));
            prlimit(pid, Resource::Sigpending, Rlimit { current: limit, maximum: limit }).unwrap();
            let folder = scratch();
            let session = file(&folder, "cpu.clrscope");
            let arguments = ["-p", "cpu", "--engine", "signals", "--rate", "1000", "-d", "2s"];
            let ended = record(&process, Path::new(&session), &arguments).wait();
            assert!(process.is_running(), "{runtime}: {}", process.transcript());
            // On a busy machine the runtime may have queued too many at the moment.
            let expected = if ended.code() == 4 { 4 } else { 0 };
            let ended = ended.expect(expected);
            assert!((ended.out + &ended.err).contains("RLIMIT_SIGPENDING"), "{runtime}");
            truth(runtime, &mut process);
        }
    }
}

/// How many bytes of addresses a process uses.
fn addresses(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    size.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Each thread that runs traced methods has tables of 13 MB of addresses; a program that may have
/// no more could start no thread.
#[test]
fn addresses_are_left_to_the_program() {
    on_sample_runtimes_at_once(|runtime| {
        let mut process = tenant(runtime, "true", &["--churn", "200", "--burn", "1"]);
        let limit = Some(addresses(process.pid()) + (768 << 20));
        prlimit(
            Pid::from_raw(process.pid() as i32),
            Resource::As,
            Rlimit { current: limit, maximum: limit },
        )
        .unwrap();
        let pid = process.pid().to_string();
        let ended = Running::start(clrscope([
            "trace",
            &pid,
            "Clrscope.Samples.Tenant.*",
            "--for",
            "2s",
            "--json",
        ]))
        .wait();
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        let found: Value = serde_json::from_str(&ended.expect(0).out).unwrap();
        let calls = found["methods"]
            .as_array()
            .unwrap()
            .iter()
            .map(|method| method["calls"].as_u64().unwrap());
        assert!(calls.sum::<u64>() > 100, "{runtime}: {found}");
        // Few where others use the processors, but none where addresses are missing.
        assert!(truth(runtime, &mut process)["churned"].as_u64().unwrap() > 50);
    });
}

#[test]
fn a_process_without_room_is_left_alone() {
    on_sample_runtimes_at_once(|runtime| {
        let process = tenant(runtime, "ulimit -n 1000", &["--files"]);
        let pid = process.pid();
        let id = Pid::from_raw(pid as i32);
        let refused = |what: &str| {
            let folder = scratch();
            let ended = record(
                &process,
                Path::new(&file(&folder, "none.clrscope")),
                &["-p", "wall", "-d", "1s"],
            )
            .wait();
            assert!(!agent_is_mapped(pid), "{runtime}");
            ended.expect_error(4, &["has no room for the agent", what, "raise its limit"]);
        };
        let few = Rlimit { current: Some(descriptors(pid) as u64 + 14), maximum: Some(1000) };
        prlimit(id, Resource::Nofile, few).unwrap();
        refused("file descriptors are open");
        prlimit(id, Resource::Nofile, Rlimit { current: Some(1000), maximum: Some(1000) }).unwrap();
        let all = getrlimit(Resource::As);
        prlimit(
            id,
            Resource::As,
            Rlimit { current: Some(addresses(pid) + (64 << 20)), maximum: None },
        )
        .unwrap();
        refused("address space are in use");
        prlimit(id, Resource::As, all).unwrap();
        let mut process = process;
        truth(runtime, &mut process);
    });
}

/// The agent finds what it stores for a thread by a thread-local key of the process, of which there
/// are 1,024.
#[test]
fn thread_local_keys_are_taken_one_at_a_time_and_returned() {
    on_sample_runtimes_at_once(|runtime| {
        let mut process =
            tenant(runtime, "true", &["--burn", "1", "--churn", "100", "--nullref", "1"]);
        let folder = scratch();
        let profilers = ["-p", "cpu,wall,exceptions", "--engine", "signals", "-d", "300ms"];
        // Only keys with high numbers are left: their values do not stand in the thread control
        // block.
        assert_eq!(ask(&mut process, "keys 2").split(' ').next(), Some("taken"));
        for run in 0..4 {
            record(&process, Path::new(&file(&folder, &format!("{run}.clrscope"))), &profilers)
                .wait()
                .expect(0);
            wait_until_left(process.pid());
        }
        // None is left: nothing begins, and the process continues.
        assert_eq!(ask(&mut process, "keys 0"), "taken 2", "{runtime}");
        let ended = record(&process, Path::new(&file(&folder, "none.clrscope")), &profilers).wait();
        ended.expect_error(4, &["thread-local key"]);
        common::wait_until_clean(process.tmp().unwrap());
        assert!(!agent_is_mapped(process.pid()), "{runtime}");
        truth(runtime, &mut process);
    });
}

/// Begins a long recording of runtime events.
fn begin_events(process: &TargetProcess, session: impl AsRef<Path>) -> Running {
    let session = session.as_ref();
    let mut recording = record(process, session, &["-p", "loads", "-d", "60s"]);
    wait_until_recording(session, &mut recording);
    recording
}

/// Leaves a program so many bytes of addresses; `None` for as many as there are.
fn leave_addresses(process: &TargetProcess, bytes: Option<u64>) {
    let current = bytes.map(|bytes| addresses(process.pid()) + bytes);
    let limit = Rlimit { current, maximum: getrlimit(Resource::As).maximum };
    prlimit(Pid::from_raw(process.pid() as i32), Resource::As, limit).unwrap();
}

/// .NET Core 3.1 writes to address 0 where it gets no buffer for an event, and it writes one when a
/// session ends.
#[test]
fn a_program_without_addresses_outlives_its_event_session() {
    on_sample_runtimes_at_once(|runtime| {
        for signal in [Signal::KILL, Signal::INT] {
            let mut process = tenant(runtime, "true", &["--burn", "1"]);
            let folder = scratch();
            let recording = begin_events(&process, file(&folder, "loads.clrscope"));
            std::thread::sleep(Duration::from_millis(200));
            leave_addresses(&process, Some(8192));
            recording.signal(signal);
            std::thread::sleep(Duration::from_secs(3));
            assert!(process.is_running(), "{runtime}, {signal:?}: {}", process.transcript());
            leave_addresses(&process, None);
            if signal == Signal::INT {
                recording.wait().expect(0);
            }
            truth(runtime, &mut process);
        }
    });
}

#[test]
fn a_recording_ends_before_the_program_runs_out_of_addresses() {
    on_sample_runtimes_at_once(|runtime| {
        let mut process = tenant(runtime, "true", &["--burn", "1"]);
        let folder = scratch();
        let recording = begin_events(&process, file(&folder, "loads.clrscope"));
        leave_addresses(&process, Some(100 << 20));
        let ended = recording.wait().expect(0);
        assert!(
            ended.out.contains("does not run out of address space"),
            "{runtime}: {}",
            ended.out
        );
        truth(runtime, &mut process);
    });
}
