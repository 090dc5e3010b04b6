//! Why a blob is not a signature, or a signature cannot be written.

/// Why a blob is not a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The blob ends in the middle.
    #[error("signature ends too early, at byte {offset}")]
    Truncated {
        /// Where more bytes were wanted.
        offset: usize,
    },
    /// A compressed number starts with the bits 111, which no encoder writes.
    #[error("signature has a malformed number at byte {offset}")]
    BadNumber {
        /// Where it stands.
        offset: usize,
    },
    /// A type starts with a byte that names no type.
    #[error("signature has an unknown element type {element:#04x} at byte {offset}")]
    BadElement {
        /// The byte.
        element: u8,
        /// Where it stands.
        offset: usize,
    },
    /// The first byte is not that of the kind of signature asked for.
    #[error("signature starts with {found:#04x}, which is not a {wanted}")]
    BadKind {
        /// The byte.
        found: u8,
        /// What was asked for.
        wanted: &'static str,
    },
    /// A token points to a table that a signature cannot refer to.
    #[error("signature refers to an unknown metadata table at byte {offset}")]
    BadToken {
        /// Where it stands.
        offset: usize,
    },
    /// Types nest deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("signature nests types too deeply at byte {offset}")]
    TooDeep {
        /// Where.
        offset: usize,
    },
    /// The signature is over but the blob is not.
    #[error("signature ends at byte {offset}, but the blob continues")]
    Trailing {
        /// First byte behind it.
        offset: usize,
    },
    /// A number or token is too large for the compressed form (29 bits).
    #[error("{value:#x} does not fit into a signature")]
    TooLarge {
        /// The number.
        value: u32,
    },
}
