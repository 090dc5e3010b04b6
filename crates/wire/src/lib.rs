//! What crosses the border between the agent inside the target and clrscope outside of it.
//!
//! The agent gets one [`SessionConfig`] when it starts (attach client data, or an environment variable at
//! launch), connects to the socket named there, says [`Record::Hello`], and from then on writes frames of
//! records: every id is defined before it is used. The other direction carries only [`Control`] messages.
//!
//! A frame is a little-endian `u32` length followed by that many bytes of postcard; see [`frame`].
#![forbid(unsafe_code)]

mod bytes;
pub mod call_site;
mod config;
mod control;
pub mod frame;
pub mod heap;
mod record;
pub mod ring;
mod type_name;

pub use config::{ConfigError, CpuEngine, ProfilerConfig, SessionConfig};
pub use control::Control;
pub use record::*;
pub use type_name::as_csharp;

/// Version of everything in this crate. Agent and clrscope must have the same one: both come from one build,
/// so a difference means that a stale agent answered, and the recording is refused with that reason.
pub const PROTOCOL_VERSION: u16 = 3;

/// Class id of the agent as the one main profiler of a process.
pub const CLSID_MAIN: [u8; 16] = *b"clrscope-main\0\0\x01";

/// Class id of the agent as a notification-only profiler beside another main profiler (.NET 6 and newer).
pub const CLSID_NOTIFY_ONLY: [u8; 16] = *b"clrscope-beside\x01";

/// Abstract name of the socket at which an agent that cannot leave its process waits for the next session: from the pid
/// namespace of the process, as `/proc/<pid>/ns/pid` links to it, and its id in there.
pub fn door_name(namespace: &str, pid: u32) -> String {
    let number: String = namespace.chars().filter(char::is_ascii_digit).collect();
    format!("clrscope-door-{number}-{pid}")
}

/// What an agent at its door says to a session that is brought: one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DoorAnswer {
    /// It begins.
    Begins = 1,
    /// The runtime does not allow what it needs: some things can be asked for only by one that attaches.
    Refused = 2,
}

/// Environment variable through which a launched process gets its [`SessionConfig`], in lower-case hexadecimal.
pub const CONFIG_ENV: &str = "CLRSCOPE_SESSION_CONFIG";
