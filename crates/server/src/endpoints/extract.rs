//! Parts of requests, with errors as the API sends them.

use crate::{problem::Problem, store::SessionId};
use axum::{
    body,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;

/// Bytes of a body of JSON.
const MOST: usize = 64 << 10;

/// How long a body of JSON may take to come.
const LIMIT: Duration = Duration::from_secs(10);

/// The query.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(Problem::request(error.body_text())),
        }
    }
}

/// A session that the address names.
pub struct Named(pub SessionId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::request(error.body_text()))?;
        SessionId::parse(&name).map(Self)
    }
}

/// A body of JSON.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        // Pages of others can send other types without asking first.
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body is not of the type application/json",
                "send JSON, with the header `Content-Type: application/json`",
            ));
        }
        let bytes = timeout(LIMIT, body::to_bytes(request.into_body(), MOST)).await;
        let Ok(bytes) = bytes else {
            return Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not come in time",
                "send it within 10 seconds",
            ));
        };
        let bytes = bytes.map_err(|_| {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body is too large, or was cut off",
                "send at most 64 kB",
            )
        })?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Problem::request(error.to_string()))
    }
}
