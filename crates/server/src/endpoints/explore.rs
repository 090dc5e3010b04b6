//! What viewers of a session show: flame graphs, callers, functions and timelines. Only what is
//! visible is answered.

mod params;

use super::extract::{Named, Params};
use crate::{
    Shared, answers,
    openapi::{Api, Endpoint, number, text, whole, word},
    problem::Problem,
    store::SessionId,
};
use axum::{extract::State, http::StatusCode, response::Response};
use explore::{
    CallersAnswer, ChildrenAnswer, Columns, Description, ExploreError, Explored, FlameHead,
    FlameQuery, FunctionsAnswer, LinesAnswer, StacksAnswer, TimelineHead,
};
use params::{DIRECTIONS, ExploreParams, ORDERS};
pub(super) use params::{MOST_PIXELS, MOST_ROWS, within};
use profile::SeriesKind;
use serde::Serialize;
use utoipa::openapi::HttpMethod::Get;

pub fn add(api: &mut Api) {
    let description = api.answer::<Description>();
    let summary = "Say what can be explored in a session";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/explore", "explore", summary);
    let endpoint = timed(endpoint).sends(200, "Samples and threads.", description);
    api.add(endpoint.problems(&[422]), describe);
    add_flame(api);
    let functions_answer = api.answer::<FunctionsAnswer>();
    let summary = "List functions with their sums, or search for some";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/functions", "functions", summary).query(
        "sort",
        "The order; `own` if none is given.",
        word(ORDERS),
    );
    let endpoint = listed(searched(selected(endpoint)));
    api.add(endpoint.sends(200, "The functions.", functions_answer), functions);
    let callers_answer = api.answer::<CallersAnswer>();
    let summary = "Tell who calls a function, and whom it calls";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/callers", "callers", summary).query(
        "of",
        "The `id` of the function. Needed.",
        whole(0, u32::MAX),
    );
    let endpoint = listed(selected(endpoint));
    api.add(endpoint.sends(200, "Callers and callees.", callers_answer), callers);
    add_lines(api);
    let children_answer = api.answer::<ChildrenAnswer>();
    let summary = "List the nodes right below a node of the tree of calls";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/children", "children", summary).query(
        "root",
        "The node; the whole if none is given.",
        whole(0, u32::MAX),
    );
    let endpoint = listed(searched(directed(selected(endpoint))));
    api.add(endpoint.sends(200, "The nodes.", children_answer), children);
    let stacks_answer = api.answer::<StacksAnswer>();
    let summary = "List stacks with the threads that have them";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/explore/stacks", "stacks", summary)
        .description(
            "As `clrscope stacks --merged` does it for a process. A search keeps stacks with a \
             function that it finds.",
        );
    let endpoint = listed(searched(selected(endpoint)));
    api.add(endpoint.sends(200, "The stacks of most threads first.", stacks_answer), stacks);
    add_timeline(api);
}

fn add_lines(api: &mut Api) {
    let answer = api.answer::<LinesAnswer>();
    let summary = "List the source lines of a function with their sums";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/explore/lines", "lines", summary)
        .description("Only lines that were sampled. The text of the source is not answered.")
        .query("of", "The `id` of the function. Needed.", whole(0, u32::MAX));
    let endpoint = listed(selected(endpoint));
    api.add(endpoint.sends(200, "The lines.", answer), lines);
}

fn add_flame(api: &mut Api) {
    let head = api.answer::<FlameHead>();
    let summary = "Lay out what is visible of a flame graph";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/flame", "flame", summary)
        .description(
            "Calls that are narrower than a pixel are merged with their neighbors. See FlameHead \
             for the head and the columns.",
        )
        .query(
            "root",
            "The node that is as wide as the view; the whole if none is given.",
            whole(0, u32::MAX),
        )
        .query("width", "Pixels of the view. 1200 if none are given.", whole(1, MOST_PIXELS))
        .query("top", "The first visible row. 0 if none is given.", whole(0, u32::MAX))
        .query("rows", "Visible rows. 100 if none are given.", whole(1, MOST_ROWS));
    let endpoint = searched(directed(selected(endpoint)));
    api.add(endpoint.sends_columns("The visible boxes.", head), flame);
}

fn add_timeline(api: &mut Api) {
    let head = api.answer::<TimelineHead>();
    let summary = "Say what threads did over time, and what happened to them";
    let endpoint = Endpoint::new(Get, "/sessions/{id}/timeline", "timeline", summary)
        .description("See TimelineHead for the head and the columns.")
        .query("profiler", "Sums are of its samples.", word(SeriesKind::ALL.map(SeriesKind::id)))
        .query("width", "Pixels of the view. 1200 if none are given.", whole(1, MOST_PIXELS))
        .query("first", "The first visible thread. 0 if none is given.", whole(0, u32::MAX))
        .query("rows", "Visible threads. 100 if none are given.", whole(1, MOST_ROWS));
    let endpoint = timed(endpoint);
    api.add(endpoint.sends_columns("Visible threads, sums and markers.", head), timeline);
}

fn timed(endpoint: Endpoint) -> Endpoint {
    endpoint
        .query("from", "Leave out what came before: seconds since the start.", number())
        .query("to", "Leave out what came after: seconds since the start.", number())
        .query(
            "last",
            "Only the last seconds of what was recorded so far, in place of `from` and `to`.",
            number(),
        )
}

