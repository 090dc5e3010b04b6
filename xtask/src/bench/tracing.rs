//! What the code costs that `trace` puts into methods, and how long it takes to put it there.

use super::table::{Distribution, Goal, Row};
use crate::tool;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample};

/// For `--only`.
pub const CALL: &str = "a traced call";
/// For `--only`.
pub const REWRITE: &str = "methods rewritten in a running process";
/// For `--only`.
pub const START: &str = "start-up with every method timed";
/// Real applications: trimmed and of one file, and with all of the framework beside it.
pub const APPLICATIONS: [Runtime; 2] = [Runtime::V10, Runtime::Azmcp9];

/// Rounds, in each of which everything is measured once, in turns.
const ROUNDS: usize = 5;
/// Calls of a method that does nothing.
const CALLS: &str = "20000000";
/// What one run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What a call of a method that does nothing costs more when it is counted, and when it is timed.
///
/// # Errors
/// When a run fails.
pub fn call(runtime: Runtime) -> Result<Vec<Row>> {
    let (mut plain, mut counted, mut timed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(run(runtime, None)?);
        counted.push(run(runtime, Some(&["--count"]))?);
        timed.push(run(runtime, Some(&[]))?);
    }
    let (plain, counted, timed) =
        (Distribution::of(plain), Distribution::of(counted), Distribution::of(timed));
    let row = |what: &str, with: &Distribution, most| {
        let more = with.median() - plain.median();
        let told = format!(
            "{more:.1} ns: {} with it, {} without",
            with.with_quartiles("ns"),
            plain.with_quartiles("ns")
        );
        Row::new(
            format!("{CALL} of a method that does nothing, {what}"),
            runtime,
            more,
            told,
            Goal::only(most, "ns"),
        )
    };
    Ok(vec![
        row("counted", &counted, 10.0),
        row("with latency histogram and call tree", &timed, 60.0),
    ])
}

/// Nanoseconds of a call.
fn run(runtime: Runtime, traced: Option<&[&str]>) -> Result<f64> {
    let launch = Sample::named("caller").launch(runtime, &["--bench", "nop", "--calls", CALLS]);
    let folder = tempfile::tempdir()?;
    let launch = match traced {
        None => launch,
        Some(more) => {
            let mut prefix: Vec<OsString> = vec![tool::clrscope().into()];
            let fixed = ["launch", "-q", "-p", "trace", "--trace", "caller!*.Caller.Nop"];
            prefix.extend(fixed.iter().chain(more).map(OsString::from));
            prefix.extend(["-o".into(), folder.path().join("trace.clrscope").into(), "--".into()]);
            launch.under(prefix)
        }
    };
    let mut process = launch.start();
    let told = process.truth(LIMIT);
    ensure!(process.wait(LIMIT)?.success(), "{}", process.transcript());
    told["ns_per_call"].as_f64().with_context(|| format!("no time in {told}"))
}

/// From the start of the command to all methods rewritten, less what attaching takes.
///
/// # Errors
/// When a trace fails.
pub fn rewrite(runtime: Runtime) -> Result<Vec<Row>> {
    let mut process = Sample::named("toggler").start(runtime, &["--threads", "2"]);
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let trace = |more: &[&str]| -> Result<(f64, Value)> {
        let begun = Instant::now();
        let mut command = Command::new(tool::clrscope());
        command
            .args([
                "trace",
                &pid,
                "toggler!*.Toggler.M*",
                "--exclude",
                "Main",
                "--for",
                "1ms",
                "--json",
            ])
            .args(more);
        let text = tool::output(&mut command, LIMIT)?;
        Ok((begun.elapsed().as_secs_f64() * 1e3, serde_json::from_str(&text)?))
    };
    let (mut all, mut none, mut stopped) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let (took, report) = trace(&[])?;
        stopped += report["stopped_ns"].as_u64().context("no stopped_ns")?;
        let count = |list: &str| report[list].as_array().map_or(0, Vec::len);
        ensure!(
            count("methods") + count("not_called") == 400,
            "not all methods were rewritten: {report:#}"
        );
        all.push(took);
        none.push(trace(&["--exclude", "toggler!*.M{1,2,3,4,5,6,7,8,9}*"])?.0);
    }
    let (all, none) = (Distribution::of(all), Distribution::of(none));
    let each = (all.median() - none.median()) / 399.0 * 1e3;
    let told = format!(
        "{each:.0} µs a method, there and back: {} for 400, {} for one; stopped for {:.1} ms in \
            all, in the first of {ROUNDS}",
        all.with_quartiles("ms"),
        none.with_quartiles("ms"),
        stopped as f64 / 1e6
    );
    Ok(vec![Row::new(format!("{REWRITE}: 1,000"), runtime, each, told, Goal::only(500.0, "ms"))])
}

/// How much longer an application takes from its start to its end when all of its methods and those
/// of the runtime are timed.
///
/// # Errors
/// When a run fails.
pub fn start(runtime: Runtime) -> Result<Vec<Row>> {
    let application = runtime.require().executable();
    let took = |command: &mut Command| -> Result<f64> {
        let begun = Instant::now();
        tool::output(command.arg("--version"), LIMIT)?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    };
    let (mut plain, mut traced) = (Vec::new(), Vec::new());
    // The first round finds the application on the disk.
    for round in 0..=ROUNDS {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(tool::clrscope());
        command.args(["launch", "-q", "-p", "trace", "--everything", "--trace", "**", "-o"]);
        command.arg(folder.path().join("trace.clrscope")).arg("--").arg(&application);
        let (without, with) = (took(&mut Command::new(&application))?, took(&mut command)?);
        if round > 0 {
            plain.push(without);
            traced.push(with);
        }
    }
    let (plain, traced) = (Distribution::of(plain), Distribution::of(traced));
    let ratio = traced.median() / plain.median();
    let told = format!(
        "{ratio:.1} ×: {} with it, {} without",
        traced.with_quartiles("ms"),
        plain.with_quartiles("ms")
    );
    Ok(vec![Row::new(START, runtime, ratio, told, Goal::only(4.0, "×"))])
}
