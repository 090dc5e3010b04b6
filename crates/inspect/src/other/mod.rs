//! Elsewhere than on Linux.

use crate::{Error, FoundMethods, MethodSearch, Snapshot};
use diagnostics::DotnetProcess;
use std::time::Duration;

/// See the one of Linux.
///
/// # Errors
/// Always [`Error::Unsupported`].
pub fn look(_pid: u32, _apart: Duration) -> Result<Snapshot, Error> {
    Err(Error::Unsupported)
}

/// See the one of Linux.
///
/// # Errors
/// Always [`Error::Unsupported`].
pub fn search_methods(_: &DotnetProcess, _: &MethodSearch) -> Result<FoundMethods, Error> {
    Err(Error::Unsupported)
}

/// See the one of Linux: it says nothing here.
pub struct OutsideCode(());

impl OutsideCode {
    /// Of a process.
    pub fn new(_pid: u32) -> Self {
        Self(())
    }
}

impl recorder::CodeReader for OutsideCode {
    fn explain(&mut self, address: u64) -> Vec<wire::Record> {
        vec![wire::Record::NotCode(address)]
    }
}
