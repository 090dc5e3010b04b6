//! The event log: which methods got new bodies and which did not, as lines of JSON that `clrscope
//! validate` compares. docs/formats.md describes every field.

use crate::log::{create_new, file_size_limit};
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Most bytes of a body that is logged.
pub const MOST_BYTES: usize = 64 << 10;
/// Most bytes of a body's text.
pub const MOST_TEXT: usize = 256 << 10;
/// Most bytes of a log.
const MOST: u64 = 64 << 20;
/// How every event log begins.
const START: &str = "{\"format\":\"clrscope-events\"";

/// What the first line says.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Path of the program.
    pub process: &'a str,
    /// Process id.
    pub pid: u32,
    /// Version of the runtime.
    pub runtime: &'a str,
    /// Shape of the managed agent.
    pub agent: &'a str,
    /// How far the profiler may differ from the agent's own.
    pub mode: &'a str,
}

/// What happened to a method.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Simple name of its assembly.
    pub module: &'a str,
    /// Its full name with its parameters.
    pub name: &'a str,
    /// What it is instrumented as: `method`, `API method`, `helper method`.
    pub rule: &'a str,
    /// What happened.
    pub what: What<'a>,
}

/// What may happen to a method.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// It has a new body.
    Rewrite {
        /// The id by which the new body names the method.
        function: Option<u64>,
        /// The original body.
        before: Body<'a>,
        /// The new one.
        after: Body<'a>,
    },
    /// It keeps its body, and why.
    Refusal(&'a str),
    /// It has its original body again.
    Revert,
    /// The runtime did not take its new body, and why.
    Failed(&'a str),
}

/// A body.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// Header, code and clauses.
    pub bytes: &'a [u8],
    /// In the syntax of ILAsm; `None` if that is longer than [`MOST_TEXT`].
    pub text: Option<&'a str>,
}

/// An event as a line of the log, but for its time. It is made before the log is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    kind: &'static str,
    /// What follows the time, with the end of the line.
    rest: String,
}

/// Writes events to a file, each at once and as a whole line.
///
/// The file is locked (flock(2)), so that no other process replaces it: child processes inherit the
/// variable that names it.
#[derive(Debug)]
pub struct EventLog {
    /// `None` once the program has closed it. It stays open, and locked, when the log has ended.
    file: Option<File>,
    has_ended: bool,
    path: PathBuf,
    pid: u32,
    identity: Option<Identity>,
    start: Instant,
    /// Bytes that are written, and that may still be.
    written: u64,
    rest: u64,
}

/// Device and inode of a file.
type Identity = (u64, u64);

impl EventLine {
    /// The whole line, with the end of it: `time_ns` is the time since the start of the log in
    /// nanoseconds.
    #[must_use]
    pub fn at(&self, time_ns: u64) -> String {
        let Self { kind, rest } = self;
        format!("{{\"event\":\"{kind}\",\"time_ns\":{time_ns}{rest}")
    }
}

