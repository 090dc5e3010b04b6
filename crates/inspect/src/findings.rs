//! What the locks of a process mean: cycles, owners that are gone, rows of waiting threads.

use crate::{
    Frame, Owner, Snapshot, Stacks, Wait,
    snapshot::{Lock, ManagedThread},
};
use schemars::JsonSchema;
use serde::Serialize;
use session::ThreadState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What was found in a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Findings {
    /// In one word.
    pub outcome: Outcome,
    /// In one line. What is in [`Findings::blocked`] does not count: those threads hold nothing
    /// that could be reported.
    pub verdict: String,
    /// Threads that wait for each other in a ring.
    pub cycles: Vec<Cycle>,
    /// Locks that are held by threads that have ended.
    pub orphans: Vec<Orphan>,
    /// Threads that wait for locks of threads which do something else; most waiting threads first.
    pub chains: Vec<Chain>,
    /// Threads in waits that are no locks, by kind and stack; most threads first.
    pub blocked: Vec<BlockedGroup>,
    /// What a reader should know about the above.
    pub notes: Vec<String>,
}

/// How a check of the locks ended, from the worst on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Threads wait for each other, or for a lock whose owner has ended.
    Deadlock,
    /// Threads wait for locks, but their owners can continue.
    Waiting,
    /// No thread waits for a lock.
    Clear,
    /// It could not be determined.
    Unknown,
}

/// Threads that wait for each other in a ring.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cycle {
    /// Each waits for a lock that the next one holds, and the last for one of the first.
    pub threads: Vec<BlockedThread>,
    /// Threads outside of the ring that wait for one in it, directly or not.
    pub behind: Vec<BlockedThread>,
    /// Whether one of the ring waits with a time-out, after which it may give way.
    pub has_timeout: bool,
}

/// A lock whose owner has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Orphan {
    /// The lock.
    pub lock: LockShown,
    /// Name of the owner, where the runtime still has it.
    pub owner: Option<String>,
    /// Who waits for it, directly or not.
    pub threads: Vec<BlockedThread>,
}

/// Threads that wait for a thread which waits for no lock itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Chain {
    /// That thread.
    pub owner: BlockedThread,
    /// Who waits for it, directly or not; the nearest first.
    pub threads: Vec<BlockedThread>,
    /// The longest row of threads, the owner counted.
    pub length: usize,
}

/// A thread and its locks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockedThread {
    /// Thread id of the operating system.
    pub os_tid: u32,
    /// `Thread.ManagedThreadId`.
    pub managed_id: u32,
    /// Name, where it has one.
    pub name: Option<String>,
    /// The lock that it waits for.
    pub waits_for: Option<LockShown>,
    /// The holder of that lock.
    pub held_by: Option<ThreadShown>,
    /// Milliseconds after which it gives up; `None` for never.
    pub timeout_ms: Option<u64>,
    /// Locks that it holds and that others wait for.
    pub holds: Vec<LockShown>,
    /// What it does, where its stack was taken.
    pub doing: Option<&'static str>,
    /// Managed frames from the leaf to the root; empty where none were taken.
    pub stack: Vec<Frame>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LockShown {
    /// `monitor`, or `lock` for a `System.Threading.Lock`.
    pub kind: &'static str,
    /// Type of the object that is locked on.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Address of that object at the time of the snapshot: it distinguishes the locks of one
    /// snapshot.
    pub object: String,
}

/// Threads that wait for the same kind of thing at the same place.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockedGroup {
    /// What they wait for: `SemaphoreSlim`, `Task.Wait`, `WaitHandle`, `Thread.Join` …
    pub kind: String,
    /// How many.
    pub count: usize,
    /// They.
    pub threads: Vec<ThreadShown>,
    /// Managed frames from the leaf to the root; empty where none were taken.
    pub stack: Vec<Frame>,
}

/// A thread by its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadShown {
    /// Thread id of the operating system.
    pub os_tid: u32,
    /// `Thread.ManagedThreadId`, where known.
    pub managed_id: Option<u32>,
    /// Name, where it has one.
    pub name: Option<String>,
}

/// The way of the waits from a thread to where they end.
enum End {
    /// In a ring: index into the list of rings.
    Cycle(usize),
    /// At a lock whose owner has ended.
    Orphan(usize),
    /// At a thread that waits for no lock.
    Thread(usize),
}

