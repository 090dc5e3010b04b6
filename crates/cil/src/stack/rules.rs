//! What else is checked while the stack is computed.

use super::error::StackError;
use crate::opcode::Step;
use crate::{Instruction, Opcode};

/// What is asked of code besides heights, while a walk passes over it.
pub(crate) trait Rules {
    type Error: From<StackError>;

    /// Marks of opcodes that [`Rules::check`] wants to see, besides those with [`Step::ODD`].
    fn marks(&self) -> u16;

    /// It wants to see all instructions that do not end in front of this offset, too.
    fn calm_until(&self) -> u32;

    /// Whether it has nothing against a branch from here to an offset, if an instruction starts
    /// there.
    fn is_calm(&self, target: u32) -> bool;

    /// Whether there is the argument or local that an opcode with [`Step::ARGUMENT`] or
    /// [`Step::LOCAL`] names.
    fn has(&self, step: Step, index: u8) -> bool;

    /// Whether it has nothing against an opcode with [`Step::ENDS`], `leave` to this target, which
    /// ends at `end`. Then it has passed over it.
    fn ends(&mut self, opcode: Opcode, target: Option<u32>, end: u32) -> bool;

    /// Looks at an instruction. The pass may have found no way to it, and so no height of the stack
    /// before it.
    fn check(
        &mut self,
        instruction: &Instruction<'_>,
        height: Option<u16>,
    ) -> Result<(), Self::Error>;
}

/// Nothing is asked.
pub(super) struct NoRules;

impl Rules for NoRules {
    type Error = StackError;

    fn marks(&self) -> u16 {
        0
    }

    fn calm_until(&self) -> u32 {
        u32::MAX
    }

    fn is_calm(&self, _: u32) -> bool {
        true
    }

    fn has(&self, _: Step, _: u8) -> bool {
        true
    }

    fn ends(&mut self, _: Opcode, _: Option<u32>, _: u32) -> bool {
        true
    }

    fn check(&mut self, _: &Instruction<'_>, _: Option<u16>) -> Result<(), StackError> {
        Ok(())
    }
}
