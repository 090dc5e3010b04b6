//! The tables and heaps of metadata. Source: ECMA-335 II.24.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::schema::{Column, SCHEMA, column, table};
use crate::{Error, PeHeaders};
use cil::{Token, TokenKind};
use std::borrow::Cow;
use std::ops::Range;

/// The runtime takes no longer names (`MAX_CLASSNAME_LENGTH`); of what is longer only the front
/// counts.
const LONGEST_NAME: usize = 1024;
/// Deeper nesting of types than this is none.
const DEEPEST: usize = 64;
/// Most columns of a table.
const COLUMNS: usize = 9;
/// Streams have names of at most 32 bytes, the NUL included.
const STREAM_NAME: usize = 32;

/// Where a table is and how its rows look.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    rows: u32,
    start: usize,
    width: usize,
    /// Offset and size of each column.
    columns: [(u8, u8); COLUMNS],
}

/// A row of a table, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// The table: one of [`table`].
    pub table: usize,
    /// The row; 0 is none.
    pub row: u32,
}

impl Row {
    /// Its token; `None` for tables that tokens do not name.
    #[must_use]
    pub fn token(self) -> Option<Token> {
        let kind = u8::try_from(self.table).ok().and_then(TokenKind::from_byte)?;
        Some(Token::new(kind, self.row))
    }

    /// The row that a token names; `None` for strings.
    #[must_use]
    pub fn of(token: Token) -> Option<Self> {
        let table = token.kind()? as usize;
        (table < table::COUNT).then_some(Self { table, row: token.rid() })
    }
}

/// The metadata of an assembly, or a portable PDB.
#[derive(Clone, Debug)]
pub struct Metadata<'a> {
    bytes: Cow<'a, [u8]>,
    strings: Range<usize>,
    user_strings: Range<usize>,
    blobs: Range<usize>,
    guids: Range<usize>,
    pdb: Range<usize>,
    tables: [Layout; table::COUNT],
}

