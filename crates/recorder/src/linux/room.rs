//! Whether a process has room for the agent: looked at before anything is loaded into it.

use crate::RecordError;
use diagnostics::limits::{
    COUNTING, FreeThreads, MORE_ADDRESS_SPACE, MORE_THREADS, NEAR, address_space_in_words,
    free_address_space, free_threads, groups, soft_limit,
};
use diagnostics::proc;
use rustix::process::{Resource, getrlimit};
use std::{fs, path::Path, time::Duration};

/// Descriptors that the agent may hold.
const DESCRIPTORS: u64 = 16;
/// Bytes of address space that must be free. The agent's own mappings take an eighth at most;
/// `malloc` reserves 64 MB for each thread that asks it for memory, the runtime's own threads for
/// events included: up to 370 MB were seen (`checkup`, 3.1).
const ADDRESS_SPACE: u64 = 512 << 20;
/// With less than that a recording ends: one thread that asks `malloc` for memory takes half of it,
/// and .NET Core 3.1 ends where it gets no buffer for an event.
const LEAST_ADDRESS_SPACE: u64 = 128 << 20;
/// Threads that the agent and event sessions may start.
const THREADS: u64 = 16;
/// Threads that a recording adds at most, the runtime's for events included: 9 on 3.1 and 7 on 8
/// and 9, measured with all profilers.
const ADDED_THREADS: u64 = 10;
/// With fewer than that a recording ends: the program would soon fail to start a thread.
const LEAST_THREADS: u64 = 3;
/// Bytes of memory that must be free in the process's memory cgroup, or can be made free by
/// dropping cached files.
const MEMORY: u64 = 24 << 20;

/// With less than that a recording ends: the kernel would soon end a process of the group.
const LEAST_MEMORY: u64 = 8 << 20;

/// What a small .NET program takes by itself, measured: with less, .NET Core 3.1 and .NET 9 do not
/// start, agent or not.
const RUNTIME_DESCRIPTORS: u64 = 40;
const RUNTIME_ADDRESS_SPACE: u64 = 512 << 20;
const RUNTIME_MEMORY: u64 = 24 << 20;
const RUNTIME_THREADS: u64 = 16;

/// What to do about each.
const MORE_DESCRIPTORS: &str = "raise its limit (ulimit -n, LimitNOFILE)";
const MORE_MEMORY: &str = "raise the limit of the container (memory.max)";

/// Checks the limits that a command will have, which are ours, before it is started.
///
/// # Errors
/// [`RecordError::NoRoomToLaunch`].
pub(super) fn check_launch() -> Result<(), RecordError> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // The runtime raises its soft limit of descriptors to the hard one.
    let descriptors = getrlimit(Resource::Nofile).maximum;
    let threads = free_threads(std::process::id(), Duration::ZERO);
    match lacks(descriptors, getrlimit(Resource::As).current, free_of(&cgroup), threads) {
        Some((what, next)) => Err(RecordError::NoRoomToLaunch { what, next }),
        None => Ok(()),
    }
}

/// What a small program with an agent lacks within these limits, and what to do about that.
fn lacks(
    descriptors: Option<u64>,
    address_space: Option<u64>,
    memory: Option<(u64, u64)>,
    threads: Option<FreeThreads>,
) -> Option<(String, &'static str)> {
    // What was there before the command says nothing about it.
    if let Some(what) = threads.and_then(|threads| threads.lacks(RUNTIME_THREADS + THREADS, 0)) {
        return Some((what, MORE_THREADS));
    }
    if let Some(limit) =
        descriptors.filter(|limit| limit - limit / 10 < RUNTIME_DESCRIPTORS + DESCRIPTORS)
    {
        return Some((format!("it may have {limit} file descriptors at most"), MORE_DESCRIPTORS));
    }
    if let Some(limit) =
        address_space.filter(|limit| *limit < RUNTIME_ADDRESS_SPACE + ADDRESS_SPACE)
    {
        return Some((
            format!("it may have {} MB of address space at most", limit >> 20),
            MORE_ADDRESS_SPACE,
        ));
    }
    let (free, of) = memory.filter(|(free, _)| *free < RUNTIME_MEMORY + MEMORY)?;
    Some((
        format!("{} MB of the {} MB of its memory cgroup are free", free >> 20, of >> 20),
        MORE_MEMORY,
    ))
}

/// Checks the C library, descriptors, address space, threads and memory. What cannot be read is
/// taken for right, and for enough.
///
/// # Errors
/// [`RecordError::OtherCLibrary`] and [`RecordError::NoRoom`].
pub(super) fn check(pid: u32) -> Result<(), RecordError> {
    let maps = proc::maps(pid).unwrap_or_default();
    // musl would load a library that is built for glibc, and never unload it.
    if has_musl(maps.iter().filter_map(|map| map.file()))
        .is_some_and(|musl| musl != cfg!(target_env = "musl"))
    {
        return Err(RecordError::OtherCLibrary { pid });
    }
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let no_room = |what: String, next: &'static str| RecordError::NoRoom { pid, what, next };
    let limits = file("limits");
    if let (Some(limit), Ok(open)) =
        (soft_limit(&limits, "Max open files"), fs::read_dir(format!("/proc/{pid}/fd")))
    {
        let open = open.count() as u64;
        if open + DESCRIPTORS > limit - limit / 10 {
            let what = format!("{open} of at most {limit} file descriptors are open");
            return Err(no_room(
                what,
                "raise its limit (ulimit -n, LimitNOFILE), or find out what keeps them open: ls -l \
                    /proc/<PID>/fd",
            ));
        }
    }
    if let Some((free, limit)) = free_address_space(pid).filter(|(free, _)| *free < ADDRESS_SPACE) {
        return Err(no_room(address_space_in_words(free, limit), MORE_ADDRESS_SPACE));
    }
    // A runtime that cannot start the thread of an event session does not notice, and hangs when
    // that is to end.
    if let Some(what) =
        free_threads(pid, COUNTING).and_then(|threads| threads.lacks(THREADS, ADDED_THREADS))
    {
        return Err(no_room(what, MORE_THREADS));
    }
    if let Some((free, of)) = free_of(&file("cgroup"))
        && free < MEMORY
    {
        let what =
            format!("{} MB of the {} MB of its memory cgroup are free", free >> 20, of >> 20);
        return Err(no_room(what, MORE_MEMORY));
    }
    Ok(())
}

