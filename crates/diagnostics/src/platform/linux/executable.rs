//! What an executable or the runtime's library tells about the runtime in it.

use crate::Hosting;
use object::read::elf::{ElfFile32, ElfFile64};
use object::{Architecture, Object, ObjectSection, ReadCache};
use rootfs::Root;
use std::io::BufReader;
use std::path::Path;

/// What an ELF executable is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executable {
    /// Whether a .NET runtime is linked into it, and of which kind.
    pub hosting: Option<Hosting>,
    /// Its processor architecture, as .NET names it.
    pub arch: Option<&'static str>,
}

/// Largest table of names that is searched: exports of a single-file host take some kilobytes.
const MAX_NAMES: u64 = 8 << 20;

/// Largest executable that is looked at: single-file applications take some hundred megabytes.
const MAX_FILE: u64 = 2 << 30;

/// Most entries of the folder of a self-contained application.
const MAX_ENTRIES: usize = 10_000;

/// Looks at an executable at a path of ours, such as `/proc/<pid>/exe`; anything that is no ELF
/// file has nothing to tell.
pub fn inspect(path: &Path) -> Executable {
    let Ok(file) = rootfs::open_at(path, MAX_FILE) else { return Executable::default() };
    // Reads only what is asked for.
    let cache = ReadCache::new(BufReader::with_capacity(512, file));
    if let Ok(elf) = ElfFile64::<object::Endianness, _>::parse(&cache) {
        describe(&elf)
    } else if let Ok(elf) = ElfFile32::<object::Endianness, _>::parse(&cache) {
        describe(&elf)
    } else {
        Executable::default()
    }
}

fn describe<'a>(elf: &impl Object<'a>) -> Executable {
    let arch = match elf.architecture() {
        Architecture::X86_64 => Some("x64"),
        Architecture::Aarch64 => Some("arm64"),
        Architecture::Arm => Some("arm"),
        Architecture::I386 => Some("x86"),
        _ => None,
    };
    let names = elf.section_by_name(".dynstr").filter(|section| section.size() <= MAX_NAMES);
    let names = names.and_then(|section| section.data().ok()).unwrap_or_default();
    // The single-file host exports what debuggers need to find the runtime in it; code that was
    // compiled ahead of time exports a header of its own, and has a section that CoreCLR never has.
    let hosting = if has_name(names, b"DotNetRuntimeInfo") || has_name(names, b"g_dacTable") {
        Some(Hosting::SingleFile)
    } else if has_name(names, b"DotNetRuntimeDebugHeader")
        || elf.section_by_name("__managedcode").is_some()
    {
        Some(Hosting::NativeAot)
    } else {
        None
    };
    Executable { hosting, arch }
}

/// Whether a table of NUL-terminated names has this one.
fn has_name(names: &[u8], name: &[u8]) -> bool {
    names.split(|&byte| byte == 0).any(|entry| entry == name)
}

/// The version of the runtime whose library is at `seen` in the process that has this root.
///
/// A shared framework stands in a folder named by its version; a self-contained application lists
/// it in its `deps.json`.
pub fn runtime_version(seen: &Path, root: Option<&Root>) -> Option<String> {
    let folder = seen.parent()?;
    let version = folder.file_name()?.to_str()?;
    if folder.parent()?.file_name()? == "Microsoft.NETCore.App"
        && crate::process::major_minor(version).is_some()
    {
        return Some(version.to_owned());
    }
    let entries = root?.entries(folder, MAX_ENTRIES).ok()?;
    let lists = entries.iter().filter(|name| name.to_string_lossy().ends_with(".deps.json"));
    lists.take(8).find_map(|name| {
        /// Lists of big applications take some hundred kilobytes.
        const MAX_LIST: u64 = 4 << 20;
        let text = root?.read(&folder.join(name), MAX_LIST).ok()?;
        version_in_list(&String::from_utf8_lossy(&text))
    })
}

/// Finds `…Microsoft.NETCore.App[.Runtime.<rid>]/<version>` in a list of dependencies.
fn version_in_list(text: &str) -> Option<String> {
    text.split('"').find_map(|word| {
        let (package, version) = word.split_once('/')?;
        let (_, rest) = package.split_once("Microsoft.NETCore.App")?;
        let is_runtime = rest.starts_with(".Runtime.") || package.starts_with("runtime.");
        (is_runtime && crate::process::major_minor(version).is_some()).then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_executable_has_no_runtime() {
        let arch = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
        let executable = inspect(&std::env::current_exe().unwrap());
        assert_eq!(executable, Executable { hosting: None, arch: Some(arch) });
        assert_eq!(inspect(Path::new("/etc/passwd")), Executable::default());
        assert_eq!(inspect(Path::new("/nowhere")), Executable::default());
    }

    #[test]
    fn versions_in_lists() {
        let list = |text| version_in_list(text);
        let text = r#"{"a/1.0":{},"runtimepack.Microsoft.NETCore.App.Runtime.linux-x64/9.0.5":{}}"#;
        assert_eq!(list(text).as_deref(), Some("9.0.5"));
        assert_eq!(
            list(r#""runtime.linux-x64.Microsoft.NETCore.App/2.1.30""#).as_deref(),
            Some("2.1.30")
        );
        assert_eq!(list(r#""Microsoft.NETCore.App.Ref/3.1.0""#), None);
    }

    #[test]
    fn versions_in_paths() {
        let version = |path: &str| runtime_version(Path::new(path), Root::own().ok().as_ref());
        assert_eq!(
            version("/d/shared/Microsoft.NETCore.App/3.1.23/libcoreclr.so").as_deref(),
            Some("3.1.23")
        );
        assert_eq!(version("/srv/app/libcoreclr.so"), None);
    }
}
