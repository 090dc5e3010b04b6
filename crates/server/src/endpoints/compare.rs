//! Two sessions, compared.

mod views;

use super::extract::Body;
use crate::{
    Shared, answers,
    openapi::{Api, Endpoint},
    problem::Problem,
    store::SessionId,
};
use ::compare::{Basis, Comparison, Options};
use axum::{extract::State, response::Response};
use profile::{Filter, SeriesKind};
use schemars::JsonSchema;
use serde::Deserialize;
use utoipa::openapi::HttpMethod;

/// Least and greatest confidence.
const CONFIDENCE: std::ops::RangeInclusive<f64> = 0.5..=0.999_999;

/// What is to be compared, and how.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompareRequest {
    /// The session to compare with.
    before: String,
    /// The session that is compared.
    after: String,
    /// What amounts are related to; `run` if both are whole runs of a program, else `second`.
    #[schemars(extend("enum" = ["second", "run", "total", null]))]
    per: Option<String>,
    /// The chance that nothing is called certain if nothing changed: 0.5 to 0.999999; 0.99 if none
    /// is given.
    confidence: Option<f64>,
    /// By how much something may get worse, as a share of what it was: at least 0.
    fail_on: Option<f64>,
    /// Functions with a lesser part of all samples do not count for `fail_on`: 0 to 1; 0.01 if none
    /// is given.
    min_share: Option<f64>,
    /// Only what this profiler has recorded.
    profiler: Option<String>,
    /// Only threads with this in their name, or with this id.
    thread: Option<String>,
    /// Only stacks with a function that has this in its full name.
    function: Option<String>,
    /// Leave out what came before: seconds since the start of each recording.
    from: Option<f64>,
    /// Leave out what came after: seconds since the start of each recording.
    to: Option<f64>,
    /// Whether the differential call trees are sent.
    #[serde(default)]
    tree: bool,
}

pub fn add(api: &mut Api) {
    let request = api.request::<CompareRequest>();
    let answer = api.answer::<Comparison>();
    let endpoint = Endpoint::new(HttpMethod::Post, "/compare", "compare", "Compare two sessions")
        .description("What `clrscope compare --json` prints.")
        .body("application/json", Some(request))
        .sends(200, "What differs, and how certain that is.", answer)
        .problems(&[404, 422]);
    api.add(endpoint, compare);
    views::add(api);
}

async fn compare(
    State(state): State<Shared>,
    Body(request): Body<CompareRequest>,
) -> Result<Response, Problem> {
    let (options, filter) = (request.options()?, request.filter()?);
    let ids = [&request.before, &request.after].map(|name| SessionId::parse(name));
    let [before, after] = ids;
    let (before, after) = (before?, after?);
    let shared = Shared::clone(&state);
    let compared = move || {
        let before = shared.recording(&before, &filter)?;
        let after = shared.recording(&after, &filter)?;
        let comparison = ::compare::compare(&before, &after, &options);
        answers::json(&comparison)
    };
    let json = state.heavy.run(compared).await?;
    state.rooms.send_json(json)
}

impl CompareRequest {
    fn options(&self) -> Result<Options, Problem> {
        let usual = Options::default();
        let basis = match &self.per {
            None => None,
            Some(word) => Some(
                Basis::by_name(word)
                    .ok_or_else(|| Problem::request("`per` is second, run or total"))?,
            ),
        };
        let series = match &self.profiler {
            None => None,
            Some(id) => {
                let found = SeriesKind::ALL.into_iter().find(|kind| kind.id() == id);
                let known = SeriesKind::ALL.map(SeriesKind::id).join(", ");
                Some(found.ok_or_else(|| {
                    Problem::request(format!("`profiler` is none that has samples: {known}"))
                })?)
            }
        };
        let confidence = self.confidence.unwrap_or(usual.confidence);
        let min_share = self.min_share.unwrap_or(usual.min_share);
        if !CONFIDENCE.contains(&confidence) {
            return Err(Problem::request("`confidence` is from 0.5 to 0.999999"));
        }
        if self.fail_on.is_some_and(|limit| !(limit >= 0.0 && limit.is_finite())) {
            return Err(Problem::request("`fail_on` is at least 0"));
        }
        if !(0.0..=1.0).contains(&min_share) {
            return Err(Problem::request("`min_share` is from 0 to 1"));
        }
        let (fail_on, with_tree) = (self.fail_on, self.tree);
        Ok(Options { basis, confidence, series, fail_on, min_share, with_tree })
    }

    fn filter(&self) -> Result<Filter, Problem> {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let (from, to) = (self.from.unwrap_or(0.0), self.to.unwrap_or(f64::INFINITY));
        if !(from >= 0.0 && from < to) {
            return Err(Problem::request("`from` is at least 0 and less than `to`"));
        }
        let is_part = self.from.is_some() || self.to.is_some();
        Ok(Filter {
            time: is_part.then(|| nanos(from)..nanos(to)),
            thread: self.thread.clone(),
            states: None,
            text: self.function.clone(),
        })
    }
}
