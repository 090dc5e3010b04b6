//! Which methods the code of a precompiled image is.

use super::{
    debug_info,
    memory::{Memory, u32_in},
    native_format::{NativeReader, instance_method},
};
use metadata::PeHeaders;
use std::collections::BTreeMap;
use wire::{UnwindTable, unwind_table::Image};

/// Longest section that is read; those of the base library have some hundred kilobytes.
const LONGEST: u32 = 32 << 20;

/// Most methods of a table; those of the base library have 45,000 together.
const MOST_METHODS: usize = 1 << 20;

/// Most sections.
const MOST_SECTIONS: u32 = 64;

/// Offset of the ready-to-run header's place in the CLI header (`ManagedNativeHeader`).
const NATIVE_HEADER: u64 = 64;

/// Sections (`ReadyToRunSectionType`).
const METHODS: u32 = 103;
const DEBUG_INFO: u32 = 105;
const INSTANCES: u32 = 109;

/// The code of an image.
pub(super) struct ReadyToRun {
    image: Image,
    /// The first function of each method, with the row of the method where it is one of this
    /// module.
    methods: BTreeMap<u32, Option<u32>>,
    /// Whether all methods are among them: then what follows a first function belongs to it.
    complete: bool,
    /// What is kept for debuggers, by the first function of a method.
    debug_info: Vec<u8>,
}

/// Code of a method.
pub(super) struct Precompiled {
    /// Where it is: start and length.
    pub range: (u64, u32),
    pub unwind: Option<UnwindTable>,
    /// Row of the method; `None` where it is one of another module, or cannot be read.
    pub row: Option<u32>,
    /// Native and IL offsets, ascending; empty where they are not known.
    pub il_map: Vec<(u32, u32)>,
}

impl ReadyToRun {
    /// Reads the tables of an image; `None` if it has none.
    pub fn read(memory: &Memory, base: u64) -> Option<Self> {
        let image = Image::at(memory, base)?;
        let headers = PeHeaders::parse(&memory.bytes(base, 0x400)?).ok()?;
        let cli = base.checked_add(u64::from(headers.cli_header()))?;
        let header = base.checked_add(u64::from(memory.u32(cli + NATIVE_HEADER)?))?;
        if header == base || memory.bytes(header, 4)? != b"RTR\0" {
            return None;
        }
        let count = memory.u32(header + 12).filter(|count| *count <= MOST_SECTIONS)?;
        let directory = memory.bytes(header + 16, count as usize * 12)?;
        let section = |kind: u32| {
            let entry = directory.chunks_exact(12).find(|entry| u32_in(entry, 0) == Some(kind))?;
            let (address, size) = (u32_in(entry, 4)?, u32_in(entry, 8)?);
            let at = base.checked_add(u64::from(address))?;
            memory.bytes(at, size.min(LONGEST) as usize)
        };
        let mut methods = BTreeMap::new();
        let entries = section(METHODS)?;
        let reader = NativeReader(&entries);
        for (index, at) in reader.array()?.take(MOST_METHODS) {
            methods.insert(entry_point(reader, at)?, Some(index + 1));
        }
        let mut complete = true;
        if let Some(instances) = section(INSTANCES) {
            let reader = NativeReader(&instances);
            for at in reader.hash_table()?.take(MOST_METHODS) {
                let entry = at.and_then(|at| instance_method(reader, at));
                match entry.and_then(|(row, at)| Some((entry_point(reader, at)?, row))) {
                    Some((function, row)) => {
                        methods.insert(function, row);
                    }
                    None => complete = false,
                }
            }
        }
        let debug_info = section(DEBUG_INFO).unwrap_or_default();
        Some(Self { image, methods, complete, debug_info })
    }

    /// The method whose code is at an address.
    pub fn method_at(&self, memory: &Memory, address: u64) -> Option<Precompiled> {
        let index = self.image.index_at(memory, address)?;
        let (begin, end) = self.image.range(memory, index)?;
        let known = self.methods.range(..=index).next_back();
        // Funclets follow their method.
        let found = known.filter(|(first, _)| self.complete || **first == index);
        let Some((&first, &row)) = found else {
            // Code, but whose?
            let range = (begin, u32::try_from(end - begin).ok()?);
            let unwind = self.unwind(memory, range);
            return Some(Precompiled { range, unwind, row: None, il_map: Vec::new() });
        };
        let (start, _) = self.image.range(memory, first)?;
        let next = self.methods.range(first + 1..).next().map(|(next, _)| *next);
        let last = next.map_or(index, |next| next - 1).max(index);
        let (_, behind) = self.image.range(memory, last).unwrap_or((begin, end));
        let range = (start, u32::try_from(behind.checked_sub(start)?).ok()?);
        let il_map = self.il_map(first, range.1).unwrap_or_default();
        Some(Precompiled { range, unwind: self.unwind(memory, range), row, il_map })
    }

    /// Native and IL offsets of a method, by its first function (`ReadyToRunInfo::GetDebugInfo`).
    fn il_map(&self, first: u32, size: u32) -> Option<Vec<(u32, u32)>> {
        let reader = NativeReader(&self.debug_info);
        let at = reader.get(first)?;
        // Equal information stands once, and is referred to by its distance.
        let (back, next) = reader.unsigned(at)?;
        let at = if back == 0 { next } else { at.checked_sub(back as usize)? };
        debug_info::il_map(self.debug_info.get(at..)?, size)
    }

    fn unwind(&self, memory: &Memory, range: (u64, u32)) -> Option<UnwindTable> {
        self.image.unwind_table(memory, &[range])
    }
}

/// Number of the first function of a method (`ReadyToRunInfo::GetEntryPoint`).
fn entry_point(reader: NativeReader<'_>, at: usize) -> Option<u32> {
    let (id, _) = reader.unsigned(at)?;
    // Below stands whether there are fixups, and where.
    Some(if id & 1 != 0 { id >> 2 } else { id >> 1 })
}
