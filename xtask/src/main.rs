//! Tasks of clrscope's developers: `cargo xtask <task>`.

#![forbid(unsafe_code)]

mod bench;
mod circles;
mod demo;
mod dependencies;
mod docs;
mod faults;
mod format;
mod fuzz;
#[cfg(target_os = "linux")]
mod harm;
mod hubs;
mod layering;
mod nextest;
mod outcome;
mod pictures;
mod plan;
mod platforms;
mod sample;
mod setup;
mod sizes;
mod tool;
mod web;
mod widths;
mod words;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use outcome::Outcome;
use std::process::ExitCode;

/// Tasks of clrscope's developers.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Put real .NET runtimes and a C# compiler onto this machine
    Setup,
    /// Record ten seconds of a sick web service and show what is found
    Demo,
    /// Run a sample program, to try clrscope on it
    Sample(sample::Options),
    /// Take the pictures of the README: real pages of a real process
    Pictures,
    /// Check everything that must hold: format, lints, platforms, tests
    Test(plan::Options),
    /// Measure what recording costs the recorded
    Bench(bench::Options),
    /// See whether clrscope harms what it looks at: targets × conditions × actions × runtimes
    #[cfg(target_os = "linux")]
    Harm(harm::Options),
    /// Become a command under limits, for `harm`
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Inside(harm::inside::Options),
    /// Take names of sockets, for `harm`
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Squat(harm::squat::Options),
    /// Run fuzz targets with cargo-fuzz, each for some minutes
    Fuzz(fuzz::Options),
    /// Make each allocation and system call of the agent fail, one after the other
    Faults(faults::Options),
    /// Type-check the code for platforms that nobody here runs
    CheckPlatforms,
    /// Format all sources, also those that macros declare
    Format(format::Options),
    /// Check that what is loaded into the target stays small and apart
    Layering,
    /// Check that no function, no source file and no line of prose is too long
    Sizes,
    /// Check licences, sources and bans of other people's crates
    Dependencies,
    /// Write what pages say of each profiler's parameters, and docs/api.md
    Docs,
    /// Build the pages of the web UI into web/dist
    Web,
    /// Check that pages, help, errors and reports use words that .NET engineers know
    Words,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup => setup::run(),
        Task::Demo => demo::run(),
        Task::Sample(options) => sample::run(&options),
        Task::Pictures => pictures::run(),
        Task::Test(options) => plan::run(&options),
        Task::Bench(options) => bench::run(&options),
        #[cfg(target_os = "linux")]
        Task::Harm(options) => harm::run(&options),
        #[cfg(target_os = "linux")]
        Task::Inside(options) => harm::inside::run(&options),
        #[cfg(target_os = "linux")]
        Task::Squat(options) => harm::squat::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Faults(options) => faults::run(&options),
        Task::CheckPlatforms => ran(platforms::check(platforms::Missing::Fail)),
        Task::Format(options) => format::run(&options),
        Task::Layering => layering::check(),
        Task::Sizes => sizes::check(),
        Task::Dependencies => ran(dependencies::check()),
        Task::Docs => docs::run(),
        Task::Web => web::build(),
        Task::Words => words::check(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A step that was asked for by name and could not run has failed.
fn ran(outcome: Result<Outcome>) -> Result<()> {
    match outcome? {
        Outcome::Done => Ok(()),
        Outcome::NotRun(why) => bail!("{why}"),
    }
}
