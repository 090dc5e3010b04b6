//! The event log: which methods got new bodies and which did not, as lines of JSON that `clrscope validate` compares.
//! docs/formats.md describes every field.

use crate::log::{create_new, file_size_limit};
use std::fs::{self, File};
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

/// Writes events to a file, each at once and as a whole line.
#[derive(Debug)]
pub struct EventLog {
    file: File,
    start: Instant,
    /// Bytes that are written, and that may still be.
    written: u64,
    rest: u64,
}

impl EventLog {
    /// Makes the file, in which `{pid}` stands for the process id. An earlier event log is replaced.
    ///
    /// # Errors
    /// There is something else of that name, or the file cannot be made.
    pub fn create(path: &str, head: &Head<'_>) -> io::Result<Self> {
        let path = PathBuf::from(path.replace("{pid}", &head.pid.to_string()));
        if !is_free(&path)? {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no event log"));
        }
        let file = create_new(&path)?;
        let mut log = Self { file, start: Instant::now(), written: 0, rest: file_size_limit().min(MOST) };
        log.line(&head_line(head))?;
        Ok(log)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// It cannot be written, or the log is as long as it may be. The log ends before it, and this is reported once.
    pub fn write(&mut self, event: &Event<'_>) -> io::Result<()> {
        if self.rest == 0 {
            return Ok(());
        }
        let time = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let line = event_line(event, time);
        self.line(&line)
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        let Some(rest) = self.rest.checked_sub(line.len() as u64) else {
            self.rest = 0;
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is as long as it may be"));
        };
        self.rest = rest;
        let result = self.file.write_all(line.as_bytes());
        match &result {
            Ok(()) => self.written += line.len() as u64,
            Err(_) => {
                self.rest = 0;
                // A line without an end would make the log unreadable.
                let _kept = self.file.set_len(self.written);
            }
        }
        result
    }
}

/// Whether a log can be made here: there is nothing, or an earlier log. The path may have been mistyped, so nothing else is
/// removed.
fn is_free(path: &Path) -> io::Result<bool> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        found => found?,
    };
    if !found.is_file() || found.len() == 0 {
        return Ok(found.is_file());
    }
    let mut start = Vec::new();
    File::open(path)?.take(START.len() as u64).read_to_end(&mut start)?;
    Ok(start == START.as_bytes())
}

fn head_line(head: &Head<'_>) -> String {
    let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut line = Line(START.to_owned());
    line.raw("version", "1");
    line.text("process", head.process);
    line.raw("pid", &head.pid.to_string());
    line.text("runtime", head.runtime);
    line.text("tool_version", env!("CARGO_PKG_VERSION"));
    line.raw("start_unix_ms", &start.to_string());
    line.raw("profilers", "[\"newrelic\"]");
    line.text("agent", head.agent);
    line.text("mode", head.mode);
    line.end()
}

fn event_line(event: &Event<'_>, time: u64) -> String {
    let Event { module, name, rule, what } = *event;
    let kind = match what {
        What::Rewrite { .. } => "rewrite",
        What::Refusal(_) => "refusal",
        What::Revert => "revert",
        What::Failed(_) => "rejit",
    };
    let mut line = Line("{\"event\":".to_owned());
    quote(&mut line.0, kind);
    line.raw("time_ns", &time.to_string());
    line.text("module", module);
    line.text("name", name);
    if !matches!(what, What::Failed(_)) {
        line.text("rule", rule);
    }
    match what {
        What::Rewrite { function, before, after } => {
            if let Some(function) = function {
                line.raw("function", &function.to_string());
            }
            match (before.text, after.text) {
                (Some(before_text), Some(after_text)) if before.bytes.len().max(after.bytes.len()) <= MOST_BYTES => {
                    line.body("before", before.bytes, before_text);
                    line.body("after", after.bytes, after_text);
                }
                _ => {
                    let (bytes, text) = (MOST_BYTES >> 10, MOST_TEXT >> 10);
                    let why = format!("a body is larger than {bytes} KiB, or its text than {text} KiB");
                    line.text("left_out", &why);
                }
            }
        }
        What::Refusal(reason) => line.text("reason", reason),
        What::Revert => {}
        What::Failed(error) => line.text("failed", error),
    }
    line.end()
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

    const HEAD: Head<'_> = Head { process: "/a \"b\"", pid: 7, runtime: "9.0.5.0", agent: "10.54", mode: "strict" };

    fn event(what: What<'_>) -> Event<'_> {
        Event { module: "Shop", name: "Shop.Orders.Total(System.Int32)", rule: "method", what }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_json() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("{pid}.jsonl");
        let mut log = EventLog::create(path.to_str().unwrap(), &HEAD).unwrap();
        let code = "IL_0000:  ldstr      \"a\\\\b\u{1}\"\nIL_0005:  ret\n";
        let before = Body { bytes: &[0x06, 0x2a], text: Some("IL_0000:  ret\n") };
        let after = Body { bytes: &[0x0a, 0xff], text: Some(code) };
        log.write(&event(What::Rewrite { function: Some(u64::MAX), before, after })).unwrap();
        log.write(&event(What::Rewrite { function: None, before, after: Body { text: None, ..after } })).unwrap();
        log.write(&event(What::Refusal("Skipping SpecialName method"))).unwrap();
        log.write(&event(What::Revert)).unwrap();
        log.write(&event(What::Failed("0x80131000"))).unwrap();
        let found = lines(&folder.path().join("7.jsonl"));
        assert_eq!((&found[0]["format"], &found[0]["version"]), (&json!("clrscope-events"), &json!(1)));
        assert_eq!((&found[0]["process"], &found[0]["pid"]), (&json!(HEAD.process), &json!(7)));
        assert_eq!(found[1]["after"], json!({"bytes": "0aff", "il": code.lines().collect::<Vec<_>>()}));
        assert_eq!((&found[1]["before"]["bytes"], &found[1]["function"]), (&json!("062a"), &json!(u64::MAX)));
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
        let mut log = EventLog::create(path.to_str().unwrap(), &HEAD).unwrap();
        log.rest = 300;
        log.write(&event(What::Revert)).unwrap();
        let mut failed = 0;
        for _ in 0..10 {
            failed += usize::from(log.write(&event(What::Revert)).is_err());
        }
        assert_eq!(failed, 1);
        assert!(lines(&path).len() < 5);
        // A disk that is full.
        #[cfg(target_os = "linux")]
        {
            let mut log = EventLog::create(path.to_str().unwrap(), &HEAD).unwrap();
            log.file = File::options().write(true).open("/dev/full").unwrap();
            assert!(log.write(&event(What::Revert)).is_err());
            assert!(log.write(&event(What::Revert)).is_ok());
        }
    }

    #[test]
    fn only_an_earlier_log_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let create = || EventLog::create(path.to_str().unwrap(), &HEAD);
        for earlier in ["", "{\"format\":\"clrscope-events\",\"version\":1}\n{}\n"] {
            fs::write(&path, earlier).unwrap();
            create().unwrap();
            assert_eq!(lines(&path).len(), 1);
        }
        fs::write(&path, "kept").unwrap();
        assert_eq!(create().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            assert!(EventLog::create(link.to_str().unwrap(), &HEAD).is_err());
            assert!(EventLog::create(folder.path().join("missing/log").to_str().unwrap(), &HEAD).is_err());
            assert!(EventLog::create(folder.path().to_str().unwrap(), &HEAD).is_err());
        }
    }
}
