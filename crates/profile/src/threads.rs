use std::collections::{BTreeMap, HashMap, HashSet};

use profilers::threads::Creation;
use session::{FunctionId, Nanos, StackId, ThreadId, ThreadSeen, ThreadSnapshot, ThreadState};

use crate::{
    CallSite, Profile, Series, SeriesKind,
    exceptions::heaviest,
    series::{Keep, Row},
};

mod judgement;

use judgement::*;

/// A thread over all snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTrack {
    /// What the first snapshot saw, and when.
    pub first: (Nanos, ThreadSeen),
    /// What the last snapshot saw, and when.
    pub last: (Nanos, ThreadSeen),
    /// Snapshots that saw it.
    pub snapshots: u32,
    /// Snapshots in which its stack differs from that of the snapshot before.
    pub changes: u32,
}

/// Looks at all threads, summed up.
#[derive(Clone, Debug)]
pub struct Threads {
    /// The last snapshot: one for each thread, at its stack.
    pub series: Series,
    /// Each thread over all snapshots.
    pub tracks: BTreeMap<ThreadId, ThreadTrack>,
    /// How many threads there were at each snapshot.
    pub counts: Vec<(Nanos, u64)>,
    /// Threads whose start the runtime has reported.
    pub creations: Vec<Creation>,
    /// Those of them that are workers of the thread pool.
    of_pool: HashSet<ThreadId>,
}

impl Threads {
    pub(crate) fn new(start: Nanos) -> Self {
        Self {
            series: Series::new(SeriesKind::Threads, start, Keep::default()),
            tracks: BTreeMap::new(),
            counts: Vec::new(),
            creations: Vec::new(),
            of_pool: HashSet::new(),
        }
    }

    pub(crate) fn add_creation(&mut self, creation: Creation) {
        self.creations.push(creation);
        if creation.pool {
            self.of_pool.insert(creation.thread);
        }
    }

    pub(crate) fn add_snapshot(&mut self, snapshot: &ThreadSnapshot) {
        self.counts.push((snapshot.time, snapshot.threads.len() as u64));
        for seen in &snapshot.threads {
            let now = (snapshot.time, *seen);
            let fresh = ThreadTrack { first: now, last: now, snapshots: 0, changes: 0 };
            let track = self.tracks.entry(seen.thread).or_insert(fresh);
            track.snapshots += 1;
            track.changes += u32::from(track.last.1.stack != seen.stack);
            track.last = now;
        }
    }

    /// Brings [`Self::series`] up to date.
    pub(crate) fn settle(&mut self, start: Nanos) {
        self.series = Series::new(SeriesKind::Threads, start, Keep::default());
        let Some((last, _)) = self.counts.last() else { return };
        for track in self.tracks.values().filter(|track| track.last.0 == *last) {
            let (time, ThreadSeen { thread, stack, state, .. }) = track.last;
            self.series.add(Row { time, thread, stack, state, truncated: false, weight: 1 }, 1);
        }
        self.series.settle();
    }

    /// Keeps the threads of which this holds.
    pub(crate) fn retain(&mut self, keep: impl Fn(ThreadId, StackId, ThreadState) -> bool) {
        self.tracks.retain(|thread, track| keep(*thread, track.last.1.stack, track.last.1.state));
        self.creations.retain(|creation| self.tracks.contains_key(&creation.thread));
    }
}

/// Whose business a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadRole {
    /// The first thread of the process.
    Main,
    /// Started by the program or a library.
    Program,
    /// A worker of the thread pool.
    Pool,
    /// A thread of the runtime: finalizer, timers, the pool's gate, diagnostics.
    Runtime,
    /// Runs no managed code, and the runtime has not named it.
    Native,
}

impl ThreadRole {
    /// In data formats.
    pub fn id(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Program => "program",
            Self::Pool => "pool",
            Self::Runtime => "runtime",
            Self::Native => "native",
        }
    }
}

/// Whether a thread makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Did nothing in any snapshot and was blocked in a wait without a time limit; no waker was
    /// observed.
    ZombieSuspect,
    /// Did nothing, and waits for something that another thread or process is to do.
    Blocked,
    /// Did nothing because it had nothing to do.
    Idle,
    /// Used a processor, or stood at different places.
    Progress,
    /// Was seen too seldom to judge.
    Unjudged,
}

