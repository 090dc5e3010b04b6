//! Drives a target on a thread of its own: keeps it at work, hears how far it is, and lets it end.

use super::evidence;
use super::targets::{Target, Work};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use testkit::{Launch, Runtime, Sample, Stream, TargetProcess};

/// What a start may take, and an answer, on a machine that is busy with other cells.
const ANSWER: Duration = Duration::from_secs(25);

/// What ending may take.
const END: Duration = Duration::from_secs(20);

/// How the target ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How the process that was started ended: the target, or what it was started by.
    pub status: Option<ExitStatus>,
    /// What it computed in each unit of its work.
    pub unit: i64,
    /// Units of work.
    pub units: u64,
    /// What was wrong with its work or its answers.
    pub wrong: Option<String>,
    /// Where it hangs, if it does.
    pub hang: Option<String>,
    /// What it wrote to standard error.
    pub errors: Vec<String>,
}

/// How long what it wrote is waited for when it has ended: what it leaves behind may hold the same
/// pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A target at work.
pub struct Driver {
    /// The process that was started: the target, or what starts it.
    pub pid: u32,
    /// Whether it has said that it works.
    ready: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    units: Arc<AtomicU64>,
    thread: JoinHandle<Ended>,
}

/// The command of a target. A sample ends by itself after `seconds`, so that nothing stays behind.
pub fn launch(target: &Target, runtime: Runtime, seconds: u64) -> Launch {
    let seconds = seconds.to_string();
    let launch = match target.work {
        Work::Sample(mode) => {
            Sample::named("harmtarget").launch(runtime, &["--mode", mode, "--seconds", &seconds])
        }
        Work::App => TargetProcess::azmcp_launch(runtime),
    };
    target.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
}

impl Driver {
    /// Starts it.
    ///
    /// # Errors
    /// When the command cannot be run.
    pub fn start(work: Work, launch: Launch) -> Result<Driver> {
        let mut process = launch.try_start()?;
        let pid = process.pid();
        let (ready, stop, units) = (
            Arc::<AtomicBool>::default(),
            Arc::<AtomicBool>::default(),
            Arc::<AtomicU64>::default(),
        );
        let theirs = (Arc::clone(&ready), Arc::clone(&stop), Arc::clone(&units));
        let thread = thread::Builder::new().name("driver".into()).spawn(move || {
            let (ready, stop, units) = theirs;
            let mut ended = Ended {
                status: None,
                unit: 0,
                units: 0,
                wrong: None,
                hang: None,
                errors: Vec::new(),
            };
            let worked = match work {
                Work::Sample(_) => drive_sample(&mut process, &ready, &stop, &units, &mut ended),
                Work::App => drive_app(&mut process, &ready, &stop, &units, &mut ended),
            };
            ended.wrong = worked.err().map(|error| format!("{error:#}"));
            let silent = ended.wrong.is_some() && process.is_running();
            ended.hang = silent.then(|| evidence::of(pid));
            process.close_stdin();
            ended.status = process.wait(END).ok();
            if ended.status.is_none() && !silent {
                ended.hang = Some(evidence::of(pid));
            }
            // On a busy machine its last words are read a moment after its end.
            let _ = process.wait_for_line(LAST_WORDS, |_| false);
            ended.errors = process.lines(Stream::Err);
            ended
        })?;
        Ok(Driver { pid, ready, stop, units, thread })
    }

    /// Whether it works.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// How many units of work are known to be done.
    pub fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Asks it to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether it has ended, or does not answer.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end, which has a limit.
    ///
    /// # Errors
    /// When the driver panicked.
    pub fn wait(self) -> Result<Ended> {
        self.stop();
        self.thread.join().ok().context("the driver panicked")
    }
}

fn drive_sample(
    process: &mut TargetProcess,
    ready: &AtomicBool,
    stop: &AtomicBool,
    units: &AtomicU64,
    ended: &mut Ended,
) -> Result<()> {
    process.wait_for_line(ANSWER, |line| line == "ready")?;
    ready.store(true, Ordering::Release);
    while !stop.load(Ordering::Acquire) {
        process.send_line("units")?;
        let line = process.wait_for_line(ANSWER, |line| line.starts_with("units "))?;
        units.store(line["units ".len()..].parse()?, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(50));
        // What launched the target may end before it does; then it is to be gone, not a zombie.
        let _ = process.is_running();
    }
    process.send_line("stop")?;
    let line = process.wait_for_line(ANSWER, |line| line.starts_with('{'))?;
    let truth: Value = serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))?;
    ended.unit = truth["unit"].as_i64().context("no unit")?;
    ended.units = truth["units"].as_u64().context("no units")?;
    if truth["bad"] != 0 || truth["ended"] != true {
        bail!("its work went wrong: {line}");
    }
    let odd = process
        .lines(Stream::Out)
        .into_iter()
        .find(|line| line != "ready" && !line.starts_with("units ") && !line.starts_with('{'));
    ensure!(odd.is_none(), "it wrote {odd:?}");
    Ok(())
}

fn drive_app(
    process: &mut TargetProcess,
    ready: &AtomicBool,
    stop: &AtomicBool,
    units: &AtomicU64,
    ended: &mut Ended,
) -> Result<()> {
    while !stop.load(Ordering::Acquire) || ended.units == 0 {
        let bytes = i64::try_from(process.feed(1)?)?;
        ensure!(
            ended.unit == 0 || ended.unit == bytes,
            "an answer has {bytes} bytes, the one before {}",
            ended.unit
        );
        ended.unit = bytes;
        ended.units += 1;
        units.store(ended.units, Ordering::Relaxed);
        ready.store(true, Ordering::Release);
        let _ = process.is_running();
    }
    Ok(())
}
