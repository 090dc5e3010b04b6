use crate::AgentFile;
use profilers::Selection;
use rules::RuleSet;
use std::{ffi::OsString, io::PipeWriter, path::PathBuf, time::Duration};

/// A command to launch.
#[derive(Debug, Default)]
pub struct LaunchCommand {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// The folder that it runs in; ours if there is none.
    pub folder: Option<PathBuf>,
    /// Environment variables that it gets beside ours, or in place of them.
    pub environment: Vec<(OsString, OsString)>,
    /// Takes what it prints. It then has no input, and a process group of its own, whose number is
    /// [`crate::Recording::command_pid`]. Without it, it has our standard streams and our group, so
    /// the terminal's signals reach it as if we were not there.
    pub output: Option<PipeWriter>,
}

impl From<Vec<OsString>> for LaunchCommand {
    fn from(words: Vec<OsString>) -> Self {
        Self { words, ..Self::default() }
    }
}

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The profilers to run.
    pub profilers: Vec<Selection>,
    /// CPU samples per second and running thread, 1 to 1000.
    pub rate_hz: u32,
    /// Who takes CPU samples.
    pub engine: EngineChoice,
    /// When to stop by itself; `None` to record until stopped or until the process ends.
    pub duration: Option<Duration>,
    /// Where the session goes; `None` to write no file (a live view).
    pub output: Option<PathBuf>,
    /// What the profiler `trace` instruments, and how; `None` if it does not run.
    pub instrument: Option<RuleSet>,
    /// Whether somebody watches: [`crate::Recording::subscribe`] then gives the records as they are
    /// made.
    pub live: bool,
    /// Whether a launch also records the tools of the .NET SDK: its command line, MSBuild nodes,
    /// compilers, servers.
    pub sdk_tools: bool,
    /// The agent to send in.
    pub agent: AgentFile,
}

/// Who takes CPU samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The best that the machine allows: the order below.
    #[default]
    Auto,
    /// The kernel, at each tick of a processor, into a ring read from outside: nothing of ours runs
    /// on the target's threads.
    KernelRing,
    /// Timer signals inside the target.
    Signals,
    /// The kernel, at each tick of a thread's CPU time. Each switch from thread to thread takes
    /// longer.
    KernelRingThreads,
    /// The runtime is suspended and its threads are walked.
    SuspendWalk,
}

impl EngineChoice {
    /// All choices and their words on the command line.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Auto, "auto"),
        (Self::KernelRing, "kernel-ring"),
        (Self::Signals, "signals"),
        (Self::KernelRingThreads, "kernel-ring-threads"),
        (Self::SuspendWalk, "suspend-walk"),
    ];
}
