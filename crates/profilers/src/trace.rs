//! `trace`: calls of chosen methods, by code that is put into them while they run.

use crate::{Collector, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "trace",
    summary: "Calls of chosen methods of a running process: counts, errors, latencies and call tree",
    description: "Puts code into the methods that rules take, which counts and times their calls, and puts the original code back \
        when the recording ends. Works on running processes and from the start; code that was compiled before, or inlined, is \
        replaced too. All other methods run as they did. The runtime never lets go of a profiler that has asked for \
        this: the agent stays in the process, idle, until the process ends. Only as the one main profiler. Started by clrscope trace, which \
        says which methods.",
    values: &[ValueSpec { kind: "calls", unit: "count" }, ValueSpec { kind: "time", unit: "nanoseconds" }],
    params: &[],
    // ENABLE_REJIT; JIT_COMPILATION, to hear of bodies that cannot be compiled; MODULE_LOADS, THREADS.
    events: (0x4_0000 | 0x20 | 0x4 | 0x200, 0),
    event_pipe: &[],
    since: 3,
    attach: true,
};

/// Nothing of it is a collector: the agent sees to it by itself.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
