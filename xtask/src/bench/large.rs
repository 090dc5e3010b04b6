//! A large session to HTML, by the whole program.

use super::BUILD_LIMIT;
use super::observe::memory;
use super::table::{Distribution, Goal, Row};
use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// For `--only`.
pub const NAME: &str = "10 M samples, 100,000 stacks → HTML";

/// What one report may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How often it is done; the figure is the median.
const ROUNDS: usize = 3;

/// Makes the session and reports it.
///
/// # Errors
/// When either fails.
pub fn run() -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let (session, page) = (folder.path().join("large.clrscope"), folder.path().join("large.html"));
    let mut write = cargo();
    write.args([
        "run",
        "--quiet",
        "--release",
        "-p",
        "report",
        "--example",
        "large_session",
        "--",
        "write",
    ]);
    tool::output(write.arg(&session), BUILD_LIMIT)?;
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut command = Command::new(tool::clrscope());
        command.arg("report").arg(&session).args(["--format", "html", "-o"]).arg(&page);
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start clrscope")?;
        let mut peak = 0;
        let status = loop {
            // The kernel's own high-water mark: only what happens after the last reading is missed.
            peak = memory(child.id(), "VmHWM").unwrap_or(0).max(peak);
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > LIMIT {
                child.kill()?;
            }
            thread::sleep(Duration::from_millis(2));
        };
        ensure!(status.success(), "`{}` ended with {status}", tool::shown(&command));
        times.push(started.elapsed().as_secs_f64());
        peaks.push(peak as f64 / 1e6);
    }
    let size = page.metadata()?.len() as f64 / 1e6;
    ensure!(size > 0.1, "the page is only {size} MB");
    let (times, peaks) = (Distribution::of(times), Distribution::of(peaks));
    let (time, peak) = (times.median(), peaks.at(1.0));
    Ok(vec![
        Row::new(
            format!("{NAME}: time"),
            "·",
            time,
            format!("{time:.2} s, page {size:.1} MB"),
            Goal::new(3.0, 1.5, "s"),
        ),
        Row::new(
            format!("{NAME}: peak memory"),
            "·",
            peak,
            format!("{peak:.0} MB"),
            Goal::only(500.0, "MB"),
        ),
    ])
}
