//! `cpu`: where threads spend time on a processor.

use crate::{
    Collector, ProfilerSpec, Settings, Stacked, Tables, Task, ThreadMap, ValueSpec, WorkerCx,
};
use std::sync::{Mutex, PoisonError};
use wire::{CpuEngine, CpuSample, Nanos, Record};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "cpu",
    summary: "Where threads spend time on a processor",
    overhead: "About a percent or less of the program's speed, at 100 and at 1000 samples per \
        second.",
    description: "Takes the stack of every running thread, managed and native frames in one, at \
        each tick of the thread's own CPU time. Threads that wait are not sampled: use wall for \
        them. clrscope reads the kernel's sampling ring from outside where the machine allows it. \
        Otherwise it uses timer signals inside the process. Where neither works, the runtime is \
        suspended for each sample, which sees only safepoints. The report names the engine. --rate \
        sets the rate.",
    values: &[
        ValueSpec { kind: "samples", unit: "count" },
        ValueSpec { kind: "cpu", unit: "nanoseconds" },
    ],
    params: &[],
    // THREADS, SUSPENDS, JIT_COMPILATION, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS,
    // BASIC_GC: threads to name, and intervals of collection, suspension and compilation to label
    // native frames with.
    events: (0x200 | 0x1_0000 | 0x20 | 0x1000_0000, 0x4 | 0x10),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: true,
    checkup: Some("cpu"),
    samples_cpu: true,
    engine: |facts| facts.cpu.to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[];

/// Inside, only the suspend-and-walk engine is a collector: the kernel ring is read from outside,
/// and the signal engine has no callbacks. But where that one cannot run, this one takes its place.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    matches!(
        settings.session.cpu,
        CpuEngine::SuspendWalk | CpuEngine::Signals | CpuEngine::KernelRing
    )
    .then(|| {
        let interval = 1_000_000_000 / Nanos::from(settings.session.rate_hz.clamp(1, 1000));
        Box::new(SuspendWalk { interval, last_run: Mutex::default() }) as Box<dyn Collector>
    })
}

struct SuspendWalk {
    interval: Nanos,
    last_run: Mutex<ThreadMap<Nanos>>,
}

impl Collector for SuspendWalk {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.interval)
    }

    /// This engine is the last resort, and worth more: with less it would hardly sample.
    fn most_stopped(&self) -> u64 {
        100
    }

    fn most_cpu(&self) -> u64 {
        100
    }

    fn tick(&self, cx: &mut dyn WorkerCx) {
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = cx.tasks();
        let ran: Vec<(Task, Nanos)> = tasks
            .iter()
            .filter_map(|task| {
                // A thread seen for the first time has no earlier point to count from.
                let used = task.run.saturating_sub(*last_run.get(&task.os_tid)?);
                (used > 0).then_some((*task, used))
            })
            .collect();
        last_run.clear();
        last_run.extend(tasks.iter().map(|task| (task.os_tid, task.run)));
        if ran.is_empty() {
            return;
        }
        let time = cx.now();
        let walked = cx.walk(&ran.iter().map(|(task, _)| *task).collect::<Vec<_>>());
        for ((task, cpu), stacked) in ran.into_iter().zip(walked.threads) {
            let Some(Stacked { stack, .. }) = stacked else {
                // What a thread that was left out has used counts when it is walked again.
                last_run.insert(task.os_tid, task.run.saturating_sub(cpu));
                continue;
            };
            if let Some(stack) = stack {
                cx.send(Record::CpuSample(CpuSample { time, os_tid: task.os_tid, cpu, stack }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::testing::Script;

    #[test]
    fn only_threads_that_ran_are_sampled_with_the_time_they_used() {
        let collector = SuspendWalk { interval: 1, last_run: Mutex::default() };
        let mut script = Script { tasks: vec![(1, 100), (2, 50)], ..Script::default() };
        collector.tick(&mut script);
        assert_eq!(script.sent, [], "nothing to count from yet");
        script.tasks = vec![(1, 130), (2, 50), (3, 5)];
        collector.tick(&mut script);
        assert_eq!(
            script.sent,
            [Record::CpuSample(CpuSample { time: 0, os_tid: 1, cpu: 30, stack: 1 })]
        );
        assert_eq!(script.asked, [vec![1]]);
        script.sent.clear();
        collector.tick(&mut script);
        assert_eq!(script.sent, []);
        assert_eq!(script.asked.len(), 1, "nobody ran: no walk");
    }

    #[test]
    fn the_time_of_a_thread_that_was_left_out_counts_when_it_is_walked() {
        let collector = SuspendWalk { interval: 1, last_run: Mutex::default() };
        let mut script = Script { tasks: vec![(1, 100), (2, 50)], ..Script::default() };
        collector.tick(&mut script);
        script.left_out = vec![2];
        for run in [10, 20] {
            script.tasks = vec![(1, 100), (2, 50 + run)];
            collector.tick(&mut script);
            assert_eq!(script.sent, []);
        }
        script.left_out = Vec::new();
        script.tasks = vec![(1, 100), (2, 73)];
        collector.tick(&mut script);
        let sample = CpuSample { time: 0, os_tid: 2, cpu: 23, stack: 2 };
        assert_eq!(script.sent, [Record::CpuSample(sample)]);
    }
}
