//! What an ELF library defines and needs.

use super::Machine;
use object::{
    Endianness, elf,
    read::elf::{FileHeader, Sym as _},
};
use std::collections::BTreeSet;

/// Most versions that are read: real libraries have some hundred. Their tables can be made to seem
/// endless.
const MOST_VERSIONS: usize = 100_000;

/// What an ELF library defines and needs.
#[derive(Clone, Debug)]
pub struct Elf {
    /// The processor that it is for.
    pub machine: Machine,
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Versions that it needs from them, such as `GLIBC_2.34`.
    pub requires: Vec<String>,
    /// Versions that it defines.
    pub versions: BTreeSet<String>,
    /// Functions and variables that it needs and cannot do without.
    pub undefined: Vec<String>,
    /// Those that it defines.
    pub defined: BTreeSet<String>,
    /// Whether all functions are looked for when it is loaded, not when they are first called.
    pub binds_now: bool,
}

impl Elf {
    /// Reads a library.
    ///
    /// # Errors
    /// It is none, or not whole.
    pub fn parse(bytes: &[u8]) -> Result<Self, object::Error> {
        match object::FileKind::parse(bytes)? {
            object::FileKind::Elf32 => read::<elf::FileHeader32<Endianness>>(bytes),
            _ => read::<elf::FileHeader64<Endianness>>(bytes),
        }
    }

    /// The C library that it was built for, if it shows one.
    pub fn c_library(&self) -> Option<&'static str> {
        let needs = |is: fn(&str) -> bool| self.needed.iter().any(|name| is(name));
        if needs(|name| {
            name.starts_with("libc.musl-") || name.starts_with("ld-musl-") || name == "libc.so"
        }) {
            Some("musl")
        } else if needs(|name| name == "libc.so.6") || self.newest_glibc().is_some() {
            Some("glibc")
        } else {
            None
        }
    }

    /// The newest version of glibc that it needs.
    pub fn newest_glibc(&self) -> Option<&str> {
        newest(&self.requires)
    }
}

/// The newest version of glibc among versions.
pub fn newest<'a>(versions: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    let known =
        versions.into_iter().map(String::as_str).filter(|version| glibc_number(version).is_some());
    known.max_by_key(|version| glibc_number(version))
}

/// The numbers of a version of glibc; `None` for other versions, also for those that are not
/// numbered.
pub fn glibc_number(version: &str) -> Option<Vec<u32>> {
    version.strip_prefix("GLIBC_")?.split('.').map(|part| part.parse().ok()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Elf, object::Error> {
    let header = H::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut elf = Elf {
        machine: Machine::of_elf(header.e_machine(endian).0),
        needed: Vec::new(),
        requires: Vec::new(),
        versions: BTreeSet::new(),
        undefined: Vec::new(),
        defined: BTreeSet::new(),
        binds_now: false,
    };
    let dynamic = sections.dynamic_table(endian, bytes)?;
    for entry in &dynamic {
        match entry.tag {
            elf::DT_NEEDED => elf.needed.push(text(dynamic.string(entry)?)),
            elf::DT_BIND_NOW => elf.binds_now = true,
            elf::DT_FLAGS => elf.binds_now |= entry.val & elf::DF_BIND_NOW.0 != 0,
            elf::DT_FLAGS_1 => elf.binds_now |= entry.val & elf::DF_1_NOW.0 != 0,
            _ => {}
        }
    }
    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    for symbol in symbols.iter() {
        let name = symbol.name(endian, symbols.strings())?;
        if name.is_empty() {
            continue;
        }
        match symbol.is_undefined(endian) {
            true if symbol.st_bind() != elf::STB_WEAK => elf.undefined.push(text(name)),
            true => {}
            false => drop(elf.defined.insert(text(name))),
        }
    }
    let mut left = MOST_VERSIONS;
    if let Some((mut all, strings)) = sections.gnu_verneed(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        while let Some((_, mut versions)) = all.next()? {
            while let Some(version) = versions.next()? {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(elf);
                }
                if !version.vna_flags.get(endian).contains(elf::VER_FLG_WEAK) {
                    elf.requires.push(text(version.name(endian, strings)?));
                }
            }
        }
    }
    if let Some((mut all, strings)) = sections.gnu_verdef(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        while let Some((_, mut names)) = all.next()? {
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(elf);
            }
            // Behind the first name are those of the versions that it came from.
            if let Some(name) = names.next()? {
                elf.versions.insert(text(name.name(endian, strings)?));
            }
        }
    }
    Ok(elf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn our_own_program() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        assert_eq!(elf.machine, Machine::OWN);
        if elf.c_library() == Some("glibc") {
            assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{:?}", elf.needed);
            assert!(elf.newest_glibc().unwrap().starts_with("GLIBC_2."), "{:?}", elf.requires);
            assert!(
                elf.undefined.iter().any(|name| name == "malloc" || name == "mmap"),
                "{:?}",
                elf.undefined
            );
        }
    }

    #[test]
    fn other_files() {
        for bytes in [&b""[..], b"MZ", b"\x7fELF", &[0; 4096]] {
            assert!(Elf::parse(bytes).is_err(), "{}", bytes.len());
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn files_that_are_cut_short() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for size in (0..4096).chain((4096..bytes.len()).step_by(bytes.len() / 64)) {
            let _any = Elf::parse(&bytes[..size]);
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        let all: Vec<String> = ["GLIBC_2.4", "GLIBC_2.17", "GLIBC_PRIVATE", "GCC_9.9"]
            .iter()
            .map(|text| (*text).to_owned())
            .collect();
        assert_eq!(newest(&all), Some("GLIBC_2.17"));
        assert_eq!(newest(&[]), None);
    }
}
