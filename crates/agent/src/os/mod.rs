//! What the agent asks of the operating system, one mirrored folder for each.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;
