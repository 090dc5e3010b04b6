use std::fmt;
use std::io;

/// Why the kernel's ring could not be opened. Every variant says what to do; another engine may
/// still work.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system does not let us watch this process.
    #[error("the system refuses perf_event_open for process {pid}: {reason}")]
    NotPermitted {
        /// The process.
        pid: u32,
        /// Why, as far as it can be found out.
        reason: Refusal,
    },
    /// The system does not let us watch processors.
    #[error(
        "watching processors requires root, or CAP_PERFMON and CAP_BPF (`setcap \
         cap_perfmon,cap_bpf,cap_sys_ptrace+ep`); without them, use another engine"
    )]
    NoProcessors,
    /// The filter that lets only the process's samples through cannot be used.
    #[error(
        "the kernel takes no filter on a process (BPF: {source}); as root or with CAP_BPF it does, \
            or use another engine"
    )]
    NoFilter {
        /// Why.
        source: io::Error,
    },
    /// There is no such process, or it has ended.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// The process.
        pid: u32,
    },
    /// Each thread takes one file for each processor, and there may not be as many.
    #[error(
        "watching {threads} threads on {processors} processors takes more open files than the \
         limit of {limit} allows; raise it with `ulimit -n`, or use another engine"
    )]
    TooManyFiles {
        /// Threads of the process so far.
        threads: usize,
        /// Processors.
        processors: usize,
        /// The limit (`RLIMIT_NOFILE`), already raised as far as it goes.
        limit: u64,
    },
    /// Not even a small ring may be locked in memory.
    #[error(
        "the ring buffer cannot be locked in memory; raise kernel.perf_event_mlock_kb or `ulimit \
         -l`, end other profilers, or use another engine"
    )]
    NoLockedMemory,
    /// This system has no such thing.
    #[error("this system has no perf_event_open; use another engine")]
    Unsupported,
    /// The options make no sense.
    #[error("{0}")]
    BadOptions(&'static str),
    /// Anything else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why the system refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The value of `kernel.perf_event_paranoid`, where it can be read.
    pub paranoid: Option<i32>,
    /// Whether a seccomp filter is on us, as in most containers.
    pub seccomp: bool,
    /// Whether the process belongs to another user.
    pub other_user: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { other_user: true, .. } => f.write_str(
                "it belongs to another user; run as that user or as root, or use \
                    another engine",
            ),
            Self { paranoid: Some(level), .. } if *level > 2 => write!(
                f,
                "kernel.perf_event_paranoid is {level}; set it to 2 or less (`sysctl \
                 kernel.perf_event_paranoid=2`), give clrscope CAP_PERFMON, or use another engine"
            ),
            Self { seccomp: true, .. } => f.write_str(
                "a seccomp filter, such as the default one of containers, forbids it; allow the \
                    call, or use another engine",
            ),
            _ => f.write_str(
                "a security module may forbid it; run as root, give clrscope \
                CAP_PERFMON, or use another engine",
            ),
        }
    }
}

/// Why the agent's ring could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SharedRingError {
    /// The shape makes no sense, or is larger than any ring of ours.
    #[error("the agent's sample ring has an impossible shape: {slots} slots of {slot_size} bytes")]
    BadLayout {
        /// How many slots.
        slots: u32,
        /// Bytes of each.
        slot_size: u32,
    },
    /// The file is smaller than its shape says.
    #[error("the agent's sample ring has {size} bytes instead of {expected}")]
    TooSmall {
        /// What it has.
        size: u64,
        /// What it should have.
        expected: u64,
    },
    /// The target could shrink the file under us, and reading it would then end this process.
    #[error("the agent's sample ring cannot be sealed against shrinking: {0}")]
    NotSealed(io::Error),
    /// It cannot be mapped.
    #[error("the agent's sample ring cannot be mapped: {0}")]
    NotMapped(io::Error),
    /// This system has no such rings.
    #[error("sample rings of signal handlers are not supported on this system")]
    Unsupported,
}
