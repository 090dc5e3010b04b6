//! Why nothing can attach to a .NET process.

use std::fmt;
use std::path::PathBuf;

/// Why nothing can attach to a .NET process. The text says the cause and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It belongs to another user.
    OtherUser {
        /// The user's name, or number.
        user: String,
    },
    /// It is ours, but the system does not let us look into it.
    Protected,
    /// The kernel refuses access to root as well: it has not all capabilities here.
    Confined,
    /// An environment variable switches diagnostics off.
    Disabled {
        /// The variable with its value.
        variable: String,
    },
    /// The runtime is below .NET Core 3.1.
    TooOld {
        /// Its version.
        version: String,
    },
    /// It was compiled ahead of time and has no profiling interface.
    NativeAot,
    /// It is stopped by a signal, or by a debugger.
    Stopped {
        /// The debugger's process id, where there is one.
        tracer: Option<u32>,
    },
    /// Its socket was made, but the file is gone.
    SocketRemoved {
        /// Where it was, as the process sees it.
        path: PathBuf,
    },
    /// It changed its root directory after it had made its socket, which we do not reach.
    Chrooted {
        /// Its root directory now, as we see it.
        root: PathBuf,
        /// Where the socket is, as the process saw it.
        path: PathBuf,
    },
    /// It runs .NET, but made no socket.
    NoSocket {
        /// Where the socket should be, as the process sees it.
        directory: PathBuf,
    },
    /// The runtime does not answer as it should.
    NotAnswering {
        /// What happened instead.
        reason: String,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::OtherUser { user } => {
                write!(f, "it belongs to another user, {user}: run as that user, or as root")
            }
            Obstacle::Protected => f.write_str(
                "the system does not allow access to it, because it changed its user \
                    or its user namespace: run as root",
            ),
            Obstacle::Confined => f.write_str(
                "the system does not allow access to it, although clrscope runs as root: give \
                    clrscope the capability CAP_SYS_PTRACE (in a container: --cap-add SYS_PTRACE, \
                    and the process ids of the host), and see whether a security module forbids it",
            ),
            Obstacle::Disabled { variable } => {
                write!(
                    f,
                    "diagnostics are switched off in it by {variable}: restart it without \
                    that variable"
                )
            }
            Obstacle::TooOld { version } => {
                write!(f, "it runs .NET Core {version}: .NET Core 3.1 or newer is needed")
            }
            Obstacle::NativeAot => f.write_str(
                "it was compiled ahead of time (NativeAOT) and has no profiling interface: use a \
                    native profiler such as perf",
            ),
            Obstacle::Stopped { tracer: Some(tracer) } => {
                write!(f, "a debugger, process {tracer}, holds it: let it continue there first")
            }
            Obstacle::Stopped { tracer: None } => {
                f.write_str("it is stopped: resume it first (kill -CONT, or fg in its shell)")
            }
            Obstacle::SocketRemoved { path } => write!(
                f,
                "its diagnostic socket {} was deleted, by a cleaner of temporary files perhaps: \
                    restart the process",
                path.display()
            ),
            Obstacle::Chrooted { root, path } => write!(
                f,
                "it has changed its root directory to {} (chroot) after it made its diagnostic \
                 socket {}, which cannot be reached from there: run clrscope where that path is \
                 seen, or start the process within its new root",
                root.display(),
                path.display()
            ),
            Obstacle::NoSocket { directory } => write!(
                f,
                "it made no diagnostic socket in {}: diagnostics may be switched off in its \
                 runtimeconfig.json, the directory may be read-only or full, or the runtime is \
                 still starting",
                directory.display()
            ),
            Obstacle::NotAnswering { reason } => f.write_str(reason),
        }
    }
}
