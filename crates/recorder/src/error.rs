use std::{io, path::PathBuf, time::Duration};

/// Why there is no recording. Each message names the cause and the next step.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The agent's bytes cannot be read.
    #[error("cannot read the agent library {}: {source}", path.display())]
    AgentFile {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No folder could be found for the agent and its socket.
    #[error(
        "found no folder that the target can see and that has room for the agent ({tried}); \
        set TMPDIR of the target to a writable folder, or mount one"
    )]
    NoPlace {
        /// Each folder tried and what went wrong there.
        tried: String,
    },
    /// What lies in the target's file system is touched with the rights of its user only, and we
    /// may not take them.
    #[error(
        "cannot act as the user {uid} of the target ({source}), and clrscope touches that user's \
        files with no other rights: run it as that user, or as root with CAP_SETUID and CAP_SETGID"
    )]
    Identity {
        /// The user of the target.
        uid: u32,
        /// Why not.
        source: io::Error,
    },
    /// The agent is built for another C library than the one that the target uses.
    #[error(
        "process {pid} uses {}, and the agent of this clrscope is built for {}: use a clrscope \
            that is built for it",
        if cfg!(target_env = "musl") { "the GNU C library" } else { "the C library musl (Alpine \
            Linux)" },
        if cfg!(target_env = "musl") { "musl" } else { "the GNU C library (glibc)" },
    )]
    OtherCLibrary {
        /// The process.
        pid: u32,
    },
    /// The session file cannot be written.
    #[error("cannot write the session file {}: {source}; choose another place with -o", path.display())]
    Output {
        /// Where.
        path: PathBuf,
        /// Why.
        source: session::SessionError,
    },
    /// The diagnostic port of the target refused.
    #[error(transparent)]
    Port(#[from] diagnostics::Error),
    /// The CPU engine that was asked for is unavailable.
    #[error(
        "the engine {engine} cannot be used here: {reason}; leave out --engine to let clrscope \
            choose"
    )]
    Engine {
        /// The engine.
        engine: &'static str,
        /// Why.
        reason: String,
    },
    /// The runtime has room for one profiler (.NET Core 3.1), and the last agent is not unloaded.
    #[error(
        "the agent of the last recording has stopped, but the runtime in process {pid} has not \
            unloaded it yet, and has no room for another one. If the machine was very busy when \
            that recording ended, .NET Core 3.1 looks again only after ten minutes: try again then"
    )]
    Leaves {
        /// The process.
        pid: u32,
    },
    /// A profiler was asked for that needs the main slot, and another one has it.
    #[error(
        "the profiler {profiler} needs the main profiler slot, and in process {pid} {}",
        match ours {
            true => "another profiler holds it: a command of clrscope that is running there (a \
                trace, or a heap snapshot). Try again when that has ended. If there is none, the \
                agent of another version of clrscope remains there until the process is restarted",
            false => "another profiler holds it (an APM agent, for example): start the process \
                without that",
        }
    )]
    MainSlotTaken {
        /// Whether an agent of clrscope is there.
        ours: bool,
        /// The process.
        pid: u32,
        /// The profiler that needs it.
        profiler: &'static str,
    },
    /// The process has no room for the agent.
    #[error("process {pid} has no room for the agent: {what}; {next}")]
    NoRoom {
        /// The process.
        pid: u32,
        /// What is used up.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// A command could not become a .NET process with an agent.
    #[error(
        "a .NET process would have no room for the agent here: {what}; {next}. The command was not \
            started"
    )]
    NoRoomToLaunch {
        /// What there is too little of.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// An agent that has traced methods is there, and the runtime does not let it ask for more.
    #[error(
        "{profiler} needs heap snapshots, which .NET allows only to a profiler that requests them \
        when it attaches; in process {pid} the agent of clrscope is resident since methods were \
        traced there, and has not requested them: restart the process, and next time trace with \
        --allow-heap"
    )]
    TracedBefore {
        /// The process.
        pid: u32,
        /// The profiler that needs it.
        profiler: &'static str,
    },
    /// The agent that stays in the process has no time.
    #[error(
        "the resident agent of clrscope in process {pid} {} (waited {} s): try again {}",
        if *reverts { "still reverts what the last recording has changed" } else { "records for \
            another command" },
        waited.as_secs(),
        if *reverts { "later" } else { "when that has ended" },
    )]
    ResidentBusy {
        /// The process.
        pid: u32,
        /// Whether it is done with its session, but for the changes that were made.
        reverts: bool,
        /// For how long.
        waited: Duration,
    },
    /// No further library is loaded into the process.
    #[error(
        "{count} libraries of clrscope are left in process {pid}, because other profilers were \
        there, or have detached in a way after which the runtime calls no notification-only \
        profiler; no more are loaded: restart the process, or try again if it was very busy"
    )]
    TooManyAgents {
        /// The process.
        pid: u32,
        /// How many.
        count: usize,
    },
    /// The agent was loaded but did not connect.
    #[error("the agent was loaded into process {pid} but did not connect within {limit:?}: {hint}")]
    NoHello {
        /// The process.
        pid: u32,
        /// How long we waited.
        limit: Duration,
        /// What may help.
        hint: String,
    },
    /// The agent is of another build.
    #[error("an agent of another version of clrscope is resident in process {pid} (protocol \
        {found}, expected {expected}): record with that version, or restart the process", expected = wire::PROTOCOL_VERSION)]
    StaleAgent {
        /// The process.
        pid: u32,
        /// Its version.
        found: u16,
    },
    /// The agent does not take what it is given.
    #[error(
        "the agent that answers in process {pid} is of another version of clrscope, and does not \
         take the session of this one: restart the process, or record with that version (if \
         --agent names a file, with the clrscope that the file belongs to)"
    )]
    OtherVersion {
        /// The process.
        pid: u32,
    },
    /// The agent gave up by itself.
    #[error("the agent in process {pid} gave up: {reason}")]
    AgentFailed {
        /// The process.
        pid: u32,
        /// Its last log line.
        reason: String,
    },
    /// The process ended before anything was recorded.
    #[error("process {pid} ended before the recording could begin")]
    Exited {
        /// The process.
        pid: u32,
    },
    /// The command cannot be run.
    #[error("cannot run {command}: {source}")]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The command ended and no .NET process was seen.
    #[error(
        "{command} ended with exit code {exit_code} and started no .NET process that could be \
            profiled: {hint}"
    )]
    NothingProfiled {
        /// The command.
        command: String,
        /// Its exit code.
        exit_code: i32,
        /// What may be the cause.
        hint: String,
    },
    /// A profiler was asked for that cannot be attached.
    #[error(
        "the profiler {profiler} works only from the start of a program on: clrscope launch -p \
            {profiler} -- <command>"
    )]
    NeedsLaunch {
        /// Which.
        profiler: &'static str,
    },
    /// A profiler was asked for that cannot run beside another one.
    #[error(
        "the profiler {profiler} cannot run beside another one, and the environment names one \
        (CORECLR_PROFILER): leave out {profiler}, or set CORECLR_ENABLE_PROFILING=0 for this run"
    )]
    NeedsMainSlot {
        /// Which.
        profiler: &'static str,
    },
    /// A profiler was asked for that would endanger a process on this runtime.
    #[error(
        "the profiler {profiler} needs .NET {since} or newer, and process {pid} runs {}: {why}",
        runtime_name(*runtime)
    )]
    RuntimeTooOld {
        /// Which.
        profiler: &'static str,
        /// The process.
        pid: u32,
        /// Lowest major version of .NET for it.
        since: u16,
        /// Why it is not safe on older ones, and what to do instead.
        why: &'static str,
        /// Version of the process's runtime: major, minor.
        runtime: (u16, u16),
    },
    /// Two profilers were asked for that cannot be in one recording.
    #[error(
        "the profilers {0} and {1} cannot be in one recording, because both use the runtime's \
        callbacks of collections: record one after the other"
    )]
    NotTogether(&'static str, &'static str),
    /// A profiler that instruments methods was asked for without saying which methods.
    #[error(
        "the profiler {0} needs patterns of the methods to trace: clrscope trace <PID> \
         '<pattern>', or clrscope launch --trace '<pattern>'"
    )]
    NoRules(&'static str),
    /// What was asked for does not fit into one message to the agent.
    #[error("the rules are too large: at most {MOST} bytes can be sent; use fewer or wider \
        patterns", MOST = wire::frame::MAX_FRAME)]
    RulesTooLarge,
    /// A system call failed where it should not.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Recording is not built for this system.
    #[error("recording on {0} is not built yet; clrscope records on Linux")]
    Unsupported(&'static str),
}

impl RecordError {
    /// The exit code that the command line gives for it; docs/cli.md lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NeedsLaunch { .. }
            | Self::NotTogether(..)
            | Self::NoRules(_)
            | Self::RulesTooLarge => 2,
            Self::Port(_)
            | Self::NoPlace { .. }
            | Self::MainSlotTaken { .. }
            | Self::Leaves { .. }
            | Self::TracedBefore { .. }
            | Self::ResidentBusy { .. }
            | Self::TooManyAgents { .. }
            | Self::NeedsMainSlot { .. }
            | Self::OtherCLibrary { .. }
            | Self::NoRoom { .. }
            | Self::NoRoomToLaunch { .. }
            | Self::RuntimeTooOld { .. }
            | Self::StaleAgent { .. }
            | Self::OtherVersion { .. }
            | Self::Identity { .. }
            | Self::NoHello { .. }
            | Self::AgentFailed { .. } => 4,
            Self::Exited { .. } | Self::NothingProfiled { .. } => 5,
            Self::Output { .. } | Self::AgentFile { .. } | Self::Io { .. } => 6,
            Self::Engine { .. } | Self::Unsupported(_) => 7,
            Self::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Spawn { .. } => 126,
        }
    }
}

/// .NET with its version, as it calls itself.
fn runtime_name((major, minor): (u16, u16)) -> String {
    format!(".NET {}{major}.{minor}", if major < 5 { "Core " } else { "" })
}
