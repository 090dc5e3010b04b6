//! Instructions and their operands, read off code bytes without allocation.

use crate::{Opcode, OperandKind, Token};

/// Why bytes are no instruction. Offsets count from the start of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No opcode has this encoding.
    #[error("IL_{offset:04x}: no instruction starts with {byte:#04x}")]
    UnknownOpcode {
        /// Where it stands.
        offset: u32,
        /// Its first byte, or the second if the first is 0xfe.
        byte: u8,
    },
    /// The code ends in the middle of an instruction.
    #[error("IL_{offset:04x}: the code ends inside this instruction")]
    Truncated {
        /// Where the instruction starts.
        offset: u32,
    },
}

/// An instruction that cannot be written: its operand is none that its opcode takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("IL_{offset:04x}: {} does not take this operand", opcode.mnemonic())]
pub struct OperandError {
    /// Where it stands.
    pub offset: u32,
    /// What it does.
    pub opcode: Opcode,
}

/// What an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand<'a> {
    /// Nothing, or something that the opcode names by itself.
    None,
    /// A number of `ldc.i4.s`.
    Int8(i8),
    /// The alignment of `unaligned.` or the flags of `no.`.
    Uint8(u8),
    /// A number of `ldc.i4`.
    Int32(i32),
    /// A number of `ldc.i8`.
    Int64(i64),
    /// The bits of a single. As bits, so that every NaN survives.
    Float32(u32),
    /// The bits of a double.
    Float64(u64),
    /// Index of an argument.
    Argument(u16),
    /// Index of a local variable.
    Local(u16),
    /// A metadata token.
    Token(Token),
    /// Offset of the instruction that is branched to. Not checked to be inside the code: a distance
    /// that leads in front of the code wraps around to a large offset.
    Target(u32),
    /// The targets of `switch`.
    Switch(SwitchTargets<'a>),
}

/// The targets of a `switch`, still in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchTargets<'a> {
    distances: &'a [[u8; 4]],
    end: u32,
}

impl<'a> SwitchTargets<'a> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.distances.len()
    }

    /// Whether there is none: the instruction only pops.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.distances.is_empty()
    }

    /// The offsets, first case first. Unchecked like [`Operand::Target`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let end = self.end;
        self.distances
            .iter()
            .map(move |distance| end.wrapping_add_signed(i32::from_le_bytes(*distance)))
    }
}

/// An instruction in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction<'a> {
    /// Where it starts, in bytes from the start of the code.
    pub offset: u32,
    /// Bytes that it takes.
    pub size: u32,
    /// What it does.
    pub opcode: Opcode,
    /// What it works on.
    pub operand: Operand<'a>,
}

impl<'a> Instruction<'a> {
    /// Reads the instruction at `offset`; [`DecodeError::Truncated`] if that is not inside the
    /// code.
    ///
    /// # Errors
    /// There is no whole instruction.
    #[inline]
    pub fn decode(code: &'a [u8], offset: u32) -> Result<Self, DecodeError> {
        let truncated = DecodeError::Truncated { offset };
        let at = code.get(offset as usize..).ok_or(truncated)?;
        let Some(opcode) = Opcode::decode(at) else {
            return Err(match *at {
                [0xfe, byte, ..] => DecodeError::UnknownOpcode { offset, byte },
                [] | [0xfe] => truncated,
                [byte, ..] => DecodeError::UnknownOpcode { offset, byte },
            });
        };
        let kind = opcode.operand();
        let mut size = opcode.size() + kind.size();
        let rest = at.get(opcode.size() as usize..).ok_or(truncated)?;
        let end = offset.checked_add(size).ok_or(truncated)?;
        let operand = match kind {
            OperandKind::None => Some(Operand::None),
            OperandKind::Int8 => array(rest).map(|bytes| Operand::Int8(i8::from_le_bytes(bytes))),
            OperandKind::Uint8 => rest.first().map(|&byte| Operand::Uint8(byte)),
            OperandKind::Int32 => {
                array(rest).map(|bytes| Operand::Int32(i32::from_le_bytes(bytes)))
            }
            OperandKind::Int64 => {
                array(rest).map(|bytes| Operand::Int64(i64::from_le_bytes(bytes)))
            }
            OperandKind::Float32 => {
                array(rest).map(|bytes| Operand::Float32(u32::from_le_bytes(bytes)))
            }
            OperandKind::Float64 => {
                array(rest).map(|bytes| Operand::Float64(u64::from_le_bytes(bytes)))
            }
            OperandKind::Argument8 => rest.first().map(|&byte| Operand::Argument(byte.into())),
            OperandKind::Argument16 => {
                array(rest).map(|bytes| Operand::Argument(u16::from_le_bytes(bytes)))
            }
            OperandKind::Local8 => rest.first().map(|&byte| Operand::Local(byte.into())),
            OperandKind::Local16 => {
                array(rest).map(|bytes| Operand::Local(u16::from_le_bytes(bytes)))
            }
            OperandKind::Branch8 => array(rest).map(|bytes| {
                Operand::Target(end.wrapping_add_signed(i8::from_le_bytes(bytes).into()))
            }),
            OperandKind::Branch32 => array(rest)
                .map(|bytes| Operand::Target(end.wrapping_add_signed(i32::from_le_bytes(bytes)))),
            OperandKind::Switch => switch(rest, end).map(|targets| {
                size = targets.end - offset;
                Operand::Switch(targets)
            }),
            OperandKind::Method
            | OperandKind::Field
            | OperandKind::Type
            | OperandKind::String
            | OperandKind::Signature
            | OperandKind::Any => {
                array(rest).map(|bytes| Operand::Token(Token(u32::from_le_bytes(bytes))))
            }
        };
        Ok(Self { offset, size, opcode, operand: operand.ok_or(truncated)? })
    }

