//! The live view of a process: what `clrscope top` shows.

pub mod model;
mod screen;
mod state;
pub mod terminal;

#[cfg(test)]
mod tests;

use crate::os::{Signal, SignalWatch};
use anyhow::Context;
use crossterm::event::{self, Event};
use model::Live;
use recorder::Recording;
use session::LiveStream;
use state::State;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use terminal::LiveTerminal;

/// How long to wait for a key before looking at the recording again.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// Time between two slices of the recording.
const SLICE: Duration = Duration::from_secs(1);

/// Time between two drawings when no key is pressed.
const DRAWING: Duration = Duration::from_millis(250);

/// Records taken before looking at the keys again.
const RECORDS: usize = 20_000;

/// Shows a recording until the user leaves, a signal comes, or (without a user) it is over.
///
/// # Errors
/// When the terminal cannot be used.
pub fn show(recording: &mut Recording, colours: bool) -> anyhow::Result<()> {
    let stream = recording.subscribe().context("the recording has no live view")?;
    let signalled = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&signalled);
    let _watch = SignalWatch::start(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup], move |_| {
        told.store(true, Ordering::Release);
    })?;
    let mut terminal = LiveTerminal::take().context("top needs a terminal; use record, or top --json")?;
    let (mut feed, mut state) = (Feed::new(stream), State::new());
    let theme = screen::Theme::new(colours);
    let mut view = feed.live.view(state.question());
    let mut drawn: Option<Instant> = None;
    loop {
        let cut = feed.take();
        let mut changed = false;
        if event::poll(KEY_WAIT)? {
            match event::read()? {
                Event::Key(key) => {
                    state.key(key, &view);
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        if state.quit || signalled.load(Ordering::Acquire) {
            return Ok(());
        }
        let due = drawn.is_none_or(|drawn| drawn.elapsed() >= DRAWING);
        if changed || cut || due {
            match &state.frozen {
                Some(frozen) => view = frozen.clone(),
                // Sums change only with a new slice or another question.
                None if changed || cut || drawn.is_none() => view = feed.live.view(state.question()),
                None => {}
            }
            terminal.0.draw(|frame| screen::draw(frame, &view, &state, theme))?;
            drawn = Some(Instant::now());
        }
    }
}

/// Writes a line of JSON for each second of a recording, until a signal comes or it is over.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_lines(recording: &mut Recording) -> anyhow::Result<()> {
    let stream = recording.subscribe().context("the recording has no live view")?;
    let stop = recording.stop_handle();
    let _watch = SignalWatch::start(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup], move |_| stop.stop())?;
    let mut feed = Feed::new(stream);
    let state = State::new();
    loop {
        std::thread::sleep(KEY_WAIT);
        let cut = feed.take();
        if cut || feed.is_over() {
            let question = model::Question { window: SLICE, ..state.question() };
            let mut line = serde_json::to_string(&feed.live.view(question))?;
            line.push('\n');
            let mut out = std::io::stdout().lock();
            out.write_all(line.as_bytes())?;
            out.flush()?;
        }
        if feed.is_over() {
            return Ok(());
        }
    }
}

/// Takes a stream of records into a live recording.
struct Feed {
    stream: LiveStream,
    live: Live,
    cut: Instant,
    over: bool,
}

impl Feed {
    fn new(stream: LiveStream) -> Self {
        Self { stream, live: Live::new(), cut: Instant::now(), over: false }
    }

    /// Takes what has come, and whether a slice was ended.
    fn take(&mut self) -> bool {
        if self.over {
            return false;
        }
        for _ in 0..RECORDS {
            match self.stream.try_next() {
                // The recorder writes the same records to files that are checked when read: a record that does not
                // fit is a bug there, and costs one row here.
                Ok(Some(record)) => drop(self.live.add(&record)),
                Ok(None) => break,
                Err(session::LiveEnded) => {
                    self.over = true;
                    self.live.end();
                    break;
                }
            }
        }
        let length = self.cut.elapsed();
        if length < SLICE && !self.over {
            return false;
        }
        self.cut = Instant::now();
        self.live.cut(length);
        true
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
