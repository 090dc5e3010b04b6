use crate::Error;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind, Object, ReadCache, ReadRef, elf};
use rootfs::Root;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Largest table that is read. That of a browser takes some hundred megabytes; runtimes take far
/// less.
const MAX_TABLE: u64 = 1 << 30;

/// Largest file that is looked at, debug information included.
const MAX_FILE: u64 = 2 << 30;

/// Longest name that is demangled, in bytes: demangling can take exponential time.
const MAX_NAME: usize = 16 << 10;

/// Functions of an ELF file, by address.
///
/// A relative address counts from the start of the module's image as it lies in memory: it is an
/// absolute address minus the address where the module's first segment was loaded.
#[derive(Clone, Debug, Default)]
pub struct NativeSymbols {
    /// By address, ascending and without doubles.
    functions: Vec<Function>,
    /// All names, each ended by the start of the next.
    names: Vec<u8>,
    segments: Vec<Segment>,
    /// Address of the image's start that the file states.
    image_base: u64,
    build_id: Option<String>,
    source: SymbolSource,
    single_file_host: bool,
}

/// Where the symbols of a module are from, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SymbolSource {
    /// A debug file that belongs to the module.
    DebugFile,
    /// The module's own full table.
    Own,
    /// The functions that the module exports: a small part of all.
    Exports,
    /// There are none.
    #[default]
    None,
}

/// A function that an address lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFunction<'a> {
    /// Its name, demangled.
    pub name: Cow<'a, str>,
    /// Its relative address.
    pub start: u64,
    /// Its length in bytes; that up to the next symbol where the file states none.
    pub size: u64,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    end: u64,
    name: (u32, u32),
}

/// A part of the file that is loaded.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    file_size: u64,
    address: u64,
}

impl NativeSymbols {
    /// Reads the symbols of the module at `path`: from a debug file beside it or under
    /// `/usr/lib/debug` if one belongs to it, else its own.
    ///
    /// All paths are those of the process whose root this is.
    pub fn open(root: &Root, path: &Path) -> Result<Self, Error> {
        let own = read(root, path)?;
        let debug = own.debug_files(path).into_iter().find_map(|candidate| {
            if !root.is_file(&candidate) {
                return None;
            }
            let debug = read(root, &candidate).ok()?;
            // A file without an id may be of any build.
            (own.build_id.is_some()
                && debug.build_id == own.build_id
                && debug.source == SymbolSource::Own)
                .then_some(debug)
        });
        let mut symbols = Self {
            functions: own.functions,
            names: own.names,
            segments: own.segments,
            image_base: own.image_base,
            build_id: own.build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
            source: own.source,
            single_file_host: own.single_file_host,
        };
        if let Some(debug) = debug {
            symbols.functions = debug.functions;
            symbols.names = debug.names;
            symbols.source = SymbolSource::DebugFile;
        }
        Ok(symbols)
    }

    /// The function at a relative address; `None` where no symbol covers it.
    pub fn lookup(&self, relative: u64) -> Option<NativeFunction<'_>> {
        self.lookup_stated(relative.checked_add(self.image_base)?)
    }

    /// The function at an address as the file states it (SVMA); `None` where no symbol covers it.
    pub fn lookup_stated(&self, address: u64) -> Option<NativeFunction<'_>> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        if address >= function.end {
            return None;
        }
        let (from, to) = function.name;
        let name = self.names.get(from as usize..to as usize)?;
        Some(NativeFunction {
            name: demangle(name),
            start: function.start.saturating_sub(self.image_base),
            size: function.end.saturating_sub(function.start),
        })
    }

    /// The relative address of a byte of the file, where it is loaded. A mapping's address is
    /// turned into an offset by its start and its own offset, whichever segment it is of.
    pub fn relative_of_offset(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            offset.checked_sub(segment.offset).is_some_and(|within| within < segment.file_size)
        })?;
        segment
            .address
            .checked_add(offset.checked_sub(segment.offset)?)?
            .checked_sub(self.image_base)
    }

    /// The function that a byte of the file is of; see [`Self::relative_of_offset`].
    pub fn lookup_offset(&self, offset: u64) -> Option<NativeFunction<'_>> {
        self.lookup(self.relative_of_offset(offset)?)
    }

    /// The module's build id in hexadecimal, where it has one.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// Where the symbols are from.
    pub fn source(&self) -> SymbolSource {
        self.source
    }

    /// Functions known.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether no function is known.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Whether the file is an application with the runtime linked into it.
    pub fn is_single_file_host(&self) -> bool {
        self.single_file_host
    }
}

