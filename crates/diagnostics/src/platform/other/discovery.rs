//! No discovery is built for this system.

use crate::{DotnetProcess, Error};
use std::time::Duration;

/// Whether the system tells which process listens at a socket.
pub const CHECKS_PEER: bool = false;

const UNSUPPORTED: Error = Error::Unsupported {
    what: "finding .NET processes",
    reason: "it is built for Linux, macOS and Windows",
};

/// Always refused.
pub fn discover(_: Duration) -> Result<Vec<DotnetProcess>, Error> {
    Err(UNSUPPORTED)
}

/// Always refused.
pub fn inspect(_: u32, _: Duration) -> Result<DotnetProcess, Error> {
    Err(UNSUPPORTED)
}
