//! `cargo xtask test`: everything that must hold, in one table.

use crate::outcome::Outcome;
use crate::tool::{self, cargo};
use crate::{dependencies, format, layering, nextest, platforms, setup, sizes, web, words};
use anyhow::{Context, Result, ensure};
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// One step of the plan.
struct Step {
    name: &'static str,
    run: fn() -> Result<Outcome>,
}

/// Compiles for minutes, and nothing depends on it: it takes the time that processors have left
/// from the first step that compiles on. What remains of it runs beside the tests that wait most of
/// the time, and has ended before those begin that measure.
const BESIDE: Step =
    Step { name: "platforms", run: || platforms::check(platforms::Missing::NotRun) };

/// The step that [`BESIDE`] begins with.
const BESIDE_FROM: &str = "lints";

/// In order: what fails soonest and cheapest first. After these come the [tests], so that their
/// summary ends the output. The release is not built here, for its time: the agent always is one,
/// and `demo` and the benchmarks build the rest.
const PLAN: &[Step] = &[
    Step { name: "set-up", run: || done(setup::run()) },
    Step { name: "format", run: format },
    Step { name: "layering", run: || done(layering::check()) },
    Step { name: "sizes", run: || done(sizes::check()) },
    Step { name: "dependencies", run: dependencies::check },
    Step { name: "words", run: || done(words::check()) },
    Step { name: "web pages", run: || done(web::check()) },
    Step { name: "lints", run: lints },
    Step { name: "documentation", run: documentation },
    Step {
        name: "documentation tests",
        run: || done(step(cargo().args(["test", "--workspace", "--doc", "--quiet"]))),
    },
    Step { name: "harm", run: harm },
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
const FOR_CHANGES: [&str; 7] =
    ["set-up", "format", "layering", "sizes", "words", "web pages", "lints"];

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
            nextest::finish(vec![nextest::run(filter, STEP_LIMIT)?])?;
        }
    }
    Ok(())
}

fn run_all() -> Result<()> {
    let started = Instant::now();
    thread::scope(|scope| {
        let mut summary = Vec::new();
        let mut beside = None;
        for (index, planned) in PLAN.iter().enumerate() {
            if planned.name == BESIDE_FROM {
                beside = Some(scope.spawn(run_beside));
            }
            println!("\n== {} of {}: {}", index + 1, PLAN.len() + 1, planned.name);
            match run_one(planned) {
                Ok(line) => summary.push(line),
                Err(error) => {
                    // What runs beside it is ended, instead of waited for.
                    tool::cancel();
                    return Err(error);
                }
            }
        }
        println!("\n== {0} of {0}: tests", PLAN.len() + 1);
        let between = || {
            if let Some(beside) = beside {
                println!("\n== {}, which runs since {BESIDE_FROM}", BESIDE.name);
                summary.push(beside.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            // Before the tests that measure, because the summary of all tests is to be the end of
            // the output.
            println!("\n== so far, {:.0} s", started.elapsed().as_secs_f64());
            for line in &summary {
                println!("   {line}");
            }
            Ok(())
        };
        tests(between).inspect_err(|_| tool::cancel())
    })
}

/// Runs a step; the line that it has in the summary.
fn run_one(step: &Step) -> Result<String> {
    let begun = Instant::now();
    let outcome = (step.run)().with_context(|| format!("step \"{}\" failed", step.name))?;
    Ok(match outcome {
        Outcome::Done => format!("{:<20} {:>6.1} s", step.name, begun.elapsed().as_secs_f64()),
        Outcome::NotRun(why) => {
            println!("NOT RUN: {}: {why}", step.name);
            format!("{:<20} NOT RUN: {why}", step.name)
        }
    })
}

fn run_beside() -> Result<String> {
    // On Linux only this thread, and the processes that it starts, yield to all others at once: no
    // test waits for them.
    #[cfg(target_os = "linux")]
    step(Command::new("chrt").args(["--idle", "--pid", "0"]).arg(thread_id()))?;
    run_one(&BESIDE)
}

/// The number that Linux has for this thread.
#[cfg(target_os = "linux")]
fn thread_id() -> String {
    rustix::thread::gettid().to_string()
}

fn done(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Done)
}

/// `cargo fmt` finds the tests of the workspace, and the other check what macros declare.
fn format() -> Result<Outcome> {
    step(cargo().args(["fmt", "--all", "--check"]))?;
    done(format::check())
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

/// All tests, by cargo-nextest where there is one: first those that run side by side, and after
/// `between` those that measure. A failure of the former keeps nothing from the latter.
fn tests(between: impl FnOnce() -> Result<()>) -> Result<()> {
    if tool::find("cargo-nextest").is_some() {
        let side_by_side = nextest::run(Some(nextest::SIDE_BY_SIDE), STEP_LIMIT)?;
        between()?;
        let alone = nextest::run(Some(nextest::ALONE), STEP_LIMIT)?;
        return nextest::finish(vec![side_by_side, alone]);
    }
    between()?;
    println!("cargo-nextest is not installed: `cargo test` does it, without a limit per test");
    step(cargo().args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_up_comes_first() {
        assert_eq!(PLAN.first().map(|step| step.name), Some("set-up"));
        assert!(PLAN.iter().any(|step| step.name == BESIDE_FROM));
    }
}
