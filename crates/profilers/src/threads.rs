//! `threads`: which threads there are, which of them make progress, and what starts them.

use crate::{
    Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, Stacked, Stacks,
    Tables, ValueSpec, WorkerCx,
};
use rows::Row;
use wire::{Nanos, Record, WallSample, WallTick};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "threads",
    summary: "All threads: what they are, which make no progress, what starts them",
    overhead: "1.4 % of one processor for one snapshot per second of 1,000 waiting threads.",
    description: "Takes snapshots of all threads of the process, managed and native, at regular \
        times: name, age, CPU time, state, what it waits for, and the stack of managed ones. The \
        last snapshot is shown as a tree of merged stacks. A thread that did nothing from its \
        first snapshot to its last is idle, blocked, or a zombie: blocked indefinitely, with no \
        waker observed. Threads that start during the recording are grouped by the code that \
        starts them, with how many of them ended. Code whose threads do not end leaks threads.",
    values: &[ValueSpec { kind: "threads", unit: "count" }],
    params: &[ParamSpec {
        name: "every",
        help: "Seconds between two thread snapshots",
        default: "1",
        kind: ParamKind::Number(1, 3600),
    }],
    // THREADS, SUSPENDS, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x200 | 0x1_0000 | 0x1000_0000, 0x4),
    // AppDomainResourceManagement, Threading: threads as they are created.
    event_pipe: &[EventPipeSpec {
        provider: "Microsoft-Windows-DotNETRuntime",
        keywords: 0x1_0800,
        level: 4,
        arguments: "",
        runtimes: EventPipeSpec::ALL,
        stacks: true,
    }],
    shows_running: true,
    checkup: Some("threads"),
    engine: |facts| format!("{}; the kernel's own figures; EventPipe for starts", facts.stacks),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Creation::table];

/// The collector.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    Some(Box::new(Threads {
        interval: settings.number("every").max(1).saturating_mul(1_000_000_000),
    }))
}

/// How often the stacks that are missing are asked for again.
const MOST_ATTEMPTS: usize = 8;

struct Threads {
    interval: Nanos,
}

impl Collector for Threads {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.interval)
    }

    fn tick(&self, cx: &mut dyn WorkerCx) {
        let time = cx.now();
        let tasks = cx.tasks();
        let mut taken = cx.stacks(&tasks);
        // A stack that is missing would look like one that has changed. What a tick has no room for
        // is taken by the next attempts; threads that have ended stay missing.
        let missing =
            |taken: &Stacks| taken.threads.iter().filter(|thread| thread.is_none()).count();
        for _ in 0..MOST_ATTEMPTS {
            let before = missing(&taken);
            if before == 0 || taken.refused {
                break;
            }
            taken = cx.stacks(&tasks);
            if missing(&taken) == before {
                break;
            }
        }
        if taken.refused {
            return;
        }
        let threads = tasks.iter().zip(taken.threads);
        let threads = threads.filter_map(|(task, stacked)| {
            let Stacked { stack, state } = stacked?;
            Some(WallSample { os_tid: task.os_tid, stack, cpu: task.run, state })
        });
        cx.send(Record::ThreadSnapshot(WallTick {
            time,
            stopped: taken.stopped,
            threads: threads.collect(),
        }));
    }
}

rows::rows! {
    /// Threads that were started during the recording.
    #[derive(Copy, Eq)]
    pub struct Creation in "threads", "creations" {
        /// When it was asked for.
        time: rows::Time,
        /// The new thread.
        thread: rows::Thread,
        /// Thread that asked for it; nothing where the runtime itself made it.
        creator: Option<rows::Thread>,
        /// Where it asked.
        stack: Option<rows::Stack>,
        /// `Thread.ManagedThreadId`.
        managed_id: rows::Narrow<rows::Number, u32>,
        /// Whether it is a worker of the thread pool, by what the runtime says of it.
        pool: rows::Flag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::testing::Script;

    #[test]
    fn a_look_has_all_threads_and_what_they_ran_in_their_lives() {
        let collector = Threads { interval: 1 };
        let mut script = Script { tasks: vec![(1, 100), (2, 50)], ..Script::default() };
        collector.tick(&mut script);
        let [Record::ThreadSnapshot(snapshot)] = script.sent.as_slice() else {
            panic!("{:?}", script.sent)
        };
        let seen: Vec<_> = snapshot
            .threads
            .iter()
            .map(|thread| (thread.os_tid, thread.stack, thread.cpu))
            .collect();
        assert_eq!(seen, [(1, Some(1), 100), (2, Some(2), 50)]);
    }

    #[test]
    fn a_thread_that_cannot_be_read_is_asked_for_again_and_left_out() {
        let mut script =
            Script { tasks: vec![(1, 100), (2, 50)], left_out: vec![2], ..Script::default() };
        Threads { interval: 1 }.tick(&mut script);
        assert_eq!(script.asked.len(), 2, "no more than once where that changes nothing");
        let [Record::ThreadSnapshot(snapshot)] = script.sent.as_slice() else {
            panic!("{:?}", script.sent)
        };
        assert_eq!(snapshot.threads.iter().map(|thread| thread.os_tid).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_look_without_stacks_is_none() {
        let mut script = Script { tasks: vec![(1, 100)], refused: true, ..Script::default() };
        Threads { interval: 1 }.tick(&mut script);
        assert_eq!(script.sent, []);
    }
}
