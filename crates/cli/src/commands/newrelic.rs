//! `clrscope newrelic`: what a New Relic .NET agent does, or would do.

use crate::{
    console,
    exit::Code,
    newrelic::{Report, Subject},
};
use std::path::PathBuf;

/// Check what a New Relic .NET agent would do, without running anything
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Check(CheckArgs),
}

/// Report what an agent would do in a process, or with an assembly
///
/// Reads the agent's home folder as its native profiler does and shows: which managed agent there
/// is and how it is called, whether the native library can be loaded, the configuration, the
/// instrumentation points, and what is wrong in their files. With --pid, also whether that process
/// is instrumented, with the reason, and which of its assemblies have points; its environment,
/// files and memory map are read and nothing is changed. With --assembly, which methods of that
/// file get instrumented, which are refused and why, and which points match nothing. Nothing is
/// run, and nothing is sent.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The home folder is the one that is named, else that of the process (CORECLR_NEW_RELIC_HOME in its environment), else that of clrscope's own environment.\n\nExit code 0 says that there is a report, whatever it says; 2 that no home folder is known, 3 that there is no such process, 4 that it cannot be examined, 6 that a file or folder that was named cannot be read."
)]
struct CheckArgs {
    /// Home folder of the agent, with newrelic.config and NewRelic.Agent.Core.dll
    home: Option<PathBuf>,
    /// Process to check: its id, or its name as `clrscope ps` shows it
    #[arg(long, value_name = "PID|NAME", conflicts_with = "assembly")]
    pid: Option<String>,
    /// Assembly (.dll), or single-file application, to check
    #[arg(long, value_name = "FILE")]
    assembly: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let Command::Check(args) = &args.command;
    let subject = match (&args.pid, &args.assembly) {
        (Some(target), _) => Subject::Process(target),
        (None, Some(path)) => Subject::Assembly(path),
        (None, None) => Subject::Home,
    };
    let report = Report::make(args.home.as_deref(), subject)?;
    match args.json {
        true => console::print_json(&report)?,
        false => console::show(&report.document())?,
    }
    Ok(Code::Success)
}
