//! `clrscope trace`: calls of chosen methods of a running process, counted and timed.

use crate::{
    agent::AgentArgs,
    console, duration,
    exit::{Code, failure},
    interrupt::StopOnSignal,
    recording::{self, SessionFile},
    traced::{live::Live, report::Report, rules, view},
};
use anyhow::Context;
use profile::{BuildOptions, Profile};
use profilers::Selection;
use recorder::{EngineChoice, RecordOptions, Summary};
use std::{
    fs::File,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

/// What remains in the process; printed before the trace begins.
const STAYS: &str = "note: .NET never detaches a profiler that can rewrite methods: the agent \
    remains in the process until the process ends, idle once this command is over";

/// What is recorded for an event log, too.
const LOGGED: &str = "jit,loads";

/// Count and time the calls of chosen methods of a running process
///
/// Adds code to the methods that match the patterns, while the process runs, and reverts them at
/// the end: when the time is over, after as many calls as --calls says, on Ctrl-C, and also when
/// clrscope is killed. Shows for each method its calls, those that ended with an exception, and how
/// long they took.
///
/// A pattern is `[assembly!]type.method[(parameters)]` with `*`, `?` and `{a,b}`. Put it in quotes,
/// so that the shell leaves it alone: 'MyApp.Orders.*.{Load,Save}*', 'MyApp.Orders.**',
/// 'MyApp.Service.Load(string,int)'. A file of rules can do more: see docs/instrumentation.md.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME")]
    target: String,
    /// Methods to trace
    #[arg(value_name = "PATTERN", required_unless_present = "rules")]
    patterns: Vec<String>,
    #[command(flatten)]
    what: rules::TraceArgs,
    /// End after this time, counted from when the methods are instrumented: 5s, 1m [default: when
    /// Ctrl-C is pressed]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_positive)]
    time: Option<Duration>,
    /// Only list which methods would be instrumented, and which cannot be and why
    #[arg(long)]
    dry_run: bool,
    /// Session file to keep, for `clrscope report` [default: none is kept]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Event log to write: compilations, loads, and the code of each method before and after, one
    /// JSON object per line, for `clrscope validate`
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    event_log: Option<PathBuf>,
    /// Rows of each list
    #[arg(long, value_name = "NUMBER", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let rules = args.what.rules(&args.patterns)?;
    if args.what.keeps_each_call() && args.output.is_none() {
        return Err(failure(
            Code::Usage,
            "--each-call needs a session file to keep the calls in: -o FILE".to_owned(),
        ));
    }
    recording::check_outputs([args.event_log.as_ref()])?;
    let process = diagnostics::find(&args.target)?;
    if !args.json && !args.dry_run {
        console::say(STAYS);
    }
    let file = SessionFile::new(args.output.as_deref(), format!("trace.{}", session::EXTENSION))?;
    let logged = args.event_log.is_some();
    let mut profilers = Vec::new();
    if args.dry_run {
        profilers.push(Selection::parse("trace:dry=yes")?);
    } else {
        profilers.push(args.what.profiler(logged)?);
        profilers.extend(if logged { Selection::parse_list(LOGGED)? } else { Vec::new() });
    }
    let options = RecordOptions {
        profilers,
        rate_hz: 100,
        engine: EngineChoice::Auto,
        duration: args.time,
        output: Some(file.path().to_owned()),
        instrument: Some(rules),
        live: !args.json && !args.dry_run && io::stderr().is_terminal(),
        sdk_tools: false,
        agent: args.agent.file(),
    };
    let stop = StopOnSignal::start()?;
    let mut recording = recorder::attach(&process, options)?;
    stop.set(recording.stop_handle());
    let live = Live::new(recording.subscribe(), args.dry_run);
    let summary = recording::wait_with(recording, args.time, args.json, live)?;
    drop(stop);
    if let Some(log) = &args.event_log {
        recording::write_event_log(file.path(), log)?;
    }
    show(args, file.path(), &summary)?;
    match recording::cut_off(&summary, args.time.is_some(), args.output.is_some()) {
        Some(message) => Err(failure(Code::Ended, message)),
        None => Ok(Code::Success),
    }
}

fn show(args: &Args, path: &Path, summary: &Summary) -> anyhow::Result<()> {
    let shown = || format!("{}", path.display());
    let profile = Profile::read(File::open(path).with_context(shown)?, BuildOptions::default())
        .with_context(shown)?;
    let report = Report::of(&profile, args.dry_run, summary);
    match args.json {
        true => console::print_json(&report)?,
        false => console::show(&view::of(&report, args.top as usize))?,
    }
    Ok(())
}
