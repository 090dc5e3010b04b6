//! One recording, from attach or launch to the session file.
//!
//! A recording has three sources, each read on a thread of its own or polled: the agent inside the
//! target (over a Unix socket), the kernel's sample ring (or the ring that the agent's signal
//! engine fills), and an EventPipe session. One thread, the [`pump`](crate), merges them: it
//! unwinds the copied stacks, interns functions, frames and stacks, orders the samples by time, and
//! writes session records.
#![forbid(unsafe_code)]

mod agent_file;
mod error;
mod notice;
mod options;
mod progress;
mod thread_dump;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
#[path = "other/mod.rs"]
mod linux;

pub use agent_file::AgentFile;
pub use error::RecordError;
pub use linux::{Departure, Recording, attach, dump, dump_outside, launch};
pub use notice::on_wait;
pub use options::{EngineChoice, LaunchCommand, RecordOptions};
pub use progress::{Progress, RuleHandle, SessionSummary, StopHandle, Summary, Timings};
pub use thread_dump::{CodeReader, DumpedFrame, DumpedThread, StackEnd, ThreadDump};
