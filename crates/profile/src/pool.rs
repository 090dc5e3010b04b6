use std::collections::{BTreeMap, BTreeSet, HashMap};

use profilers::threadpool::{PoolChange, PoolEvent};
use session::{Nanos, SampleBatch, StackId, ThreadId, ThreadState};

use crate::{
    CallSite, Counter, Profile, STATES, Series, SeriesKind,
    series::{Keep, Row, add},
    state_index,
};

/// A worker of the thread pool at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSample {
    /// When.
    pub time: Nanos,
    /// Which worker.
    pub thread: ThreadId,
    /// Where.
    pub stack: StackId,
    /// What it did or waited for.
    pub state: ThreadState,
    /// Time that this stands for, nanoseconds.
    pub weight: u64,
    /// Whether the stack is cut.
    pub truncated: bool,
}

/// The thread pool.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Time of its workers.
    pub series: Series,
    /// Single samples of them.
    pub samples: Vec<PoolSample>,
    /// What happened to it.
    pub events: Vec<PoolEvent>,
}

impl Pool {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        Self {
            series: Series::new(SeriesKind::Pool, start, keep),
            samples: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, sample: PoolSample) {
        let PoolSample { time, thread, stack, state, weight, truncated } = sample;
        self.series.add(Row { time, thread, stack, state, truncated, weight }, 1);
        self.samples.push(sample);
    }

    pub(crate) fn add_batch(&mut self, batch: &SampleBatch, inside: impl Fn(Nanos) -> bool) {
        let mut time = batch.start;
        for (index, delta) in batch.time_delta.iter().enumerate() {
            time = time.wrapping_add(*delta);
            if inside(time) {
                self.add(PoolSample {
                    time,
                    thread: batch.thread[index],
                    stack: batch.stack[index],
                    state: batch.state[index],
                    weight: batch.weight[index],
                    truncated: batch.truncated[index],
                });
            }
        }
    }
}

/// How the thread pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolHealth {
    /// Work waits while the workers block.
    Starved,
    /// The workers block so much that the pool adds others; the queue was empty nearly always.
    Blocking,
    /// Work waits while the workers run: there is more of it than the processors do.
    Busy,
    /// Work hardly waits.
    Healthy,
    /// Too little was seen.
    Unknown,
}

impl PoolHealth {
    /// In data formats.
    pub fn id(self) -> &'static str {
        match self {
            Self::Starved => "starved",
            Self::Blocking => "blocking",
            Self::Busy => "busy",
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
        }
    }
}

/// What says whether items waited in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEvidence {
    /// The length of the queue, about once per second.
    Length,
    /// Where the length is not read (.NET Core 3.1 and .NET 5), second by second: the pool added a
    /// worker because items waited and none was taken for half a second; or items are finished, and
    /// as many workers as the pool wants were at work, and no sample found one idle.
    Workers,
}

impl QueueEvidence {
    /// In data formats.
    pub fn id(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Workers => "workers",
        }
    }
}

/// Why the pool changed the number of its workers.
#[derive(Clone, Debug, PartialEq)]
pub struct AdjustmentRow {
    /// In the words of the runtime's events.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// By how many workers in all; below zero for fewer.
    pub workers: i64,
    /// First and last time.
    pub times: (Nanos, Nanos),
}

/// Where workers are blocked.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockingRow {
    /// What they wait for.
    pub state: ThreadState,
    /// The innermost method of the program.
    pub place: CallSite,
    /// The stack with most of the time.
    pub stack: StackId,
    /// How long, of all workers together, nanoseconds.
    pub time: u64,
    /// Of it while items waited in the queue.
    pub time_queued: u64,
    /// Share in the time of all workers that had work, 0 to 1.
    pub share: f64,
    /// Workers that were seen there.
    pub threads: u64,
}

