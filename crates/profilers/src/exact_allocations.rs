//! `exact-allocations`, also written `allocations:exact`: every allocated object, counted.

use crate::{Collector, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "exact-allocations",
    summary: "Every allocated object by type: exact numbers and bytes",
    overhead: "A program that allocates much is several times slower.",
    description: "Makes the runtime report every object that is allocated, and keeps exact numbers \
        of objects and bytes by type and thread. It can also be written allocations:exact. There \
        are no call stacks: add the profiler allocations for samples with stacks. The runtime then \
        allocates every object on its slow path, so a program that allocates much is several times \
        slower; the agent adds little to that. Only for programs started by clrscope launch; the \
        agent remains in the process until it ends.",
    values: &[
        ValueSpec { kind: "objects", unit: "count" },
        ValueSpec { kind: "allocations", unit: "bytes" },
    ],
    params: &[],
    // OBJECT_ALLOCATED and ENABLE_OBJECT_ALLOCATED; THREADS, for their names. Modules that are
    // unloaded are always reported.
    events: (0x80_0000 | 0x100 | 0x200, 0),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: false,
    engine: |_| "runtime callbacks, every object".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Allocated::table];

/// The agent counts by itself, in tables of each thread.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Objects of a type that a thread has allocated since its last row of that type. Exact: every
    /// object is counted.
    #[derive(Copy, Eq)]
    pub struct Allocated in "exact-allocations", "allocated" {
        /// When they were counted.
        time: rows::Time,
        /// Thread that allocated them.
        thread: rows::Thread,
        /// Their type.
        ty: rows::Type,
        /// How many.
        objects: rows::Count,
        /// Their bytes, each size rounded up as the runtime allocates it.
        bytes: rows::Bytes,
    }
}
