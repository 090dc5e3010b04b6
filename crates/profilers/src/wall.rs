//! `wall`: what every thread does or waits for.

use crate::{Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, ValueSpec, WorkerCx};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use wire::{Nanos, Record, WallSample, WallTick};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "wall",
    summary: "What every thread does or waits for",
    description: "Takes the stack of every managed thread at regular times, running or waiting, with the class of \
        the wait: lock, sleep, I/O, idle pool thread. The runtime is suspended for the moment of a walk, so stacks \
        are exact but seen at safepoints; threads that did not run since the last tick are not walked again. The \
        time that the world stood still for it is in the report, and never more than a hundredth of the time: \
        where stops take long, ticks are left out, and those that come stand for more time.",
    values: &[ValueSpec { kind: "samples", unit: "count" }, ValueSpec { kind: "wall", unit: "nanoseconds" }],
    params: &[ParamSpec { name: "rate", help: "Ticks per second", default: "20", kind: ParamKind::Number(1, 100) }],
    // THREADS, SUSPENDS, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x200 | 0x1_0000 | 0x1000_0000, 0x4),
    event_pipe: &[],
    since: 3,
    attach: true,
};

/// The collector.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    let interval = 1_000_000_000 / settings.number("rate").max(1);
    Some(Box::new(Wall::new(SPEC.id, interval, Record::WallTick)))
}

/// Takes the stacks of all managed threads at each tick.
pub(crate) struct Wall {
    id: &'static str,
    interval: Nanos,
    /// What a tick is sent as.
    record: fn(WallTick) -> Record,
    last_run: Mutex<HashMap<u32, Nanos>>,
}

impl Wall {
    pub(crate) fn new(id: &'static str, interval: Nanos, record: fn(WallTick) -> Record) -> Self {
        Self { id, interval, record, last_run: Mutex::default() }
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
        let walk = cx.stacks(&tasks);
        let threads = tasks
            .iter()
            .zip(walk.stacks)
            .map(|(task, stack)| {
                let before = last_run.get(&task.os_tid).copied().unwrap_or(task.run);
                let cpu = task.run.saturating_sub(before);
                WallSample { os_tid: task.os_tid, stack, cpu, state: task.state }
            })
            .collect();
        last_run.clear();
        last_run.extend(tasks.iter().map(|task| (task.os_tid, task.run)));
        cx.send((self.record)(WallTick { time, stopped: walk.stopped, threads }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::testing::Script;

    #[test]
    fn every_thread_is_in_every_tick() {
        let collector = Wall::new(SPEC.id, 1, Record::WallTick);
        let mut script = Script { tasks: vec![(1, 100), (2, 50)], ..Script::default() };
        collector.tick(&mut script);
        script.tasks = vec![(1, 130), (2, 50), (3, 5)];
        collector.tick(&mut script);
        let Some(Record::WallTick(tick)) = script.sent.last() else { panic!("{:?}", script.sent) };
        let cpu: Vec<_> = tick.threads.iter().map(|thread| (thread.os_tid, thread.stack, thread.cpu)).collect();
        assert_eq!(cpu, [(1, Some(1), 30), (2, Some(2), 0), (3, Some(3), 0)]);
        assert_eq!(script.sent.len(), 2);
        assert_eq!(tick.stopped, 7);
    }
}