impl EventLog {
    /// Makes the file, in which `{pid}` stands for the process id. An earlier event log is
    /// replaced, unless another process writes it.
    ///
    /// # Errors
    /// There is something else of that name, another process writes the log, or the file cannot be
    /// made.
    pub fn create(path: &str, head: &Head<'_>) -> io::Result<Self> {
        let path = PathBuf::from(path.replace("{pid}", &head.pid.to_string()));
        // Stays locked until the new one is: of two processes that begin at the same time one gets
        // the name.
        let earlier = earlier(&path)?;
        let file = create_new(&path)?;
        lock(&file)?;
        drop(earlier);
        let identity = identity(&file.metadata()?);
        let rest = file_size_limit().min(MOST);
        let mut log = Self {
            file: Some(file),
            has_ended: false,
            path,
            pid: head.pid,
            identity,
            start: Instant::now(),
            written: 0,
            rest,
        };
        log.append(&head.line(SystemTime::now()))?;
        Ok(log)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the log has ended, because it is as long as it may be or could not be written.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Writes an event.
    ///
    /// # Errors
    /// It cannot be written, or the log is as long as it may be. The log ends before it, and this
    /// is reported once.
    pub fn write(&mut self, line: &EventLine) -> io::Result<()> {
        // A process that was forked shares the file, and no .NET program continues in one.
        if self.has_ended() || std::process::id() != self.pid {
            return Ok(());
        }
        let time = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.append(&line.at(time))
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        let result = self.try_append(line);
        self.has_ended |= result.is_err();
        result
    }

    fn try_append(&mut self, line: &str) -> io::Result<()> {
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "it is as long as it may be");
        let rest = self.rest.checked_sub(line.len() as u64).ok_or_else(too_long)?;
        self.forget_other_file();
        let closed = || io::Error::new(io::ErrorKind::NotFound, "the program has closed it");
        let file = self.file.as_mut().ok_or_else(closed)?;
        if let Err(error) = file.write_all(line.as_bytes()) {
            // A line without an end would make the log unreadable.
            let _kept = file.set_len(self.written);
            return Err(error);
        }
        self.rest = rest;
        self.written += line.len() as u64;
        Ok(())
    }

    /// A program may close all descriptors, and open a file of its own under the number of this
    /// one.
    fn forget_other_file(&mut self) {
        let is_ours = |file: &mut File| {
            file.metadata().is_ok_and(|metadata| identity(&metadata) == self.identity)
        };
        if let Some(other) = self.file.take_if(|file| !is_ours(file)) {
            std::mem::forget(other);
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.forget_other_file();
    }
}

/// The earlier log at a path, locked, if there is one. The path may have been mistyped, so nothing
/// else is replaced.
fn earlier(path: &Path) -> io::Result<Option<File>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let other =
        || io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no event log");
    if !found.is_file() {
        return Err(other());
    }
    let mut options = File::options();
    options.read(true).write(true);
    // A pipe that takes the place of the file meanwhile must not be waited for.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // `O_NONBLOCK` (fcntl.h of Linux, but for a few processors that .NET does not run on).
        options.custom_flags(0o4000);
    }
    let file = options.open(path)?;
    lock(&file)?;
    let now = fs::symlink_metadata(path)?;
    if !now.is_file() || identity(&file.metadata()?) != identity(&now) {
        return Err(in_use());
    }
    let mut start = Vec::new();
    (&file).take(START.len() as u64).read_to_end(&mut start)?;
    // An empty file may be one that was made to have a name.
    if start.is_empty() || start == START.as_bytes() { Ok(Some(file)) } else { Err(other()) }
}

fn in_use() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "another process writes it; have {pid} in the path",
    )
}

/// Locks a file for this process. Some file systems have no locks; there a later process replaces
/// the log.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(in_use()),
        Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => Err(error),
        _ => Ok(()),
    }
}

/// Which file this is; `None` where that is not known.
fn identity(metadata: &Metadata) -> Option<Identity> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some((metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

impl Head<'_> {
    /// The first line of a log that starts at a time, with the end of it.
    #[must_use]
    pub fn line(&self, start: SystemTime) -> String {
        let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut line = Line(START.to_owned());
        line.raw("version", "1");
        line.text("process", self.process);
        line.raw("pid", &self.pid.to_string());
        line.text("runtime", self.runtime);
        line.text("tool_version", env!("CARGO_PKG_VERSION"));
        line.raw("start_unix_ms", &start.to_string());
        line.raw("profilers", "[\"newrelic\"]");
        line.text("agent", self.agent);
        line.text("mode", self.mode);
        line.end()
    }
}

impl Event<'_> {
    /// The event as a line.
    #[must_use]
    pub fn line(&self) -> EventLine {
        let Event { module, name, rule, what } = *self;
        let kind = match what {
            What::Rewrite { .. } => "rewrite",
            What::Refusal(_) => "refusal",
            What::Revert => "revert",
            What::Failed(_) => "rejit",
        };
        let mut line = Line(String::new());
        line.text("module", module);
        line.text("name", name);
        if !matches!(what, What::Failed(_)) {
            line.text("rule", rule);
        }
        match what {
            What::Rewrite { function, before, after } => line.bodies(function, before, after),
            What::Refusal(reason) => line.text("reason", reason),
            What::Revert => {}
            What::Failed(error) => line.text("failed", error),
        }
        EventLine { kind, rest: line.end() }
    }
}

