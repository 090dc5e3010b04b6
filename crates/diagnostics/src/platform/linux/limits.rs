//! What the limits of a process leave it: threads, address space, and the control groups that it is
//! in.

use super::proc;
use crate::Error;
use rustix::fs::CWD;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Threads that must be free for an event session: its own one, and those that the runtime starts
/// for counters and samples.
const SESSION_THREADS: u64 = 6;
/// Threads that one event session adds: its own one, one for samples, one for counters.
const ADDED_BY_SESSION: u64 = 3;
/// With more free threads than that, a process is not near its limit.
pub const NEAR: u64 = 256;
/// For how long threads are counted near the limit, to see bursts where the kernel keeps no highest
/// count.
pub const COUNTING: Duration = Duration::from_millis(200);
/// How often they are counted then.
const COUNT_EVERY: Duration = Duration::from_millis(1);
/// Bytes of address space for the stacks of these threads, and for buffers.
const SESSION_ADDRESS_SPACE: u64 = 40 << 20;
/// Bytes of address space that must be free when an event session of an old runtime is to end: the
/// thread that ends it writes an event, into a buffer of 100 KB. Others of up to 1 MB may come.
const END_ADDRESS_SPACE: u64 = 4 << 20;

/// Checks that a process has room for one more event session.
///
/// A runtime does not notice that it could not start the thread of a session. It then waits for
/// that thread when the session is to end, and for good: .NET Core 3.1 and 9.0.5 hang at their end
/// then, or crash.
///
/// # Errors
/// [`Error::NoRoom`].
pub fn check_session(pid: u32) -> Result<(), Error> {
    let no_room = |what: String, next: &'static str| Error::NoRoom { pid, what, next };
    if let Some(what) = free_threads(pid, COUNTING)
        .and_then(|threads| threads.lacks(SESSION_THREADS, ADDED_BY_SESSION))
    {
        return Err(no_room(what, MORE_THREADS));
    }
    if let Some((free, limit)) =
        free_address_space(pid).filter(|(free, _)| *free < SESSION_ADDRESS_SPACE)
    {
        return Err(no_room(address_space_in_words(free, limit), MORE_ADDRESS_SPACE));
    }
    Ok(())
}

/// What to do where there are too few threads.
pub const MORE_THREADS: &str = "raise the limit of the container (pids.max, docker --pids-limit) \
    or of the user (ulimit -u, TasksMax)";
/// What to do where there is too little address space.
pub const MORE_ADDRESS_SPACE: &str = "raise its limit (ulimit -v, LimitAS)";

/// How much address space is left, for a person.
pub fn address_space_in_words(free: u64, limit: u64) -> String {
    format!(
        "{} MB of at most {} MB of address space are in use",
        limit.saturating_sub(free) >> 20,
        limit >> 20
    )
}

/// How many threads and processes may still be started within a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeThreads {
    /// At the moment.
    pub free: u64,
    /// When there were most at once: since the control group exists (`pids.peak`, Linux 6.1),
    /// otherwise within the last moments.
    pub least: u64,
    /// How many there may be.
    pub limit: u64,
}

impl FreeThreads {
    /// Why there is no room for a recording that needs `free` threads now, and adds `added` at
    /// most: a program that starts threads in bursts has few at most moments, and dies if it cannot
    /// start them.
    pub fn lacks(self, free: u64, added: u64) -> Option<String> {
        let Self { least, limit, .. } = self;
        if self.free < free {
            return Some(format!(
                "only {} more of at most {limit} threads and processes may be started there",
                self.free
            ));
        }
        let most = limit.saturating_sub(least);
        (least < added).then(|| {
            format!("up to {most} of at most {limit} threads and processes were there at once")
        })
    }
}