impl Findings {
    /// From a snapshot of the locks, and from stacks where there are any.
    pub fn of(snapshot: &Snapshot, stacks: Option<&Stacks>) -> Self {
        Analysis::new(snapshot, stacks).findings()
    }

    /// When there is no snapshot of the locks: what the stacks alone show.
    pub fn unknown(reason: &str, stacks: Option<&Stacks>) -> Self {
        let mut findings = Self::of(&Snapshot::default(), stacks);
        findings.outcome = Outcome::Unknown;
        findings.verdict = format!("unknown: {reason}");
        findings
    }
}

struct Analysis<'a> {
    snapshot: &'a Snapshot,
    stacks: Option<&'a Stacks>,
    /// The wait of each thread that waits for a lock, and did so during the whole snapshot.
    wait_of: HashMap<usize, &'a Wait>,
}

impl<'a> Analysis<'a> {
    fn new(snapshot: &'a Snapshot, stacks: Option<&'a Stacks>) -> Self {
        let asleep =
            |wait: &&Wait| snapshot.threads.get(wait.thread).is_some_and(|thread| thread.asleep);
        let wait_of = snapshot.waits.iter().filter(|wait| !wait.for_pulse).filter(asleep);
        Self { snapshot, stacks, wait_of: wait_of.map(|wait| (wait.thread, wait)).collect() }
    }