/// Which samples.
fn selected(endpoint: Endpoint) -> Endpoint {
    timed(endpoint)
        .query(
            "profiler",
            "The samples of this profiler; those of the first that has any if none is given.",
            word(SeriesKind::ALL.map(SeriesKind::id)),
        )
        .query("thread", "Only threads with this in their name, or with this id.", text())
        .query("function", "Only stacks with a function that has this in its full name.", text())
        .query("states", "Only these states of threads, with commas between them.", text())
        .problems(&[422])
}

/// How they are put together.
fn directed(endpoint: Endpoint) -> Endpoint {
    endpoint
        .query("direction", "What is below a call; `callees` if none is given.", word(DIRECTIONS))
        .query(
            "recursion",
            "`merged`: a function that calls itself is one call, however deep.",
            word(["merged"]),
        )
        .query(
            "nodes",
            "`stable`: numbers of nodes stay the same while the session is written, and for each \
             part of its time; a call without selected samples has an empty answer. For callees, \
             without merged recursion.",
            word(["stable"]),
        )
}

fn searched(endpoint: Endpoint) -> Endpoint {
    endpoint.query(
        "search",
        "A part of the names of functions, or a regular expression between slashes.",
        text(),
    )
}

/// Which rows of a list.
pub(super) fn listed(endpoint: Endpoint) -> Endpoint {
    endpoint
        .query(
            "first",
            "Rows to leave out before the first. 0 if none are given.",
            whole(0, u32::MAX),
        )
        .query("rows", "Rows at most. 100 if none are given.", whole(1, MOST_ROWS))
}

impl From<ExploreError> for Problem {
    fn from(error: ExploreError) -> Self {
        let next = "ask for the whole, or for a node or function of an answer";
        match error {
            ExploreError::NoNode(..) | ExploreError::NoFunction(..) | ExploreError::NoType(..) => {
                Self::new(StatusCode::NOT_FOUND, error.to_string(), next)
            }
            ExploreError::SearchTooLong => Self::request(error.to_string()),
            ExploreError::NoReferences => {
                let next = "take a snapshot that is not limited to types or roots";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string(), next)
            }
            ExploreError::NoGrowth(_) => {
                let next = "record more heap snapshots in one session, as `clrscope leaks` does";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string(), next)
            }
            ExploreError::Json(_) => Self::internal(error.to_string()),
        }
    }
}

/// Asks an open session. The answer is written where blocking is no harm.
async fn ask(
    state: Shared,
    id: SessionId,
    params: ExploreParams,
    answer: impl FnOnce(&Explored, &ExploreParams) -> Result<Written, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let opened = state.explorations.open(&state.work, &id, params.part()?).await;
    let answered = match opened {
        Ok(open) => state.explore.run(move || answer(&open, &params)).await,
        Err(problem) => Err(problem),
    };
    state.explorations.tidy();
    let Written { kind, bytes } = answered?;
    state.rooms.send(kind, bytes)
}

/// An answer as it is sent.
struct Written {
    kind: &'static str,
    bytes: Vec<u8>,
}

fn columns(columns: &Columns) -> Result<Written, Problem> {
    Ok(Written { kind: Columns::MEDIA_TYPE, bytes: answers::checked(columns.to_bytes())? })
}

fn json(answer: &impl Serialize) -> Result<Written, Problem> {
    Ok(Written { kind: "application/json", bytes: answers::json(answer)? })
}

async fn describe(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    ask(state, id, params, |open, _| json(&open.describe())).await
}

async fn flame(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let laid_out = ask(state, id, params, |open, params| {
        let query = FlameQuery {
            selection: params.selection(&open.profile)?,
            view: params.view()?,
            search: params.search()?,
        };
        columns(&open.flame(&query)?)
    });
    laid_out.await
}

async fn functions(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let listed = ask(state, id, params, |open, params| {
        let (selection, search) = (params.selection(&open.profile)?, params.search()?);
        let (first, rows) = params.rows()?;
        json(&open.functions(&selection, search.as_ref(), params.sort()?, first, rows)?)
    });
    listed.await
}

async fn callers(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let listed = ask(state, id, params, |open, params| {
        let selection = params.selection(&open.profile)?;
        json(&open.callers(&selection, params.function_id()?, params.rows()?.1)?)
    });
    listed.await
}

async fn lines(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let listed = ask(state, id, params, |open, params| {
        let selection = params.selection(&open.profile)?;
        let (first, rows) = params.rows()?;
        json(&open.lines(&selection, params.function_id()?, first, rows)?)
    });
    listed.await
}

async fn children(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let listed = ask(state, id, params, |open, params| {
        let (selection, search) = (params.selection(&open.profile)?, params.search()?);
        let (first, rows) = params.rows()?;
        json(&open.children(&selection, params.root(), search.as_ref(), first, rows)?)
    });
    listed.await
}

async fn stacks(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let listed = ask(state, id, params, |open, params| {
        let (selection, search) = (params.selection(&open.profile)?, params.search()?);
        let (first, rows) = params.rows()?;
        json(&open.stacks(&selection, search.as_ref(), first, rows)?)
    });
    listed.await
}

async fn timeline(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ExploreParams>,
) -> Result<Response, Problem> {
    let shown = ask(state, id, params, |open, params| {
        columns(&open.timeline(&params.timeline(&open.profile)?)?)
    });
    shown.await
}
