//! The ledger: what this library holds in the target.
//!
//! Everything that is taken from the target is counted here, against the budgets of
//! [`wire::Resource`], and is returned by dropping what [`take`] gave. The ledger belongs to the
//! library, not to a session: several sessions may follow each other. Callbacks and signal handlers
//! may use it: it consists of atomic numbers.

use crate::heap_memory;
use crate::os::{alternate, descriptors, maps};
use std::fs::{File, ReadDir};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use wire::{HeldResource, Resource};

/// One resource.
struct Account {
    held: AtomicU64,
    highest: AtomicU64,
    refused: AtomicU64,
}

const RESOURCES: usize = Resource::ALL.len();
static ACCOUNTS: [Account; RESOURCES] = [const {
    Account { held: AtomicU64::new(0), highest: AtomicU64::new(0), refused: AtomicU64::new(0) }
}; RESOURCES];

fn account(resource: Resource) -> Option<&'static Account> {
    ACCOUNTS.get(resource as usize)
}

/// Bytes of address space that may be taken where they are limited.
static SHARE: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes that the heap may take where memory is limited, by a memory cgroup.
static HEAP_SHARE: AtomicU64 = AtomicU64::new(u64::MAX);
/// Mappings and alternate stacks that may be taken, by how many mappings the kernel allows a
/// process (`vm.max_map_count`).
static MAPPINGS: AtomicU64 = AtomicU64::new(u64::MAX);
static STACKS: AtomicU64 = AtomicU64::new(u64::MAX);
/// The limits for which [`SHARE`] was worked out, those on addresses and on data.
static LIMITS: [AtomicU64; 2] = [const { AtomicU64::new(NONE) }; 2];
/// No limit.
const NONE: u64 = libc::RLIM_INFINITY;

/// What part of the address space that is free as a session begins is for mappings, and as much for
/// alternate stacks. Twice as much is for the heap.
const PART: u64 = 8;
/// What part of the mappings that the kernel still allows as a session begins is for tables, and as
/// much for alternate stacks.
const PART_OF_MAPPINGS: u64 = 4;
/// Mappings of an alternate stack: the guard page is one of its own.
const MAPPINGS_OF_STACK: u64 = 2;
/// What is taken to be free where that cannot be read: less than clrscope asks for before it loads
/// the agent.
const AT_LEAST: u64 = 256 << 20;

/// The most of a resource that is held at a time.
pub fn budget(resource: Resource) -> u64 {
    let share = SHARE.load(Relaxed);
    let most = match resource {
        Resource::MappedBytes => share,
        Resource::Mappings => MAPPINGS.load(Relaxed),
        Resource::AlternateStacks => (share / alternate::SIZE as u64).min(STACKS.load(Relaxed)),
        Resource::HeapBytes => share.saturating_mul(2).min(HEAP_SHARE.load(Relaxed)),
        _ => u64::MAX,
    };
    resource.budget().min(most)
}

/// The soft limits on addresses (`RLIMIT_AS`) and on data (`RLIMIT_DATA`).
fn limits() -> [u64; 2] {
    // A closure, because the C libraries do not agree on the type of its argument.
    let soft = |what| {
        let mut limits =
            libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the kernel writes to a local.
        unsafe { libc::getrlimit(what, &mut limits) };
        limits.rlim_cur
    };
    [soft(libc::RLIMIT_AS), soft(libc::RLIMIT_DATA)]
}

/// The program, or its administrator (prlimit(1)), may limit addresses at any time: the share is
/// then worked out again, of what is free and what is held already. Two system calls if nothing has
/// changed.
fn follow_limits() {
    let now = limits();
    let is_new = |(seen, now): (&AtomicU64, u64)| seen.swap(now, SeqCst) != now;
    // Both are stored, so no short circuit.
    if LIMITS.iter().zip(now).filter(|&pair| is_new(pair)).count() == 0 {
        return;
    }
    let stacks = held(Resource::AlternateStacks).saturating_mul(alternate::SIZE as u64);
    let held = held(Resource::MappedBytes)
        .saturating_add(stacks)
        .saturating_add(held(Resource::HeapBytes));
    SHARE.store(share_of(free_addresses(now).map(|free| free.saturating_add(held))), Relaxed);
    heap_memory::set_budget(budget(Resource::HeapBytes));
}

/// A line of `/proc/<pid>/status` or `/proc/meminfo` in kilobytes, in bytes.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// What is free of a limit of which so much is used.
fn free(limit: Option<u64>, used: Option<u64>) -> Option<u64> {
    limit.map(|limit| used.map_or(AT_LEAST, |used| limit.saturating_sub(used)))
}

