//! What viewers of a comparison show: differential flame graphs, functions and types. Only what is
//! visible is answered.

use super::CompareRequest;
use crate::{
    Shared,
    endpoints::{
        explore::{MOST_PIXELS, MOST_ROWS, within},
        extract::Params,
        sessions::params::series,
    },
    openapi::{Api, Endpoint, number, text, whole, word},
    problem::Problem,
    store::SessionId,
};
use ::compare::{
    Basis,
    viewed::{Children, FlameHead, FunctionsHead, Order, Overview, TypeOrder, TypesHead, Viewed},
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use explore::{Columns, Pattern, View};
use profile::SeriesKind;
use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::HttpMethod::Get;

pub fn add(api: &mut Api) {
    let overview_answer = api.answer::<Overview<'_>>();
    let summary = "Say what differs between two sessions, in short";
    let endpoint = compared(Endpoint::new(Get, "/compare/overview", "compare_overview", summary));
    let answer = "What differs, and what can be looked at.";
    api.add(endpoint.sends(200, answer, overview_answer), overview);
    let head = api.answer::<FlameHead>();
    let summary = "Lay out what is visible of a differential flame graph";
    let endpoint = Endpoint::new(Get, "/compare/flame", "compare_flame", summary)
        .description("See DifferenceHead for the head and the columns.")
        .query(
            "root",
            "The node that is as wide as the view; the whole if none is given.",
            whole(0, u32::MAX),
        )
        .query("width", "Pixels of the view. 1200 if none are given.", whole(1, MOST_PIXELS))
        .query("top", "The first visible row. 0 if none is given.", whole(0, u32::MAX));
    api.add(sampled(endpoint).sends_columns("The visible boxes.", head), flame);
    let children_answer = api.answer::<Children>();
    let summary = "List the nodes right below a node of the differential call tree";
    let endpoint = Endpoint::new(Get, "/compare/children", "compare_children", summary).query(
        "root",
        "The node; the whole if none is given.",
        whole(0, u32::MAX),
    );
    api.add(listed(sampled(endpoint)).sends(200, "The nodes.", children_answer), children);
    let functions_answer = api.answer::<FunctionsHead>();
    let summary = "List functions with their changes, or search for some";
    let endpoint = Endpoint::new(Get, "/compare/functions", "compare_functions", summary).query(
        "sort",
        "The order; `self` if none is given.",
        word(Order::ALL.map(|(word, _)| word)),
    );
    api.add(listed(sampled(endpoint)).sends(200, "The functions.", functions_answer), functions);
    let types_answer = api.answer::<TypesHead<'_>>();
    let summary = "List types that differ between the heaps, or search for some";
    let endpoint = Endpoint::new(Get, "/compare/types", "compare_types", summary)
        .query(
            "sort",
            "The order; `bytes` if none is given.",
            word(TypeOrder::ALL.map(|(word, _)| word)),
        )
        .query("rows", "Rows at most. 100 if none are given.", whole(1, MOST_ROWS))
        .query("search", SEARCH, text());
    api.add(listed(compared(endpoint)).sends(200, "The types.", types_answer), types);
}

const SEARCH: &str = "A part of the names, or a regular expression between slashes.";

/// Which sessions, and how.
fn compared(endpoint: Endpoint) -> Endpoint {
    endpoint
        .query("before", "The session to compare with. Needed.", text())
        .query("after", "The session that is compared. Needed.", text())
        .query(
            "per",
            "What amounts are related to; `run` if both are whole runs of a program, else `second`.",
            word(Basis::ALL.map(|(_, word)| word)),
        )
        .query(
            "confidence",
            "The chance that nothing is called certain if nothing changed. 0.99 if none is given.",
            number(),
        )
        .query("thread", "Only threads with this in their name, or with this id.", text())
        .query("function", "Only stacks with a function that has this in its full name.", text())
        .query("from", "Leave out what came before: seconds since the start of each.", number())
        .query("to", "Leave out what came after: seconds since the start of each.", number())
        .problems(&[400, 404, 422])
}

/// Which samples of them.
fn sampled(endpoint: Endpoint) -> Endpoint {
    compared(endpoint)
        .query(
            "profiler",
            "The samples of this profiler; those of the first that has any if none is given.",
            word(SeriesKind::ALL.map(SeriesKind::id)),
        )
        .query("search", SEARCH, text())
        .query("rows", "Rows at most. 100 if none are given.", whole(1, MOST_ROWS))
}

fn listed(endpoint: Endpoint) -> Endpoint {
    endpoint.query(
        "first",
        "Rows to leave out before the first. 0 if none are given.",
        whole(0, u32::MAX),
    )
}

/// What is wanted of a comparison.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewParams {
    before: Option<String>,
    after: Option<String>,
    per: Option<String>,
    confidence: Option<f64>,
    thread: Option<String>,
    function: Option<String>,
    from: Option<f64>,
    to: Option<f64>,
    profiler: Option<String>,
    search: Option<String>,
    sort: Option<String>,
    root: Option<u32>,
    width: Option<u32>,
    top: Option<u32>,
    first: Option<u32>,
    rows: Option<u32>,
}