    fn lock(&self, wait: &Wait) -> Option<&'a Lock> {
        self.snapshot.locks.get(wait.lock)
    }

    /// The thread that a thread waits for.
    fn next(&self, thread: usize) -> Option<usize> {
        match self.lock(self.wait_of.get(&thread)?)?.owner {
            Owner::Thread(owner) if owner != thread => Some(owner),
            _ => None,
        }
    }

    /// All rings. Each thread waits for at most one other, so each is in at most one.
    fn rings(&self) -> Vec<Vec<usize>> {
        let mut rings = Vec::new();
        let mut seen = BTreeSet::new();
        let mut starts: Vec<usize> = self.wait_of.keys().copied().collect();
        starts.sort_unstable();
        for start in starts {
            let mut way = Vec::new();
            let mut next = Some(start);
            while let Some(thread) = next.filter(|thread| seen.insert(*thread)) {
                way.push(thread);
                next = self.next(thread);
            }
            // It ended at a thread that was met before: on this way, or on an earlier one.
            if let Some(first) = next.and_then(|met| way.iter().position(|thread| *thread == met)) {
                rings.push(way.split_off(first));
            }
        }
        rings
    }

    fn end(&self, start: usize, rings: &[Vec<usize>]) -> Option<(End, usize)> {
        let (mut thread, mut length) = (start, 1);
        loop {
            if let Some(ring) = rings.iter().position(|ring| ring.contains(&thread)) {
                return Some((End::Cycle(ring), length));
            }
            let Some(wait) = self.wait_of.get(&thread) else {
                return Some((End::Thread(thread), length));
            };
            match self.lock(wait)?.owner {
                Owner::Gone { .. } => return Some((End::Orphan(wait.lock), length)),
                Owner::Thread(owner) if owner != thread => thread = owner,
                // It was released just then.
                Owner::Thread(_) | Owner::None => return None,
            }
            length += 1;
        }
    }

    fn findings(&self) -> Findings {
        let rings = self.rings();
        let mut behind: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        let mut orphaned: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        let mut waiting: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for &thread in self.wait_of.keys() {
            match self.end(thread, &rings) {
                Some((End::Cycle(ring), length)) if length > 1 => {
                    behind.entry(ring).or_default().push((length, thread))
                }
                Some((End::Orphan(lock), length)) => {
                    orphaned.entry(lock).or_default().push((length, thread))
                }
                Some((End::Thread(owner), length)) => {
                    waiting.entry(owner).or_default().push((length, thread))
                }
                Some((End::Cycle(_), _)) | None => {}
            }
        }
        let shown = |mut threads: Vec<(usize, usize)>| -> Vec<BlockedThread> {
            order::sort_by(&mut threads, Ord::cmp);
            threads.into_iter().filter_map(|(_, thread)| self.thread(thread)).collect()
        };
        let cycles: Vec<Cycle> = rings
            .iter()
            .enumerate()
            .map(|(index, ring)| Cycle {
                threads: ring.iter().filter_map(|&thread| self.thread(thread)).collect(),
                behind: shown(behind.remove(&index).unwrap_or_default()),
                has_timeout: ring
                    .iter()
                    .any(|thread| self.wait_of.get(thread).is_some_and(|w| w.timeout.is_some())),
            })
            .collect();
        let orphans = orphaned.into_iter().filter_map(|(lock, threads)| {
            let lock = self.snapshot.locks.get(lock)?;
            let Owner::Gone { name: owner, .. } = &lock.owner else { return None };
            Some(Orphan {
                lock: LockShown::of(lock),
                owner: owner.clone(),
                threads: shown(threads),
            })
        });
        let orphans: Vec<Orphan> = orphans.collect();
        let chains = waiting.into_iter().filter_map(|(owner, threads)| {
            let length = threads.iter().map(|(length, _)| *length).max()?;
            Some(Chain { owner: self.thread(owner)?, threads: shown(threads), length })
        });
        let mut chains: Vec<Chain> = chains.collect();
        order::sort_by_key(&mut chains, |chain| std::cmp::Reverse(chain.threads.len()));
        let blocked = self.blocked();
        let missing = self.snapshot.waiters_not_found;
        let mut notes = Vec::new();
        if missing > 0 {
            notes.push(format!(
                "{missing} more {} for monitors, by the monitors' own count, but which could not \
                    be determined",
                if missing == 1 { "thread waits" } else { "threads wait" }
            ));
        }
        let outcome = match () {
            () if !cycles.is_empty() || !orphans.is_empty() => Outcome::Deadlock,
            () if missing > 0 => Outcome::Unknown,
            () if !chains.is_empty() => Outcome::Waiting,
            () => Outcome::Clear,
        };
        let verdict = verdict(outcome, &cycles, &orphans, &chains);
        Findings { outcome, verdict, cycles, orphans, chains, blocked, notes }
    }

    fn thread(&self, index: usize) -> Option<BlockedThread> {
        let ManagedThread { os_tid, managed_id, name, .. } = self.snapshot.threads.get(index)?;
        let wait = self.wait_of.get(&index);
        let stack = self.stacks.and_then(|stacks| stacks.threads.get(os_tid));
        let held = self.snapshot.locks.iter().enumerate().filter(|(lock, held)| {
            held.owner == Owner::Thread(index)
                && self.wait_of.values().any(|wait| wait.lock == *lock)
        });
        Some(BlockedThread {
            os_tid: *os_tid,
            managed_id: *managed_id,
            name: name.clone().or_else(|| stack?.name.clone()),
            waits_for: wait.and_then(|wait| self.lock(wait)).map(LockShown::of),
            held_by: self.next(index).and_then(|owner| self.snapshot.threads.get(owner)).map(
                |owner| ThreadShown {
                    os_tid: owner.os_tid,
                    managed_id: Some(owner.managed_id),
                    name: owner.name.clone(),
                },
            ),
            timeout_ms: wait
                .and_then(|wait| wait.timeout)
                .map(|timeout| timeout.as_millis() as u64),
            holds: held.map(|(_, lock)| LockShown::of(lock)).collect(),
            // For a thread that waits for a lock, the snapshot from outside knows better what it
            // waits for.
            doing: match wait {
                Some(_) => None,
                None => stack.map(|stack| stack.doing),
            },
            stack: stack.map(|stack| stack.frames.clone()).unwrap_or_default(),
        })
    }

    /// Threads that are blocked, but not on a lock. Without stacks, those that wait for a pulse of
    /// a monitor, which is what most waits of the base library are made of.
    fn blocked(&self) -> Vec<BlockedGroup> {
        let mut groups: Vec<BlockedGroup> = Vec::new();
        let mut add = |kind: &str, thread: ThreadShown, stack: &[Frame]| match groups
            .iter_mut()
            .find(|group| group.kind == kind && group.stack == stack)
        {
            Some(group) => group.threads.push(thread),
            None => {
                groups.push(BlockedGroup {
                    kind: kind.to_owned(),
                    count: 0,
                    threads: vec![thread],
                    stack: stack.to_owned(),
                });
            }
        };
        let known: HashMap<u32, (usize, &ManagedThread)> = self
            .snapshot
            .threads
            .iter()
            .enumerate()
            .map(|(index, thread)| (thread.os_tid, (index, thread)))
            .collect();
        match self.stacks {
            Some(stacks) => {
                let mut all: Vec<_> = stacks.threads.iter().collect();
                order::sort_by_key(&mut all, |(os_tid, _)| **os_tid);
                for (os_tid, stack) in all {
                    let known = known.get(os_tid);
                    let in_lock = known.is_some_and(|(index, _)| self.wait_of.contains_key(index));
                    use ThreadState::{Event, Lock, Other, Runtime, Task};
                    // The runtime's own locks are among what a thread can be stuck in: that of a
                    // class constructor.
                    if in_lock || !matches!(stack.state, Lock | Event | Task | Runtime | Other) {
                        continue;
                    }
                    let name = known
                        .and_then(|(_, thread)| thread.name.clone())
                        .or_else(|| stack.name.clone());
                    let managed_id = known.map(|(_, thread)| thread.managed_id);
                    add(
                        stack.doing,
                        ThreadShown { os_tid: *os_tid, managed_id, name },
                        &stack.frames,
                    );
                }
            }
            None => {
                for wait in self.snapshot.waits.iter().filter(|wait| wait.for_pulse) {
                    let Some(thread) = self.snapshot.threads.get(wait.thread) else { continue };
                    let (os_tid, name) = (thread.os_tid, thread.name.clone());
                    add(
                        "Monitor.Wait",
                        ThreadShown { os_tid, managed_id: Some(thread.managed_id), name },
                        &[],
                    );
                }
            }
        }
        for group in &mut groups {
            group.count = group.threads.len();
        }
        order::sort_by_key(&mut groups, |group| std::cmp::Reverse(group.count));
        groups
    }
}

