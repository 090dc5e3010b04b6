//! Values that several parts of the JSON have in common.

use profile::{CallSite, Distribution, Estimate, Profile, STATES, session, state_id};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// Writes keys in alphabetical order, as those of views are.
pub(crate) fn sorted<S: Serializer>(
    value: &impl Serialize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let value = serde_json::to_value(value).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}

/// Nanoseconds since the start of the recording.
pub(crate) fn since(profile: &Profile, time: session::Nanos) -> u64 {
    time.saturating_sub(profile.info.start)
}

/// The words for states of threads.
pub(crate) fn state_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": STATES.map(state_id) })
}

/// A column of them.
pub(crate) fn states_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": state_schema(generator) })
}

/// A share with its 95 % interval, each 0 to 1. Where every event is counted, the interval is the
/// share itself.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Share")]
pub(crate) struct ShareJson {
    share: f64,
    low: f64,
    high: f64,
}

impl From<&Estimate> for ShareJson {
    fn from(&Estimate { share, low, high }: &Estimate) -> Self {
        Self { share, low, high }
    }
}

/// A value at a time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Point")]
pub(crate) struct PointJson {
    /// Nanoseconds since the start of the recording.
    time_ns: u64,
    value: f64,
}

impl PointJson {
    pub fn of(profile: &Profile, time: session::Nanos, value: f64) -> Self {
        Self { time_ns: since(profile, time), value }
    }
}

/// Values and how they are spread.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Distribution")]
pub(crate) struct DistributionJson {
    /// How many values there are.
    count: u64,
    /// Their sum.
    total: u64,
    /// The median.
    p50: u64,
    /// 95 % are at most this.
    p95: u64,
    /// 99 % are at most this.
    p99: u64,
    /// The largest.
    max: u64,
}

impl From<&Distribution> for DistributionJson {
    fn from(&Distribution { count, total, p50, p95, p99, max }: &Distribution) -> Self {
        Self { count, total, p50, p95, p99, max }
    }
}

/// Where something is called.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Place")]
pub(crate) struct PlaceJson {
    /// Index in `functions`.
    function: u32,
    /// Index in `files`; null where the line is not known.
    file: Option<u32>,
    /// The line, from 1.
    line: Option<u32>,
}

impl From<&CallSite> for PlaceJson {
    fn from(place: &CallSite) -> Self {
        Self {
            function: place.function.0,
            file: place.line.map(|line| line.file.0),
            line: place.line.map(|line| line.line),
        }
    }
}
