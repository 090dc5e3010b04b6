//! `locks`: waits for locks that other threads hold.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "locks",
    summary: "Contended locks: who waited, where, for how long",
    overhead: "Two events and a stack for each wait. Nothing while no thread waits.",
    description: "Listens to the runtime's contention events: every time a thread has to wait for \
        a monitor (the lock statement of C#) or a System.Threading.Lock that another thread holds, \
        with the waiting stack and how long it took. Every wait is counted, none is sampled. From \
        .NET 8 on the runtime also reports which lock it was and which thread held it. Short waits \
        that end by spinning cause no events. Semaphores, reader-writer locks and events are not \
        covered: use wall for them.",
    values: &[
        ValueSpec { kind: "waits", unit: "count" },
        ValueSpec { kind: "locks", unit: "nanoseconds" },
    ],
    params: &[],
    // THREADS, for their names; DYNAMIC_FUNCTION_UNLOADS, for stacks through code that is freed.
    events: (0x200, 0x4),
    // Contention.
    event_pipe: &[EventPipeSpec {
        provider: "Microsoft-Windows-DotNETRuntime",
        keywords: 0x4000,
        level: 4,
        arguments: "",
        runtimes: EventPipeSpec::ALL,
        stacks: true,
    }],
    since: 3,
    too_old: "",
    attach: true,
    checkup: Some("locks"),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Wait::table];

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Waits for locks that other threads held, by the time at which they began.
    #[derive(Copy, Eq)]
    pub struct Wait in "locks", "waits" {
        /// When it began.
        time: rows::Time,
        /// Thread that waited.
        thread: rows::Thread,
        /// Where.
        stack: rows::Stack,
        /// How long.
        duration: rows::Duration,
        /// The lock as the runtime numbers it; nothing where it does not (before .NET 8).
        lock: Option<rows::Number>,
        /// Thread that held the lock when the wait began, where known.
        owner: Option<rows::Thread>,
        /// Whether the stack is cut: it was deeper than the runtime reports.
        truncated: rows::Flag,
    }
}
