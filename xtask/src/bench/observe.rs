//! What observes a target while it works: `clrscope record`, or EventPipe's own sample profiler.

use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use diagnostics::{EventPipeConfig, Provider, Stopper};
use serde_json::Value;
use session::{ObserverStatus, SessionReader, SessionRecord};
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From the start of an observer to the moment when its samples surely flow and what it met at
/// first is named.
const SETTLE: Duration = Duration::from_millis(500);

/// What ending a recording may take.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Something that observes the target while it lives.
pub trait Observer {
    /// Ends the observation and waits until nothing of it is left.
    ///
    /// # Errors
    /// When it failed while it was on: the windows then measured something else.
    fn end(self: Box<Self>) -> Result<()>;
}

/// No observer at all.
pub struct Nothing;

impl Observer for Nothing {
    fn end(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A running `clrscope record`.
pub struct Recording {
    child: Child,
    shown: String,
    folder: tempfile::TempDir,
}

impl Recording {
    /// Starts to record with these arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(pid: u32, arguments: &[&str]) -> Result<Recording> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(tool::clrscope());
        command.arg("record").arg(pid.to_string()).args(arguments).arg("--json");
        command.arg("-o").arg(folder.path().join("bench.clrscope"));
        let shown = tool::shown(&command);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Recording { child: child.with_context(|| format!("`{shown}`"))?, shown, folder })
    }

    /// The process that records.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until samples flow.
    ///
    /// # Errors
    /// When it ends at once.
    pub fn settle(mut self) -> Result<Recording> {
        thread::sleep(SETTLE);
        match self.child.try_wait()? {
            Some(_) => bail!("it ended at once: {:#}", self.failed()),
            None => Ok(self),
        }
    }

    /// Waits for its end and gives what it says.
    ///
    /// # Errors
    /// When it fails, or does not end within this time.
    pub fn wait(mut self, limit: Duration) -> Result<Recorded> {
        let until = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > until => bail!("`{}` does not end", self.shown),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        if !status.success() {
            return Err(self.failed());
        }
        let mut text = String::new();
        self.child.stdout.take().context("no pipe")?.read_to_string(&mut text)?;
        let summary: Value = serde_json::from_str(&text)
            .with_context(|| format!("`{}` wrote {text}", self.shown))?;
        let summary = summary["sessions"]
            .get(0)
            .with_context(|| format!("`{}` recorded nothing", self.shown))?
            .clone();
        let end = summary["end"].as_str().unwrap_or_default();
        ensure!(end == "stopped", "`{}` ended with \"{end}\"; {}", self.shown, summary["notes"]);
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir()?);
        Ok(Recorded { summary, folder })
    }

    /// Ends it and gives what it says.
    ///
    /// # Errors
    /// When it has ended by itself, or fails.
    pub fn stop(mut self) -> Result<Recorded> {
        if self.child.try_wait()?.is_some() {
            bail!("it ended in mid-window: {:#}", self.failed());
        }
        tool::interrupt(&self.child)?;
        self.wait(END_LIMIT)
    }

    /// What it wrote to its standard error.
    fn failed(&mut self) -> anyhow::Error {
        let mut text = String::new();
        if let Some(mut stream) = self.child.stderr.take() {
            // A stream that breaks off still gave what came before.
            let _ = stream.read_to_string(&mut text);
        }
        anyhow::anyhow!("`{}` failed: {}", self.shown, text.trim())
    }
}

impl Observer for Recording {
    fn end(self: Box<Self>) -> Result<()> {
        self.stop().map(drop)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // After its end there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A finished recording; its file goes with this value.
pub struct Recorded {
    /// What `--json` says of the one process.
    pub summary: Value,
    folder: tempfile::TempDir,
}

impl Recorded {
    /// Records for a time.
    ///
    /// # Errors
    /// When recording fails.
    pub fn make(pid: u32, arguments: &[&str], duration: Duration) -> Result<Recorded> {
        let length = format!("{}ms", duration.as_millis());
        let arguments: Vec<&str> =
            arguments.iter().copied().chain(["--duration", &length]).collect();
        Recording::start(pid, &arguments)?.wait(duration + END_LIMIT)
    }

    /// The session file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("bench.clrscope")
    }

    /// A number of the summary.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.summary[name].as_f64().with_context(|| format!("the summary has no number `{name}`"))
    }

