//! Answers that are made in memory or as a file: how large one may be, and how much of them may be
//! under way to clients at the same time. A slow client keeps what it has not taken.

use crate::problem::Problem;
use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use serde::Serialize;
use std::{
    io::{self, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::Semaphore;

/// Bytes of an answer in memory.
const MOST: usize = 64 << 20;

/// Bytes of all answers in memory that clients have not taken yet.
const MOST_IN_MEMORY: usize = 256 << 20;

/// Bytes of a report, which is a file without a name.
pub const MOST_REPORT: u64 = 1 << 30;

/// Bytes of all reports that clients have not taken yet.
const MOST_ON_DISK: usize = 8 << 30;

/// What is counted: an answer that is smaller counts as one.
const UNIT: usize = 64 << 10;

/// Room for answers that are under way.
#[derive(Debug)]
pub struct Room(Arc<Semaphore>);

/// Both kinds of room.
#[derive(Debug)]
pub struct Rooms {
    pub memory: Room,
    pub disk: Room,
}

impl Default for Rooms {
    fn default() -> Self {
        Self { memory: Room::new(MOST_IN_MEMORY), disk: Room::new(MOST_ON_DISK) }
    }
}

impl Room {
    fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT)))
    }

    /// Takes room for a response of this size until its client has taken all of it or is gone.
    pub fn hold(&self, bytes: u64, response: Response) -> Result<Response, Problem> {
        let units = u32::try_from(bytes.div_ceil(UNIT as u64)).unwrap_or(u32::MAX);
        let turn = Arc::clone(&self.0).try_acquire_many_owned(units.max(1));
        let turn = turn
            .map_err(|_| Problem::busy("other clients have not taken their large answers yet"))?;
        Ok(held(response, turn))
    }
}

/// Keeps something until the body of a response has been taken or its client is gone.
pub fn held<T: Send + Unpin + 'static>(response: Response, kept: T) -> Response {
    response.map(|body| Body::new(Held { body, _kept: kept }))
}

struct Held<T> {
    body: Body,
    _kept: T,
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What something is as JSON. It is made where blocking is no harm, as far as it is not too large.
pub fn json(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    json_within(value, MOST)
}

fn json_within(value: &impl Serialize, most: usize) -> Result<Vec<u8>, Problem> {
    let mut bounded = Bounded { bytes: Vec::new(), most };
    match serde_json::to_writer(&mut bounded, value) {
        Ok(()) => Ok(bounded.bytes),
        Err(error) if error.is_io() => Err(too_large(most)),
        Err(error) => Err(Problem::internal(error.to_string())),
    }
}

/// Bytes that are an answer, if they are not too many.
pub fn checked(bytes: Vec<u8>) -> Result<Vec<u8>, Problem> {
    if bytes.len() > MOST { Err(too_large(MOST)) } else { Ok(bytes) }
}

fn too_large(most: usize) -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        format!("the answer has more than {}", document::format::bytes(most as u64)),
        "ask for fewer rows, a part of the time, one thread or one profiler",
    )
}

impl Rooms {
    /// Sends bytes of a type.
    pub fn send(&self, kind: &'static str, bytes: Vec<u8>) -> Result<Response, Problem> {
        let length = bytes.len() as u64;
        self.memory.hold(length, ([(header::CONTENT_TYPE, kind)], bytes).into_response())
    }

    /// Sends JSON.
    pub fn send_json(&self, json: Vec<u8>) -> Result<Response, Problem> {
        self.send("application/json", json)
    }
}

struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_large_is_refused() {
        assert_eq!(json_within(&["a", "b"], 9).unwrap(), b"[\"a\",\"b\"]");
        let problem = json_within(&["a", "b"], 8).unwrap_err();
        assert_eq!(problem.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(problem.next.contains("fewer rows"));
        assert!(checked(vec![0; MOST + 1]).is_err());
    }

    #[test]
    fn answers_that_are_not_taken_leave_no_room_for_others() {
        let room = Room::new(4 * UNIT);
        let body = || Response::new(Body::from("x"));
        let first = room.hold(3 * UNIT as u64, body()).unwrap();
        let second = room.hold(10, body()).unwrap();
        let refused = room.hold(10, body()).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        assert!(room.hold(2 * UNIT as u64, body()).is_ok());
        drop(second);
    }
}