/// Bytes that this process may still map, by its limits on addresses (`RLIMIT_AS`) and on memory of
/// its own (`RLIMIT_DATA`), and by what the kernel promises where it promises no more than there is
/// (`vm.overcommit_memory=2`): it counts reserved memory in full then. `None` if nothing limits it.
fn free_addresses(limits: [u64; 2]) -> Option<u64> {
    let text = |path: &str| String::from_utf8_lossy(&read(path).unwrap_or_default()).into_owned();
    let [addresses, data] = limits.map(|limit| Some(limit).filter(|limit| *limit != NONE));
    let is_limited = addresses.is_some() || data.is_some();
    let status = if is_limited { text("/proc/self/status") } else { String::new() };
    let of_machine =
        (text("/proc/sys/vm/overcommit_memory").trim() == "2").then(|| text("/proc/meminfo"));
    let promised = of_machine
        .as_deref()
        .map(|text| (bytes_of(text, "CommitLimit:"), bytes_of(text, "Committed_AS:")));
    let parts = [
        free(addresses, bytes_of(&status, "VmSize:")),
        free(data, bytes_of(&status, "VmData:")),
        promised.and_then(|(limit, used)| free(limit, used)),
    ];
    parts.into_iter().flatten().min()
}

/// The share of what is free.
fn share_of(free: Option<u64>) -> u64 {
    free.map_or(u64::MAX, |free| free / PART)
}

/// Mappings that a process may have where the system does not say (`DEFAULT_MAX_MAP_COUNT`,
/// include/linux/mm.h).
const MOST_MAPPINGS: u64 = 65_530;

/// Mappings that this process may still make. Where there are none left the runtime cannot commit
/// memory, and ends. `None` if the kernel does not say how many there are.
fn free_mappings() -> Option<u64> {
    let most = read("/proc/sys/vm/max_map_count").ok();
    let most = most.and_then(|most| String::from_utf8_lossy(&most).trim().parse().ok());
    Some(most.unwrap_or(MOST_MAPPINGS).saturating_sub(maps::count()?))
}

/// Sets how many mappings and alternate stacks may be taken, by how many mappings are free.
fn share_mappings(free: Option<u64>) {
    let share = |resource, each: u64| {
        free.map_or(u64::MAX, |free| {
            (free / PART_OF_MAPPINGS / each).saturating_add(held(resource))
        })
    };
    MAPPINGS.store(share(Resource::Mappings, 1), Relaxed);
    STACKS.store(share(Resource::AlternateStacks, MAPPINGS_OF_STACK), Relaxed);
}

/// What the heap may take of the memory that is free, beside what it holds: half of it, as the
/// program itself needs more, too.
fn heap_share_of(free: Option<u64>, held: u64) -> u64 {
    free.map_or(u64::MAX, |free| (free / 2).saturating_add(held))
}

/// Takes so much of a resource; `None` if that would exceed its budget.
pub fn take(resource: Resource, amount: u64) -> Option<Held> {
    enter(resource, amount).then(|| Held { resource, amount })
}

/// Takes without a guard: whoever does must [`leave`] once. For what handlers take, and for what is
/// kept by number.
pub fn enter(resource: Resource, amount: u64) -> bool {
    let Some(account) = account(resource) else { return false };
    if matches!(resource, Resource::MappedBytes | Resource::AlternateStacks) {
        follow_limits();
    }
    let fits = |held: u64| held.checked_add(amount).filter(|held| *held <= budget(resource));
    match account.held.fetch_update(SeqCst, Relaxed, fits) {
        Ok(before) => {
            account.highest.fetch_max(before + amount, Relaxed);
            true
        }
        Err(_) => {
            account.refused.fetch_add(1, Relaxed);
            false
        }
    }
}

/// Returns what [`enter`] took.
pub fn leave(resource: Resource, amount: u64) {
    if let Some(account) = account(resource) {
        // More than there is means that something is returned twice: the account stays at zero.
        let _ =
            account.held.fetch_update(SeqCst, Relaxed, |held| Some(held.saturating_sub(amount)));
    }
}

/// Sets how much of a resource is held, where it is not taken piece by piece.
pub fn set(resource: Resource, amount: u64) {
    if let Some(account) = account(resource) {
        account.held.store(amount, SeqCst);
        account.highest.fetch_max(amount, Relaxed);
    }
}

/// How much of a resource is held.
pub fn held(resource: Resource) -> u64 {
    match resource {
        Resource::HeapBytes => heap_memory::held(),
        _ => account(resource).map_or(0, |account| account.held.load(SeqCst)),
    }
}

