//! clrscope: see inside any running .NET process.
//!
//! This file is the map: one variant and one module of [`commands`] for each command.
#![forbid(unsafe_code)]
// The comments of arguments are the text of `--help`, where a name in angle brackets is a
// placeholder.
#![allow(rustdoc::invalid_html_tags)]

mod agent;
mod assistant;
mod commands;
mod console;
mod diagnosis;
mod duration;
mod exit;
mod foreign;
mod heap;
mod interrupt;
mod newrelic;
mod os;
mod panics;
mod recording;
mod served;
mod session_file;
mod stacks;
mod tasks;
mod top;
mod traced;
mod validated;

use clap::{Parser, Subcommand};
use commands::{
    checkup, compare, completions, deadlocks, il, launch, leaks, man, profilers, ps, record,
    report, schema, serve, trace, ui, validate,
};
use exit::Code;
use std::process::ExitCode;

/// See inside any running .NET process
///
/// clrscope attaches to a running .NET process (.NET Core 3.1 or newer), records where its CPU
/// time, waiting time, exceptions and garbage collections go, and leaves it unharmed. It needs no
/// SDK, no restart and no change of the program.
#[derive(Parser, Debug)]
#[command(
    name = "clrscope",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = Code::help(),
    after_long_help = format!("{EXAMPLES}\n{}", Code::help()),
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  clrscope ui
  clrscope ps
  clrscope record 1234 --duration 10s -o web.clrscope
  clrscope report web.clrscope --format html -o web.html
  clrscope launch -p cpu,gc -- dotnet MyApp.dll
  clrscope checkup MyApp
  clrscope top MyApp
  clrscope heap 1234 --type Order
  clrscope leaks 1234 --snapshots 4 --every 30s
  clrscope async MyApp
  clrscope stacks MyApp
  clrscope deadlocks MyApp
  clrscope trace MyApp 'MyApp.Orders.**' --for 10s
  clrscope il MyApp.dll --method Main
  clrscope compare before.clrscope after.clrscope --fail-on 5%
  clrscope validate before.clrscope after.clrscope
  clrscope newrelic check --pid MyApp
  clrscope serve
  clrscope mcp
";

#[derive(Subcommand, Debug)]
enum Command {
    Ps(ps::Args),
    Profilers(profilers::Args),
    Record(record::Args),
    Launch(launch::Args),
    Report(report::Args),
    Checkup(checkup::Args),
    Top(commands::top::Args),
    Heap(commands::heap::Args),
    Leaks(leaks::Args),
    Async(commands::tasks::Args),
    Stacks(commands::stacks::Args),
    Deadlocks(deadlocks::Args),
    Trace(trace::Args),
    Il(il::Args),
    Compare(compare::Args),
    Validate(validate::Args),
    Newrelic(commands::newrelic::Args),
    Ui(ui::Args),
    Serve(serve::Args),
    Mcp(commands::mcp::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    fn run(&self) -> anyhow::Result<Code> {
        match self {
            Self::Ps(args) => ps::run(args),
            Self::Profilers(args) => profilers::run(args),
            Self::Record(args) => record::run(args),
            Self::Launch(args) => launch::run(args),
            Self::Report(args) => report::run(args),
            Self::Checkup(args) => checkup::run(args),
            Self::Top(args) => commands::top::run(args),
            Self::Heap(args) => commands::heap::run(args),
            Self::Leaks(args) => leaks::run(args),
            Self::Async(args) => commands::tasks::run(args),
            Self::Stacks(args) => commands::stacks::run(args),
            Self::Deadlocks(args) => deadlocks::run(args),
            Self::Trace(args) => trace::run(args),
            Self::Il(args) => il::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Validate(args) => validate::run(args),
            Self::Newrelic(args) => commands::newrelic::run(args),
            Self::Ui(args) => ui::run(args),
            Self::Serve(args) => serve::run(args),
            Self::Mcp(args) => commands::mcp::run(args),
            Self::Schema(args) => schema::run(args),
            Self::Completions(args) => completions::run(args),
            Self::Man(args) => man::run(args),
        }
    }
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if diagnostics::keeper::is_asked() {
        return keep_event_sessions();
    }
    panics::install();
    #[cfg(target_os = "linux")]
    diagnostics::keeper::offer();
    os::survive_file_limit();
    let code = std::panic::catch_unwind(run).unwrap_or(Code::Internal);
    // A thread that panicked may have left a good-looking end behind.
    if panics::happened() { Code::Internal.into() } else { code.into() }
}

/// Ends event sessions of a clrscope that was killed. No signal that can be caught ends this.
#[cfg(target_os = "linux")]
fn keep_event_sessions() -> ExitCode {
    use os::Signal::{Hangup, Interrupt, Quit, Terminate};
    // It may outlive clrscope, whose caller waits for the ends of pipes and locks.
    sampler::close_inherited();
    let Ok(_watch) = os::SignalWatch::start(&[Hangup, Interrupt, Quit, Terminate], |_| {}) else {
        return Code::Internal.into();
    };
    diagnostics::keeper::run();
    Code::Success.into()
}

fn run() -> Code {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, with code 0. That they cannot be written is
            // nothing to tell.
            let _ = error.print();
            return if error.exit_code() == 0 { Code::Success } else { Code::Usage };
        }
    };
    recorder::on_wait(|what| eprintln!("{what}"));
    match cli.command.run() {
        Ok(code) => code,
        // `clrscope report … | head` is no failure.
        Err(error) if console::is_closed_output(&error) => Code::Success,
        Err(error) => {
            console::complain(&error);
            exit::of(&error)
        }
    }
}
