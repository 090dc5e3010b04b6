//! `jit`: methods that the runtime compiles.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "jit",
    summary: "Compiled methods: which, when, how long it took, which threads waited for it",
    overhead: "Three events with stacks for each compiled method. Nothing while nothing is \
        compiled.",
    description: "Listens to the runtime's compilation events: every method that is compiled, with \
        its tier, how long that took, on which thread, the size of its IL and of its code, and the \
        call that made it necessary. Separates compilations that threads waited for from those in \
        the background. Shows which methods were compiled again and again, and how often \
        precompiled (ready-to-run) code was there, was missing, or was refused. Every compilation \
        is counted, none is sampled.",
    values: &[
        ValueSpec { kind: "compilations", unit: "count" },
        ValueSpec { kind: "jit", unit: "nanoseconds" },
    ],
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
        stacks: true,
    }],
    since: 3,
    too_old: "",
    attach: true,
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Compilation::table, Lookups::table];

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

/// How thoroughly a method was compiled, in the order in which tiers follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JitTier {
    /// Not reported.
    Unknown,
    /// Without optimizations: for a debugger, or because the method is very large.
    MinOpt,
    /// With all optimizations at once, outside of tiered compilation.
    Optimized,
    /// Quickly, as the first of tiers.
    Quick,
    /// Quickly, with counters for what the last tier wants to know.
    QuickInstrumented,
    /// With optimizations and such counters: for methods whose precompiled code is hot.
    Tier1Instrumented,
    /// With all optimizations, as the last of tiers.
    Tier1,
    /// The same for a method in the middle of a loop (on-stack replacement).
    Tier1Osr,
}

impl rows::Words for JitTier {
    const WORDS: &'static [(Self, &'static str)] = &[
        (JitTier::Unknown, "unknown"),
        (JitTier::MinOpt, "min-opt"),
        (JitTier::Optimized, "optimized"),
        (JitTier::Quick, "tier-0"),
        (JitTier::QuickInstrumented, "tier-0-instrumented"),
        (JitTier::Tier1Instrumented, "tier-1-instrumented"),
        (JitTier::Tier1, "tier-1"),
        (JitTier::Tier1Osr, "tier-1-osr"),
    ];
}

/// What became of the precompiled (ready-to-run) code of a method that was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrecompiledCode {
    /// It was not looked for: its module has none, or the method was compiled before.
    NotSought,
    /// The image of its module has none that could be used.
    Missing,
    /// There is some, and the runtime found that it may not be used.
    Rejected,
    /// The same because a profiler said so.
    RejectedByProfiler,
}

impl rows::Words for PrecompiledCode {
    const WORDS: &'static [(Self, &'static str)] = &[
        (PrecompiledCode::NotSought, "not-sought"),
        (PrecompiledCode::Missing, "missing"),
        (PrecompiledCode::Rejected, "rejected"),
        (PrecompiledCode::RejectedByProfiler, "rejected-by-profiler"),
    ];
}

rows::rows! {
    /// Compiled methods, by the time at which their compilation began.
    #[derive(Copy, Eq)]
    pub struct Compilation in "jit", "compilations" {
        /// When it began.
        time: rows::Time,
        /// Thread that compiled.
        thread: rows::Thread,
        /// The call that made it necessary, with the compiled method as the leaf.
        stack: rows::Stack,
        /// How long, without other compilations within it; nothing where its beginning was not
        /// seen.
        duration: Option<rows::Duration>,
        /// The runtime's number of the method: each instantiation of a generic one has its own.
        method: rows::Number,
        /// How thoroughly.
        tier: rows::Word<JitTier>,
        /// Bytes of IL; 0 where the runtime does not report it: dynamic methods.
        il_size: rows::Narrow<rows::Bytes, u32>,
        /// Bytes of code.
        native_size: rows::Narrow<rows::Bytes, u32>,
        /// Whether the runtime did it on a thread of its own, for a method that has code already.
        background: rows::Flag,
        /// What became of its precompiled code.
        precompiled: rows::Word<PrecompiledCode>,
        /// Whether the stack is cut: it was deeper than the runtime reports.
        truncated: rows::Flag,
    }

    /// How often precompiled (ready-to-run) code of methods was looked for since the row before.
    #[derive(Copy, Eq, Default)]
    pub struct Lookups in "jit", "lookups" {
        /// When it was counted.
        time: rows::Time,
        /// Methods whose code was found.
        found: rows::Count,
        /// Methods without code that could be used.
        missing: rows::Count,
        /// How long the search took; 0 where the runtime does not report it (before .NET 5).
        duration: rows::Duration,
        /// Code of methods that was freed: dynamic ones, and those of unloaded assemblies.
        freed: rows::Count,
    }
}
