//! What can be wrong with the bytes of a method body.

/// Why bytes are no method body. Offsets count from the start of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The bytes end in the middle.
    #[error("method body ends too early, in what starts at byte {offset}")]
    Truncated {
        /// Start of what is not whole.
        offset: usize,
    },
    /// The header is neither tiny nor fat.
    #[error("no method header starts with {byte:#04x}")]
    HeaderFormat {
        /// First byte.
        byte: u8,
    },
    /// A fat header says that it is shorter than its fields.
    #[error("method header of {words} words, less than 3")]
    HeaderSize {
        /// Its size in words of four bytes.
        words: u16,
    },
    /// An exception clause of unknown kind, or with a range that passes 2³².
    #[error("malformed exception clause at byte {offset}")]
    Clause {
        /// Where it stands.
        offset: usize,
    },
    /// The code is longer than its size field can say.
    #[error("{size} bytes of code are too many for a method")]
    CodeSize {
        /// Bytes of code.
        size: usize,
    },
}
