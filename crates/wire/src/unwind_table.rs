//! The runtime's own unwind tables, read from memory.
//!
//! On x64 CoreCLR describes every function and funclet by Windows `UNWIND_INFO` on every system:
//! the JIT makes it, the runtime's own stack walker uses it, so it is exact. Where it stands is no
//! public contract. Every number that is read here is checked against what is known from elsewhere
//! (the code's address and size), and at the first contradiction there is no table: the unwinder
//! then falls back to what it can tell from the code.
//!
//! | code | where the table stands |
//! |---|---|
//! | compiled at run time | the pointer before the first instruction leads to the code header (`RealCodeHeader` of the runtime's codeman.h): four pointers, a `u32` count at 32, then that many `RUNTIME_FUNCTION`s |
//! | ready-to-run | the exception directory of the PE image: a sorted array of `RUNTIME_FUNCTION`s |
//!
//! A `RUNTIME_FUNCTION` is three `u32` offsets from a base: begin, end, unwind info (PE
//! specification, .pdata).

use crate::{UnwindEntry, UnwindTable, memory::Memory};

/// Offset of the count in the code header: after debug info, exception clauses, GC info and method
/// descriptor. Equal in 3.1, 8, 9 and 10.
const HEADER_COUNT: u64 = 32;
/// Most functions and funclets in one method: each catch, finally and filter is a funclet.
const MAX_FUNCLETS: u32 = 4096;
/// Bytes of a `RUNTIME_FUNCTION`.
const FUNCTION_SIZE: u64 = 12;
/// `UNW_FLAG_CHAININFO`: the codes are followed by the function entry whose info continues them.
const CHAINED: u8 = 4;
/// Longest chain that is followed.
const MAX_CHAIN: usize = 8;
/// Values of the pointer before the code that are no pointers but kinds of stubs
/// (`StubCodeBlockKind`).
const STUB_KINDS: u64 = 0x1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Function {
    begin: u32,
    end: u32,
    info: u32,
}

impl Function {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(Self { begin: word(0)?, end: word(4)?, info: word(8)? })
    }
}

/// Table of code that was compiled at run time, from its start and size.
pub fn of_jitted(memory: &impl Memory, start: u64, size: u32) -> Option<UnwindTable> {
    let header = memory.u64(start.checked_sub(8)?)?;
    if header < STUB_KINDS || header % 8 != 0 {
        return None;
    }
    // Nearly every method has few funclets: count and first entries come in one read.
    let mut first = [0; 4 + 2 * FUNCTION_SIZE as usize];
    let at = header.checked_add(HEADER_COUNT)?;
    let both = memory.read(at, &mut first);
    let count = if both { u32::from_le_bytes(*first.first_chunk()?) } else { memory.u32(at)? };
    if count == 0 || count > MAX_FUNCLETS {
        return None;
    }
    let length = count as usize * FUNCTION_SIZE as usize;
    let functions = match first.get(4..4 + length) {
        Some(bytes) if both => bytes.to_vec(),
        _ => memory.bytes(at.checked_add(4)?, length)?,
    };
    let functions: Vec<Function> = functions
        .chunks_exact(FUNCTION_SIZE as usize)
        .map(Function::parse)
        .collect::<Option<_>>()?;
    let main = functions.first()?;
    // The base is wherever the first function's begin is an offset from; the others must then fit
    // into the code.
    let base = start.checked_sub(u64::from(main.begin))?;
    let code_end = u64::from(main.begin) + u64::from(size);
    let mut last_end = main.begin;
    for function in &functions {
        if function.begin < last_end
            || function.end <= function.begin
            || u64::from(function.end) > code_end
        {
            return None;
        }
        last_end = function.end;
    }
    table(memory, base, &functions)
}

fn table(memory: &impl Memory, base: u64, functions: &[Function]) -> Option<UnwindTable> {
    let entries = functions.iter().map(|function| {
        let begin = base.checked_add(u64::from(function.begin))?;
        let end = base.checked_add(u64::from(function.end))?;
        Some(UnwindEntry { begin, end, info: infos(memory, base, function.info)? })
    });
    Some(UnwindTable { entries: entries.collect::<Option<_>>()? })
}