impl Standing {
    /// In data formats.
    pub fn id(self) -> &'static str {
        match self {
            Self::ZombieSuspect => "zombie-suspect",
            Self::Blocked => "blocked",
            Self::Idle => "idle",
            Self::Progress => "progress",
            Self::Unjudged => "unjudged",
        }
    }
}

/// How sure it is that a suspect is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// What it waits for may well come.
    Low,
    /// Nothing suggests that it continues, but a signal from elsewhere cannot be ruled out.
    Medium,
    /// Nothing but an interruption or the end of the process can end its wait.
    High,
}

impl Confidence {
    /// In data formats.
    pub fn id(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What is known of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    /// Which.
    pub thread: ThreadId,
    /// Whose business it does.
    pub role: ThreadRole,
    /// `Thread.ManagedThreadId`, where it was reported: of threads that were started during the
    /// recording.
    pub managed_id: Option<u32>,
    /// How old it was at its last snapshot, nanoseconds.
    pub age: u64,
    /// Time on a processor while it was looked at, nanoseconds.
    pub cpu: u64,
    /// Time on a processor in its life.
    pub cpu_of_life: u64,
    /// What the last snapshot saw.
    pub seen: ThreadSeen,
    /// Snapshots that saw it.
    pub snapshots: u32,
    /// Time from its first snapshot to its last.
    pub watched: u64,
    /// Whether the last of all snapshots saw it.
    pub alive: bool,
    /// Whether it makes progress.
    pub standing: Standing,
    /// For a suspect: how sure that is.
    pub confidence: Option<Confidence>,
    /// Why it is judged so.
    pub reason: String,
    /// Where it was started, where that was reported.
    pub started_at: Option<CallSite>,
}

/// Who starts threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Starter {
    /// This method.
    Method(FunctionId),
    /// The thread pool, for workers of its own.
    Pool,
    /// The runtime, or somebody who was not seen.
    Unknown,
    /// Native code.
    Native,
}

/// Threads that were started during the recording by one starter.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRow {
    /// Who.
    pub starter: Starter,
    /// The place in it where most were started.
    pub place: Option<CallSite>,
    /// The stack with which most were started.
    pub stack: Option<StackId>,
    /// How many were started.
    pub started: u64,
    /// How many of them ended.
    pub ended: u64,
    /// Started per second.
    pub per_second: f64,
    /// Name of one of them.
    pub example: String,
    /// Whether it looks like a leak.
    pub leak: bool,
    /// Why, or why not.
    pub reason: String,
}

impl Profile {
    /// Whose business a thread does.
    pub fn thread_role(&self, thread: ThreadId) -> ThreadRole {
        let def = self.tables.thread(thread);
        let name = def.name.as_deref().unwrap_or_default();
        let track = self.threads.tracks.get(&thread);
        let of_pool = |stack: StackId| {
            let mut functions = self.tables.functions_of(stack);
            functions.any(|function| {
                POOL_TYPES.contains(&self.tables.function(function).type_name.as_str())
            })
        };
        if def.os_tid == self.info.pid {
            ThreadRole::Main
        } else if POOL_NAMES.iter().any(|known| name.starts_with(known))
            || track
                .is_some_and(|track| of_pool(track.first.1.stack) || of_pool(track.last.1.stack))
            || self.threads.of_pool.contains(&thread)
        {
            ThreadRole::Pool
        } else if name.starts_with(".NET") {
            ThreadRole::Runtime
        } else if !def.managed {
            ThreadRole::Native
        } else if track.is_some_and(|track| {
            // The finalizer of .NET Core 3.1 has no name, and its pool's idle workers have none
            // either.
            self.tables
                .functions_of(track.last.1.stack)
                .all(|function| !self.tables.is_managed(function))
        }) {
            ThreadRole::Runtime
        } else {
            ThreadRole::Program
        }
    }