/// All resources that are or were in use.
pub fn report() -> Vec<HeldResource> {
    let heap = (heap_memory::held(), heap_memory::highest());
    let all = Resource::ALL.iter().zip(&ACCOUNTS).map(|(&resource, account)| match resource {
        Resource::HeapBytes => HeldResource {
            resource,
            held: heap.0,
            highest: heap.1,
            refused: heap_memory::refused(),
        },
        _ => HeldResource {
            resource,
            held: account.held.load(SeqCst),
            highest: account.highest.load(Relaxed),
            refused: account.refused.load(Relaxed),
        },
    });
    all.filter(|used| used.highest != 0 || used.refused != 0).collect()
}

/// A new session begins: highest marks count from now on, and it may use a share of the address
/// space, the mappings and the memory that are free now. As a process starts, the collector has not
/// taken its own addresses yet, which are up to half of them, and libraries are still to be mapped.
pub fn restart(launched: bool, free_memory: Option<u64>) {
    let now = limits();
    LIMITS.iter().zip(now).for_each(|(seen, now)| seen.store(now, SeqCst));
    let free = free_addresses(now).map(|free| if launched { free / 2 } else { free });
    SHARE.store(share_of(free), Relaxed);
    HEAP_SHARE.store(heap_share_of(free_memory, heap_memory::held()), Relaxed);
    share_mappings(free_mappings().map(|free| if launched { free / 2 } else { free }));
    for account in &ACCOUNTS {
        account.highest.store(account.held.load(SeqCst), Relaxed);
        account.refused.store(0, Relaxed);
    }
    heap_memory::set_budget(budget(Resource::HeapBytes));
    heap_memory::restart();
}

/// Something that was taken; dropping it returns it.
#[derive(Debug)]
#[must_use]
pub struct Held {
    resource: Resource,
    amount: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        leave(self.resource, self.amount);
    }
}

/// A value with what it holds. The value is dropped first.
#[derive(Debug)]
pub struct Counted<T> {
    value: T,
    _held: Held,
}

