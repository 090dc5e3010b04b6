//! Sessions that were recorded elsewhere, also by other tools.

use crate::{
    Shared,
    endpoints::extract::Params,
    openapi::{Api, Endpoint, text},
    problem::Problem,
    store::{SessionId, SessionRow, UPLOAD},
};
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
};
use document::format;
use futures_util::StreamExt as _;
use import::ImportError;
use serde::Deserialize;
use session::{SessionReader, SessionRecord};
use std::{
    io::BufReader,
    time::{Duration, Instant},
};
use tempfile::NamedTempFile;
use tokio::{io::AsyncWriteExt as _, time::timeout_at};
use utoipa::openapi::HttpMethod;

/// How long a client may send nothing, and the bytes that it sends in a second on average, after
/// that time.
const PACE: Pace = Pace { pause: Duration::from_secs(30), least: 64 << 10 };

/// Files that are received at the same time.
const MOST_AT_ONCE: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadParams {
    name: Option<String>,
}

pub fn add(api: &mut Api) {
    let row = api.answer::<SessionRow>();
    let endpoint = Endpoint::new(
        HttpMethod::Post,
        "/sessions",
        "upload_session",
        "Add a session that was recorded elsewhere, or a file of another tool: pprof, collapsed stacks, \
         speedscope, Firefox Profiler, .nettrace or .gcdump",
    )
    .query(
        "name",
        "Name of the session; made of its process and the time if none is given.",
        text(),
    )
    .body("application/octet-stream", None)
    .sends(201, "The session.", row)
    .problems(&[422]);
    api.add(endpoint, upload);
}

async fn upload(
    State(state): State<Shared>,
    Params(params): Params<UploadParams>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<SessionRow>), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    // Pages of others can send other types without asking first.
    if kind != Some(b"application/octet-stream") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is not of the type application/octet-stream",
            "send the file, with the header `Content-Type: application/octet-stream`",
        ));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let most = state.most_upload;
    if length.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > most) {
        return Err(too_large(most));
    }
    let name = params.name.as_deref().map(SessionId::parse).transpose()?;
    let Ok(_turn) = state.uploads.try_acquire() else {
        return Err(Problem::busy("too many files are being received"));
    };
    let shared = Shared::clone(&state);
    let open = move || temporary(&shared).map_err(failed);
    let file = state.light.run(open).await?;
    receive(&file, body, PACE, most).await?;
    let shared = Shared::clone(&state);
    // Others are read from front to back.
    let own = state.light.run(move || is_own(file)).await?;
    let row = match own {
        (file, true) => state.light.run(move || keep(&shared, file, name)).await?,
        (file, false) => state.heavy.run(move || convert(&shared, file, name)).await?,
    };
    Ok((StatusCode::CREATED, Json(row)))
}

/// The number of files that may be received at the same time.
pub fn most_at_once() -> tokio::sync::Semaphore {
    tokio::sync::Semaphore::new(MOST_AT_ONCE)
}

fn failed(error: std::io::Error) -> Problem {
    Problem::internal(format!("cannot write the session: {error}"))
}

fn too_large(most: u64) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the file has more than {}", format::bytes(most)),
        "put it into the folder of sessions by other means",
    )
}

/// How fast a client has to send. One that sends a byte now and then would take the place of
/// others.
#[derive(Clone, Copy)]
struct Pace {
    pause: Duration,
    least: u64,
}

impl Pace {
    /// How long after the beginning the next part may come, if so much has come.
    fn until(self, length: u64) -> Duration {
        self.pause + Duration::from_secs_f64(length as f64 / self.least as f64)
    }
}

