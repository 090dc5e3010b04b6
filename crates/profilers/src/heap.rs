//! `heap`: the objects on the heap, and what retains them.

use crate::{Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use wire::SessionConfig;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "heap",
    summary: "What is on the heap, and what retains it",
    overhead: "Pauses the program for each snapshot, in which the runtime reports 4 to 10 \
        million objects per second. There are no background collections meanwhile.",
    description: "Takes heap snapshots. Each one forces a full blocking collection. While the \
        runtime is suspended, it reports every object that survived, with its class, its size and \
        its references, and every root. That takes about a second for 5 million objects, for which \
        the program is paused. Needs the main profiler slot, so it cannot be used beside an APM. \
        While it is attached, also between two snapshots, the runtime makes no background \
        collections: full collections are blocking. So it is best used alone, and not for long.",
    values: &[
        ValueSpec { kind: "objects", unit: "count" },
        ValueSpec { kind: "heap", unit: "bytes" },
    ],
    params: &[
        ParamSpec {
            name: "snapshots",
            help: "Number of heap snapshots",
            default: "1",
            kind: ParamKind::Number(1, 100),
        },
        ParamSpec {
            name: "every",
            help: "Seconds from the start of one snapshot to the start of the next",
            default: "10",
            kind: ParamKind::Number(1, 86_400),
        },
        ParamSpec {
            name: "strings",
            help: "Compare the contents of strings, and report those that occur more than once",
            default: "on",
            kind: ParamKind::Choice(&["on", "off"]),
        },
        ParamSpec {
            name: "kind",
            help: "What a snapshot contains: all objects with their references, and all roots; \
                only objects, for a histogram; only roots, reported at the next collection of the \
                youngest objects that the program itself makes",
            default: "all",
            kind: ParamKind::Choice(&["all", "histogram", "roots"]),
        },
        ParamSpec {
            name: "limit",
            help: "Seconds after which a snapshot is abandoned, so that the program continues",
            default: "60",
            kind: ParamKind::Number(1, 3600),
        },
    ],
    // GC, for objects and roots; SUSPENDS, to know how long the runtime was suspended;
    // MODULE_LOADS, to know when classes are unloaded.
    events: (0x80 | 0x1_0000 | 0x4, 0),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: true,
    heap_snapshots: Some(&[]),
    engine: |_| "forced collections, every surviving object".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[];

/// How much a snapshot tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// Every object with its references, and every root.
    All,
    /// Every object, without references and roots.
    Histogram,
    /// Every root and what it refers to. The heap is not walked, and no collection is forced.
    Roots,
}

impl SnapshotKind {
    /// By the value of the parameter `kind`.
    pub fn by_name(name: &str) -> Self {
        match name {
            "histogram" => Self::Histogram,
            "roots" => Self::Roots,
            _ => Self::All,
        }
    }
}

/// How snapshots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapSettings {
    /// How many.
    pub snapshots: u32,
    /// Seconds from the start of one to that of the next.
    pub every: u64,
    /// Whether strings are read.
    pub strings: bool,
    /// What they include.
    pub kind: SnapshotKind,
    /// Seconds that one may take.
    pub limit: u64,
    /// Whether the states of the asynchronous methods of tasks are read.
    pub tasks: bool,
}

impl HeapSettings {
    /// Those of a session; `None` where neither this profiler nor `async` is on. Where both are,
    /// one snapshot serves both, and this one says how many there are.
    pub fn of(session: &SessionConfig) -> Option<Self> {
        let asynchronous = &crate::r#async::SPEC;
        let tasks = session.profiler(asynchronous.id);
        let (spec, given) = match (session.profiler(SPEC.id), tasks) {
            (Some(given), _) => (&SPEC, given),
            (None, Some(given)) => (asynchronous, given),
            (None, None) => return None,
        };
        let settings = Settings { spec, params: &given.params, session };
        Some(Self {
            snapshots: settings.number("snapshots") as u32,
            every: settings.number("every"),
            strings: spec.id == SPEC.id && settings.text("strings") != "off",
            // Tasks are found by all objects with their references.
            kind: match spec.id == SPEC.id && tasks.is_none() {
                true => SnapshotKind::by_name(settings.text("kind")),
                false => SnapshotKind::All,
            },
            limit: settings.number("limit"),
            tasks: tasks.is_some(),
        })
    }
}

/// Looks are taken by a thread of the agent's, not by a collector.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
