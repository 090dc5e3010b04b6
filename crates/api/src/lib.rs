//! What clrscope says to programs about processes, profilers and recordings: the types that
//! commands print with `--json`, and that the server sends.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod preset;
mod process;
mod profiler;
mod recording;
mod session_name;

pub use preset::{PRESETS, Preset};
pub use process::{Process, uptime};
pub use profiler::{Param, Profiler, Value, since};
pub use recording::{SessionJson, SummaryJson};
pub use session_name::session_name;