/// The unwind info at an offset, and those chained to it.
fn infos(memory: &impl Memory, base: u64, mut offset: u32) -> Option<Vec<Vec<u8>>> {
    let mut infos = Vec::with_capacity(1);
    for _ in 0..MAX_CHAIN {
        let at = base.checked_add(u64::from(offset))?;
        let (info, chained) = one_info(memory, at)?;
        infos.push(info);
        match chained {
            Some(function) => offset = function.info,
            None => return Some(infos),
        }
    }
    None
}

/// One `UNWIND_INFO` up to the end of its codes, and the function chained to it.
fn one_info(memory: &impl Memory, at: u64) -> Option<(Vec<u8>, Option<Function>)> {
    // Most are short. A read that would run off the end of the mapping is done again with the exact
    // length.
    let mut bytes = [0; 48];
    let whole = memory.read(at, &mut bytes);
    if !whole && !memory.read(at, bytes.get_mut(..4)?) {
        return None;
    }
    let [head, _prolog, count, frame] = *bytes.first_chunk::<4>()?;
    let (version, flags) = (head & 7, head >> 3);
    // Version 2 only adds epilog codes. The frame register is rbp or none in everything that
    // CoreCLR makes, but any is right; an offset without a register is not.
    if !(1..=2).contains(&version) || flags & !7 != 0 || (frame & 15 == 0 && frame >> 4 != 0) {
        return None;
    }
    let codes = usize::from(count) * 2;
    let length = 4 + codes;
    // The chained function is aligned to four bytes.
    let chained_at = length.next_multiple_of(4);
    let needed = if flags & CHAINED == 0 { length } else { chained_at + FUNCTION_SIZE as usize };
    let bytes = match bytes.get(..needed) {
        Some(bytes) if whole => bytes.to_vec(),
        _ => memory.bytes(at, needed)?,
    };
    let chained = match flags & CHAINED {
        0 => None,
        _ => Some(Function::parse(bytes.get(chained_at..)?)?),
    };
    Some((bytes.get(..length)?.to_vec(), chained))
}

/// The smallest page of the systems that .NET runs on.
const PAGE: usize = 4096;

/// What the beginnings of files in a single-file application are multiples of, at least.
const HOST_ALIGNMENT: usize = 16;

/// Bytes of a section header, and how many of them are looked at.
const SECTION_SIZE: u64 = 40;
const MOST_SECTIONS: u64 = 32;

/// A PE image in memory with a table of functions: a ready-to-run module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where its headers stand.
    pub base: u64,
    /// Bytes that it covers.
    pub size: u32,
    table: u64,
    count: u32,
}

impl Image {
    /// Reads the headers of a mapped image. `None` if there are none, or no table of functions.
    pub fn at(memory: &impl Memory, base: u64) -> Option<Self> {
        let mut dos = [0; 64];
        if base == 0 || !memory.read(base, &mut dos) || dos.first_chunk::<2>()? != b"MZ" {
            return None;
        }
        let pe = base.checked_add(u64::from(u32::from_le_bytes(*dos.last_chunk()?)))?;
        let mut head = [0; 24 + 240];
        if !memory.read(pe, &mut head) || head.first_chunk()? != b"PE\0\0" {
            return None;
        }
        let optional = head.get(24..)?;
        let word = |at: usize| Some(u32::from_le_bytes(optional.get(at..at + 4)?.try_into().ok()?));
        // PE32+ has 16 more bytes before the directories than PE32 (PE specification, optional
        // header).
        let directories = match u16::from_le_bytes(*optional.first_chunk()?) {
            0x20b => 112,
            0x10b => 96,
            _ => return None,
        };
        let size = word(56)?;
        // Directory 3: exceptions.
        let (table, length) = (word(directories + 24)?, word(directories + 28)?);
        let end = u64::from(table) + u64::from(length);
        if table == 0 || u64::from(length) < FUNCTION_SIZE || end > u64::from(size) {
            return None;
        }
        let count = length / FUNCTION_SIZE as u32;
        Some(Self { base, size, table: base.checked_add(u64::from(table))?, count })
    }

