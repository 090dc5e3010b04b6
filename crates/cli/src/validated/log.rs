//! Event logs, as `clrscope report -f events` writes them: lines of JSON, or the sessions that they
//! are made from; and the log of a native profiler of the New Relic agent.

use crate::{
    console,
    exit::{Code, failure},
};
use anyhow::Context as _;
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read as _},
    path::Path,
};

/// A kind of event.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its word in `event`, and on the command line.
    pub id: &'static str,
    /// What must be the same in two events of the same name, beside the code of methods.
    pub fields: &'static [&'static str],
    /// Whether the same program under the same rules gives the same events each time.
    pub is_certain: bool,
}

/// A line of the log of a native profiler of the New Relic agent.
const LOG: Kind = Kind { id: "log", fields: &["level"], is_certain: true };
/// Levels of these lines that are compared, as the lines have them. Others tell how the profiler
/// works inside.
const LEVELS: [&str; 3] = ["Info ", "Warn ", "Error"];
/// All its levels.
const ALL_LEVELS: [&str; 5] = ["Trace", "Debug", "Info ", "Warn ", "Error"];

/// All kinds of event logs.
pub const KINDS: [Kind; 11] = [
    Kind { id: "rewrite", fields: &["rule"], is_certain: true },
    Kind { id: "refusal", fields: &["rule", "reason"], is_certain: true },
    Kind { id: "possible", fields: &["rule"], is_certain: true },
    Kind { id: "revert", fields: &["rule"], is_certain: true },
    LOG,
    Kind { id: "rejit", fields: &["failed"], is_certain: false },
    Kind { id: "jit", fields: &["tier"], is_certain: false },
    Kind { id: "load", fields: &["outcome"], is_certain: false },
    Kind { id: "unload", fields: &[], is_certain: false },
    Kind { id: "type-load", fields: &[], is_certain: false },
    Kind { id: "exception", fields: &["thrown_at", "caught_by"], is_certain: false },
];

/// Version of the lines that is understood.
const VERSION: u64 = 1;

/// Something that happened; or, of an assembly, a method that is there.
#[derive(Debug, PartialEq)]
pub struct Event {
    /// What.
    pub kind: &'static Kind,
    /// To what: for methods with module and parameters.
    pub name: String,
    /// Nanoseconds since the start of the recording.
    pub time: Option<u64>,
    /// What [`Kind::fields`] say, in their order; `None` for nothing.
    pub fields: Vec<Option<String>>,
    /// Code: what it is, and its lines.
    pub code: Vec<(&'static str, Vec<String>)>,
    /// The bytes of the same code, in hexadecimal digits.
    pub bytes: Vec<(&'static str, String)>,
    /// The number in new code that differs from run to run.
    pub slot: Option<u64>,
    /// Why code is left out, if it is.
    pub left_out: Option<String>,
}

/// Reads a session or an event log.
///
/// # Errors
/// The file cannot be read, is damaged, or is neither; with the line where there are lines.
pub fn read(path: &Path) -> anyhow::Result<Vec<Event>> {
    let shown = path.display();
    let open = || File::open(path).with_context(|| format!("cannot open {shown}"));
    let mut magic = Vec::new();
    open()?
        .take(session::MAGIC.len() as u64)
        .read_to_end(&mut magic)
        .with_context(|| shown.to_string())?;
    if magic != session::MAGIC {
        return parse(BufReader::new(open()?), &shown.to_string());
    }
    let exporter = report::exporter("events").context("event logs are a format of reports")?;
    let mut log = Vec::new();
    let profile = exporter
        .convert(open()?, &report::Options::default(), &mut log)
        .with_context(|| shown.to_string())?;
    if let Some(damage) = &profile.damage {
        return Err(failure(Code::BadSession, format!("{shown}: {damage}")));
    }
    if profile.cut_short {
        console::say(&format!("warning: {shown} was cut short; what it has is compared"));
    }
    parse(&log[..], &shown.to_string())
}

/// Reads lines; `shown` is what the file is called in messages. Events of kinds that are not known
/// are left out.
fn parse(lines: impl BufRead, shown: &str) -> anyhow::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut has_head = false;
    let mut is_text = false;
    for (index, line) in lines.lines().enumerate() {
        let wrong =
            |why: String| failure(Code::BadSession, format!("{shown}:{}: {why}", index + 1));
        let line = line.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => wrong("this is not text".to_owned()),
            _ => anyhow::Error::from(error).context(shown.to_owned()),
        })?;
        is_text |= index == 0 && text_line(&line).is_some();
        if is_text {
            events.extend(text_line(&line).and_then(|(level, text)| log_event(level, text)));
            continue;
        }
        let value: Value = serde_json::from_str(&line)
            .map_err(|error| wrong(format!("this is not JSON: {error}")))?;
        if has_head {
            events.extend(event(&value).map_err(wrong)?);
            continue;
        }
        if value["format"] != "clrscope-events" {
            let message =
                "this is not an event log; `clrscope report -f events` makes one from a session";
            return Err(wrong(message.to_owned()));
        }
        match value["version"].as_u64() {
            Some(1..=VERSION) => has_head = true,
            Some(version) => {
                return Err(wrong(format!(
                    "version {version} is of a newer clrscope, this one knows {VERSION}; update"
                )));
            }
            None => return Err(wrong("`version` is missing".to_owned())),
        }
    }
    match has_head || is_text {
        true => Ok(events),
        false => Err(failure(Code::BadSession, format!("{shown}: the file is empty"))),
    }
}

