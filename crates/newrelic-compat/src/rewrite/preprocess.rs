//! Makes a body end in one place, so that code can follow it.

use super::Refusal;
use cil::{
    BodyError, ClauseKind, CodeRange, ExceptionClause, HeaderFormat, Instruction, MethodBody,
    MethodHeader, Opcode, Operand,
};
use std::borrow::Cow;

/// From this size of code, returns included, all branches get the four-byte form.
const LONG_BRANCHES: usize = 127;

/// A body that no longer returns: control falls out of its end.
///
/// A `ret` at the end becomes `nop`, and every other one branches there. A body without `ret` stays
/// as it is. Prefixes of tail calls become `nop`, since such a call would have to be followed by
/// `ret`.
///
/// # Errors
/// The code cannot be read, does not end in its last `ret`, jumps to another method (`jmp`), or has
/// a branch or clause into the middle of an instruction.
pub fn preprocess<'a>(body: &MethodBody<'a>) -> Result<MethodBody<'a>, Refusal> {
    let instructions = body.decode().map_err(|_| Refusal::InvalidMethod)?;
    // A jump to another method may not leave the try block that will surround it.
    if instructions.iter().any(|instruction| instruction.opcode == Opcode::Jmp) {
        return Err(Refusal::InvalidMethod);
    }
    let returns =
        instructions.iter().filter(|instruction| instruction.opcode == Opcode::Ret).count();
    if returns == 0 {
        return Ok(without_tail_calls(body.clone(), &instructions));
    }
    if body.code.last() != Some(&0x2a)
        || instructions.last().is_none_or(|last| last.opcode != Opcode::Ret)
    {
        return Err(Refusal::InvalidMethod);
    }
    let mut body = without_tail_calls(body.clone(), &instructions);
    if returns == 1 {
        if let Some(last) = body.code.to_mut().last_mut() {
            *last = 0;
        }
        return Ok(body);
    }
    rewrite_returns(&body, body.code.len() + returns >= LONG_BRANCHES).map(MethodBody::into_owned)
}

fn without_tail_calls<'a>(
    mut body: MethodBody<'a>,
    instructions: &[Instruction<'_>],
) -> MethodBody<'a> {
    for prefix in instructions.iter().filter(|instruction| instruction.opcode == Opcode::Tail) {
        let start = prefix.offset as usize;
        if let Some(bytes) = body.code.to_mut().get_mut(start..start + 2) {
            bytes.fill(0);
        }
    }
    body
}

/// Where an instruction went.
struct Moved<'a> {
    old: Instruction<'a>,
    opcode: Opcode,
    offset: u32,
    size: u32,
}

