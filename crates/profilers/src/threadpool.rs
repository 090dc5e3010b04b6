//! `threadpool`: whether the thread pool keeps up, and what blocks its workers.

use crate::{
    Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec, wall,
};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "threadpool",
    summary: "The thread pool: its queue, its threads, and what blocks its workers",
    overhead: "0.7 % of one processor for ten samples per second of 35 workers.",
    description: "Shows whether work waits because the workers of the thread pool are blocked \
        (starvation). Once per second the process reports the length of the queue, the number of \
        threads and of completed items. The runtime's events report when and why the pool changes \
        its number of threads. The stacks of the workers are sampled at a low rate, with what they \
        wait for: tasks (sync over async), sleep, locks, I/O.",
    values: &[
        ValueSpec { kind: "samples", unit: "count" },
        ValueSpec { kind: "threadpool", unit: "nanoseconds" },
    ],
    params: &[ParamSpec {
        name: "rate",
        help: "Samples of the workers per second",
        default: "10",
        kind: ParamKind::Number(1, 100),
    }],
    // THREADS, SUSPENDS, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x200 | 0x1_0000 | 0x1000_0000, 0x4),
    event_pipe: &[
        // Threading.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x1_0000,
            level: 4,
            arguments: "",
            runtimes: EventPipeSpec::ALL,
            stacks: false,
        },
        EventPipeSpec {
            provider: "System.Runtime",
            keywords: 0,
            level: 1,
            arguments: "EventCounterIntervalSec=1",
            runtimes: EventPipeSpec::EVENT_COUNTERS,
            stacks: false,
        },
    ],
    shows_running: true,
    checkup: Some("threadpool"),
    engine: |facts| {
        let has_counters = facts.major >= EventPipeSpec::EVENT_COUNTERS.0;
        let events = if has_counters { "EventPipe, EventCounters" } else { "EventPipe" };
        format!("{}; {events}", facts.stacks)
    },
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[PoolEvent::table];

/// The collector: ticks as those of `wall`. Which threads are workers is determined outside of the
/// target, where their stacks have names.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    let interval = 1_000_000_000 / settings.number("rate").max(1);
    Some(Box::new(wall::Wall::new(SPEC.id, interval)))
}

/// What happened to the thread pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolChange {
    /// A worker began.
    Started,
    /// A worker ended.
    Stopped,
    /// The pool wants another number of workers.
    Adjusted,
    /// The limits of the number of workers were set.
    Limits,
}

impl rows::Words for PoolChange {
    const WORDS: &'static [(Self, &'static str)] = &[
        (PoolChange::Started, "started"),
        (PoolChange::Stopped, "stopped"),
        (PoolChange::Adjusted, "adjusted"),
        (PoolChange::Limits, "limits"),
    ];
}

rows::rows! {
    /// What happened to the thread pool.
    pub struct PoolEvent in "threadpool", "events" {
        /// When.
        time: rows::Time,
        /// What.
        change: rows::Word<PoolChange>,
        /// Workers: after one began or ended, those that are active now; of an adjustment, those
        /// that the pool wants now; of limits, the fewest.
        workers: rows::Narrow<rows::Count, u32>,
        /// Of limits, the most workers.
        most: Option<rows::Narrow<rows::Count, u32>>,
        /// Of an adjustment, finished items per second that the pool has measured.
        throughput: Option<rows::Real>,
        /// Of an adjustment, why, in the words of the runtime's events: `Starvation`,
        /// `CooperativeBlocking`, `ClimbingMove` …
        reason: Option<rows::Text>,
    }
}

impl PoolEvent {
    /// A worker began or ended; this many are active now.
    pub fn worker(time: u64, change: PoolChange, active: u32) -> Self {
        Self { time, change, workers: active, most: None, throughput: None, reason: None }
    }

    /// The pool wants this many workers.
    pub fn adjusted(time: u64, workers: u32, throughput: f64, reason: String) -> Self {
        let (throughput, reason) = (Some(throughput), Some(reason));
        Self { throughput, reason, ..Self::worker(time, PoolChange::Adjusted, workers) }
    }

    /// The limits of the number of workers were set.
    pub fn limits(time: u64, fewest: u32, most: u32) -> Self {
        Self { most: Some(most), ..Self::worker(time, PoolChange::Limits, fewest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::testing::Script;

    #[test]
    fn ticks_are_told_apart_from_those_of_wall() {
        let collector = wall::Wall::new(SPEC.id, 1);
        let mut script = Script { tasks: vec![(1, 100)], ..Script::default() };
        collector.tick(&mut script);
        let [wire::Record::ThreadTick { profiler, .. }] = script.sent.as_slice() else {
            panic!("{:?}", script.sent)
        };
        assert_eq!(profiler, "threadpool");
        assert_eq!(collector.id(), "threadpool");
    }
}