/// A JSON object that is being written, without its last brace.
struct Line(String);

impl Line {
    /// A field whose value is written as it is.
    fn raw(&mut self, name: &str, value: &str) {
        self.0.push(',');
        quote(&mut self.0, name);
        self.0.push(':');
        self.0.push_str(value);
    }

    fn text(&mut self, name: &str, value: &str) {
        self.raw(name, "");
        quote(&mut self.0, value);
    }

    fn bodies(&mut self, function: Option<u64>, before: Body<'_>, after: Body<'_>) {
        if let Some(function) = function {
            self.raw("function", &function.to_string());
        }
        match (before.text, after.text) {
            (Some(before_text), Some(after_text))
                if before.bytes.len().max(after.bytes.len()) <= MOST_BYTES =>
            {
                self.body("before", before.bytes, before_text);
                self.body("after", after.bytes, after_text);
            }
            _ => {
                let (bytes, text) = (MOST_BYTES >> 10, MOST_TEXT >> 10);
                let why = format!("a body is larger than {bytes} KiB, or its text than {text} KiB");
                self.text("left_out", &why);
            }
        }
    }

    fn body(&mut self, name: &str, bytes: &[u8], text: &str) {
        self.raw(name, "{\"bytes\":\"");
        for byte in bytes {
            let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
            self.0.extend([digit(byte >> 4), digit(byte & 0xf)]);
        }
        self.0.push_str("\",\"il\":[");
        for (index, line) in text.lines().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            quote(&mut self.0, line);
        }
        self.0.push_str("]}");
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

/// Appends a JSON string.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PROCESS: &str = "/a \"b\"";

    fn create(path: &Path) -> io::Result<EventLog> {
        let pid = std::process::id();
        let head =
            Head { process: PROCESS, pid, runtime: "9.0.5.0", agent: "10.54", mode: "strict" };
        EventLog::create(path.to_str().unwrap(), &head)
    }

