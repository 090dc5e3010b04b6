//! `transitions`: calls between managed and native code.

use crate::{Collector, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "transitions",
    summary: "P/Invokes and calls back from native code: exact counts and times",
    overhead: "140 to 310 ns for each call between managed and native code.",
    description: "Makes the runtime report every call from managed to native code (P/Invoke) and \
        every call from native code to a managed method (reverse P/Invoke), and keeps counts and \
        times by method and thread, with what was called from within. No call is sampled or left \
        out, except those that the runtime itself makes without leaving managed code (internal \
        calls). P/Invokes are not inlined into their callers and no precompiled code is used, so \
        the program is slower. Only for programs started by clrscope launch; the agent remains in \
        the process until it ends.",
    values: &[
        ValueSpec { kind: "calls", unit: "count" },
        ValueSpec { kind: "time", unit: "nanoseconds" },
    ],
    params: &[],
    // CODE_TRANSITIONS; THREADS, for their names; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x800 | 0x200, 0x4),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: false,
    engine: |_| "runtime callbacks, every call".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Transitions::table];

/// The agent keeps the trees by itself, as those of the calls.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Calls between managed and native code, in both directions: those that a thread has made
    /// since its last row with the same stack. Exact: nothing of it is sampled.
    #[derive(Copy, Eq)]
    pub struct Transitions in "transitions", "calls" {
        /// When they were counted.
        time: rows::Time,
        /// Thread that made them.
        thread: rows::Thread,
        /// Which calls: the path from the leaf, which is the method that was called. Only what is
        /// counted is on it.
        stack: rows::Stack,
        /// How many; 0 where a call from before has gone on.
        count: rows::Count,
        /// Time in the leaf and in nothing that it called of what is counted.
        own: rows::Duration,
    }
}