/// How many threads a process may still start within the limit that is reached first; `None` if
/// there is none. Limits are those of the control groups that it is in, and, unless it is root's,
/// that of its user (`RLIMIT_NPROC`, which root is not held to).
///
/// Takes `counting` where the process is near its limit and the kernel does not know how many there
/// were.
pub fn free_threads(pid: u32, counting: Duration) -> Option<FreeThreads> {
    let groups = groups(&file(pid, "cgroup"), "pids");
    let limited = groups.iter().filter_map(|group| {
        let number =
            move |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
        Some((number("pids.max")?, number))
    });
    let of_groups = limited.enumerate().filter_map(|(above, (limit, number))| {
        // The highest count since a group exists. In those above, other programs may have caused it
        // long ago.
        let peak = if above == 0 { number("pids.peak") } else { None };
        free_of(limit, peak, counting, || number("pids.current"))
    });
    let of_user = || {
        let uid = real_user(&file(pid, "status")).filter(|uid| *uid != 0)?;
        let limit = soft_limit(&file(pid, "limits"), "Max processes")?;
        free_of(limit, None, counting, || Some(threads_of(uid)))
    };
    of_groups.chain(of_user()).min_by_key(|threads| threads.least)
}

/// How many are free of `limit`, of which `count` are in use, and `peak` at most were.
fn free_of(
    limit: u64,
    peak: Option<u64>,
    counting: Duration,
    count: impl Fn() -> Option<u64>,
) -> Option<FreeThreads> {
    let mut most = count()?;
    let begin = Instant::now();
    while peak.is_none() && limit.saturating_sub(most) < NEAR && begin.elapsed() < counting {
        sleep(COUNT_EVERY);
        most = most.max(count()?);
    }
    let least = limit.saturating_sub(peak.unwrap_or(0).max(most));
    Some(FreeThreads { free: limit.saturating_sub(most), least, limit })
}

/// How much address space a process may still use, and its limit (`RLIMIT_AS`); `None` if there is
/// none.
pub fn free_address_space(pid: u32) -> Option<(u64, u64)> {
    let limit = soft_limit(&file(pid, "limits"), "Max address space")?;
    Some((limit.saturating_sub(status_bytes(&file(pid, "status"), "VmSize:")?), limit))
}

/// How much address space or data (`RLIMIT_DATA`) a process may still use, if that is less than an
/// old runtime needs to end an event session; allocates nothing. Runtimes before .NET 6 do not
/// notice that they got no buffer for an event, and write to address 0 (`EventPipeBuffer`,
/// src/vm/eventpipebuffer.cpp).
pub(crate) fn too_little_to_end(pid: u32) -> Option<u64> {
    let (mut limits, mut sizes) = ([0; 2048], [0; 256]);
    let limits = proc::read_small(CWD, format_args!("/proc/{pid}/limits"), &mut limits).ok()?;
    // In `status`, the groups of a user stand before the sizes, however many they are.
    let sizes = proc::read_small(CWD, format_args!("/proc/{pid}/statm"), &mut sizes).ok()?;
    let free = |limit: &str, column| {
        Some(first_number(limits, limit)?.saturating_sub(bytes_in(sizes, column)?))
    };
    // All that is mapped, and data with stacks: proc_pid_statm(5).
    let both = [free("Max address space", 0), free("Max data size", 5)];
    both.into_iter().flatten().min().filter(|free| *free < END_ADDRESS_SPACE)
}

/// A column of `statm`, which has pages.
fn bytes_in(statm: &[u8], column: usize) -> Option<u64> {
    let pages: u64 = str::from_utf8(statm).ok()?.split_whitespace().nth(column)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// The first number of the line that begins so.
fn first_number(text: &[u8], name: &str) -> Option<u64> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let rest = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
    str::from_utf8(rest).ok()?.split_whitespace().next()?.parse().ok()
}

