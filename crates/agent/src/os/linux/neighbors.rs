//! Other agents of clrscope in this process.

use super::maps;
use super::tasks;
use super::threads::is_own;
use crate::ledger;
use std::collections::BTreeSet;

/// How the files of agents begin, and of those that only count as a profiler.
const AGENTS: &str = "libclrscope-";
const IDLE: &str = "libclrscope-idle-";
/// Names of the thread that each agent has as long as it works or waits for the next session.
const THREADS: [&[u8]; 2] = [b"clrscope-main", b"clrscope-agent"];

/// Agents beside this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// Their libraries.
    pub libraries: usize,
    /// Those of them without a thread: the runtime is about to unload them, or they stay loaded for
    /// good.
    pub without_thread: usize,
}

/// Who else is here. A request to detach that does not know of another agent can end the process,
/// so descriptors that are left to the program are used, too, and without any there may be one.
pub fn neighbors() -> Neighbors {
    let mappings = maps::mappings_now();
    if mappings.is_empty() {
        return Neighbors { libraries: 1, without_thread: 0 };
    }
    let address = neighbors as *const () as u64;
    let own = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let own = own.map_or("", |mapping| mapping.path.as_str());
    let libraries = libraries(mappings.iter().map(|mapping| mapping.path.as_str()), own);
    if libraries == 0 {
        return Neighbors::default();
    }
    let is_agent = |tid: &u32| {
        let name = ledger::read_now(format!("/proc/self/task/{tid}/comm")).unwrap_or_default();
        THREADS.contains(&name.trim_ascii_end())
    };
    let tids = tasks::all_tids_now().unwrap_or_default();
    let threads = tids.iter().filter(|tid| is_agent(tid)).count();
    let others = threads.saturating_sub(usize::from(is_own()));
    Neighbors { libraries, without_thread: libraries.saturating_sub(others) }
}

/// Libraries of agents that are neither this one nor idle, among the paths of a map.
fn libraries<'a>(paths: impl Iterator<Item = &'a str>, own: &str) -> usize {
    let is_agent = |path: &&str| {
        let name = path.rsplit_once('/').map_or(*path, |(_, name)| name);
        name.starts_with(AGENTS) && !name.starts_with(IDLE) && *path != own
    };
    paths.filter(is_agent).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_agents_are_neither_idle_nor_this_one() {
        let paths = [
            "/tmp/clrscope-a/libclrscope-1.so (deleted)",
            "/tmp/clrscope-a/libclrscope-1.so (deleted)",
            "/tmp/clrscope-b/libclrscope-2.so",
            "/tmp/clrscope-c/libclrscope-idle-3.so",
            "/usr/lib/libc.so.6",
            "",
        ];
        assert_eq!(libraries(paths.into_iter(), "/tmp/clrscope-b/libclrscope-2.so"), 1);
        assert_eq!(libraries(paths.into_iter(), "/tmp/other.so"), 2);
        assert_eq!(libraries(["", "[stack]"].into_iter(), ""), 0);
    }

    #[test]
    fn a_process_without_other_agents_has_none() {
        assert_eq!(neighbors(), Neighbors::default());
    }
}