/// Level and text of a line such as `[Info ] 2025-11-25 17:00:00 Profiler initialized`; the time
/// may be missing.
fn text_line(line: &str) -> Option<(&str, &str)> {
    const TIME: &str = "0000-00-00 00:00:00 ";
    let (level, text) = line.strip_prefix('[')?.split_once("] ")?;
    let is_time = |start: &str| {
        start
            .chars()
            .zip(TIME.chars())
            .all(|(c, form)| if form == '0' { c.is_ascii_digit() } else { c == form })
    };
    let text = text
        .split_at_checked(TIME.len())
        .filter(|(start, _)| is_time(start))
        .map_or(text, |(_, rest)| rest);
    ALL_LEVELS.contains(&level).then_some((level, text))
}

fn log_event(level: &str, text: &str) -> Option<Event> {
    let fields = vec![Some(level.trim_end().to_owned())];
    let (code, bytes) = (Vec::new(), Vec::new());
    let event = Event {
        kind: &LOG,
        name: text.to_owned(),
        time: None,
        fields,
        code,
        bytes,
        slot: None,
        left_out: None,
    };
    LEVELS.contains(&level).then_some(event)
}

/// What a line says; `None` for a kind that is not known. An error says what is wrong with it.
fn event(value: &Value) -> Result<Option<Event>, String> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let id = text("event").ok_or("`event`, a string, is missing")?;
    let Some(kind) = KINDS.iter().find(|kind| kind.id == id) else { return Ok(None) };
    let name = text("name").ok_or("`name`, a string, is missing")?;
    let name = text("module").map_or(name.clone(), |module| format!("{module}!{name}"));
    let name = without_addresses(&name);
    let (mut code, mut bytes) = (Vec::new(), Vec::new());
    for part in ["before", "after"].into_iter().filter(|part| !value[part].is_null()) {
        let lines = value[part]["il"]
            .as_array()
            .ok_or_else(|| format!("`{part}.il`, a list of strings, is missing"))?;
        let lines = lines.iter().map(|line| line.as_str().map(str::to_owned));
        let lines: Option<Vec<String>> = lines.collect();
        code.push((
            part,
            lines.ok_or_else(|| format!("`{part}.il` has something that is not a string"))?,
        ));
        bytes.extend(value[part]["bytes"].as_str().map(|digits| (part, digits.to_owned())));
    }
    let left_out = text("left_out");
    if kind.id == "rewrite" && code.len() != 2 && left_out.is_none() {
        return Err("a rewrite has `before` and `after`, or says in `left_out` why not".to_owned());
    }
    let field = |key: &&str| match &value[*key] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let fields = kind.fields.iter().map(field).collect();
    let (time, slot) = (value["time_ns"].as_u64(), value["slot"].as_u64());
    Ok(Some(Event { kind, name, time, fields, code, bytes, slot, left_out }))
}

