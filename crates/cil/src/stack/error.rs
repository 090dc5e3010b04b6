//! Why code has no definite stack.

use crate::{DecodeError, Token};

/// Why the stack has no definite height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The code cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An instruction takes more values than there are.
    #[error("IL_{offset:04x}: takes {pops} values off a stack of {height}")]
    Underflow {
        /// Where.
        offset: u32,
        /// Values taken.
        pops: u32,
        /// Values there.
        height: u16,
    },
    /// The stack grows beyond what a header can express.
    #[error("IL_{offset:04x}: the stack grows too high")]
    Overflow {
        /// Where.
        offset: u32,
    },
    /// Two ways to an instruction bring different heights.
    #[error(
        "IL_{to:04x}: reached with {second} values on the stack from IL_{from:04x}, otherwise with \
            {first}"
    )]
    Mismatch {
        /// The instruction.
        to: u32,
        /// Where the second way comes from.
        from: u32,
        /// Height by the way found first.
        first: u16,
        /// Height by the other.
        second: u16,
    },
    /// A branch leads to no instruction.
    #[error("IL_{offset:04x}: branches to IL_{target:04x}, where no instruction starts")]
    Target {
        /// Where.
        offset: u32,
        /// Where to.
        target: u32,
    },
    /// Control runs off the end of the code.
    #[error("IL_{offset:04x}: control runs off the end of the code")]
    FallsOff {
        /// The last instruction.
        offset: u32,
    },
    /// A call of something that [`Tokens`](crate::Tokens) does not know.
    #[error("IL_{offset:04x}: unknown method or signature {token}")]
    UnknownCall {
        /// Where.
        offset: u32,
        /// Of what.
        token: Token,
    },
    /// Values are left on the stack by `ret`, `jmp` or `endfilter`.
    #[error("IL_{offset:04x}: leaves {height} values on the stack")]
    NotEmpty {
        /// Where.
        offset: u32,
        /// How many.
        height: u16,
    },
}