    fn line(what: What<'_>) -> EventLine {
        Event { module: "Shop", name: "Shop.Orders.Total(System.Int32)", rule: "method", what }
            .line()
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_json() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = create(&folder.path().join("{pid}.jsonl")).unwrap();
        let pid = std::process::id();
        assert_eq!(log.path(), folder.path().join(format!("{pid}.jsonl")));
        let code = "IL_0000:  ldstr      \"a\\\\b\u{1}\"\nIL_0005:  ret\n";
        let before = Body { bytes: &[0x06, 0x2a], text: Some("IL_0000:  ret\n") };
        let after = Body { bytes: &[0x0a, 0xff], text: Some(code) };
        log.write(&line(What::Rewrite { function: Some(u64::MAX), before, after })).unwrap();
        log.write(&line(What::Rewrite {
            function: None,
            before,
            after: Body { text: None, ..after },
        }))
        .unwrap();
        log.write(&line(What::Refusal("Skipping SpecialName method"))).unwrap();
        log.write(&line(What::Revert)).unwrap();
        log.write(&line(What::Failed("0x80131000"))).unwrap();
        let found = lines(log.path());
        assert_eq!(
            (&found[0]["format"], &found[0]["version"]),
            (&json!("clrscope-events"), &json!(1))
        );
        assert_eq!((&found[0]["process"], &found[0]["pid"]), (&json!(PROCESS), &json!(pid)));
        assert_eq!(
            found[1]["after"],
            json!({"bytes": "0aff", "il": code.lines().collect::<Vec<_>>()})
        );
        assert_eq!(
            (&found[1]["before"]["bytes"], &found[1]["function"]),
            (&json!("062a"), &json!(u64::MAX))
        );
        assert!(found[2]["left_out"].is_string() && found[2]["after"].is_null());
        let kinds: Vec<_> = found[1..].iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["rewrite", "rewrite", "refusal", "revert", "rejit"]);
        assert!(found[1..].iter().all(|line| line["name"] == "Shop.Orders.Total(System.Int32)"));
        assert_eq!(
            (&found[3]["reason"], &found[5]["failed"]),
            (&json!("Skipping SpecialName method"), &json!("0x80131000"))
        );
    }

    #[test]
    fn it_ends_with_a_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = create(&path).unwrap();
        log.rest = 300;
        log.write(&line(What::Revert)).unwrap();
        let mut failed = 0;
        for _ in 0..10 {
            failed += usize::from(log.write(&line(What::Revert)).is_err());
        }
        assert_eq!((failed, log.has_ended()), (1, true));
        assert!((2..5).contains(&lines(&path).len()));
        // No other process gets the name while the process runs.
        assert!(create(&path).is_err());
        drop(log);
        // A disk that is full.
        #[cfg(target_os = "linux")]
        {
            let mut log = create(&path).unwrap();
            let full = File::options().write(true).open("/dev/full").unwrap();
            log.identity = identity(&full.metadata().unwrap());
            log.file = Some(full);
            let error = log.write(&line(What::Revert)).unwrap_err();
            assert_eq!((error.kind(), log.has_ended()), (io::ErrorKind::StorageFull, true));
            assert!(log.write(&line(What::Revert)).is_ok());
        }
    }

    #[test]
    fn only_an_earlier_log_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for earlier in ["", "{\"format\":\"clrscope-events\",\"version\":1}\n{}\n"] {
            fs::write(&path, earlier).unwrap();
            create(&path).unwrap();
            assert_eq!(lines(&path).len(), 1);
        }
        fs::write(&path, "kept").unwrap();
        assert_eq!(create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        #[cfg(unix)]
        {
            let [link, other, pipe] =
                ["link", "other", "pipe"].map(|name| folder.path().join(name));
            drop(create(&other).unwrap());
            std::os::unix::fs::symlink(&other, &link).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let missing = folder.path().join("missing/log");
            for path in [
                link.as_path(),
                &pipe,
                folder.path(),
                &missing,
                Path::new("/dev/null"),
                Path::new(""),
            ] {
                assert!(create(path).is_err(), "{}", path.display());
            }
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && lines(&other).len() == 1);
        }
    }

    /// Child processes inherit the variable that names the file.
    #[test]
    fn two_processes_do_not_write_to_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = create(&path).unwrap();
        let error = create(&path).unwrap_err().to_string();
        assert!(error.contains("another process") && error.contains("{pid}"), "{error}");
        log.write(&line(What::Revert)).unwrap();
        assert_eq!(lines(&path).len(), 2);
        // In a forked process.
        log.pid += 1;
        log.write(&line(What::Revert)).unwrap();
        assert_eq!(lines(&path).len(), 2);
        drop(log);
        drop(create(&path).unwrap());
        assert_eq!(lines(&path).len(), 1);
    }

    /// A program that closes all descriptors, and then opens a file of its own.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_of_the_program_is_left_alone() {
        use std::os::fd::AsRawFd as _;
        let folder = tempfile::tempdir().unwrap();
        let (path, own) = (folder.path().join("log"), folder.path().join("own"));
        fs::write(&own, "kept").unwrap();
        let mut log = create(&path).unwrap();
        let file = File::options().write(true).open(&own).unwrap();
        let number = file.as_raw_fd();
        log.file = Some(file);
        assert!(log.write(&line(What::Revert)).unwrap_err().to_string().contains("closed"));
        assert!(log.has_ended() && log.write(&line(What::Revert)).is_ok());
        drop(log);
        let mut log = create(&path).unwrap();
        log.file = Some(File::options().write(true).open(&own).unwrap());
        drop(log);
        assert_eq!(fs::read_to_string(&own).unwrap(), "kept");
        assert_eq!(fs::read_link(format!("/proc/self/fd/{number}")).unwrap(), own);
    }
}
