//! The runtime's image in a process, and where its symbols are.

use crate::Error;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, ReadCache,
    elf::{FileHeader64, PF_X, PT_LOAD, Sym64},
    read::elf::{ElfFile64, ProgramHeader, Sym},
};
use std::{fs::File, io::BufReader};
use unwind::{LiveProcess, Mapping, Target};

/// The runtime's library, or the executable that it is linked into.
pub(super) struct Image {
    /// What is added to addresses of the file.
    bias: u64,
    cache: ReadCache<BufReader<File>>,
}

impl Image {
    /// Finds it.
    pub fn find(pid: u32, mappings: &[Mapping]) -> Result<Self, Error> {
        let process = LiveProcess::new(pid);
        let name =
            |mapping: &Mapping| mapping.path.rsplit('/').next().unwrap_or_default().to_owned();
        let library = mappings.iter().filter(|mapping| name(mapping).starts_with("libcoreclr.so"));
        // A single-file application. Its other images are mapped out of the same file; their
        // offsets distinguish them.
        let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let executable = executable.to_string_lossy().into_owned();
        let own = mappings.iter().filter(|mapping| mapping.path == executable);
        for mapping in library.chain(own).filter(|mapping| mapping.executable) {
            let Ok(file) = process.open(mapping) else { continue };
            let cache = ReadCache::new(BufReader::with_capacity(4096, file));
            let Some(bias) = bias(&cache, mapping) else { continue };
            let image = Self { bias, cache };
            if image.exported("DotNetRuntimeContractDescriptor").is_some()
                || image.exported("g_dacTable").is_some()
                || name(mapping).starts_with("libcoreclr.so")
            {
                return Ok(image);
            }
        }
        Err(Error::NoRuntime { pid })
    }

    /// Address of an exported symbol.
    pub fn exported(&self, name: &str) -> Option<u64> {
        let elf = ElfFile64::<LittleEndian, _>::parse(&self.cache).ok()?;
        let symbol = elf
            .dynamic_symbols()
            .find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())?;
        Some(self.bias.wrapping_add(symbol.address()))
    }

    /// Addresses of symbols in the table for debuggers, which only old runtimes ship with.
    pub fn internal<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let mut found = [None; N];
        let Ok(elf) = ElfFile64::<LittleEndian, _>::parse(&self.cache) else { return found };
        let data = |name| elf.section_by_name(name).and_then(|section| section.data().ok());
        let (Some(symbols), Some(strings)) = (data(".symtab"), data(".strtab")) else {
            return found;
        };
        // Read as whole sections: asking for each name by itself takes the cache a while.
        let size = size_of::<Sym64<LittleEndian>>();
        for bytes in symbols.chunks_exact(size) {
            let Ok((symbol, _)) = object::pod::from_bytes::<Sym64<LittleEndian>>(bytes) else {
                continue;
            };
            let name = strings.get(symbol.st_name(LittleEndian) as usize..).unwrap_or_default();
            for (wanted, found) in names.iter().zip(&mut found) {
                if name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
                {
                    *found = Some(self.bias.wrapping_add(symbol.st_value(LittleEndian)));
                }
            }
        }
        found
    }
}

/// The difference between where an executable mapping is and where the file says that it is. `None`
/// where the mapping is none of the loader's, but one of a bundle behind it.
fn bias(cache: &ReadCache<BufReader<File>>, mapping: &Mapping) -> Option<u64> {
    /// Mappings begin at page boundaries, segments need not.
    const PAGE: u64 = 0xfff;
    let elf = ElfFile64::<LittleEndian, _>::parse(cache).ok()?;
    let segments: &[<FileHeader64<LittleEndian> as object::read::elf::FileHeader>::ProgramHeader] =
        elf.elf_program_headers();
    let segment = segments.iter().find(|segment| {
        let offset = segment.p_offset(LittleEndian);
        let end = offset.saturating_add(segment.p_filesz(LittleEndian));
        segment.p_type(LittleEndian) == PT_LOAD
            && segment.p_flags(LittleEndian) & PF_X == PF_X
            && (offset & !PAGE..end).contains(&mapping.offset)
    })?;
    let stated = segment
        .p_vaddr(LittleEndian)
        .wrapping_add(mapping.offset)
        .wrapping_sub(segment.p_offset(LittleEndian));
    Some(mapping.start.wrapping_sub(stated))
}
