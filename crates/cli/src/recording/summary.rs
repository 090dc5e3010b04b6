//! What a command that records says at the end: as text and as JSON.

use crate::console::printable;
use crate::duration;
use recorder::{SessionSummary, Summary};
use report::ResourceJson;
use schemars::JsonSchema;
use serde::Serialize;
use session::{EndReason, SamplingRate};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// What was recorded, for people.
pub fn summary_text(summary: &Summary) -> String {
    let mut text = String::new();
    for session in &summary.sessions {
        session_text(&mut text, session);
    }
    if summary.sessions.len() > 1 {
        processes_text(&mut text, &summary.sessions);
    }
    let files: Vec<String> = summary
        .sessions
        .iter()
        .filter_map(|session| session.path.as_ref())
        .map(|path| quoted(path))
        .collect();
    if let Some(file) = files.first() {
        let html = format!("{}.html", file.trim_end_matches(".clrscope"));
        let _ = write!(
            text,
            "\nNext:\n  clrscope report {file}\n  clrscope report {file} --format html -o {html}\n"
        );
    }
    text
}

/// All processes with their files, where there are several.
fn processes_text(text: &mut String, sessions: &[SessionSummary]) {
    let file = |session: &SessionSummary| {
        session.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    };
    let width =
        sessions.iter().map(|session| file(session).chars().count()).max().unwrap_or_default();
    let _ = writeln!(text, "\nRecorded {} processes:", sessions.len());
    for session in sessions {
        let command = printable(&session.command_line);
        let _ = writeln!(text, "  {:<width$}  {:>7}  {command}", file(session), session.pid);
    }
}

fn session_text(text: &mut String, session: &SessionSummary) {
    let how = match session.end {
        EndReason::Stopped => "",
        EndReason::ProcessExited => ", until the process ended",
        EndReason::AgentLost => ", until the connection to it was lost",
    };
    let _ = writeln!(
        text,
        "Recorded {} ({}) for {}{how}",
        printable(&session.process_name),
        session.pid,
        duration::show(session.duration)
    );
    let samples: Vec<String> =
        session.samples.iter().map(|(profiler, samples)| format!("{profiler} {samples}")).collect();
    if !samples.is_empty() {
        let _ = writeln!(text, "  samples  {}", samples.join(", "));
    }
    if !session.engine.is_empty() {
        let _ = writeln!(text, "  engine   {}", session.engine);
    }
    if let Some(rate) =
        session.rate.as_ref().map(ToString::to_string).filter(|rate| !rate.is_empty())
    {
        let _ = writeln!(text, "  rate     {rate}");
    }
    let observer = &session.observer;
    let _ = writeln!(
        text,
        "  cost     {} CPU in the process, {} suspended, {} CPU outside",
        duration::show(Duration::from_nanos(observer.target_cpu)),
        duration::show(Duration::from_nanos(observer.target_stopped)),
        duration::show(Duration::from_nanos(observer.own_cpu))
    );
    let dropped: Vec<String> = observer
        .dropped
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let _ = writeln!(
        text,
        "  dropped  {}",
        if dropped.is_empty() { "nothing".to_owned() } else { dropped.join(", ") }
    );
    for note in &session.notes {
        let _ = writeln!(text, "  note     {}", printable(note));
    }
    if let Some(path) = &session.path {
        let _ = writeln!(text, "  file     {}", path.display());
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/' | '+' | ':' | '@')
    };
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What was recorded, in one file for each process.
#[derive(Serialize, JsonSchema)]
pub struct SummaryJson<'a> {
    pub(super) exit_code: Option<i32>,
    pub(super) sessions: Vec<SessionJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SessionJson<'a> {
    pub(super) pid: u32,
    pub(super) process: String,
    pub(super) command: String,
    pub(super) file: Option<String>,
    duration_seconds: f64,
    pub(super) engine: Option<String>,
    pub(super) rate_hz: Option<u32>,
    pub(super) achieved_hz: Option<f64>,
    /// Only where the rate that was achieved differs noticeably.
    pub(super) rate_limit: Option<String>,
    kernel_tick_hz: Option<u32>,
    threads_without_timer: Option<u64>,
    pub(super) samples: std::collections::BTreeMap<&'static str, u64>,
    pub(super) dropped: std::collections::BTreeMap<String, u64>,
    target_cpu_seconds: f64,
    target_stopped_seconds: f64,
    target_memory_bytes: u64,
    pub(super) resources: Vec<ResourceJson<'a>>,
    own_cpu_seconds: f64,
    pub(super) notes: Vec<String>,
    pub(super) end: &'static str,
    pub(super) attach_to_initialize_seconds: Option<f64>,
    attach_to_first_sample_seconds: Option<f64>,
    pub(super) detach_seconds: Option<f64>,
}

