//! Coming and going: how long it takes, and whether it can be done again and again.

use super::Options;
use super::observe::{Recorded, memory};
use super::table::{Distribution, Goal, Row};
use super::work::{FOR_EVER, Target, working};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::thread;
use std::time::Duration;
use testkit::Runtime;

/// The runtimes of the goals.
pub const RUNTIMES: [Runtime; 4] = [Runtime::V3_1, Runtime::V8, Runtime::V9, Runtime::V10];

/// Four threads, each busy for a quarter of the time: about one processor, as in a service under
/// load.
const LOAD: [&str; 6] =
    ["--modes", "cpu,alloc,exceptions,churn", "--duty", "25", "--seconds", FOR_EVER];

/// How long a cycle takes with everything around it.
const USUAL_CYCLE: Duration = Duration::from_millis(500);

/// For `--only`.
pub const CONTROL: &str = "memory without cycles";
/// For `--only`.
pub const NAME: &str = "attach, first sample, detach, cycles";

/// Cycles before memory is looked at.
const WARM_UP: usize = 10;

/// Memory of the target is the median over this number of cycles.
const LEVEL: usize = 10;

/// How long each cycle records.
const LENGTH: Duration = Duration::from_millis(100);

/// What is recorded in turns.
const PROFILERS: [&str; 2] = ["cpu", "cpu,wall,exceptions,gc"];

/// Runs the cycles on one runtime.
///
/// # Errors
/// When the target dies. A cycle that fails is counted.
pub fn run(runtime: Runtime, options: &Options) -> Result<Vec<Row>> {
    working(runtime, "mixed", &LOAD, |target| cycles(runtime, options.cycles, target))
}

fn cycles(runtime: Runtime, count: usize, target: Target<'_>) -> Result<Vec<Row>> {
    let (mut attach, mut first, mut detach) = (Vec::new(), Vec::new(), Vec::new());
    let (mut failures, mut sizes) = (Vec::new(), Vec::new());
    for cycle in 0..count {
        match cycle_once(target, PROFILERS[cycle % PROFILERS.len()]) {
            Ok([entered, sampled, left]) => {
                attach.extend(entered);
                first.extend(sampled);
                detach.extend(left);
            }
            Err(error) => {
                eprintln!("    cycle {cycle}: {error:#}");
                failures.push(error);
                ensure!(memory(target.pid, "VmRSS").is_some(), "the target died in cycle {cycle}");
            }
        }
        sizes.push(memory(target.pid, "VmRSS").context("the target has ended")? as f64 / 1e6);
    }
    let [attach, first, detach] = [attach, first, detach].map(Distribution::of);
    let timed = |what: &str, times: &Distribution, value: f64, goal| {
        Row::new(what, runtime, value, times.with_tail("ms"), goal)
    };
    let mut rows = vec![
        timed(
            "attach request → InitializeForAttach, p50",
            &attach,
            attach.median(),
            Goal::new(5.0, 2.0, "ms"),
        ),
        timed(
            "attach request → first CPU sample kept, p95",
            &first,
            first.at(0.95),
            Goal::new(50.0, 30.0, "ms"),
        ),
        timed("detach, p95", &detach, detach.at(0.95), Goal::new(350.0, 320.0, "ms")),
        Row::new(
            "attach/record/detach cycles: failures",
            runtime,
            failures.len() as f64,
            format!("{} of {count}", failures.len()),
            Goal::only(0.0, "failures"),
        ),
    ];
    if let Some((growth, measured)) = growth(&sizes) {
        let goal = Goal::only(5.0, "MB");
        rows.push(Row::new(
            "attach/record/detach cycles: RSS growth",
            runtime,
            growth,
            measured,
            goal,
        ));
    }
    Ok(rows)
}

/// Memory of the same target over the same time, with nobody attached: what of the growth is its
/// own.
///
/// # Errors
/// When the target dies.
pub fn control(runtime: Runtime, options: &Options) -> Result<Vec<Row>> {
    working(runtime, "mixed", &LOAD, |target| {
        let mut sizes = Vec::new();
        for _ in 0..options.cycles {
            thread::sleep(USUAL_CYCLE);
            sizes.push(memory(target.pid, "VmRSS").context("the target has ended")? as f64 / 1e6);
        }
        let (_, measured) = growth(&sizes).context("too few cycles")?;
        Ok(vec![Row::told(CONTROL, runtime.to_string(), measured)])
    })
}

/// How much memory grew from after the first cycles to the last, in MB, and in words; `None` with
/// too few.
fn growth(sizes: &[f64]) -> Option<(f64, String)> {
    let warm = sizes.get(WARM_UP..).filter(|warm| warm.len() >= 2 * LEVEL)?;
    let level = |part: &[f64]| Distribution::of(part.to_vec()).median();
    let (before, after) = (level(&warm[..LEVEL]), level(&warm[warm.len() - LEVEL..]));
    Some((after - before, format!("{:+.2} MB ({before:.1} → {after:.1})", after - before)))
}

/// One cycle; the milliseconds until the agent ran, until the first CPU sample, and for leaving.
fn cycle_once(target: Target<'_>, profilers: &str) -> Result<[Option<f64>; 3]> {
    let recorded = Recorded::make(target.pid, &["-p", profilers, "--rate", "1000"], LENGTH)?;
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid))?;
    let mapped = maps.lines().find(|line| line.contains("libclrscope-"));
    ensure!(mapped.is_none(), "the agent is still mapped: {}", mapped.unwrap_or_default());
    for entry in fs::read_dir(target.tmp)? {
        let name = entry?.file_name();
        ensure!(
            !name.to_string_lossy().starts_with("clrscope-"),
            "{} was left behind",
            name.display()
        );
    }
    let time = |name: &str| recorded.summary[name].as_f64().map(|seconds| seconds * 1e3);
    let times =
        ["attach_to_initialize_seconds", "attach_to_first_sample_seconds", "detach_seconds"]
            .map(time);
    ensure!(times[0].is_some() && times[2].is_some(), "no times in {}", recorded.summary);
    Ok(times)
}
