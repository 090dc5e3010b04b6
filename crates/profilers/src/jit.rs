//! `jit`: methods that the runtime compiles.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "jit",
    summary: "Compiled methods: which, when, how long it took, which threads waited for it",
    description: "Listens to the runtime's compilation events: every method that is compiled, with \
        its tier, how long that took, on which thread, the size of its IL and of its code, and the \
        call that made it necessary. Separates compilations that threads waited for from those in \
        the background. Shows which methods were compiled again and again, and how often \
        precompiled (ready-to-run) code was there, was missing, or was refused. Every compilation \
        is counted, none is sampled.",
    values: &[ValueSpec { kind: "compilations", unit: "count" }, ValueSpec { kind: "jit", unit: "nanoseconds" }],
    params: &[],
    // THREADS, for their names; DYNAMIC_FUNCTION_UNLOADS, for stacks through code that is freed.
    events: (0x200, 0x4),
    // JIT, Compilation (which knows the background) and CompilationDiagnostic (which knows
    // precompiled code). The beginning of a compilation, and its names, are verbose.
    event_pipe: &[EventPipeSpec {
        provider: "Microsoft-Windows-DotNETRuntime",
        keywords: 0x30_0000_0010,
        level: 5,
        arguments: "",
        runtimes: EventPipeSpec::ALL,
    }],
    since: 3,
    too_old: "",
    attach: true,
};

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
