use diagnostics::MemorySplit;
use profile::Profile;

/// All that rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The recording.
    pub profile: &'a Profile,
    /// Memory of the process as the system sees it, with the seconds since the first snapshot, by
    /// time. Empty where it was not recorded.
    pub memory: &'a [(f64, MemorySplit)],
    /// Who waits for whom, where that was looked at.
    pub locks: Option<&'a LockSnapshot>,
    /// What is on the heap, where that was looked at.
    pub heap: Option<HeapSnapshots<'a>>,
}

impl<'a> From<&'a Profile> for Evidence<'a> {
    fn from(profile: &'a Profile) -> Self {
        Self { profile, memory: &[], locks: None, heap: None }
    }
}

impl Evidence<'_> {
    /// Whether there is what a rule needs: a profiler that ran, or one of the snapshots beside
    /// them, `heap` and `deadlocks`. One of several is enough with `or` between them.
    pub(crate) fn has(&self, what: &str) -> bool {
        what.split(" or ").any(|one| match one {
            "heap" => self.heap.is_some(),
            "deadlocks" => self.locks.is_some(),
            profiler => self.profile.run(profiler).is_some(),
        })
    }
}

/// One or two heap snapshots.
#[derive(Clone, Copy, Debug)]
pub struct HeapSnapshots<'a> {
    /// The last one.
    pub last: &'a heap::Report,
    /// What became more from the one to the other, every type that did; `None` for one snapshot.
    pub growth: Option<&'a heap::LeakReport>,
    /// Asynchronous methods that waited at the one and at the other; `None` for one snapshot.
    pub tasks: Option<(&'a heap::Tasks, &'a heap::Tasks)>,
}

/// Who waits for whom, at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockSnapshot {
    /// Rings of threads, each of which waits for a lock that the next one holds, and the last for
    /// one of the first.
    pub cycles: Vec<Vec<Waiter>>,
    /// Threads that wait for a lock whose owner has ended.
    pub orphans: Vec<Vec<Waiter>>,
}

/// A thread that waits for a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiter {
    /// Thread id of the operating system.
    pub os_tid: u32,
    /// Name, where it has one.
    pub name: Option<String>,
    /// Type of the object that it wants to lock, where known.
    pub lock: Option<String>,
}