/// What one file gives.
#[derive(Default)]
struct Loaded {
    functions: Vec<Function>,
    names: Vec<u8>,
    segments: Vec<Segment>,
    image_base: u64,
    build_id: Option<Vec<u8>>,
    debug_link: Option<String>,
    source: SymbolSource,
    single_file_host: bool,
}

/// Opens an ELF file of either class, and reads only what is asked for.
fn read(root: &Root, path: &Path) -> Result<Loaded, Error> {
    let damaged = |error: object::Error| Error::Damaged {
        path: path.to_owned(),
        expected: "ELF file",
        what: error.to_string(),
    };
    let file =
        root.open(path, MAX_FILE).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let cache = ReadCache::new(file);
    let loaded =
        match FileKind::parse(&cache).map_err(damaged)? {
            FileKind::Elf64 => ElfFile::<elf::FileHeader64<Endianness>, _>::parse(&cache)
                .and_then(|elf| load(&elf)),
            FileKind::Elf32 => ElfFile::<elf::FileHeader32<Endianness>, _>::parse(&cache)
                .and_then(|elf| load(&elf)),
            other => {
                let what = format!("it is of the kind {other:?}");
                return Err(Error::Damaged { path: path.to_owned(), expected: "ELF file", what });
            }
        };
    loaded.map_err(damaged)
}

impl Loaded {
    /// Where a debug file may be.
    fn debug_files(&self, path: &Path) -> Vec<PathBuf> {
        let global = Path::new("/usr/lib/debug");
        let mut candidates = Vec::new();
        if let Some((first, rest)) = self.build_id.as_deref().and_then(<[u8]>::split_first) {
            let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            candidates.push(global.join(format!(".build-id/{first:02x}/{rest}.debug")));
        }
        let (Some(directory), Some(file)) = (path.parent(), path.file_name()) else {
            return candidates;
        };
        // A link is a plain file name; anything else could lead anywhere.
        if let Some(link) =
            self.debug_link.as_deref().filter(|link| !link.contains('/') && *link != "..")
        {
            candidates.push(directory.join(link));
            candidates.push(directory.join(".debug").join(link));
            candidates
                .push(global.join(directory.strip_prefix("/").unwrap_or(directory)).join(link));
        }
        // Microsoft's symbol packages.
        let mut name = file.to_owned();
        name.push(".dbg");
        candidates.push(directory.join(name));
        candidates
    }
}

