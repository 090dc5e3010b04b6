//! `transitions`: calls between managed and native code.

use crate::{Collector, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "transitions",
    summary: "P/Invokes and calls back from native code: exact counts and times",
    description: "Makes the runtime report every call from managed to native code (P/Invoke) and \
        every call from native code to a managed method (reverse P/Invoke), and keeps counts and \
        times by method and thread, with what was called from within. No call is sampled or left \
        out, except those that the runtime itself makes without leaving managed code (internal \
        calls). P/Invokes are not inlined into their callers and no precompiled code is used, so \
        the program is slower. Only for programs started by clrscope launch; the agent remains in \
        the process until it ends.",
    values: &[ValueSpec { kind: "calls", unit: "count" }, ValueSpec { kind: "time", unit: "nanoseconds" }],
    params: &[],
    // CODE_TRANSITIONS; THREADS, for their names; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x800 | 0x200, 0x4),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: false,
};

/// The agent keeps the trees by itself, as those of the calls.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
