use std::collections::{BTreeMap, HashMap};

use session::{CounterKind, Nanos, PoolChange, PoolEvent, SampleBatch, StackId, ThreadId, ThreadState};

use crate::{Counter, Place, Profile, STATES, Series, SeriesKind, series::Row, state_index};

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
    pub(crate) fn new(start: Nanos, keep_samples: bool) -> Self {
        Self { series: Series::new(SeriesKind::Pool, start, keep_samples), samples: Vec::new(), events: Vec::new() }
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
    pub place: Place,
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
    /// Share of the looks at the queue that found items in it, 0 to 1; `None` without looks.
    pub queued: Option<f64>,
    /// Share of the time of workers with work in which they were blocked: all the time, and while items waited.
    pub blocked: (f64, f64),
    /// Time of all workers by what they did, in the order of [`STATES`].
    pub by_state: [u64; STATES.len()],
    /// Time of all workers that had work.
    pub at_work: u64,
    /// Limits of the number of workers, where they were told: fewest, most.
    pub limits: Option<(u32, u32)>,
    /// Workers that began and ended, as far as the runtime told.
    pub started: u64,
    /// See `started`.
    pub stopped: u64,
    /// Why the number of workers was changed.
    pub adjustments: Vec<AdjustmentRow>,
    /// Where workers are blocked, longest first.
    pub blocking: Vec<BlockingRow>,
}

/// Share of the looks at the queue from which items are said to wait.
const WAITS: f64 = 0.2;

/// Share of the time at work from which workers are said to be blocked.
const BLOCKED: f64 = 0.5;

/// Fewest looks at the queue.
const FEWEST_LOOKS: usize = 3;

/// Values that come sooner after the one before are a part of it.
const PART: Nanos = 300_000_000;

/// Workers added because of blocking from which the pool is said to suffer from it.
const MANY_ADDED: u64 = 3;

/// Whether workers in a state have work and do not run.
pub fn blocks(state: ThreadState) -> bool {
    !matches!(state, ThreadState::Running | ThreadState::Idle | ThreadState::Gc)
}

impl Profile {
    /// A counter of the thread pool, by the end of its name: `queue-length`, `thread-count`, `completed-items-count`.
    ///
    /// .NET Core 3.1 sends the values of a second in two parts, the second of a few milliseconds: those are put together.
    pub fn pool_counter(&self, name: &str) -> Option<Counter> {
        let is_it = |counter: &&Counter| {
            counter.def.source == "System.Runtime" && counter.def.name.strip_prefix("threadpool-") == Some(name)
        };
        let counter = self.counters.iter().find(is_it)?;
        let mut values = Vec::with_capacity(counter.values.len());
        // Time of the value before the last.
        let mut before = self.start;
        for (time, value) in &counter.values {
            match values.last_mut() {
                Some((last, kept)) if time.saturating_sub(*last) < PART => {
                    if counter.def.kind == CounterKind::Rate {
                        let (one, other) = (last.saturating_sub(before) as f64, time.saturating_sub(*last) as f64);
                        *kept = (*kept * one + value * other) / (one + other).max(1.0);
                    } else {
                        *kept = *value;
                    }
                    *last = *time;
                }
                last => {
                    before = last.map_or(self.start, |(last, _)| *last);
                    values.push((*time, *value));
                }
            }
        }
        Some(Counter { def: counter.def.clone(), values })
    }

