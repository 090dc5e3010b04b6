use std::fs::File;
use std::io;

use super::Target;
use crate::Mapping;

/// A running process. On this system its address space cannot be read, so its native frames are not
/// unwound.
#[derive(Clone, Copy, Debug)]
pub struct LiveProcess {
    _pid: u32,
}

impl LiveProcess {
    /// The process with this id.
    pub fn new(pid: u32) -> Self {
        Self { _pid: pid }
    }
}

impl Target for LiveProcess {
    fn mappings(&self) -> io::Result<Vec<Mapping>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn open(&self, _mapping: &Mapping) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn vdso(&self) -> Option<Vec<u8>> {
        None
    }
}
