//! What can be recorded: processes and profilers.

use crate::{
    Shared,
    openapi::{Api, Endpoint},
    problem::Problem,
};
use api::{PRESETS, Preset, Process, Profiler};
use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use std::time::SystemTime;
use utoipa::openapi::HttpMethod;

pub fn add(api: &mut Api) {
    let list = api.list::<Process<'static>>();
    let endpoint =
        Endpoint::new(HttpMethod::Get, "/processes", "processes", "List the .NET processes")
            .description(
                "Also those that cannot be profiled, with the reason: as `clrscope ps --json`.",
            )
            .sends(200, "The processes that clrscope may see.", list);
    api.add(endpoint, processes);
    let list = api.list::<Profiler>();
    let endpoint =
        Endpoint::new(HttpMethod::Get, "/profilers", "profilers", "List what can be recorded")
            .description("As `clrscope profilers --json`.")
            .sends(200, "The profilers.", list);
    api.add(endpoint, profilers);
    let list = api.list::<Preset>();
    let endpoint = Endpoint::new(
        HttpMethod::Get,
        "/presets",
        "presets",
        "List profilers that answer a question together",
    )
    .sends(200, "The presets.", list);
    api.add(endpoint, presets);
}

async fn processes(State(state): State<Shared>) -> Result<Response, Problem> {
    let list = || {
        let processes = diagnostics::discover()?;
        let now = SystemTime::now();
        let list: Vec<_> = processes
            .iter()
            .map(|process| Process::of(process, diagnostics::usage(process.pid).ok(), now))
            .collect();
        serde_json::to_vec(&list).map_err(|error| Problem::internal(error.to_string()))
    };
    let json = state.light.run(list).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

async fn profilers() -> Json<Vec<Profiler>> {
    Json(profilers::PROFILERS.iter().map(|spec| Profiler::of(spec)).collect())
}

async fn presets() -> Json<&'static [Preset]> {
    Json(PRESETS)
}
