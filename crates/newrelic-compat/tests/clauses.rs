//! Exception clauses of method bodies, as bytes: what is read from a method, and what is refused.
//! Formats are those of ECMA-335 II.25.4.5 and II.25.4.6.

use cil::{ClauseKind, CodeRange, ExceptionClause, MethodBody, Token};

/// A fat body whose code is long enough for any offset here, with these sections behind it.
fn with_sections(sections: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x0b, 0x30, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x2a];
    bytes.extend_from_slice(sections);
    bytes
}

fn clauses(sections: &[u8]) -> Option<Vec<ExceptionClause>> {
    MethodBody::parse(&with_sections(sections)).ok().map(|body| body.clauses)
}

/// A clause from its flags, offset and length of the try block, those of the handler, and what its
/// kind needs.
fn clause(fields: [u32; 6]) -> ExceptionClause {
    let [flags, try_start, try_size, start, size, extra] = fields;
    ExceptionClause {
        kind: match flags {
            0 => ClauseKind::Catch(Token(extra)),
            1 => ClauseKind::Filter(extra),
            2 => ClauseKind::Finally,
            _ => ClauseKind::Fault,
        },
        try_block: CodeRange { start: try_start, end: try_start + try_size },
        handler: CodeRange { start, end: start + size },
    }
}

fn small(fields: [u32; 6]) -> Vec<u8> {
    let [flags, try_start, try_size, start, size, extra] = fields;
    let mut bytes = vec![0x01, 16, 0, 0];
    bytes.extend_from_slice(&(flags as u16).to_le_bytes());
    bytes.extend_from_slice(&(try_start as u16).to_le_bytes());
    bytes.push(try_size as u8);
    bytes.extend_from_slice(&(start as u16).to_le_bytes());
    bytes.push(size as u8);
    bytes.extend_from_slice(&extra.to_le_bytes());
    bytes
}

fn fat(fields: [u32; 6]) -> Vec<u8> {
    let mut bytes = vec![0x41, 28, 0, 0];
    bytes.extend(fields.into_iter().flat_map(u32::to_le_bytes));
    bytes
}

#[test]
fn each_field_of_a_small_clause() {
    for fields in [
        [0, 0, 1, 1, 1, 0x0100_0001],
        [0, 0, 1, 1, 1, 0x1b00_0002],
        [1, 0, 1, 3, 1, 2],
        [2, 0, 1, 1, 1, 0],
        [4, 0, 1, 1, 1, 0],
        // Numbers of one and two bytes, the lower byte first.
        [2, 0x0102, 1, 1, 1, 0],
        [2, 0xffff, 1, 1, 1, 0],
        [2, 0, 0xff, 1, 1, 0],
        [2, 0, 1, 0x0304, 1, 0],
        [2, 0, 1, 0xfffe, 1, 0],
        [2, 0, 1, 1, 0xff, 0],
        [0, 0, 1, 1, 1, 0x0102_0304],
        [1, 0, 1, 1, 1, 0x0102],
    ] {
        assert_eq!(clauses(&small(fields)), Some(vec![clause(fields)]), "{fields:x?}");
    }
}

#[test]
fn each_field_of_a_fat_clause() {
    for fields in [
        [0, 0, 1, 1, 1, 0x0100_0001],
        [1, 0, 1, 3, 1, 2],
        [2, 0, 1, 1, 1, 0],
        [4, 0, 1, 1, 1, 0],
        [2, 0x0102_0304, 1, 1, 1, 0],
        [2, 0, 0x0102_0304, 1, 1, 0],
        [2, 0, 1, 0x0102_0304, 1, 0],
        [2, 0, 1, 1, 0x0102_0304, 0],
        [2, 0xffff_fffe, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 0x0102_0304],
        [1, 0, 1, 1, 1, 0x0102_0304],
    ] {
        assert_eq!(clauses(&fat(fields)), Some(vec![clause(fields)]), "{fields:x?}");
        assert_eq!(clauses(&fat(fields)[..27]), None, "{fields:x?}");
    }
}

#[test]
fn how_many_clauses_a_section_has() {
    let one = [2, 0, 1, 1, 1, 0];
    for count in [0_usize, 1, 2, 20] {
        let mut bytes = vec![0x01, (4 + 12 * count) as u8, 0, 0];
        bytes.extend(small(one)[4..].repeat(count));
        assert_eq!(clauses(&bytes), Some(vec![clause(one); count]), "small, {count}");
    }
    // The size of a fat section has three bytes.
    for count in [0_usize, 1, 2, 11, 3000] {
        let [s0, s1, s2, _] = (4 + 24 * count as u32).to_le_bytes();
        let mut bytes = vec![0x41, s0, s1, s2];
        bytes.extend(fat(one)[4..].repeat(count));
        assert_eq!(clauses(&bytes), Some(vec![clause(one); count]), "fat, {count}");
    }
}

#[test]
fn clauses_that_are_none() {
    for fields in [[3, 0, 1, 1, 1, 0], [5, 0, 1, 1, 1, 0], [6, 0, 1, 1, 1, 0], [7, 0, 1, 1, 1, 0]] {
        assert_eq!(clauses(&small(fields)), None, "{fields:?}");
        assert_eq!(clauses(&fat(fields)), None, "{fields:?}");
    }
    assert_eq!(clauses(&fat([2, u32::MAX, 1, 1, 1, 0])), None);
    assert_eq!(clauses(&fat([2, 0, 1, u32::MAX, 1, 0])), None);
    for cut in 0..16 {
        assert_eq!(clauses(&small([2, 0, 1, 1, 1, 0])[..cut]), None, "cut to {cut}");
    }
}
