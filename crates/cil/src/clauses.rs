//! Exception clauses and the sections behind the code that hold them. Source: ECMA-335 II.25.4.5
//! and II.25.4.6.

use crate::{BodyError, Token};

/// A stretch of code, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeRange {
    /// First byte.
    pub start: u32,
    /// First byte behind it.
    pub end: u32,
}

impl CodeRange {
    /// Bytes in it; 0 if it is turned around.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether the byte at `offset` is in it.
    #[must_use]
    pub const fn contains(&self, offset: u32) -> bool {
        self.start <= offset && offset < self.end
    }
}

/// What makes a handler run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClauseKind {
    /// An exception of this type (`TypeDef`, `TypeRef` or `TypeSpec`).
    Catch(Token),
    /// A filter says so. It starts at this offset and ends where the handler starts.
    Filter(u32),
    /// Control leaves the try block, in whatever way.
    Finally,
    /// An exception leaves the try block.
    Fault,
}

/// A try block with one handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExceptionClause {
    /// What makes the handler run.
    pub kind: ClauseKind,
    /// The protected code.
    pub try_block: CodeRange,
    /// The handler.
    pub handler: CodeRange,
}

/// Section kind: exception clauses.
const EH_TABLE: u8 = 0x01;
/// Bits of the section kind that say what is in it.
const KIND_MASK: u8 = 0x3f;
const FAT_FORMAT: u8 = 0x40;
const MORE_SECTIONS: u8 = 0x80;

const SECTION_HEADER: usize = 4;
const SMALL_CLAUSE: usize = 12;
const FAT_CLAUSE: usize = 24;
/// Clauses that the one-byte size of a small section can count.
const SMALL_LIMIT: usize = (u8::MAX as usize - SECTION_HEADER) / SMALL_CLAUSE;
/// Clauses that the three-byte size of a fat section can count.
const FAT_LIMIT: usize = (0xff_ffff - SECTION_HEADER) / FAT_CLAUSE;

/// Reads the sections that start at `at` or at the next multiple of four; gives the offset behind
/// them too. Sections of other kinds are skipped.
pub(crate) fn parse_sections(
    bytes: &[u8],
    mut at: usize,
) -> Result<(Vec<ExceptionClause>, usize), BodyError> {
    let mut clauses = Vec::new();
    loop {
        at = at.next_multiple_of(4);
        let truncated = BodyError::Truncated { offset: at };
        let section = bytes.get(at..).ok_or(truncated)?;
        let &[kind, size @ ..] = section.first_chunk::<SECTION_HEADER>().ok_or(truncated)?;
        let (size, clause_size) = if kind & FAT_FORMAT == 0 {
            (usize::from(size[0]), SMALL_CLAUSE)
        } else {
            (u32::from_le_bytes([size[0], size[1], size[2], 0]) as usize, FAT_CLAUSE)
        };
        let mut end = size.max(SECTION_HEADER);
        if kind & KIND_MASK == EH_TABLE {
            // Some compilers leave the section's header out of its size; the runtime divides, and
            // so do we.
            let count = size / clause_size;
            end = end.max(SECTION_HEADER + count * clause_size);
            let table = section.get(SECTION_HEADER..end).ok_or(truncated)?;
            clauses.reserve(count);
            for (index, clause) in table.chunks_exact(clause_size).take(count).enumerate() {
                let offset = at + SECTION_HEADER + index * clause_size;
                clauses.push(parse_clause(clause).ok_or(BodyError::Clause { offset })?);
            }
        }
        at += end;
        if at > bytes.len() {
            return Err(truncated);
        }
        if kind & MORE_SECTIONS == 0 {
            return Ok((clauses, at));
        }
    }
}

