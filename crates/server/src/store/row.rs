use super::SessionId;
use schemars::JsonSchema;
use serde::Serialize;
use session::{SessionInfo, SessionReader, SessionRecord};
use std::{
    collections::BTreeMap,
    fs::File,
    io::BufReader,
    time::{SystemTime, UNIX_EPOCH},
};

/// Letters of a text in a list.
const MOST_TEXT: usize = 4096;

/// Profilers of a session in a list.
const MOST_PROFILERS: usize = 64;

/// A text as long as a list has room for.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A session in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionRow {
    /// Its name, for the other requests.
    pub id: String,
    /// Size of its file.
    pub bytes: u64,
    /// When the recording began, in milliseconds since 1970; when the file was changed, where that
    /// is not known.
    pub recorded_unix_ms: u64,
    /// Whether it is being written.
    pub recording: bool,
    /// What somebody wrote about it.
    pub note: Option<String>,
    /// What was recorded; null if the file cannot be read.
    pub target: Option<SessionTarget>,
    /// Why the file cannot be read.
    pub problem: Option<String>,
}

/// What was recorded.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionTarget {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Its command line.
    pub command: String,
    /// Version of its runtime.
    pub runtime: String,
    /// Operating system and processor.
    pub platform: String,
    /// Version of the clrscope that recorded it.
    pub tool_version: String,
    /// Profilers that ran.
    pub profilers: Vec<SessionProfiler>,
}

/// A profiler of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionProfiler {
    /// Its id.
    pub id: String,
    /// How it took its samples.
    pub engine: String,
    /// Samples per second and thread, where it samples.
    pub rate_hz: Option<u32>,
    /// Parameters that are not the defaults.
    pub params: BTreeMap<String, String>,
}

/// The profilers that ran.
fn profilers_of(info: &SessionInfo) -> Vec<SessionProfiler> {
    let profiler = |run: &session::ProfilerRun| SessionProfiler {
        id: shown(&run.id),
        engine: shown(&run.engine),
        rate_hz: run.rate_hz,
        params: run
            .params
            .iter()
            .take(MOST_PROFILERS)
            .map(|(name, value)| (shown(name), shown(value)))
            .collect(),
    };
    info.profilers.iter().take(MOST_PROFILERS).map(profiler).collect()
}

impl SessionRow {
    /// What the beginning of a file says.
    pub(crate) fn read(id: &SessionId, file: File, recording: bool) -> Self {
        let found = file.metadata().ok();
        let changed = found.as_ref().and_then(|found| found.modified().ok());
        let changed = changed.and_then(|time: SystemTime| time.duration_since(UNIX_EPOCH).ok());
        let (info, problem) = match first(file) {
            Ok(info) => (Some(info), None),
            Err(problem) => (None, Some(problem)),
        };
        let changed = changed.and_then(|time| u64::try_from(time.as_millis()).ok());
        // Files of other tools may not say when they were recorded.
        let begun = info.as_ref().map(|info| info.start_unix_ms).filter(|begun| *begun > 0);
        let begun = begun.or(changed);
        Self {
            id: id.to_string(),
            bytes: found.map_or(0, |found| found.len()),
            recorded_unix_ms: begun.unwrap_or(0),
            recording,
            note: None,
            target: info.map(|info| SessionTarget {
                profilers: profilers_of(&info),
                pid: info.pid,
                process: shown(&info.process_name),
                command: shown(&info.command_line),
                runtime: shown(&info.runtime),
                platform: shown(&info.platform),
                tool_version: shown(&info.tool_version),
            }),
            // A recording that has just begun has written nothing yet.
            problem: problem.filter(|_| !recording),
        }
    }
}

/// The first record.
fn first(file: File) -> Result<SessionInfo, String> {
    let mut reader = SessionReader::new(BufReader::new(file)).map_err(|error| error.to_string())?;
    match reader.next() {
        Some(Ok(SessionRecord::Info(info))) => Ok(info),
        Some(Err(error)) => Err(error.to_string()),
        _ => Err("nothing was recorded".to_owned()),
    }
}
