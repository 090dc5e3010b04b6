//! The bytes of method bodies, without what the text of the body has by name.

use cil::{ClauseKind, MethodBody, Operand};

/// Bytes in one line of a difference.
const LINE: usize = 32;
/// Size of a fat header, and where the signature of the locals stands in it (ECMA-335 II.25.4.3).
const FAT_HEADER: usize = 12;
const LOCALS: usize = 8;
/// Bits of the first byte: a header of one byte.
const TINY: u8 = 0x2;
/// Bit of a section of exception clauses with clauses of 24 bytes, and that of a further section
/// (ECMA-335 II.25.4.5).
const FAT_SECTION: u8 = 0x40;
const MORE_SECTIONS: u8 = 0x80;
/// What stands for a number that differs from run to run, in the text of a body.
const NAMED: char = '&';

/// A body as lines of hexadecimal digits. Zeros stand in place of tokens and of numbers that the
/// text has by name, so header, code, exception clauses and the form of all of them are left;
/// `None` for bytes that are no body.
pub fn masked(digits: &str, text: &[String], slot: Option<u64>) -> Option<Vec<String>> {
    let mut bytes = hex(digits)?;
    for (start, size) in holes(&bytes, text, slot)? {
        bytes.get_mut(start..start + size)?.fill(0);
    }
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(bytes.chunks(LINE).map(line).collect())
}

/// Exception clauses as lines: kind, and the ranges of code.
pub fn clauses(digits: &str) -> Option<Vec<String>> {
    let bytes = hex(digits)?;
    let body = MethodBody::parse(&bytes).ok()?;
    let line = |clause: &cil::ExceptionClause| {
        let kind = match clause.kind {
            ClauseKind::Catch(_) => "catch".to_owned(),
            ClauseKind::Filter(start) => format!("filter {start:#x}"),
            ClauseKind::Finally => "finally".to_owned(),
            ClauseKind::Fault => "fault".to_owned(),
        };
        format!("{kind} {:x?} {:x?}", clause.try_block, clause.handler)
    };
    Some(body.clauses.iter().map(line).collect())
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Where tokens and named numbers stand, and how many bytes they have.
fn holes(bytes: &[u8], text: &[String], slot: Option<u64>) -> Option<Vec<(usize, usize)>> {
    let body = MethodBody::parse(bytes).ok()?;
    let header =
        if bytes.first()? & 0x3 == TINY { 1 } else { usize::from(*bytes.get(1)? >> 4) * 4 };
    let mut found = Vec::new();
    if header >= FAT_HEADER {
        found.push((LOCALS, 4));
    }
    let is_named = |offset: u32| {
        let start = format!("IL_{offset:04x}:");
        let line = text.iter().find_map(|line| line.trim_start().strip_prefix(&start));
        line.is_some_and(|line| {
            line.split_whitespace().nth(1).is_some_and(|operand| operand.starts_with(NAMED))
        })
    };
    for instruction in body.instructions() {
        let instruction = instruction.ok()?;
        let size = match instruction.operand {
            Operand::Token(_) => 4,
            Operand::Int64(_) if is_named(instruction.offset) => 8,
            Operand::Int32(number) if slot == Some(u64::from(number.cast_unsigned())) => 4,
            _ => continue,
        };
        found.push((header + (instruction.offset + instruction.size) as usize - size, size));
    }
    let mut section = (header + body.code.len()).next_multiple_of(4);
    let mut is_more = !body.clauses.is_empty();
    while is_more {
        let &[kind, s0, s1, s2] = bytes.get(section..)?.first_chunk::<4>()?;
        let is_fat = kind & FAT_SECTION != 0;
        let size =
            if is_fat { u32::from_le_bytes([s0, s1, s2, 0]) as usize } else { usize::from(s0) };
        let (clause, token) = if is_fat { (24, 20) } else { (12, 8) };
        for start in (section + 4..section + size.max(4)).step_by(clause) {
            // The lower half of the flags: zero for a clause that catches a type.
            if bytes.get(start..start + 2)? == [0, 0] {
                found.push((start + token, 4));
            }
        }
        is_more = kind & MORE_SECTIONS != 0;
        section = (section + size.max(4)).next_multiple_of(4);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cil::{CodeRange, ExceptionClause, HeaderFormat, MethodHeader, Token};

    fn digits(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Eight times `nop` with a handler that catches a type, and a finally block up to `end`.
    fn body(locals: u32, caught: u32, end: u32) -> MethodBody<'static> {
        let clause = |kind, start, end| {
            let (try_block, handler) =
                (CodeRange { start: 0, end: start }, CodeRange { start, end });
            ExceptionClause { kind, try_block, handler }
        };
        let header = MethodHeader {
            format: HeaderFormat::Fat,
            local_signature: Token(locals),
            ..MethodHeader::default()
        };
        let clauses = vec![
            clause(ClauseKind::Catch(Token(caught)), 1, 2),
            clause(ClauseKind::Finally, 2, end),
        ];
        MethodBody { header, code: vec![0; 8].into(), clauses }
    }

    #[test]
    fn tokens_and_named_numbers_are_left_out() {
        let tiny = |code: &str| format!("{:02x}{code}", (code.len() / 2) << 2 | 2);
        let masked =
            |code: &str, text: &[String], slot| masked(&tiny(code), text, slot).unwrap().concat();
        // ldc.i8 twice, call, ret.
        let code = "210100000000000000210200000000000000281234000a2a";
        let text =
            ["  IL_0000:  ldc.i8     &function", "  IL_0009:  ldc.i8     2"].map(str::to_owned);
        assert_eq!(
            masked(code, &text, None),
            tiny("21000000000000000021020000000000000028000000002a")
        );
        // ldc.i4 of the slot, and of another number.
        let code = "200700000020080000002a";
        assert_eq!(masked(code, &[], Some(7)), tiny("200000000020080000002a"));
        for bad in ["", "0", "zz", "ff", "0a2a", "0623"] {
            assert_eq!(super::masked(bad, &[], None), None, "{bad}");
        }
    }

    #[test]
    fn header_and_clauses_count_with_their_form() {
        let one = body(0x1100_0001, 0x0100_0002, 4);
        let masked = |bytes: &[u8]| masked(&digits(bytes), &[], None).unwrap();
        for is_fat in [false, true] {
            let encoded = |body: &MethodBody<'_>| {
                if is_fat { body.encode_fat_clauses() } else { body.encode() }.unwrap()
            };
            assert_eq!(
                masked(&encoded(&one)),
                masked(&encoded(&body(0x1100_0009, 0x1b00_0007, 4)))
            );
            let longer = encoded(&body(0x1100_0001, 0x0100_0002, 5));
            assert_ne!(masked(&encoded(&one)), masked(&longer));
            assert_ne!(clauses(&digits(&encoded(&one))), clauses(&digits(&longer)));
            assert_eq!(clauses(&digits(&longer)).unwrap().len(), 2);
        }
        assert_ne!(masked(&one.encode().unwrap()), masked(&one.encode_fat_clauses().unwrap()));
        let plain = |format| {
            let header = MethodHeader { format, ..MethodHeader::default() };
            MethodBody { header, code: vec![0x2a].into(), clauses: Vec::new() }.encode().unwrap()
        };
        assert_ne!(masked(&plain(HeaderFormat::Tiny)), masked(&plain(HeaderFormat::Fat)));
    }
}
