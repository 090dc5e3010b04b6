//! `dns`: names of hosts that the program resolves.

use crate::{Collector, EventPipeSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "dns",
    summary: "DNS lookups: which hosts, how often, how long they take, and which fail",
    overhead: "Two events for each lookup. Nothing while no name is resolved.",
    description: "Shows the lookups of host names that the program makes with System.Net.Dns, \
        itself or by HttpClient, sockets and database drivers: for each host how many, how many \
        failed, and how long they took in total and at most. The base library reports the \
        beginning and the end of each lookup. Everything is counted, nothing is sampled.",
    values: &[
        ValueSpec { kind: "lookups", unit: "count" },
        ValueSpec { kind: "dns", unit: "nanoseconds" },
    ],
    event_pipe: &[
        EventPipeSpec {
            provider: "System.Net.NameResolution",
            keywords: 0,
            level: 4,
            arguments: "",
            runtimes: SINCE,
            stacks: false,
        },
        // TasksFlowActivityIds, a group without events: the beginning and the end of a lookup get
        // the same activity, also if they are on different threads.
        EventPipeSpec {
            provider: "System.Threading.Tasks.TplEventSource",
            keywords: 0x80,
            level: 4,
            arguments: "",
            runtimes: SINCE,
            stacks: false,
        },
    ],
    since: SINCE.0,
    too_old: "a runtime that old does not report lookups, or was not tried; leave out dns, and use \
        wall, which shows the threads that wait in System.Net.Dns",
    ..ProfilerSpec::PLAIN
};

/// .NET 5 has these events, too, but was not tried.
const SINCE: (u16, u16) = (6, u16::MAX);

/// Its tables.
pub(crate) const TABLES: Tables = &[Begun::table, Ended::table];

/// Nothing runs inside.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

rows::rows! {
    /// Lookups as they begin.
    #[derive(Eq)]
    pub struct Begun in "dns", "begun" {
        /// When.
        time: rows::Time,
        /// The thread that began it.
        thread: rows::Thread,
        /// The name or address that is looked up, as the program writes it.
        host: rows::Text,
    }

    /// Lookups that have ended, where it is known which.
    #[derive(Eq)]
    pub struct Ended in "dns", "ended" {
        /// When it began.
        time: rows::Time,
        /// The thread that began it.
        thread: rows::Thread,
        /// The name or address that was looked up, as the program writes it.
        host: rows::Text,
        /// How long it took.
        took: rows::Duration,
        /// Whether it failed.
        failed: rows::Flag,
    }
}
