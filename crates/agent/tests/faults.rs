//! What becomes of a process in which the agent fails.

mod client;

use client::{
    Client, LIMIT, Listener, agent_threads, attach, clsid, config, is_mapped, library, wait_gone,
};
use std::time::{Duration, Instant};
use testkit::{Sample, TargetProcess, on_sample_runtimes_at_once, sample_runtimes};
use wire::{ByeReason, CpuEngine};

fn ends_well(mut process: TargetProcess) {
    process.send_line("go").unwrap();
    process.truth(LIMIT);
    process.close_stdin();
    let status = process.wait(LIMIT).unwrap();
    assert!(status.success(), "{status}\n{}", process.transcript());
}

#[test]
fn a_panic_in_a_callback_ends_the_session_with_a_reason() {
    for runtime in sample_runtimes() {
        let mut process =
            Sample::named("thrower").start(runtime, &["--rate", "500", "--count", "500", "--gate"]);
        process.wait_for_ready();
        let asked = config(&["exceptions:panic=1", "wall", "threads"], CpuEngine::Off);
        let mut client = Client::attach(&process, asked);
        client.collect(Duration::from_millis(300));
        assert!(client.bye.is_none(), "{runtime}");
        process.send_line("go").unwrap();
        client.wait(|client| client.bye.is_some());
        assert_eq!(client.bye.as_ref().unwrap().reason, ByeReason::Failed, "{runtime}");
        let complaints = client.complaints();
        assert!(
            complaints
                .iter()
                .any(|text| text.contains("the agent has failed in ICorProfilerCallback")),
            "{complaints:?}"
        );
        wait_gone(process.pid());
        assert!(!process.transcript().contains("panicked"), "{}", process.transcript());
        ends_well(process);
    }
}

#[test]
fn a_panic_in_a_thread_of_the_agent_ends_the_session_with_a_reason() {
    for runtime in sample_runtimes() {
        let mut process =
            Sample::named("thrower").start(runtime, &["--rate", "500", "--count", "100", "--gate"]);
        process.wait_for_ready();
        for asked in ["wall:clrscope-ticks=1", "heap:clrscope-heap=1"] {
            let mut client = Client::attach(&process, config(&[asked], CpuEngine::Off));
            client.wait(|client| client.bye.is_some());
            assert_eq!(
                client.bye.as_ref().unwrap().reason,
                ByeReason::Failed,
                "{runtime}, {asked}"
            );
            let complaints = client.complaints();
            assert!(
                complaints.iter().any(|text| text.contains("has failed in its thread")),
                "{complaints:?}"
            );
            wait_gone(process.pid());
        }
        ends_well(process);
    }
}

#[test]
fn an_agent_that_fails_to_start_leaves_nothing_behind() {
    for runtime in sample_runtimes() {
        let mut process =
            Sample::named("thrower").start(runtime, &["--rate", "500", "--count", "100", "--gate"]);
        process.wait_for_ready();
        let pid = process.pid();
        for fault in ["fail-initialize", "panic-initialize", "fail-initialize"] {
            let listener = Listener::new();
            let mut asked = config(&[&format!("exceptions:{fault}=1")], CpuEngine::Off);
            asked.socket = listener.path();
            assert!(attach(pid, &asked, clsid(pid)).is_err(), "{runtime}");
            // The runtime has unloaded it, or is about to: no thread may still need it.
            assert_eq!(agent_threads(pid), Vec::<String>::new(), "{runtime}");
        }
        wait_gone(pid);
        assert!(!is_mapped(pid, &library()), "{runtime}");
        let mut client = Client::attach(&process, config(&["exceptions"], CpuEngine::Off));
        client.stop();
        wait_gone(pid);
        ends_well(process);
    }
}

#[test]
fn an_agent_that_may_not_leave_is_called_no_more_than_it_has_to_be() {
    on_sample_runtimes_at_once(|runtime| {
        let mut process =
            Sample::named("thrower").start(runtime, &["--rate", "500", "--count", "100", "--gate"]);
        process.wait_for_ready();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("events");
        let asked = format!("exceptions:refuse-detach={}", file.display());
        let mut client = Client::attach(&process, config(&[&asked], CpuEngine::Off));
        let (low, high) = client.hello.as_ref().unwrap().event_mask;
        client.stop();
        // It asks for five seconds before that.
        let until = Instant::now() + LIMIT;
        let left = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some((low, high)) = text.split_once(' ') {
                break (low.parse::<u32>().unwrap(), high.parse::<u32>().unwrap());
            }
            assert!(Instant::now() < until, "{runtime}: all events stay on");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(left.0.count_ones() + left.1.count_ones() < low.count_ones() + high.count_ones());
        // Exceptions and suspensions (corprof.h).
        assert_eq!(left.0 & (0x40 | 0x1_0000), 0, "{runtime}: {left:x?}");
        // Now the runtime lets it go.
        wait_gone(process.pid());
        ends_well(process);
    });
}
