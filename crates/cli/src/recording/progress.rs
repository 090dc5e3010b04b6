//! Waiting for a recording, and the line that shows how far it is.

use crate::{console, duration};
use recorder::{Progress, RecordError, Recording, Summary};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often progress is checked.
const POLL: Duration = Duration::from_millis(20);

/// How long the last lines may take to be written.
const DRAWN: Duration = Duration::from_millis(300);

/// How often progress is shown.
const SHOW: Duration = Duration::from_millis(200);

/// Waits for the end of a recording, and shows progress on standard error where that is a terminal
/// and wanted.
///
/// # Errors
/// Those of the recording.
pub fn wait(
    recording: Recording,
    limit: Option<Duration>,
    quiet: bool,
) -> Result<Summary, RecordError> {
    wait_with(recording, limit, quiet, ())
}

/// What a command adds to the progress that is shown while it waits for its recording.
pub trait Watcher {
    /// Asked all the time; an answer is written to standard error, above the progress.
    fn news(&mut self, _progress: &Progress) -> Option<String> {
        None
    }

    /// Lines to be shown below the progress until the next time: at most `rows` of them, each at
    /// most `columns` wide. Asked only where standard error is a terminal, several times a second.
    fn lines(&mut self, _columns: usize, _rows: usize) -> String {
        String::new()
    }
}

/// One that adds nothing.
impl Watcher for () {}

/// As [`wait`], with what `watcher` adds.
///
/// A terminal on which the progress is shown and that goes away ends the recording, as its SIGHUP
/// does, unless that signal is ignored (`nohup`). What is shown is written by a thread of its own:
/// a terminal that takes no more text (Ctrl-S, a stalled connection) holds neither the recording
/// nor its end up.
///
/// # Errors
/// Those of the recording.
pub fn wait_with(
    recording: Recording,
    limit: Option<Duration>,
    quiet: bool,
    mut watcher: impl Watcher + Send + 'static,
) -> Result<Summary, RecordError> {
    let mut shown = Shown::new(quiet, limit);
    let tied = shown.wanted && !crate::os::is_ignored(crate::os::Signal::Hangup);
    let progress = recording.progress_reader();
    let (end, ended) = mpsc::channel::<Infallible>();
    let (drawing, drawn) = mpsc::channel::<Infallible>();
    let draw = move || {
        let _drawing = drawing;
        loop {
            let over = ended.recv_timeout(POLL) != Err(RecvTimeoutError::Timeout);
            let now = progress();
            if let Some(news) = watcher.news(&now) {
                shown.clear();
                console::say(&news);
            }
            if over {
                shown.clear();
                return;
            }
            if shown.is_due() {
                shown.show(&now, &mut watcher);
            }
        }
    };
    let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(draw);
    let thread = thread.map_err(|source| RecordError::Io {
        what: "starting the progress thread".into(),
        source,
    })?;
    while !recording.finishes_within(POLL) {
        if tied && crate::os::hung_up(&io::stderr()) {
            recording.stop_handle().stop();
        }
    }
    drop(end);
    // What comes is that it has ended, if it does.
    if drawn.recv_timeout(DRAWN) != Err(RecvTimeoutError::Timeout)
        && let Err(panic) = thread.join()
    {
        std::panic::resume_unwind(panic);
    }
    recording.wait()
}

/// Lines at the bottom of a terminal: progress, and what is below it.
struct Shown {
    wanted: bool,
    pub(super) limit: Option<Duration>,
    when: Option<std::time::Instant>,
    /// Lines above the one that the cursor is in.
    above: usize,
}

impl Shown {
    pub(super) fn new(quiet: bool, limit: Option<Duration>) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { wanted: !quiet && !dumb && io::stderr().is_terminal(), limit, when: None, above: 0 }
    }

    fn is_due(&self) -> bool {
        self.wanted && self.when.is_none_or(|when| when.elapsed() >= SHOW)
    }

    pub(super) fn show(&mut self, progress: &Progress, watcher: &mut impl Watcher) {
        let (columns, rows) = crate::os::error_terminal().unwrap_or((80, 24));
        let lines = watcher.lines(columns - 1, rows.saturating_sub(2));
        let mut text = self.back();
        let progress = progress_text(progress, self.limit);
        for (index, line) in std::iter::once(progress.as_str()).chain(lines.lines()).enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.extend(line.chars().take(columns - 1));
            // Erase to the end of the line.
            text.push_str("\x1b[K");
            self.above = index;
        }
        // And what was below.
        text.push_str("\x1b[J");
        let _ = io::stderr().lock().write_all(text.as_bytes());
        self.when = Some(std::time::Instant::now());
    }

    fn clear(&mut self) {
        if self.when.take().is_some() {
            let _ = write!(io::stderr().lock(), "{}\x1b[J", self.back());
        }
    }

    /// To the beginning of the first line.
    fn back(&mut self) -> String {
        match std::mem::take(&mut self.above) {
            0 => "\r".to_owned(),
            above => format!("\r\x1b[{above}A"),
        }
    }
}

pub(super) fn progress_text(progress: &Progress, limit: Option<Duration>) -> String {
    let mut text = progress.stage.clone();
    if progress.elapsed > Duration::ZERO {
        let _ = write!(text, "  {:.1} s", progress.elapsed.as_secs_f64());
        match limit {
            Some(limit) => _ = write!(text, " of {}", duration::show(limit)),
            None => text.push_str(" (Ctrl-C ends)"),
        }
    }
    for (profiler, samples) in &progress.samples {
        let _ = write!(text, "  {profiler} {samples}");
    }
    if progress.dropped > 0 {
        let _ = write!(text, "  dropped {}", progress.dropped);
    }
    text
}
