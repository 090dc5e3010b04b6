//! What the agent says of itself: its costs, and what was dropped.

use super::Writer;
use crate::ledger;
use crate::os::clock;
use std::sync::atomic::Ordering::Relaxed;
use wire::{Resource, Status};

impl Writer<'_> {
    pub(super) fn status(&self) -> Status {
        let agent = self.agent;
        let mut dropped = vec![("events, queue full".to_owned(), agent.events.dropped())];
        dropped.push(("records over the frame size".to_owned(), self.lost_records));
        dropped.extend(self.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)));
        dropped.extend(self.calls.dropped().map(|(reason, count)| (reason.to_owned(), count)));
        dropped.extend(self.allocated.dropped().map(|(reason, count)| (reason.to_owned(), count)));
        dropped.push((
            "compilations of new bodies, log full".to_owned(),
            agent.instrumentation.lost(),
        ));
        dropped.extend(self.traced.dropped().map(|(reason, count)| (reason.to_owned(), count)));
        let mut counters = agent.counters.list();
        counters.push(("events".to_owned(), agent.events.passed()));
        // Of the tables of threads, what is in use.
        let tables = self.calls.memory() + self.allocated.memory() + self.traced.memory();
        let mut memory = ledger::held(Resource::HeapBytes) + tables as u64;
        agent.signals.with(|engine| {
            let (full, off_stack) = engine.dropped();
            dropped.push(("samples, ring full".to_owned(), full));
            dropped.push(("samples off the thread's stack".to_owned(), off_stack));
            dropped.push(("threads not sampled".to_owned(), engine.unsampled()));
            dropped.push((
                "threads without a timer (RLIMIT_SIGPENDING)".to_owned(),
                engine.without_timer(),
            ));
            let (median, handled) = engine.handler_time();
            counters.push(("signals handled".to_owned(), handled));
            counters.push(("nanoseconds in the signal handler, median".to_owned(), median));
            memory += engine.memory() as u64;
        });
        dropped.retain(|(_, count)| *count > 0);
        Status {
            time: clock::monotonic(),
            memory,
            cpu: clock::thread_cpu() + agent.tick_cpu.load(Relaxed),
            stopped: agent.counters.extending.load(Relaxed) + agent.counters.stopped.load(Relaxed),
            dropped,
            counters,
            resources: ledger::report(),
        }
    }
}
