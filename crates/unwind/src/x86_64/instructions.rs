//! Just enough of an instruction decoder for the prologs and epilogs that CoreCLR's JIT writes.

use gimli::X86_64;

/// An instruction that matters for where the frame of a method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// `push reg`.
    Push(u16),
    /// `pop reg`.
    Pop(u16),
    /// `add rsp, value`, or `sub rsp, -value`.
    MoveSp(i64),
    /// `lea rsp, [base + value]` or `mov rsp, base`.
    SetSp { base: u16, offset: i64 },
    /// `lea rbp, [rsp + value]` or `mov rbp, rsp`.
    SetFp { offset: i64 },
    /// `mov reg, [base + value]`.
    Load { register: u16, base: u16, offset: i64 },
    /// `mov [base + value], reg`.
    Store,
    /// `leave`: `mov rsp, rbp; pop rbp`.
    Leave,
    /// `ret`.
    Return,
    /// `jmp` to an address relative to the end of the instruction.
    Jump(i64),
    /// `jmp` through a register or memory. `tail` tells whether it was written in the form that
    /// marks a tail call: with a REX.W prefix that it does not need, or through a fixed cell.
    JumpIndirect { tail: bool },
    /// Something that does not touch the stack or a preserved register.
    Other,
}

/// DWARF numbers of the registers as instructions and `UNWIND_INFO` number them.
pub(crate) const BY_ENCODING: [u16; 16] = [
    X86_64::RAX.0,
    X86_64::RCX.0,
    X86_64::RDX.0,
    X86_64::RBX.0,
    X86_64::RSP.0,
    X86_64::RBP.0,
    X86_64::RSI.0,
    X86_64::RDI.0,
    X86_64::R8.0,
    X86_64::R9.0,
    X86_64::R10.0,
    X86_64::R11.0,
    X86_64::R12.0,
    X86_64::R13.0,
    X86_64::R14.0,
    X86_64::R15.0,
];

/// The DWARF number of an encoded register; only the low four bits count.
pub(crate) fn by_encoding(encoded: u8) -> u16 {
    BY_ENCODING.get(usize::from(encoded & 15)).copied().unwrap_or_default()
}

const RSP: u16 = X86_64::RSP.0;
const RBP: u16 = X86_64::RBP.0;

/// A memory operand or register operand behind the opcode.
struct Operand {
    /// The register field of the ModRM byte, extended.
    register: u8,
    /// What the operand is.
    place: Place,
    /// Bytes of ModRM, SIB and displacement.
    length: usize,
}

enum Place {
    Register(u8),
    Memory {
        base: u8,
        offset: i64,
    },
    RipRelative,
    /// With an index register, or without a base.
    OtherMemory,
}

fn operand(bytes: &[u8], rex: u8) -> Option<Operand> {
    let &modrm = bytes.first()?;
    let register = (modrm >> 3) & 7 | (rex & 4) << 1;
    let extend = (rex & 1) << 3;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(Operand { register, place: Place::Register(rm | extend), length: 1 });
    }
    let mut length = 1;
    let mut base = Some(rm | extend);
    let mut indexed = false;
    if rm == 4 {
        let &sib = bytes.get(1)?;
        length += 1;
        // Index 4 without REX.X means no index.
        indexed = (sib >> 3) & 7 != 4 || rex & 2 != 0;
        base = if mode == 0 && sib & 7 == 5 { None } else { Some(sib & 7 | extend) };
    }
    let rip = mode == 0 && rm == 5;
    let offset = match mode {
        1 => {
            let &byte = bytes.get(length)?;
            length += 1;
            i64::from(byte as i8)
        }
        0 if !rip && base.is_some() => 0,
        _ => {
            let displacement = bytes.get(length..)?.first_chunk::<4>()?;
            length += 4;
            i64::from(i32::from_le_bytes(*displacement))
        }
    };
    let place = match base {
        _ if rip => Place::RipRelative,
        Some(base) if !indexed => Place::Memory { base, offset },
        _ => Place::OtherMemory,
    };
    Some(Operand { register, place, length })
}