impl<'a> Metadata<'a> {
    /// Reads the layout of tables and heaps; what they hold is read on demand.
    ///
    /// # Errors
    /// There is no metadata, or it is not all there.
    pub fn parse(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, Error> {
        let bytes = bytes.into();
        if bytes.get(..4) != Some(b"BSJB") {
            return Err(Error::Malformed { what: "the metadata have no signature" });
        }
        let mut metadata = Self {
            bytes,
            strings: 0..0,
            user_strings: 0..0,
            blobs: 0..0,
            guids: 0..0,
            pdb: 0..0,
            tables: [Layout::default(); table::COUNT],
        };
        let tables = metadata.find_streams()?;
        metadata.lay_out(tables)?;
        Ok(metadata)
    }

    /// Those of an assembly in a file, without anything else of it.
    ///
    /// # Errors
    /// It is no assembly, or the metadata are not all there.
    pub fn of_file(file: &'a [u8]) -> Result<Self, Error> {
        Self::parse(crate::pe::Image::parse(file)?.metadata()?)
    }

    /// Those of an image in the memory of a process, where it may lie as in its file or as loaded.
    /// `read` gives the bytes at an offset from the start of the image.
    #[must_use]
    pub fn of_memory(read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Metadata<'static>> {
        let headers = headers(&read)?;
        let as_loaded = |address: u32| Some(u64::from(address));
        metadata_at(&read, &headers, &as_loaded).or_else(|| Self::as_in_file(&read, &headers))
    }

    /// Those of an assembly in a file of which nothing else is read. `read` gives the bytes at an
    /// offset from the start of the assembly.
    #[must_use]
    pub fn in_file(read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Metadata<'static>> {
        Self::as_in_file(&read, &headers(&read)?)
    }

    fn as_in_file(read: Read<'_>, headers: &PeHeaders) -> Option<Metadata<'static>> {
        let place = |address: u32| Some(headers.file_range(address)?.start as u64);
        metadata_at(read, headers, &place)
    }

    /// Remembers where the heaps are and gives where the tables are.
    fn find_streams(&mut self) -> Result<Range<usize>, Error> {
        let truncated = || Error::Truncated { what: "the list of metadata streams" };
        let bytes: &[u8] = &self.bytes;
        let version = u32_at(bytes, 12).ok_or_else(truncated)? as usize;
        let mut at =
            version.checked_add(16).filter(|&at| at < bytes.len()).ok_or_else(truncated)?;
        let count = u16_at(bytes, at + 2).ok_or_else(truncated)?;
        at += 4;
        let mut found = None;
        for _ in 0..count {
            let start = u32_at(bytes, at).ok_or_else(truncated)? as usize;
            let size = u32_at(bytes, at + 4).ok_or_else(truncated)? as usize;
            let rest = bytes.get(at + 8..).ok_or_else(truncated)?;
            let length =
                rest.iter().take(STREAM_NAME).position(|&byte| byte == 0).ok_or_else(truncated)?;
            let range = start..start.saturating_add(size);
            if range.end > bytes.len() {
                return Err(Error::Truncated { what: "a metadata stream" });
            }
            match rest.get(..length) {
                Some(b"#~" | b"#-") => found = Some(range),
                Some(b"#Strings") => self.strings = range,
                Some(b"#US") => self.user_strings = range,
                Some(b"#Blob") => self.blobs = range,
                Some(b"#GUID") => self.guids = range,
                Some(b"#Pdb") => self.pdb = range,
                _ => {}
            }
            // Padded to four bytes with the NUL.
            at += 8 + ((length + 4) & !3);
        }
        found.ok_or(Error::Malformed { what: "the metadata have no tables" })
    }

    fn lay_out(&mut self, tables: Range<usize>) -> Result<(), Error> {
        let truncated = || Error::Truncated { what: "the head of the metadata tables" };
        let stream = self.bytes.get(tables.clone()).ok_or_else(truncated)?;
        let &heaps = stream.get(6).ok_or_else(truncated)?;
        let present = u64_at(stream, 8).ok_or_else(truncated)?;
        let mut rows = [0_u32; 64];
        let mut at = 24;
        for (number, rows) in rows.iter_mut().enumerate() {
            if present >> number & 1 != 0 {
                *rows = u32_at(stream, at).ok_or_else(truncated)?;
                at += 4;
            }
        }
        // Undocumented, but the runtime reads it: four more bytes.
        if heaps & 0x40 != 0 {
            at += 4;
        }
        // A PDB refers to rows of the assembly's tables, whose numbers stand apart; they decide how
        // wide indices are.
        let mut counts = rows;
        if let Some(pdb) = self.bytes.get(self.pdb.clone()).filter(|pdb| !pdb.is_empty()) {
            let referenced = u64_at(pdb, 24).ok_or_else(truncated)?;
            let mut at = 32;
            for (number, count) in counts.iter_mut().enumerate() {
                if referenced >> number & 1 != 0 {
                    *count = u32_at(pdb, at).ok_or_else(truncated)?;
                    at += 4;
                }
            }
        }
        let count = |table: usize| counts.get(table).copied().unwrap_or(0);
        let index = |wide: bool| if wide { 4 } else { 2 };
        let size = |column: &Column| match *column {
            Column::Fixed(size) => size,
            Column::Strings => index(heaps & 1 != 0),
            Column::Guids => index(heaps & 2 != 0),
            Column::Blobs => index(heaps & 4 != 0),
            Column::Row(table) => index(count(table) > 0xffff),
            Column::Coded(bits, tables) => {
                index(tables.iter().any(|&table| count(table) >= 1 << (16 - bits)))
            }
        };
        for ((columns, layout), &rows) in SCHEMA.iter().zip(&mut self.tables).zip(&rows) {
            if columns.is_empty() && rows != 0 {
                return Err(Error::Malformed {
                    what: "there are rows of an unknown metadata table",
                });
            }
            let mut width = 0;
            for (column, slot) in columns.iter().zip(&mut layout.columns) {
                let size = size(column);
                *slot = (width, size);
                width += size;
            }
            (layout.rows, layout.width, layout.start) = (rows, width.into(), tables.start + at);
            let end = layout.width.checked_mul(rows as usize).and_then(|size| at.checked_add(size));
            at = end
                .filter(|&end| end <= stream.len())
                .ok_or(Error::Truncated { what: "a metadata table" })?;
        }
        if rows.iter().skip(table::COUNT).any(|&rows| rows != 0) {
            return Err(Error::Malformed { what: "there are rows of an unknown metadata table" });
        }
        Ok(())
    }

    /// How many rows a table has.
    #[must_use]
    pub fn rows(&self, table: usize) -> u32 {
        self.tables.get(table).map_or(0, |layout| layout.rows)
    }

    /// A field; rows count from 1. `None` outside of the table.
    #[must_use]
    pub fn get(&self, table: usize, row: u32, column: usize) -> Option<u32> {
        let layout = self.tables.get(table)?;
        let index = row.checked_sub(1).filter(|_| row <= layout.rows)? as usize;
        let &(offset, size) = layout.columns.get(column)?;
        let at = layout.start + index * layout.width + usize::from(offset);
        match size {
            2 => u16_at(&self.bytes, at).map(u32::from),
            4 => u32_at(&self.bytes, at),
            _ => None,
        }
    }

    /// The row that a field refers to, in whichever table. The row may be 0, or not exist.
    #[must_use]
    pub fn reference(&self, table: usize, row: u32, column: usize) -> Option<Row> {
        let value = self.get(table, row, column)?;
        match *SCHEMA.get(table)?.get(column)? {
            Column::Row(table) => Some(Row { table, row: value }),
            Column::Coded(bits, tables) => {
                let &table = tables.get((value & ((1 << bits) - 1)) as usize)?;
                (table < table::COUNT).then_some(Row { table, row: value >> bits })
            }
            _ => None,
        }
    }

    /// A name at an offset of the strings' heap. Bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn string(&self, offset: u32) -> Option<Cow<'_, str>> {
        let heap = self.bytes.get(self.strings.clone())?.get(offset as usize..)?;
        let length = heap.iter().take(LONGEST_NAME).position(|&byte| byte == 0);
        Some(String::from_utf8_lossy(heap.get(..length.unwrap_or(LONGEST_NAME.min(heap.len())))?))
    }

    /// The name in a column of a row.
    #[must_use]
    pub fn name(&self, table: usize, row: u32, column: usize) -> Option<Cow<'_, str>> {
        self.string(self.get(table, row, column)?)
    }

