//! Facts about a process, on systems that do not tell them.

use super::Target;

/// The process that a user means, by its id or name.
///
/// # Errors
/// Always: environment and files of another process are read on Linux only.
pub fn find(_target: &str) -> anyhow::Result<Target> {
    let reason = "name the home folder without --pid, or run clrscope on Linux";
    Err(diagnostics::Error::Unsupported { what: "reading the environment of a process", reason }
        .into())
}
