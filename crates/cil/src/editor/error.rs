//! Why a body cannot be edited, or the result not be written.

use crate::{BodyError, DecodeError, Opcode, SignatureError, StackError, VerifyError};

/// Why a body cannot be edited or the result not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The code cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A branch or clause refers to an offset where no instruction starts.
    #[error("IL_{target:04x}: no instruction starts here, but a branch or clause refers to it")]
    Target {
        /// The offset.
        target: u32,
    },
    /// The signature of the locals cannot be read, or a new type not be written.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// A local is added to locals whose signature was not given.
    #[error("the signature of the locals is needed to add one")]
    LocalsUnknown,
    /// There are as many locals as an instruction can name.
    #[error("too many locals")]
    TooManyLocals,
    /// Locals were added, but no token for the new signature was set.
    #[error("locals were added, but the header has no token of their signature")]
    LocalsWithoutToken,
    /// A label was made but never bound.
    #[error("{} refers to a label that is not bound", what.mnemonic())]
    UnboundLabel {
        /// The instruction; `nop` stands for a clause.
        what: Opcode,
    },
    /// An instruction was made with an operand that it does not take.
    #[error("{} does not take this operand", opcode.mnemonic())]
    Operand {
        /// Which.
        opcode: Opcode,
    },
    /// The range to protect is empty or turned around.
    #[error("there is no code to protect")]
    EmptyRange,
    /// The range to protect contains `jmp`, which may not be in a try block.
    #[error("jmp cannot be protected")]
    Jump,
    /// A branch leads from outside into the middle of the range to protect.
    #[error("a branch leads into the middle of the code to protect")]
    BranchInto,
    /// The range to protect contains a part of a clause, and not the rest.
    #[error("the code to protect cuts clause {clause} in two")]
    CutsClause {
        /// Index of the clause.
        clause: usize,
    },
    /// Control runs off the end of the code.
    #[error("control runs off the end of the code")]
    FallsOff,
    /// More than 2³¹ bytes of code.
    #[error("the code is too large")]
    TooLarge,
    /// The result has no definite stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The result is not well formed.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The result is no body.
    #[error(transparent)]
    Body(#[from] BodyError),
}
