//! `wall`: what every thread does or waits for.

use crate::{
    Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, Stacked, Tables, ThreadMap, ValueSpec,
    WorkerCx,
};
use std::sync::{Mutex, PoisonError};
use wire::{Nanos, Record, WallSample, WallTick};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "wall",
    summary: "What every thread does or waits for",
    overhead: "At most 2.5 % of one processor.",
    description: "Takes the stack of every managed thread at regular times, running or waiting, \
        with the kind of wait: lock, sleep, I/O, idle pool thread. Nothing is suspended for it: \
        the stacks of blocked threads are copied while they do not change, and running threads \
        have the stacks of their CPU samples, which are taken for this, too. Threads that did not \
        run since the last tick are not read again. Where blocked threads cannot be read, the \
        runtime is suspended for a moment at each tick and walks the threads that ran. The report \
        names the engine. Ticks that would cost too much are skipped, and the remaining ticks \
        stand for more time.",
    values: &[
        ValueSpec { kind: "samples", unit: "count" },
        ValueSpec { kind: "wall", unit: "nanoseconds" },
    ],
    params: &[ParamSpec {
        name: "rate",
        help: "Ticks per second",
        default: "20",
        kind: ParamKind::Number(1, 100),
    }],
    // THREADS, SUSPENDS, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x200 | 0x1_0000 | 0x1000_0000, 0x4),
    event_pipe: &[],
    shows_running: true,
    checkup: Some("wall:rate=10"),
    engine: |facts| facts.stacks.to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[];

/// The collector.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    let interval = 1_000_000_000 / settings.number("rate").max(1);
    Some(Box::new(Wall::new(SPEC.id, interval)))
}

/// Takes the stacks of all managed threads at each tick.
pub(crate) struct Wall {
    id: &'static str,
    interval: Nanos,
    last_run: Mutex<ThreadMap<Nanos>>,
}

impl Wall {
    /// For the profiler of this id.
    pub(crate) fn new(id: &'static str, interval: Nanos) -> Self {
        Self { id, interval, last_run: Mutex::default() }
    }
}

impl Collector for Wall {
    fn id(&self) -> &'static str {
        self.id
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.interval)
    }

    fn tick(&self, cx: &mut dyn WorkerCx) {
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        let time = cx.now();
        let tasks = cx.tasks();
        let taken = cx.stacks(&tasks);
        let mut ran = ThreadMap::with_capacity_and_hasher(tasks.len(), Default::default());
        let mut threads = Vec::with_capacity(tasks.len());
        for (task, stacked) in tasks.iter().zip(taken.threads) {
            let before = last_run.get(&task.os_tid).copied().unwrap_or(task.run);
            // What a thread that was left out has used counts when it is seen again.
            ran.insert(task.os_tid, if stacked.is_some() { task.run } else { before });
            if let Some(Stacked { stack, state }) = stacked {
                let cpu = task.run.saturating_sub(before);
                threads.push(WallSample { os_tid: task.os_tid, stack, cpu, state });
            }
        }
        *last_run = ran;
        let tick = WallTick { time, stopped: taken.stopped, threads };
        cx.send(Record::ThreadTick { profiler: self.id.to_owned(), tick });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::testing::Script;

    #[test]
    fn every_thread_is_in_every_tick() {
        let collector = Wall::new(SPEC.id, 1);
        let mut script = Script { tasks: vec![(1, 100), (2, 50)], ..Script::default() };
        collector.tick(&mut script);
        script.tasks = vec![(1, 130), (2, 50), (3, 5)];
        collector.tick(&mut script);
        let Some(Record::ThreadTick { profiler, tick }) = script.sent.last() else {
            panic!("{:?}", script.sent)
        };
        assert_eq!(profiler, "wall");
        let cpu: Vec<_> =
            tick.threads.iter().map(|thread| (thread.os_tid, thread.stack, thread.cpu)).collect();
        assert_eq!(cpu, [(1, Some(1), 30), (2, Some(2), 0), (3, Some(3), 0)]);
        assert_eq!(script.sent.len(), 2);
        assert_eq!(tick.stopped, 7);
    }

    #[test]
    fn a_thread_that_was_left_out_is_no_sample_and_its_cpu_time_counts_once() {
        let collector = Wall::new(SPEC.id, 1);
        let mut script = Script { tasks: vec![(1, 100), (2, 50)], ..Script::default() };
        collector.tick(&mut script);
        script.tasks = vec![(1, 130), (2, 60)];
        script.left_out = vec![2];
        collector.tick(&mut script);
        script.left_out = Vec::new();
        collector.tick(&mut script);
        let seen: Vec<Vec<_>> = script
            .sent
            .iter()
            .map(|record| {
                let Record::ThreadTick { tick, .. } = record else { panic!("{record:?}") };
                tick.threads.iter().map(|thread| (thread.os_tid, thread.cpu)).collect()
            })
            .collect();
        assert_eq!(seen, [vec![(1, 0), (2, 0)], vec![(1, 30)], vec![(1, 0), (2, 10)]]);
    }
}
