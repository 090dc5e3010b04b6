use crate::{Format, unpack::TooMuch};
use session::SessionError;
use std::io;

/// Why a file was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[source] io::Error),
    /// The session cannot be written.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// It is damaged, or not what it looks like.
    #[error("the file looks like {format} and is damaged: {what}; export it again")]
    Damaged {
        /// What it looks like.
        format: Format,
        /// What is wrong, and where.
        what: String,
    },
    /// It is beyond a limit.
    #[error(
        "the file has more than {limit} {what}, which is more than clrscope imports; export a \
         shorter time or fewer threads"
    )]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// It is of a kind that is not read.
    #[error("{0}")]
    Unsupported(String),
    /// There is nothing in it.
    #[error("the file is {0} and has no samples; record again")]
    Empty(Format),
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TooMuch>());
        match inner {
            Some(TooMuch(limit)) => {
                Self::TooLarge { what: "bytes after decompression", limit: *limit }
            }
            None => Self::Io(error),
        }
    }
}
