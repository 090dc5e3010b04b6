//! Whether a process has room for the agent: looked at before anything is loaded into it.

use crate::RecordError;
use diagnostics::proc;
use rustix::process::{Resource, getrlimit};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Descriptors that the agent may hold.
const DESCRIPTORS: u64 = 16;
/// Bytes of address space that the library, the stacks of its threads and its buffers may take.
const ADDRESS_SPACE: u64 = 96 << 20;
/// Bytes of memory that must be free in the process's memory cgroup, or can be made free by dropping cached files.
const MEMORY: u64 = 24 << 20;

/// What a small .NET program takes by itself, measured: with less, .NET Core 3.1 and .NET 9 do not start, agent or not.
const RUNTIME_DESCRIPTORS: u64 = 40;
const RUNTIME_ADDRESS_SPACE: u64 = 512 << 20;
const RUNTIME_MEMORY: u64 = 24 << 20;

/// What to do about each.
const MORE_DESCRIPTORS: &str = "raise its limit (ulimit -n, LimitNOFILE)";
const MORE_ADDRESS_SPACE: &str = "raise its limit (ulimit -v, LimitAS)";
const MORE_MEMORY: &str = "raise the limit of the container (memory.max)";

/// Checks the limits that a command will have, which are ours, before it is started.
///
/// # Errors
/// [`RecordError::NoRoomToLaunch`].
pub(super) fn check_launch() -> Result<(), RecordError> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // The runtime raises its soft limit of descriptors to the hard one.
    let descriptors = getrlimit(Resource::Nofile).maximum;
    match lacks(descriptors, getrlimit(Resource::As).current, free_of(&cgroup)) {
        Some((what, next)) => Err(RecordError::NoRoomToLaunch { what, next }),
        None => Ok(()),
    }
}

/// What a small program with an agent lacks within these limits, and what to do about that.
fn lacks(
    descriptors: Option<u64>,
    address_space: Option<u64>,
    memory: Option<(u64, u64)>,
) -> Option<(String, &'static str)> {
    if let Some(limit) = descriptors.filter(|limit| limit - limit / 10 < RUNTIME_DESCRIPTORS + DESCRIPTORS) {
        return Some((format!("it may have {limit} file descriptors at most"), MORE_DESCRIPTORS));
    }
    if let Some(limit) = address_space.filter(|limit| *limit < RUNTIME_ADDRESS_SPACE + ADDRESS_SPACE) {
        return Some((format!("it may have {} MB of address space at most", limit >> 20), MORE_ADDRESS_SPACE));
    }
    let (free, of) = memory.filter(|(free, _)| *free < RUNTIME_MEMORY + MEMORY)?;
    Some((format!("{} MB of the {} MB of its memory cgroup are free", free >> 20, of >> 20), MORE_MEMORY))
}

/// Checks the C library, descriptors, address space and memory. What cannot be read is taken for right, and for enough.
///
/// # Errors
/// [`RecordError::OtherCLibrary`] and [`RecordError::NoRoom`].
pub(super) fn check(pid: u32) -> Result<(), RecordError> {
    let maps = proc::maps(pid).unwrap_or_default();
    // musl would load a library that is built for glibc, and never unload it.
    if has_musl(maps.iter().filter_map(|map| map.file())).is_some_and(|musl| musl != cfg!(target_env = "musl")) {
        return Err(RecordError::OtherCLibrary { pid });
    }
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let no_room = |what: String, next: &'static str| RecordError::NoRoom { pid, what, next };
    let limits = file("limits");
    if let (Some(limit), Ok(open)) = (soft_limit(&limits, "Max open files"), fs::read_dir(format!("/proc/{pid}/fd"))) {
        let open = open.count() as u64;
        if open + DESCRIPTORS > limit - limit / 10 {
            let what = format!("{open} of at most {limit} file descriptors are open");
            return Err(no_room(
                what,
                "raise its limit (ulimit -n, LimitNOFILE), or find out what holds them: ls -l /proc/<PID>/fd",
            ));
        }
    }
    if let (Some(limit), Some(size)) = (soft_limit(&limits, "Max address space"), kilobytes(&file("status"), "VmSize:"))
        && size.saturating_add(ADDRESS_SPACE) > limit
    {
        let what = format!("{} MB of at most {} MB of address space are in use", size >> 20, limit >> 20);
        return Err(no_room(what, MORE_ADDRESS_SPACE));
    }
    if let Some((free, of)) = free_of(&file("cgroup"))
        && free < MEMORY
    {
        let what = format!("{} MB of the {} MB of its memory cgroup are free", free >> 20, of >> 20);
        return Err(no_room(what, MORE_MEMORY));
    }
    Ok(())
}

/// Whether the C library of a process is musl, by the files that it has mapped: `None` if it has no loader of either.
fn has_musl<'a>(mut files: impl Iterator<Item = &'a Path>) -> Option<bool> {
    files.find_map(|file| {
        let name = file.file_name()?.to_str()?;
        let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        (is(&["ld-musl-", "libc.musl-"]) || is(&["ld-linux", "libc.so.6", "ld-2.", "libc-2."]))
            .then(|| is(&["ld-musl-", "libc.musl-"]))
    })
}

