//! Instructions to put into a body.

use super::Label;
use crate::{Instruction, Opcode, Operand, Token};

/// What a [`NewInstruction`] works on: an [`Operand`] with labels for offsets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NewOperand {
    /// Anything but a branch target.
    Plain(Operand<'static>),
    /// Where a branch leads.
    Label(Label),
    /// Where the cases of a `switch` lead.
    Switch(Vec<Label>),
}

/// An instruction that has no offset yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewInstruction {
    /// What it does. Short forms of branches stand for long ones and the other way round.
    pub opcode: Opcode,
    /// What it works on.
    pub operand: NewOperand,
}

impl From<Opcode> for NewInstruction {
    fn from(opcode: Opcode) -> Self {
        Self::plain(opcode, Operand::None)
    }
}

impl NewInstruction {
    /// An instruction that does not branch.
    #[must_use]
    pub const fn plain(opcode: Opcode, operand: Operand<'static>) -> Self {
        Self { opcode, operand: NewOperand::Plain(operand) }
    }

    /// One with a token.
    #[must_use]
    pub const fn token(opcode: Opcode, token: Token) -> Self {
        Self::plain(opcode, Operand::Token(token))
    }

    /// A branch or `leave`.
    #[must_use]
    pub const fn branch(opcode: Opcode, to: Label) -> Self {
        Self { opcode, operand: NewOperand::Label(to) }
    }

    /// A `switch`.
    #[must_use]
    pub const fn switch(cases: Vec<Label>) -> Self {
        Self { opcode: Opcode::Switch, operand: NewOperand::Switch(cases) }
    }

    /// Loads a number in the shortest form.
    #[must_use]
    pub fn ldc_i4(value: i32) -> Self {
        const NAMED: [Opcode; 10] = [
            Opcode::LdcI4M1,
            Opcode::LdcI40,
            Opcode::LdcI41,
            Opcode::LdcI42,
            Opcode::LdcI43,
            Opcode::LdcI44,
            Opcode::LdcI45,
            Opcode::LdcI46,
            Opcode::LdcI47,
            Opcode::LdcI48,
        ];
        let named = usize::try_from(i64::from(value) + 1).ok().and_then(|index| NAMED.get(index));
        match (named, i8::try_from(value)) {
            (Some(&opcode), _) => opcode.into(),
            (None, Ok(value)) => Self::plain(Opcode::LdcI4S, Operand::Int8(value)),
            (None, Err(_)) => Self::plain(Opcode::LdcI4, Operand::Int32(value)),
        }
    }

    /// Loads a number of eight bytes.
    #[must_use]
    pub const fn ldc_i8(value: i64) -> Self {
        Self::plain(Opcode::LdcI8, Operand::Int64(value))
    }

    fn indexed(
        named: &[Opcode],
        short: Opcode,
        long: Opcode,
        index: u16,
        operand: Operand<'static>,
    ) -> Self {
        match named.get(usize::from(index)) {
            Some(&opcode) => opcode.into(),
            None if index < 0x100 => Self::plain(short, operand),
            None => Self::plain(long, operand),
        }
    }

    /// Loads an argument.
    #[must_use]
    pub fn ldarg(index: u16) -> Self {
        let named = [Opcode::Ldarg0, Opcode::Ldarg1, Opcode::Ldarg2, Opcode::Ldarg3];
        Self::indexed(&named, Opcode::LdargS, Opcode::Ldarg, index, Operand::Argument(index))
    }

    /// Loads the address of an argument.
    #[must_use]
    pub fn ldarga(index: u16) -> Self {
        Self::indexed(&[], Opcode::LdargaS, Opcode::Ldarga, index, Operand::Argument(index))
    }

    /// Stores into an argument.
    #[must_use]
    pub fn starg(index: u16) -> Self {
        Self::indexed(&[], Opcode::StargS, Opcode::Starg, index, Operand::Argument(index))
    }

    /// Loads a local variable.
    #[must_use]
    pub fn ldloc(index: u16) -> Self {
        let named = [Opcode::Ldloc0, Opcode::Ldloc1, Opcode::Ldloc2, Opcode::Ldloc3];
        Self::indexed(&named, Opcode::LdlocS, Opcode::Ldloc, index, Operand::Local(index))
    }

    /// Loads the address of a local variable.
    #[must_use]
    pub fn ldloca(index: u16) -> Self {
        Self::indexed(&[], Opcode::LdlocaS, Opcode::Ldloca, index, Operand::Local(index))
    }

    /// Stores into a local variable.
    #[must_use]
    pub fn stloc(index: u16) -> Self {
        let named = [Opcode::Stloc0, Opcode::Stloc1, Opcode::Stloc2, Opcode::Stloc3];
        Self::indexed(&named, Opcode::StlocS, Opcode::Stloc, index, Operand::Local(index))
    }
}

/// An operand that is no branch target, free of the code it came from.
pub(super) const fn plain(operand: Operand<'_>) -> Option<Operand<'static>> {
    Some(match operand {
        Operand::None => Operand::None,
        Operand::Int8(value) => Operand::Int8(value),
        Operand::Uint8(value) => Operand::Uint8(value),
        Operand::Int32(value) => Operand::Int32(value),
        Operand::Int64(value) => Operand::Int64(value),
        Operand::Float32(bits) => Operand::Float32(bits),
        Operand::Float64(bits) => Operand::Float64(bits),
        Operand::Argument(index) => Operand::Argument(index),
        Operand::Local(index) => Operand::Local(index),
        Operand::Token(token) => Operand::Token(token),
        Operand::Target(_) | Operand::Switch(_) => return None,
    })
}

impl Instruction<'_> {
    /// The same for an editor; `None` for branches, whose targets only the editor of their body
    /// knows.
    #[must_use]
    pub const fn to_new(&self) -> Option<NewInstruction> {
        match plain(self.operand) {
            Some(operand) => Some(NewInstruction::plain(self.opcode, operand)),
            None => None,
        }
    }
}
