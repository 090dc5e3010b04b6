use crate::ModelError;

/// What can go wrong with a session file.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file could not be read or written.
    #[error("the session could not be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// The file does not begin as a session does.
    #[error(
        "this is not a clrscope session: it does not begin with the mark of one; name \
            a file that `clrscope record` wrote, or one of another tool that docs/formats.md lists"
    )]
    NotASession,
    /// The file ends within its header.
    #[error(
        "the session is empty: it ends within its header, so nothing was recorded; record again"
    )]
    Empty,
    /// The format is newer than this program.
    #[error(
        "recorded by a newer clrscope (format {format}; this one reads up to {known}), update \
            clrscope to read it"
    )]
    NewerFormat {
        /// Format of the file.
        format: u32,
        /// Newest format that this program reads.
        known: u32,
    },
    /// Some bytes are not what was written. What came before them has been read and is right.
    #[error(
        "the session is damaged at byte {offset}: {cause}; what was recorded before that place can \
            still be used"
    )]
    Corrupt {
        /// Where the damaged block, or the damaged header, begins.
        offset: u64,
        /// What is wrong with it.
        cause: Corruption,
    },
    /// A record does not fit the records before it; it was not written.
    #[error("a record does not fit the session: {0}")]
    Model(#[from] ModelError),
    /// A record is larger than a block may be; it was not written.
    #[error("a record of {size} bytes is larger than the limit of {limit}")]
    RecordTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A record could not be encoded.
    #[error("a record could not be encoded: {0}")]
    Encode(postcard::Error),
}

/// What is wrong with a block or with the header.
#[derive(Debug, thiserror::Error)]
pub enum Corruption {
    /// The checksum is that of other bytes.
    #[error("its checksum is {actual:08x}, it should be {stated:08x}")]
    Checksum {
        /// As the file says.
        stated: u32,
        /// As computed.
        actual: u32,
    },
    /// A length is larger than any that is written.
    #[error("its declared length of {length} bytes exceeds the limit of {limit} bytes")]
    TooLong {
        /// As the file says.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A kind of block that this format does not have.
    #[error("its kind {0} does not exist")]
    UnknownKind(u8),
    /// Decompression failed.
    #[error("it cannot be decompressed ({0})")]
    Decompress(String),
    /// A record could not be decoded.
    #[error("its record {index} cannot be decoded ({source})")]
    Record {
        /// Which record of the block, from 0.
        index: usize,
        /// Why.
        source: postcard::Error,
    },
    /// The header could not be decoded.
    #[error("its header cannot be decoded ({0})")]
    Header(postcard::Error),
    /// A record does not fit the records before it.
    #[error("its record {index} does not fit ({source})")]
    Model {
        /// Which record of the block, from 0.
        index: usize,
        /// Why.
        source: ModelError,
    },
}
