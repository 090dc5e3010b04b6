//! `gc`: garbage collections and their pauses.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "gc",
    summary: "Garbage collections: pauses, generations, reasons, heap sizes",
    description: "Listens to the runtime's own events for each collection: how long it took to \
        suspend threads and how long the GC pause was, which generation, why, whether it was \
        induced, how large each generation was before and after, how much was promoted, and which \
        share of the time was spent in GC pauses. No clrscope code runs inside the process for it. \
        Shows what collections cost, not which objects were allocated.",
    values: &[ValueSpec { kind: "collections", unit: "count" }, ValueSpec { kind: "pause", unit: "nanoseconds" }],
    params: &[],
    events: (0, 0),
    event_pipe: &[EventPipeSpec {
        provider: "Microsoft-Windows-DotNETRuntime",
        keywords: 0x1,
        level: 4,
        arguments: "",
        runtimes: EventPipeSpec::ALL,
    }],
    since: 3,
    too_old: "",
    attach: true,
};

/// Nothing runs inside.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Calls that induce a collection, such as `GC.Collect`.
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
