//! All addresses, one file for each subject.

mod compare;
mod extract;
mod processes;
mod recordings;
mod sessions;

use crate::{Program, Shared, openapi::Api, problem::Problem};
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
pub fn router(program: &dyn Program) -> (Router<Shared>, String) {
    let mut api = Api::new();
    processes::add(&mut api);
    recordings::add(&mut api);
    sessions::add(&mut api);
    compare::add(&mut api);
    let (router, document) = api.finish(program);
    let router = router
        .route("/", get(first_page))
        .route("/api/v1/openapi.json", get(openapi))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed);
    (router, document)
}

/// What a person finds who opens the printed address.
async fn first_page() -> Response {
    const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
        <title>clrscope</title>\n<h1>clrscope</h1>\n\
        <p>This browser may use the API now. <a href=\"/api/v1/openapi.json\">Its description</a> \
        names all requests. For example:</p>\n<ul>\n\
        <li><a href=\"/api/v1/processes\">processes</a></li>\n\
        <li><a href=\"/api/v1/profilers\">profilers</a></li>\n\
        <li><a href=\"/api/v1/recordings\">recordings</a></li>\n\
        <li><a href=\"/api/v1/sessions\">sessions</a></li>\n</ul>\n";
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
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