/// Reads a clause of either size; `None` if its kind is unknown or a range passes 2³².
fn parse_clause(bytes: &[u8]) -> Option<ExceptionClause> {
    let (flags, try_start, try_size, handler_start, handler_size, extra);
    if let Ok(&[f0, f1, t0, t1, try_small, h0, h1, handler_small, e0, e1, e2, e3]) =
        <&[u8; SMALL_CLAUSE]>::try_from(bytes)
    {
        flags = u32::from(u16::from_le_bytes([f0, f1]));
        try_start = u32::from(u16::from_le_bytes([t0, t1]));
        try_size = u32::from(try_small);
        handler_start = u32::from(u16::from_le_bytes([h0, h1]));
        handler_size = u32::from(handler_small);
        extra = u32::from_le_bytes([e0, e1, e2, e3]);
    } else {
        let &[f, t, ts, h, hs, e] = bytes.as_chunks::<4>().0.first_chunk()?;
        [flags, try_start, try_size, handler_start, handler_size, extra] =
            [f, t, ts, h, hs, e].map(u32::from_le_bytes);
    }
    // 8 marks a clause that the runtime copied from another one; it is only seen inside the JIT.
    let kind = match flags & 0x7 {
        0 => ClauseKind::Catch(Token(extra)),
        1 => ClauseKind::Filter(extra),
        2 => ClauseKind::Finally,
        4 => ClauseKind::Fault,
        _ => return None,
    };
    Some(ExceptionClause {
        kind,
        try_block: CodeRange { start: try_start, end: try_start.checked_add(try_size)? },
        handler: CodeRange { start: handler_start, end: handler_start.checked_add(handler_size)? },
    })
}

impl ExceptionClause {
    fn fits_small(&self) -> bool {
        let fits =
            |range: &CodeRange| range.start <= u16::MAX.into() && range.len() <= u8::MAX.into();
        fits(&self.try_block) && fits(&self.handler)
    }

    fn flags_and_extra(&self) -> (u8, u32) {
        match self.kind {
            ClauseKind::Catch(token) => (0, token.0),
            ClauseKind::Filter(start) => (1, start),
            ClauseKind::Finally => (2, 0),
            ClauseKind::Fault => (4, 0),
        }
    }
}

/// Appends padding and as many sections as the clauses need: a small one where that can express
/// them.
pub(crate) fn encode_sections(clauses: &[ExceptionClause], out: &mut Vec<u8>) {
    if clauses.len() <= SMALL_LIMIT && clauses.iter().all(ExceptionClause::fits_small) {
        out.resize(out.len().next_multiple_of(4), 0);
        let size = SECTION_HEADER + clauses.len() * SMALL_CLAUSE;
        out.extend_from_slice(&[EH_TABLE, size as u8, 0, 0]);
        for clause in clauses {
            let (flags, extra) = clause.flags_and_extra();
            let [t0, t1] = (clause.try_block.start as u16).to_le_bytes();
            let [h0, h1] = (clause.handler.start as u16).to_le_bytes();
            let [e0, e1, e2, e3] = extra.to_le_bytes();
            let sizes = [clause.try_block.len() as u8, clause.handler.len() as u8];
            out.extend_from_slice(&[flags, 0, t0, t1, sizes[0], h0, h1, sizes[1], e0, e1, e2, e3]);
        }
        return;
    }
    encode_fat_sections(clauses, out);
}