    /// Appends its bytes, as they stand at its offset.
    ///
    /// # Errors
    /// The operand is none that the opcode takes, or a target is too far away for the form of the
    /// branch.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), OperandError> {
        let Self { offset, opcode, operand, .. } = *self;
        push_opcode(opcode, out);
        let distance = |target: u32| target.wrapping_sub(self.end()).cast_signed();
        let pushed = match (opcode.operand(), operand) {
            (OperandKind::Branch8, Operand::Target(target)) => i8::try_from(distance(target))
                .ok()
                .map(|distance| out.push(distance.cast_unsigned())),
            (OperandKind::Branch32, Operand::Target(target)) => {
                out.extend_from_slice(&distance(target).to_le_bytes());
                Some(())
            }
            (OperandKind::Switch, Operand::Switch(targets)) => {
                out.extend_from_slice(&(targets.len() as u32).to_le_bytes());
                out.extend(targets.iter().flat_map(|target| distance(target).to_le_bytes()));
                Some(())
            }
            _ => push_operand(opcode, operand, out),
        };
        pushed.ok_or(OperandError { offset, opcode })
    }

    /// Offset of the instruction that follows in the code.
    #[must_use]
    pub const fn end(&self) -> u32 {
        // Cannot wrap: the instruction is inside a slice whose length was checked to fit.
        self.offset.wrapping_add(self.size)
    }

    /// The token, if that is the operand.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        match self.operand {
            Operand::Token(token) => Some(token),
            _ => None,
        }
    }

    /// The argument that it loads, stores or takes the address of.
    #[must_use]
    pub const fn argument(&self) -> Option<u16> {
        match self.operand {
            Operand::Argument(index) => Some(index),
            _ => self.opcode.implied_argument(),
        }
    }

    /// The local variable that it loads, stores or takes the address of.
    #[must_use]
    pub const fn local(&self) -> Option<u16> {
        match self.operand {
            Operand::Local(index) => Some(index),
            _ => self.opcode.implied_local(),
        }
    }

    /// All offsets that it branches to, without the instruction that follows.
    pub fn targets(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (single, many) = match self.operand {
            Operand::Target(target) => (Some(target), None),
            Operand::Switch(targets) => (None, Some(targets.iter())),
            _ => (None, None),
        };
        single.into_iter().chain(many.into_iter().flatten())
    }
}

/// Appends an opcode.
pub(crate) fn push_opcode(opcode: Opcode, out: &mut Vec<u8>) {
    let [high, low] = opcode.code().to_be_bytes();
    if opcode.size() == 2 {
        out.push(high);
    }
    out.push(low);
}

