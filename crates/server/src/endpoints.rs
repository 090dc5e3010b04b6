//! All addresses, one file for each subject.

mod compare;
mod explore;
mod extract;
mod heap;
mod processes;
mod recordings;
mod sessions;

use crate::{Shared, openapi::Api, pages, problem::Problem};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

pub use recordings::watchers;
pub use sessions::uploads;

/// All routes, and the OpenAPI document.
pub fn router() -> (Router<Shared>, String) {
    let (router, document) = api().finish();
    let router = pages::add(router)
        .route("/api/v1/openapi.json", get(openapi))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed);
    (router, document)
}

/// All that the document describes.
pub fn api() -> Api {
    let mut api = Api::new();
    processes::add(&mut api);
    recordings::add(&mut api);
    sessions::add(&mut api);
    explore::add(&mut api);
    heap::add(&mut api);
    compare::add(&mut api);
    api
}

async fn openapi(State(state): State<Shared>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], state.openapi.clone()).into_response()
}

async fn unknown() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "there is nothing at this address",
        "GET /api/v1/openapi.json lists all addresses",
    )
}

async fn not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this address does not know this method",
        "GET /api/v1/openapi.json lists all addresses and their methods",
    )
}
