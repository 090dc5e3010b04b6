//! `clrscope mcp`: tools for assistants.

use super::serve::default_folder;
use crate::{
    agent::AgentArgs,
    assistant, console,
    exit::Code,
    os::{self, Signal, SignalWatch},
    served,
};
use ::mcp::{Assistant, Config, Limits, Stopper};
use anyhow::Context;
use server::{Retention, Workspace};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Offer tools to an assistant (Model Context Protocol) on standard input and output
///
/// An assistant starts this command and asks it what is wrong with a process. It can list
/// processes, check one up, read stacks, the heap and sessions. With --allow-record it chooses what
/// is recorded, with --allow-trace it may also add code to methods for a while. Texts of the
/// observed process are marked as data, and what looks like a secret is replaced.
///
/// Ends when the assistant closes standard input, or on a signal. Recordings end in order before.
/// docs/assistants.md says how to set it up.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Allow the tool `record`: recordings with any profilers
    #[arg(long)]
    allow_record: bool,
    /// Allow the tool `trace`, which adds code to methods of processes while it runs
    #[arg(long)]
    allow_trace: bool,
    /// Folder of sessions [default: clrscope/sessions in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    sessions: Option<PathBuf>,
    /// Sessions to keep; the oldest ones are deleted
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    max_sessions: u32,
    /// Disk space for sessions, in GB; the oldest ones are deleted
    #[arg(long, value_name = "GB", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    max_space: u32,
    /// Longest observation of one call, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_seconds: u64,
    /// Observation time of all calls together, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    total_seconds: u64,
    /// End an observation that costs the process more than this share of one processor, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    max_overhead: u32,
    /// Take heap snapshots only of processes with at most this much resident memory, in MB; 0 takes
    /// none
    #[arg(long, value_name = "MB", default_value_t = 2048)]
    max_heap: u64,
    #[command(flatten)]
    agent: AgentArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let folder = args.sessions.clone().map_or_else(default_folder, Ok)?;
    let retention =
        Retention { count: args.max_sessions as usize, bytes: u64::from(args.max_space) << 30 };
    let program = Arc::new(served::Clrscope { agent: args.agent.clone() });
    let work = Workspace::open(&folder, retention, program)?;
    let config = Config {
        record: args.allow_record,
        trace: args.allow_trace,
        limits: Limits {
            call: Duration::from_secs(args.max_seconds),
            total: Duration::from_secs(args.total_seconds),
            overhead: f64::from(args.max_overhead) / 100.0,
            heap: args.max_heap.saturating_mul(1 << 20),
        },
    };
    let program = Arc::new(assistant::Clrscope { agent: args.agent.clone() });
    let assistant = Assistant::new(work, program, config);
    if os::is_root() {
        console::say(
            "warning: clrscope mcp runs as root: the assistant can observe every .NET process of \
             this machine. To let it observe those of one user only, run it as that user",
        );
    }
    let stopper = Stopper::default();
    let _watch = end_on_signal(stopper.clone())?;
    ::mcp::serve(&assistant, &stopper)?;
    Ok(Code::Success)
}

/// The first signal ends recordings in order, the second Ctrl-C the program at once.
fn end_on_signal(stopper: Stopper) -> anyhow::Result<SignalWatch> {
    let mut ending = false;
    let signals = [Signal::Interrupt, Signal::Terminate, Signal::Hangup];
    let watch = SignalWatch::start(&signals, move |signal| {
        if ending && signal == Signal::Interrupt {
            std::process::exit(Code::Aborted.number().into());
        }
        ending = true;
        stopper.stop();
    });
    watch.context("cannot watch signals")
}
