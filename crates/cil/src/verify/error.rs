//! What can be wrong with a body.

use crate::regions::RegionError;
use crate::{Opcode, StackError};

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The code cannot be read, or the stack has no definite height.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// More values on the stack than the header allows.
    #[error("the stack grows to {needed} values, but the header allows {declared}")]
    MaxStack {
        /// The highest stack.
        needed: u16,
        /// What the header says.
        declared: u16,
    },
    /// A branch brings values to an earlier instruction that no earlier way leads to.
    #[error(
        "IL_{offset:04x}: brings values back to IL_{target:04x}, which no earlier instruction \
            leads to"
    )]
    BackwardBranch {
        /// The branch.
        offset: u32,
        /// Where it leads.
        target: u32,
    },
    /// A part of a clause is empty or outside of the code.
    #[error("clause {clause}: a range is empty or ends behind the code")]
    ClauseRange {
        /// Index of the clause.
        clause: u32,
    },
    /// A part of a clause overlaps another part, of this or another clause, without being inside of
    /// it.
    #[error("clause {clause}: a range overlaps another one")]
    ClauseOverlap {
        /// Index of the clause.
        clause: u32,
    },
    /// Try block, filter and handler of a clause are not in the same region.
    #[error("clause {clause}: its parts are in different regions")]
    ClauseApart {
        /// Index of the clause.
        clause: u32,
    },
    /// A clause comes before one that is inside of it.
    #[error("clause {clause}: comes before a clause inside of it")]
    ClauseOrder {
        /// Index of the outer clause.
        clause: u32,
    },
    /// A part of a clause starts or ends in the middle of an instruction.
    #[error("IL_{offset:04x}: a clause starts or ends inside this instruction")]
    ClauseBoundary {
        /// The instruction.
        offset: u32,
    },
    /// A try block is entered with values on the stack.
    #[error("IL_{offset:04x}: a try block starts with {height} values on the stack")]
    TryEntry {
        /// Its start.
        offset: u32,
        /// How many.
        height: u16,
    },
    /// A branch leads into a try block other than at its start, into a filter or handler, or out of
    /// any of them.
    #[error(
        "IL_{offset:04x}: may not branch to IL_{target:04x} across the border of a try block or \
            handler"
    )]
    BranchAcross {
        /// The branch.
        offset: u32,
        /// Where it leads.
        target: u32,
    },
    /// A branch leads between a prefix and what it belongs to, or into the middle of an
    /// instruction.
    #[error(
        "IL_{offset:04x}: branches to IL_{target:04x}, inside an instruction or behind a prefix"
    )]
    Target {
        /// The branch.
        offset: u32,
        /// Where it leads.
        target: u32,
    },
    /// Control runs over the border of a try block, filter or handler, or off the end of the code.
    #[error("IL_{offset:04x}: control runs out of its try block, handler or method")]
    FallThrough {
        /// The last instruction inside.
        offset: u32,
    },
    /// An instruction is where it may not be.
    #[error("IL_{offset:04x}: {} is not allowed here", opcode.mnemonic())]
    Misplaced {
        /// Where.
        offset: u32,
        /// Which.
        opcode: Opcode,
    },
    /// A prefix in front of an instruction that does not take it, or twice.
    #[error("IL_{offset:04x}: {} does not take the prefix {}", opcode.mnemonic(), prefix.mnemonic())]
    Prefix {
        /// The instruction behind the prefix.
        offset: u32,
        /// The prefix.
        prefix: Opcode,
        /// The instruction.
        opcode: Opcode,
    },
    /// `unaligned.` or `no.` with an operand that means nothing.
    #[error("IL_{offset:04x}: {} does not take {value}", opcode.mnemonic())]
    PrefixOperand {
        /// The prefix.
        offset: u32,
        /// Which.
        opcode: Opcode,
        /// Its operand.
        value: u8,
    },
    /// There is no such argument.
    #[error("IL_{offset:04x}: argument {index} of {count}")]
    Argument {
        /// Where.
        offset: u32,
        /// Its index.
        index: u16,
        /// How many there are.
        count: u16,
    },
    /// There is no such local variable.
    #[error("IL_{offset:04x}: local {index} of {count}")]
    Local {
        /// Where.
        offset: u32,
        /// Its index.
        index: u16,
        /// How many there are.
        count: u16,
    },
}

impl From<RegionError> for VerifyError {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Range(clause) => Self::ClauseRange { clause },
            RegionError::Overlap(clause) => Self::ClauseOverlap { clause },
            RegionError::Apart(clause) => Self::ClauseApart { clause },
            RegionError::Order(clause) => Self::ClauseOrder { clause },
        }
    }
}
