//! What viewers of a heap snapshot show: types, a treemap of what retains what, and paths from
//! roots. Only what is visible is answered.

use super::{
    explore::{MOST_ROWS, listed, within},
    extract::{Named, Params},
};
use crate::{
    Shared,
    openapi::{Api, Endpoint, text, whole, word},
    problem::Problem,
    store::SessionId,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use explore::{
    Columns, GrowthSort, GrowthView, HeapChildren, HeapDescription, HeapGrowth, HeapPaths,
    HeapTypes, HeapView, MOST_SIDE, Pattern, TreemapHead, TypeSort,
};
use serde::Deserialize;
use utoipa::openapi::HttpMethod::Get;

pub fn add(api: &mut Api) {
    let answer = api.answer::<HeapDescription>();
    let summary = "Describe a heap snapshot of a session";
    let endpoint = of_snapshot(Endpoint::new(Get, "/sessions/{id}/heap", "heap", summary));
    api.add(endpoint.sends(200, "The snapshot.", answer), describe);
    let answer = api.answer::<HeapTypes>();
    let summary = "List types on the heap, or search for some";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/heap/types", "heap_types", summary)
        .query(
            "sort",
            "The order; `bytes` if none is given.",
            word(TypeSort::ALL.map(|(word, _)| word)),
        )
        .query("search", "A part of the names, or a regular expression between slashes.", text());
    api.add(of_snapshot(listed(endpoint)).sends(200, "The types.", answer), types);
    let head = api.answer::<TreemapHead>();
    let summary = "Lay out a treemap of what retains what";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/heap/treemap", "heap_treemap", summary)
        .description("See TreemapHead for the head and the columns.")
        .query(
            "root",
            "The object that is as large as the view; all that roots retain if none is given.",
            whole(0, u32::MAX),
        )
        .query("width", "Pixels of the view. 1200 if none are given.", whole(1, MOST_SIDE))
        .query("height", "Pixels of the view. 600 if none are given.", whole(1, MOST_SIDE));
    api.add(of_snapshot(endpoint).sends_columns("The visible cells.", head), treemap);
    let answer = api.answer::<HeapChildren>();
    let summary = "List what an object alone keeps alive";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/heap/dominated", "heap_dominated", summary)
        .query("root", "The object; the roots if none is given.", whole(0, u32::MAX));
    api.add(of_snapshot(listed(endpoint)).sends(200, "The objects.", answer), dominated);
    let answer = api.answer::<HeapPaths>();
    let summary = "Say what retains an object, or the objects of a type";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/heap/paths", "heap_paths", summary)
        .query("of", "The object.", whole(0, u32::MAX))
        .query("type", "The `id` of the type. One of the two is needed.", whole(0, u32::MAX));
    api.add(of_snapshot(endpoint).sends(200, "The paths from roots, as a graph.", answer), paths);
    add_growth(api);
}

fn add_growth(api: &mut Api) {
    let answer = api.answer::<HeapGrowth>();
    let summary = "List types that changed over the heap snapshots of a session";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/heap/growth", "heap_growth", summary)
        .query(
            "sort",
            "Which growth comes first; that in `bytes` if none is given.",
            word(GrowthSort::ALL.map(|(word, _)| word)),
        )
        .query("search", "A part of the names, or a regular expression between slashes.", text());
    let endpoint = listed(endpoint).problems(&[422]);
    api.add(endpoint.sends(200, "The types, and the snapshots.", answer), growth);
}

fn of_snapshot(endpoint: Endpoint) -> Endpoint {
    endpoint
        .query(
            "snapshot",
            "The number of the snapshot, from 1 on; the last one if none is given.",
            whole(1, u32::MAX),
        )
        .problems(&[422])
}

/// What is wanted of a heap snapshot.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeapParams {
    snapshot: Option<u32>,
    root: Option<u32>,
    of: Option<u32>,
    r#type: Option<u32>,
    search: Option<String>,
    sort: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    first: Option<u32>,
    rows: Option<u32>,
}

impl HeapParams {
    fn rows(&self) -> Result<(usize, usize), Problem> {
        let rows = within("rows", self.rows, 100, MOST_ROWS)?;
        Ok((self.first.unwrap_or(0) as usize, rows as usize))
    }

    fn sort(&self) -> Result<TypeSort, Problem> {
        one_of(self.sort.as_deref(), TypeSort::ALL)
    }
}