    /// A blob at an offset of its heap.
    #[must_use]
    pub fn blob(&self, offset: u32) -> Option<&[u8]> {
        sized(self.bytes.get(self.blobs.clone())?, offset)
    }

    /// The blob in a column of a row.
    #[must_use]
    pub fn blob_of(&self, table: usize, row: u32, column: usize) -> Option<&[u8]> {
        self.blob(self.get(table, row, column)?)
    }

    /// A GUID by its number, from 1.
    #[must_use]
    pub fn guid(&self, number: u32) -> Option<[u8; 16]> {
        let start = (number as usize).checked_sub(1)?.checked_mul(16)?;
        self.bytes.get(self.guids.clone())?.get(start..)?.first_chunk().copied()
    }

    /// The characters of a literal.
    #[must_use]
    pub fn literal(&self, token: Token) -> Option<Vec<u16>> {
        let blob = sized(self.bytes.get(self.user_strings.clone())?, token.rid())?;
        // Behind the characters a byte says whether there are unusual ones.
        Some(blob.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect())
    }

    /// The id that its compiler gave the module.
    #[must_use]
    pub fn module_version_id(&self) -> Option<[u8; 16]> {
        self.guid(self.get(table::MODULE, 1, column::MODULE_ID)?)
    }

    /// Id of a portable PDB: GUID and stamp.
    #[must_use]
    pub fn pdb_id(&self) -> Option<[u8; 20]> {
        self.bytes.get(self.pdb.clone())?.first_chunk().copied()
    }

    /// Full name of a type of this module by its row, `separator` between a type and those in it:
    /// `Space.Outer+Inner`. Generic types keep their arity (`List`1`).
    #[must_use]
    pub fn type_name(&self, row: u32, separator: char) -> Option<String> {
        Some(self.type_parts(row)?.join(separator.encode_utf8(&mut [0; 4])))
    }

