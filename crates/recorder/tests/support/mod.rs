//! What the tests on real runtimes have in common.
#![allow(dead_code, reason = "each test file uses a part of it")]

use profilers::Selection;
use recorder::{AgentFile, EngineChoice, RecordError, RecordOptions, SessionSummary};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The agent that cargo built for this program: tests depend on the crate, so it is there and never
/// an old one.
pub fn agent() -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    // target/<profile>/deps/<test> or target/<profile>/examples/<example>
    let profile = own.ancestors().nth(2).expect("a target folder");
    let agent = profile.join("deps").join("libclrscope_agent.so");
    assert!(agent.exists(), "{} is missing", agent.display());
    agent
}

/// Options to record CPU samples.
pub fn options(
    engine: EngineChoice,
    rate_hz: u32,
    duration: Duration,
    output: Option<&Path>,
) -> RecordOptions {
    RecordOptions {
        profilers: vec![Selection::parse("cpu").expect("a profiler")],
        rate_hz,
        engine,
        duration: Some(duration),
        output: output.map(Path::to_owned),
        instrument: None,
        live: false,
        sdk_tools: false,
        agent: AgentFile::Path(Arc::new(agent())),
    }
}

/// Records a process to the end.
pub fn record(pid: u32, options: RecordOptions) -> SessionSummary {
    try_record(pid, options).expect("a recording")
}

/// The same where it may be refused.
pub fn try_record(pid: u32, options: RecordOptions) -> Result<SessionSummary, RecordError> {
    let recording =
        recorder::attach(&diagnostics::find_pid(pid).expect("a .NET process"), options)?;
    let mut summary = recording.wait()?;
    Ok(summary.sessions.pop().expect("one session"))
}

/// Does something on a thread that the kernel lets take no samples, as in a container with the
/// usual seccomp profile.
pub fn without_kernel_ring<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    filtered(
        &[libc::SYS_perf_event_open],
        seccompiler::SeccompAction::Errno(libc::EPERM as u32),
        body,
    )
}

/// Does something on a thread, and in processes that it starts, under a filter for these system
/// calls.
pub fn filtered<R: Send + 'static>(
    calls: &[i64],
    refuse: seccompiler::SeccompAction,
    body: impl FnOnce() -> R + Send + 'static,
) -> R {
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that has seccomp");
    let filter =
        seccompiler::SeccompFilter::new(rules, seccompiler::SeccompAction::Allow, refuse, arch);
    let filter: seccompiler::BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).expect("the filter is taken");
        body()
    });
    thread.join().expect("no panic")
}

/// A counter of a recording.
pub fn counter(summary: &SessionSummary, name: &str) -> u64 {
    let counters = &summary.observer.counters;
    counters.iter().filter(|(known, _)| known.starts_with(name)).map(|(_, count)| count).sum()
}

/// Whether a process has a handler for SIGPROF, or ignores it.
pub fn handles_sigprof(pid: u32) -> bool {
    const SIGPROF: u32 = 27;
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process's status");
    let mask = |name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).expect("a mask of signals");
        u64::from_str_radix(line.trim(), 16).expect("a hexadecimal number")
    };
    (mask("SigCgt:") | mask("SigIgn:")) >> (SIGPROF - 1) & 1 != 0
}

/// Whether a library of ours is mapped in a process.
pub fn is_mapped(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process's map");
    maps.lines().any(|line| line.contains("libclrscope-"))
}