/// Decodes the first instruction of `bytes`: what it does and how long it is. `None` if it is none
/// of those that prologs and epilogs are made of, or is cut off.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Instruction, usize)> {
    // vzeroupper; nop; xor eax, eax; a REP before RET.
    match bytes {
        [0xc5, 0xf8, 0x77, ..] => return Some((Instruction::Other, 3)),
        [0xf3, 0xc3, ..] => return Some((Instruction::Return, 2)),
        [0x31 | 0x33, 0xc0, ..] => return Some((Instruction::Other, 2)),
        _ => {}
    }
    let (rex, skip) = match bytes.first()? {
        rex @ 0x40..=0x4f => (*rex, 1),
        _ => (0, 0),
    };
    let wide = rex & 8 != 0;
    let extend = (rex & 1) << 3;
    let (&opcode, rest) = bytes.get(skip..)?.split_first()?;
    let head = skip + 1;
    let after = |(instruction, length): (Instruction, usize)| (instruction, head + length);
    let decoded = match opcode {
        0x50..=0x57 => (Instruction::Push(by_encoding(opcode & 7 | extend)), head),
        0x58..=0x5f => (Instruction::Pop(by_encoding(opcode & 7 | extend)), head),
        0x90 if rex == 0 => (Instruction::Other, head),
        0xc9 => (Instruction::Leave, head),
        0xc3 => (Instruction::Return, head),
        0xc2 => (Instruction::Return, head + 2),
        0xeb => (Instruction::Jump(i64::from(*rest.first()? as i8)), head + 1),
        0xe9 => {
            (Instruction::Jump(i64::from(i32::from_le_bytes(*rest.first_chunk::<4>()?))), head + 4)
        }
        // Group 1: add (/0) or sub (/5) with an immediate.
        0x81 | 0x83 if wide => after(add_or_sub(opcode, rest, rex)?),
        0x8d if wide => after(lea(rest, rex)?),
        0x89 | 0x8b if wide => after(mov(opcode, rest, rex)?),
        // Group 5: jmp (/4)
        0xff => {
            let target = operand(rest, rex)?;
            (target.register & 7 == 4).then_some(())?;
            let tail = wide || matches!(target.place, Place::RipRelative);
            (Instruction::JumpIndirect { tail }, head + target.length)
        }
        _ => return None,
    };
    (decoded.1 <= bytes.len()).then_some(decoded)
}

/// `add` or `sub` of an immediate and the stack pointer; with the length of the operands.
fn add_or_sub(opcode: u8, operands: &[u8], rex: u8) -> Option<(Instruction, usize)> {
    let target = operand(operands, rex)?;
    let Place::Register(encoded) = target.place else { return None };
    let immediate = operands.get(target.length..)?;
    let (value, size) = if opcode == 0x83 {
        (i64::from(*immediate.first()? as i8), 1)
    } else {
        (i64::from(i32::from_le_bytes(*immediate.first_chunk::<4>()?)), 4)
    };
    (by_encoding(encoded) == RSP).then_some(())?;
    let value = match target.register & 7 {
        0 => value,
        5 => -value,
        _ => return None,
    };
    Some((Instruction::MoveSp(value), target.length + size))
}

/// `lea` of the stack pointer or frame pointer; with the length of the operands.
fn lea(operands: &[u8], rex: u8) -> Option<(Instruction, usize)> {
    let source = operand(operands, rex)?;
    let instruction = match (by_encoding(source.register), source.place) {
        (RSP, Place::Memory { base, offset }) => {
            Instruction::SetSp { base: by_encoding(base), offset }
        }
        (RBP, Place::Memory { base, offset }) if by_encoding(base) == RSP => {
            Instruction::SetFp { offset }
        }
        _ => return None,
    };
    Some((instruction, source.length))
}

