//! The signal engine from end to end: CPU samples without the kernel's ring.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod support;

use profilers::Selection;
use recorder::{EngineChoice, RecordError, RecordOptions, SessionSummary};
use session::{SessionReader, SessionRecord};
use std::{collections::HashMap, fs::File, io::BufReader, path::Path, time::Duration};
use support::{
    counter, filtered, handles_sigprof, is_mapped, options, record, try_record, without_kernel_ring,
};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

fn supported() -> impl Iterator<Item = Runtime> {
    sample_runtimes().into_iter().filter(|runtime| runtime.is_supported())
}

/// CPU time by the first of these methods that is met from the leaf on.
fn weights(path: &Path, methods: &[&'static str]) -> HashMap<&'static str, u64> {
    let (mut functions, mut frames, mut stacks) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut weights = HashMap::new();
    for record in SessionReader::new(BufReader::new(File::open(path).unwrap())).unwrap() {
        match record.unwrap() {
            SessionRecord::Function(function) => {
                let method = methods
                    .iter()
                    .find(|method| function.name.split('<').next() == Some(method))
                    .copied();
                functions.insert(function.id, method);
            }
            SessionRecord::Frame(frame) => {
                frames.insert(frame.id, frame.function);
            }
            SessionRecord::Stack(stack) => {
                stacks.insert(stack.id, (stack.parent, frames[&stack.frame]));
            }
            SessionRecord::CpuSamples(batch) => {
                for (stack, weight) in batch.stack.iter().zip(&batch.weight) {
                    let mut next = Some(*stack);
                    while let Some((parent, function)) = next.and_then(|stack| stacks.get(&stack)) {
                        if let Some(method) = functions[function] {
                            *weights.entry(method).or_default() += weight;
                            break;
                        }
                        next = *parent;
                    }
                }
            }
            _ => {}
        }
    }
    weights
}

/// Nothing of the agent is left in a process, not even its handler.
#[track_caller]
fn assert_clean(process: &mut TargetProcess, summary: &SessionSummary) {
    assert!(process.is_running(), "{}", process.transcript());
    assert!(summary.timings.detach.is_some(), "{summary:?}");
    assert!(!is_mapped(process.pid()), "the library is still mapped");
    assert!(!handles_sigprof(process.pid()), "the handler is still set");
}

/// Nearly all stacks reach the root.
#[track_caller]
fn assert_whole(summary: &SessionSummary, least: f64) {
    let complete = counter(summary, "stacks complete") as f64;
    let broken = counter(summary, "stacks broken") as f64;
    assert!(
        complete / (complete + broken) >= least,
        "{complete} whole, {broken} broken: {:?}",
        summary.observer
    );
}

#[test]
fn time_is_where_the_program_spends_it() {
    let folder = tempfile::tempdir().unwrap();
    for runtime in supported() {
        let mut process = Sample::named("burn").start(runtime, &["--seconds", "60"]);
        process.wait_for_ready();
        let path = folder.path().join(format!("{}.clrscope", runtime.major()));
        let options = options(EngineChoice::Signals, 1000, Duration::from_secs(4), Some(&path));
        let summary = record(process.pid(), options);
        assert_eq!(summary.engine, "timer signals inside the process");
        assert_eq!(summary.notes, Vec::<String>::new(), "{runtime}");
        assert_clean(&mut process, &summary);
        assert_whole(&summary, 0.99);
        let rate = summary.rate.as_ref().unwrap();
        let tick = f64::from(rate.tick_hz.unwrap());
        let achieved = rate.achieved_hz().unwrap();
        assert!((achieved / tick.min(1000.0) - 1.0).abs() < 0.1, "{runtime}: {rate:?}");
        assert_eq!(rate.differs(), tick < 1000.0, "{runtime}: {rate:?}");
        assert!(
            tick >= 1000.0 || rate.to_string().contains("in each tick of the kernel"),
            "{rate}"
        );
        let weights = weights(&path, &["Slow", "Medium", "Light"]);
        let all: u64 = weights.values().sum();
        let samples = summary.samples.iter().find(|(id, _)| *id == "cpu").unwrap().1 as f64;
        // The kernel looks at CPU timers at its own ticks only, 250 times a second on most systems.
        assert!(samples > 200.0, "{runtime}: {samples}");
        for (method, truth) in [("Slow", 0.7), ("Medium", 0.2), ("Light", 0.1)] {
            let found = weights[method] as f64 / all as f64;
            // Four standard deviations of that number of samples, and one percentage point for what
            // the program itself is off by.
            let tolerance = 4.0 * (truth * (1.0 - truth) / samples).sqrt() + 0.01;
            assert!((found - truth).abs() < tolerance, "{runtime}: {method} {found}: {weights:?}");
        }
        let handler = counter(&summary, "nanoseconds in the signal handler, median");
        eprintln!("{runtime}: {samples} samples, handler {handler} ns, {weights:?}");
        assert!(handler > 0);
    }
}

#[test]
fn hard_stacks_are_whole_and_the_program_lives() {
    for runtime in supported() {
        let mut process = Sample::named("mixed").start(runtime, &["--seconds", "60"]);
        process.wait_for_ready();
        let summary = record(
            process.pid(),
            options(EngineChoice::Signals, 1000, Duration::from_secs(4), None),
        );
        eprintln!("{runtime}: {:?} {:?}", summary.samples, summary.observer);
        assert_clean(&mut process, &summary);
        assert_whole(&summary, 0.99);
    }
}

#[test]
fn a_loop_of_null_references_lives() {
    for runtime in supported() {
        let mut process = Sample::named("mixed")
            .start(runtime, &["--seconds", "60", "--modes", "nullref,recursion"]);
        process.wait_for_ready();
        for _ in 0..2 {
            let summary = record(
                process.pid(),
                options(EngineChoice::Signals, 1000, Duration::from_secs(3), None),
            );
            assert_clean(&mut process, &summary);
        }
    }
}

#[test]
fn a_real_application_is_recorded() {
    for runtime in [Runtime::V10, Runtime::Azmcp9] {
        let mut process = TargetProcess::azmcp(runtime);
        process.feed(1).unwrap();
        let pid = process.pid();
        let options = options(EngineChoice::Signals, 1000, Duration::from_secs(2), None);
        let recording = std::thread::spawn(move || record(pid, options));
        while !recording.is_finished() {
            process.feed(3).unwrap();
        }
        let summary = recording.join().unwrap();
        eprintln!("{runtime}: {:?} {:?}", summary.samples, summary.observer);
        assert_clean(&mut process, &summary);
        assert_whole(&summary, 0.99);
    }
}

#[test]
fn where_the_signal_is_taken_the_runtime_is_walked_instead() {
    for runtime in supported() {
        let arguments = ["--seconds", "60", "--modes", "cpu,alloc", "--sigprof"];
        let mut process = Sample::named("mixed").start(runtime, &arguments);
        process.wait_for_ready();
        assert!(handles_sigprof(process.pid()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused.clrscope");
        // Who asks for signals gets them, or an error.
        let signals = options(EngineChoice::Signals, 100, Duration::from_secs(2), Some(&path));
        let refused = try_record(process.pid(), signals).unwrap_err();
        assert!(
            matches!(&refused, RecordError::Engine { engine: "signals", reason } if reason.contains("SIGPROF")),
            "{refused}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(handles_sigprof(process.pid()), "the program's own handler is gone");
        assert!(process.is_running() && !is_mapped(process.pid()));

        let path = folder.path().join("walked.clrscope");
        let chosen = options(EngineChoice::Auto, 100, Duration::from_secs(2), Some(&path));
        let pid = process.pid();
        let summary = without_kernel_ring(move || record(pid, chosen));
        assert_walked(&summary, "SIGPROF already has a handler");
        assert!(summary.engine.starts_with("suspend and walk"), "{}", summary.engine);
        let engines: Vec<String> = SessionReader::new(BufReader::new(File::open(&path).unwrap()))
            .unwrap()
            .filter_map(|record| match record.unwrap() {
                SessionRecord::Engine { engine, .. } => Some(engine),
                _ => None,
            })
            .collect();
        assert_eq!(engines, [summary.engine]);
        assert!(process.is_running() && !is_mapped(process.pid()));
    }
}

#[test]
fn where_a_filter_may_kill_the_process_it_lives() {
    for runtime in supported() {
        let calls = [libc::SYS_timer_create, libc::SYS_process_vm_readv];
        let start = move || {
            Sample::named("mixed")
                .start(runtime, &["--seconds", "60", "--modes", "cpu,alloc,nullref"])
        };
        let mut process = filtered(&calls, seccompiler::SeccompAction::KillProcess, start);
        process.wait_for_ready();
        let pid = process.pid();
        let chosen = options(EngineChoice::Auto, 100, Duration::from_secs(2), None);
        let summary = without_kernel_ring(move || record(pid, chosen));
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        assert_walked(&summary, "seccomp");
        let signals = options(EngineChoice::Signals, 100, Duration::from_secs(2), None);
        let refused = try_record(pid, signals).unwrap_err();
        assert!(
            matches!(&refused, RecordError::Engine { engine: "signals", reason } if reason.contains("seccomp")),
            "{refused}"
        );
        // The kernel's ring needs code and unwind tables, which are read in the process.
        let ring = options(EngineChoice::Auto, 100, Duration::from_secs(2), None);
        record(pid, ring);
        assert!(process.is_running() && !is_mapped(pid), "{runtime}: {}", process.transcript());
    }
}

/// The program forbids what memory could be read by, and then runs methods and throws exceptions
/// that are new.
#[test]
fn a_filter_that_comes_during_a_recording_ends_nothing() {
    for runtime in supported() {
        let arguments = ["--seconds", "60", "--modes", "cpu,exceptions,churn", "--sandbox", "1500"];
        let mut process = Sample::named("mixed").start(runtime, &arguments);
        process.wait_for_ready();
        let pid = process.pid();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandboxed.clrscope");
        let profilers =
            ["cpu", "wall", "exceptions"].map(|id| Selection::parse(id).unwrap()).to_vec();
        let chosen = options(EngineChoice::Auto, 500, Duration::from_secs(4), Some(&path));
        record(pid, RecordOptions { profilers, ..chosen });
        assert!(process.is_running() && !is_mapped(pid), "{runtime}: {}", process.transcript());
        process.wait_for_line(Duration::from_secs(1), |line| line == "sandboxed").unwrap();
        assert!(weights(&path, &["NeverBefore"])["NeverBefore"] > 10_000_000, "{runtime}");
    }
}

#[test]
fn events_are_bound_to_threads_only_while_that_costs_little() {
    let runtime = Runtime::V9;
    // The filter keeps the target from signals, and us from the kernel ring of processors.
    let (mut process, [became_busy, busy]) = filtered(
        &[libc::SYS_bpf],
        seccompiler::SeccompAction::Errno(libc::EPERM as u32),
        move || {
            let mut process = Sample::named("handover").start(runtime, &["--pairs", "0"]);
            process.wait_for_ready();
            let pid = process.pid();
            let begin = move |seconds| {
                let chosen = options(EngineChoice::Auto, 100, Duration::from_secs(seconds), None);
                recorder::attach(&diagnostics::find_pid(pid).expect("a .NET process"), chosen)
                    .expect("a recording")
            };
            let idle = begin(6);
            // Ten times as many switches as may be, for some seconds.
            std::thread::sleep(Duration::from_secs(1));
            process.send_line("more 2").unwrap();
            process.wait_for_line(Duration::from_secs(10), |line| line.contains("pairs")).unwrap();
            let became_busy =
                idle.wait().expect("a recording").sessions.pop().expect("one session");
            let busy = begin(2).wait().expect("a recording").sessions.pop().expect("one session");
            (process, [became_busy, busy])
        },
    );
    let why = "switches of threads per second";
    assert!(became_busy.notes.iter().any(|note| note.contains(why)), "{became_busy:?}");
    assert_walked(&became_busy, "seccomp");
    assert!(became_busy.engine.starts_with("suspend and walk"), "{}", became_busy.engine);
    assert_walked(&busy, "seccomp");
    assert!(process.is_running() && !is_mapped(process.pid()), "{}", process.transcript());
}

#[track_caller]
fn assert_walked(summary: &SessionSummary, why: &str) {
    assert!(
        summary.notes.iter().any(|note| note.contains("suspend and walk") && note.contains(why)),
        "{summary:?}"
    );
    let (_, samples) = summary.samples.iter().find(|(id, _)| *id == "cpu").unwrap();
    assert!(*samples > 50, "{samples}: {summary:?}");
}