/// Reads what we need of an ELF file.
fn load<'data, Elf, R>(file: &ElfFile<'data, Elf, R>) -> Result<Loaded, object::Error>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let (endian, data) = (file.endian(), file.data());
    let link = file.gnu_debuglink().ok().flatten();
    let mut loaded = Loaded {
        build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
        debug_link: link.and_then(|(name, _)| Some(std::str::from_utf8(name).ok()?.to_owned())),
        ..Loaded::default()
    };
    for header in file.elf_program_headers() {
        if header.p_type(endian) == elf::PT_LOAD {
            loaded.segments.push(Segment {
                offset: header.p_offset(endian).into(),
                file_size: header.p_filesz(endian).into(),
                address: header.p_vaddr(endian).into(),
            });
        }
    }
    // Segments are loaded by whole pages.
    let lowest = loaded.segments.iter().map(|segment| segment.address).min().unwrap_or_default();
    loaded.image_base = lowest & !0xfff;

    let sections = file.elf_section_table();
    let mut found = Vec::new();
    for (kind, source) in
        [(elf::SHT_SYMTAB, SymbolSource::Own), (elf::SHT_DYNSYM, SymbolSource::Exports)]
    {
        let too_large = |section: &Elf::SectionHeader| {
            section.sh_type(endian) == kind && section.sh_size(endian).into() > MAX_TABLE
        };
        if sections.iter().any(too_large) {
            continue;
        }
        let table = sections.symbols(endian, data, kind)?;
        if table.is_empty() {
            continue;
        }
        let section = sections.section(table.string_section())?;
        if section.sh_size(endian).into() > MAX_TABLE {
            continue;
        }
        let strings = section.data(endian, data)?;
        if source == SymbolSource::Exports {
            loaded.single_file_host =
                has_name(strings, b"DotNetRuntimeInfo") || has_name(strings, b"g_dacTable");
        }
        // The full table has the exports as well.
        if loaded.source != SymbolSource::None {
            continue;
        }
        for symbol in table.iter() {
            if let Some(candidate) = Candidate::of::<Elf>(symbol, endian, strings) {
                let from = u32::try_from(loaded.names.len()).unwrap_or(u32::MAX);
                found.push((candidate, from, candidate.append(strings, &mut loaded.names)));
            }
        }
        if !found.is_empty() {
            loaded.source = source;
        }
    }
    loaded.functions = functions(found);
    Ok(loaded)
}

fn has_name(names: &[u8], name: &[u8]) -> bool {
    names.split(|&byte| byte == 0).any(|entry| entry == name)
}

/// A symbol that may be a function.
#[derive(Clone, Copy)]
struct Candidate {
    start: u64,
    size: u64,
    name: usize,
    /// Of two symbols for the same address the greater one is kept.
    rank: u8,
}

impl Candidate {
    fn of<Elf: FileHeader>(symbol: &Elf::Sym, endian: Elf::Endian, strings: &[u8]) -> Option<Self> {
        let kind = symbol.st_type();
        let is_code = matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let is_label = kind == elf::STT_NOTYPE;
        if symbol.is_undefined(endian) || !(is_code || is_label) {
            return None;
        }
        let name = symbol.st_name(endian) as usize;
        let start: u64 = symbol.st_value(endian).into();
        // Marks of the assembler, `$x` and `.L…`, name nothing.
        let first = *strings.get(name)?;
        if matches!(first, 0 | b'$' | b'.') || start == 0 {
            return None;
        }
        let global = u8::from(symbol.st_bind() != elf::STB_LOCAL);
        let plain = u8::from(first != b'_');
        Some(Self {
            start,
            size: symbol.st_size(endian).into(),
            name,
            rank: u8::from(is_code) * 4 + global * 2 + plain,
        })
    }

