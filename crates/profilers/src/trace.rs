//! `trace`: calls of chosen methods, by code that is put into them while they run.

use crate::{
    Collector, ParamKind, ParamSpec, ProfilerSpec, Selection, SelectionError, Settings, Tables,
    ValueSpec,
};
use wire::{ProfilerConfig, SessionConfig};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "trace",
    summary: "Calls of chosen methods of a running process: counts, errors, latencies and call \
        tree",
    overhead: "5 to 8 ns for each call that is counted, 45 to 61 ns for one that is timed. \
        Methods that match are not inlined.",
    description: "Adds code to the methods that rules match, which counts and times their calls, \
        and reverts them when the recording ends. Works on running processes and from the start; \
        code that was compiled before, or inlined, is replaced too. Methods that do not match run \
        as before. .NET never detaches a profiler that may rewrite methods: the agent remains in \
        the process, idle, until the process ends. Needs the main profiler slot. clrscope trace \
        starts it, with the methods to trace.",
    values: &[
        ValueSpec { kind: "calls", unit: "count" },
        ValueSpec { kind: "time", unit: "nanoseconds" },
    ],
    params: &[
        ParamSpec {
            name: "dry",
            help: "Only report what could be traced; change nothing, and leave nothing in the \
                process",
            default: "no",
            kind: ParamKind::Choice(&["no", "yes"]),
        },
        ParamSpec {
            name: "il",
            help: "Keep the code of each method before and after, and record when new code is \
                compiled: for event logs",
            default: "no",
            kind: ParamKind::Choice(&["no", "yes"]),
        },
        ParamSpec {
            name: "each",
            help: "Keep every timed call with its time and thread, not only the slowest",
            default: "no",
            kind: ParamKind::Choice(&["no", "yes"]),
        },
        ParamSpec {
            name: "heap",
            help: "Allow heap snapshots in this process later (heap, leaks, async, survivors). The \
                runtime then makes no background collections until the process ends: full \
                collections block",
            default: "no",
            kind: ParamKind::Choice(&["no", "yes"]),
        },
    ],
    // ENABLE_REJIT; JIT_COMPILATION, to hear of bodies that cannot be compiled; MODULE_LOADS,
    // THREADS.
    events: (0x4_0000 | 0x20 | 0x4 | 0x200, 0),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: true,
    // They ask which methods.
    own_commands: &["trace", "launch --trace"],
    needs_rules: true,
    engine: |_| "rewritten methods, every call".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[];

/// Selects it, with the parameters of these names set to `yes`.
///
/// # Errors
/// If it has no such parameter.
pub fn selection<'a>(
    params: impl IntoIterator<Item = &'a str>,
) -> Result<Selection, SelectionError> {
    let params = params.into_iter().map(|name| format!(":{name}=yes"));
    Selection::parse(&format!("{}{}", SPEC.id, params.collect::<String>()))
}

/// What a session may do to methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewriting {
    /// Nothing.
    Off,
    /// See what could be done.
    Dry,
    /// Rewrite them.
    On {
        /// Record every timed call individually.
        each_call: bool,
    },
}

impl Rewriting {
    /// What a session was asked for.
    pub fn of(config: &SessionConfig) -> Self {
        match config.profiler(SPEC.id) {
            None => Self::Off,
            Some(given) if says_yes(given, "dry") => Self::Dry,
            Some(given) => Self::On { each_call: says_yes(given, "each") },
        }
    }
}

/// Whether a session does nothing else: then there are no samples in which one could see what the
/// runtime was doing.
pub fn is_alone(config: &SessionConfig) -> bool {
    config.profilers.iter().all(|given| given.id == SPEC.id)
}

/// Whether a session wants to see the code before and after.
pub fn tells_il(config: &SessionConfig) -> bool {
    config.profiler(SPEC.id).is_some_and(|given| says_yes(given, "il"))
}

/// Whether heap snapshots shall be possible later.
pub fn allows_heap(config: &SessionConfig) -> bool {
    config.profiler(SPEC.id).is_some_and(|given| says_yes(given, "heap"))
}

fn says_yes(given: &ProfilerConfig, param: &str) -> bool {
    given.params.iter().any(|(name, value)| name == param && value == "yes")
}

/// Nothing of it is a collector: the agent sees to it by itself.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
