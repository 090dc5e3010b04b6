//! Searches the metadata of the assemblies that a process has loaded, out of their files. The
//! process is neither stopped nor asked.

use super::access;
use crate::{Error, FoundMethod, FoundMethods, MethodSearch};
use diagnostics::{DotnetProcess, Hosting, proc};
use metadata::{Bundle, Metadata, column, table};
use rootfs::Root;
use std::{
    collections::{BTreeMap, BinaryHeap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Larger files are not opened: single-file applications take some hundred megabytes.
const LARGEST: u64 = 2 << 30;
/// Larger metadata are not read. The largest known have 30 MB.
const LARGEST_METADATA: usize = 256 << 20;
/// How long a search may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Finds methods with code by name among the assemblies that a process has loaded from files. A
/// single-file application may have loaded only some of its assemblies: all of them are searched.
///
/// # Errors
/// The process has ended, or the system does not let us look into it.
pub fn search_methods(
    process: &DotnetProcess,
    search: &MethodSearch,
) -> Result<FoundMethods, Error> {
    let pid = process.pid;
    let failed = |source| access(pid, source);
    let mut found = Search {
        search,
        until: Instant::now() + LIMIT,
        best: BinaryHeap::new(),
        found: FoundMethods { complete: true, ..FoundMethods::default() },
    };
    let root = Root::of_process(pid).map_err(failed)?;
    for (path, deleted) in assemblies(pid).map_err(failed)? {
        // What lies at the path now is another file.
        let file = if deleted { None } else { root.open(&path, LARGEST).ok() };
        let metadata = file.and_then(|file| in_file(file, 0));
        if !found.add(metadata.as_ref(), &path) {
            return Ok(found.finish());
        }
    }
    if process.hosting == Some(Hosting::SingleFile) {
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        let bundle = rootfs::open_at(&exe, LARGEST).and_then(Bundle::open).map_err(failed)?;
        bundle.into_iter().for_each(|bundle| found.add_bundle(bundle));
    }
    Ok(found.finish())
}

/// Files of assemblies that a process has mapped, as it sees them, and whether they are deleted.
fn assemblies(pid: u32) -> io::Result<Vec<(PathBuf, bool)>> {
    let root = fs::read_link(format!("/proc/{pid}/root")).unwrap_or_else(|_| PathBuf::from("/"));
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for map in proc::maps(pid)? {
        if let Some(path) = map.file()
            && is_assembly(path)
            && seen.insert(path.to_owned())
        {
            found.push((rootfs::inside(&root, path), map.deleted));
        }
    }
    Ok(found)
}

fn is_assembly(path: &Path) -> bool {
    let fits = |end: &OsStr| end.eq_ignore_ascii_case("dll") || end.eq_ignore_ascii_case("exe");
    path.extension().is_some_and(fits)
}

/// The metadata of an assembly that begins at an offset of a file. Nothing else of it is read.
fn in_file(mut file: File, start: u64) -> Option<Metadata<'static>> {
    let length = file.metadata().ok()?.len();
    let file = std::cell::RefCell::new(&mut file);
    Metadata::in_file(|at, size| {
        let at = start.checked_add(at)?;
        if size > LARGEST_METADATA || at.checked_add(size as u64)? > length {
            return None;
        }
        let mut file = file.borrow_mut();
        file.seek(SeekFrom::Start(at)).ok()?;
        let mut bytes = vec![0; size];
        file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    })
}

/// How well a method fits: less is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_framework: bool,
    is_compiler_made: bool,
    distance: u8,
    length: usize,
    method: FoundMethod,
}

struct Search<'s> {
    search: &'s MethodSearch,
    until: Instant,
    /// The best so far; the worst of them is at the top.
    best: BinaryHeap<Rank>,
    found: FoundMethods,
}

