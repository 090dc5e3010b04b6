use std::io;

/// Why a process cannot be read from outside. The text says the cause and what to do
/// next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process has ended.
    #[error("process {pid} has ended")]
    Exited {
        /// Its id.
        pid: u32,
    },
    /// The kernel does not let us read its memory.
    #[error(
        "the memory of process {pid} cannot be read ({source}): run as root with the capability \
            CAP_SYS_PTRACE, or as its user with kernel.yama.ptrace_scope=0"
    )]
    Memory {
        /// Its id.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// No CoreCLR is mapped into it.
    #[error("process {pid} is not a .NET process: no CoreCLR is loaded in it")]
    NoRuntime {
        /// Its id.
        pid: u32,
    },
    /// The runtime's structures are not where we know them to be.
    #[error("the structures of this runtime are not known: {what}")]
    Unknown {
        /// What was looked for and not found.
        what: String,
    },
    /// There is no way on this system.
    #[error("reading a process from outside is possible only on Linux x86-64")]
    Unsupported,
}
