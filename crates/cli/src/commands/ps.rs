//! `clrscope ps`: the .NET processes that can be seen.

use crate::{console, duration, exit::Code};
use diagnostics::{DotnetProcess, Hosting};
use document::{Cell, Document, Section, Table, left};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// List the .NET processes that you may see
///
/// Also those that cannot be profiled, with the reason and what to do about it.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let processes = diagnostics::discover()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match args.json {
        true => console::print_json(
            &processes.iter().map(|process| describe(process, now)).collect::<Vec<_>>(),
        )?,
        false => console::show(&list(&processes, now))?,
    }
    Ok(Code::Success)
}

/// A process in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Process<'a> {
    pid: u32,
    namespace_pid: u32,
    user: Option<&'a str>,
    uid: Option<u32>,
    runtime: Option<&'a str>,
    arch: Option<&'a str>,
    hosting: Option<&'static str>,
    container: bool,
    uptime_seconds: Option<f64>,
    name: &'a str,
    entry_assembly: Option<&'a str>,
    command: String,
    args: &'a [String],
    attachable: bool,
    obstacle: Option<String>,
}

fn describe(process: &DotnetProcess, now: Duration) -> Process<'_> {
    Process {
        pid: process.pid,
        namespace_pid: process.ns_pid,
        user: process.user.as_deref(),
        uid: process.uid,
        runtime: process.runtime_version.as_deref(),
        arch: process.arch.as_deref(),
        hosting: process.hosting.map(|hosting| match hosting {
            Hosting::Library => "library",
            Hosting::SingleFile => "single-file",
            Hosting::NativeAot => "native-aot",
        }),
        container: process.contained,
        uptime_seconds: uptime(process, now).map(|uptime| uptime.as_secs_f64()),
        name: &process.name,
        entry_assembly: process.entry_assembly.as_deref(),
        command: process.command_line(),
        args: &process.args,
        attachable: process.obstacle.is_none(),
        obstacle: process.obstacle.as_ref().map(ToString::to_string),
    }
}

fn uptime(process: &DotnetProcess, now: Duration) -> Option<Duration> {
    Some(now.saturating_sub(Duration::from_millis(process.started_unix_ms?)))
}

fn list(processes: &[DotnetProcess], now: Duration) -> Document {
    let (open, closed): (Vec<_>, Vec<_>) =
        processes.iter().partition(|process| process.obstacle.is_none());
    let mut section = Section::default();
    if processes.is_empty() {
        section.say(
            "No .NET process is running here that you may see. Those of other users are seen as \
             root.",
        );
    } else if open.is_empty() {
        section.say("No .NET process can be profiled.");
    } else {
        let columns = ["pid", "user", "runtime", "arch", "uptime", "name", "command"].map(left);
        section.add(Table::new(columns.into(), open.iter().map(|process| row(process, now))));
    }
    let mut sections = vec![section];
    if !closed.is_empty() {
        let mut section = Section::new("These cannot be profiled");
        section.add(Table::facts(closed.iter().map(|process| {
            let reason = process.obstacle.as_ref().map(ToString::to_string).unwrap_or_default();
            let named = format!("{}: {reason}", process.name);
            (process.pid.to_string(), Cell::text(named))
        })));
        sections.push(section);
    }
    Document { sections }
}

fn row(process: &DotnetProcess, now: Duration) -> Vec<Cell> {
    let known = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
    // Tenths say nothing here.
    let uptime = uptime(process, now).map(|uptime| {
        let uptime = duration::show(Duration::from_secs(uptime.as_secs()));
        uptime.replace(".00s", "s").replace(".0s", "s")
    });
    vec![
        Cell::text(process.pid.to_string()),
        known(process.user.clone().or_else(|| process.uid.map(|uid| uid.to_string()))),
        known(process.runtime_version.clone()),
        known(process.arch.clone()),
        known(uptime),
        Cell::text(&process.name),
        Cell::text(process.command_line()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnostics::Obstacle;

    fn process(pid: u32, obstacle: Option<Obstacle>) -> DotnetProcess {
        DotnetProcess {
            pid,
            ns_pid: 1,
            uid: Some(1000),
            user: None,
            name: "Shop".into(),
            args: vec!["dotnet".into(), "Shop.dll\x1b[2J".into()],
            executable: None,
            entry_assembly: None,
            started_unix_ms: Some(1_000_000),
            runtime_version: Some("9.0.5".into()),
            arch: Some("x64".into()),
            hosting: Some(Hosting::Library),
            contained: false,
            temp_dir: "/tmp".into(),
            socket: None,
            obstacle,
        }
    }

    #[test]
    fn those_with_an_obstacle_stand_apart_with_the_reason() {
        let all = [process(7, None), process(1234, Some(Obstacle::NativeAot))];
        let text = document::text::of(&list(&all, Duration::from_secs(1030)), Default::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "pid  user  runtime  arch  uptime  name  command");
        assert_eq!(lines[1], "7    1000  9.0.5    x64   30s     Shop  dotnet Shop.dll\\u{1b}[2J");
        assert_eq!(lines[3], "These cannot be profiled");
        assert!(lines[4].starts_with("  1234  Shop: it was compiled ahead of time"), "{text}");
    }

    #[test]
    fn json_names_the_obstacle() {
        let process = process(1234, Some(Obstacle::Stopped { tracer: None }));
        let json = serde_json::to_value(describe(&process, Duration::from_secs(1001))).unwrap();
        assert_eq!((&json["pid"], &json["attachable"]), (&1234.into(), &false.into()));
        assert_eq!((&json["hosting"], &json["uptime_seconds"]), (&"library".into(), &1.0.into()));
        assert!(json["obstacle"].as_str().unwrap().contains("stopped"));
    }
}
