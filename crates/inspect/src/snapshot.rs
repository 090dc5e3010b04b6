//! A snapshot of the threads and locks of a process, without addresses of the runtime's own.

use std::time::Duration;

/// Threads and locks of a process at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The managed threads that live.
    pub threads: Vec<ManagedThread>,
    /// Locks that somebody waits for.
    pub locks: Vec<Lock>,
    /// Who waits for which.
    pub waits: Vec<Wait>,
    /// Threads that wait for a monitor, by the monitor's own count, and that were not found. Other
    /// than 0 means that [`Snapshot::waits`] is not complete.
    pub waiters_not_found: u32,
}

/// A managed thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedThread {
    /// Thread id of the operating system, in our pid namespace.
    pub os_tid: u32,
    /// `Thread.ManagedThreadId`.
    pub managed_id: u32,
    /// `Thread.Name`, else the system's name of the thread.
    pub name: Option<String>,
    /// Whether the kernel did not run it from before the snapshot to after it: what was read of it
    /// is then of one moment.
    pub asleep: bool,
}

/// What kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// `Monitor`: the `lock` statement, or `Monitor.Enter`, on any object.
    Monitor,
    /// `System.Threading.Lock` (.NET 9).
    Lock,
}

/// A lock that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its kind.
    pub kind: LockKind,
    /// Address of the object that is locked on. The garbage collector may move it after the
    /// snapshot.
    pub object: u64,
    /// Type of that object, with namespace and nesting, where it could be read.
    pub type_name: Option<String>,
    /// Its holder.
    pub owner: Owner,
}

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody.
    None,
    /// A thread: index into [`Snapshot::threads`].
    Thread(usize),
    /// A thread that has ended.
    Gone {
        /// What the lock knows it by: it distinguishes owners.
        id: u64,
        /// Its name, where the runtime still has it.
        name: Option<String>,
    },
}

/// A thread that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Index into [`Snapshot::threads`].
    pub thread: usize,
    /// Index into [`Snapshot::locks`].
    pub lock: usize,
    /// Whether it waits for a pulse (`Monitor.Wait`), not to own the lock.
    pub for_pulse: bool,
    /// After which time it gives up; `None` for never.
    pub timeout: Option<Duration>,
}