impl Search<'_> {
    /// Searches an assembly. Gives whether there is time for another one.
    fn add(&mut self, metadata: Option<&Metadata<'_>>, path: &Path) -> bool {
        match metadata {
            Some(metadata) => {
                self.found.assemblies += 1;
                let name = metadata.name(table::ASSEMBLY, 1, column::ASSEMBLY_NAME);
                let name = name.map_or_else(
                    || path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                    |name| name.into_owned(),
                );
                self.add_methods(metadata, &name);
            }
            None => self.found.unread += 1,
        }
        self.has_time()
    }

    fn has_time(&mut self) -> bool {
        self.found.complete &= Instant::now() < self.until;
        self.found.complete
    }

    fn add_bundle(&mut self, mut bundle: Bundle<File>) {
        let paths: Vec<String> = bundle.files().iter().map(|file| file.path.clone()).collect();
        for path in paths.iter().filter(|path| is_assembly(Path::new(path))) {
            // Libraries of other kinds have the same ending.
            let is_searched = match bundle.place(path) {
                Some((start, _)) => {
                    let metadata = bundle.file().try_clone().ok();
                    let metadata = metadata.and_then(|file| in_file(file, start));
                    metadata.is_none_or(|metadata| self.add(Some(&metadata), Path::new(path)))
                }
                None => {
                    let bytes = bundle.read(path).ok().flatten().unwrap_or_default();
                    let metadata = Metadata::of_file(&bytes);
                    metadata.is_ok_and(|metadata| self.add(Some(&metadata), Path::new(path)))
                        || self.has_time()
                }
            };
            if !is_searched {
                return;
            }
        }
    }

    fn add_methods(&mut self, metadata: &Metadata<'_>, assembly: &str) {
        let is_framework = is_framework(assembly);
        for row in 1..=metadata.rows(table::TYPE_DEF) {
            // A type may have any number of methods.
            if !self.has_time() {
                return;
            }
            let Some(type_name) = metadata.type_name(row, '+') else { continue };
            let type_lower = type_name.to_lowercase();
            let left = self.search.left_in(&format!("{}!{type_lower}", assembly.to_lowercase()));
            let mut names: BTreeMap<_, u32> = BTreeMap::new();
            for method in metadata.members(table::TYPE_DEF, row, column::TYPE_METHODS) {
                let has_code = metadata.get(table::METHOD_DEF, method, column::METHOD_ADDRESS);
                if has_code.is_none_or(|address| address == 0) {
                    continue;
                }
                if let Some(name) = metadata.name(table::METHOD_DEF, method, column::METHOD_NAME) {
                    *names.entry(name).or_default() += 1;
                }
            }
            for (name, overloads) in names {
                let lower = name.to_lowercase();
                let fits = |word: &&str| {
                    lower.contains(word)
                        || word.contains('.') && format!("{type_lower}.{lower}").contains(word)
                        || word.contains('!')
                            && format!("{}!{type_lower}.{lower}", assembly.to_lowercase())
                                .contains(word)
                };
                if !left.iter().all(fits) {
                    continue;
                }
                self.found.matched += 1;
                self.keep(Rank {
                    is_framework,
                    is_compiler_made: name.contains('<') || type_name.contains('<'),
                    distance: self.search.distance(&lower),
                    length: type_name.len() + name.len(),
                    method: FoundMethod {
                        assembly: assembly.to_owned(),
                        type_name: type_name.clone(),
                        name: name.into_owned(),
                        overloads,
                    },
                });
            }
        }
    }

    fn keep(&mut self, rank: Rank) {
        if self.best.len() < self.search.rows() {
            self.best.push(rank);
        } else if let Some(mut worst) = self.best.peek_mut()
            && rank < *worst
        {
            *worst = rank;
        }
    }

    fn finish(self) -> FoundMethods {
        let best = self.best.into_sorted_vec();
        FoundMethods { methods: best.into_iter().map(|rank| rank.method).collect(), ..self.found }
    }
}

/// Whether an assembly belongs to .NET: what is searched for is rather in the program.
fn is_framework(assembly: &str) -> bool {
    let begins = |start: &str| assembly.strip_prefix(start).is_some_and(|r| r.starts_with('.'));
    begins("System")
        || begins("Microsoft")
        || ["System", "mscorlib", "netstandard", "WindowsBase"].contains(&assembly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_assemblies() {
        assert!(is_assembly(Path::new("/app/Shop.DLL")) && is_assembly(Path::new("Shop.exe")));
        assert!(!is_assembly(Path::new("/app/libShop.so")) && !is_assembly(Path::new("/app/dll")));
        assert!(is_framework("System.Private.CoreLib") && is_framework("System"));
        assert!(!is_framework("SystemTools") && !is_framework("Shop"));
    }
}
