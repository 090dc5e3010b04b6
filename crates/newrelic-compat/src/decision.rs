//! Which processes are instrumented.

mod azure;
mod command_line;
mod framework;

use crate::Runtime;
use crate::configuration::Configuration;
use crate::environment::{Environment, Platform};
use std::fmt;

/// The process that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// The family of its runtime.
    pub runtime: Runtime,
    /// The path of its program; `.` where it cannot be read.
    pub path: &'a str,
    /// The path of its parent's program; `.` where it cannot be read, and always on Linux.
    pub parent_path: &'a str,
    /// Its command line; see [`unix_command_line`].
    pub command_line: &'a str,
}

/// The command line of a process on Linux, from its arguments: each is followed by a space, those
/// with spaces are in single quotes.
#[must_use]
pub fn unix_command_line<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for argument in arguments {
        if argument.contains(' ') {
            line.push_str(&format!("'{argument}' "));
        } else {
            line.push_str(argument);
            line.push(' ');
        }
    }
    line
}

/// Whether a process is instrumented, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is.
    pub instrument: bool,
    /// What decided.
    pub reason: Reason,
}

/// What decided about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The environment forces it.
    Forced,
    /// Its name is in the list of processes not to instrument.
    Excluded,
    /// Its name is in the list of processes to instrument.
    Included,
    /// It is part of an Azure function.
    AzureFunction(&'static str),
    /// A command of the .NET command line, such as `dotnet build`.
    DotnetCommand(String),
    /// A tool, by something on its command line.
    Tool(&'static str),
    /// The rules for its pool of IIS.
    Pool(String),
    /// The agent is disabled by configuration.
    AgentDisabled,
    /// The agent is enabled by the local configuration.
    LocallyEnabled,
    /// The application configuration says so.
    ApplicationConfiguration,
    /// A well-known host of web applications, or one that must not be instrumented.
    KnownProcess(&'static str),
    /// Nothing forbids it (.NET Core), or nothing asks for it (.NET Framework).
    Default,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forced => f.write_str("the environment forces profiling"),
            Self::Excluded => f.write_str("its name is in the list of excluded applications"),
            Self::Included => f.write_str("its name is in the list of included applications"),
            Self::AzureFunction(what) => write!(f, "Azure function: {what}"),
            Self::DotnetCommand(command) => write!(f, "it is the command \"dotnet {command}\""),
            Self::Tool(what) => write!(f, "its command line contains {what}"),
            Self::Pool(pool) => write!(f, "the rules for the application pool \"{pool}\" decide"),
            Self::AgentDisabled => f.write_str("the agent is disabled by newrelic.config"),
            Self::LocallyEnabled => f.write_str("the local newrelic.config enables the agent"),
            Self::ApplicationConfiguration => f.write_str("the application configuration decides"),
            Self::KnownProcess(name) => write!(f, "it is {name}"),
            Self::Default => f.write_str("no rule is about it"),
        }
    }
}

/// Decides about a process.
#[must_use]
pub fn decide(
    process: Process<'_>,
    configuration: &Configuration,
    environment: &Environment,
) -> Decision {
    let decided = |(instrument, reason)| Decision { instrument, reason };
    if environment.forces_profiling() {
        return decided((true, Reason::Forced));
    }
    let name = file_name(process.path, environment.platform());
    if configuration.excluded.iter().any(|excluded| excluded.eq_ignore_ascii_case(name)) {
        return decided((false, Reason::Excluded));
    }
    let pool = environment.application_pool(process.command_line).unwrap_or_default();
    if let Some(decision) = azure::decide(process, &pool, environment) {
        return decided(decision);
    }
    decided(match process.runtime {
        Runtime::Core => core(process, &pool, configuration),
        Runtime::Framework => framework::decide(process, &pool, configuration),
    })
}

fn core(process: Process<'_>, pool: &str, configuration: &Configuration) -> (bool, Reason) {
    if let Some(command) = command_line::tool_command(process.command_line) {
        return (false, Reason::DotnetCommand(command));
    }
    if let Some(tool) = command_line::tool(process.command_line) {
        return (false, Reason::Tool(tool));
    }
    if is_web_worker(process.path) || is_web_worker(process.parent_path) {
        return by_pool(pool, configuration);
    }
    (true, Reason::Default)
}

fn is_web_worker(path: &str) -> bool {
    ends_with(path, "W3WP.EXE")
}

fn by_pool(pool: &str, configuration: &Configuration) -> (bool, Reason) {
    (configuration.pools.instruments(pool), Reason::Pool(pool.to_owned()))
}

/// Whether a text ends with another one, in any case.
fn ends_with(text: &str, end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start.and_then(|start| text.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// Whether a text contains another one, in any case.
fn contains(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase().contains(&part.to_ascii_lowercase())
}

fn file_name(path: &str, platform: Platform) -> &str {
    let separates =
        |character| character == '/' || (platform == Platform::Windows && character == '\\');
    path.rsplit(separates).next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
