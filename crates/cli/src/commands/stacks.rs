//! `clrscope stacks`: a thread dump.

use crate::{
    agent::AgentArgs,
    console,
    exit::Code,
    recording::{self, AtTerminal},
    stacks::{report::Report, take, view},
    tasks,
};
use diagnostics::DotnetProcess;
use document::markdown;
use profilers::Selection;
use std::{io::Write as _, time::Instant};

/// Heap snapshots for asynchronous methods: their states come with the second one.
const SNAPSHOTS: &str = "async:snapshots=2:every=1";

/// Kinds of asynchronous stacks that are shown; the JSON has as many.
const ASYNC_STACKS: usize = 100;

/// Show the stacks of all threads: a thread dump
///
/// Shows each thread with its name, what it does or waits for, its managed and native frames with
/// source lines, and the locks that it waits for and holds. The threads are read from outside, and
/// no thread of the process is stopped. An agent is loaded for a moment to name the managed code.
/// If the process does not respond, is stopped, or has its diagnostics switched off, the code is
/// named from outside as far as possible.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME")]
    target: String,
    /// Show threads with equal stacks together, most threads first
    #[arg(long)]
    merged: bool,
    /// Also show asynchronous methods that wait, and who awaits them: takes two heap snapshots, one
    /// second apart, each of which pauses the process
    #[arg(long = "async", conflicts_with = "no_attach")]
    asynchronous: bool,
    /// Do not touch the process: load no agent
    #[arg(long)]
    no_attach: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let begun = Instant::now();
    let process = diagnostics::locate(&args.target)?;
    let (mut report, departure) =
        take::report(&process, args.no_attach, args.merged, begun, &args.agent)?;
    if args.asynchronous {
        // The main profiler slot may be the only one.
        report.notes.extend(departure.and_then(|departure| departure.finish()));
        match waiting(&process, args) {
            Ok(waiting) => report.asynchronous = Some(waiting),
            Err(error) => {
                show(&report, args)?;
                return Err(error.context("asynchronous methods were not read"));
            }
        }
        show(&report, args)?;
        return Ok(Code::Success);
    }
    // The dump does not wait for the agent to be unloaded.
    let shown = show(&report, args);
    if let Some(note) = departure.and_then(|departure| departure.finish()) {
        eprintln!("{note}");
    }
    shown?;
    Ok(Code::Success)
}

fn show(report: &Report, args: &Args) -> anyhow::Result<()> {
    if args.json {
        return console::print_json(report);
    }
    let document = view::report(report);
    if !args.markdown {
        return Ok(console::show(&document)?);
    }
    let mut text = Vec::new();
    markdown::write(&document, &mut text)?;
    let mut out = console::output();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// Asynchronous methods that wait, by heap snapshots.
fn waiting(process: &DotnetProcess, args: &Args) -> anyhow::Result<tasks::report::Report> {
    let profilers = Selection::parse_list(SNAPSHOTS)?;
    let attendant = AtTerminal::start(true)?;
    let (file, summary) =
        recording::take_snapshots(process, profilers, None, &args.agent, &attendant)?;
    let (found, _) = tasks::report::read(file.path(), ASYNC_STACKS)?;
    let Some((report, _)) = found else { return Err(super::heap::no_snapshot(&summary)) };
    Ok(report)
}