fn verdict(outcome: Outcome, cycles: &[Cycle], orphans: &[Orphan], chains: &[Chain]) -> String {
    let threads = |count: usize| format!("{count} thread{}", if count == 1 { "" } else { "s" });
    let mut parts = Vec::new();
    match cycles {
        [] => {}
        [cycle] => parts.push(format!("deadlock: {}", threads(cycle.threads.len()))),
        many => {
            let sum = many.iter().map(|cycle| cycle.threads.len()).sum();
            parts.push(format!("{} deadlocks: {}", many.len(), threads(sum)));
        }
    }
    if !cycles.is_empty() && cycles.iter().all(|cycle| cycle.has_timeout) {
        parts.push("until a time-out ends it".to_owned());
    }
    let behind: usize = cycles.iter().map(|cycle| cycle.behind.len()).sum();
    if behind > 0 {
        parts.push(format!("{} behind", threads(behind)));
    }
    let left: usize = orphans.iter().map(|orphan| orphan.threads.len()).sum();
    if left > 0 {
        let verb = if left == 1 { "waits" } else { "wait" };
        let what = if cycles.is_empty() { "deadlock: " } else { "" };
        parts.push(format!("{what}{} {verb} for a lock whose owner has ended", threads(left)));
    }
    match outcome {
        Outcome::Deadlock => {}
        Outcome::Unknown => parts
            .push("unknown: not all threads that wait for locks could be determined".to_owned()),
        Outcome::Waiting | Outcome::Clear => parts.push("no deadlock".to_owned()),
    }
    if !chains.is_empty() {
        let sum: usize = chains.iter().map(|chain| chain.threads.len()).sum();
        let longest = chains.iter().map(|chain| chain.length).max().unwrap_or(0);
        let verb = if sum == 1 { "waits" } else { "wait" };
        parts.push(format!(
            "{} {verb} for locks of others, in chains of up to {longest}",
            threads(sum)
        ));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockKind;
    use std::time::Duration;

    /// Threads by number; each entry says for which lock it waits. Locks by number; each entry says
    /// who its holder is.
    fn snapshot(waits: &[Option<usize>], owners: &[Owner]) -> Snapshot {
        let thread = |index: usize| ManagedThread {
            os_tid: 100 + index as u32,
            managed_id: 1 + index as u32,
            name: Some(format!("t{index}")),
            asleep: true,
        };
        let lock = |owner: &Owner| Lock {
            kind: LockKind::Monitor,
            object: 0x1000,
            type_name: None,
            owner: owner.clone(),
        };
        let wait = |(thread, lock): (usize, &Option<usize>)| {
            Some(Wait { thread, lock: (*lock)?, for_pulse: false, timeout: None })
        };
        Snapshot {
            threads: (0..waits.len()).map(thread).collect(),
            locks: owners.iter().map(lock).collect(),
            waits: waits.iter().enumerate().filter_map(wait).collect(),
            waiters_not_found: 0,
        }
    }

    fn names(threads: &[BlockedThread]) -> Vec<&str> {
        threads.iter().map(|thread| thread.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn a_ring_and_those_behind_it() {
        use Owner::Thread;
        // 0 and 1 block each other, 2 waits for 1, 3 for 2; 4 works.
        let waits = [Some(1), Some(0), Some(1), Some(2), None];
        let mut look = snapshot(&waits, &[Thread(0), Thread(1), Thread(2)]);
        let found = Findings::of(&look, None);
        assert_eq!(found.outcome, Outcome::Deadlock);
        assert_eq!(found.cycles.len(), 1);
        assert_eq!(names(&found.cycles[0].threads), ["t0", "t1"]);
        assert_eq!(names(&found.cycles[0].behind), ["t2", "t3"]);
        assert_eq!(found.verdict, "deadlock: 2 threads; 2 threads behind");
        assert_eq!(
            (found.cycles[0].threads[0].holds.len(), found.cycles[0].has_timeout),
            (1, false)
        );
        // One of them gives up some time.
        look.waits[0].timeout = Some(Duration::from_secs(1));
        let found = Findings::of(&look, None);
        assert!(
            found.cycles[0].has_timeout && found.verdict.contains("until a time-out"),
            "{}",
            found.verdict
        );
        // A thread that ran meanwhile may have been here and there at two times.
        look.threads[1].asleep = false;
        let found = Findings::of(&look, None);
        assert_eq!(
            (found.outcome, found.cycles.len(), found.chains.len()),
            (Outcome::Waiting, 0, 1)
        );
    }

    #[test]
    fn two_rings_are_two() {
        use Owner::Thread;
        let waits = [Some(1), Some(2), Some(0), Some(4), Some(3)];
        let found = Findings::of(
            &snapshot(&waits, &[Thread(0), Thread(1), Thread(2), Thread(3), Thread(4)]),
            None,
        );
        let sizes: Vec<usize> = found.cycles.iter().map(|cycle| cycle.threads.len()).collect();
        assert_eq!((sizes, found.verdict.as_str()), (vec![3, 2], "2 deadlocks: 5 threads"));
    }

    #[test]
    fn rows_and_owners_that_are_gone() {
        use Owner::{Gone, Thread};
        // 1 and 2 wait for 0, 3 for 2. 4 waits for a lock of a thread that has ended, 5 for 4.
        let waits = [None, Some(0), Some(0), Some(1), Some(2), Some(3)];
        let owners = [Thread(0), Thread(2), Gone { id: 7, name: Some("old".into()) }, Thread(4)];
        let found = Findings::of(&snapshot(&waits, &owners), None);
        assert_eq!((found.cycles.len(), found.chains.len(), found.orphans.len()), (0, 1, 1));
        assert_eq!(names(&found.chains[0].threads), ["t1", "t2", "t3"]);
        assert_eq!(
            (found.chains[0].owner.name.as_deref(), found.chains[0].length),
            (Some("t0"), 3)
        );
        assert_eq!(names(&found.orphans[0].threads), ["t4", "t5"]);
        assert_eq!(found.orphans[0].owner.as_deref(), Some("old"));
        assert_eq!(found.outcome, Outcome::Deadlock);
    }

    #[test]
    fn what_is_not_known_is_not_clear() {
        let mut look = snapshot(&[None], &[]);
        assert_eq!(Findings::of(&look, None).outcome, Outcome::Clear);
        look.waiters_not_found = 1;
        let found = Findings::of(&look, None);
        assert_eq!((found.outcome, found.notes.len()), (Outcome::Unknown, 1));
        let found = Findings::unknown("no reason", None);
        assert_eq!(
            (found.outcome, found.verdict.as_str()),
            (Outcome::Unknown, "unknown: no reason")
        );
    }

    #[test]
    fn a_lock_that_is_free_or_ones_own_makes_no_row() {
        let found =
            Findings::of(&snapshot(&[Some(0), Some(1)], &[Owner::None, Owner::Thread(1)]), None);
        assert_eq!((found.outcome, found.chains.len(), found.cycles.len()), (Outcome::Clear, 0, 0));
    }
}
