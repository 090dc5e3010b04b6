//! `clrscope record`: a running process into a session file.

use crate::{
    console, duration,
    exit::{Code, failure},
    interrupt::StopOnSignal,
    recording::{self, RecordingArgs},
};
use std::{path::PathBuf, time::Duration};

/// Record a running process into a session file
///
/// Records until the duration is over, Ctrl-C is pressed, or the process ends; what was recorded is
/// kept in each case. The process continues unharmed. A second Ctrl-C ends clrscope within 2 s.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME")]
    target: String,
    #[command(flatten)]
    recording: RecordingArgs,
    /// How long to record: 10s, 1m30s, 500ms
    #[arg(short, long, value_parser = duration::parse_positive)]
    duration: Option<Duration>,
    /// Session file to write [default: <name>-<pid>-<time>.clrscope]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress and no summary
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let target = diagnostics::find(&args.target)?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| recording::default_file(&target.name, Some(target.pid)));
    let options = args.recording.options(args.duration, Some(output), false);
    // From before the attach on: a signal that comes half-way in ends the recording as soon as it
    // has begun.
    let stop = StopOnSignal::start()?;
    let recording = recorder::attach(&target, options)?;
    stop.set(recording.stop_handle());
    let summary = recording::wait(recording, args.duration, args.quiet || args.json)?;
    drop(stop);
    match (args.json, args.quiet) {
        (true, _) => console::print_json(&api::SummaryJson::of(&summary))?,
        (false, false) => console::print(&recording::summary_text(&summary))?,
        (false, true) => {}
    }
    match recording::cut_off(&summary, args.duration.is_some(), true) {
        Some(message) => Err(failure(Code::Ended, message)),
        None => Ok(Code::Success),
    }
}