/// A name with all addresses alike: the runtime writes some into those of the code that it makes
/// itself.
fn without_addresses(name: &str) -> String {
    const SHORTEST: usize = 8;
    let mut parts = name.split("0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        let is_address = part.len() - rest.len() >= SHORTEST;
        text.push_str(if is_address { "0x…" } else { "0x" });
        text.push_str(if is_address { rest } else { part });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_names_are_alike() {
        assert_eq!(
            without_addresses("S(object, pMT: 0x7fcb08aae578<A>)"),
            "S(object, pMT: 0x…<A>)"
        );
        assert_eq!(without_addresses("A0x1.B(0xff)"), "A0x1.B(0xff)");
    }

    const HEAD: &str = "{\"format\":\"clrscope-events\",\"version\":1}\n";

    fn read(lines: &str) -> Result<Vec<Event>, String> {
        parse(lines.as_bytes(), "x.jsonl").map_err(|error| error.to_string())
    }

    #[test]
    fn events_are_read_and_unknown_kinds_left_out() {
        let lines = "{\"event\":\"from the future\"}\n\
            {\"event\":\"jit\",\"time_ns\":5,\"module\":\"m\",\"name\":\"A.B()\",\"tier\":\"tier-0\"}\n\
            {\"event\":\"rewrite\",\"name\":\"A.B()\",\"rule\":\"r\",\"slot\":3,\"before\":{\"il\":[\"ret\"]},\"after\":{\"il\":[]}}\n";
        let events = read(&(HEAD.to_owned() + lines)).unwrap();
        assert_eq!(
            (events.len(), events[0].name.as_str(), events[0].time),
            (2, "m!A.B()", Some(5))
        );
        assert_eq!(events[0].fields, [Some("tier-0".to_owned())]);
        assert_eq!(
            (events[1].slot, &events[1].code[0]),
            (Some(3), &("before", vec!["ret".to_owned()]))
        );
        assert_eq!(read(HEAD).unwrap(), []);
    }

    #[test]
    fn lines_of_a_text_log_are_events() {
        let lines = "[Info ] 2025-11-25 17:00:00 Logger initialized.\n\
            [Trace] 2025-11-25 17:00:00 No instrumentation point\n\
            more of it\n[Error] Skipping: [A]B\n[Warn ] 2025 is no time\n";
        let found = read(lines).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|event| (event.fields[0].as_deref().unwrap(), event.name.as_str()))
            .collect();
        let expected = [
            ("Info", "Logger initialized."),
            ("Error", "Skipping: [A]B"),
            ("Warn", "2025 is no time"),
        ];
        assert_eq!(found, expected);
        assert!(read("[Info] 2025-11-25 17:00:00 Logger initialized.\n").is_err());
    }

    #[test]
    fn broken_logs_are_refused_with_the_line() {
        for (lines, expected) in [
            ("", "x.jsonl: the file is empty"),
            ("hello\n", "x.jsonl:1: this is not JSON: "),
            ("{}\n", "x.jsonl:1: this is not an event log"),
            ("{\"format\":\"clrscope-events\"}\n", "x.jsonl:1: `version` is missing"),
            (
                "{\"format\":\"clrscope-events\",\"version\":2}\n",
                "x.jsonl:1: version 2 is of a newer clrscope",
            ),
        ] {
            assert!(read(lines).unwrap_err().starts_with(expected), "{lines}");
        }
        for (line, expected) in [
            ("{\"event\":\"jit\",\"na", "this is not JSON: "),
            ("", "this is not JSON: "),
            ("7", "`event`, a string, is missing"),
            ("{\"event\":\"jit\"}", "`name`, a string, is missing"),
            ("{\"event\":\"rewrite\",\"name\":\"a\"}", "a rewrite has `before` and `after`"),
            (
                "{\"event\":\"rewrite\",\"name\":\"a\",\"before\":{},\"after\":{}}",
                "`before.il`, a list",
            ),
            (
                "{\"event\":\"rewrite\",\"name\":\"a\",\"before\":{\"il\":[1]}}",
                "`before.il` has something",
            ),
        ] {
            let good = "{\"event\":\"jit\",\"name\":\"a\"}\n";
            let error = read(&format!("{HEAD}{good}{line}\n")).unwrap_err();
            assert!(error.starts_with(&format!("x.jsonl:3: {expected}")), "{line}: {error}");
        }
        let error = parse(&[HEAD.as_bytes(), b"\xff\xfe\n"].concat()[..], "x.jsonl")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "x.jsonl:2: this is not text");
    }
}
