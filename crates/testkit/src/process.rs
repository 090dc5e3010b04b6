//! Programs started for a test: their output line by line, every wait limited, and dead when the
//! test is over.

use anyhow::{Context, Result, bail};
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a program may take to get ready on a machine that is busy with other tests.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A program that is about to be started.
#[derive(Debug)]
pub struct Launch {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    under: Vec<OsString>,
    folder: Option<PathBuf>,
    private_tmp: bool,
}

impl Launch {
    /// Any program. Settings of a profiler or a startup hook in this process's environment are not
    /// passed on.
    pub fn new(program: impl Into<OsString>) -> Launch {
        let mut launch = Launch {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            under: Vec::new(),
            folder: None,
            private_tmp: false,
        };
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["CORECLR_", "COMPlus_", "DOTNET_"].iter().any(|prefix| text.starts_with(prefix)) {
                launch.environment.push((name, None));
            }
        }
        launch
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("DOTNET_CLI_TELEMETRY_OPTOUT", "1")
            .env("DOTNET_NOLOGO", "1")
            .env("DOTNET_BUNDLE_EXTRACT_BASE_DIR", crate::Cache::of_user().extracted())
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Launch {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Launch {
        self.arguments.extend(arguments.into_iter().map(A::into));
        self
    }

    /// Sets a variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Launch {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Removes a variable of the program's environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Launch {
        self.environment.push((name.into(), None));
        self
    }

