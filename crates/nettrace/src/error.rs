use std::io;

/// Why a stream could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed. After [`io::ErrorKind::TimedOut`], `WouldBlock` and `Interrupted`, reading
    /// may continue.
    #[error("reading the event stream failed: {0}")]
    Io(#[from] io::Error),
    /// The stream ends in the middle of something.
    #[error("the event stream is cut short at byte {at}")]
    Truncated {
        /// Where, counted from the start of the stream.
        at: u64,
    },
    /// The stream does not begin like nettrace.
    #[error("this is not a nettrace stream")]
    NotNettrace,
    /// A version that we do not read.
    #[error("nettrace version {version} is not supported: versions 4 and 5 are")]
    Version {
        /// The version that the stream says it is, or needs.
        version: u32,
    },
    /// Something does not have the form that it must have.
    #[error("the event stream is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the object begins, counted from the start of the stream.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl Error {
    /// Whether nothing is wrong but that no data came in time: reading may continue.
    pub fn is_timeout(&self) -> bool {
        match self {
            Error::Io(error) => {
                matches!(
                    error.kind(),
                    io::ErrorKind::TimedOut
                        | io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                )
            }
            _ => false,
        }
    }
}