fn rewrite_returns(body: &MethodBody<'_>, long: bool) -> Result<MethodBody<'static>, Refusal> {
    let instructions = body.decode().map_err(|_| Refusal::InvalidMethod)?;
    let last = instructions.len().saturating_sub(1);
    let mut moved = Vec::with_capacity(instructions.len());
    let mut size = 0;
    for (index, old) in instructions.into_iter().enumerate() {
        let opcode = match old.opcode {
            Opcode::Ret if index == last => Opcode::Nop,
            Opcode::Ret if long => Opcode::Br,
            Opcode::Ret => Opcode::BrS,
            opcode if long => opcode.long().unwrap_or(opcode),
            opcode => opcode,
        };
        let new_size =
            if opcode == old.opcode { old.size } else { opcode.size() + opcode.operand().size() };
        moved.push(Moved { old, opcode, offset: size, size: new_size });
        size += new_size;
    }
    let end = moved.last().map_or(0, |last| last.offset);
    let place = |old: u32| {
        let index = moved
            .binary_search_by_key(&old, |moved| moved.old.offset)
            .map_err(|_| Refusal::InvalidMethod)?;
        moved.get(index).ok_or(Refusal::InvalidMethod)
    };
    let target =
        |old: u32| place(old).map(|to| if to.old.opcode == Opcode::Ret { end } else { to.offset });
    let mut code = Vec::with_capacity(size as usize);
    for Moved { old, opcode, offset, size } in &moved {
        let operand = match old.operand {
            _ if *opcode == Opcode::Nop => Operand::None,
            Operand::None if old.opcode == Opcode::Ret => Operand::Target(end),
            Operand::Target(to) => Operand::Target(target(to)?),
            Operand::Switch(targets) => {
                // The operand of a decoded switch refers to its code, so it is written by hand.
                code.push(0x45);
                code.extend_from_slice(&(targets.len() as u32).to_le_bytes());
                for to in targets.iter() {
                    code.extend_from_slice(&target(to)?.wrapping_sub(offset + size).to_le_bytes());
                }
                continue;
            }
            operand => operand,
        };
        let new = Instruction { offset: *offset, size: *size, opcode: *opcode, operand };
        new.encode(&mut code).map_err(|_| Refusal::InvalidMethod)?;
    }
    let place = |old: u32| {
        if old as usize == body.code.len() { Ok(size) } else { place(old).map(|to| to.offset) }
    };
    let range = |range: CodeRange| {
        Ok::<_, Refusal>(CodeRange { start: place(range.start)?, end: place(range.end)? })
    };
    let mut clauses = Vec::with_capacity(body.clauses.len());
    for clause in &body.clauses {
        clauses.push(ExceptionClause {
            kind: match clause.kind {
                ClauseKind::Filter(start) => ClauseKind::Filter(place(start)?),
                kind => kind,
            },
            try_block: range(clause.try_block)?,
            handler: range(clause.handler)?,
        });
    }
    // A body of this kind does not initialize its locals where it had none.
    let header = MethodHeader { format: HeaderFormat::Fat, ..body.header };
    Ok(MethodBody { header, code: Cow::Owned(code), clauses })
}

/// Reads a body; one with sections that hold no exception clauses, or several of them, is refused
/// as unsupported.
///
/// # Errors
/// The bytes are no method body, or one of that kind.
pub(super) fn parse(bytes: &[u8]) -> Result<MethodBody<'_>, Refusal> {
    let body = MethodBody::parse(bytes).map_err(|_: BodyError| Refusal::InvalidMethod)?;
    let flags = bytes.first_chunk::<2>().map_or(0, |flags| u16::from_le_bytes(*flags));
    const FAT_WITH_SECTIONS: u16 = 0x0b;
    if flags & 0x3 == 0x3 && flags & FAT_WITH_SECTIONS == FAT_WITH_SECTIONS {
        let header = usize::from(flags >> 12) * 4;
        let section = (header + body.code.len()).next_multiple_of(4);
        // The kind without the bit for the fat format: exception clauses, and no further section.
        if bytes.get(section).is_none_or(|kind| kind & 0xbf != 0x01) {
            return Err(Refusal::UnsupportedSection);
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cil::Token;
    use proptest::prelude::*;

    fn tiny(code: &[u8]) -> Vec<u8> {
        let mut bytes = vec![(code.len() as u8) << 2 | 2];
        bytes.extend_from_slice(code);
        bytes
    }

    fn code(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
        parse(bytes).and_then(|body| preprocess(&body).map(|body| body.code.into_owned()))
    }

    #[test]
    fn one_return_or_none() {
        assert_eq!(code(&tiny(&[0x02, 0x2a])).unwrap(), [0x02, 0x00]);
        assert_eq!(code(&tiny(&[0x14, 0x7a])).unwrap(), [0x14, 0x7a]);
        assert_eq!(code(&tiny(&[0x2a, 0x2b, 0xfd])), Err(Refusal::InvalidMethod));
        assert_eq!(code(&tiny(&[0xff, 0x2a])), Err(Refusal::InvalidMethod));
        assert_eq!(code(&tiny(&[0x27, 1, 0, 0, 0x0a])), Err(Refusal::InvalidMethod));
        // A byte that looks like `ret` at the end of an operand is none.
        assert_eq!(code(&tiny(&[0x2a, 0x1f, 0x2a])), Err(Refusal::InvalidMethod));
    }

    #[test]
    fn short_branches_stay_short() {
        // brfalse.s to the first return, ldc, ret, ldc, ret.
        let body = tiny(&[0x02, 0x2c, 0x01, 0x17, 0x2a, 0x16, 0x2a]);
        assert!(code(&body).is_ok());
        let to_return = tiny(&[0x02, 0x2c, 0x01, 0x17, 0x2a, 0x2a]);
        assert_eq!(code(&to_return).unwrap(), [0x02, 0x2c, 0x03, 0x17, 0x2b, 0x00, 0x00]);
    }

    #[test]
    fn long_code_gets_long_branches_throughout() {
        let mut original = vec![0x02, 0x2d, 0x01, 0x2a];
        original.resize(126, 0x00);
        original.push(0x2a);
        let mut fat = vec![0x03, 0x30, 8, 0, 127, 0, 0, 0, 0, 0, 0, 0];
        fat.extend_from_slice(&original);
        let code = code(&fat).unwrap();
        assert_eq!(code[..6], [0x02, 0x3a, 5, 0, 0, 0]);
        assert_eq!(code[6], 0x38);
        assert_eq!(code.len(), 127 + 3 + 4);
    }

    #[test]
    fn tail_calls_lose_their_prefix() {
        let tail = tiny(&[0xfe, 0x14, 0x28, 1, 0, 0, 0x0a, 0x2a]);
        assert_eq!(code(&tail).unwrap(), [0x00, 0x00, 0x28, 1, 0, 0, 0x0a, 0x00]);
    }

    #[test]
    fn switches_and_filters_move_along() {
        let mut original = vec![0x02, 0x45, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x2a, 0x00];
        original.resize(140, 0x00);
        original.push(0x2a);
        let clause = ExceptionClause {
            kind: ClauseKind::Filter(16),
            try_block: CodeRange { start: 14, end: 16 },
            handler: CodeRange { start: 20, end: 141 },
        };
        let header = MethodHeader {
            max_stack: 3,
            local_signature: Token(0x1100_0001),
            ..MethodHeader::default()
        };
        let body = MethodBody { header, code: Cow::Owned(original), clauses: vec![clause] };
        let new = preprocess(&body).unwrap();
        let all = new.decode().unwrap();
        // The second case led to a return, so it leads to the end now.
        assert_eq!(all[1].targets().collect::<Vec<_>>(), [19, 144]);
        assert_eq!(new.clauses[0].kind, ClauseKind::Filter(20));
        assert_eq!(new.clauses[0].handler, CodeRange { start: 24, end: 145 });
        let broken = MethodBody {
            clauses: vec![ExceptionClause { handler: CodeRange { start: 2, end: 3 }, ..clause }],
            ..body
        };
        assert_eq!(preprocess(&broken), Err(Refusal::InvalidMethod));
    }

    #[test]
    fn only_one_section_of_clauses_is_supported() {
        let section = |kind: u8| {
            let mut bytes = vec![0x0b, 0x30, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0xde, 0x00, 0x00, 0x2a];
            bytes.extend_from_slice(&[kind, 4, 0, 0, 0x01, 4, 0, 0]);
            parse(&bytes).map(|_| ())
        };
        assert_eq!(section(0x01), Ok(()));
        assert_eq!(section(0x41), Ok(()));
        assert_eq!(section(0x81), Err(Refusal::UnsupportedSection));
        assert_eq!(section(0x02), Err(Refusal::UnsupportedSection));
    }

    proptest! {
        #[test]
        fn any_code_is_a_body_or_refused(code in prop::collection::vec(any::<u8>(), 0..200)) {
            let body = MethodBody { header: MethodHeader::default(), code: Cow::Owned(code), clauses: Vec::new() };
            if let Ok(new) = preprocess(&body) {
                prop_assert!(new.decode().unwrap().iter().all(|instruction| instruction.opcode != Opcode::Ret));
            }
        }

        #[test]
        fn returns_lead_to_the_end(picks in prop::collection::vec(0_u8..4, 1..120)) {
            let mut code = Vec::new();
            for pick in picks {
                match pick {
                    0 => code.push(0x2a),
                    1 => code.extend_from_slice(&[0x2b, 0x00]),
                    2 => code.extend_from_slice(&[0x38, 0, 0, 0, 0]),
                    _ => code.push(0x00),
                }
            }
            code.push(0x2a);
            let body = MethodBody { header: MethodHeader::default(), code: Cow::Owned(code), clauses: Vec::new() };
            let old = body.decode().unwrap();
            let new = preprocess(&body).unwrap();
            let all = new.decode().unwrap();
            prop_assert_eq!(old.len(), all.len());
            let end = all.last().unwrap().offset;
            for (index, (old_one, new_one)) in old.iter().zip(&all).enumerate() {
                if old_one.opcode == Opcode::Ret && index + 1 < old.len() {
                    prop_assert_eq!(new_one.operand, Operand::Target(end));
                }
                for (old_target, new_target) in old_one.targets().zip(new_one.targets()) {
                    let index = old.iter().position(|one| one.offset == old_target).unwrap();
                    let expected = if old[index].opcode == Opcode::Ret { end } else { all[index].offset };
                    prop_assert_eq!(new_target, expected);
                }
            }
        }
    }
}
