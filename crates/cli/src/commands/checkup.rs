//! `clrscope checkup`: what is wrong with a process.

use super::launch;
use crate::{
    agent::AgentArgs,
    console,
    diagnosis::{self, Plan},
    duration,
    exit::{Code, failure},
    recording::{self, AtTerminal, Profilers, SessionFile},
};
use anyhow::Context;
use clap::{ValueEnum, builder::PossibleValue};
use diagnose::{Evidence, LimitsOf};
use document::text::Style;
use profilers::Selection;
use recorder::Summary;
use report::{Checkup, CheckupFormat};
use std::{ffi::OsString, io::Write, path::PathBuf, time::Duration};

/// Observe a process for some seconds and report what is wrong with it, worst first
///
/// Records CPU time, waiting, exceptions, collections, waits for locks, threads, counters and
/// memory at low rates, checks which threads wait for which locks, takes heap snapshots, and
/// evaluates all of this. Each finding says what is wrong, how certain that is, what the evidence
/// is, and what to do next. A healthy process has none.
///
/// A heap snapshot is a full collection, during which the process is paused. clrscope takes one, or
/// two if the process is small. --no-heap takes none.
///
/// With --launch, a command is observed from its first instruction on. The findings come when it
/// has ended, on standard error unless --report names a file. clrscope exits with the command's
/// exit code.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME", required_unless_present = "launch", conflicts_with = "launch")]
    target: Option<String>,
    /// How long to observe: 10s, 1m30s; growth-based findings need at least 8 s
    #[arg(short, long, default_value = "10s", value_parser = duration::parse_positive)]
    duration: Duration,
    /// Record these profilers, too, such as finalizers:rate=5
    #[arg(long, value_name = "LIST", value_parser = Profilers::parse)]
    also: Option<Profilers>,
    /// Change a limit of a finding, such as exception-storm:rate=500; may be repeated
    #[arg(long = "limit", value_name = "FINDING:NAME=VALUE", value_parser = limit)]
    limits: Vec<String>,
    /// Keep the recording in this session file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the findings
    #[arg(short, long, default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the findings to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Take no heap snapshot: the process is never paused for longer than a walk of its stacks
    #[arg(long)]
    no_heap: bool,
    /// Run a command and observe it
    #[arg(long, requires = "command")]
    launch: bool,
    #[command(flatten)]
    agent: AgentArgs,
    /// Command with its arguments, after --
    #[arg(last = true, requires = "launch", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A format on the command line.
#[derive(Clone, Copy, Debug)]
struct Format(CheckupFormat);

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Format(CheckupFormat::Text),
            Format(CheckupFormat::Json),
            Format(CheckupFormat::Markdown),
            Format(CheckupFormat::Html),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        CheckupFormat::ALL
            .iter()
            .find(|(format, _)| *format == self.0)
            .map(|(_, word)| PossibleValue::new(*word))
    }
}

fn limit(text: &str) -> Result<String, String> {
    LimitsOf::default().set(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let mut limits = LimitsOf::default();
    args.limits.iter().try_for_each(|limit| limits.set(limit))?;
    recording::check_outputs([args.report.as_ref(), args.output.as_ref()])?;
    if args.launch {
        return look_at_command(args, &limits);
    }
    let target = diagnostics::find(args.target.as_deref().unwrap_or_default())?;
    let file = session_file(args, &target.name, Some(target.pid))?;
    // For all parts of the check-up: a signal that ends one of them ends the others as well.
    let attendant = AtTerminal::start(args.json)?;
    let plan = Plan {
        process: &target,
        duration: args.duration,
        also: also(args),
        heap: !args.no_heap,
        session: file.path(),
        agent: &args.agent,
    };
    let observed = diagnosis::observe(&plan, &attendant)?;
    drop(attendant);
    let cut_off = recording::cut_off(&observed.summary, true, args.output.is_some());
    let findings = observed.findings(&limits);
    say(args, &observed.checkup(&findings), |page| Ok(console::print(page)?))?;
    match cut_off {
        Some(message) => Err(failure(Code::Ended, message)),
        None => Ok(Code::Success),
    }
}

/// Profilers that are recorded, too.
fn also(args: &Args) -> &[Selection] {
    args.also.as_ref().map(|list| list.0.as_slice()).unwrap_or_default()
}

fn look_at_command(args: &Args, limits: &LimitsOf) -> anyhow::Result<Code> {
    let file = session_file(args, &launch::name_of(&args.command), None)?;
    let told = |summary: &Summary| {
        for session in &summary.sessions {
            // Those of further processes have names of their own.
            let profile = diagnosis::read(session.path.as_deref().unwrap_or(file.path()))?;
            let findings = diagnose::diagnose(&Evidence::from(&profile), limits);
            say(args, &diagnosis::checkup_of(&profile, &findings, &[]), |page| {
                console::say(page.trim_end());
                Ok(())
            })?;
        }
        Ok(())
    };
    let kept = args.output.is_some();
    let options = diagnosis::options(also(args), args.duration, file.path(), &args.agent)?;
    launch::run_command(&args.command, options, kept, told)
}

/// Where the recording goes.
fn session_file(args: &Args, name: &str, pid: Option<u32>) -> anyhow::Result<SessionFile> {
    SessionFile::new(args.output.as_deref(), recording::default_file(name, pid))
}

/// Writes what is found to a file, or says it.
fn say(
    args: &Args,
    checkup: &Checkup<'_>,
    say: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let format = if args.json { CheckupFormat::Json } else { args.format.0 };
    let style =
        Style { width: console::width().filter(|_| args.report.is_none()), ..Style::default() };
    let mut page = Vec::new();
    checkup.write(format, style, &mut page)?;
    match &args.report {
        Some(path) => session::create_file(path)
            .and_then(|mut file| file.write_all(&page))
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => say(&String::from_utf8(page)?)?,
    }
    if let Some(path) = &args.output {
        console::say(&format!("The recording is kept: clrscope report {}", path.display()));
    }
    Ok(())
}
