//! The native library: whether a process can load it.
//!
//! A runtime that cannot load the library says nothing and runs without it.

use super::{location::Location, process::Target};
use elf::Elf;
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fmt,
    fs::File,
    io::{Read as _, Seek as _},
    path::Path,
};
use system::{CLibrary, System};

mod elf;
mod system;

/// Largest library that is read.
const LARGEST: u64 = 256 << 20;

/// What the library of this project has in it, and the agent's own has not.
const OWN_MARK: &[u8] = newrelic_compat::environment::MODE_VARIABLE.as_bytes();

/// Most names that are listed in a sentence.
const NAMES: usize = 3;

/// The processor that code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 64-bit x86.
    X64,
    /// 64-bit Arm.
    Arm64,
    /// 32-bit Arm.
    Arm,
    /// 32-bit x86.
    X86,
    /// Any other, by its number in ELF files.
    Other(u16),
}

impl Machine {
    /// The processor that clrscope runs on.
    pub const OWN: Self = if cfg!(target_arch = "aarch64") {
        Self::Arm64
    } else if cfg!(target_arch = "arm") {
        Self::Arm
    } else if cfg!(target_arch = "x86") {
        Self::X86
    } else {
        Self::X64
    };

    /// By its number in ELF files (`e_machine`).
    pub const fn of_elf(number: u16) -> Self {
        match number {
            62 => Self::X64,
            183 => Self::Arm64,
            40 => Self::Arm,
            3 => Self::X86,
            other => Self::Other(other),
        }
    }

    /// That of a program, from the head of its ELF file.
    pub fn of_program(mut file: &File) -> Option<Self> {
        let mut head = Vec::new();
        file.rewind().ok()?;
        // Up to `e_machine`, which is at the same offset in both sizes of ELF files.
        file.take(20).read_to_end(&mut head).ok()?;
        let number = head.strip_prefix(b"\x7fELF")?.get(14..)?.first_chunk()?;
        Some(Self::of_elf(u16::from_le_bytes(*number)))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X64 => f.write_str("x64"),
            Self::Arm64 => f.write_str("arm64"),
            Self::Arm => f.write_str("arm"),
            Self::X86 => f.write_str("x86"),
            Self::Other(number) => write!(f, "ELF machine {number}"),
        }
    }
}

/// The native library, as far as its file tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Library {
    /// The variable that names it; `None` for the one in the home folder.
    pub variable: Option<&'static str>,
    /// Its path; `None` if nothing names one.
    pub path: Option<String>,
    /// Whether there is such a file.
    pub found: bool,
    /// The processor that it is for.
    pub machine: Option<String>,
    /// The C library that it was built for.
    pub c_library: Option<&'static str>,
    /// The newest version of glibc that it needs.
    pub needs_glibc: Option<String>,
    /// The C library of the process, or of this machine.
    pub system_c_library: Option<String>,
    /// Whether it is the one of this project; `None` if it could not be read.
    pub is_clrscope: Option<bool>,
    /// Whether the runtime can load it; `None` if that is unknown.
    pub loadable: Option<bool>,
    /// Whether the process has it mapped; `None` without a process.
    pub mapped: Option<bool>,
    /// What is wrong with it, with the next step.
    pub problems: Vec<String>,
}

