//! `clrscope async`: asynchronous methods that wait, who awaits whom, and where time is spent on
//! such stacks.

use super::heap::{SnapshotPart, SnapshotReport, no_snapshot, not_complete};
use crate::{
    agent::AgentArgs,
    console, duration,
    exit::{Code, failure},
    heap::source::Source,
    recording::{self, AtTerminal, SessionFile},
    tasks::{hot, report, view},
};
use ::heap::Tasks;
use anyhow::Context;
use profile::{BuildOptions, Profile};
use profilers::Selection;
use recorder::Summary;
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

/// Show which asynchronous methods wait, who awaits whom, and for what
///
/// Takes two heap snapshots of a running process. Each is a full collection, during which the
/// process is paused. Of pending methods it shows the state and the line at which they wait, who
/// awaits them, what the last one waits for, and whether they already waited in the first snapshot.
/// Between the snapshots it takes CPU and wall samples, and shows them on these stacks: where time
/// is spent, and for whom.
///
/// If you name a session file with heap snapshots, that file is read instead.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, name as `clrscope ps` shows it, or session file
    #[arg(value_name = "PID|NAME|FILE")]
    target: String,
    /// Time between the two snapshots, in whole seconds: 3s, 1m
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = duration::parse_positive)]
    duration: Duration,
    /// Take no CPU and wall samples
    #[arg(long)]
    no_samples: bool,
    /// Session file to keep [default: none is kept]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows of each list
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let (path, taken) = match Source::find(&args.target)? {
        Source::Gcdump(path) => {
            let message = format!(
                "{} does not have the states of methods: name a session file",
                path.display()
            );
            return Err(failure(Code::BadSession, message));
        }
        Source::Session(path) => (path, None),
        Source::Process(process) => {
            let taken = take(args, &process)?;
            (taken.0.path().to_owned(), Some(taken))
        }
    };
    let (found, reading) = report::read(&path, args.top as usize)?;
    let Some((mut report, tasks)) = found else {
        return Err(match (&taken, reading.damage) {
            (Some((_, summary)), _) => no_snapshot(summary),
            (None, damage) => no_look_in(&path, damage),
        });
    };
    report.hot = hot_paths(&path, &tasks, args.top as usize)?;
    match args.json {
        true => console::print_json(&report)?,
        false => console::show(&view::report(&report))?,
    }
    if let Some(damage) = reading.damage {
        return Err(failure(
            Code::BadSession,
            format!("{damage}; the report covers what came before"),
        ));
    }
    if !report.complete {
        return Err(failure(Code::BadSession, not_complete(report.note.as_deref())));
    }
    match taken {
        Some(_) if report.looks.len() < 2 => Err(failure(
            Code::Ended,
            "there was no second snapshot: the process ended, or the command was interrupted",
        )),
        _ => Ok(Code::Success),
    }
}

/// Why a session says nothing of asynchronous methods.
fn no_look_in(path: &Path, damage: Option<String>) -> anyhow::Error {
    let why = damage.unwrap_or_else(|| "`clrscope async <PID>` takes some".to_owned());
    failure(Code::BadSession, format!("there is no heap snapshot in {}: {why}", path.display()))
}

/// What the snapshots say of asynchronous methods.
pub const PART: SnapshotPart = SnapshotPart {
    profiler: profilers::r#async::SPEC.id,
    title: "Asynchronous methods",
    report: report_of,
    #[cfg(test)]
    schema: |generator| generator.subschema_for::<report::Report>(),
};

/// What the snapshots of a session say of asynchronous methods, for a report of it.
fn report_of(path: &Path, top: usize) -> anyhow::Result<SnapshotReport> {
    let (found, reading) = report::read(path, top)?;
    let (mut report, tasks) = found.ok_or_else(|| no_look_in(path, reading.damage))?;
    report.hot = hot_paths(path, &tasks, top)?;
    let problem = (!report.complete).then(|| not_complete(report.note.as_deref()));
    Ok(SnapshotReport {
        document: view::report(&report),
        json: serde_json::to_value(&report)?,
        problem,
    })
}

fn take(
    args: &Args,
    process: &diagnostics::DotnetProcess,
) -> anyhow::Result<(SessionFile, Summary)> {
    let every = match (args.duration.as_secs(), args.duration.subsec_nanos()) {
        (seconds @ 1..=86_400, 0) => seconds,
        _ => return Err(failure(Code::Usage, "--duration takes whole seconds, from 1s to 24h")),
    };
    let samples = if args.no_samples { "" } else { ",cpu,wall" };
    let profilers = Selection::parse_list(&format!("async:snapshots=2:every={every}{samples}"))?;
    let (output, attendant) = (args.output.as_deref(), AtTerminal::start(args.json)?);
    recording::take_snapshots(process, profilers, output, &args.agent, &attendant)
}

fn hot_paths(path: &Path, tasks: &Tasks, top: usize) -> anyhow::Result<Option<hot::Hot>> {
    let shown = || format!("{}", path.display());
    let profile = Profile::read(File::open(path).with_context(shown)?, BuildOptions::default())
        .with_context(shown)?;
    Ok(hot::of(&profile, tasks, top))
}
