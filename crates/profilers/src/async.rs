//! `async`: asynchronous methods that wait, and who awaits whom.

use crate::{Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "async",
    summary: "Asynchronous methods that wait, who awaits whom, and what for",
    overhead: "Pauses the program for each heap snapshot, in which the runtime reports 4 to 10 \
        million objects per second.",
    description: "Takes heap snapshots as the profiler heap does, without strings. Of each task it \
        reads the state of its method, as the compiler counts it, and what continues when the task \
        has completed. The agent queries the layout of tasks after the first snapshot, so states \
        come with the second one. Pauses, the main profiler slot and background collections are as \
        described for heap. clrscope async shows the stacks. With cpu and wall in the same \
        recording, it also shows the time that is spent on them.",
    values: &[ValueSpec { kind: "tasks", unit: "count" }],
    params: &[
        ParamSpec {
            name: "snapshots",
            help: "Number of heap snapshots",
            default: "2",
            kind: ParamKind::Number(1, 100),
        },
        ParamSpec {
            name: "every",
            help: "Seconds from the start of one snapshot to the start of the next",
            default: "3",
            kind: ParamKind::Number(1, 86_400),
        },
        ParamSpec {
            name: "limit",
            help: "Seconds after which a snapshot is abandoned, so that the program continues",
            default: "60",
            kind: ParamKind::Number(1, 3600),
        },
    ],
    // As of heap.
    events: crate::heap::SPEC.events,
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: true,
    // Samples that are taken along are of the time between snapshots.
    heap_snapshots: Some(&["cpu", "wall"]),
    engine: |_| "forced collections, every surviving task and its state".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[];

/// Looks are taken by a thread of the agent's, not by a collector.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
