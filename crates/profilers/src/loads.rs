//! `loads`: assemblies and types that the runtime loads.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "loads",
    summary: "Loaded assemblies and types: what each took, what requested it, what was not found",
    description: "Listens to the runtime's loader: every assembly that is loaded or unloaded, with \
        its file and version and the call that made it necessary. From .NET 5 on also how long \
        each load took, how the assembly was searched for (contexts, files, handlers), what could \
        not be found, and every type that is loaded, with the time that threads spent on it. Times \
        exclude nested loads: if a type needs an assembly, the time of the type does not include \
        that of the assembly. Everything is counted, nothing is sampled.",
    values: &[ValueSpec { kind: "assemblies", unit: "count" }, ValueSpec { kind: "loads", unit: "nanoseconds" }],
    params: &[],
    // THREADS, for their names; DYNAMIC_FUNCTION_UNLOADS, for stacks through code that is freed.
    events: (0x200, 0x4),
    event_pipe: &[
        // Loader.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x8,
            level: 4,
            arguments: "",
            runtimes: EventPipeSpec::ALL,
        },
        // AssemblyLoader, which knows requests, and TypeDiagnostic.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x80_0000_0004,
            level: 4,
            arguments: "",
            runtimes: (5, u16::MAX),
        },
    ],
    since: 3,
    too_old: "",
    attach: true,
};

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Assemblies that were unloaded.
    pub struct Unloaded in "loads", "unloaded" {
        /// When.
        time: rows::Time,
        /// The runtime's number of the assembly.
        assembly: rows::Number,
        /// Its full name.
        name: rows::Text,
    }
}
