//! `async`: asynchronous methods that wait, and who awaits whom.

use crate::{Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "async",
    summary: "Asynchronous methods that wait, who awaits whom, and what for",
    description: "Takes looks at the heap as the profiler heap does, without strings, and reads of each task that was \
        met where its method stands (the state that the compiler counts) and what goes on when it has completed. How that is laid \
        out is asked of the runtime after the first look, so states come with the second. What heap says of pauses, of the \
        runtime's one slot and of background collections holds here too. clrscope async shows the stacks; with cpu and wall \
        beside it, it also shows time on them.",
    values: &[ValueSpec { kind: "tasks", unit: "count" }],
    params: &[
        ParamSpec { name: "looks", help: "How many looks are taken", default: "2", kind: ParamKind::Number(1, 100) },
        ParamSpec {
            name: "every",
            help: "Seconds from the start of one look to that of the next",
            default: "3",
            kind: ParamKind::Number(1, 86_400),
        },
        ParamSpec {
            name: "limit",
            help: "Seconds after which a look is given up, so that the program goes on",
            default: "60",
            kind: ParamKind::Number(1, 3600),
        },
    ],
    // As of heap.
    events: crate::heap::SPEC.events,
    event_pipe: &[],
    since: 3,
    attach: true,
};

/// Looks are taken by a thread of the agent's, not by a collector.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