impl Library {
    /// The library that a variable names, or the one in the home folder, for a process or for this
    /// machine.
    pub fn read(
        variable: Option<&'static str>,
        path: Option<&str>,
        place: &Location,
        target: Option<&Target>,
    ) -> Self {
        let mut library = Self {
            variable,
            path: path.map(str::to_owned),
            found: false,
            machine: None,
            c_library: None,
            needs_glibc: None,
            system_c_library: None,
            is_clrscope: None,
            loadable: None,
            mapped: None,
            problems: Vec::new(),
        };
        let Some(path) = path else {
            library.mapped = target.map(|_| false);
            return library;
        };
        library.mapped = target.map(|target| library.is_mapped(Path::new(path), target));
        let bytes = match place.read(Path::new(path), LARGEST) {
            Ok(bytes) => bytes,
            Err(error) => {
                library.loadable = Some(false);
                library.problems.push(format!(
                    "{path} cannot be read: {error}; put the agent's libNewRelicProfiler.so there"
                ));
                return library;
            }
        };
        library.found = true;
        library.is_clrscope = Some(bytes.windows(OWN_MARK.len()).any(|window| window == OWN_MARK));
        match Elf::parse(&bytes) {
            Ok(elf) => library.judge(&elf, &System::of(&elf, place, target)),
            Err(problem) => {
                library.loadable = Some(false);
                library.problems.push(format!(
                    "{path} is no whole ELF library ({problem}): install the agent again"
                ));
            }
        }
        library
    }

    /// Whether a process has it mapped, by whatever path it came there, and notes a file that was
    /// replaced since.
    fn is_mapped(&mut self, path: &Path, target: &Target) -> bool {
        let path = target.place.absolute(path);
        let found = target.mapped.iter().find(|mapped| mapped.path == path);
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(found) = found.or_else(|| target.mapped_named(|other| other == name)) else {
            return false;
        };
        if found.deleted {
            let step = "restart the process to have the new one";
            self.problems
                .push(format!("the file was replaced since the process loaded it: {step}"));
        }
        if found.path != path && !target.place.is_file(&path) {
            self.problems
                .push(format!("the process has loaded {} in its place", found.path.display()));
        }
        true
    }

    fn judge(&mut self, elf: &Elf, system: &System) {
        self.machine = Some(elf.machine.to_string());
        self.c_library = elf.c_library();
        self.needs_glibc = elf.newest_glibc().map(str::to_owned);
        self.system_c_library = system.c_library.as_ref().map(ToString::to_string);
        let (loadable, problems) = judgment(elf, system);
        self.loadable = loadable;
        self.problems.extend(problems);
    }
}

/// What users do not see of this, and have reported as «nothing happens, and there is no log».
const SILENT: &str = "the runtime does not report this and runs without the profiler";

/// Whether a library can be loaded, and what is wrong.
fn judgment(elf: &Elf, system: &System) -> (Option<bool>, Vec<String>) {
    let no = |text: String| (Some(false), vec![text]);
    if elf.machine != system.machine {
        let (own, other) = (elf.machine, system.machine);
        return no(format!(
            "it is for {own}, and {} is {other}: {SILENT}; install the agent for {other}",
            system.what
        ));
    }
    match &system.c_library {
        None => (None, Vec::new()),
        Some(CLibrary::Musl) => on_musl(elf, system),
        Some(CLibrary::Glibc(versions)) => on_glibc(elf, versions, system),
    }
}

fn on_musl(elf: &Elf, system: &System) -> (Option<bool>, Vec<String>) {
    let built_for =
        if elf.c_library() == Some("glibc") { "it was built for glibc, and " } else { "" };
    let step = "install a library built for musl, or use an image with glibc (Debian, Ubuntu) in \
        place of Alpine";
    let no = |what: String| {
        let place = format!("{} has musl (Alpine)", system.what);
        (Some(false), vec![format!("{built_for}{place}, which lacks {what}: {SILENT}; {step}")])
    };
    let missing: Vec<&str> = elf
        .needed
        .iter()
        .map(String::as_str)
        .filter(|name| !is_musl(name) && !system.found.contains(*name))
        .collect();
    if !missing.is_empty() {
        return no(listed(&missing));
    }
    let Some(symbols) = &system.symbols else { return (None, Vec::new()) };
    let missing: Vec<&str> =
        elf.undefined.iter().map(String::as_str).filter(|name| !symbols.contains(*name)).collect();
    match (missing.is_empty(), elf.binds_now) {
        (true, _) => (Some(true), Vec::new()),
        (false, true) => no(format!("functions that it needs: {}", listed(&missing))),
        // musl looks for functions when they are first called.
        (false, false) => {
            let text = format!(
                "{built_for}{} has musl (Alpine), which lacks functions that it needs: {}; it is \
                 loaded all the same, and a call of one of them ends the process",
                system.what,
                listed(&missing)
            );
            (Some(true), vec![text])
        }
    }
}

