//! The time that a recording is of: when it begins and ends.

use super::*;

/// How long the agent may take until all profilers have begun, and how much of what it writes
/// meanwhile is kept.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);

const MAX_EARLY: usize = 256;

/// How long it may take to write its last sums.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// The message where it takes longer.
const SUMS_MISSING: &str = "the process did not answer at the end of the recording: exceptions of \
    its last second are not counted";

impl Recorder {
    /// The recording is of the time from here on.
    pub(super) fn begin_window(&mut self, start: u64) {
        let ago = Duration::from_nanos(now().saturating_sub(start));
        let unix =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ago);
        (self.sources.info.start, self.sources.info.start_unix_ms) =
            (start, unix.as_millis() as u64);
        self.window.start = start;
    }

    /// Begins once everything is ready. The ring of samples was opened before the agent was loaded,
    /// and the agent began as soon as it was; where that took long, what they have by now is of
    /// another time than the one that was asked for.
    pub(super) fn open_window(&mut self) {
        let begun = if self.counts_exactly() { self.flush_early() } else { None };
        self.begin_window(begun.unwrap_or_else(now));
    }

    /// Whether the agent counts by itself from the moment it is attached.
    pub(super) fn counts_exactly(&self) -> bool {
        self.runs("exceptions")
    }

    /// Has the agent write what it has counted so far; when that was, unless it takes too long.
    pub(super) fn flush_early(&mut self) -> Option<u64> {
        self.window.wait_for_flush();
        self.sources.link.send(&Control::Flush).ok()?;
        let deadline = Instant::now() + BEGIN_LIMIT;
        while self.early.len() < MAX_EARLY
            && !self.sources.stop.is_stopped()
            && Instant::now() < deadline
        {
            self.sources.link.wait(ROUND);
            let Some(event) = self.sources.link.try_next() else { continue };
            let begun = match &event {
                FromAgent::Frame(records, _) => records.iter().find_map(|record| match record {
                    Record::Flushed { begun, .. } => Some(*begun),
                    _ => None,
                }),
                FromAgent::Closed(_) => Some(now()),
            };
            self.early.push_back(event);
            if begun.is_some() {
                return begun;
            }
        }
        None
    }

    /// Ends the time that the recording is of, when the agent has written all that it counted in
    /// it.
    pub(super) fn close_window(&mut self) {
        let has_ended = |recorder: &Self| recorder.closed || recorder.bye.is_some();
        if !self.counts_exactly() || has_ended(self) {
            // What comes of a process that has ended was counted before its end.
            return self.window.close(now(), true);
        }
        // On a busy machine, the answer to the question at the beginning may come only now.
        let since = now();
        let flushed = |recorder: &Self| recorder.flushed.filter(|ended| *ended >= since);
        let asked =
            !self.sources.target.is_stopped() && self.sources.link.send(&Control::Flush).is_ok();
        let deadline = Instant::now() + FLUSH_LIMIT;
        while asked && flushed(self).is_none() && !has_ended(self) && Instant::now() < deadline {
            self.sources.link.wait(ROUND);
            self.take_agent();
        }
        if flushed(self).is_none() && !has_ended(self) {
            self.note(SUMS_MISSING.into());
        }
        self.window.close(flushed(self).unwrap_or_else(now), has_ended(self));
    }
}
