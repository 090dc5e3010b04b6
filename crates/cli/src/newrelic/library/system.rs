//! What a process, or this machine, has for a library that is loaded.

use super::{
    LARGEST, Machine,
    elf::{Elf, newest},
};
use crate::newrelic::{location::Location, process::Target};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

/// Folders that loaders look into, without those of a configuration.
const FOLDERS: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

/// A C library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CLibrary {
    /// The usual one, with the versions that it has.
    Glibc(BTreeSet<String>),
    /// That of Alpine.
    Musl,
}

impl fmt::Display for CLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Musl => f.write_str("musl"),
            Self::Glibc(versions) => match newest(versions) {
                Some(version) => write!(f, "glibc {}", version.trim_start_matches("GLIBC_")),
                None => f.write_str("glibc"),
            },
        }
    }
}

/// What a process, or this machine, has for a library that is loaded.
#[derive(Clone, Debug)]
pub struct System {
    /// What it is, in a sentence.
    pub what: &'static str,
    /// Its processor.
    pub machine: Machine,
    /// Its C library; `None` if it is not known.
    pub c_library: Option<CLibrary>,
    /// Which of the needed libraries there are.
    pub found: BTreeSet<String>,
    /// Functions and variables of its C library and of the needed ones; `None` if they are not
    /// known. Only musl is asked for them: glibc has versions.
    pub symbols: Option<BTreeSet<String>>,
}

impl System {
    /// The process, or this machine where there is none.
    pub fn of(library: &Elf, place: &Location, target: Option<&Target>) -> Self {
        let path_of = |name: &str| {
            let mapped = target.and_then(|target| target.mapped_named(|other| other == name));
            let usual = || {
                FOLDERS
                    .iter()
                    .map(|folder| Path::new(folder).join(name))
                    .find(|path| place.is_file(path))
            };
            mapped.map(|mapped| mapped.path.clone()).or_else(usual)
        };
        let read = |path: &PathBuf| Elf::parse(&place.read(path, LARGEST).ok()?).ok();
        let needed: Vec<(&String, PathBuf)> =
            library.needed.iter().filter_map(|name| Some((name, path_of(name)?))).collect();
        let is_musl = |name: &str| name.starts_with("ld-musl-") || name.starts_with("libc.musl-");
        let musl = match target {
            Some(target) => target.mapped_named(is_musl).map(|mapped| mapped.path.clone()),
            None => place.entries(Path::new("/lib"), 10_000).ok().and_then(|names| {
                let name = names
                    .into_iter()
                    .find(|name| name.to_string_lossy().starts_with("ld-musl-"))?;
                Some(Path::new("/lib").join(name))
            }),
        };
        let glibc = || match target {
            Some(target) => target
                .mapped_named(|name| name == "libc.so.6" || name.starts_with("libc-2."))
                .map(|m| m.path.clone()),
            None => path_of("libc.so.6"),
        };
        // A machine with glibc may have musl beside it, for its compiler.
        let glibc =
            glibc().and_then(|path| read(&path)).map(|library| CLibrary::Glibc(library.versions));
        let (c_library, symbols) = match (glibc, musl) {
            (Some(glibc), _) => (Some(glibc), None),
            (None, Some(path)) => {
                let all = std::iter::once(&path).chain(needed.iter().map(|(_, path)| path));
                let known: Option<Vec<Elf>> = all.map(read).collect();
                (
                    Some(CLibrary::Musl),
                    known.map(|known| known.into_iter().flat_map(|elf| elf.defined).collect()),
                )
            }
            (None, None) => (None, None),
        };
        Self {
            what: if target.is_some() { "the process" } else { "this machine" },
            machine: target
                .and_then(|target| Machine::of_program(target.executable_file.as_ref()?))
                .unwrap_or(Machine::OWN),
            c_library,
            found: needed.into_iter().map(|(name, _)| name.clone()).collect(),
            symbols,
        }
    }
}
