//! `clrscope ps`: the .NET processes that can be seen.

use crate::{console, duration, exit::Code};
use api::Process;
use diagnostics::DotnetProcess;
use document::{Cell, Document, Section, Table, left};
use std::time::{Duration, SystemTime};

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
    let now = SystemTime::now();
    match args.json {
        true => console::print_json(
            &processes
                .iter()
                .map(|process| Process::of(process, diagnostics::usage(process.pid).ok(), now))
                .collect::<Vec<_>>(),
        )?,
        false => console::show(&list(&processes, now))?,
    }
    Ok(Code::Success)
}

fn list(processes: &[DotnetProcess], now: SystemTime) -> Document {
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

fn row(process: &DotnetProcess, now: SystemTime) -> Vec<Cell> {
    let known = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
    // Tenths say nothing here.
    let uptime = api::uptime(process, now).map(|uptime| {
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
    use diagnostics::{Hosting, Obstacle};
    use std::time::UNIX_EPOCH;

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
        let text = document::text::of(
            &list(&all, UNIX_EPOCH + Duration::from_secs(1030)),
            Default::default(),
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "pid  user  runtime  arch  uptime  name  command");
        assert_eq!(lines[1], "7    1000  9.0.5    x64   30s     Shop  dotnet Shop.dll\\u{1b}[2J");
        assert_eq!(lines[3], "These cannot be profiled");
        assert!(lines[4].starts_with("  1234  Shop: it was compiled ahead of time"), "{text}");
    }
}