    /// Starts the program in this folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Launch {
        self.folder = Some(folder.into());
        self
    }

    /// Gives the program a `TMPDIR` of its own, so that the test sees exactly what is left in it.
    /// The runtime puts its diagnostic socket there.
    #[must_use]
    pub fn private_tmp(mut self) -> Launch {
        self.private_tmp = true;
        self
    }

    /// Starts the program through another one: `under(["clrscope", "launch", "--"])` runs `clrscope
    /// launch -- program arguments…`. The process id is then that of the other one. What is given
    /// last comes first.
    #[must_use]
    pub fn under<A: Into<OsString>>(mut self, prefix: impl IntoIterator<Item = A>) -> Launch {
        self.under.splice(..0, prefix.into_iter().map(A::into));
        self
    }

    /// The command as it would be started, for a test that wants to start it by itself.
    pub fn command(&self) -> Command {
        let mut words = self.under.iter().chain([&self.program]).chain(&self.arguments);
        let mut command = Command::new(words.next().unwrap_or(&self.program));
        command.args(words);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Starts the program.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(self) -> TargetProcess {
        match self.try_start() {
            Ok(process) => process,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn try_start(self) -> Result<TargetProcess> {
        let tmp = if self.private_tmp {
            Some(tempfile::Builder::new().prefix("cs-").tempdir()?)
        } else {
            None
        };
        let mut command = self.command();
        if let Some(tmp) = &tmp {
            command.env("TMPDIR", tmp.path());
        }
        TargetProcess::spawn(command, tmp)
    }
}

/// One of a program's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

#[derive(Default)]
struct Written {
    out: Vec<String>,
    err: Vec<String>,
    open: u8,
    /// Bytes of the lines that are kept, and how many lines at the beginning of each stream are
    /// empty because theirs are not.
    bytes: usize,
    emptied: [usize; 2],
}

/// Bytes of each program's lines that are kept. Some programs run for hours and answer with long
/// lines.
const MOST_BYTES: usize = 64 << 20;

impl Written {
    fn lines(&mut self, stream: Stream) -> &mut Vec<String> {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    /// Adds a line. Where there are too many bytes, the oldest lines of the stream become empty:
    /// they keep their places.
    fn push(&mut self, stream: Stream, line: String) {
        self.bytes += line.len();
        self.lines(stream).push(line);
        let mut next = self.emptied[stream as usize];
        while self.bytes > MOST_BYTES && next + 1 < self.lines(stream).len() {
            self.bytes -= std::mem::take(&mut self.lines(stream)[next]).len();
            next += 1;
        }
        self.emptied[stream as usize] = next;
    }
}

type Shared = Arc<(Mutex<Written>, Condvar)>;

/// A running program. It is killed when this value goes.
pub struct TargetProcess {
    child: Child,
    shown: String,
    stdin: Option<ChildStdin>,
    written: Shared,
    cursor: usize,
    next_request: u64,
    tmp: Option<TempDir>,
}

impl TargetProcess {
    fn spawn(mut command: Command, tmp: Option<TempDir>) -> Result<TargetProcess> {
        let mut shown = command.get_program().to_string_lossy().into_owned();
        for argument in command.get_args() {
            let _ = write!(shown, " {}", argument.to_string_lossy());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{shown}`"))?;
        let written: Shared =
            Arc::new((Mutex::new(Written { open: 2, ..Written::default() }), Condvar::new()));
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            collect(stdout, Stream::Out, &written);
        }
        if let Some(stderr) = child.stderr.take() {
            collect(stderr, Stream::Err, &written);
        }
        Ok(TargetProcess { child, shown, stdin, written, cursor: 0, next_request: 1, tmp })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The private `TMPDIR`, where one was asked for.
    pub fn tmp(&self) -> Option<&Path> {
        self.tmp.as_ref().map(TempDir::path)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything written so far to one stream, by lines. Of more than 64 MB, the first are empty.
    pub fn lines(&self, stream: Stream) -> Vec<String> {
        self.written().lines(stream).clone()
    }

    /// Waits for the next line of standard output that `wanted` accepts. Lines before it are passed
    /// over; the next call starts after it.
    ///
    /// # Errors
    /// When the time is over or the program closed its output first; the error holds what the
    /// program wrote.
    pub fn wait_for_line(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&str) -> bool,
    ) -> Result<String> {
        let until = Instant::now() + limit;
        let written = Arc::clone(&self.written);
        let mut guard = written.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while let Some(line) = guard.out.get(self.cursor) {
                self.cursor += 1;
                if wanted(line) {
                    return Ok(line.clone());
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            let why = if guard.open == 0 {
                "ended"
            } else if left.is_zero() {
                "was still silent"
            } else {
                guard =
                    written.1.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            bail!(
                "`{}` {why} before the awaited line ({} s)\n{}",
                self.shown,
                limit.as_secs_f64(),
                transcript(&guard)
            );
        }
    }

    /// Waits until the program says `ready`: it is warmed up then.
    ///
    /// # Panics
    /// When it does not within a minute.
    #[track_caller]
    pub fn wait_for_ready(&mut self) {
        if let Err(error) = self.wait_for_line(READY_LIMIT, |line| line == "ready") {
            panic!("{error:#}");
        }
    }

    /// Waits for the ground truth that a sample prints at its end: one line of JSON.
    ///
    /// # Panics
    /// When it does not come in time.
    #[track_caller]
    pub fn truth(&mut self, limit: Duration) -> Value {
        let line = self.wait_for_line(limit, |line| line.starts_with('{'));
        match line.and_then(|line| {
            serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
        }) {
            Ok(truth) => truth,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Writes one line to the program's standard input.
    ///
    /// # Errors
    /// When the input is closed or the program has ended.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the standard input is closed")?;
        stdin.write_all(format!("{line}\n").as_bytes())?;
        stdin.flush()?;
        Ok(())
    }

    /// Closes the program's standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends one JSON-RPC request and gives its result, and the time from when the request was
    /// there until the whole answer was.
    ///
    /// # Errors
    /// As [`TargetProcess::wait_for_line`], and when the answer is an error.
    pub(crate) fn request(
        &mut self,
        method: &str,
        parameters: &Value,
        limit: Duration,
    ) -> Result<(Value, Duration)> {
        let id = self.next_request;
        self.next_request += 1;
        let message = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        let message = message.to_string();
        let (sent, mut taken) = (Instant::now(), Duration::ZERO);
        self.send_line(&message)?;
        let mut answer = Value::Null;
        self.wait_for_line(limit, |line| {
            taken = sent.elapsed();
            answer = serde_json::from_str(line).unwrap_or(Value::Null);
            answer["id"].as_u64() == Some(id)
        })?;
        match answer.get("error") {
            Some(error) => bail!("{method} was answered by {error}"),
            None => Ok((answer["result"].take(), taken)),
        }
    }

    /// Whether no request has been sent yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.next_request == 1
    }

    /// Whether the process is alive.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// When it does not end in time; it continues then.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > until {
                bail!(
                    "`{}` did not end within {} s\n{}",
                    self.shown,
                    limit.as_secs_f64(),
                    transcript(&self.written())
                );
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    #[cfg(unix)]
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // A pid whose child has been waited for could belong to somebody else by now.
        if !self.is_running() {
            bail!("`{}` has ended", self.shown);
        }
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("no such pid")?;
        kill_process(pid, signal)?;
        Ok(())
    }

    /// Stops the process (`SIGSTOP`).
    ///
    /// # Errors
    /// When the process is gone.
    #[cfg(unix)]
    pub fn freeze(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes a stopped process (`SIGCONT`).
    ///
    /// # Errors
    /// When the process is gone.
    #[cfg(unix)]
    pub fn thaw(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the process with `SIGKILL` and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Everything that the program wrote, for messages of failed tests.
    pub fn transcript(&self) -> String {
        transcript(&self.written())
    }
}

impl Drop for TargetProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl std::fmt::Debug for TargetProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetProcess")
            .field("pid", &self.pid())
            .field("command", &self.shown)
            .finish_non_exhaustive()
    }
}

/// Reads a stream to its end on a thread of its own, so that the program never waits for a full
/// pipe.
fn collect(stream: impl Read + Send + 'static, which: Stream, written: &Shared) {
    let written = Arc::clone(written);
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned();
            written.0.lock().unwrap_or_else(PoisonError::into_inner).push(which, line);
            written.1.notify_all();
            bytes.clear();
        }
        written.0.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
        written.1.notify_all();
    });
}

fn transcript(written: &Written) -> String {
    let mut text = String::new();
    for (name, lines) in [("standard output", &written.out), ("standard error", &written.err)] {
        let _ = writeln!(text, "  {name}, {} lines:", lines.len());
        for line in &lines[lines.len().saturating_sub(30)..] {
            let short: String = line.chars().take(300).collect();
            let _ = writeln!(text, "    {short}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> TargetProcess {
        Launch::new("sh").args(["-c", script]).start()
    }

    #[test]
    fn lines_are_found_in_order_and_limits_hold() {
        let mut process = shell("echo one; echo two; echo bad >&2; sleep 60");
        let limit = Duration::from_secs(10);
        assert_eq!(process.wait_for_line(limit, |line| line.starts_with('t')).unwrap(), "two");
        let started = Instant::now();
        let error =
            process.wait_for_line(Duration::from_millis(200), |line| line == "one").unwrap_err();
        assert!(started.elapsed() < limit);
        assert!(
            error.to_string().contains("still silent") && error.to_string().contains("bad"),
            "{error}"
        );
    }

    #[test]
    fn an_ended_program_is_not_waited_for() {
        let mut process = shell("echo '{\"a\": 1}'");
        assert_eq!(process.truth(Duration::from_secs(10))["a"], 1);
        let error = process.wait_for_line(Duration::from_secs(60), |_| true).unwrap_err();
        assert!(error.to_string().contains("ended"), "{error}");
        assert!(process.wait(Duration::from_secs(10)).unwrap().success());
    }

    #[test]
    fn a_dropped_process_is_dead_and_its_tmp_is_gone() {
        let process =
            Launch::new("sh").args(["-c", "echo $TMPDIR; exec sleep 60"]).private_tmp().start();
        let (pid, tmp) = (process.pid(), process.tmp().unwrap().to_path_buf());
        assert!(tmp.is_dir() && Path::new(&format!("/proc/{pid}")).exists());
        drop(process);
        assert!(!tmp.exists() && !Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_prefix_goes_before_the_program() {
        let command = Launch::new("program")
            .arg("x")
            .env("A", "b")
            .under(["clrscope", "launch", "--"])
            .command();
        assert_eq!(command.get_program(), "clrscope");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["launch", "--", "program", "x"]);
        let variable =
            command.get_envs().find(|(name, _)| *name == "A").and_then(|(_, value)| value);
        assert_eq!(variable.unwrap(), "b");
    }

    #[test]
    fn input_reaches_the_program() {
        let mut process = shell("read line; echo got $line");
        process.send_line("it").unwrap();
        assert_eq!(process.wait_for_line(Duration::from_secs(10), |_| true).unwrap(), "got it");
    }
}
