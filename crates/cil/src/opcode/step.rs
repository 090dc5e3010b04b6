//! What is known of an instruction by its first byte, so that most of them need no decoding.

use super::{Flow, Opcode, OperandKind, by_last_byte};

/// What is known of an instruction by its first byte, so that most of them need no decoding.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// The marks below, and the bits of the argument or local that the opcode itself names.
    pub marks: u16,
    /// Bytes that it takes, operand included. Only without [`Step::TURNS`], or with
    /// [`Step::BRANCHES`] or [`Step::ENDS`].
    pub size: u16,
    /// Values that it takes off the stack. Only without [`Step::ODD`], or with [`Step::BRANCHES`],
    /// [`Step::ARGUMENT`] or [`Step::LOCAL`].
    pub pops: u16,
    /// Values that it puts there. As with `pops`.
    pub pushes: u16,
}

impl Step {
    /// There is more to it than to take and put values: it has to be decoded.
    pub const ODD: u16 = 1 << 8;
    /// It branches or returns, or its first byte does not tell.
    pub const TURNS: u16 = 1 << 9;

    /// It calls by a token, and control comes back. What that does to the stack is in the metadata.
    pub const CALLS: u16 = 1 << 10;

    /// A branch to a single target, `leave` aside. Only `br` takes no value.
    pub const BRANCHES: u16 = 1 << 11;
    /// Control does not come to what is behind it: `ret`, `throw`, `leave` and `endfinally`.
    pub const ENDS: u16 = 1 << 14;
    /// Its operand is the index of an argument, one byte.
    pub const ARGUMENT: u16 = 1 << 12;
    /// The same of a local.
    pub const LOCAL: u16 = 1 << 13;

    /// By the first byte of an instruction.
    #[expect(clippy::indexing_slicing, reason = "a byte is always less than 256")]
    #[inline]
    pub const fn of(first: u8) -> Self {
        STEPS[first as usize]
    }

    /// The marks of opcodes that name an argument or local which is not there, for that many
    /// arguments and locals.
    pub const fn beyond(arguments: u16, locals: u16) -> u16 {
        let mut marks = 0;
        let mut index = 0;
        while index < 4 {
            if index >= arguments {
                marks |= Self::argument(index);
            }
            if index >= locals {
                marks |= Self::local(index);
            }
            index += 1;
        }
        marks
    }

    pub(super) const fn argument(index: u16) -> u16 {
        1 << index
    }

    pub(super) const fn local(index: u16) -> u16 {
        1 << (4 + index)
    }

    const fn new(opcode: Option<Opcode>) -> Self {
        let Some(opcode) = opcode else {
            return Self { marks: Self::ODD | Self::TURNS, size: 0, pops: 0, pushes: 0 };
        };
        let row = opcode.row();
        let mut marks = match row.flow {
            Flow::Next => 0,
            Flow::Return | Flow::Leave => Self::ODD | Self::TURNS | Self::ENDS,
            Flow::Branch | Flow::Conditional | Flow::Jump => Self::ODD | Self::TURNS,
            Flow::Throw | Flow::EndFinally => Self::ODD | Self::ENDS,
            Flow::Call => Self::ODD | Self::CALLS,
            _ => Self::ODD,
        };
        marks |= match row.operand {
            OperandKind::Argument8 => Self::ODD | Self::ARGUMENT,
            OperandKind::Local8 => Self::ODD | Self::LOCAL,
            OperandKind::Branch8 | OperandKind::Branch32 if !matches!(row.flow, Flow::Leave) => {
                Self::BRANCHES
            }
            _ => 0,
        };
        if let Some(index) = opcode.implied_argument() {
            marks |= Self::argument(index);
        }
        if let Some(index) = opcode.implied_local() {
            marks |= Self::local(index);
        }
        let size = (opcode.size() + row.operand.size()) as u16;
        Self {
            marks,
            size,
            pops: row.pops.cast_unsigned() as u16,
            pushes: row.pushes.cast_unsigned() as u16,
        }
    }
}

static STEPS: [Step; 256] = steps();

#[expect(clippy::indexing_slicing, reason = "runs in the compiler, and both tables are as long")]
const fn steps() -> [Step; 256] {
    let mut steps = [Step::new(None); 256];
    let by_byte = by_last_byte(1);
    let mut byte = 0;
    while byte < steps.len() {
        steps[byte] = Step::new(by_byte[byte]);
        byte += 1;
    }
    steps
}
