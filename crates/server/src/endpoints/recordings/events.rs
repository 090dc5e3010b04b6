//! What happens in a recording, as it happens (server-sent events).

use super::{ProgressJson, RecordingJson};
use crate::{
    Shared,
    endpoints::extract::Named,
    openapi::{Api, Endpoint},
    problem::Problem,
    recordings::{Entry, State as Progress},
};
use axum::{
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use utoipa::openapi::HttpMethod;

/// Clients that watch at the same time.
const MOST: usize = 128;

/// Time after which something is sent in any case, so that a client that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(10);

/// The number of clients that may watch at the same time.
pub fn most_at_once() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MOST))
}

pub fn add(api: &mut Api) {
    let endpoint = Endpoint::new(
        HttpMethod::Get,
        "/recordings/{id}/events",
        "events",
        "Watch a recording",
    )
    .description(
        "Server-sent events, each with JSON as its data: `progress` (`Progress`) about ten times a \
         second, `figures` (`Figures`: CPU, methods, threads, exceptions, collections) about once \
         a second, and at last `end` (`Recording`). A client that is slow gets the latest of each.",
    )
    .sends_as("The events.", &["text/event-stream"]);
    api.add(endpoint, events);
}

async fn events(State(state): State<Shared>, Named(id): Named) -> Result<Response, Problem> {
    let entry = state.recordings.find(&id)?;
    let turn = Arc::clone(&state.watchers).try_acquire_owned();
    let turn = turn.map_err(|_| Problem::busy("too many clients watch recordings"))?;
    let watching = Watching {
        watched: entry.watch(),
        entry,
        first: true,
        figures: 0,
        waiting: VecDeque::new(),
        over: false,
        _turn: turn,
    };
    let events = stream::unfold(watching, |mut watching| async {
        let event = watching.next().await?;
        Some((Ok::<_, Infallible>(event), watching))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

/// A client that watches a recording.
struct Watching {
    entry: Arc<Entry>,
    watched: watch::Receiver<Progress>,
    /// Whether nothing was sent yet.
    first: bool,
    /// Number of the figures that were sent last.
    figures: u64,
    /// What is to be sent next.
    waiting: VecDeque<Event>,
    over: bool,
    _turn: OwnedSemaphorePermit,
}

impl Watching {
    async fn next(&mut self) -> Option<Event> {
        while self.waiting.is_empty() {
            // The sender is there until the end has been reported.
            if self.over || (!self.first && self.watched.changed().await.is_err()) {
                return None;
            }
            self.first = false;
            let state = self.watched.borrow_and_update().clone();
            self.take(&state);
        }
        self.waiting.pop_front()
    }

    /// Makes events of what is new.
    fn take(&mut self, state: &Progress) {
        let mut add = |name: &str, data: Result<Event, axum::Error>| {
            // Our own types always serialize.
            self.waiting.extend(data.map(|event| event.event(name)).ok());
        };
        add("progress", Event::default().json_data(ProgressJson::of(&state.progress)));
        if let Some((number, figures)) = &state.figures
            && *number != self.figures
        {
            self.figures = *number;
            add("figures", Event::default().json_data(&**figures));
        }
        if state.end.is_some() {
            self.over = true;
            let recording = RecordingJson::at(&self.entry, state);
            add("end", Event::default().json_data(recording));
        }
    }
}
