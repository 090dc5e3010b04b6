//! What a command that records says at the end.

use crate::console::printable;
use crate::duration;
use recorder::{SessionSummary, Summary};
use session::EndReason;
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