impl<'a> SessionJson<'a> {
    pub(super) fn of(session: &'a SessionSummary) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Self {
            pid: session.pid,
            process: session.process_name.clone(),
            command: session.command_line.clone(),
            file: session.path.as_ref().map(|path| path.display().to_string()),
            duration_seconds: session.duration.as_secs_f64(),
            engine: Some(session.engine.clone()).filter(|engine| !engine.is_empty()),
            rate_hz: session.rate.as_ref().map(|rate| rate.asked_hz),
            achieved_hz: session.rate.as_ref().and_then(SamplingRate::achieved_hz),
            rate_limit: session
                .rate
                .as_ref()
                .filter(|rate| rate.differs())
                .and_then(|rate| rate.limit.clone()),
            kernel_tick_hz: session.rate.as_ref().and_then(|rate| rate.tick_hz),
            threads_without_timer: session.rate.as_ref().map(|rate| rate.threads_without_timer),
            samples: session.samples.iter().copied().collect(),
            dropped: session.observer.dropped.iter().cloned().collect(),
            target_cpu_seconds: seconds(session.observer.target_cpu),
            target_stopped_seconds: seconds(session.observer.target_stopped),
            target_memory_bytes: session.observer.target_memory,
            resources: session.resources.iter().map(Into::into).collect(),
            own_cpu_seconds: seconds(session.observer.own_cpu),
            notes: session.notes.clone(),
            end: match session.end {
                EndReason::Stopped => "stopped",
                EndReason::ProcessExited => "process-exited",
                EndReason::AgentLost => "agent-lost",
            },
            attach_to_initialize_seconds: session
                .timings
                .attach_to_initialize
                .map(|time| time.as_secs_f64()),
            attach_to_first_sample_seconds: session
                .timings
                .attach_to_first_sample
                .map(|time| time.as_secs_f64()),
            detach_seconds: session.timings.detach.map(|time| time.as_secs_f64()),
        }
    }
}

/// What was recorded, for programs.
pub fn summary_json(summary: &Summary) -> SummaryJson<'_> {
    SummaryJson {
        exit_code: summary.exit_code,
        sessions: summary.sessions.iter().map(SessionJson::of).collect(),
    }
}

/// What cut a recording off before its time, if something did. A process may end when no duration
/// was asked for. `kept` is whether the session file stays.
pub fn cut_off(summary: &Summary, timed: bool, kept: bool) -> Option<String> {
    let session = summary.sessions.iter().find(|session| match session.end {
        EndReason::Stopped => false,
        EndReason::ProcessExited => timed,
        EndReason::AgentLost => true,
    })?;
    let what = match session.end {
        // The agent ended it, and has said why.
        EndReason::AgentLost if session.notes.iter().any(|note| note == wire::OUT_OF_MEMORY) => {
            format!("process {}: {}", session.pid, wire::OUT_OF_MEMORY)
        }
        EndReason::AgentLost => format!("the connection to process {} was lost", session.pid),
        _ => format!("process {} ended", session.pid),
    };
    let kept = match &session.path {
        Some(path) if kept => {
            format!("{} has what was recorded before; `clrscope report` reads it", path.display())
        }
        _ => "no session file was to be kept".to_owned(),
    };
    let duration = duration::show(session.duration);
    if what.ends_with(wire::OUT_OF_MEMORY) {
        return Some(format!("{what}; {kept}"));
    }
    Some(format!("{what} before the recording was complete, after {duration}; {kept}"))
}