    /// All threads that were looked at: suspects first, then by the time that they used.
    pub fn thread_rows(&self) -> Vec<ThreadRow> {
        let creations: HashMap<ThreadId, &Creation> =
            self.threads.creations.iter().map(|creation| (creation.thread, creation)).collect();
        let last_snapshot = self.threads.counts.last().map_or(0, |(time, _)| *time);
        let mut rows: Vec<ThreadRow> = self
            .threads
            .tracks
            .iter()
            .map(|(thread, track)| {
                let ((first_time, first), (last_time, seen)) = (track.first, track.last);
                let role = self.thread_role(*thread);
                // What was used between two snapshots; of a thread that is younger than the
                // recording, all of it.
                let young = first.born >= 0 && first.born as u64 >= self.start;
                let between = seen.cpu.saturating_sub(first.cpu);
                let (standing, confidence, reason) = judge(&Evidence {
                    role,
                    meaning: self.tables.meaning(seen.stack, seen.state),
                    state: seen.state,
                    program: self.tables.has_program(seen.stack),
                    limited: seen.limited,
                    snapshots: track.snapshots,
                    changes: track.changes,
                    cpu: between,
                    cpu_of_life: seen.cpu,
                });
                let creation = creations.get(thread);
                ThreadRow {
                    thread: *thread,
                    role,
                    managed_id: creation.map(|creation| creation.managed_id),
                    age: u64::try_from(
                        i64::try_from(last_time).unwrap_or(i64::MAX).saturating_sub(seen.born),
                    )
                    .unwrap_or(0),
                    cpu: if young { seen.cpu } else { between },
                    cpu_of_life: seen.cpu,
                    seen,
                    snapshots: track.snapshots,
                    watched: last_time.saturating_sub(first_time),
                    alive: last_time == last_snapshot
                        && self.tables.thread(*thread).ended.is_none(),
                    standing,
                    confidence,
                    reason,
                    started_at: creation
                        .and_then(|creation| Some(self.tables.place(creation.stack?))),
                }
            })
            .collect();
        order::sort_by(&mut rows, |a, b| {
            let key = |row: &ThreadRow| {
                (
                    row.standing != Standing::ZombieSuspect,
                    std::cmp::Reverse((row.confidence, row.cpu)),
                )
            };
            key(a).cmp(&key(b)).then(a.thread.cmp(&b.thread))
        });
        rows
    }

    /// Threads that were started during the recording, by who started them: leaks first, then by
    /// their number.
    pub fn start_rows(&self) -> Vec<StartRow> {
        if self.threads.tracks.is_empty() && self.threads.creations.is_empty() {
            return Vec::new();
        }
        let creations: HashMap<ThreadId, &Creation> =
            self.threads.creations.iter().map(|creation| (creation.thread, creation)).collect();
        let mut groups: BTreeMap<Starter, Vec<(ThreadId, Option<StackId>)>> = BTreeMap::new();
        for thread in &self.tables.threads {
            let inside =
                thread.started.is_some_and(|started| (self.start..=self.stop).contains(&started));
            let creation = creations.get(&thread.id);
            if !inside && creation.is_none() || thread.os_tid == self.info.pid {
                continue;
            }
            let stack = creation.and_then(|creation| creation.stack);
            let starter = match (self.thread_role(thread.id), stack) {
                (ThreadRole::Pool, _) => Starter::Pool,
                (_, Some(stack)) => Starter::Method(self.tables.place(stack).function),
                (_, None) if !thread.managed => Starter::Native,
                (_, None) => Starter::Unknown,
            };
            groups.entry(starter).or_default().push((thread.id, stack));
        }
        let seconds = self.duration().max(1) as f64 / 1e9;
        let middle = self.start + self.duration() / 2;
        let mut rows: Vec<StartRow> = groups
            .into_iter()
            .map(|(starter, threads)| {
                let (mut stacks, mut ended, mut old, mut old_left) = (HashMap::new(), 0, 0, 0);
                for (thread, stack) in &threads {
                    let def = self.tables.thread(*thread);
                    let gone = def.ended.is_some_and(|end| end <= self.stop);
                    ended += u64::from(gone);
                    if def.started.is_some_and(|started| started < middle) {
                        old += 1;
                        old_left += u64::from(!gone);
                    }
                    if let Some(stack) = stack {
                        *stacks.entry(*stack).or_insert(0_u64) += 1;
                    }
                }
                let started = threads.len() as u64;
                let stack = heaviest(stacks);
                let (leak, reason) = leaks(starter, old, old_left, started - old);
                StartRow {
                    starter,
                    place: stack.map(|stack| self.tables.place(stack)),
                    stack,
                    started,
                    ended,
                    per_second: started as f64 / seconds,
                    example: threads
                        .first()
                        .map(|(thread, _)| self.tables.thread_name(*thread))
                        .unwrap_or_default(),
                    leak,
                    reason,
                }
            })
            .collect();
        order::sort_by_key(&mut rows, |row| {
            (!row.leak, std::cmp::Reverse(row.started), row.starter)
        });
        rows
    }
}