/// Why a recording must end now: hardly any memory is left in the process's memory cgroup, in
/// words.
pub(super) fn lacks_memory(pid: u32) -> Option<String> {
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let (free, of) = free_of(&cgroup).filter(|(free, _)| *free < LEAST_MEMORY)?;
    Some(format!(
        "the recording has ended, so that the process does not run out of memory: {:.1} MB of the \
         {} MB of its memory cgroup are free: {MORE_MEMORY}",
        free as f64 / 1_048_576.0,
        of >> 20
    ))
}

/// Why a recording must end now: hardly any address space is left to the process, in words.
pub(super) fn lacks_address_space(pid: u32) -> Option<String> {
    let (free, limit) = free_address_space(pid).filter(|(free, _)| *free < LEAST_ADDRESS_SPACE)?;
    Some(format!(
        "the recording has ended, so that the process does not run out of address space: {}: \
         {MORE_ADDRESS_SPACE}",
        address_space_in_words(free, limit)
    ))
}

/// Whether a process comes near the end of its threads while it is recorded.
pub(super) struct ThreadWatch {
    /// What was free at the worst time before; `None` where the limit is far.
    before: Option<u64>,
}

impl ThreadWatch {
    pub(super) fn new(pid: u32) -> Self {
        let least = free_threads(pid, Duration::ZERO).map(|threads| threads.least);
        Self { before: least.filter(|least| *least < NEAR) }
    }

    /// Why the recording must end now, so that the threads that it takes are there for the program;
    /// in words.
    pub(super) fn lacks(&self, pid: u32) -> Option<String> {
        let before = self.before?;
        let threads = free_threads(pid, Duration::ZERO)?;
        // The kernel's highest count says something about the recording only if it has risen since.
        let least = if threads.least < before { threads.least } else { threads.free };
        (least < LEAST_THREADS).then(|| {
            format!(
                "the recording has ended, so that the process does not run out of threads: only \
                 {least} of at most {} threads and processes were free: {MORE_THREADS}",
                threads.limit
            )
        })
    }
}

/// Bytes that are free in the memory cgroup of a process that has least; `None` where nothing
/// limits it.
pub(super) fn free_memory_of(pid: u32) -> Option<u64> {
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    free_of(&cgroup).map(|(free, _)| free)
}

/// Whether the C library of a process is musl, by the files that it has mapped: `None` if it has no
/// loader of either.
fn has_musl<'a>(mut files: impl Iterator<Item = &'a Path>) -> Option<bool> {
    files.find_map(|file| {
        let name = file.file_name()?.to_str()?;
        let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        (is(&["ld-musl-", "libc.musl-"]) || is(&["ld-linux", "libc.so.6", "ld-2.", "libc-2."]))
            .then(|| is(&["ld-musl-", "libc.musl-"]))
    })
}

/// Bytes that are free in the memory cgroup that has least, and its limit; from
/// `/proc/<pid>/cgroup`.
fn free_of(cgroup: &str) -> Option<(u64, u64)> {
    groups(cgroup, "memory").iter().filter_map(|group| free_memory(group)).min()
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

/// Bytes of cached files, which the kernel drops where memory is needed. Version 1 has figures
/// without the groups below, too.
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
        assert_eq!(
            has_musl(own.iter().filter_map(|map| map.file())),
            Some(cfg!(target_env = "musl"))
        );
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
        assert_eq!(
            cached("inactive_file 1\ntotal_inactive_file 30\nactive_file 2\ntotal_active_file 4\n"),
            34
        );
    }

    #[test]
    fn a_command_needs_room_for_a_runtime_too() {
        let lacks = |descriptors, space, memory| {
            lacks(descriptors, space, memory, None).map(|(what, _)| what)
        };
        assert_eq!(lacks(None, None, None), None);
        assert_eq!(lacks(Some(64), Some(1024 << 20), Some((48 << 20, 64 << 20))), None);
        assert_eq!(lacks(Some(60), None, None).unwrap(), "it may have 60 file descriptors at most");
        assert_eq!(lacks(Some(0), None, None).unwrap(), "it may have 0 file descriptors at most");
        assert_eq!(
            lacks(None, Some(1020 << 20), None).unwrap(),
            "it may have 1020 MB of address space at most"
        );
        let memory = lacks(None, None, Some((40 << 20, 64 << 20)));
        assert_eq!(memory.unwrap(), "40 MB of the 64 MB of its memory cgroup are free");
        check_launch().unwrap();
    }

    #[test]
    fn this_process_has_room() {
        check(std::process::id()).unwrap();
    }
}
