//! Programs that recordings start: what they print, and how they end.
//!
//! A program ends with its recording: nothing that the server has started runs on without it.

use crate::{problem::Problem, store::SessionId};
use axum::http::StatusCode;
use recorder::{LaunchCommand, Progress, RecordError, RecordOptions, Recording};
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Bytes that are kept of what a program prints.
const KEPT: usize = 64 << 10;

/// How long a program may take to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// How long a recording may take to end when its time is up.
const LAST: Duration = Duration::from_secs(1);

/// A recording of a program that is started.
#[derive(Debug)]
pub(crate) struct LaunchPlan {
    pub program: Program,
    /// The name of its session; made of the program and the time if there is none.
    pub name: Option<SessionId>,
    pub options: RecordOptions,
}

/// A program that can be started.
#[derive(Debug)]
pub(crate) struct Program {
    /// It, and its arguments.
    pub words: Vec<String>,
    pub folder: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
}

impl Program {
    /// What it is called in lists: its assembly where `dotnet` runs one, else the program.
    pub fn name(&self) -> String {
        let stem = |word: &String| {
            Path::new(word).file_stem().map(|stem| stem.to_string_lossy().into_owned())
        };
        let host = self.words.first().and_then(stem).unwrap_or_default();
        let assembly = self.words.iter().skip(1).find(|word| word.ends_with(".dll"));
        assembly.filter(|_| host == "dotnet").and_then(stem).unwrap_or(host)
    }

    /// Starts and records it.
    pub fn start(&self, options: RecordOptions) -> Result<(Recording, Launched), Problem> {
        let (reader, writer) = io::pipe().map_err(|error| Problem::busy(error.to_string()))?;
        let output = Arc::new(Output::default());
        let kept = Arc::clone(&output);
        // It ends when no process has the other end any more: all that could print are gone.
        let thread = std::thread::Builder::new().name("output".to_owned());
        let reading = thread.spawn(move || kept.read(reader));
        reading.map_err(|error| Problem::busy(format!("no thread for the output: {error}")))?;
        let command = LaunchCommand {
            words: self.words.iter().map(Into::into).collect(),
            folder: self.folder.clone(),
            environment: self
                .environment
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            output: Some(writer),
        };
        let recording = recorder::launch(command, options).map_err(|error| match error {
            RecordError::Spawn { .. } => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                error.to_string(),
                "name a program that is on the PATH of the server, or its whole path",
            ),
            error => error.into(),
        })?;
        Ok((recording, Launched { command: self.words.join(" "), output }))
    }
}

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Its command line.
    pub command: String,
    pub output: Arc<Output>,
}

impl Launched {
    pub fn ending(&self) -> Ending {
        Ending { begun: None, asked: None }
    }
}

/// Ends a program.
pub(crate) struct Ending {
    /// When the recording has begun.
    begun: Option<Instant>,
    /// Since when it has been asked to end.
    asked: Option<Instant>,
}

impl Ending {
    /// Whether the recording has had its time, and a moment for its own end.
    pub fn is_over(&mut self, progress: &Progress, duration: Option<Duration>) -> bool {
        if self.begun.is_none() && !progress.elapsed.is_zero() {
            self.begun = Instant::now().checked_sub(progress.elapsed);
        }
        let since = self.begun.map(|begun| begun.elapsed());
        since.zip(duration).is_some_and(|(since, duration)| since >= duration + LAST)
    }

    /// Asks the program to end when its recording is over, and ends it if it does not.
    pub fn tend(&mut self, recording: &Recording, is_over: bool) {
        let Some(pid) = recording.command_pid().filter(|_| is_over || self.asked.is_some()) else {
            return;
        };
        match self.asked {
            None => {
                self.asked = Some(Instant::now());
                send(pid, false);
            }
            Some(since) if since.elapsed() > GRACE => send(pid, true),
            Some(_) => {}
        }
    }
}

/// Sends a signal to a program and all in its group.
fn send(pid: u32, kill: bool) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        // It may have ended a moment ago.
        if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
    #[cfg(not(unix))]
    let _ = (pid, kill);
}

/// The last of what a program has printed.
#[derive(Debug, Default)]
pub(crate) struct Output(Mutex<(VecDeque<u8>, u64)>);

impl Output {
    /// Takes what comes, until nothing can come any more.
    fn read(&self, mut reader: impl io::Read) {
        let mut buffer = [0; 8 << 10];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.add(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *kept;
        last.extend(bytes);
        let over = last.len().saturating_sub(KEPT);
        last.drain(..over);
        *left_out += over as u64;
    }

    /// What is kept, and the number of bytes before it.
    pub fn latest(&self) -> (String, u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *kept;
        (String::from_utf8_lossy(last.make_contiguous()).into_owned(), *left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn output_is_bounded() {
        let output = Output::default();
        output.read(&b"first\n"[..]);
        assert_eq!(output.latest(), ("first\n".to_owned(), 0));
        output.read(io::repeat(b'x').take(3 * KEPT as u64));
        output.add(b"\xff");
        let (text, left_out) = output.latest();
        assert_eq!(text.chars().count(), KEPT);
        assert_eq!(left_out, 6 + 2 * KEPT as u64 + 1);
        assert!(text.ends_with("x\u{fffd}"));
    }

    #[test]
    fn programs_have_the_names_of_their_assemblies() {
        let name = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            Program { words, folder: None, environment: Vec::new() }.name()
        };
        assert_eq!(name(&["/usr/bin/dotnet", "exec", "/app/Shop.dll", "x"]), "Shop");
        assert_eq!(name(&["/app/shop", "other.dll"]), "shop");
        assert_eq!(name(&["dotnet", "run"]), "dotnet");
    }
}