/// A soft limit of `/proc/<pid>/limits`, in the unit of that file; `None` if there is none.
pub fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// A size in `/proc/<pid>/status`, in bytes.
pub fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Folders of a process's control group of one controller and all above it, from
/// `/proc/<pid>/cgroup`: of version 2, and of version 1.
pub fn groups(cgroup: &str, controller: &str) -> Vec<PathBuf> {
    let of = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let root = match controllers {
            "" => PathBuf::from("/sys/fs/cgroup"),
            _ if controllers.split(',').any(|one| one == controller) => {
                Path::new("/sys/fs/cgroup").join(controller)
            }
            _ => return None,
        };
        // Above the root of our cgroup namespace nothing can be seen.
        (!path.contains("..")).then(|| (root.clone(), root.join(path.trim_start_matches('/'))))
    };
    let lines = cgroup.lines().filter_map(of);
    lines
        .flat_map(|(root, path)| {
            path.ancestors()
                .take_while(|one| one.starts_with(&root))
                .map(Path::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn file(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

/// The first number of `Uid:` in `/proc/<pid>/status`.
fn real_user(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// How many threads a user has.
fn threads_of(uid: u32) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let status = file(pid, "status");
        let is_theirs = real_user(&status) == Some(uid);
        is_theirs.then(|| soft_limit(&status, "Threads:")).flatten()
    });
    threads.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_sizes_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            500                  1000                 files\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(500));
        assert_eq!(soft_limit(limits, "Max address space"), None);
        assert_eq!(status_bytes("Name:\tx\nVmSize:\t    2048 kB\n", "VmSize:"), Some(2 << 20));
        assert_eq!(real_user("Name:\tx\nUid:\t1000\t0\t0\t0\n"), Some(1000));
    }

    #[test]
    fn groups_are_found_up_to_the_root() {
        let found = |text: &str, controller: &str| {
            groups(text, controller)
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found("0::/a/b\n", "pids"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        let version_1 = "5:memory:/x\n6:pids:/y\n4:cpu,cpuacct:/x\n0::/../y\n";
        assert_eq!(
            found(version_1, "memory"),
            ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory"]
        );
        assert_eq!(found(version_1, "pids"), ["/sys/fs/cgroup/pids/y", "/sys/fs/cgroup/pids"]);
        assert_eq!(found("", "pids"), Vec::<String>::new());
    }

    #[test]
    fn threads_of_a_user_are_counted() {
        let own = real_user(&file(std::process::id(), "status")).unwrap();
        let before = threads_of(own);
        assert!(before >= 1);
        let pause = Duration::from_secs(2);
        let threads: Vec<_> = (0..200)
            .map(|_| std::thread::spawn(move || std::thread::park_timeout(pause)))
            .collect();
        // Others may start and end meanwhile.
        assert!(threads_of(own) > before + 100);
        threads.into_iter().for_each(|thread| {
            thread.thread().unpark();
            thread.join().unwrap();
        });
    }

    #[test]
    fn bursts_of_threads_are_seen() {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        let reads = AtomicU64::new(0);
        // Each tenth time there are twenty more.
        let bursts = || Some(if reads.fetch_add(1, Relaxed) % 10 == 9 { 30 } else { 10 });
        let of = |limit: u64, peak: Option<u64>| {
            reads.store(0, Relaxed);
            let found = free_of(limit, peak, COUNTING, bursts).unwrap();
            (found.free, found.least, reads.load(Relaxed))
        };
        let (free, least, read) = of(40, None);
        assert_eq!((free, least), (10, 10));
        assert!(read > 10);
        // The kernel knows, or there is much room: once is enough.
        assert_eq!(of(40, Some(35)), (30, 5, 1));
        assert_eq!(of(40, Some(2)), (30, 30, 1));
        assert_eq!(of(1000, None), (990, 990, 1));
        assert_eq!(free_of(40, None, COUNTING, || None), None);
    }

    #[test]
    fn what_is_free_and_what_was_free_decide() {
        let lacks = |free, least| FreeThreads { free, least, limit: 40 }.lacks(16, 8);
        assert_eq!(lacks(16, 8), None);
        assert_eq!(
            lacks(15, 8).unwrap(),
            "only 15 more of at most 40 threads and processes may be started there"
        );
        assert_eq!(
            lacks(16, 7).unwrap(),
            "up to 33 of at most 40 threads and processes were there at once"
        );
    }

    #[test]
    fn numbers_are_read_from_what_is_not_text() {
        let limits = b"\xff\xfe\nMax address space         2048                 unlimited  bytes\n";
        assert_eq!(first_number(limits, "Max address space"), Some(2048));
        assert_eq!(first_number(b"Max address space         unlimited  unlimited", "Max a"), None);
        assert_eq!(first_number(limits, "Max data size"), None);
        let page = rustix::param::page_size() as u64;
        assert_eq!(bytes_in(b"7 6 5 4 0 2 0\n", 5), Some(2 * page));
        assert_eq!(bytes_in(b"7 6 5", 5), None);
    }

    #[test]
    fn this_process_has_room() {
        assert_eq!(too_little_to_end(std::process::id()), None);
        check_session(std::process::id()).unwrap();
    }
}