/// Whether musl takes a library of this name for itself (`load_library` in ldso/dynlink.c).
fn is_musl(name: &str) -> bool {
    const OWN: [&str; 7] = ["c.", "pthread.", "rt.", "m.", "dl.", "util.", "xnet."];
    let library =
        name.strip_prefix("lib").is_some_and(|rest| OWN.iter().any(|own| rest.starts_with(own)));
    library || name.starts_with("ld-musl-")
}

fn on_glibc(
    elf: &Elf,
    versions: &BTreeSet<String>,
    system: &System,
) -> (Option<bool>, Vec<String>) {
    if elf.c_library() == Some("musl") {
        let text = format!(
            "it was built for musl (Alpine), and {} has glibc: {SILENT}; install the library that \
                was built for glibc",
            system.what
        );
        return (Some(false), vec![text]);
    }
    let missing: Vec<&str> = elf
        .requires
        .iter()
        .map(String::as_str)
        .filter(|version| version.starts_with("GLIBC_") && !versions.contains(*version))
        .collect();
    if let Some(newest) = missing.iter().max_by_key(|version| elf::glibc_number(version)) {
        let newest = newest.trim_start_matches("GLIBC_");
        let has = elf::newest(versions)
            .map_or("an older one", |version| version.trim_start_matches("GLIBC_"));
        let text = format!(
            "it needs glibc {newest}, and {} has {has}: {SILENT}; build it on an older system, or \
                use a newer image",
            system.what
        );
        return (Some(false), vec![text]);
    }
    let missing: Vec<&str> = elf
        .needed
        .iter()
        .map(String::as_str)
        .filter(|name| !system.found.contains(*name))
        .collect();
    match missing.is_empty() {
        true => (Some(true), Vec::new()),
        false => {
            let text = format!(
                "it needs {}, which is in none of the usual folders: check with ldd whether it is \
                    found",
                listed(&missing)
            );
            (None, vec![text])
        }
    }
}

