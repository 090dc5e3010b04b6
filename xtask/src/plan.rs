//! `cargo xtask test`: everything that must hold, in one table.

use crate::tool::{self, cargo};
use crate::{dependencies, layering, nextest, platforms, setup, sizes, words};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

/// What a step has to say at its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and everything holds.
    Done,
    /// It could not run on this machine, for this reason.
    NotRun(String),
}

/// One step of the plan.
struct Step {
    name: &'static str,
    run: fn() -> Result<Outcome>,
}

/// In order: what fails soonest and cheapest first, the tests last so that their summary ends the
/// output. The release is not built here, for its time: the agent always is one, and `demo` and the
/// benchmarks build the rest.
const PLAN: &[Step] = &[
    Step { name: "set-up", run: || done(setup::run()) },
    Step { name: "format", run: || done(step(cargo().args(["fmt", "--all", "--check"]))) },
    Step { name: "layering", run: || done(layering::check()) },
    Step { name: "sizes", run: || done(sizes::check()) },
    Step { name: "dependencies", run: dependencies::check },
    Step { name: "words", run: || done(words::check()) },
    Step { name: "lints", run: lints },
    Step { name: "documentation", run: documentation },
    Step { name: "platforms", run: || platforms::check(platforms::Missing::NotRun) },
    Step {
        name: "documentation tests",
        run: || done(step(cargo().args(["test", "--workspace", "--doc", "--quiet"]))),
    },
    Step { name: "harm", run: harm },
    Step { name: "tests", run: tests },
];

/// What one step may take at most; the whole is meant to stay under an hour on two cores.
const STEP_LIMIT: Duration = Duration::from_secs(50 * 60);

/// What to check.
#[derive(clap::Args)]
pub struct Options {
    /// Only what changes since this commit can affect, those that are not committed included: for
    /// daily work. Leaves out harm, platforms, dependencies and documentation
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD")]
    changed: Option<String>,
}

/// Steps that a check of changes has.
const FOR_CHANGES: [&str; 6] = ["set-up", "format", "layering", "sizes", "words", "lints"];

/// Runs the plan and stops at the first step that fails.
///
/// # Errors
/// When a step fails.
pub fn run(options: &Options) -> Result<()> {
    match &options.changed {
        Some(since) => run_changed(since),
        None => run_all(),
    }
}

fn run_changed(since: &str) -> Result<()> {
    ensure!(tool::find("cargo-nextest").is_some(), "--changed needs cargo-nextest");
    let filter = nextest::affected(since)?;
    for planned in PLAN.iter().filter(|planned| FOR_CHANGES.contains(&planned.name)) {
        println!("\n== {}", planned.name);
        (planned.run)().with_context(|| format!("step \"{}\" failed", planned.name))?;
    }
    match filter.as_deref() {
        Some("") => println!("\nnothing has changed since {since}: no tests"),
        filter => {
            println!("\n== tests: {}", filter.unwrap_or("all"));
            nextest::run(filter, STEP_LIMIT)?;
        }
    }
    Ok(())
}

fn run_all() -> Result<()> {
    let started = Instant::now();
    let mut summary = Vec::new();
    for (index, planned) in PLAN.iter().enumerate() {
        let last = index + 1 == PLAN.len();
        if last {
            // Before the tests, because their own summary is to be the end of the output.
            println!("\n== so far, {:.0} s", started.elapsed().as_secs_f64());
            for line in &summary {
                println!("   {line}");
            }
        }
        println!("\n== {} of {}: {}", index + 1, PLAN.len(), planned.name);
        let begun = Instant::now();
        let outcome =
            (planned.run)().with_context(|| format!("step \"{}\" failed", planned.name))?;
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Outcome::Done => summary.push(format!("{:<20} {seconds:>6.1} s", planned.name)),
            Outcome::NotRun(why) => {
                println!("NOT RUN: {}: {why}", planned.name);
                summary.push(format!("{:<20} NOT RUN: {why}", planned.name));
            }
        }
    }
    Ok(())
}

fn done(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Done)
}

fn step(command: &mut Command) -> Result<()> {
    tool::run(command, STEP_LIMIT)
}

/// The short form of the harm matrix.
#[cfg(target_os = "linux")]
fn harm() -> Result<Outcome> {
    done(crate::harm::run(&crate::harm::Options::default()))
}

/// The short form of the harm matrix.
#[cfg(not(target_os = "linux"))]
fn harm() -> Result<Outcome> {
    Ok(Outcome::NotRun("its conditions are made with Linux's own means".into()))
}

fn lints() -> Result<Outcome> {
    done(step(cargo().args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])))
}

fn documentation() -> Result<Outcome> {
    let mut command = cargo();
    command.args(["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    done(step(command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")))
}

/// All tests, by cargo-nextest where there is one.
fn tests() -> Result<Outcome> {
    if tool::find("cargo-nextest").is_some() {
        return done(nextest::run(None, STEP_LIMIT));
    }
    println!("cargo-nextest is not installed: `cargo test` does it, without a limit per test");
    done(step(cargo().args([
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--no-fail-fast",
    ])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_come_last_and_the_set_up_first() {
        assert_eq!(PLAN.first().map(|step| step.name), Some("set-up"));
        assert_eq!(PLAN.last().map(|step| step.name), Some("tests"));
    }
}
