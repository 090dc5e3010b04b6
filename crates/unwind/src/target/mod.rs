use std::fs::File;
use std::io;

use crate::Mapping;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub use linux::LiveProcess;
#[cfg(not(target_os = "linux"))]
pub use other::LiveProcess;

/// The process whose stacks are unwound, as far as the unwinder needs it.
pub trait Target {
    /// All mappings of its address space.
    ///
    /// # Errors
    ///
    /// Any error of the system; the unwinder keeps what it knew before.
    fn mappings(&self) -> io::Result<Vec<Mapping>>;

    /// The file behind one of its mappings.
    ///
    /// # Errors
    ///
    /// Any error of the system; frames in this file are then left by what is plausible.
    fn open(&self, mapping: &Mapping) -> io::Result<File>;

    /// The image of the `[vdso]`, which is no file; `None` where it is unavailable.
    fn vdso(&self) -> Option<Vec<u8>>;
}
