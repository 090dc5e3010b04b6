//! `clrscope trace`: calls of chosen methods of a running process, counted and timed.

use crate::{
    agent::AgentArgs,
    commands::record::StopOnSignal,
    console, duration,
    exit::{Code, failure},
    recording::{self, SessionFile},
    traced::{report::Report, text},
};
use anyhow::Context;
use profile::{BuildOptions, Profile};
use profilers::Selection;
use recorder::{EngineChoice, RecordOptions, Summary};
use rules::{Action, Limits, MethodPattern, Rule, RuleSet, Severity};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

/// What stays, told before it begins.
const STAYS: &str = "note: .NET never lets go of a profiler that can rewrite methods: the agent stays in the process until that ends, \
    idle once this command is over";

/// Count and time the calls of chosen methods of a running process
///
/// Puts code into the methods that the patterns take, while the process runs, and takes it out again at the end: when the
/// time is over, after as many calls as --calls says, on Ctrl-C, and also when clrscope is killed. Shows for each method its calls, those
/// that ended by an exception, and how long they took.
///
/// A pattern is `[assembly!]type.method[(parameters)]` with `*`, `?` and `{a,b}`, in quotes, so that the shell leaves it alone:
/// 'MyApp.Orders.*.{Load,Save}*', 'MyApp.Orders.**', 'MyApp.Service.Load(string,int)'. More can be said in a file of rules: see
/// docs/instrumentation.md.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME")]
    target: String,
    #[command(flatten)]
    what: WhatArgs,
    /// End after this time, counted from when the methods are instrumented: 5s, 1m [default: when Ctrl-C is pressed]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse_positive)]
    time: Option<Duration>,
    /// Only list which methods would be instrumented, and which cannot be and why
    #[arg(long)]
    dry_run: bool,
    /// Session file to keep, for `clrscope report` [default: none is kept]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows of each list
    #[arg(long, value_name = "NUMBER", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Which methods, and what is done with them.
#[derive(clap::Args, Debug)]
struct WhatArgs {
    /// Methods to trace
    #[arg(value_name = "PATTERN", required_unless_present = "rules")]
    patterns: Vec<String>,
    /// File of rules to apply, beside the patterns
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Methods to leave alone, whatever takes them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Only count calls, which costs least
    #[arg(long)]
    count: bool,
    /// Put original code back after so many calls of all methods that a pattern takes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    calls: Option<u64>,
    /// Time one of so many calls; all are counted
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
    /// Allow a pattern that takes every method of every assembly
    #[arg(long)]
    everything: bool,
}

impl WhatArgs {
    /// The rules, checked.
    fn rules(&self) -> anyhow::Result<RuleSet> {
        let wrong = |message: String| failure(Code::Usage, message);
        let pattern = |text: &String| MethodPattern::parse(text).map_err(|error| wrong(format!("{text}: {error}")));
        let action = if self.count { Action::Count } else { Action::TRACE };
        let mut rules = Vec::new();
        for text in &self.patterns {
            let mut rule = Rule::new(text.chars().take(60).collect::<String>(), pattern(text)?, action);
            rule.limits = Limits { one_in: self.one_in, calls: self.calls, seconds: None };
            rule.everything = self.everything;
            rules.push(rule);
        }
        let mut exclude = self.exclude.iter().map(pattern).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(path) = &self.rules {
            let text = fs::read_to_string(path)
                .map_err(|error| failure(Code::File, format!("cannot read {}: {error}", path.display())))?;
            let more = RuleSet::from_toml(&text).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
            rules.extend(more.rules().iter().cloned());
            exclude.extend(more.exclude().iter().cloned());
        }
        let rules = RuleSet::new(rules, exclude);
        for finding in rules.validate() {
            match finding.problem.severity() {
                Severity::Error => return Err(wrong(finding.to_string())),
                Severity::Warning => console::say(&finding.to_string()),
            }
        }
        Ok(rules)
    }
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let rules = args.what.rules()?;
    let process = diagnostics::find(&args.target)?;
    if !args.json && !args.dry_run {
        console::say(STAYS);
    }
    let file = SessionFile::new(args.output.as_deref(), format!("trace.{}", session::EXTENSION))?;
    let options = RecordOptions {
        profilers: Selection::parse_list(if args.dry_run { "trace:dry=yes" } else { "trace" })?,
        rate_hz: 100,
        engine: EngineChoice::Auto,
        duration: args.time,
        output: Some(file.path().to_owned()),
        instrument: Some(rules),
        live: false,
        agent: args.agent.file(),
    };
    let stop = StopOnSignal::start()?;
    let recording = recorder::attach(&process, options)?;
    stop.set(recording.stop_handle());
    let mut said = args.dry_run;
    let summary = recording::wait_and_say(recording, args.time, args.json, |progress| {
        // Scripts wait for this line, too.
        let begins = progress.stage.starts_with("tracing") && !said;
        said |= begins;
        begins.then(|| progress.stage.clone())
    })?;
    show(args, file.path(), &summary)?;
    match recording::cut_off(&summary, args.time.is_some()) {
        Some(message) => Err(failure(Code::Ended, message)),
        None => Ok(Code::Success),
    }
}

fn show(args: &Args, path: &Path, summary: &Summary) -> anyhow::Result<()> {
    let shown = || format!("{}", path.display());
    let profile = Profile::read(File::open(path).with_context(shown)?, BuildOptions::default()).with_context(shown)?;
    let report = Report::of(&profile, args.dry_run, summary);
    match args.json {
        true => console::print_json(&report)?,
        false => console::print(&text::of(&report, args.top as usize, console::width()))?,
    }
    Ok(())
}
