//! What can be recorded: processes and profilers.

mod methods;

use crate::{
    Shared, answers,
    openapi::{Api, Endpoint},
    problem::Problem,
};
use api::{PRESETS, Preset, Process, Profiler};
use axum::{Json, extract::State, response::Response};
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
    methods::add(api);
}

async fn processes(State(state): State<Shared>) -> Result<Response, Problem> {
    let list = || {
        let mut processes = diagnostics::discover()?;
        processes.iter_mut().for_each(|process| shorten(&mut process.args));
        let now = SystemTime::now();
        let list: Vec<_> = processes
            .iter()
            .map(|process| Process::of(process, diagnostics::usage(process.pid).ok(), now))
            .collect();
        answers::json(&list)
    };
    let json = state.light.run(list).await?;
    state.rooms.send_json(json)
}

/// Bytes of a command line. One process with a very long one must not make the list too large.
const MOST_COMMAND: usize = 16 << 10;

/// Leaves out what is too long of a command line, and says so.
fn shorten(args: &mut Vec<String>) {
    let mut bytes = 0;
    let fits = |arg: &&String| {
        bytes += arg.len();
        bytes <= MOST_COMMAND
    };
    let kept = args.iter().take_while(fits).count();
    let left_out = args.len() - kept;
    if left_out > 0 {
        args.truncate(kept);
        args.push(format!("…[{left_out} more]"));
    }
}

async fn profilers() -> Json<Vec<Profiler>> {
    Json(profilers::PROFILERS.iter().map(|spec| Profiler::of(spec)).collect())
}

async fn presets() -> Json<&'static [Preset]> {
    Json(PRESETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_command_lines_are_cut() {
        let mut args = vec!["dotnet".to_owned(), "x".repeat(MOST_COMMAND), "y".to_owned()];
        shorten(&mut args);
        assert_eq!(args, ["dotnet", "…[2 more]"]);
        shorten(&mut args);
        assert_eq!(args.len(), 2);
    }
}