/// `mov` in both directions; with the length of the operands.
fn mov(opcode: u8, operands: &[u8], rex: u8) -> Option<(Instruction, usize)> {
    let place = operand(operands, rex)?;
    let register = by_encoding(place.register);
    let instruction = match place.place {
        Place::Register(other) => {
            let other = by_encoding(other);
            let (to, from) = if opcode == 0x8b { (register, other) } else { (other, register) };
            match (to, from) {
                (RSP, base) => Instruction::SetSp { base, offset: 0 },
                (RBP, RSP) => Instruction::SetFp { offset: 0 },
                _ => return None,
            }
        }
        Place::Memory { base, offset } if opcode == 0x8b => {
            Instruction::Load { register, base: by_encoding(base), offset }
        }
        Place::Memory { .. } => Instruction::Store,
        _ => return None,
    };
    Some((instruction, place.length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_prologs_and_epilogs_are_made_of() {
        let rsp = X86_64::RSP.0;
        let rbp = X86_64::RBP.0;
        let table: [(&[u8], Instruction); 22] = [
            (&[0x55], Instruction::Push(rbp)),
            (&[0x41, 0x57], Instruction::Push(X86_64::R15.0)),
            (&[0x5b], Instruction::Pop(X86_64::RBX.0)),
            (&[0x41, 0x5c], Instruction::Pop(X86_64::R12.0)),
            (&[0x48, 0x83, 0xc4, 0x28], Instruction::MoveSp(0x28)),
            (&[0x48, 0x81, 0xc4, 0x28, 1, 0, 0], Instruction::MoveSp(0x128)),
            (&[0x48, 0x83, 0xec, 0x28], Instruction::MoveSp(-0x28)),
            (&[0x48, 0x8d, 0x65, 0xf0], Instruction::SetSp { base: rbp, offset: -16 }),
            (
                &[0x48, 0x8d, 0xa5, 0, 0xff, 0xff, 0xff],
                Instruction::SetSp { base: rbp, offset: -256 },
            ),
            (&[0x48, 0x8b, 0xe5], Instruction::SetSp { base: rbp, offset: 0 }),
            (&[0x48, 0x89, 0xec], Instruction::SetSp { base: rbp, offset: 0 }),
            (&[0x48, 0x8d, 0x6c, 0x24, 0x40], Instruction::SetFp { offset: 0x40 }),
            (&[0x48, 0x8b, 0xec], Instruction::SetFp { offset: 0 }),
            (
                &[0x48, 0x8b, 0x5c, 0x24, 8],
                Instruction::Load { register: X86_64::RBX.0, base: rsp, offset: 8 },
            ),
            (
                &[0x4c, 0x8b, 0x7d, 0xf8],
                Instruction::Load { register: X86_64::R15.0, base: rbp, offset: -8 },
            ),
            (&[0xc9], Instruction::Leave),
            (&[0xc3], Instruction::Return),
            (&[0xe9, 0x10, 0, 0, 0], Instruction::Jump(16)),
            (&[0xff, 0xe0], Instruction::JumpIndirect { tail: false }),
            (&[0x48, 0xff, 0xe0], Instruction::JumpIndirect { tail: true }),
            (&[0xff, 0x25, 1, 2, 3, 4], Instruction::JumpIndirect { tail: true }),
            (&[0xc5, 0xf8, 0x77], Instruction::Other),
        ];
        for (bytes, expected) in table {
            assert_eq!(decode(bytes), Some((expected, bytes.len())), "{bytes:02x?}");
            for cut in 0..bytes.len() {
                assert!(
                    decode(&bytes[..cut]).is_none_or(|(_, length)| length <= cut),
                    "{bytes:02x?} cut to {cut}"
                );
            }
        }
    }

    #[test]
    fn leaves_others_alone() {
        // add eax, 1; lea rax, [rsp]; call rax; mov rbx, rcx; lea rsp, [rbp+rax]
        let others: [&[u8]; 5] = [
            &[0x83, 0xc0, 1],
            &[0x48, 0x8d, 0x04, 0x24],
            &[0xff, 0xd0],
            &[0x48, 0x8b, 0xd9],
            &[0x48, 0x8d, 0x64, 0x05, 0],
        ];
        for bytes in others {
            assert_eq!(decode(bytes), None, "{bytes:02x?}");
        }
    }
}
