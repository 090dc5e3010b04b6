use crate::{HResult, Obstacle};
use std::fmt;
use std::io;
use std::time::Duration;

/// Why something with a .NET process did not work. The text says the cause and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No process has this id.
    #[error("there is no process {pid}: list the processes with `clrscope ps`")]
    NoSuchProcess {
        /// The id.
        pid: u32,
    },
    /// No .NET process has this name.
    #[error("no .NET process is named `{name}`: list the processes with `clrscope ps`")]
    NoProcessNamed {
        /// The name.
        name: String,
    },
    /// More than one .NET process has this name.
    #[error("`{name}` names {} .NET processes: use the id of one of them\n{}", candidates.len(), CandidateList(candidates))]
    Ambiguous {
        /// The name.
        name: String,
        /// All that have it.
        candidates: Vec<Candidate>,
    },
    /// The process runs no .NET runtime that we can see.
    #[error(
        "process {pid} ({name}) is not a .NET process: no CoreCLR is loaded in it; .NET Framework \
            and Mono are not supported"
    )]
    NotDotnet {
        /// The id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It is, or may be, a .NET process, but nothing can attach to it.
    #[error("cannot attach to process {pid} ({name}): {obstacle}")]
    Unattachable {
        /// The id.
        pid: u32,
        /// Its name.
        name: String,
        /// What stands in the way.
        obstacle: Obstacle,
    },
    /// The diagnostic port could not be connected to.
    #[error("cannot connect to the diagnostic port {address}: {source}{}", connect_step(source))]
    Connect {
        /// Where the port is.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Another process answers at the port's address.
    #[error(
        "process {found} answers at the diagnostic port {address} of process {expected}: the \
            socket is stale"
    )]
    WrongPeer {
        /// Where the port is.
        address: String,
        /// The process we want.
        expected: u32,
        /// The process we got.
        found: u32,
    },
    /// The runtime did not answer in time.
    #[error(
        "no answer to {command} within {} ms: the process may be stopped, overloaded, or busy with \
            another diagnostic tool",
        after.as_millis()
    )]
    Timeout {
        /// What was asked.
        command: &'static str,
        /// How long we waited.
        after: Duration,
    },
    /// The runtime closed the connection instead of answering.
    #[error("the connection was closed before {command} was answered: the process may be ending")]
    Closed {
        /// What was asked.
        command: &'static str,
    },
    /// The answer is none of the runtime's protocol.
    #[error("the answer to {command} is not one of a .NET runtime: {what}")]
    Garbage {
        /// What was asked.
        command: &'static str,
        /// What is wrong with the answer.
        what: String,
    },
    /// The runtime understood and refused.
    #[error("{command} failed: {hresult}{}", message.as_deref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// What was asked.
        command: &'static str,
        /// Why.
        hresult: HResult,
        /// What the runtime says about it, which only some commands do.
        message: Option<String>,
    },
    /// The command does not fit in a message of the protocol.
    #[error("{command} needs a message of {size} bytes, but the protocol allows at most {max}")]
    TooLarge {
        /// What was to be asked.
        command: &'static str,
        /// Bytes needed.
        size: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Reading or writing failed.
    #[error("{command} failed: {source}")]
    Io {
        /// What was asked.
        command: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The process has no room for an event session.
    #[error(
        "process {pid} has no room for an event session, which could make it hang or crash: \
            {what}; {next}"
    )]
    NoRoom {
        /// The process.
        pid: u32,
        /// What is used up.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// The process waits so long for processors that the end of an event session could make it
    /// hang.
    #[error(
        "{0}, and the end of an event session could make .NET Core 3.1 hang then: try again when \
        the machine has less to do, or leave out the profilers that listen to runtime events \
        (cpu, wall and exceptions do not)"
    )]
    Overloaded(Overload),
    /// The process that ends EventPipe sessions in order cannot be started, or is gone.
    #[error(
        "cannot run the process that ends event sessions in order when clrscope is killed, and \
        without it the target could come to harm: {source}; raise the limits of processes and \
        memory, or leave out profilers that listen to runtime events"
    )]
    Keeper {
        /// What the system says.
        source: io::Error,
    },
    /// Not built for this operating system.
    #[error("{what} is not supported on this system: {reason}")]
    Unsupported {
        /// What was wanted.
        what: &'static str,
        /// Why there is none.
        reason: &'static str,
    },
}

impl Error {
    /// The runtime's error code, where it gave one.
    pub fn hresult(&self) -> Option<HResult> {
        match self {
            Error::Refused { hresult, .. } => Some(*hresult),
            _ => None,
        }
    }

    /// Whether the runtime does not know the command: it is older, and an older form may work.
    pub fn is_unknown_command(&self) -> bool {
        self.hresult() == Some(HResult::UNKNOWN_COMMAND)
    }

    /// Whether another profiler holds the slot: notification-only attach may still work.
    pub fn is_profiler_already_active(&self) -> bool {
        self.hresult() == Some(HResult::PROFILER_ALREADY_ACTIVE)
    }

    /// From an error of reading or writing while `command` was under way.
    pub(crate) fn from_io(command: &'static str, after: Duration, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                Error::Timeout { command, after }
            }
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Error::Closed { command },
            _ => Error::Io { command, source },
        }
    }
}

/// The next step that fits a failed connection.
fn connect_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (run as the user of the process, or as root)",
        io::ErrorKind::ConnectionRefused => {
            " (the runtime that made the socket has ended, or is ending)"
        }
        io::ErrorKind::NotFound => {
            " (the process has ended, or its temporary directory was cleaned)"
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            " (the process may be stopped, or busy with another diagnostic tool)"
        }
        _ => "",
    }
}

/// Why the end of an event session could harm a process: threads that are ready to run may get no
/// processor for a long time, or it has no address space left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// A thread of the process waits long each time that it is ready.
    #[error("a thread of process {pid} waits {} ms for a processor when it is ready", wait.as_millis())]
    Thread {
        /// The process.
        pid: u32,
        /// The longest of its threads' average waits.
        wait: Duration,
    },
    /// The machine has too many threads that are ready.
    #[error("{ready} threads are ready to run on {processors} processors")]
    Machine {
        /// Threads that are ready, or run.
        ready: usize,
        /// Processors of the machine.
        processors: usize,
    },
    /// The process has hardly any address space left.
    #[error("only {} KB more of address space may be used by process {pid}", free >> 10)]
    AddressSpace {
        /// The process.
        pid: u32,
        /// Bytes that it may still use.
        free: u64,
    },
    /// The threads of the process cannot be read.
    #[error("how long threads of process {pid} wait for a processor cannot be read")]
    Unreadable {
        /// The process.
        pid: u32,
    },
}

/// A process that a name may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub pid: u32,
    /// Its command line.
    pub command_line: String,
}

/// Candidates one to a line.
struct CandidateList<'a>(&'a [Candidate]);

impl fmt::Display for CandidateList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, candidate) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "  {:>7}  {}", candidate.pid, candidate.command_line)?;
        }
        Ok(())
    }
}
