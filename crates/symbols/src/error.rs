use std::io;
use std::path::PathBuf;

/// Why symbols could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is damaged, or of another kind.
    #[error("{} is damaged, or no {expected}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What is wrong with it.
        what: String,
    },
}
