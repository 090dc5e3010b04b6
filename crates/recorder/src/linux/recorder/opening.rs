//! The beginning of a recording, and of the time that it is of.

use super::{ROUND, Recorder};
use crate::linux::{clock::now, context::Context, link::FromAgent, stages::Exceptions};
use session::SessionRecord;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::{Control, Record};

/// How long the agent may take until all profilers have begun, and how much of what it writes
/// meanwhile is kept.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
const MOST_EARLY: usize = 256;

impl Recorder {
    /// Begins the session.
    pub(super) fn begin(&mut self) {
        if !self.held {
            self.open_window();
        }
        let Self { cx, stages, notes, .. } = self;
        cx.output.write(&SessionRecord::Info(cx.info.clone()));
        notes.drain(..).for_each(|note| cx.note(note));
        // The threads that are there now, with the names the system has for them.
        for (tid, name) in cx.target.threads() {
            cx.definitions.thread(tid, || name);
        }
        stages.ticks.begin(cx);
        stages.cpu.begin(cx);
        cx.announce("recording");
    }

    /// Begins once everything is ready. The ring of samples was opened before the agent was loaded,
    /// and the agent began as soon as it was; where that took long, what they have by now is of
    /// another time than the one that was asked for.
    fn open_window(&mut self) {
        let begun =
            if Exceptions::are_counted(&self.cx) { flush_early(&mut self.cx) } else { None };
        self.begin_window(begun.unwrap_or_else(now));
    }

    /// The recording is of the time from here on.
    pub(super) fn begin_window(&mut self, start: u64) {
        let ago = Duration::from_nanos(now().saturating_sub(start));
        let unix =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ago);
        let Context { info, window, .. } = &mut self.cx;
        (info.start, info.start_unix_ms) = (start, unix.as_millis() as u64);
        window.start = start;
    }
}

/// Has the agent write what it has counted so far; when that was, unless it takes too long.
fn flush_early(cx: &mut Context) -> Option<u64> {
    cx.window.wait_for_flush();
    let agent = &mut cx.agent;
    agent.link.send(&Control::Flush).ok()?;
    let deadline = Instant::now() + BEGIN_LIMIT;
    while agent.early.len() < MOST_EARLY && !cx.stop.is_stopped() && Instant::now() < deadline {
        agent.link.wait(ROUND);
        let Some(event) = agent.link.try_next() else { continue };
        let begun = match &event {
            FromAgent::Frame(records, _) => records.iter().find_map(|record| match record {
                Record::Flushed { begun, .. } => Some(*begun),
                _ => None,
            }),
            FromAgent::Closed(_) => Some(now()),
        };
        agent.early.push_back(event);
        if begun.is_some() {
            return begun;
        }
    }
    None
}
