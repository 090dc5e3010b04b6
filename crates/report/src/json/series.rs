//! Samples of one profiler.

use std::collections::BTreeMap;

use profile::{FunctionTotals, Profile, STATES, SampleTable, SeriesKind, Timeline, state_id};
use schemars::JsonSchema;
use serde::Serialize;

use super::values::{ShareJson, since, sorted, states_schema};

/// Samples of one profiler. Those of `calls` and `transitions` are calls, and every call is
/// counted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Series")]
pub(super) struct SeriesJson<'a> {
    /// Id of the profiler.
    profiler: &'static str,
    /// Unit of weights.
    #[schemars(extend("enum" = ["nanoseconds", "count", "bytes"]))]
    unit: &'static str,
    samples: u64,
    /// Sum of the weights of all samples, in `unit`.
    weight: u64,
    /// Samples whose stack is cut at the depth limit.
    truncated: u64,
    /// How many samples of equal weight would give the same information, for error bars.
    effective_samples: f64,
    /// Sums by state; only states that occur.
    #[serde(serialize_with = "sorted")]
    states: BTreeMap<&'static str, StateSums>,
    /// Sums by function, most own weight first.
    #[serde(serialize_with = "sorted")]
    functions: Vec<FunctionSums>,
    sums: Sums,
    #[serde(serialize_with = "sorted")]
    timeline: TimelineJson,
    /// Single samples, where these were kept.
    #[serde(serialize_with = "sorted", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Single<'a>")]
    single: Option<Single<'a>>,
}

/// Sums of one state.
#[derive(Serialize, JsonSchema)]
struct StateSums {
    samples: u64,
    /// In the unit of the series.
    weight: u64,
}

/// Sums of a function.
#[derive(Serialize, JsonSchema)]
struct FunctionSums {
    /// Index in `functions` of the report.
    function: u32,
    /// Samples in the function itself.
    self_samples: u64,
    /// Weight in the function itself, in the unit of the series.
    self_weight: u64,
    /// Share of `self_weight` in the weight of the series.
    #[serde(rename = "self")]
    own: ShareJson,
    /// Samples in the function or in what it called. A stack counts once, however often the
    /// function is on it.
    total_samples: u64,
    /// Weight in the function or in what it called, in the unit of the series.
    total_weight: u64,
    /// Share of `total_weight` in the weight of the series.
    total: ShareJson,
}

/// Sums in columns, with one row for each thread, stack and state.
#[derive(Default, Serialize, JsonSchema)]
struct Sums {
    /// Index in `stacks`.
    stack: Vec<u32>,
    /// Index in `threads`.
    thread: Vec<u32>,
    #[schemars(schema_with = "states_schema")]
    state: Vec<&'static str>,
    /// Whether the stack is cut at the depth limit.
    truncated: Vec<bool>,
    samples: Vec<u32>,
    /// In the unit of the series.
    weight: Vec<u64>,
}

/// Weight over time, in intervals of equal width.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Timeline")]
struct TimelineJson {
    /// Start of the first interval, nanoseconds since the start of the recording.
    from_ns: u64,
    /// Width of an interval, nanoseconds.
    width_ns: u64,
    /// Weight of each interval by state, in the unit of the series; only states that occur.
    weight: BTreeMap<&'static str, Vec<u64>>,
}

/// Single samples in columns.
#[derive(Serialize, JsonSchema)]
struct Single<'a> {
    /// Nanoseconds since the start of the recording.
    time_ns: Vec<u64>,
    /// Index in `threads`.
    thread: Vec<u32>,
    /// Index in `stacks`.
    stack: Vec<u32>,
    /// In the unit of the series.
    weight: &'a [u64],
    #[schemars(schema_with = "states_schema")]
    state: Vec<&'static str>,
    /// Whether the stack is cut at the depth limit.
    truncated: &'a [bool],
}

pub(super) fn series(profile: &Profile, kind: SeriesKind) -> SeriesJson<'_> {
    let series = profile.series(kind);
    let mut sums = Sums::default();
    for cell in &series.cells {
        sums.stack.push(cell.stack.0);
        sums.thread.push(cell.thread.0);
        sums.state.push(state_id(cell.state));
        sums.truncated.push(cell.truncated);
        sums.samples.push(cell.samples);
        sums.weight.push(cell.weight);
    }
    let states = STATES.iter().zip(series.by_state());
    let states = states.filter(|(_, totals)| totals.samples > 0).map(|(state, totals)| {
        (state_id(*state), StateSums { samples: totals.samples, weight: totals.weight })
    });
    SeriesJson {
        profiler: kind.id(),
        unit: kind.value_type().unit.id(),
        samples: series.totals.samples,
        weight: series.totals.weight,
        truncated: series.truncated,
        effective_samples: series.effective_samples(),
        states: states.collect(),
        functions: profile.top_functions(kind).iter().map(function).collect(),
        sums,
        timeline: timeline(profile, &series.timeline),
        single: series.samples.as_ref().map(|table| single(profile, table)),
    }
}

fn function(row: &FunctionTotals) -> FunctionSums {
    FunctionSums {
        function: row.function.0,
        self_samples: row.own.samples,
        self_weight: row.own.weight,
        own: (&row.own_share).into(),
        total_samples: row.total.samples,
        total_weight: row.total.weight,
        total: (&row.total_share).into(),
    }
}

fn timeline(profile: &Profile, timeline: &Timeline) -> TimelineJson {
    let weight = STATES
        .iter()
        .map(|state| {
            let weights =
                timeline.buckets().iter().map(|bucket| bucket[profile::state_index(*state)]);
            (state_id(*state), weights.collect::<Vec<_>>())
        })
        .filter(|(_, weights)| weights.iter().any(|weight| *weight > 0))
        .collect();
    TimelineJson { from_ns: since(profile, timeline.start()), width_ns: timeline.width(), weight }
}

fn single<'a>(profile: &Profile, table: &'a SampleTable) -> Single<'a> {
    Single {
        time_ns: table.time.iter().map(|time| since(profile, *time)).collect(),
        thread: table.thread.iter().map(|thread| thread.0).collect(),
        stack: table.stack.iter().map(|stack| stack.0).collect(),
        weight: &table.weight,
        state: table.state.iter().map(|state| state_id(*state)).collect(),
        truncated: &table.truncated,
    }
}
