//! `gc`: garbage collections and their pauses.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "gc",
    summary: "Garbage collections: pauses, generations, reasons, heap sizes",
    overhead: "Some two dozen small events for each collection.",
    description: "Listens to the runtime's own events for each collection: how long it took to \
        suspend threads and how long the GC pause was, which generation, why, whether it was \
        induced, how large each generation was before and after, how much was promoted, and which \
        share of the time was spent in GC pauses. No clrscope code runs inside the process for it. \
        Shows what collections cost, not which objects were allocated.",
    values: &[
        ValueSpec { kind: "collections", unit: "count" },
        ValueSpec { kind: "pause", unit: "nanoseconds" },
    ],
    params: &[],
    events: (0, 0),
    event_pipe: &[EventPipeSpec {
        provider: "Microsoft-Windows-DotNETRuntime",
        keywords: 0x1,
        level: 4,
        arguments: "",
        runtimes: EventPipeSpec::ALL,
        stacks: true,
    }],
    since: 3,
    too_old: "",
    attach: true,
    checkup: Some("gc"),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Collection::table, Pause::table, Induced::table];

/// Nothing runs inside.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Garbage collections, by their end.
    #[derive(Eq)]
    pub struct Collection in "gc", "collections" {
        /// Number since the process started.
        number: rows::Narrow<rows::Number, u32>,
        /// Generation, 0 to 2.
        generation: rows::Narrow<rows::Number, u8>,
        /// Why, in the words of the runtime's events: `AllocSmall`, `Induced`, `LowMemory` …
        reason: rows::Text,
        /// How, likewise: `NonConcurrentGC`, `BackgroundGC`, `ForegroundGC`.
        kind: rows::Text,
        /// Whether the program asked for it.
        induced: rows::Flag,
        /// From.
        start: rows::Time,
        /// To.
        end: rows::Time,
        /// Bytes in the generations 0, 1, 2, the large and the pinned object heap after it.
        size_after: [rows::Bytes; 5],
        /// Bytes promoted from the generations 0, 1, 2, the large and the pinned object heap.
        promoted: [rows::Bytes; 5],
        /// Pinned objects met.
        pinned_objects: rows::Narrow<rows::Count, u32>,
        /// GC handles in use.
        gc_handles: rows::Narrow<rows::Count, u32>,
    }

    /// Times when the runtime was suspended, such as GC pauses, by their end.
    #[derive(Eq)]
    pub struct Pause in "gc", "pauses" {
        /// Why, in the words of the runtime's events: `SuspendForGC`, `SuspendForGCPrep`,
        /// `SuspendForDebugger` …
        reason: rows::Text,
        /// The collection it was for, by number.
        gc: Option<rows::Narrow<rows::Number, u32>>,
        /// The runtime begins to suspend the threads.
        suspend_start: rows::Time,
        /// All threads are suspended.
        suspend_end: rows::Time,
        /// The runtime begins to resume them.
        resume_start: rows::Time,
        /// All may run.
        resume_end: rows::Time,
    }

    /// Calls that induce a collection, such as `GC.Collect`.
    #[derive(Copy, Eq)]
    pub struct Induced in "gc", "induced" {
        /// When the runtime was asked.
        time: rows::Time,
        /// The calling thread.
        thread: rows::Thread,
        /// Where it calls.
        stack: rows::Stack,
        /// Whether outer frames of the stack are missing.
        truncated: rows::Flag,
    }
}
