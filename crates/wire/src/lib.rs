//! What crosses the border between the agent inside the target and clrscope outside of it.
//!
//! The agent gets one [`SessionConfig`] when it starts (attach client data, or an environment
//! variable at launch), connects to the socket named there, says [`Record::Hello`], and from then
//! on writes frames of records: every id is defined before it is used. The other direction carries
//! only [`Control`] messages.
//!
//! A frame is a little-endian `u32` length followed by that many bytes of postcard; see [`frame`].
#![forbid(unsafe_code)]

mod bytes;
pub mod call_site;
mod config;
mod control;
pub mod frame;
pub mod heap;
pub mod memory;
mod record;
mod resource;
pub mod ring;
pub mod sdk;
mod standing;
mod trust;
mod type_name;
pub mod unwind_table;

pub use config::{ConfigError, CpuEngine, ProfilerConfig, SessionConfig};
pub use control::Control;
pub use record::*;
pub use resource::{HeldResource, OUT_OF_MEMORY, Resource, THREAD_STACK};
pub use standing::Standing;
pub use trust::FrameTrust;
pub use type_name::as_csharp;

/// Version of everything in this crate. Agent and clrscope must have the same one: both come from
/// one build, so a difference means that a stale agent answered, and the recording is refused with
/// that reason.
pub const PROTOCOL_VERSION: u16 = 12;

/// Class id of the agent as the one main profiler of a process.
pub const CLSID_MAIN: [u8; 16] = *b"clrscope-main\0\0\x01";

/// Class id of the agent as a notification-only profiler beside another main profiler (.NET 6 and
/// newer).
pub const CLSID_NOTIFY_ONLY: [u8; 16] = *b"clrscope-beside\x01";

/// What the names of memfds begin with by which resident agents are found.
const RESIDENT: &str = "clrscope-resident-";

/// Name of the memfd by which clrscope finds a resident agent. It says which protocol the agent
/// speaks, and which descriptor is the pipe into which the configuration of a session is written,
/// after its length in four bytes.
pub fn resident_name(pipe: u32) -> String {
    format!("{RESIDENT}{PROTOCOL_VERSION}-{pipe}")
}

/// The protocol and the pipe that an entry of `/proc/<pid>/fd` names, if it is the memfd of a
/// resident agent.
pub fn resident_of(link: &str) -> Option<(u16, u32)> {
    let name = link.strip_prefix("/memfd:")?.strip_prefix(RESIDENT)?;
    let (protocol, pipe) = name.strip_suffix(" (deleted)").unwrap_or(name).split_once('-')?;
    Some((protocol.parse().ok()?, pipe.parse().ok()?))
}

/// What a resident agent does: the first byte of its memfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResidentState {
    /// It waits for a session.
    Waits = 1,
    /// A session runs.
    Records = 2,
    /// A session has ended, and what it has changed is being reverted.
    Reverts = 3,
}

impl ResidentState {
    /// By its byte.
    pub fn of(byte: u8) -> Option<Self> {
        [Self::Waits, Self::Records, Self::Reverts].into_iter().find(|state| *state as u8 == byte)
    }
}

/// Environment variable through which a launched process gets its [`SessionConfig`], in lower-case
/// hexadecimal.
pub const CONFIG_ENV: &str = "CLRSCOPE_SESSION_CONFIG";
