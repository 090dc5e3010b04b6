//! Recordings: begin, watch, stop.

mod events;
mod launch;
mod request;
mod trace;

use super::extract::{Body, Named};
use crate::{
    Shared,
    openapi::{Api, Endpoint},
    problem::Problem,
    recordings::{self, Entry, State as Progress},
};
use axum::{Json, extract::State, http::StatusCode};
use request::{NewCheckup, NewRecording};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::timeout;
use trace::NewTrace;
use utoipa::openapi::HttpMethod;

pub use events::most_at_once as watchers;

/// How long a request waits for the end of a recording.
const LAST: Duration = Duration::from_secs(120);

/// A recording.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Recording")]
pub struct RecordingJson {
    /// Its name, which is that of its session as well.
    id: String,
    /// Whether it is a check-up.
    is_checkup: bool,
    /// The process.
    pid: u32,
    /// Name of the process.
    process: String,
    /// The command line, if the recording has started the process.
    command: Option<String>,
    /// Profilers that run.
    profilers: Vec<&'static str>,
    /// When it began, in milliseconds since 1970.
    started_unix_ms: u64,
    /// When it ends by itself, in seconds since it began; null if it does not.
    duration_seconds: Option<f64>,
    /// What is doubtful about the request.
    warnings: Vec<String>,
    /// How far it is.
    progress: ProgressJson,
    /// Whether it has ended.
    ended: bool,
    /// What was recorded, when it has ended: as `clrscope record --json`.
    #[schemars(with = "Option<api::SummaryJson<'static>>")]
    summary: Option<Value>,
    /// What is wrong with the process, when a check-up has ended: as `clrscope checkup --json`.
    #[schemars(with = "Option<report::Checkup<'static>>")]
    checkup: Option<Value>,
    /// Why it failed, if it did. What was recorded before is in the session.
    failure: Option<String>,
}

/// How far a recording is.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Progress")]
pub struct ProgressJson {
    /// What happens now.
    stage: String,
    /// Since the first sample could be taken.
    elapsed_seconds: f64,
    /// Samples and events by profiler.
    samples: BTreeMap<&'static str, u64>,
    /// Samples and events that were dropped.
    dropped: u64,
    /// Bytes of session so far.
    bytes: u64,
}

impl ProgressJson {
    fn of(progress: &recorder::Progress) -> Self {
        Self {
            stage: progress.stage.clone(),
            elapsed_seconds: progress.elapsed.as_secs_f64(),
            samples: progress.samples.iter().copied().collect(),
            dropped: progress.dropped,
            bytes: progress.bytes,
        }
    }
}

impl RecordingJson {
    fn of(entry: &Entry) -> Self {
        Self::at(entry, &entry.state())
    }

    fn at(entry: &Entry, state: &Progress) -> Self {
        let end = state.end.as_deref();
        Self {
            id: entry.id.to_string(),
            is_checkup: entry.is_checkup,
            pid: entry.pid,
            process: entry.process.clone(),
            command: entry.launched.as_ref().map(|launched| launched.command.clone()),
            profilers: entry.profilers.clone(),
            started_unix_ms: entry.started_unix_ms,
            duration_seconds: entry.duration.map(|duration| duration.as_secs_f64()),
            warnings: entry.warnings.clone(),
            progress: ProgressJson::of(&state.progress),
            ended: end.is_some(),
            summary: end.and_then(|end| end.as_ref().ok().map(|end| end.summary.clone())),
            checkup: end.and_then(|end| end.as_ref().ok()?.checkup.clone()),
            failure: end.and_then(|end| end.as_ref().err().cloned()),
        }
    }
}