/// Names in a sentence, and how many more there are.
fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// As `cargo` builds one for glibc.
    fn elf() -> Elf {
        Elf {
            machine: Machine::X64,
            needed: texts(&["libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"]),
            requires: texts(&["GLIBC_2.2.5", "GLIBC_2.34", "GCC_3.0"]),
            versions: BTreeSet::new(),
            undefined: texts(&["malloc", "__res_init"]),
            defined: BTreeSet::new(),
            binds_now: true,
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn system(c_library: CLibrary, found: &[&str], symbols: &[&str]) -> System {
        System {
            what: "the process",
            machine: Machine::X64,
            c_library: Some(c_library),
            found: set(found),
            symbols: Some(set(symbols)),
        }
    }

    fn only(result: (Option<bool>, Vec<String>)) -> (Option<bool>, String) {
        assert!(result.1.len() <= 1, "{result:?}");
        (result.0, result.1.into_iter().next().unwrap_or_default())
    }

    const FOUND: [&str; 3] = ["libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"];

    #[test]
    fn another_processor() {
        let arm = Elf { machine: Machine::Arm64, ..elf() };
        let (loadable, text) =
            only(judgment(&arm, &system(CLibrary::Glibc(set(&[])), &FOUND, &[])));
        assert_eq!(loadable, Some(false));
        assert!(
            text.contains("for arm64, and the process is x64") && text.contains(SILENT),
            "{text}"
        );
        assert!(text.ends_with("install the agent for x64"), "{text}");
    }

    #[test]
    fn glibc_of_another_age() {
        let on = |versions: &[&str]| {
            only(judgment(&elf(), &system(CLibrary::Glibc(set(versions)), &FOUND, &[])))
        };
        assert_eq!(on(&["GLIBC_2.2.5", "GLIBC_2.34"]), (Some(true), String::new()));
        let (loadable, text) = on(&["GLIBC_2.2.5", "GLIBC_2.9", "GLIBC_2.31"]);
        assert_eq!(loadable, Some(false));
        assert!(text.contains("needs glibc 2.34, and the process has 2.31"), "{text}");
    }

    #[test]
    fn a_library_that_is_not_found() {
        let versions = CLibrary::Glibc(set(&["GLIBC_2.2.5", "GLIBC_2.34"]));
        let (loadable, text) = only(judgment(&elf(), &system(versions, &FOUND[1..], &[])));
        assert_eq!(loadable, None);
        assert!(text.contains("libgcc_s.so.1"), "{text}");
    }

    #[test]
    fn glibc_on_musl() {
        // The loader of glibc is a file of its own, which Alpine does not have.
        let (loadable, text) =
            only(judgment(&elf(), &system(CLibrary::Musl, &FOUND[..1], &["malloc"])));
        assert_eq!(loadable, Some(false));
        assert!(
            text.contains("built for glibc") && text.contains("lacks ld-linux-x86-64.so.2"),
            "{text}"
        );
        assert!(text.contains(SILENT) && text.contains("Alpine"), "{text}");
        // With it, functions count.
        let (loadable, text) = only(judgment(&elf(), &system(CLibrary::Musl, &FOUND, &["malloc"])));
        assert_eq!(loadable, Some(false));
        assert!(text.contains("functions that it needs: __res_init"), "{text}");
        // The agent's own profiler is built so that it loads there: it binds late, and needs only
        // libraries that musl takes for its own.
        let late = Elf {
            needed: texts(&["libc.so.6", "libpthread.so.0", "libm.so.6"]),
            binds_now: false,
            ..elf()
        };
        let (loadable, text) = only(judgment(&late, &system(CLibrary::Musl, &[], &["malloc"])));
        assert_eq!(loadable, Some(true));
        assert!(text.contains("__res_init") && !text.contains(SILENT), "{text}");
        let whole = judgment(&late, &system(CLibrary::Musl, &[], &["malloc", "__res_init"]));
        assert_eq!(whole, (Some(true), Vec::new()));
    }

    #[test]
    fn musl_on_glibc() {
        let musl = Elf { needed: texts(&["libc.musl-x86_64.so.1"]), requires: Vec::new(), ..elf() };
        let (loadable, text) =
            only(judgment(&musl, &system(CLibrary::Glibc(set(&["GLIBC_2.34"])), &FOUND, &[])));
        assert_eq!(loadable, Some(false));
        assert!(text.contains("built for musl") && text.contains("has glibc"), "{text}");
        let same = judgment(&musl, &system(CLibrary::Musl, &[], &["malloc", "__res_init"]));
        assert_eq!(same, (Some(true), Vec::new()));
    }

    #[test]
    fn an_unknown_system_says_nothing() {
        let unknown = System { c_library: None, ..system(CLibrary::Musl, &[], &[]) };
        assert_eq!(judgment(&elf(), &unknown), (None, Vec::new()));
        let symbols = System { symbols: None, ..system(CLibrary::Musl, &FOUND, &[]) };
        assert_eq!(judgment(&elf(), &symbols), (None, Vec::new()));
    }

    #[test]
    fn names_that_musl_takes_for_its_own() {
        for (name, own) in [
            ("libc.so.6", true),
            ("libpthread.so.0", true),
            ("libc.musl-x86_64.so.1", true),
            ("ld-musl-x86_64.so.1", true),
            ("libgcc_s.so.1", false),
            ("libcrypt.so.1", false),
            ("ld-linux-x86-64.so.2", false),
        ] {
            assert_eq!(is_musl(name), own, "{name}");
        }
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(listed(&["a", "b", "c"]), "a, b, c");
        assert_eq!(listed(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
