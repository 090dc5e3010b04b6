//! `loads`: assemblies and types that the runtime loads.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "loads",
    summary: "Loaded assemblies and types: what each took, what requested it, what was not found",
    overhead: "A few events with stacks for each assembly and type that is loaded. Nothing while \
        nothing is loaded.",
    description: "Listens to the runtime's loader: every assembly that is loaded or unloaded, with \
        its file and version and the call that made it necessary. From .NET 5 on also how long \
        each load took, how the assembly was searched for (contexts, files, handlers), what could \
        not be found, and every type that is loaded, with the time that threads spent on it. Times \
        exclude nested loads: if a type needs an assembly, the time of the type does not include \
        that of the assembly. Everything is counted, nothing is sampled.",
    values: &[
        ValueSpec { kind: "assemblies", unit: "count" },
        ValueSpec { kind: "loads", unit: "nanoseconds" },
    ],
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
            stacks: true,
        },
        // AssemblyLoader, which knows requests, and TypeDiagnostic.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x80_0000_0004,
            level: 4,
            arguments: "",
            runtimes: (5, u16::MAX),
            stacks: true,
        },
    ],
    since: 3,
    too_old: "",
    attach: true,
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[AssemblyLoad::table, TypeLoad::table, Unloaded::table];

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

/// What became of a request for an assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadOutcome {
    /// It was loaded.
    Loaded,
    /// It had been loaded before.
    Known,
    /// It could not be found, or not be loaded.
    Failed,
}

impl rows::Words for LoadOutcome {
    const WORDS: &'static [(Self, &'static str)] = &[
        (LoadOutcome::Loaded, "loaded"),
        (LoadOutcome::Known, "known"),
        (LoadOutcome::Failed, "failed"),
    ];
}

rows::rows! {
    /// Assemblies that were loaded, or asked for.
    #[derive(Eq)]
    pub struct AssemblyLoad in "loads", "assemblies" {
        /// When it was asked for; when it was loaded, where the runtime does not report that.
        time: rows::Time,
        /// Thread.
        thread: rows::Thread,
        /// The call that made it necessary, with the load as the leaf.
        stack: rows::Stack,
        /// Whether the stack is cut: it was deeper than the runtime reports.
        truncated: rows::Flag,
        /// From the request until it was there or was refused; nothing without a request: before
        /// .NET 5, from bytes, made at run time.
        duration: Option<rows::Duration>,
        /// The same without other loads within it.
        own: Option<rows::Duration>,
        /// How long it took to find it.
        resolution: Option<rows::Duration>,
        /// What became of it.
        outcome: rows::Word<LoadOutcome>,
        /// The runtime's number of the assembly; 0 unless it was loaded here.
        assembly: rows::Number,
        /// Full name: that of the assembly, else the one asked for.
        name: rows::Text,
        /// Path of its file; empty where there is none.
        path: rows::Text,
        /// Full name that was asked for; empty without a request.
        requested: rows::Text,
        /// Full name of the assembly that asked; may be empty.
        requested_by: rows::Text,
        /// Load context that it was asked for in; may be empty.
        context: rows::Text,
        /// What was tried to find it, in words for a reader: a stage of the search, a handler, a
        /// file.
        step: Vec<rows::Text>,
        /// Whether each step gave an assembly, or the file was there.
        step_found: Vec<rows::Flag>,
        /// What each step found, or why nothing was found; may be empty.
        step_result: Vec<rows::Text>,
        /// Time since the step before, or since the request.
        step_took: Vec<rows::Duration>,
        /// Whether it was made at run time.
        dynamic: rows::Flag,
        /// Whether it can be unloaded.
        collectible: rows::Flag,
        /// Whether it has precompiled (ready-to-run) code.
        precompiled: rows::Flag,
    }

    /// Loaded types, by the time at which their load began. The runtime loads a type in steps; each
    /// is a row, and a type may come again.
    #[derive(Copy, Eq)]
    pub struct TypeLoad in "loads", "types" {
        /// When it began.
        time: rows::Time,
        /// Thread that loaded it.
        thread: rows::Thread,
        /// The call that made it necessary, with the load as the leaf.
        stack: rows::Stack,
        /// The type.
        ty: rows::Type,
        /// How long.
        duration: rows::Duration,
        /// The same without other loads within it.
        own: rows::Duration,
        /// Whether the stack is cut: it was deeper than the runtime reports.
        truncated: rows::Flag,
    }

    /// Assemblies that were unloaded.
    #[derive(Eq)]
    pub struct Unloaded in "loads", "unloaded" {
        /// When.
        time: rows::Time,
        /// The runtime's number of the assembly.
        assembly: rows::Number,
        /// Its full name.
        name: rows::Text,
    }
}

/// A thing that was tried to find an assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStep<'a> {
    /// What, in words for a reader.
    pub what: &'a str,
    /// Whether it gave an assembly, or the file was there.
    pub found: bool,
    /// What was found, or why nothing was; may be empty.
    pub result: &'a str,
    /// Nanoseconds since the step before, or since the request.
    pub took: u64,
}

impl AssemblyLoad {
    /// How the assembly was looked for.
    pub fn steps(&self) -> impl Iterator<Item = LoadStep<'_>> {
        let what = self.step.iter().zip(&self.step_found);
        let rest = self.step_result.iter().zip(&self.step_took);
        what.zip(rest).map(|((what, found), (result, took))| LoadStep {
            what,
            found: *found,
            result,
            took: *took,
        })
    }

    /// Adds a step; what the arguments are, [`LoadStep`] says.
    pub fn add_step(&mut self, what: String, found: bool, result: String, took: u64) {
        self.step.push(what);
        self.step_found.push(found);
        self.step_result.push(result);
        self.step_took.push(took);
    }
}
