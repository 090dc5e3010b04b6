//! The unwinder finds what the runtime itself finds: see [`comparing`].
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod comparing;
mod support;

use comparing::{Comparing, Tally};
use std::time::Duration;
use support::agent;
use testkit::{Runtime, Sample, sample_runtimes};

/// Compares on a runtime with some kinds of work.
fn compare(runtime: Runtime, modes: &str, enough: u64) -> Tally {
    let mut process =
        Sample::named("mixed").start(runtime, &["--seconds", "120", "--modes", modes]);
    process.wait_for_ready();
    let mut comparing = Comparing::attach(&process, &agent(), 50, 2);
    comparing.run(enough, Duration::from_secs(30));
    let (tally, log) = comparing.stop();
    eprintln!("{runtime}, {modes}: {tally}");
    assert!(tally.counted() >= enough, "{runtime}: {tally}; {log:?}");
    assert!(process.is_running(), "{runtime}: {}", process.transcript());
    tally
}

#[test]
fn managed_frames_are_those_that_the_runtime_finds() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        for modes in ["cpu,alloc,delegates,generics,osr", "all"] {
            let tally = compare(runtime, modes, 400);
            assert!(tally.share() >= 0.99, "{runtime}, {modes}: {tally}\n{:#?}", tally.examples);
            assert!(tally.distinct.len() > 20, "{runtime}, {modes}: {tally}");
        }
    }
}

/// The same for threads that are blocked, of which only two registers are known. Those that the
/// sample keeps busy are blocked now and then, its waiting ones nearly always.
#[test]
fn managed_frames_of_blocked_threads_are_those_that_the_runtime_finds() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        for (sample, arguments) in
            [("mixed", &["--seconds", "120"][..]), ("states", &["--seconds", "120"])]
        {
            let mut process = Sample::named(sample).start(runtime, arguments);
            process.wait_for_ready();
            let mut comparing = Comparing::attach_blocked(&process, &agent(), 50, 2);
            comparing.run(400, Duration::from_secs(30));
            let (tally, log) = comparing.stop();
            eprintln!("{runtime}, {sample}: {tally}");
            assert!(tally.counted() >= 400, "{runtime}, {sample}: {tally}; {log:?}");
            assert!(tally.share() >= 0.99, "{runtime}, {sample}: {tally}\n{:#?}", tally.examples);
            assert!(process.is_running(), "{runtime}: {}", process.transcript());
        }
    }
}
