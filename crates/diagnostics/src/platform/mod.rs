//! What differs between operating systems: one folder for each, with the same files.
//!
//! `transport` is how the port's bytes move, `discovery` how processes are found. Linux has `proc`
//! besides.

#[cfg(unix)]
mod unix;

#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(target_os = "macos", path = "macos/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "macos", windows)), path = "other/mod.rs")]
mod current;

pub use current::*;
