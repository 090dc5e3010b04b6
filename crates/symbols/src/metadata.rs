//! The parts of ECMA-335 metadata that lines need: streams, sizes of tables, a module's id, and the portable PDB's
//! own tables. Sources: ECMA-335 II.24, and `PortablePdb-Metadata.md` of dotnet/runtime.

/// Reads numbers off the front of bytes; `None` when they are not there.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An index that takes two bytes, or four where the table or heap is large.
    fn index(&mut self, wide: bool) -> Option<u32> {
        if wide { self.u32() } else { self.u16().map(u32::from) }
    }
}

/// A stream of metadata by its name.
fn stream<'a>(metadata: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let mut root = Cursor(metadata);
    if root.bytes(4)? != b"BSJB" {
        return None;
    }
    root.bytes(8)?;
    let version = root.u32()? as usize;
    root.bytes(version)?;
    let _flags = root.u16()?;
    for _ in 0..root.u16()? {
        let (offset, size) = (root.u32()? as usize, root.u32()? as usize);
        let length = root.0.iter().take(32).position(|&byte| byte == 0)?;
        // Padded to four bytes with the NUL.
        let name = root.bytes((length + 4) & !3)?.get(..length)?;
        if name == wanted.as_bytes() {
            return metadata.get(offset..offset.checked_add(size)?);
        }
    }
    None
}

/// Head of the `#~` stream.
struct Tables<'a> {
    wide_strings: bool,
    wide_guids: bool,
    wide_blobs: bool,
    rows: [u32; 64],
    data: Cursor<'a>,
}

impl<'a> Tables<'a> {
    fn parse(stream: &'a [u8]) -> Option<Self> {
        let mut fields = Cursor(stream);
        fields.bytes(6)?;
        let [heaps, _] = fields.array()?;
        let present = fields.u64()?;
        let _sorted = fields.u64()?;
        let mut rows = [0; 64];
        for (table, rows) in rows.iter_mut().enumerate() {
            if present >> table & 1 != 0 {
                *rows = fields.u32()?;
            }
        }
        Some(Self {
            wide_strings: heaps & 1 != 0,
            wide_guids: heaps & 2 != 0,
            wide_blobs: heaps & 4 != 0,
            rows,
            data: fields,
        })
    }

    fn rows(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or_default()
    }

    fn wide(&self, table: usize) -> bool {
        self.rows(table) > 0xffff
    }
}

/// The module version id of an assembly, from its metadata.
pub(crate) fn module_version_id(metadata: &[u8]) -> Option<[u8; 16]> {
    let tables = stream(metadata, "#~").or_else(|| stream(metadata, "#-"))?;
    let mut tables = Tables::parse(tables)?;
    // Module is the first table: generation, name, id.
    if tables.rows(0) == 0 {
        return None;
    }
    let _generation = tables.data.u16()?;
    let _name = tables.data.index(tables.wide_strings)?;
    let id = tables.data.index(tables.wide_guids)? as usize;
    let start = id.checked_sub(1)?.checked_mul(16)?;
    stream(metadata, "#GUID")?.get(start..)?.first_chunk().copied()
}

/// What we read of a portable PDB by ourselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PdbFacts {
    /// GUID and stamp, as the assembly's debug directory repeats them.
    pub id: [u8; 20],
    /// `MoveNext` method and the method that the programmer wrote, by row, ascending.
    pub state_machines: Vec<(u32, u32)>,
}

/// From the bytes of a portable PDB; `None` when it is none.
pub(crate) fn pdb_facts(pdb: &[u8]) -> Option<PdbFacts> {
    const METHOD_DEF: usize = 0x06;
    const DOCUMENT: usize = 0x30;
    const METHOD_DEBUG_INFORMATION: usize = 0x31;
    const LOCAL_SCOPE: usize = 0x32;
    const LOCAL_VARIABLE: usize = 0x33;
    const LOCAL_CONSTANT: usize = 0x34;
    const IMPORT_SCOPE: usize = 0x35;
    const STATE_MACHINE_METHOD: usize = 0x36;

    let mut head = Cursor(stream(pdb, "#Pdb")?);
    let id = head.array()?;
    let _entry_point = head.u32()?;
    let referenced = head.u64()?;
    let mut tables = Tables::parse(stream(pdb, "#~")?)?;
    // Tables of the assembly that this file refers to: only their sizes stand here.
    for (table, rows) in tables.rows.iter_mut().enumerate() {
        if referenced >> table & 1 != 0 {
            *rows = head.u32()?;
        }
    }
    let size = |wide: bool| if wide { 4u64 } else { 2 };
    let (string, guid, blob) = (size(tables.wide_strings), size(tables.wide_guids), size(tables.wide_blobs));
    let index = |table| size(tables.wide(table));
    let before = [
        (DOCUMENT, blob + guid + blob + guid),
        (METHOD_DEBUG_INFORMATION, index(DOCUMENT) + blob),
        (LOCAL_SCOPE, index(METHOD_DEF) + index(IMPORT_SCOPE) + index(LOCAL_VARIABLE) + index(LOCAL_CONSTANT) + 8),
        (LOCAL_VARIABLE, 4 + string),
        (LOCAL_CONSTANT, string + blob),
        (IMPORT_SCOPE, index(IMPORT_SCOPE) + blob),
    ];
    // Row counts are 32 bits and rows are small, so the sum cannot overflow.
    let offset: u64 = before.iter().map(|&(table, size)| u64::from(tables.rows(table)) * size).sum();
    let mut rows = Cursor(tables.data.0.get(usize::try_from(offset).ok()?..)?);
    let wide = tables.wide(METHOD_DEF);
    let mut state_machines = Vec::new();
    for _ in 0..tables.rows(STATE_MACHINE_METHOD) {
        state_machines.push((rows.index(wide)?, rows.index(wide)?));
    }
    state_machines.sort_unstable();
    Some(PdbFacts { id, state_machines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_bytes_are_nothing() {
        assert_eq!(pdb_facts(b""), None);
        assert_eq!(pdb_facts(b"BSJB"), None);
        assert_eq!(module_version_id(&[0; 100]), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [&b"BSJB"[..], &bytes].concat();
            let _ = (pdb_facts(&bytes), module_version_id(&bytes));
            let _ = Tables::parse(&bytes);
        }
    }
}