    /// What is known of the thread pool.
    pub fn pool_summary(&self) -> PoolSummary {
        let queue: Vec<(Nanos, f64)> =
            self.pool_counter("queue-length").map(|counter| counter.values).unwrap_or_default();
        // A look says how it was until then.
        let queued_at = |time: Nanos| {
            let next = queue.partition_point(|(at, _)| *at < time);
            queue.get(next).or(queue.last()).is_some_and(|(_, length)| *length > 0.0)
        };
        let (mut by_state, mut at_work, mut at_work_queued, mut blocked, mut blocked_queued) =
            ([0_u64; STATES.len()], 0_u64, 0_u64, 0_u64, 0_u64);
        /// Time, time while items waited, time by stack, workers.
        type Sums = (u64, u64, HashMap<StackId, u64>, BTreeMap<ThreadId, ()>);
        let mut places: HashMap<(ThreadState, Place), Sums> = HashMap::new();
        let mut place_of: HashMap<StackId, Place> = HashMap::new();
        for sample in &self.pool.samples {
            by_state[state_index(sample.state)] += sample.weight;
            if sample.state == ThreadState::Idle {
                continue;
            }
            let queued = if queued_at(sample.time) { sample.weight } else { 0 };
            at_work += sample.weight;
            at_work_queued += queued;
            if !blocks(sample.state) {
                continue;
            }
            blocked += sample.weight;
            blocked_queued += queued;
            let place = *place_of.entry(sample.stack).or_insert_with(|| self.tables.place(sample.stack));
            let sums = places.entry((sample.state, place)).or_default();
            sums.0 += sample.weight;
            sums.1 += queued;
            *sums.2.entry(sample.stack).or_default() += sample.weight;
            sums.3.insert(sample.thread, ());
        }
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let mut blocking: Vec<BlockingRow> = places
            .into_iter()
            .filter_map(|((state, place), (time, time_queued, stacks, threads))| {
                let stack = crate::exceptions::heaviest(stacks)?;
                let (share, threads) = (share(time, at_work), threads.len() as u64);
                Some(BlockingRow { state, place, stack, time, time_queued, share, threads })
            })
            .collect();
        blocking.sort_by(|a, b| b.time.cmp(&a.time).then((a.state, a.place).cmp(&(b.state, b.place))));

        let (mut started, mut stopped, mut limits, mut workers) = (0, 0, None, None);
        let mut adjustments: Vec<AdjustmentRow> = Vec::new();
        for PoolEvent { time, change } in &self.pool.events {
            match change {
                PoolChange::Started { .. } => started += 1,
                PoolChange::Stopped { .. } => stopped += 1,
                PoolChange::Limits { min, max } => limits = Some((*min, *max)),
                PoolChange::Adjusted { workers: now, reason, .. } => {
                    // The first is counted as one more, which starvation and blocking always are.
                    let more = workers.map_or(1, |before: u32| i64::from(*now) - i64::from(before));
                    workers = Some(*now);
                    match adjustments.iter_mut().find(|row| row.reason == *reason) {
                        Some(row) => {
                            row.count += 1;
                            row.workers += more;
                            row.times.1 = *time;
                        }
                        None => {
                            let (reason, times) = (reason.clone(), (*time, *time));
                            adjustments.push(AdjustmentRow { reason, count: 1, workers: more, times });
                        }
                    }
                }
            }
        }
        adjustments.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));

        let waits = queue.iter().filter(|(_, length)| *length > 0.0).count();
        let queued = (!queue.is_empty()).then(|| waits as f64 / queue.len() as f64);
        let blocked = (share(blocked, at_work), share(blocked_queued, at_work_queued));
        let added: u64 = adjustments
            .iter()
            .filter(|row| matches!(row.reason.as_str(), "Starvation" | "CooperativeBlocking"))
            .map(|row| row.count)
            .sum();
        let health = match queued {
            _ if queue.len() < FEWEST_LOOKS => PoolHealth::Unknown,
            // Without a worker that was seen at work, nobody knows why items wait.
            Some(queued) if queued >= WAITS && at_work_queued == 0 => PoolHealth::Unknown,
            Some(queued) if queued >= WAITS && blocked.1 >= BLOCKED => PoolHealth::Starved,
            _ if added >= MANY_ADDED && blocked.0 >= BLOCKED => PoolHealth::Blocking,
            Some(queued) if queued >= WAITS => PoolHealth::Busy,
            _ => PoolHealth::Healthy,
        };
        PoolSummary { health, queued, blocked, by_state, at_work, limits, started, stopped, adjustments, blocking }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildOptions, ProfileBuilder};
    use session::{CounterDef, CounterId, Entry, SessionInfo, SessionRecord};

    #[test]
    fn values_of_a_second_in_two_parts_are_put_together() {
        let mut builder = ProfileBuilder::new(BuildOptions::default());
        let mut add = |record| builder.add(&record).unwrap();
        add(SessionRecord::Info(SessionInfo {
            tool_version: String::new(),
            pid: 1,
            process_name: String::new(),
            command_line: String::new(),
            runtime: "3.1.23".into(),
            platform: String::new(),
            entry: Entry::Attached,
            start_unix_ms: 0,
            start: 0,
            cpus: 1,
            profilers: Vec::new(),
        }));
        for (id, (name, kind)) in
            (0..).zip([("queue-length", CounterKind::Level), ("completed-items-count", CounterKind::Rate)])
        {
            let id = CounterId(id);
            let (source, name) = ("System.Runtime".to_owned(), format!("threadpool-{name}"));
            let (title, unit, tags) = (name.clone(), String::new(), String::new());
            add(SessionRecord::Counter(CounterDef { id, source, name, title, unit, tags, kind }));
        }
        // A second with 99 items, and 10 ms with one.
        for (time, length, rate) in [(990_000_000, 5.0, 100.0), (1_000_000_000, 7.0, 1000.0), (1_990_000_000, 0.0, 0.0)]
        {
            let values = vec![(CounterId(0), length), (CounterId(1), rate)];
            add(SessionRecord::CounterValues { time, values });
        }
        let profile = builder.finish(false).unwrap();
        let values = |name: &str| profile.pool_counter(name).unwrap().values;
        assert_eq!(values("queue-length"), [(1_000_000_000, 7.0), (1_990_000_000, 0.0)]);
        assert_eq!(values("completed-items-count"), [(1_000_000_000, 109.0), (1_990_000_000, 0.0)]);
        assert!(profile.pool_counter("no-such").is_none());
    }
}
