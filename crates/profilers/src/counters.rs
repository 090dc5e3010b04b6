//! `counters`: what the process counts about itself.

use crate::{
    Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec,
};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "counters",
    summary: "Values that the process reports about itself: EventCounters and meters, over time",
    overhead: "Too little to measure for EventCounters. Instruments of meters cost something at \
        each measurement.",
    description: "Listens to EventCounters (System.Runtime by default: CPU, heap, collections, \
        thread pool, exceptions, requests in other providers) and to named meters of \
        System.Diagnostics.Metrics, and keeps each value with its time. The process computes the \
        values itself, once per interval, on a separate thread.",
    values: &[ValueSpec { kind: "values", unit: "count" }],
    params: &[
        ParamSpec {
            name: "interval",
            help: "Seconds between two values",
            default: "1",
            kind: ParamKind::Number(1, 3600),
        },
        ParamSpec {
            name: "providers",
            help: "EventSources whose counters are recorded, such as \
                System.Runtime+Microsoft.AspNetCore.Hosting",
            default: "System.Runtime",
            kind: ParamKind::Names,
        },
        ParamSpec {
            name: "meters",
            help: "Meters that are recorded, such as \
                Microsoft.AspNetCore.Hosting+MyCompany.MyMeter",
            default: "",
            kind: ParamKind::Names,
        },
    ],
    events: (0, 0),
    event_pipe: &[
        EventPipeSpec {
            provider: "{providers}",
            // `EventCounters` comes at any level and belongs to no group; nothing else of the
            // source is wanted.
            keywords: 0,
            level: 1,
            arguments: "EventCounterIntervalSec={interval}",
            runtimes: EventPipeSpec::EVENT_COUNTERS,
            stacks: false,
        },
        EventPipeSpec {
            provider: "System.Diagnostics.Metrics",
            // TimeSeriesValues.
            keywords: 0x2,
            level: 4,
            arguments: "SessionId={session};Metrics={meters};RefreshInterval={interval};MaxTimeSeries=1000;MaxHistograms=20",
            runtimes: EventPipeSpec::ALL,
            stacks: false,
        },
    ],
    since: EventPipeSpec::EVENT_COUNTERS.0,
    too_old: "a runtime that old crashes if the program ends while its first EventCounters are \
        written; leave out counters, and use gc, threadpool, exceptions, locks and cpu, which \
        measure most of it by other means",
    attach: true,
    checkup: Some("counters"),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[CounterDef::table, CounterValue::table];

/// Nothing runs inside.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

/// What the values of a counter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Levels: the mean over the interval, or the last value.
    Level,
    /// Increases per second.
    Rate,
}

impl rows::Words for CounterKind {
    const WORDS: &'static [(Self, &'static str)] =
        &[(CounterKind::Level, "level"), (CounterKind::Rate, "rate")];
}

rows::rows! {
    /// Things that the process counts about itself.
    #[derive(Eq)]
    pub struct CounterDef in "counters", "counters" {
        /// Its number, from 0 in the order of rows.
        counter: rows::Narrow<rows::Number, u32>,
        /// EventSource or meter that it is of.
        source: rows::Text,
        /// Name; for a quantile of a histogram with `p50`, `p95` … behind.
        name: rows::Text,
        /// Name for people.
        title: rows::Text,
        /// Unit as the program gives it; empty for none.
        unit: rows::Text,
        /// Tags, `key=value,…`; empty for none.
        tags: rows::Text,
        /// What its values are.
        kind: rows::Word<CounterKind>,
    }

    /// Values of counters.
    #[derive(Copy)]
    pub struct CounterValue in "counters", "values" {
        /// When it came.
        time: rows::Time,
        /// Number of the counter.
        counter: rows::Narrow<rows::Number, u32>,
        /// The value.
        value: rows::Real,
    }
}
