//! Programs that are started to be recorded.

use crate::{
    Shared,
    endpoints::extract::Named,
    openapi::{Api, Endpoint},
    problem::Problem,
    recordings::Program,
};
use axum::{Json, extract::State, http::StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};
use utoipa::openapi::HttpMethod;

/// A program to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLaunch {
    /// The program and its arguments.
    command: CommandLine,
    /// The folder that it runs in, by its whole path; that of the server if none is named.
    folder: Option<PathBuf>,
    /// Environment variables that it gets beside those of the server.
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

/// A program and its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum CommandLine {
    /// In one line, with quotes as in a shell. There is no shell: nothing else is special.
    Text(String),
    /// Word by word.
    Words(Vec<String>),
}

/// Whether programs may be started.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LaunchAllowed {
    /// Whether the server was started with `--allow-launch`.
    allowed: bool,
}

/// What a program has printed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProgramOutput {
    /// The last of it, at most 64 kB: both of its streams.
    text: String,
    /// Bytes before that.
    left_out: u64,
}

/// What begins the name of a variable by which clrscope gets into a program.
const RESERVED: [&str; 2] = ["CORECLR_", "CLRSCOPE_"];

impl NewLaunch {
    /// That the server starts no programs.
    pub fn refused() -> Problem {
        Problem::new(
            StatusCode::FORBIDDEN,
            "this server does not start programs",
            "start it with --allow-launch, if everybody whom it lets in may run programs as its user; \
             or run `clrscope launch` yourself",
        )
    }

    /// The program, if it can be started as far as that is known.
    pub fn program(&self) -> Result<Program, Problem> {
        let words = match &self.command {
            CommandLine::Words(words) => words.clone(),
            CommandLine::Text(text) => shlex::split(text)
                .ok_or_else(|| Problem::request("`command` has a quote that does not end"))?,
        };
        if words.first().is_none_or(|program| program.is_empty()) {
            return Err(Problem::request("`command` names no program"));
        }
        if let Some(folder) = &self.folder
            && !(folder.is_absolute() && folder.is_dir())
        {
            return Err(Problem::request(format!(
                "`folder` is not the whole path of a folder: {}",
                folder.display()
            )));
        }
        for name in self.environment.keys() {
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            if !is_name || RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
                return Err(Problem::request(format!(
                    "`environment` cannot have the variable `{}`: names have no =, and those that \
                     begin with {} are set by clrscope",
                    name.escape_debug(),
                    RESERVED.join(" or ")
                )));
            }
        }
        if words.iter().chain(self.environment.values()).any(|text| text.contains('\0')) {
            return Err(Problem::request("arguments and variables cannot contain a zero byte"));
        }
        let environment = self.environment.iter();
        Ok(Program {
            words,
            folder: self.folder.clone(),
            environment: environment.map(|(name, value)| (name.clone(), value.clone())).collect(),
        })
    }
}

pub fn add(api: &mut Api) {
    let answer = api.answer::<LaunchAllowed>();
    let endpoint = Endpoint::new(
        HttpMethod::Get,
        "/launch",
        "launch_allowed",
        "Say whether recordings may start programs",
    );
    api.add(endpoint.sends(200, "Whether they may.", answer), allowed);
    let answer = api.answer::<ProgramOutput>();
    let endpoint = Endpoint::new(
        HttpMethod::Get,
        "/recordings/{id}/output",
        "program_output",
        "Show what a program printed that a recording has started",
    );
    api.add(endpoint.sends(200, "The last of it.", answer), output);
}

async fn allowed(State(state): State<Shared>) -> Json<LaunchAllowed> {
    Json(LaunchAllowed { allowed: state.launch })
}

async fn output(
    State(state): State<Shared>,
    Named(id): Named,
) -> Result<Json<ProgramOutput>, Problem> {
    let entry = state.recordings.find(&id)?;
    let Some(launched) = &entry.launched else {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            format!("the recording {id} has not started its process"),
            "read what the process prints where it was started",
        ));
    };
    let (text, left_out) = launched.output.latest();
    Ok(Json(ProgramOutput { text, left_out }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(json: &str) -> Result<Program, Problem> {
        serde_json::from_str::<NewLaunch>(json).unwrap().program()
    }

    #[test]
    fn commands_are_lines_or_words() {
        let line = program(r#"{"command":"dotnet 'my app.dll' --x=\"a b\" $HOME"}"#).unwrap();
        assert_eq!(line.words, ["dotnet", "my app.dll", "--x=a b", "$HOME"]);
        let words = program(r#"{"command":["dotnet","a b"],"folder":"/","environment":{"A":"1"}}"#);
        let words = words.unwrap();
        assert_eq!((words.words.len(), words.environment.len()), (2, 1));
    }

    #[test]
    fn what_cannot_be_started_is_refused() {
        for (json, part) in [
            (r#"{"command":""}"#, "no program"),
            (r#"{"command":[]}"#, "no program"),
            (r#"{"command":"a 'b"}"#, "quote"),
            (r#"{"command":["a\u0000b"]}"#, "zero byte"),
            (r#"{"command":"a","folder":"relative"}"#, "whole path"),
            (r#"{"command":"a","folder":"/no/such/folder"}"#, "whole path"),
            (r#"{"command":"a","environment":{"CORECLR_PROFILER":"x"}}"#, "set by clrscope"),
            (r#"{"command":"a","environment":{"A=B":"x"}}"#, "no ="),
        ] {
            let cause = program(json).unwrap_err().cause;
            assert!(cause.contains(part), "{json}: {cause}");
        }
    }
}