/// What is known of the thread pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSummary {
    /// How it is.
    pub health: PoolHealth,
    /// What says whether items waited.
    pub evidence: QueueEvidence,
    /// Share of the snapshots of the queue that found items in it, or of the seconds in which items
    /// waited, as far as can be said without the length: 0 to 1; `None` without either.
    pub queued: Option<f64>,
    /// Share of the time of workers with work in which they were blocked: all the time, and while
    /// items waited.
    pub blocked: (f64, f64),
    /// Time of all workers by what they did, in the order of [`STATES`].
    pub by_state: [u64; STATES.len()],
    /// Time of all workers that had work.
    pub at_work: u64,
    /// Limits of the number of workers, where they were reported: fewest, most.
    pub limits: Option<(u32, u32)>,
    /// Workers that began, as far as the runtime reported.
    pub started: u64,
    /// Workers that ended, as far as the runtime reported.
    pub stopped: u64,
    /// Why the number of workers was changed.
    pub adjustments: Vec<AdjustmentRow>,
    /// Where workers are blocked, longest first.
    pub blocking: Vec<BlockingRow>,
}

/// For how long no item was taken when the pool adds a worker because of starvation, at least:
/// `GATE_THREAD_DELAY` in win32threadpool.cpp of .NET Core 3.1.
const NONE_TAKEN: Nanos = 500_000_000;

/// Share of the snapshots of the queue from which items are said to wait.
const WAITS: f64 = 0.2;

/// Why the pool adds a worker while items wait and none is taken, in the words of the runtime's
/// events.
pub const STARVATION: &str = "Starvation";

const SECOND: Nanos = 1_000_000_000;

/// Share of the time at work from which workers are said to be blocked.
const BLOCKED: f64 = 0.5;

/// Fewest snapshots of the queue.
const FEWEST_LOOKS: usize = 3;

/// Workers added because of blocking from which the pool is said to suffer from it.
const MANY_ADDED: u64 = 3;

/// Whether workers in a state have work and do not run because of something that the program does.
pub fn blocks(state: ThreadState) -> bool {
    use ThreadState::{Gc, Idle, NoProcessor, Running, Runtime, Throttled};
    !matches!(state, Running | Idle | Gc | Runtime | NoProcessor | Throttled)
}

/// What workers spent their time on.
#[derive(Default)]
struct PoolTimes {
    by_state: [u64; STATES.len()],
    /// With work: all of it, and while items waited.
    at_work: u64,
    at_work_queued: u64,
    /// Blocked: all of it, and while items waited.
    blocked: u64,
    blocked_queued: u64,
    places: HashMap<(ThreadState, CallSite), PlaceSums>,
}

/// Sums of a place where workers are blocked.
#[derive(Default)]
struct PlaceSums {
    time: u64,
    time_queued: u64,
    stacks: HashMap<StackId, u64>,
    threads: BTreeSet<ThreadId>,
}

/// What the runtime reported of the number of workers; see [`PoolSummary`].
#[derive(Default)]
struct PoolChanges {
    started: u64,
    stopped: u64,
    limits: Option<(u32, u32)>,
    adjustments: Vec<AdjustmentRow>,
    /// Where the row of each reason is.
    reasons: HashMap<String, usize>,
}