    /// The names of a type and those around it, the outermost with its namespace first.
    pub(crate) fn type_parts(&self, row: u32) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        let mut next = row;
        for _ in 0..DEEPEST {
            let name = self.name(table::TYPE_DEF, next, column::TYPE_NAME)?;
            let Some(outer) = self.enclosing(next) else {
                let space = self.name(table::TYPE_DEF, next, column::TYPE_SPACE)?;
                parts.push(with_space(&space, &name));
                parts.reverse();
                return Some(parts);
            };
            parts.push(name.into_owned());
            next = outer;
        }
        None
    }

    /// The same of a type elsewhere, and where the outermost is: a module or assembly, or nothing
    /// known.
    pub(crate) fn reference_parts(&self, row: u32) -> Option<(Vec<String>, Option<Row>)> {
        let mut parts = Vec::new();
        let mut next = row;
        for _ in 0..DEEPEST {
            let name = self.name(table::TYPE_REF, next, column::TYPE_NAME)?;
            let space = self.name(table::TYPE_REF, next, column::TYPE_SPACE)?;
            parts.push(with_space(&space, &name));
            match self.reference(table::TYPE_REF, next, column::TYPE_REF_SCOPE) {
                Some(Row { table: table::TYPE_REF, row }) => next = row,
                scope => {
                    parts.reverse();
                    return Some((parts, scope));
                }
            }
        }
        None
    }

    /// The type that a type is nested in. The table is sorted by the nested type.
    pub(crate) fn enclosing(&self, nested: u32) -> Option<u32> {
        let row = self.first_of(table::NESTED_CLASS, column::NESTED_INNER, nested)?;
        let inner = self.get(table::NESTED_CLASS, row, column::NESTED_INNER)?;
        let outer = self.get(table::NESTED_CLASS, row, column::NESTED_OUTER)?;
        (inner == nested && outer != 0).then_some(outer)
    }

    /// The first row of a sorted table whose raw field is not less than `value`.
    pub(crate) fn first_of(&self, table: usize, column: usize, value: u32) -> Option<u32> {
        let (mut low, mut high) = (1, self.rows(table).checked_add(1)?);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(table, middle, column)? < value { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// The raw value of a coded field that refers to this row.
    pub(crate) fn coded(table: usize, column: usize, to: Row) -> Option<u32> {
        let &Column::Coded(bits, tables) = SCHEMA.get(table)?.get(column)? else { return None };
        let tag = tables.iter().position(|&table| table == to.table)? as u32;
        Some(to.row.checked_mul(1 << bits)? | tag)
    }

    /// The rows that belong to a row by a column of first rows: fields and methods of a type,
    /// parameters of a method.
    pub fn members(&self, table: usize, row: u32, column: usize) -> impl Iterator<Item = u32> + '_ {
        let first = self.reference(table, row, column).unwrap_or(Row { table: 0, row: u32::MAX });
        // Uncompressed metadata have the order in a table of its own.
        let ordered = match first.table {
            table::FIELD => table::FIELD_PTR,
            table::METHOD_DEF => table::METHOD_PTR,
            _ => first.table,
        };
        let by_way = ordered != first.table && self.rows(ordered) > 0;
        let behind = self.rows(if by_way { ordered } else { first.table }).saturating_add(1);
        let end =
            row.checked_add(1).and_then(|next| self.get(table, next, column)).unwrap_or(behind);
        (first.row.max(1)..end.min(behind)).filter_map(move |member| {
            if by_way { self.get(ordered, member, 0) } else { Some(member) }
        })
    }

    /// The type that defines a method, by row: the last one whose methods begin at or before it.
    /// `None` for a method that no type has, and where the table ends in the middle of a row. For
    /// one method: [`Assembly`](crate::Assembly) has the types of all.
    #[must_use]
    pub fn type_of_method(&self, method: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.rows(table::TYPE_DEF));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.get(table::TYPE_DEF, middle, column::TYPE_METHODS)? <= method {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        (low > 0).then_some(low)
    }
}

/// Gives bytes of an image by their offset and number.
type Read<'r> = &'r dyn Fn(u64, usize) -> Option<Vec<u8>>;

fn headers(read: Read<'_>) -> Option<PeHeaders> {
    /// The headers of all images that compilers write are in here.
    const HEAD: usize = 0x400;
    PeHeaders::parse(&read(0, HEAD)?).ok()
}

/// The metadata of an image whose addresses are at a place that `place` gives.
fn metadata_at(
    read: Read<'_>,
    headers: &PeHeaders,
    place: &dyn Fn(u32) -> Option<u64>,
) -> Option<Metadata<'static>> {
    /// Size of a CLI header as far as it is wanted.
    const CLI_HEADER: usize = 16;
    let (address, size) = PeHeaders::metadata_of(&read(place(headers.cli_header())?, CLI_HEADER)?)?;
    Metadata::parse(read(place(address)?, size as usize)?).ok()
}

fn with_space(space: &str, name: &str) -> String {
    if space.is_empty() { name.to_owned() } else { format!("{space}.{name}") }
}

/// What stands in a heap behind its size. ECMA-335 II.24.2.4.
fn sized(heap: &[u8], offset: u32) -> Option<&[u8]> {
    let at = heap.get(offset as usize..)?;
    let (size, rest) = match *at {
        [a, ref rest @ ..] if a & 0x80 == 0 => (u32::from(a), rest),
        [a, b, ref rest @ ..] if a & 0x40 == 0 => (u32::from_be_bytes([0, 0, a & 0x3f, b]), rest),
        [a, b, c, d, ref rest @ ..] if a & 0x20 == 0 => {
            (u32::from_be_bytes([a & 0x1f, b, c, d]), rest)
        }
        _ => return None,
    };
    rest.get(..size as usize)
}
