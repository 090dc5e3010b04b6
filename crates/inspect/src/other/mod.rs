//! Elsewhere than on Linux.

use crate::{Error, Snapshot};
use std::time::Duration;

/// See the one of Linux.
///
/// # Errors
/// Always [`Error::Unsupported`].
pub fn look(_pid: u32, _apart: Duration) -> Result<Snapshot, Error> {
    Err(Error::Unsupported)
}