/// What is wanted of the growth of a heap.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrowthParams {
    search: Option<String>,
    sort: Option<String>,
    first: Option<u32>,
    rows: Option<u32>,
}

/// The order with this word, or that of `bytes` if none is given.
fn one_of<Sort: Copy, const N: usize>(
    wanted: Option<&str>,
    all: [(&'static str, Sort); N],
) -> Result<Sort, Problem> {
    let wanted = wanted.unwrap_or("bytes");
    let found = all.iter().find(|(word, _)| *word == wanted);
    found.map(|(_, sort)| *sort).ok_or_else(|| {
        let known = all.map(|(word, _)| word).join(", ");
        Problem::request(format!("`sort` is one of {known}"))
    })
}

/// What is searched for; none if the text is empty.
fn pattern(search: Option<&str>) -> Result<Option<Pattern>, Problem> {
    Pattern::parse(search.unwrap_or_default()).map_err(|error| Problem::request(error.to_string()))
}

/// Asks a heap snapshot, which is read if it is not open.
async fn ask<T: Send + 'static>(
    state: Shared,
    id: SessionId,
    params: HeapParams,
    answer: impl FnOnce(&HeapView, &HeapParams) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (own, number) = (id.clone(), params.snapshot);
    let opened = state.explorations.heap(&state.work, id, number, move |work| {
        let read = work.program.heap_snapshot(&work.path(&own), number);
        read.map(HeapView::new).map_err(|cause| {
            let next = "GET sessions/{id} says how many heap snapshots a session has";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, cause, next)
        })
    });
    let heap = opened.await?;
    state.explore.run(move || answer(&heap, &params)).await
}

async fn describe(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<HeapParams>,
) -> Result<Json<HeapDescription>, Problem> {
    ask(state, id, params, |heap, _| Ok(heap.describe())).await.map(Json)
}

async fn types(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<HeapParams>,
) -> Result<Json<HeapTypes>, Problem> {
    let listed = ask(state, id, params, |heap, params| {
        let search = pattern(params.search.as_deref())?;
        let (first, rows) = params.rows()?;
        Ok(heap.types(search.as_ref(), params.sort()?, first, rows))
    });
    listed.await.map(Json)
}

async fn treemap(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<HeapParams>,
) -> Result<Response, Problem> {
    let laid_out = ask(state, id, params, |heap, params| {
        let width = within("width", params.width, 1200, MOST_SIDE)?;
        let height = within("height", params.height, 600, MOST_SIDE)?;
        Ok(heap.treemap(params.root, width.into(), height.into())?.to_bytes())
    });
    Ok(([(header::CONTENT_TYPE, Columns::MEDIA_TYPE)], laid_out.await?).into_response())
}

async fn dominated(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<HeapParams>,
) -> Result<Json<HeapChildren>, Problem> {
    let listed = ask(state, id, params, |heap, params| {
        let (first, rows) = params.rows()?;
        Ok(heap.dominated(params.root, first, rows)?)
    });
    listed.await.map(Json)
}

async fn paths(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<HeapParams>,
) -> Result<Json<HeapPaths>, Problem> {
    let found = ask(state, id, params, |heap, params| match (params.of, params.r#type) {
        (Some(node), None) => Ok(heap.paths_of_object(node)?),
        (None, Some(id)) => Ok(heap.paths_of_type(id)?),
        _ => {
            Err(Problem::request("`of` or `type` is missing: the object, or the `id` of the type"))
        }
    });
    found.await.map(Json)
}

async fn growth(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<GrowthParams>,
) -> Result<Json<HeapGrowth>, Problem> {
    let own = id.clone();
    let opened = state.explorations.growth(&state.work, id, move |work| {
        let read = work.program.heap_summaries(&work.path(&own)).map_err(|cause| {
            let next = "see whether the file of the session is complete: GET sessions/{id}";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, cause, next)
        });
        Ok(GrowthView::new(&read?)?)
    });
    let view = opened.await?;
    let listed = state.explore.run(move || {
        let search = pattern(params.search.as_deref())?;
        let sort = one_of(params.sort.as_deref(), GrowthSort::ALL)?;
        let rows = within("rows", params.rows, 100, MOST_ROWS)?;
        let first = params.first.unwrap_or(0) as usize;
        Ok::<_, Problem>(view.types(search.as_ref(), sort, first, rows as usize))
    });
    listed.await.map(Json)
}