/// Appends an operand that is no branch target; `None` if the opcode does not take it.
pub(crate) fn push_operand(opcode: Opcode, operand: Operand<'_>, out: &mut Vec<u8>) -> Option<()> {
    match (opcode.operand(), operand) {
        (OperandKind::None, Operand::None) => {}
        (OperandKind::Int8, Operand::Int8(value)) => out.push(value.cast_unsigned()),
        (OperandKind::Uint8, Operand::Uint8(value)) => out.push(value),
        (OperandKind::Int32, Operand::Int32(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (OperandKind::Int64, Operand::Int64(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (OperandKind::Float32, Operand::Float32(bits)) => {
            out.extend_from_slice(&bits.to_le_bytes())
        }
        (OperandKind::Float64, Operand::Float64(bits)) => {
            out.extend_from_slice(&bits.to_le_bytes())
        }
        (OperandKind::Argument8, Operand::Argument(index))
        | (OperandKind::Local8, Operand::Local(index)) => {
            out.push(u8::try_from(index).ok()?);
        }
        (OperandKind::Argument16, Operand::Argument(index))
        | (OperandKind::Local16, Operand::Local(index)) => {
            out.extend_from_slice(&index.to_le_bytes());
        }
        (kind, Operand::Token(token)) if kind.is_token() => {
            out.extend_from_slice(&token.0.to_le_bytes())
        }
        _ => return None,
    }
    Some(())
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk().copied()
}

/// `end` is the offset behind the count.
fn switch(bytes: &[u8], end: u32) -> Option<SwitchTargets<'_>> {
    let (count, rest) = bytes.split_first_chunk()?;
    let count = u32::from_le_bytes(*count);
    let size = count.checked_mul(4)?;
    let (distances, _) = rest.get(..size as usize)?.as_chunks();
    Some(SwitchTargets { distances, end: end.checked_add(size)? })
}

/// Reads instructions one after the other; ends behind the last one or behind the first error.
#[derive(Clone, Debug)]
pub struct Instructions<'a> {
    code: &'a [u8],
    offset: u32,
}

/// The instructions of `code`.
#[must_use]
pub const fn instructions(code: &[u8]) -> Instructions<'_> {
    Instructions { code, offset: 0 }
}

/// All instructions of `code` at once.
///
/// # Errors
/// The first one that cannot be read.
pub fn decode_all(code: &[u8]) -> Result<Vec<Instruction<'_>>, DecodeError> {
    // Real code takes three bytes per instruction on average.
    let mut all = Vec::with_capacity(code.len() / 2);
    for instruction in instructions(code) {
        all.push(instruction?);
    }
    Ok(all)
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset as usize >= self.code.len() {
            return None;
        }
        let instruction = Instruction::decode(self.code, self.offset);
        self.offset = match &instruction {
            Ok(instruction) => instruction.end(),
            Err(_) => u32::MAX,
        };
        Some(instruction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands() {
        let code = [
            0x02, 0x1f, 0xff, 0x20, 0xfe, 0xff, 0xff, 0xff, 0xfe, 0x0c, 0x01, 0x02, 0x28, 1, 0, 0,
            0x0a, 0x2b, 0xed,
        ];
        let all = decode_all(&code).unwrap();
        assert_eq!(all[0].argument(), Some(0));
        assert_eq!(all[1].operand, Operand::Int8(-1));
        assert_eq!(all[2].operand, Operand::Int32(-2));
        assert_eq!((all[3].local(), all[3].size), (Some(0x201), 4));
        assert_eq!(all[4].token(), Some(Token(0x0a00_0001)));
        assert_eq!(all[5].operand, Operand::Target(0));
        assert_eq!(all[5].end(), 19);
        let mut again = Vec::new();
        all.iter().for_each(|instruction| instruction.encode(&mut again).unwrap());
        assert_eq!(again, code);
        let far = Instruction { operand: Operand::Target(1000), ..all[5] };
        assert_eq!(far.encode(&mut again), Err(OperandError { offset: 17, opcode: Opcode::BrS }));
    }

    #[test]
    fn switches() {
        let code = [0x45, 2, 0, 0, 0, 1, 0, 0, 0, 0xf3, 0xff, 0xff, 0xff, 0x00, 0x2a];
        let all = decode_all(&code).unwrap();
        assert_eq!(all[0].targets().collect::<Vec<_>>(), [14, 0]);
        assert_eq!((all[0].size, all.len()), (13, 3));
        let mut again = Vec::new();
        all[0].encode(&mut again).unwrap();
        assert_eq!(again, code[..13]);
        let huge = [0x45, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(decode_all(&huge), Err(DecodeError::Truncated { offset: 0 }));
    }

    #[test]
    fn errors_end_the_iteration() {
        let mut bad = instructions(&[0x00, 0x24, 0x00]);
        assert!(bad.next().unwrap().is_ok());
        assert_eq!(bad.next(), Some(Err(DecodeError::UnknownOpcode { offset: 1, byte: 0x24 })));
        assert_eq!(bad.next(), None);
        assert_eq!(decode_all(&[0xfe]), Err(DecodeError::Truncated { offset: 0 }));
        assert_eq!(
            decode_all(&[0xfe, 0x08]),
            Err(DecodeError::UnknownOpcode { offset: 0, byte: 8 })
        );
        assert_eq!(decode_all(&[0x20, 1, 2, 3]), Err(DecodeError::Truncated { offset: 0 }));
    }
}