    /// The image whose headers stand somewhere in a page, and one of whose sections was mapped to
    /// the page at `code`.
    ///
    /// A file within a single-file application begins at any multiple of 16 bytes (`Bundler`,
    /// src/installer/managed/ Microsoft.NET.HostModel in dotnet/runtime), and is mapped by whole
    /// pages of that application. The page with the headers may be mapped again where the code
    /// begins: so the place of a section must fit, too.
    pub fn in_page(memory: &impl Memory, page: u64, code: u64) -> Option<Self> {
        let bytes = memory.bytes(page, PAGE)?;
        let starts = (0..PAGE)
            .step_by(HOST_ALIGNMENT)
            .filter(|at| bytes.get(*at..).is_some_and(|at| at.starts_with(b"MZ")));
        starts
            .filter_map(|at| Self::at(memory, page.checked_add(at as u64)?))
            .find(|image| image.has_section(memory, code))
    }

    /// Whether a section begins in the page at an address.
    fn has_section(&self, memory: &impl Memory, page: u64) -> bool {
        let head = memory
            .u32(self.base.saturating_add(60))
            .and_then(|pe| self.base.checked_add(u64::from(pe)));
        let Some(pe) = head else { return false };
        // The number of sections, and the size of the optional header in front of them (PE
        // specification, COFF file header).
        let (Some(count), Some(optional)) = (memory.u32(pe + 4), memory.u32(pe + 20)) else {
            return false;
        };
        let (count, optional) = (u64::from(count >> 16), u64::from(optional & 0xffff));
        (0..count.min(MOST_SECTIONS)).any(|index| {
            let offset = memory.u32(pe + 24 + optional + index * SECTION_SIZE + 12);
            let begin = offset.and_then(|offset| self.base.checked_add(u64::from(offset)));
            begin.is_some_and(|begin| begin & !(PAGE as u64 - 1) == page)
        })
    }