/// Writes a body of at most `most` bytes to a file as it comes. It may come without a length.
async fn receive(file: &NamedTempFile, body: Body, pace: Pace, most: u64) -> Result<(), Problem> {
    let begun = Instant::now();
    let mut file = tokio::fs::File::from_std(file.reopen().map_err(failed)?);
    let mut parts = body.into_data_stream();
    let mut length = 0;
    loop {
        let until = (begun + pace.until(length)).min(Instant::now() + pace.pause);
        let part = timeout_at(until.into(), parts.next()).await.map_err(|_| {
            Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "no more of the file came, or it came too slowly",
                "send it again, over a better connection",
            )
        })?;
        let Some(part) = part else { break };
        let part = part.map_err(|_| Problem::request("the file was cut off"))?;
        length += part.len() as u64;
        if length > most {
            return Err(too_large(most));
        }
        file.write_all(&part).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)
}

/// A file whose name is none of a session, and that goes with what is returned.
fn temporary(state: &Shared) -> std::io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(UPLOAD).tempfile_in(state.store.folder())
}

/// Whether a file is no other tool's.
fn is_own(file: NamedTempFile) -> Result<(NamedTempFile, bool), Problem> {
    let format = import::detect(&mut file.reopen().map_err(failed)?).map_err(failed)?;
    Ok((file, format.is_none()))
}

/// Makes a session of a file of another tool.
fn convert(
    state: &Shared,
    file: NamedTempFile,
    name: Option<SessionId>,
) -> Result<SessionRow, Problem> {
    let mut input = file.reopen().map_err(failed)?;
    let process = name.as_ref().map_or_else(|| "imported".to_owned(), ToString::to_string);
    let made = import::to_session(&mut input, &process, || temporary(state));
    let made = made.map_err(|error| match error {
        ImportError::Session(error) => Problem::internal(error.to_string()),
        // The file is here, so what cannot be read is what came out of it.
        error => not_a_session(&error.to_string()),
    })?;
    drop(file);
    match made {
        Some(made) => keep(state, made, name),
        None => Err(not_a_session("the file is empty")),
    }
}

/// Makes a session of a file, if it is one.
fn keep(
    state: &Shared,
    file: NamedTempFile,
    name: Option<SessionId>,
) -> Result<SessionRow, Problem> {
    let mut reader = SessionReader::new(BufReader::new(file.reopen().map_err(failed)?))
        .map_err(|error| not_a_session(&error.to_string()))?;
    let info = match reader.next() {
        Some(Ok(SessionRecord::Info(info))) => info,
        Some(Err(error)) => return Err(not_a_session(&error.to_string())),
        _ => return Err(not_a_session("nothing was recorded")),
    };
    let name = name.map_or_else(
        || api::session_name(&info.process_name, Some(info.pid).filter(|pid| *pid > 0)),
        |name| name.to_string(),
    );
    let writing = state.store.create(&name)?;
    file.persist_noclobber(state.store.path(&writing.id)).map_err(|error| failed(error.error))?;
    let id = writing.id.clone();
    drop(writing);
    let row = state.store.row(&id)?;
    state.store.tidy()?;
    Ok(row)
}

fn not_a_session(why: &str) -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        why,
        format!(
            "send a file that clrscope has recorded (*.{}), or one of pprof, collapsed stacks, \
             speedscope, the Firefox Profiler, dotnet-trace or dotnet-gcdump",
            session::EXTENSION
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    /// What becomes of a file of which a part of this size comes every 20 ms.
    async fn received(bytes: usize) -> Result<(), StatusCode> {
        let pace = Pace { pause: Duration::from_millis(400), least: 1 << 20 };
        let parts = stream::unfold(0, move |number| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            (number < 50).then(|| (Ok::<_, std::io::Error>(vec![0_u8; bytes]), number + 1))
        });
        let file = NamedTempFile::new().unwrap();
        let body = Body::from_stream(parts);
        receive(&file, body, pace, u64::MAX).await.map_err(|problem| problem.status)
    }

    #[tokio::test]
    async fn who_sends_a_byte_now_and_then_is_sent_away() {
        assert_eq!(received(1).await, Err(StatusCode::REQUEST_TIMEOUT));
        assert_eq!(received(1 << 20).await, Ok(()));
    }
}
