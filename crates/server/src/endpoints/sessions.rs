//! Sessions: what was recorded, and what it says.

mod detail;
pub mod params;
mod upload;

use super::extract::{Body as Received, Named, Params};
use crate::{
    Shared, answers,
    openapi::{Api, Endpoint, flag, number, text, whole, word},
    problem::Problem,
    store::{SessionId, SessionRow},
};
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use detail::SessionDetail;
use document::Document;
use explore::Part;
use params::ReportParams;
use profile::{Profile, SeriesKind};
use report::{EXPORTERS, Exporter, SnapshotSection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{Seek as _, SeekFrom},
};
use tokio_util::io::ReaderStream;
use utoipa::openapi::HttpMethod;

pub use upload::most_at_once as uploads;

/// Sessions of one answer.
const MOST_ROWS: u32 = 1000;

/// The header that says how many sessions there are.
const TOTAL: &str = "x-total-count";

/// What a page of ours that somebody else's names are in may do: run its own script, in an origin
/// of its own, so that it has no cookie and reaches no address.
const SANDBOX: &str = "sandbox allow-scripts allow-downloads; default-src 'none'; \
    script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

pub fn add(api: &mut Api) {
    use HttpMethod::{Delete, Get, Patch};
    let list = api.list::<SessionRow>();
    let endpoint = Endpoint::new(Get, "/sessions", "sessions", "List the sessions, newest first")
        .description("The header `X-Total-Count` says how many there are.")
        .query(
            "first",
            "Sessions to leave out before the first. 0 if none are given.",
            whole(0, u32::MAX),
        )
        .query("rows", "Sessions at most. 1000 if none are given.", whole(1, MOST_ROWS));
    api.add(endpoint.sends(200, "The sessions.", list).problems(&[400]), sessions);
    upload::add(api);
    let list = api.list::<Format>();
    let endpoint = Endpoint::new(Get, "/formats", "formats", "List the formats of reports");
    api.add(endpoint.sends(200, "The formats.", list), formats);
    let detail = api.answer::<SessionDetail>();
    let endpoint = Endpoint::new(Get, "/sessions/{id}", "session", "Describe a session")
        .sends(200, "What the session has.", detail)
        .problems(&[422]);
    api.add(endpoint, session);
    let (request, row) = (api.request::<SessionChange>(), api.answer::<SessionRow>());
    let endpoint = Endpoint::new(
        Patch,
        "/sessions/{id}",
        "change_session",
        "Rename a session, or note something",
    )
    .body("application/json", Some(request))
    .sends(200, "The session, with its new name.", row)
    .problems(&[409]);
    api.add(endpoint, change);
    let endpoint = Endpoint::new(Delete, "/sessions/{id}", "delete_session", "Delete a session");
    api.add(endpoint.sends_nothing("It is deleted.").problems(&[409]), delete);
    let endpoint = Endpoint::new(Get, "/sessions/{id}/file", "file", "Download a session file")
        .description("As far as it is written, if the recording continues.")
        .sends_as("The file, for `clrscope report`.", &["application/octet-stream"]);
    api.add(endpoint, file);
    let document = api.answer::<Document>();
    let endpoint = Endpoint::new(
        Get,
        "/sessions/{id}/document",
        "document",
        "Get what a session says, as sections of sentences, tables and trees",
    );
    let endpoint = narrowed(endpoint)
        .sends(200, "What `clrscope report` prints, as typed values.", document)
        .problems(&[422]);
    api.add(endpoint, document_of);
    let kinds: Vec<_> = EXPORTERS.iter().map(media_type).collect();
    let endpoint = Endpoint::new(
        Get,
        "/sessions/{id}/report",
        "report",
        "Get a session in a format for people or for other tools",
    )
    .query(
        "format",
        "The format; `text` if none is given.",
        word(EXPORTERS.iter().map(|own| own.id)),
    );
    let endpoint = narrowed(endpoint)
        .sends_as("The report. `clrscope schema report` describes that in JSON.", &kinds)
        .problems(&[422]);
    api.add(endpoint, report_of);
}

/// What documents and reports can be of.
fn narrowed(endpoint: Endpoint) -> Endpoint {
    let series = SeriesKind::ALL.map(SeriesKind::id);
    endpoint
        .query("profiler", "Only the samples of this profiler.", word(series))
        .query("thread", "Only threads with this in their name, or with this id.", text())
        .query("function", "Only stacks with a function that has this in its full name.", text())
        .query("from", "Leave out what came before: seconds since the start.", number())
        .query("to", "Leave out what came after: seconds since the start.", number())
        .query("names", "How functions are written.", word(params::NAMES))
        .query("lines", "Whether source files and lines are written.", flag())
        .query("rows", "Rows of each list.", whole(1, params::MOST_ROWS))
}

/// A format of reports.
#[derive(Debug, Serialize, JsonSchema)]
struct Format {
    /// For the parameter `format`.
    id: &'static str,
    /// Extension of files.
    extension: &'static str,
    /// What it is.
    summary: &'static str,
}

async fn formats() -> Json<Vec<Format>> {
    let format =
        |own: &Exporter| Format { id: own.id, extension: own.extension, summary: own.summary };
    Json(EXPORTERS.iter().map(format).collect())
}

/// Which of the sessions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    first: Option<u32>,
    rows: Option<u32>,
}