    /// Whether an address lies in the image.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base.saturating_add(u64::from(self.size))).contains(&address)
    }

    /// Whether an address lies in a function or funclet.
    pub fn has_function_at(&self, memory: &impl Memory, address: u64) -> bool {
        self.index_at(memory, address).is_some()
    }

    /// Number of the function or funclet in which an address lies.
    pub fn index_at(&self, memory: &impl Memory, address: u64) -> Option<u32> {
        let offset = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let index = self.lower_bound(memory, offset.checked_add(1)?)?.checked_sub(1)?;
        (offset < self.function(memory, index)?.end).then_some(index)
    }

    /// Start and end of a function or funclet by its number.
    pub fn range(&self, memory: &impl Memory, index: u32) -> Option<(u64, u64)> {
        let function = self.function(memory, index).filter(|found| found.begin < found.end)?;
        let at = |offset| self.base.checked_add(u64::from(offset));
        Some((at(function.begin)?, at(function.end)?))
    }

    /// Table of the functions and funclets whose code lies in these ranges.
    pub fn unwind_table(&self, memory: &impl Memory, ranges: &[(u64, u32)]) -> Option<UnwindTable> {
        let mut functions = Vec::new();
        for &(start, length) in ranges {
            let begin = u32::try_from(start.checked_sub(self.base)?).ok()?;
            let end = begin.checked_add(length)?;
            let mut index = self.lower_bound(memory, begin)?;
            let before = functions.len();
            while let Some(function) = self.function(memory, index) {
                if function.begin >= end {
                    break;
                }
                if function.end <= function.begin
                    || function.end > end
                    || functions.len() > MAX_FUNCLETS as usize
                {
                    return None;
                }
                functions.push(function);
                index += 1;
            }
            if functions.get(before)?.begin != begin {
                return None;
            }
        }
        functions.sort_unstable_by_key(|function| function.begin);
        table(memory, self.base, &functions)
    }

    /// Index of the first function that begins at this offset or behind.
    fn lower_bound(&self, memory: &impl Memory, begin: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.function(memory, middle)?.begin < begin {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn function(&self, memory: &impl Memory, index: u32) -> Option<Function> {
        if index >= self.count {
            return None;
        }
        let mut bytes = [0; FUNCTION_SIZE as usize];
        memory
            .read(self.table + u64::from(index) * FUNCTION_SIZE, &mut bytes)
            .then(|| Function::parse(&bytes))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stretch of memory that begins at some address.
    struct Bytes(u64, Vec<u8>);

    impl Bytes {
        fn put(&mut self, address: u64, bytes: &[u8]) {
            let at = (address - self.0) as usize;
            self.1[at..at + bytes.len()].copy_from_slice(bytes);
        }
        fn words(&mut self, address: u64, words: &[u32]) {
            for (index, word) in words.iter().enumerate() {
                self.put(address + index as u64 * 4, &word.to_le_bytes());
            }
        }
    }

    impl Memory for Bytes {
        fn read(&self, address: u64, out: &mut [u8]) -> bool {
            let Some(at) = address.checked_sub(self.0) else { return false };
            let Some(bytes) = self.1.get(at as usize..).and_then(|rest| rest.get(..out.len()))
            else {
                return false;
            };
            out.copy_from_slice(bytes);
            true
        }
    }

    const BASE: u64 = 0x10_0000;
    /// push rbp; sub rsp, 0x20; lea rbp, [rsp+0x20].
    const INFO: [u8; 10] = [0x01, 10, 3, 0x25, 10, 0x03, 5, 0x32, 1, 0x50];

    fn jitted(count: u32, functions: &[[u32; 3]]) -> Bytes {
        let mut memory = Bytes(BASE, vec![0; 0x4000]);
        let header = BASE + 0x1000;
        memory.put(BASE + 0x100 - 8, &header.to_le_bytes());
        memory.words(header + 32, &[count]);
        memory.words(header + 36, functions.as_flattened());
        memory.put(BASE + 0x200, &INFO);
        memory.put(BASE + 0x3ff6, &INFO);
        memory
    }

    #[test]
    fn a_method_with_a_funclet() {
        let memory = jitted(2, &[[0x100, 0x140, 0x200], [0x140, 0x150, 0x3ff6]]);
        let table = of_jitted(&memory, BASE + 0x100, 0x50).unwrap();
        let expected = [
            UnwindEntry { begin: BASE + 0x100, end: BASE + 0x140, info: vec![INFO.to_vec()] },
            // This one stands at the very end of the memory.
            UnwindEntry { begin: BASE + 0x140, end: BASE + 0x150, info: vec![INFO.to_vec()] },
        ];
        assert_eq!(table.entries, expected);
    }

    #[test]
    fn contradictions_give_no_table() {
        let good = [0x100, 0x140, 0x200];
        for (count, functions, size) in [
            (0, vec![good], 0x50),
            (5000, vec![good], 0x50),
            // Reaches behind the code.
            (1, vec![good], 0x30),
            (1, vec![[0x100, 0x100, 0x200]], 0x50),
            // Out of order, overlapping.
            (2, vec![good, [0x130, 0x150, 0x200]], 0x50),
            // Info that is none, or not there.
            (1, vec![[0x100, 0x140, 0x300]], 0x50),
            (1, vec![[0x100, 0x140, 0x4000]], 0x50),
        ] {
            let memory = jitted(count, &functions);
            assert_eq!(
                of_jitted(&memory, BASE + 0x100, size),
                None,
                "{count} {functions:x?} {size:x}"
            );
        }
        // A stub's kind instead of a header, and nothing before the code at all.
        let mut memory = jitted(1, &[good]);
        memory.put(BASE + 0x100 - 8, &5u64.to_le_bytes());
        assert_eq!(of_jitted(&memory, BASE + 0x100, 0x50), None);
        assert_eq!(of_jitted(&memory, BASE, 0x50), None);
        assert_eq!(of_jitted(&memory, 3, 0x50), None);
    }

    #[test]
    fn chains_are_followed_and_end() {
        let mut memory = jitted(1, &[[0x100, 0x140, 0x300]]);
        // One code, padded to two, then the function that it is chained to.
        memory.put(BASE + 0x300, &[0x21, 0, 1, 0, 4, 0x32, 0, 0]);
        memory.words(BASE + 0x308, &[0x80, 0x90, 0x200]);
        let table = of_jitted(&memory, BASE + 0x100, 0x50).unwrap();
        assert_eq!(table.entries[0].info, [vec![0x21, 0, 1, 0, 4, 0x32], INFO.to_vec()]);
        // Chained to itself.
        memory.words(BASE + 0x308, &[0x80, 0x90, 0x300]);
        assert_eq!(of_jitted(&memory, BASE + 0x100, 0x50), None);
    }

    fn image(functions: &[[u32; 3]]) -> Bytes {
        let mut memory = Bytes(BASE, vec![0; 0x4000]);
        memory.put(BASE, b"MZ");
        memory.words(BASE + 0x3c, &[0x80]);
        memory.put(BASE + 0x80, b"PE\0\0");
        memory.put(BASE + 0x80 + 24, &0x20bu16.to_le_bytes());
        memory.words(BASE + 0x80 + 24 + 56, &[0x4000]);
        memory.words(BASE + 0x80 + 24 + 112 + 24, &[0x2000, functions.len() as u32 * 12]);
        memory.words(BASE + 0x2000, functions.as_flattened());
        memory.put(BASE + 0x1800, &INFO);
        memory
    }

    #[test]
    fn an_image_is_searched() {
        let functions: Vec<_> =
            (0..20).map(|i| [0x400 + i * 0x20, 0x410 + i * 0x20, 0x1800]).collect();
        let memory = image(&functions);
        let image = Image::at(&memory, BASE).unwrap();
        assert!(
            image.contains(BASE + 0x3fff)
                && !image.contains(BASE + 0x4000)
                && !image.contains(BASE - 1)
        );
        for i in 0..20u64 {
            let start = BASE + 0x400 + i * 0x20;
            let table = image.unwind_table(&memory, &[(start, 0x10)]).unwrap();
            assert_eq!(
                table.entries,
                [UnwindEntry { begin: start, end: start + 0x10, info: vec![INFO.to_vec()] }]
            );
        }
        let two =
            image.unwind_table(&memory, &[(BASE + 0x440, 0x30), (BASE + 0x400, 0x10)]).unwrap();
        assert_eq!(
            two.entries.iter().map(|e| e.begin - BASE).collect::<Vec<_>>(),
            [0x400, 0x440, 0x460]
        );
        assert_eq!(image.unwind_table(&memory, &[(BASE + 0x408, 8)]), None);
        assert_eq!(image.unwind_table(&memory, &[(BASE + 0x400, 8)]), None);
        assert_eq!(image.unwind_table(&memory, &[(BASE + 0x3000, 8)]), None);
        assert_eq!(image.unwind_table(&memory, &[(BASE - 8, 8)]), None);
    }

    #[test]
    fn an_image_within_a_page_is_found_by_its_sections() {
        const OFFSET: u64 = 0x680;
        let plain = image(&[[0x400, 0x410, 0x1800]]);
        let mut memory = Bytes(BASE, vec![0; 0x6000]);
        memory.put(BASE + OFFSET, &plain.1);
        let pe = BASE + OFFSET + 0x80;
        memory.put(pe + 6, &2u16.to_le_bytes());
        memory.put(pe + 20, &240u16.to_le_bytes());
        memory.words(pe + 24 + 240 + 12, &[0x1000]);
        memory.words(pe + 24 + 240 + 40 + 12, &[0x2f00]);
        let found = |page, code| Image::in_page(&memory, page, code).map(|image| image.base);
        assert_eq!(found(BASE, BASE + 0x1000), Some(BASE + OFFSET));
        assert_eq!(found(BASE, BASE + 0x3000), Some(BASE + OFFSET), "its second section");
        assert_eq!(found(BASE, BASE), None, "the page of the headers is no section");
        assert_eq!(found(BASE, BASE + 0x2000), None);
        assert_eq!(found(BASE + 0x1000, BASE + 0x1000), None, "no headers");
        assert_eq!(found(0x7000_0000, BASE + 0x1000), None, "nothing there");
    }

    #[test]
    fn what_is_no_image_is_none() {
        let memory = image(&[[0x400, 0x410, 0x1800]]);
        assert!(Image::at(&memory, BASE).is_some());
        assert_eq!(Image::at(&memory, BASE + 0x1000), None);
        assert_eq!(Image::at(&memory, 0), None);
        assert_eq!(Image::at(&memory, 0x7000_0000), None);
        let mut without = image(&[]);
        assert_eq!(Image::at(&without, BASE), None);
        without.words(BASE + 0x80 + 24 + 112 + 24, &[0x3ff0, 0x100]);
        assert_eq!(Image::at(&without, BASE), None);
    }
}
