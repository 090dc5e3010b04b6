//! Targets that work while something is measured.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testkit::{Launch, Runtime, Sample, TargetProcess};

/// Longer than any benchmark takes, for samples that end by themselves.
pub const FOR_EVER: &str = "86400";

/// A small budget of the youngest generation, in hexadecimal digits: memory of the target then
/// stays level.
const YOUNG: &str = "400000";

/// A target that works.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Its process id.
    pub pid: u32,
    /// Its own folder for temporary files.
    pub tmp: &'a Path,
}

/// Starts a sample with these arguments, or the application where no sample runs, makes it work
/// without end, and runs `body` meanwhile.
///
/// # Errors
/// When the body fails, or when the target did not live to its end.
///
/// # Panics
/// When the target cannot be started.
pub fn working<T>(
    runtime: Runtime,
    sample: &str,
    arguments: &[&str],
    body: impl FnOnce(Target<'_>) -> Result<T>,
) -> Result<T> {
    let steady = |launch: Launch| launch.private_tmp().env("COMPlus_GCgen0size", YOUNG).start();
    if runtime.runs_samples() {
        let mut target = steady(Sample::named(sample).launch(runtime, arguments));
        target.wait_for_ready();
        let tmp = target.tmp().context("no folder")?.to_path_buf();
        let found = body(Target { pid: target.pid(), tmp: &tmp });
        alive(&mut target)?;
        return found;
    }
    let mut target = steady(TargetProcess::azmcp_launch(runtime));
    target.feed(3)?;
    let (pid, tmp) = (target.pid(), target.tmp().context("no folder")?.to_path_buf());
    let stop = AtomicBool::new(false);
    let (found, fed) = thread::scope(|scope| {
        let feeder = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                target.feed(1)?;
            }
            Ok(())
        });
        let found = body(Target { pid, tmp: &tmp });
        stop.store(true, Ordering::Relaxed);
        (found, feeder.join())
    });
    fed.map_err(|_| anyhow::anyhow!("feeding the application panicked"))??;
    alive(&mut target)?;
    found
}

fn alive(target: &mut TargetProcess) -> Result<()> {
    ensure!(target.is_running(), "the target died\n{}", target.transcript());
    Ok(())
}