impl ViewParams {
    fn request(&self) -> Result<CompareRequest, Problem> {
        let needed = |name: &str, given: &Option<String>| {
            given.clone().ok_or_else(|| Problem::request(format!("`{name}` is missing: a session")))
        };
        Ok(CompareRequest {
            before: needed("before", &self.before)?,
            after: needed("after", &self.after)?,
            per: self.per.clone(),
            confidence: self.confidence,
            thread: self.thread.clone(),
            function: self.function.clone(),
            from: self.from,
            to: self.to,
            ..CompareRequest::default()
        })
    }

    fn search(&self) -> Result<Option<Pattern>, Problem> {
        Pattern::parse(self.search.as_deref().unwrap_or_default())
            .map_err(|error| Problem::request(error.to_string()))
    }

    fn rows(&self) -> Result<(usize, usize), Problem> {
        let rows = within("rows", self.rows, 100, MOST_ROWS)?;
        Ok((self.first.unwrap_or(0) as usize, rows as usize))
    }

    fn view(&self) -> Result<View, Problem> {
        Ok(View {
            root: self.root.map(|root| root as usize),
            width: f64::from(within("width", self.width, 1200, MOST_PIXELS)?),
            top: self.top.unwrap_or(0),
            rows: within("rows", self.rows, 100, MOST_ROWS)?,
        })
    }

    /// The samples: those that are asked for, or the first.
    fn series(&self, viewed: &Viewed) -> Result<usize, Problem> {
        let kind = self.profiler.as_deref().map(series).transpose()?;
        viewed.series(kind).ok_or_else(|| {
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "the two sessions have no samples of this kind in common",
                "GET compare/overview lists what they have in common",
            )
        })
    }

    /// One of these words; the first if none is given.
    fn order<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Problem> {
        let wanted = self.sort.as_deref().unwrap_or(words[0].0);
        let found = words.iter().find(|(word, _)| *word == wanted).map(|(_, order)| *order);
        found.ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Problem::request(format!("`sort` is one of {}", known.join(", ")))
        })
    }
}

/// Asks a comparison, which is made if it is not known.
async fn ask<T: Send + 'static>(
    state: Shared,
    params: ViewParams,
    answer: impl FnOnce(&Viewed, &ViewParams) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let request = params.request()?;
    let (options, filter) = (request.options()?, request.filter()?);
    let (before, after) = (SessionId::parse(&request.before)?, SessionId::parse(&request.after)?);
    let how = format!("{options:?} {filter:?}");
    let both = [before.clone(), after.clone()];
    let compared = state.explorations.compare(&state.work, both, how, move |work| {
        let before = work.recording(&before, &filter)?;
        let after = work.recording(&after, &filter)?;
        Ok(Viewed::new(::compare::compare(&before, &after, &options)))
    });
    let viewed = compared.await?;
    state.explore.run(move || answer(&viewed, &params)).await
}

fn value(answer: impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(answer).map_err(|error| Problem::internal(error.to_string()))
}

async fn overview(
    State(state): State<Shared>,
    Params(params): Params<ViewParams>,
) -> Result<Json<Value>, Problem> {
    let said = ask(state, params, |viewed, params| {
        value(viewed.overview(within("rows", params.rows, 15, MOST_ROWS)? as usize))
    });
    said.await.map(Json)
}

async fn flame(
    State(state): State<Shared>,
    Params(params): Params<ViewParams>,
) -> Result<Response, Problem> {
    let laid_out = ask(state, params, |viewed, params| {
        let search = params.search()?;
        Ok(viewed.flame(params.series(viewed)?, params.view()?, search.as_ref())?.to_bytes())
    });
    Ok(([(header::CONTENT_TYPE, Columns::MEDIA_TYPE)], laid_out.await?).into_response())
}

async fn children(
    State(state): State<Shared>,
    Params(params): Params<ViewParams>,
) -> Result<Json<Children>, Problem> {
    let listed = ask(state, params, |viewed, params| {
        let (search, (first, rows)) = (params.search()?, params.rows()?);
        let root = params.root.map(|root| root as usize);
        Ok(viewed.children(params.series(viewed)?, root, search.as_ref(), first, rows)?)
    });
    listed.await.map(Json)
}

async fn functions(
    State(state): State<Shared>,
    Params(params): Params<ViewParams>,
) -> Result<Json<FunctionsHead>, Problem> {
    let listed = ask(state, params, |viewed, params| {
        let (search, (first, rows)) = (params.search()?, params.rows()?);
        let order = params.order(&Order::ALL)?;
        Ok(viewed.functions(params.series(viewed)?, search.as_ref(), order, first, rows))
    });
    listed.await.map(Json)
}

async fn types(
    State(state): State<Shared>,
    Params(params): Params<ViewParams>,
) -> Result<Json<Value>, Problem> {
    let listed = ask(state, params, |viewed, params| {
        let (search, (first, rows)) = (params.search()?, params.rows()?);
        value(viewed.types(search.as_ref(), params.order(&TypeOrder::ALL)?, first, rows))
    });
    listed.await.map(Json)
}
