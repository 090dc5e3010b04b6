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
pub const PROTOCOL_VERSION: u16 = 1;

/// Class id of the agent as the one main profiler of a process.
pub const CLSID_MAIN: [u8; 16] = *b"clrscope-main\0\0\x01";

/// Class id of the agent as a notification-only profiler beside another main profiler (.NET 6 and newer).
pub const CLSID_NOTIFY_ONLY: [u8; 16] = *b"clrscope-beside\x01";

/// Environment variable through which a launched process gets its [`SessionConfig`], in lower-case hexadecimal.
pub const CONFIG_ENV: &str = "CLRSCOPE_SESSION_CONFIG";
