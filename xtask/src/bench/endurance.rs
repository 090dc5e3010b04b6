//! Long recordings of what is most likely to kill a process that is profiled.

use super::Options;
use super::observe::{Recorded, Recording};
use super::table::{Goal, Row};
use anyhow::{Result, ensure};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample};

/// The runtimes of the goals.
pub const RUNTIMES: [Runtime; 2] = [Runtime::V8, Runtime::V9];

/// Kinds of work of the sample `mixed`, in words and as its arguments.
pub const KINDS: &[(&str, &[&str])] = &[
    ("endurance, NullReferenceException loop", &["--modes", "nullref"]),
    ("endurance, deep recursion", &["--modes", "recursion", "--depth", "5000"]),
    ("endurance, thread churn", &["--modes", "churn", "--threads", "2"]),
];

/// How often it is looked at whether the target lives.
const LOOK: Duration = Duration::from_millis(200);

/// Records one kind of work and counts deaths: of the target, or of the recording.
///
/// # Errors
/// When the target cannot be recorded at all.
pub fn run(name: &str, work: &[&str], runtime: Runtime, options: &Options) -> Result<Vec<Row>> {
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    let seconds = (length.as_secs() + 20).to_string();
    let mut arguments = work.to_vec();
    arguments.extend(["--seconds", &seconds]);
    let mut target = Sample::named("mixed").start(runtime, &arguments);
    target.wait_for_ready();
    let duration = format!("{}ms", length.as_millis());
    let record = [
        "-p",
        &options.profilers,
        "--rate",
        "1000",
        "--engine",
        &options.engine,
        "--duration",
        &duration,
    ];
    let recording = Recording::start(target.pid(), &record)?;
    let until = Instant::now() + length;
    while target.is_running() && Instant::now() < until {
        thread::sleep(LOOK);
    }
    let recorded: Result<Recorded> = recording.wait(Duration::from_secs(60));
    let alive = target.is_running();
    let (deaths, measured) = match (&recorded, alive) {
        (Ok(recorded), true) => {
            ensure!(recorded.samples("cpu") > 0.0, "nothing was sampled: {}", recorded.summary);
            // Until its own end: what an observer leaves broken may show only then.
            let truth = target.truth(Duration::from_secs(90));
            let (samples, done) = (recorded.samples("cpu"), &truth["done"]);
            (
                0,
                format!(
                    "0 in {} min; {samples:.0} samples, {:.0} dropped, done {done}",
                    options.minutes,
                    recorded.dropped()
                ),
            )
        }
        (Ok(_), false) => {
            (1, format!("the target died\n{}", target.transcript()).replace('\n', "<br>"))
        }
        (Err(error), alive) => (
            1,
            format!("{error:#}; the target {}", if alive { "lives" } else { "died" })
                .replace('\n', "<br>"),
        ),
    };
    Ok(vec![Row::new(
        format!("{name}, deaths"),
        runtime,
        f64::from(deaths),
        measured,
        Goal::only(0.0, "deaths"),
    )])
}