    /// How many samples of a profiler were kept.
    pub fn samples(&self, profiler: &str) -> f64 {
        self.summary["samples"][profiler].as_f64().unwrap_or(0.0)
    }

    /// What was dropped, of all kinds.
    pub fn dropped(&self) -> f64 {
        let dropped = self.summary["dropped"].as_object();
        dropped
            .map_or(0.0, |dropped| dropped.values().filter_map(Value::as_u64).sum::<u64>() as f64)
    }

    /// What the observer said of itself, second by second.
    ///
    /// # Errors
    /// When the session file cannot be read.
    pub fn observer(&self) -> Result<Vec<ObserverStatus>> {
        let mut found = Vec::new();
        for record in SessionReader::new(BufReader::new(File::open(self.file())?))? {
            if let SessionRecord::Observer(status) = record? {
                found.push(status);
            }
        }
        Ok(found)
    }

    /// A counter of the observer at the end.
    ///
    /// # Errors
    /// When the session file cannot be read or has no such counter.
    pub fn counter(&self, name: &str) -> Result<f64> {
        let last = self.observer()?.pop().context("the session has no costs")?;
        let found = last.counters.iter().find(|(counter, _)| counter == name);
        Ok(found
            .with_context(|| {
                format!("the session has no counter \"{name}\", only {:?}", last.counters)
            })?
            .1 as f64)
    }
}

/// EventPipe's sample profiler at its default rate, with the events that a reader needs to name
/// what it sampled. What comes is read and dropped.
pub struct EventPipe {
    stopper: Stopper,
    reader: JoinHandle<std::io::Result<u64>>,
}

impl EventPipe {
    /// Starts it and waits until samples flow.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub fn start(pid: u32) -> Result<EventPipe> {
        /// Loading and compilation: without them the samples are numbers.
        const LOADER_AND_JIT: u64 = 0x18;
        EventPipe::start_with(
            pid,
            vec![
                Provider::new("Microsoft-DotNETCore-SampleProfiler", 0, 4),
                Provider::new(Provider::RUNTIME, LOADER_AND_JIT, 4),
            ],
        )
    }

    /// The same with other providers, of which one is the sample profiler.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub fn start_with(pid: u32, providers: Vec<Provider>) -> Result<EventPipe> {
        let config =
            EventPipeConfig { buffer_mib: 256, stacks: true, ..EventPipeConfig::new(providers) };
        let mut session = diagnostics::find_pid(pid)?.port()?.collect(&config)?;
        let stopper = session.stopper();
        let reader = thread::spawn(move || {
            let (mut bytes, mut buffer) = (0, vec![0; 256 << 10]);
            loop {
                match session.read(&mut buffer) {
                    Ok(0) => return Ok(bytes),
                    Ok(more) => bytes += more as u64,
                    Err(error)
                        if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                    }
                    Err(error) => return Err(error),
                }
            }
        });
        thread::sleep(SETTLE);
        Ok(EventPipe { stopper, reader })
    }
}

impl Observer for EventPipe {
    fn end(self: Box<Self>) -> Result<()> {
        self.stopper.stop(END_LIMIT)?;
        let bytes = self
            .reader
            .join()
            .map_err(|_| anyhow::anyhow!("the reader of EventPipe's stream panicked"))??;
        // A stream without samples holds little more than its head; a sample has some hundred
        // bytes.
        ensure!(bytes > 2_000, "EventPipe's sample profiler wrote only {bytes} bytes");
        Ok(())
    }
}

/// A size that Linux reports for a process, such as `VmRSS` or `VmHWM`, in bytes. `None` when the
/// process has ended.
pub fn memory(pid: u32, what: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let own = memory(std::process::id(), "VmRSS").unwrap();
        assert!((1 << 20..1 << 34).contains(&own), "{own}");
        assert_eq!(memory(std::process::id(), "VmNothing"), None);
    }
}