/// Bytes that are free in the memory cgroup that has least, and its limit; from `/proc/<pid>/cgroup`.
fn free_of(cgroup: &str) -> Option<(u64, u64)> {
    memory_groups(cgroup).iter().filter_map(|group| free_memory(group)).min()
}

/// A soft limit of `/proc/<pid>/limits`; `None` if there is none.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// A size in `/proc/<pid>/status`, in bytes.
fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Folders of a process's memory cgroup and all above it, from `/proc/<pid>/cgroup`: of version 2, and of version 1.
fn memory_groups(cgroup: &str) -> Vec<PathBuf> {
    let of = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|one| one == "memory") => "/sys/fs/cgroup/memory",
            _ => return None,
        };
        // Above the root of our cgroup namespace nothing can be seen.
        (!path.contains("..")).then(|| (Path::new(root), Path::new(root).join(path.trim_start_matches('/'))))
    };
    let lines = cgroup.lines().filter_map(of);
    lines
        .flat_map(|(root, path)| {
            path.ancestors().take_while(|one| one.starts_with(root)).map(Path::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// Bytes that are free in a memory cgroup, and its limit; `None` if it has none.
fn free_memory(group: &Path) -> Option<(u64, u64)> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let of = |version_2: &str, version_1: &str| number(version_2).or_else(|| number(version_1));
    let limit = of("memory.max", "memory.limit_in_bytes")?;
    let used = of("memory.current", "memory.usage_in_bytes")?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    Some((limit.saturating_sub(used.saturating_sub(cached(&stat))), limit))
}

/// Bytes of cached files, which the kernel drops where memory is needed. Version 1 has figures without the groups below, too.
fn cached(stat: &str) -> u64 {
    let figure = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    ["inactive_file", "active_file"]
        .iter()
        .filter_map(|name| figure(&format!("total_{name}")).or_else(|| figure(name)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_known_by_its_loader() {
        let of = |files: &[&str]| has_musl(files.iter().map(Path::new));
        assert_eq!(of(&["/usr/bin/dotnet", "/lib/ld-musl-x86_64.so.1"]), Some(true));
        assert_eq!(of(&["/usr/lib/x86_64-linux-gnu/libc.so.6", "/x"]), Some(false));
        assert_eq!(of(&["/usr/bin/static"]), None);
        let own = proc::maps(std::process::id()).unwrap();
        assert_eq!(has_musl(own.iter().filter_map(|map| map.file())), Some(cfg!(target_env = "musl")));
    }

    #[test]
    fn limits_and_sizes_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            500                  1000                 files\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(500));
        assert_eq!(soft_limit(limits, "Max address space"), None);
        assert_eq!(kilobytes("Name:\tx\nVmSize:\t    2048 kB\n", "VmSize:"), Some(2 << 20));
    }

    #[test]
    fn groups_are_found_up_to_the_root() {
        let found = |text: &str| memory_groups(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(found("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        assert_eq!(
            found("5:memory:/x\n4:cpu,cpuacct:/x\n0::/../y\n"),
            ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory"]
        );
        assert_eq!(found(""), Vec::<String>::new());
    }

    #[test]
    fn cached_files_count_as_free() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(free_memory(folder.path()), None);
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        assert_eq!(free_memory(folder.path()), None);
        write("memory.max", "1000\n");
        assert_eq!(free_memory(folder.path()), Some((100, 1000)));
        write("memory.stat", "anon 5\ninactive_file 300\nactive_file 50\n");
        assert_eq!(free_memory(folder.path()), Some((450, 1000)));
        assert_eq!(cached("inactive_file 1\ntotal_inactive_file 30\nactive_file 2\ntotal_active_file 4\n"), 34);
    }

    #[test]
    fn a_command_needs_room_for_a_runtime_too() {
        let lacks = |descriptors, space, memory| lacks(descriptors, space, memory).map(|(what, _)| what);
        assert_eq!(lacks(None, None, None), None);
        assert_eq!(lacks(Some(64), Some(608 << 20), Some((48 << 20, 64 << 20))), None);
        assert_eq!(lacks(Some(60), None, None).unwrap(), "it may have 60 file descriptors at most");
        assert_eq!(lacks(Some(0), None, None).unwrap(), "it may have 0 file descriptors at most");
        assert_eq!(lacks(None, Some(600 << 20), None).unwrap(), "it may have 600 MB of address space at most");
        let memory = lacks(None, None, Some((40 << 20, 64 << 20)));
        assert_eq!(memory.unwrap(), "40 MB of the 64 MB of its memory cgroup are free");
        check_launch().unwrap();
    }

    #[test]
    fn this_process_has_room() {
        check(std::process::id()).unwrap();
    }
}