/// Whether a starter leaks threads, and why. It started `old` threads in the first half of the
/// recording, of which `old_left` are left, and `new` threads in the second half.
fn leaks(starter: Starter, old: u64, old_left: u64, new: u64) -> (bool, String) {
    let text = format!(
        "{old_left} of the {old} that were started in the first half of the recording are left, \
            and {new} more came"
    );
    match starter {
        Starter::Pool => {
            (false, "the thread pool ends its workers itself after a time without work".to_owned())
        }
        // Those of the first half have lived through the second one: whatever starts more meanwhile
        // lets them grow in number.
        _ if old >= 2 && new >= 2 && old_left * 5 >= old * 4 => (true, text),
        _ => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(meaning: Meaning, limited: Option<bool>) -> Evidence {
        Evidence {
            role: ThreadRole::Program,
            meaning,
            state: ThreadState::Lock,
            program: true,
            limited,
            snapshots: 5,
            changes: 0,
            cpu: 0,
            cpu_of_life: 1_000_000,
        }
    }

    fn standing(evidence: &Evidence) -> (Standing, Option<Confidence>) {
        let (standing, confidence, reason) = judge(evidence);
        assert!(!reason.is_empty());
        (standing, confidence)
    }

    #[test]
    fn zombies_are_told_from_those_that_wait_for_something() {
        let signal = Meaning::Signal("an event");
        let suspect = |confidence| (Standing::ZombieSuspect, Some(confidence));
        assert_eq!(standing(&waiting(signal, Some(false))), suspect(Confidence::Medium));
        assert_eq!(standing(&waiting(signal, None)), suspect(Confidence::Low));
        assert_eq!(standing(&waiting(signal, Some(true))), (Standing::Idle, None));
        assert_eq!(standing(&waiting(Meaning::Sleep, Some(false))), suspect(Confidence::High));
        let worked = Evidence { cpu_of_life: 5_000_000_000, ..waiting(signal, Some(false)) };
        assert_eq!(standing(&worked), suspect(Confidence::Low));
        for (meaning, expected) in [
            (Meaning::Work("a channel"), Standing::Idle),
            (Meaning::Connection, Standing::Idle),
            (Meaning::Console, Standing::Idle),
            (Meaning::Task, Standing::Blocked),
            (Meaning::Join, Standing::Blocked),
            (Meaning::Lock, Standing::Blocked),
            (Meaning::Io, Standing::Blocked),
        ] {
            assert_eq!(standing(&waiting(meaning, Some(false))), (expected, None), "{meaning:?}");
        }
    }

    #[test]
    fn what_ran_or_was_hardly_seen_is_no_zombie() {
        let zombie = || waiting(Meaning::Signal("an event"), Some(false));
        let of = |change: fn(&mut Evidence)| {
            let mut evidence = zombie();
            change(&mut evidence);
            standing(&evidence).0
        };
        assert_eq!(of(|evidence| evidence.cpu = 1), Standing::Progress);
        assert_eq!(of(|evidence| evidence.changes = 1), Standing::Progress);
        assert_eq!(of(|evidence| evidence.snapshots = 2), Standing::Unjudged);
        assert_eq!(of(|evidence| evidence.program = false), Standing::Idle);
        for role in [ThreadRole::Main, ThreadRole::Runtime, ThreadRole::Native] {
            assert_eq!(standing(&Evidence { role, ..zombie() }).0, Standing::Idle, "{role:?}");
        }
        // A worker of the pool that waits below the program's code does not come back.
        assert_eq!(of(|evidence| evidence.role = ThreadRole::Pool), Standing::ZombieSuspect);
    }

    #[test]
    fn leaks_are_what_stays_while_more_comes() {
        let method = Starter::Method(FunctionId(1));
        assert!(leaks(method, 10, 10, 9).0);
        assert!(leaks(method, 10, 8, 9).0);
        assert!(!leaks(method, 10, 5, 9).0, "half of them end");
        assert!(!leaks(method, 12, 12, 0).0, "started once");
        assert!(!leaks(method, 0, 0, 12).0, "none is old");
        assert!(!leaks(Starter::Pool, 10, 10, 9).0);
    }
}