pub fn add(api: &mut Api) {
    use HttpMethod::{Delete, Get, Post};
    let list = api.list::<RecordingJson>();
    let endpoint = Endpoint::new(
        Get,
        "/recordings",
        "recordings",
        "List the recordings that run, and the latest that have ended",
    );
    api.add(endpoint.sends(200, "The recordings, latest first.", list), list_recordings);
    let (request, answer) = (api.request::<NewRecording>(), api.answer::<RecordingJson>());
    let endpoint = Endpoint::new(Post, "/recordings", "record", "Begin to record a process")
        .description(
            "It is recorded until its time is up, it is stopped, or the process ends, whether \
             somebody watches or not. If the recording has started its process (`launch`), that \
             ends with it.",
        )
        .body("application/json", Some(request))
        .sends(201, "The recording has begun.", answer.clone())
        .problems(&[404, 409, 501]);
    api.add(endpoint, record);
    let request = api.request::<NewCheckup>();
    let endpoint = Endpoint::new(Post, "/checkups", "check_up", "Begin a check-up of a process")
        .description(
            "The process is recorded for some seconds, and what is wrong with it is evaluated. It \
             is a recording to all other requests: it can be watched and stopped, has a session, \
             and says at its end what was found.",
        )
        .body("application/json", Some(request))
        .sends(201, "The check-up has begun.", answer.clone())
        .problems(&[404, 409, 501]);
    api.add(endpoint, check_up);
    let request = api.request::<NewTrace>();
    let endpoint = Endpoint::new(
        Post,
        "/traces",
        "trace_methods",
        "Begin to trace methods of a process",
    )
    .description(
        "Code is added to the methods that match, while the process runs, and reverted when \
             the trace ends. It is a recording to all other requests: stopping it reverts the \
             methods. The agent then remains in the process, idle, until the process ends.",
    )
    .body("application/json", Some(request))
    .sends(201, "The trace has begun.", answer.clone())
    .problems(&[404, 409, 501]);
    api.add(endpoint, trace_methods);
    let endpoint = Endpoint::new(Get, "/recordings/{id}", "recording", "Describe a recording");
    api.add(endpoint.sends(200, "How far it is.", answer.clone()), recording);
    let endpoint = Endpoint::new(Delete, "/recordings/{id}", "stop", "Stop a recording")
        .description("Its session is kept. It does no harm to stop a recording again.")
        .sends(200, "It has ended.", answer);
    api.add(endpoint, stop);
    events::add(api);
    launch::add(api);
}

async fn list_recordings(State(state): State<Shared>) -> Json<Vec<RecordingJson>> {
    Json(state.recordings.list().iter().map(|entry| RecordingJson::of(entry)).collect())
}

async fn record(
    State(state): State<Shared>,
    Body(request): Body<NewRecording>,
) -> Result<(StatusCode, Json<RecordingJson>), Problem> {
    let shared = Shared::clone(&state);
    let job = state.light.run(move || request.job(shared.program.agent(), shared.launch)).await?;
    let entry = recordings::start(&state.work, job).await?;
    Ok((StatusCode::CREATED, Json(RecordingJson::of(&entry))))
}

async fn check_up(
    State(state): State<Shared>,
    Body(request): Body<NewCheckup>,
) -> Result<(StatusCode, Json<RecordingJson>), Problem> {
    let plan = state.light.run(move || request.plan()).await?;
    let entry = state.work.start(plan).await?;
    Ok((StatusCode::CREATED, Json(RecordingJson::of(&entry))))
}

async fn trace_methods(
    State(state): State<Shared>,
    Body(request): Body<NewTrace>,
) -> Result<(StatusCode, Json<RecordingJson>), Problem> {
    let shared = Shared::clone(&state);
    let plan = state.light.run(move || request.plan(shared.program.agent())).await?;
    let entry = state.work.start(plan).await?;
    Ok((StatusCode::CREATED, Json(RecordingJson::of(&entry))))
}

async fn recording(
    State(state): State<Shared>,
    Named(id): Named,
) -> Result<Json<RecordingJson>, Problem> {
    Ok(Json(RecordingJson::of(&*state.recordings.find(&id)?)))
}

async fn stop(
    State(state): State<Shared>,
    Named(id): Named,
) -> Result<Json<RecordingJson>, Problem> {
    let entry = state.recordings.find(&id)?;
    entry.stop();
    let mut watched = entry.watch();
    // The sender is there until the end is known.
    let ended = timeout(LAST, watched.wait_for(|state| state.end.is_some())).await.is_ok();
    if !ended {
        return Err(Problem::busy("the recording is ending, and that takes long"));
    }
    Ok(Json(RecordingJson::of(&entry)))
}