    /// Adds the name to all names, and gives its end.
    fn append(self, strings: &[u8], names: &mut Vec<u8>) -> u32 {
        let name = strings.get(self.name..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        names.extend_from_slice(name);
        u32::try_from(names.len()).unwrap_or(u32::MAX)
    }
}

/// Sorts, keeps the best of those at one address, and ends those of unknown size at the next.
fn functions(mut found: Vec<(Candidate, u32, u32)>) -> Vec<Function> {
    /// Most bytes that a symbol without a size is thought to cover.
    const MAX_UNSIZED: u64 = 64 << 10;
    found.sort_by_key(|(candidate, ..)| {
        (candidate.start, std::cmp::Reverse((candidate.rank, candidate.size)))
    });
    found.dedup_by_key(|(candidate, ..)| candidate.start);
    // A label within a function must not hide the function.
    let mut covered = 0;
    found.retain(|(candidate, ..)| {
        covered = covered.max(candidate.start.saturating_add(candidate.size));
        candidate.size > 0 || candidate.start >= covered
    });
    let next = found.iter().skip(1).map(|(candidate, ..)| candidate.start).chain([u64::MAX]);
    let functions = found.iter().zip(next).map(|(&(candidate, from, to), next)| {
        let end = match candidate.size {
            0 => candidate.start.saturating_add(MAX_UNSIZED).min(next),
            size => candidate.start.saturating_add(size),
        };
        Function { start: candidate.start, end, name: (from, to) }
    });
    functions.collect()
}

/// A name as its programmer wrote it: Rust's and C++'s are demangled, all others are as they are.
fn demangle(name: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(name);
    if text.len() > MAX_NAME {
        return text;
    }
    // The version of an exported symbol is no part of its name.
    if let Ok(demangled) = rustc_demangle::try_demangle(&text) {
        return Cow::Owned(format!("{demangled:#}"));
    }
    if text.starts_with("_Z") || text.starts_with("__Z") {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        if let Ok(symbol) = cpp_demangle::Symbol::new(text.as_bytes())
            && let Ok(demangled) = symbol.demangle_with_options(&options)
        {
            return Cow::Owned(demangled);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(demangle(b"memcpy"), "memcpy");
        assert_eq!(demangle(b"_ZN3WKS7gc_heap11mark_objectEPh"), "WKS::gc_heap::mark_object");
        assert_eq!(demangle(b"_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle(b"_Znot_mangled"), "_Znot_mangled");
        assert_eq!(demangle(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn of_two_at_one_address_the_better_is_kept() {
        let candidate = |start, size, rank| Candidate { start, size, name: 0, rank };
        let all = functions(vec![
            (candidate(32, 0, 4), 2, 3),
            (candidate(16, 8, 5), 0, 1),
            (candidate(16, 8, 7), 1, 2),
            (candidate(40, 4, 4), 3, 4),
            // A label within the last.
            (candidate(42, 0, 0), 4, 5),
        ]);
        let facts: Vec<_> =
            all.iter().map(|function| (function.start, function.end, function.name.0)).collect();
        assert_eq!(facts, [(16, 24, 1), (32, 40, 2), (40, 44, 3)]);
    }

    #[test]
    fn our_own_functions_are_found() {
        let executable = std::env::current_exe().unwrap();
        let symbols = NativeSymbols::open(&Root::own().unwrap(), &executable).unwrap();
        assert_ne!(symbols.source(), SymbolSource::None);
        assert!(symbols.build_id().is_some_and(|id| id.len() == 40), "{:?}", symbols.build_id());
        assert!(!symbols.is_single_file_host());
        let function = symbols.functions.iter().find_map(|function| {
            let found = symbols.lookup(function.start - symbols.image_base)?;
            found.name.contains("our_own_functions_are_found").then_some(found)
        });
        let function = function.unwrap();
        assert!(function.size > 0);
        assert_eq!(symbols.lookup(function.start + function.size - 1).unwrap().name, function.name);
    }

    #[test]
    fn addresses_of_the_running_process_are_resolved() {
        // What the C library itself exports, found by the address that the linker gave it.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = std::process::exit as *const () as u64;
        let line = maps
            .lines()
            .find(|line| {
                let (start, rest) = line.split_once('-').unwrap();
                let end = rest.split_once(' ').unwrap().0;
                let parse = |text| u64::from_str_radix(text, 16).unwrap();
                (parse(start)..parse(end)).contains(&here)
            })
            .unwrap();
        let fields: Vec<&str> = line.split_whitespace().collect();
        let start = u64::from_str_radix(fields[0].split_once('-').unwrap().0, 16).unwrap();
        let offset = here - start + u64::from_str_radix(fields[2], 16).unwrap();
        let symbols = NativeSymbols::open(&Root::own().unwrap(), Path::new(fields[5])).unwrap();
        assert_eq!(symbols.lookup_offset(offset).unwrap().name, "std::process::exit");
    }

    #[test]
    fn other_files_are_refused() {
        let root = Root::own().unwrap();
        assert!(matches!(NativeSymbols::open(&root, Path::new("/nowhere")), Err(Error::Io { .. })));
        assert!(matches!(
            NativeSymbols::open(&root, Path::new("/etc/passwd")),
            Err(Error::Damaged { .. })
        ));
    }
}
