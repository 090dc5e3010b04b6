//! Numbers and names for readers, and how parts of a recording are written.

pub use document::format::*;

use session::{EndReason, Entry, SessionInfo};

use crate::{Amount, Estimate, Frame, NameStyle, Profile, Tables};

/// `45.2 % ± 1.0`.
pub fn estimate(estimate: &Estimate) -> String {
    format!("{} ± {:.1}", percent(estimate.share), estimate.margin() * 100.0)
}

/// An amount with its interval, each as `write` writes numbers: `1.20 GB ± 15.2 MB`.
pub fn amount(amount: &Amount, write: impl Fn(u64) -> String) -> String {
    format!("{} ± {}", write(amount.value.round() as u64), write(amount.margin.round() as u64))
}

/// How we came in.
pub fn entry(entry: Entry) -> &'static str {
    match entry {
        Entry::Attached => "attached",
        Entry::AttachedBeside => "attached beside another profiler",
        Entry::Launched => "launched",
        Entry::LaunchedBeside => "launched beside another profiler",
        Entry::Imported => "imported",
    }
}

/// How the recording ended.
pub fn ending(profile: &Profile) -> String {
    if let Some(damage) = &profile.damage {
        return damage.clone();
    }
    match &profile.end {
        Some(_) if profile.info.entry == Entry::Imported => "all of the file was read".to_owned(),
        _ if profile.cut_short => {
            "cut short: the recorder was killed or the file is incomplete; all that was written is \
                here"
                .to_owned()
        }
        None => "still recording".to_owned(),
        Some(end) => match (end.reason, end.exit_code) {
            (EndReason::Stopped, _) => "stopped as asked".to_owned(),
            (EndReason::ProcessExited, None) => "the process ended".to_owned(),
            (EndReason::ProcessExited, Some(code)) => format!(
                "the process ended with exit code \
                {code}"
            ),
            (EndReason::AgentLost, _) => "the connection to the process was lost".to_owned(),
        },
    }
}

/// `shop (pid 4711)`; without the number where it is not known.
pub fn process(info: &SessionInfo) -> String {
    if info.pid == 0 {
        return info.process_name.clone();
    }
    format!("{} (pid {})", info.process_name, info.pid)
}

/// Name of a frame, with file and line if they are wanted and known.
pub fn frame(tables: &Tables, frame: Frame, style: NameStyle, lines: bool) -> String {
    let name = tables.function_name(frame.function, style);
    match frame.line.filter(|_| lines) {
        Some(line) => format!("{name} ({}:{})", file_name(tables.file(line.file)), line.line),
        None => name,
    }
}