async fn sessions(
    State(state): State<Shared>,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    let rows = params.rows.unwrap_or(MOST_ROWS);
    if !(1..=MOST_ROWS).contains(&rows) {
        return Err(Problem::request(format!("`rows` is from 1 to {MOST_ROWS}")));
    }
    let (first, rows) = (params.first.unwrap_or(0) as usize, rows as usize);
    let shared = Shared::clone(&state);
    let list = move || {
        let (all, rows) = shared.store.list(first, rows)?;
        Ok((all, answers::json(&rows)?))
    };
    let (all, json) = state.light.run(list).await?;
    let mut response = state.rooms.send_json(json)?;
    response.headers_mut().insert(TOTAL, HeaderValue::from(all));
    Ok(response)
}

async fn session(State(state): State<Shared>, Named(id): Named) -> Result<Response, Problem> {
    // The page of a session asks three times about it: all of them read it once.
    let opened = state.explorations.open(&state.work, &id, None).await;
    state.explorations.tidy();
    let open = opened?;
    let shared = Shared::clone(&state);
    let described = move || {
        answers::json(&SessionDetail::of(
            shared.store.row(&id)?,
            &open.profile,
            open.heap_snapshots,
        ))
    };
    state.rooms.send_json(state.light.run(described).await?)
}

/// What to change about a session. What is left out remains.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionChange {
    /// Its new name.
    name: Option<String>,
    /// A note about it, at most 4096 bytes; an empty one deletes it.
    note: Option<String>,
}

async fn change(
    State(state): State<Shared>,
    Named(id): Named,
    Received(change): Received<SessionChange>,
) -> Result<Json<SessionRow>, Problem> {
    let shared = Shared::clone(&state);
    let changed = move || {
        let name = change.name.as_deref().map(SessionId::parse).transpose()?;
        let id = shared.store.change(&id, name, change.note.as_deref())?;
        shared.store.row(&id)
    };
    state.light.run(changed).await.map(Json)
}

async fn delete(State(state): State<Shared>, Named(id): Named) -> Result<StatusCode, Problem> {
    let shared = Shared::clone(&state);
    state.light.run(move || shared.store.delete(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn file(State(state): State<Shared>, Named(id): Named) -> Result<Response, Problem> {
    let (shared, named) = (Shared::clone(&state), id.clone());
    let file = state.light.run(move || shared.store.read(&named)).await?;
    send(file, "application/octet-stream", &id, session::EXTENSION)
}

async fn document_of(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ReportParams>,
) -> Result<Response, Problem> {
    if params.has_format() {
        return Err(Problem::request("a document has no `format`; a report has one"));
    }
    let options = params.options()?;
    let part = options.filter.time.clone().map(Part::Time);
    let opened = state.explorations.open(&state.work, &id, part).await;
    state.explorations.tidy();
    let open = opened?;
    let shared = Shared::clone(&state);
    let written = move || {
        let document = report::document_of(&open.profile, &options, |profile| {
            snapshots(&shared, &id, profile, options.rows)
        })?;
        answers::json(&document)
    };
    state.rooms.send_json(state.heavy.run(written).await?)
}

async fn report_of(
    State(state): State<Shared>,
    Named(id): Named,
    Params(params): Params<ReportParams>,
) -> Result<Response, Problem> {
    let (exporter, options) = (params.exporter()?, params.options()?);
    let options = report::Options { most_bytes: answers::MOST_REPORT, ..options };
    let (shared, named) = (Shared::clone(&state), id.clone());
    // Into a file without a name first, so that a slow client keeps neither a thread nor the
    // session in memory.
    let written = move || {
        let session = shared.store.read(&named)?;
        let mut page = tempfile::tempfile_in(shared.store.folder())
            .map_err(|error| Problem::internal(format!("cannot write the report: {error}")))?;
        exporter.convert_with(session, &options, &mut page, |profile| {
            snapshots(&shared, &named, profile, options.rows)
        })?;
        page.seek(SeekFrom::Start(0))
            .map_err(|error| Problem::internal(format!("cannot read the report: {error}")))?;
        Ok(page)
    };
    let page = state.heavy.run(written).await?;
    let length = page.metadata().map_or(answers::MOST_REPORT, |found| found.len());
    let response = send(page, media_type(exporter), &id, exporter.extension)?;
    let mut response = state.rooms.disk.hold(length, response)?;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    Ok(response)
}

fn snapshots(
    state: &Shared,
    id: &SessionId,
    profile: &Profile,
    rows: usize,
) -> Vec<SnapshotSection> {
    state.program.snapshots(&state.store.path(id), profile, rows)
}

/// Sends a file.
fn send(file: File, kind: &str, id: &SessionId, extension: &str) -> Result<Response, Problem> {
    let failed = |error: std::io::Error| Problem::internal(format!("cannot read: {error}"));
    let length = file.metadata().map_err(failed)?.len();
    let file = tokio::fs::File::from_std(file);
    // A recording that continues makes the file longer than was said.
    let file = tokio::io::AsyncReadExt::take(file, length);
    let body = Body::from_stream(ReaderStream::with_capacity(file, 64 << 10));
    // Names of processes may have letters that no header has.
    let name: String =
        id.to_string().chars().map(|letter| if letter.is_ascii() { letter } else { '_' }).collect();
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::CONTENT_DISPOSITION, format!("inline; filename=\"{name}.{extension}\"")),
    ];
    Ok((headers, body).into_response())
}

/// The type of a format for browsers.
fn media_type(exporter: &Exporter) -> &'static str {
    match exporter.extension {
        "html" => "text/html; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        own if own.ends_with("json") => "application/json",
        _ if exporter.binary => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}
