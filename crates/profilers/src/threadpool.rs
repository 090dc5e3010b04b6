//! `threadpool`: whether the thread pool keeps up, and what blocks its workers.

use crate::{Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, ValueSpec, wall};
use wire::Record;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "threadpool",
    summary: "The thread pool: its queue, its threads, and what blocks its workers",
    description: "Shows whether work waits because the workers of the thread pool are blocked \
        (starvation). Once per second the process reports the length of the queue, the number of \
        threads and of completed items. The runtime's events report when and why the pool changes \
        its number of threads. The stacks of the workers are sampled at a low rate, with what they \
        wait for: tasks (sync over async), sleep, locks, I/O.",
    values: &[ValueSpec { kind: "samples", unit: "count" }, ValueSpec { kind: "threadpool", unit: "nanoseconds" }],
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
        },
        EventPipeSpec {
            provider: "System.Runtime",
            keywords: 0,
            level: 1,
            arguments: "EventCounterIntervalSec=1",
            runtimes: EventPipeSpec::EVENT_COUNTERS,
        },
    ],
    since: 3,
    too_old: "",
    attach: true,
};

/// The collector: ticks as those of `wall`. Which threads are workers is determined outside of the
/// target, where their stacks have names.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    let interval = 1_000_000_000 / settings.number("rate").max(1);
    Some(Box::new(wall::Wall::new(SPEC.id, interval, Record::PoolTick)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::testing::Script;

    #[test]
    fn ticks_are_told_apart_from_those_of_wall() {
        let collector = wall::Wall::new(SPEC.id, 1, Record::PoolTick);
        let mut script = Script { tasks: vec![(1, 100)], ..Script::default() };
        collector.tick(&mut script);
        assert!(matches!(script.sent.as_slice(), [Record::PoolTick(_)]), "{:?}", script.sent);
        assert_eq!(collector.id(), "threadpool");
    }
}
