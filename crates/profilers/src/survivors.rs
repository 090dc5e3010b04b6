//! `survivors`: what survives the collections of the program, and what keeps it alive.

use crate::{Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use wire::{Nanos, SessionConfig};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "survivors",
    summary: "What survives collections, and what retains it",
    overhead: "Lengthens GC pauses by the time in which the runtime reports the heap, which is \
        at most 5 % of the time.",
    description: "Takes a snapshot at collections that the program makes anyway, at most one per \
        second: which objects survived, from which generation into which, and through which \
        references young ones were retained. Collections between two snapshots are not slowed \
        down. A snapshot lengthens its GC pause, because the runtime reports the whole heap after \
        the collection. The report says by how much, and snapshots become rarer where they would \
        exceed their share of the time. Needs the main profiler slot, so it cannot be used beside \
        an APM, nor together with heap. While it is attached, the runtime makes no background \
        collections: full collections are blocking.",
    values: &[
        ValueSpec { kind: "objects", unit: "count" },
        ValueSpec { kind: "survivors", unit: "bytes" },
    ],
    params: &[
        ParamSpec {
            name: "every",
            help: "Milliseconds from one snapshot to the next, at least",
            default: "1000",
            kind: ParamKind::Number(10, 3_600_000),
        },
        ParamSpec {
            name: "share",
            help: "Percent of the time by which snapshots may lengthen GC pauses",
            default: "5",
            kind: ParamKind::Number(1, 100),
        },
        ParamSpec {
            name: "limit",
            help: "Milliseconds after which a snapshot is abandoned, so that the program continues",
            default: "1000",
            kind: ParamKind::Number(10, 60_000),
        },
        ParamSpec {
            name: "induced",
            help: "Also take snapshots at induced collections (GC.Collect)",
            default: "off",
            kind: ParamKind::Choice(&["on", "off"]),
        },
    ],
    // GC, for objects and roots; SUSPENDS, to know how long the runtime was suspended;
    // MODULE_LOADS, to know when classes are unloaded.
    events: (0x80 | 0x1_0000 | 0x4, 0),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: true,
    excludes: &["heap", "async"],
    engine: |_| "runtime callbacks of the program's own collections".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[];

/// How snapshots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurvivorSettings {
    /// From one to the next, at least.
    pub every: Nanos,
    /// Percent of the time that telling may take.
    pub share: u64,
    /// How long telling may take in one snapshot.
    pub limit: Nanos,
    /// Whether collections count that the program asks for.
    pub induced: bool,
}

impl SurvivorSettings {
    /// Those of a session; `None` where the profiler is off.
    pub fn of(session: &SessionConfig) -> Option<Self> {
        let given = session.profiler(SPEC.id)?;
        let settings = Settings { spec: &SPEC, params: &given.params, session };
        Some(Self {
            every: settings.number("every") * 1_000_000,
            share: settings.number("share").max(1),
            limit: settings.number("limit") * 1_000_000,
            induced: settings.text("induced") == "on",
        })
    }

    /// How long to wait after a snapshot that took `telling` to report, so that it stays within its
    /// share.
    pub fn rest(&self, telling: Nanos) -> Nanos {
        (telling.saturating_mul(100) / self.share.max(1)).saturating_sub(telling)
    }
}

/// Looks are taken by a thread of the agent's, not by a collector.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_paid_for_by_the_time_after_it() {
        let settings = |share| SurvivorSettings { every: 0, share, limit: 0, induced: false };
        assert_eq!(settings(5).rest(10), 190);
        assert_eq!(settings(100).rest(10), 0);
        assert_eq!(settings(0).rest(1), 99, "a share that is none counts as the least");
    }
}
