//! `clrscope top`: a live view.

use crate::{
    console, duration,
    exit::{Code, failure},
    interrupt::StopOnSignal,
    recording::RecordingArgs,
    top,
};
use std::{
    io::{self, IsTerminal},
    time::Duration,
};

/// Show live what a process does
///
/// Shows CPU by method, threads and what they wait for, exceptions, and GC pauses. Writes no file.
/// Press ? for the keys.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME")]
    target: String,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Exit after this time: 10s, 1m30s, 500ms
    #[arg(short, long, value_parser = duration::parse_positive)]
    duration: Option<Duration>,
    /// Print a line of JSON each second instead
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let on_a_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !(args.json || on_a_terminal) {
        return Err(failure(
            Code::Usage,
            "top needs a terminal; in a script, use top --json, or record and report",
        ));
    }
    let target = diagnostics::find(&args.target)?;
    // From before the attach on, as for `record`.
    let stop = StopOnSignal::start()?;
    let recording = recorder::attach(&target, args.recording.options(args.duration, None, true))?;
    stop.set(recording.stop_handle());
    match args.json {
        true => top::print_lines(recording)?,
        false => top::show(recording, console::colours(&io::stdout()))?,
    }
    Ok(Code::Success)
}