impl<T> Counted<T> {
    /// A value that was made after `held` was taken.
    pub fn new(value: T, held: Held) -> Self {
        Self { value, _held: held }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Counted<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Makes something with a file descriptor of its own.
fn descriptor<T>(make: impl FnOnce() -> io::Result<T>) -> io::Result<Counted<T>> {
    let held = take(Resource::Descriptors, 1).ok_or_else(too_many)?;
    Ok(Counted::new(make()?, held))
}

fn too_many() -> io::Error {
    io::Error::from_raw_os_error(libc::EMFILE)
}

/// Opens a file to read it.
///
/// # Errors
/// As [`File::open`], or "too many open files" where the budget is used up, or the descriptor would
/// be one of those that are left to the program.
pub fn open(path: impl AsRef<Path>) -> io::Result<Counted<File>> {
    let file = descriptor(|| File::open(path))?;
    match descriptors::is_in_reserve(file.as_raw_fd()) {
        true => Err(too_many()),
        false => Ok(file),
    }
}

/// Reads a file of `/proc` whole.
///
/// # Errors
/// As [`open`], and "out of memory".
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    whole(open(path)?)
}

/// The same as [`folder_now`] does it.
///
/// # Errors
/// As [`File::open`], or "too many open files" where the budget is used up.
pub fn read_now(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    whole(descriptor(|| File::open(path))?)
}

fn whole(mut file: Counted<File>) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a folder of `/proc`.
///
/// # Errors
/// As [`open`].
pub fn folder(path: impl AsRef<Path>) -> io::Result<Counted<ReadDir>> {
    // A folder does not say its number. It gets the lowest free one, as this file does.
    drop(open("/proc/self/stat")?);
    folder_now(path)
}

/// The same with the descriptors that are left to the program, too: for a moment, when a recording
/// ends, where it depends on the answer whether this library may be unloaded.
///
/// # Errors
/// As [`std::fs::read_dir`], or "too many open files" where the budget is used up.
pub fn folder_now(path: impl AsRef<Path>) -> io::Result<Counted<ReadDir>> {
    descriptor(|| std::fs::read_dir(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No other test takes event sessions.
    const RESOURCE: Resource = Resource::EventSessions;

    #[test]
    fn what_is_taken_is_bounded_counted_and_returned() {
        let first = take(RESOURCE, 1).unwrap();
        let second = take(RESOURCE, 1).unwrap();
        assert!(take(RESOURCE, 1).is_none(), "the budget is two");
        assert!(take(RESOURCE, u64::MAX).is_none());
        assert_eq!(held(RESOURCE), 2);
        drop((first, second));
        assert_eq!(held(RESOURCE), 0);
        let used =
            |report: Vec<HeldResource>| report.into_iter().find(|used| used.resource == RESOURCE);
        let expected = HeldResource { resource: RESOURCE, held: 0, highest: 2, refused: 2 };
        assert_eq!(used(report()), Some(expected));
        assert_eq!(expected.left(), Some(0));
        leave(RESOURCE, 1);
        assert_eq!(held(RESOURCE), 0, "never below zero");
    }

    #[test]
    fn where_addresses_are_limited_most_of_them_are_left() {
        assert_eq!(free(None, Some(1)), None);
        assert_eq!(free(Some(3 << 30), Some(2 << 30)), Some(1 << 30));
        assert_eq!(free(Some(2 << 30), Some(3 << 30)), Some(0));
        assert_eq!(free(Some(3 << 30), None), Some(AT_LEAST));
        assert_eq!((share_of(None), share_of(Some(1 << 30))), (u64::MAX, 128 << 20));
        assert_eq!(bytes_of("VmPeak:\t 9 kB\nVmSize:\t    2048 kB\n", "VmSize:"), Some(2 << 20));
        assert_eq!(budget(Resource::MappedBytes), Resource::MappedBytes.budget());
        SHARE.store(96 << 20, Relaxed);
        assert_eq!(budget(Resource::MappedBytes), 96 << 20);
        assert_eq!(budget(Resource::AlternateStacks), 1024);
        assert_eq!(budget(Resource::HeapBytes), 192 << 20);
        assert_eq!(budget(Resource::Threads), Resource::Threads.budget());
        assert_eq!(
            (heap_share_of(None, 1), heap_share_of(Some(24 << 20), 1 << 20)),
            (u64::MAX, 13 << 20)
        );
        HEAP_SHARE.store(12 << 20, Relaxed);
        assert_eq!(
            budget(Resource::HeapBytes),
            12 << 20,
            "where memory is limited, too, the tighter limit counts"
        );
        SHARE.store(u64::MAX, Relaxed);
        assert_eq!(budget(Resource::HeapBytes), 12 << 20);
        HEAP_SHARE.store(u64::MAX, Relaxed);
    }

    #[test]
    fn where_the_kernel_allows_few_more_mappings_most_of_them_are_left() {
        // Nextest runs each test in a process of its own.
        let free = free_mappings().unwrap();
        assert!((1000..u64::from(u32::MAX)).contains(&free), "{free}");
        restart(false, None);
        assert!(budget(Resource::Mappings) <= free.div_ceil(PART_OF_MAPPINGS));
        let held = take(Resource::AlternateStacks, 3).unwrap();
        share_mappings(Some(4000));
        assert_eq!(budget(Resource::Mappings), 1000);
        assert_eq!(budget(Resource::AlternateStacks), 503, "those that are held stay");
        assert!(take(Resource::AlternateStacks, 501).is_none());
        assert!(take(Resource::AlternateStacks, 500).is_some());
        drop(held);
        share_mappings(None);
        assert_eq!(budget(Resource::Mappings), Resource::Mappings.budget());
    }

    #[test]
    fn a_limit_that_comes_later_is_kept_to() {
        // Nextest runs each test in a process of its own; under `cargo test` others get by with a
        // gigabyte.
        let set = |addresses: u64| {
            let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel writes to a local, and reads it.
            unsafe {
                assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limits), 0);
                limits.rlim_cur = addresses;
                assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limits), 0);
            }
        };
        const PIECE: u64 = 100 << 20;
        let first = take(Resource::MappedBytes, PIECE).unwrap();
        assert!(take(Resource::MappedBytes, PIECE).is_some(), "nothing is limited");
        let status = read("/proc/self/status").unwrap();
        let used = bytes_of(&String::from_utf8_lossy(&status), "VmSize:").unwrap();
        set(used + (1 << 30));
        assert!(
            take(Resource::MappedBytes, PIECE).is_none(),
            "an eighth of a gigabyte, of which 100 MB are held"
        );
        drop(first);
        assert!(take(Resource::MappedBytes, PIECE).is_some());
        set(NONE);
        assert!(take(Resource::MappedBytes, 2 * PIECE).is_some());
    }

    #[test]
    fn a_file_counts_until_it_is_closed() {
        // Nextest runs each test in a process of its own; under `cargo test` others may open files,
        // too.
        let file = open("/proc/self/stat").unwrap();
        assert!((1..=Resource::Descriptors.budget()).contains(&held(Resource::Descriptors)));
        let fd = file.as_raw_fd();
        assert!(Path::new(&format!("/proc/self/fd/{fd}")).exists());
        drop(file);
        assert!(open("/no such file").is_err());
        assert!(read("/proc/self/stat").unwrap().len() > 10);
    }
}