impl PoolChanges {
    fn adjusted(&mut self, time: Nanos, reason: &str, more: i64) {
        let known = self.reasons.get(reason).and_then(|at| self.adjustments.get_mut(*at));
        match known {
            Some(row) => {
                row.count += 1;
                row.workers = row.workers.saturating_add(more);
                row.times.1 = time;
            }
            None => {
                self.reasons.insert(reason.to_owned(), self.adjustments.len());
                self.adjustments.push(AdjustmentRow {
                    reason: reason.to_owned(),
                    count: 1,
                    workers: more,
                    times: (time, time),
                });
            }
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Longest first.
fn blocking_rows(
    places: HashMap<(ThreadState, CallSite), PlaceSums>,
    at_work: u64,
) -> Vec<BlockingRow> {
    let mut rows: Vec<BlockingRow> = places
        .into_iter()
        .filter_map(|((state, place), sums)| {
            Some(BlockingRow {
                state,
                place,
                stack: crate::exceptions::heaviest(sums.stacks)?,
                time: sums.time,
                time_queued: sums.time_queued,
                share: share(sums.time, at_work),
                threads: sums.threads.len() as u64,
            })
        })
        .collect();
    order::sort_by(&mut rows, |a, b| {
        b.time.cmp(&a.time).then((a.state, a.place).cmp(&(b.state, b.place)))
    });
    rows
}

impl Profile {
    /// A counter of the thread pool, by the end of its name: `queue-length`, `thread-count`,
    /// `completed-items-count`.
    pub fn pool_counter(&self, name: &str) -> Option<&Counter> {
        let is_it = |counter: &&Counter| {
            counter.def.source == "System.Runtime"
                && counter.def.name.strip_prefix("threadpool-") == Some(name)
        };
        self.counters.iter().find(is_it)
    }

    /// Whether items waited in the queue until each of these times.
    fn pool_queue(&self) -> (QueueEvidence, Vec<(Nanos, bool)>) {
        if let Some(counter) = self.pool_counter("queue-length") {
            let waited = counter.values.iter().map(|(time, length)| (*time, *length > 0.0));
            return (QueueEvidence::Length, waited.collect());
        }
        let major = self.info.runtime.split('.').next().and_then(|major| major.parse::<u16>().ok());
        if major.is_none_or(|major| major >= 6) {
            return (QueueEvidence::Length, Vec::new());
        }
        // When, how many the pool wants from then on, and whether because of starvation. In the
        // order of their times.
        let mut are_done = false;
        let mut changes: Vec<(Nanos, usize, bool)> = Vec::new();
        for event in &self.pool.events {
            if event.change == PoolChange::Adjusted {
                are_done |= event.throughput.is_some_and(|throughput| throughput > 0.0);
                let starves = event.reason.as_deref() == Some(STARVATION);
                changes.push((event.time, event.workers as usize, starves));
            }
        }
        order::sort_by_key(&mut changes, |(time, ..)| *time);
        let before = |time: Nanos| changes.partition_point(|(at, ..)| *at < time);
        // Workers at work by the second, and seconds with idle ones.
        let mut busy: BTreeMap<u64, BTreeSet<ThreadId>> = BTreeMap::new();
        let mut idle = BTreeSet::new();
        for sample in &self.pool.samples {
            let second = sample.time.saturating_sub(self.start) / SECOND;
            if sample.state == ThreadState::Idle {
                idle.insert(second);
            } else {
                busy.entry(second).or_default().insert(sample.thread);
            }
        }
        // How many the pool wanted. One fewer before the first change: it is for more.
        let wanted = |time: Nanos| match (before(time).checked_sub(1), changes.first()) {
            (Some(last), _) => changes.get(last).map_or(0, |(_, workers, _)| *workers),
            (None, Some((_, workers, _))) => workers.saturating_sub(1),
            (None, None) => self.info.cpus as usize,
        };
        let seconds = self.stop.saturating_sub(self.start) / SECOND;
        let waited = (0..seconds).map(|second| {
            let from = self.start + second * SECOND;
            let within = before(from)..before(from + SECOND + NONE_TAKEN);
            let stalled =
                changes.get(within).is_some_and(|some| some.iter().any(|(.., starved)| *starved));
            let at_work = busy.get(&second).map_or(0, BTreeSet::len);
            let none_free = are_done && at_work >= wanted(from).max(1) && !idle.contains(&second);
            (from + SECOND, stalled || none_free)
        });
        (QueueEvidence::Workers, waited.collect())
    }

    /// What is known of the thread pool.
    pub fn pool_summary(&self) -> PoolSummary {
        let (evidence, queue) = self.pool_queue();
        // A snapshot says how it was until then.
        let queued_at = |time: Nanos| {
            let next = queue.partition_point(|(at, _)| *at < time);
            queue.get(next).or(queue.last()).is_some_and(|(_, waited)| *waited)
        };
        let times = self.pool_times(queued_at);
        let (at_work, at_work_queued) = (times.at_work, times.at_work_queued);
        let blocked = (share(times.blocked, at_work), share(times.blocked_queued, at_work_queued));
        let PoolChanges { started, stopped, limits, adjustments, .. } = self.pool_changes();
        let waits = queue.iter().filter(|(_, waited)| *waited).count();
        let queued = (!queue.is_empty()).then(|| waits as f64 / queue.len() as f64);
        let health = if queue.len() < FEWEST_LOOKS {
            PoolHealth::Unknown
        } else {
            self.pool_health(queued, at_work_queued, blocked, &adjustments)
        };
        PoolSummary {
            health,
            evidence,
            queued,
            blocked,
            by_state: times.by_state,
            at_work,
            limits,
            started,
            stopped,
            adjustments,
            blocking: blocking_rows(times.places, at_work),
        }
    }

    /// What workers spent their time on; `queued_at` says when items waited.
    fn pool_times(&self, queued_at: impl Fn(Nanos) -> bool) -> PoolTimes {
        let mut times = PoolTimes::default();
        let mut place_of: HashMap<StackId, CallSite> = HashMap::new();
        for sample in &self.pool.samples {
            add(&mut times.by_state[state_index(sample.state)], sample.weight);
            if sample.state == ThreadState::Idle {
                continue;
            }
            let queued = if queued_at(sample.time) { sample.weight } else { 0 };
            add(&mut times.at_work, sample.weight);
            add(&mut times.at_work_queued, queued);
            if !blocks(sample.state) {
                continue;
            }
            add(&mut times.blocked, sample.weight);
            add(&mut times.blocked_queued, queued);
            let place =
                *place_of.entry(sample.stack).or_insert_with(|| self.tables.place(sample.stack));
            let sums = times.places.entry((sample.state, place)).or_default();
            add(&mut sums.time, sample.weight);
            add(&mut sums.time_queued, queued);
            add(sums.stacks.entry(sample.stack).or_default(), sample.weight);
            sums.threads.insert(sample.thread);
        }
        times
    }

    /// What the runtime reported of the number of workers.
    fn pool_changes(&self) -> PoolChanges {
        let (mut changes, mut workers) = (PoolChanges::default(), None);
        for event in &self.pool.events {
            match event.change {
                PoolChange::Started => changes.started += 1,
                PoolChange::Stopped => changes.stopped += 1,
                PoolChange::Limits => {
                    changes.limits = event.most.map(|most| (event.workers, most));
                }
                PoolChange::Adjusted => {
                    let now = event.workers;
                    // The first is counted as one more, which starvation and blocking always are.
                    let more = workers.map_or(1, |before: u32| i64::from(now) - i64::from(before));
                    workers = Some(now);
                    changes.adjusted(event.time, event.reason.as_deref().unwrap_or(""), more);
                }
            }
        }
        order::sort_by(&mut changes.adjustments, |a, b| {
            b.count.cmp(&a.count).then(a.reason.cmp(&b.reason))
        });
        changes
    }

    /// How the pool is, where enough is known of its queue.
    fn pool_health(
        &self,
        queued: Option<f64>,
        at_work_queued: u64,
        blocked: (f64, f64),
        adjustments: &[AdjustmentRow],
    ) -> PoolHealth {
        let added: u64 = adjustments
            .iter()
            .filter(|row| matches!(row.reason.as_str(), STARVATION | "CooperativeBlocking"))
            .map(|row| row.count)
            .sum();
        match queued {
            // Items that are done too fast for a worker to be seen at one. Where none is done,
            // nobody knows why they wait.
            Some(queued) if queued >= WAITS && at_work_queued == 0 => {
                let done = self.pool_counter("completed-items-count").and_then(Counter::summary);
                if done.is_some_and(|done| done.mean > 0.0) {
                    PoolHealth::Healthy
                } else {
                    PoolHealth::Unknown
                }
            }
            Some(queued) if queued >= WAITS && blocked.1 >= BLOCKED => PoolHealth::Starved,
            _ if added >= MANY_ADDED && blocked.0 >= BLOCKED => PoolHealth::Blocking,
            Some(queued) if queued >= WAITS => PoolHealth::Busy,
            _ => PoolHealth::Healthy,
        }
    }
}
