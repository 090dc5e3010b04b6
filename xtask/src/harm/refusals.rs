//! Which refusals of clrscope are right: those that name what is in the way in that cell.

/// What clrscope says when it refuses.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Its exit code.
    pub code: i32,
    /// A part of its message that names the cause.
    pub says: &'static str,
}

/// A refusal with this exit code, whose message has this part.
const fn refusal(code: i32, says: &'static str) -> Refusal {
    Refusal { code, says }
}

/// The exit code of a launch that refuses, whatever the cause.
const LAUNCH_FAILED: i32 = 125;

impl Refusal {
    /// Whether this is what clrscope said.
    fn is(&self, code: i32, said: &str, launched: bool) -> bool {
        (code == self.code || launched && code == LAUNCH_FAILED) && said.contains(self.says)
    }
}

/// Whether a refusal names one of these causes.
pub fn is_right<'a>(
    mut right: impl Iterator<Item = &'a Refusal>,
    code: i32,
    said: &str,
    launched: bool,
) -> bool {
    right.any(|refusal| refusal.is(code, said, launched))
}

/// Right in each cell: the machine itself may be too busy for event sessions on .NET Core 3.1.
pub const BUSY_MACHINE: &[Refusal] =
    &[refusal(4, "the end of an event session could make .NET Core 3.1 hang")];

/// Too few file descriptors.
pub const DESCRIPTORS: &[Refusal] = &[refusal(4, "file descriptors")];

/// Too little address space.
pub const ADDRESS_SPACE: &[Refusal] = &[refusal(4, "of address space")];

/// Too few threads and processes.
pub const THREADS: &[Refusal] = &[refusal(4, "threads and processes")];

/// Too little memory in the control group.
pub const MEMORY: &[Refusal] = &[refusal(4, "of its memory cgroup are free")];

/// A filter of system calls.
pub const FILTER: &[Refusal] = &[refusal(7, "a filter of system calls (seccomp) is in place")];

/// Another handler of SIGPROF.
pub const HANDLER: &[Refusal] = &[refusal(7, "SIGPROF already has a handler in this process")];

/// Another profiler, which is not clrscope's.
pub const PROFILER: &[Refusal] = &[
    refusal(4, "another profiler is active in the process"),
    refusal(4, "another profiler holds it (an APM agent, for example)"),
    refusal(4, "cannot run beside another one, and the environment names one (CORECLR_PROFILER)"),
    refusal(5, "names another profiler"),
];

/// Another command of clrscope that records at the same time.
pub const OTHER_COMMAND: &[Refusal] = &[
    refusal(4, "records for another command"),
    refusal(4, "still reverts what the last recording has changed"),
    refusal(4, "another profiler holds it: a command of clrscope that is running there"),
    refusal(4, "another profiler is active in the process"),
    refusal(4, "the agent of the last recording has stopped, but the runtime"),
];

/// The process is stopped.
pub const STOPPED: &[Refusal] = &[
    refusal(4, "it is stopped: resume it first"),
    refusal(4, "a debugger, process"),
    refusal(4, "no answer to"),
    refusal(4, "did not connect within"),
];

/// The process gets next to no processor.
pub const SLOW: &[Refusal] = &[refusal(4, "no answer to"), refusal(4, "did not connect within")];

/// The session cannot be written.
pub const DISK: &[Refusal] = &[refusal(6, "cannot write the session file")];

/// The process ended, or is about to.
pub const GONE: &[Refusal] = &[
    refusal(4, "the process may be ending"),
    refusal(4, "cannot attach to process"),
    refusal(4, "cannot connect to the diagnostic port"),
    refusal(4, "is not a .NET process"),
    refusal(4, "did not connect within"),
    refusal(4, " failed: "),
    refusal(5, "ended before the recording could begin"),
    refusal(7, "there is no process"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_right_where_its_cause_is_there() {
        let said = "error: process 7 has no room for the agent: only 3 more of at most 40 threads \
            and processes may be started there; raise the limit";
        assert!(is_right(THREADS.iter(), 4, said, false));
        assert!(is_right(THREADS.iter(), 125, said, true));
        assert!(!is_right(THREADS.iter(), 125, said, false), "only a launch ends so");
        assert!(!is_right(THREADS.iter(), 7, said, false), "another exit code");
        assert!(!is_right(DESCRIPTORS.iter().chain(MEMORY), 4, said, false), "another cause");
    }
}
