//! Files of other tools, where a session file is asked for.

use crate::exit::{Code, failure};
use anyhow::Context as _;
use import::ImportError;
use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// A session file: the one that was named, or one that was made of it and is deleted with this.
pub struct SessionFile {
    path: PathBuf,
    made: Option<NamedTempFile>,
}

impl SessionFile {
    /// Makes a session of a file of another tool. Anything else is left to who reads sessions, with
    /// its errors.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let own = || Self { path: path.to_owned(), made: None };
        let Ok(mut file) = File::open(path) else { return Ok(own()) };
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Ok(own());
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let make = || tempfile::Builder::new().prefix("clrscope-").tempfile();
        let made = import::to_session(&mut file, &stem.unwrap_or_default(), make);
        let made = made.map_err(|error| {
            let code = match &error {
                // What was compressed is broken: the file itself could be read.
                ImportError::Io(broken)
                    if matches!(
                        broken.kind(),
                        ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                    ) =>
                {
                    Code::BadSession
                }
                ImportError::Io(_) | ImportError::Session(_) => Code::File,
                _ => Code::BadSession,
            };
            failure(code, error.to_string())
        });
        let made = made.with_context(|| path.display().to_string())?;
        Ok(Self { made, ..own() })
    }

    pub fn path(&self) -> &Path {
        self.made.as_ref().map_or(&self.path, NamedTempFile::path)
    }
}
