//! Session files that a command is given.

use crate::exit::{Code, failure};
use std::{fs::File, io::ErrorKind, path::Path};

/// Opens a session to read it. An error says what to do next.
pub fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).map_err(|error| {
        let next = match error.kind() {
            ErrorKind::NotFound => {
                "check the path; `clrscope record` writes session files, *.clrscope"
            }
            ErrorKind::PermissionDenied => "run as the user who recorded it, or copy it",
            _ => "check the path and the disk",
        };
        failure(Code::File, format!("cannot open the session {}: {error}: {next}", path.display()))
    })
}
