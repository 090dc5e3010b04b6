//! Costs of observation besides time of the observed process: suspensions of the runtime, memory,
//! time for names and in handlers.

use super::observe::{Recorded, memory};
use super::table::{Goal, Row};
use super::work::{FOR_EVER, working};
use anyhow::{Context, Result, ensure};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use testkit::Runtime;

/// For `--only`.
pub const WALL: &str = "wall, 20 Hz, 100 threads";
/// For `--only`.
pub const NAMING: &str = "naming a method";
/// For `--only`.
pub const HANDLER: &str = "signal handler";
/// For `--only`.
pub const MEMORY: &str = "memory of the agent, 1,000 threads";

/// Runtimes that run samples, oldest first.
pub const SAMPLES: [Runtime; 3] = [Runtime::V3_1, Runtime::V8, Runtime::V9];
/// The same, and the application.
pub const ALL: [Runtime; 4] = [Runtime::V3_1, Runtime::V8, Runtime::V9, Runtime::V10];

/// Threads of the memory row.
const MANY: &str = "1000";

/// What `wall` costs at its default rate with 100 threads: for how long the runtime is suspended,
/// and CPU time. Each thread works for a hundredth of the time, so that at each tick a dozen of
/// them have run since the last one.
///
/// # Errors
/// When the target or the recording fails.
pub fn wall(runtime: Runtime) -> Result<Vec<Row>> {
    let load = ["--modes", "cpu", "--threads", "100", "--duty", "1", "--seconds", FOR_EVER];
    let recorded = working(runtime, "mixed", &load, |target| {
        Recorded::make(target.pid, &["-p", "wall"], Duration::from_secs(10))
    })?;
    let length = recorded.number("duration_seconds")?;
    let stopped = recorded.number("target_stopped_seconds")?;
    let ticks = recorded.counter("ticks")?;
    let used = recorded.counter("nanoseconds of CPU time in ticks")?;
    let (copies, walks) =
        (recorded.counter("stacks of blocked threads copied"), recorded.counter("stack walks"));
    ensure!(recorded.samples("wall") >= 100.0 * 10.0, "too few wall samples: {}", recorded.summary);
    let share = 100.0 * stopped / length;
    let measured = format!(
        "{share:.2} % ({:.1} ticks per second, {:.0} µs of CPU time each, {:.1} stacks each)",
        ticks / length,
        used / ticks / 1e3,
        copies.or(walks)? / ticks,
    );
    let what = format!("{WALL}: runtime suspended");
    Ok(vec![Row::new(what, runtime, share, measured, Goal::new(1.0, 0.5, "%"))])
}

/// Time that the agent takes to name a method, over all methods of a varied load. The first method
/// of a module, for which its metadata is opened, is reported separately.
///
/// # Errors
/// When the target or the recording fails.
pub fn naming(runtime: Runtime) -> Result<Vec<Row>> {
    let load = ["--modes", "all", "--seconds", FOR_EVER];
    let recorded = working(runtime, "mixed", &load, |target| {
        Recorded::make(
            target.pid,
            &["-p", "cpu,exceptions", "--rate", "1000"],
            Duration::from_secs(4),
        )
    })?;
    let (nanos, methods) =
        (recorded.counter("nanoseconds naming")?, recorded.counter("methods named")?);
    let (opening, modules) =
        (recorded.counter("nanoseconds opening modules")?, recorded.counter("modules opened")?);
    let each = (nanos - opening) / (methods - modules) / 1e3;
    let first = opening / modules / 1e3;
    let all = nanos / methods / 1e3;
    let measured = format!(
        "{each:.2} µs, mean of {:.0} methods; {first:.1} µs for the first of each of {modules:.0} \
            modules; {all:.2} µs over all",
        methods - modules
    );
    Ok(vec![Row::new(NAMING, runtime, each, measured, Goal::new(3.0, 2.0, "µs"))])
}

/// Median time in the handler of the signal engine.
///
/// # Errors
/// When the target or the recording fails.
pub fn handler(runtime: Runtime) -> Result<Vec<Row>> {
    let load = ["--modes", "cpu,alloc,exceptions", "--seconds", FOR_EVER];
    let recorded = working(runtime, "mixed", &load, |target| {
        let arguments = ["-p", "cpu", "--rate", "1000", "--engine", "signals"];
        Recorded::make(target.pid, &arguments, Duration::from_secs(4))
    })?;
    ensure!(
        recorded.samples("cpu") > 100.0,
        "the signal engine gave too few samples: {}",
        recorded.summary
    );
    let each = recorded.counter("nanoseconds in the signal handler, median")? / 1e3;
    let measured = format!("{each:.2} µs, n {:.0}", recorded.counter("signals handled")?);
    Ok(vec![Row::new(
        format!("{HANDLER}, p50"),
        runtime,
        each,
        measured,
        Goal::new(2.0, 1.0, "µs"),
    )])
}

/// Memory of the agent in a process of 1,000 threads from which each tick of `wall` takes 1,000
/// samples.
///
/// # Errors
/// When the target or the recording fails.
pub fn memory_of_agent(runtime: Runtime) -> Result<Vec<Row>> {
    let length = Duration::from_secs(10);
    let (recorded, growth) =
        working(runtime, "waiter", &["--threads", MANY, "--seconds", FOR_EVER], |target| {
            let before = memory(target.pid, "VmRSS").context("the target has ended")?;
            let (most, done) = (AtomicU64::new(before), AtomicBool::new(false));
            let recorded = thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        most.fetch_max(memory(target.pid, "VmRSS").unwrap_or(0), Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(50));
                    }
                });
                let recorded = Recorded::make(target.pid, &["-p", "wall"], length);
                done.store(true, Ordering::Relaxed);
                recorded
            })?;
            Ok((recorded, (most.into_inner() - before) as f64 / f64::from(1 << 20)))
        })?;
    let told = recorded
        .observer()?
        .iter()
        .map(|status| status.target_memory)
        .max()
        .context("no status")?;
    let told = told as f64 / f64::from(1 << 20);
    let rate = recorded.samples("wall") / recorded.number("duration_seconds")?;
    let dropped = recorded.dropped();
    let measured = format!(
        "RSS +{growth:.1} MB, the agent says {told:.1} MB; {rate:.0} samples/s, {dropped:.0} \
            dropped"
    );
    let goal = Goal::new(32.0, 16.0, "MB");
    Ok(vec![
        Row::new(MEMORY, runtime, growth.max(told), measured, goal),
        Row::new(
            format!("{MEMORY}: dropped"),
            runtime,
            dropped,
            format!("{dropped:.0}"),
            Goal::only(0.0, "samples"),
        ),
        Row::new(
            format!("{MEMORY}: missing of 20,000 samples/s"),
            runtime,
            100.0 * (1.0 - rate / 20_000.0),
            format!("{:.1} %", 100.0 * (1.0 - rate / 20_000.0)),
            Goal::only(5.0, "%"),
        ),
    ])
}
