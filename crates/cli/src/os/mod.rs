//! What differs between operating systems: signals, and the size of a terminal.

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod current;
#[cfg(not(unix))]
#[path = "other/mod.rs"]
mod current;

pub use current::*;

/// A signal that clrscope takes note of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A polite request to end.
    Terminate,
    /// The terminal is gone.
    Hangup,
    /// Ctrl-\.
    Quit,
    /// For the program's own use.
    User1,
    /// For the program's own use.
    User2,
}
