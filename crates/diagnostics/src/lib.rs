//! The .NET runtime's own door: which .NET processes there are, and what their runtimes do for us.
//!
//! - [`discover`] and [`find`]: processes of every user and container that we may see, with facts,
//!   and with the exact reason where nothing can attach.
//! - [`Port`]: the commands of the diagnostic port, such as attaching a profiler or starting an
//!   EventPipe session.
//! - [`ReversePort`]: runtimes that connect to us, for launching.
//! - [`proc`] (Linux): parsers of `/proc` that others use as well.
//!
//! Everything blocks, and everything has a time-out: a runtime that is stopped, overloaded, or
//! replaced by something hostile costs a caller the time-out and no more.
//!
//! It does not: load anything into a process by other means than the runtime's own command, or need
//! .NET on the machine.
//!
//! ```no_run
//! let process = diagnostics::find("MyService")?;
//! let info = process.port()?.process_info()?;
//! println!("{} runs .NET {:?}", process.pid, info.runtime_version);
//! # Ok::<(), diagnostics::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod container;
mod error;
mod eventpipe;
mod hresult;
#[cfg(target_os = "linux")]
pub mod keeper;
mod memory;
mod message;
mod obstacle;
mod platform;
mod port;
mod process;
mod reverse;
mod usage;

pub use container::{Container, container};
pub use error::{Candidate, Error, Overload};
pub use eventpipe::{EventPipeConfig, EventPipeSession, Provider, Stopper};
pub use hresult::HResult;
#[cfg(target_os = "linux")]
pub use keeper::Keeper;
pub use memory::{MemorySplit, memory};
pub use obstacle::Obstacle;
#[cfg(target_os = "linux")]
pub use platform::{discovery::named_port, limits, overload, proc, processors};
pub use port::{DumpFlags, DumpType, PerfMapType, Port, ProcessInfo, clsid_text};
pub use process::{DotnetProcess, Hosting, discover, find, find_name, find_pid, locate};
pub use reverse::{ConnectedRuntime, ReversePort};
pub use usage::{Usage, usage};