/// Appends padding and as many fat sections as the clauses need.
pub(crate) fn encode_fat_sections(clauses: &[ExceptionClause], out: &mut Vec<u8>) {
    let mut sections = clauses.chunks(FAT_LIMIT).peekable();
    while let Some(section) = sections.next() {
        out.resize(out.len().next_multiple_of(4), 0);
        let [s0, s1, s2, _] = ((SECTION_HEADER + section.len() * FAT_CLAUSE) as u32).to_le_bytes();
        let more = if sections.peek().is_some() { MORE_SECTIONS } else { 0 };
        out.extend_from_slice(&[EH_TABLE | FAT_FORMAT | more, s0, s1, s2]);
        for clause in section {
            let (flags, extra) = clause.flags_and_extra();
            out.extend_from_slice(&u32::from(flags).to_le_bytes());
            for range in [clause.try_block, clause.handler] {
                out.extend_from_slice(&range.start.to_le_bytes());
                out.extend_from_slice(&range.len().to_le_bytes());
            }
            out.extend_from_slice(&extra.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLAUSE: ExceptionClause = ExceptionClause {
        kind: ClauseKind::Finally,
        try_block: CodeRange { start: 1, end: 3 },
        handler: CodeRange { start: 3, end: 4 },
    };

    fn round(clauses: &[ExceptionClause]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_sections(clauses, &mut bytes);
        assert_eq!(parse_sections(&bytes, 0).unwrap(), (clauses.to_vec(), bytes.len()));
        bytes
    }

    #[test]
    fn a_small_section() {
        assert_eq!(round(&[CLAUSE]), [0x01, 16, 0, 0, 2, 0, 1, 0, 2, 3, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn small_holds_twenty_clauses() {
        assert_eq!(round(&[CLAUSE; 20])[..2], [0x01, 244]);
        // Cut to one byte, the size of 21 clauses would be 0.
        assert_eq!(round(&[CLAUSE; 21])[..4], [0x41, 252, 1, 0]);
    }

    #[test]
    fn each_limit_of_small() {
        let with =
            |try_block, handler| round(&[ExceptionClause { try_block, handler, ..CLAUSE }])[0];
        let range = |start, size| CodeRange { start, end: start + size };
        assert_eq!(with(range(0xffff, 0xff), range(0xffff, 0xff)), 0x01);
        assert_eq!(with(range(0x1_0000, 1), range(0, 1)), 0x41);
        assert_eq!(with(range(0, 0x100), range(0, 1)), 0x41);
        assert_eq!(with(range(0, 1), range(0x1_0000, 1)), 0x41);
        assert_eq!(with(range(0, 1), range(0, 0x100)), 0x41);
    }

    #[test]
    fn more_clauses_than_a_fat_section_holds() {
        let bytes = round(&vec![CLAUSE; FAT_LIMIT + 3]);
        assert_eq!(bytes[0], 0xc1);
        assert_eq!(bytes.len(), 2 * SECTION_HEADER + (FAT_LIMIT + 3) * FAT_CLAUSE);
    }

    #[test]
    fn several_sections_other_kinds_and_sizes_without_header() {
        let small = [2, 0, 1, 0, 2, 3, 0, 1, 0, 0, 0, 0];
        let mut bytes = vec![0xaa, 0, 0, 0];
        bytes.extend_from_slice(&[0x82, 8, 0, 0, 9, 9, 9, 9]);
        bytes.extend_from_slice(&[0x81, 16, 0, 0]);
        bytes.extend_from_slice(&small);
        // The size counts the clause alone.
        bytes.extend_from_slice(&[0x01, 12, 0, 0]);
        bytes.extend_from_slice(&small);
        let end = bytes.len();
        bytes.push(0x55);
        assert_eq!(parse_sections(&bytes, 1), Ok((vec![CLAUSE; 2], end)));
        for cut in 1..end {
            assert!(parse_sections(&bytes[..cut], 1).is_err(), "{cut}");
        }
    }

    #[test]
    fn bad_clauses() {
        let kind = [0x01, 16, 0, 0, 3, 0, 1, 0, 2, 3, 0, 1, 0, 0, 0, 0];
        assert_eq!(parse_sections(&kind, 0), Err(BodyError::Clause { offset: 4 }));
        let mut wraps = vec![0x41, 28, 0, 0];
        for field in [2_u32, u32::MAX, 1, 0, 1, 0] {
            wraps.extend_from_slice(&field.to_le_bytes());
        }
        assert_eq!(parse_sections(&wraps, 0), Err(BodyError::Clause { offset: 4 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_sections_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..20) {
            if let Ok((clauses, end)) = parse_sections(&bytes, at) {
                prop_assert!(end <= bytes.len());
                round(&clauses);
            }
        }
    }
}
