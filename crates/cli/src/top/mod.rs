//! The live view of a process: what `clrscope top` shows.

mod draw;
mod screen;
mod state;
pub mod terminal;

#[cfg(test)]
mod tests;

use crate::{console, interrupt};
use anyhow::Context;
use api::live;
use crossterm::event::{self, Event};
use draw::Theme;
use profile::{Feed, Recent};
use recorder::Recording;
use report::{PANES, PaneContent};
use session::LiveStream;
use state::State;
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};
use terminal::LiveTerminal;

/// How long to wait for a key before looking at the recording again.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// Time between two drawings when no key is pressed.
const DRAWING: Duration = Duration::from_millis(250);

/// How long the last line may take to be written once a signal has ended the recording.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How long the view may take to give the terminal back.
const LEAVING: Duration = Duration::from_millis(300);

/// Shows a recording until the user leaves, a signal comes, or the terminal is gone; then ends the
/// recording.
///
/// The view has a thread of its own. Where its terminal takes no more text, or is gone while a key
/// is waited for, that thread is left behind and ends with the program.
///
/// # Errors
/// When the terminal cannot be used, and those of the recording.
pub fn show(mut recording: Recording, colours: bool) -> anyhow::Result<()> {
    let stream = recording.subscribe().context("the recording has no live view")?;
    let leave = Arc::new(AtomicBool::new(false));
    let left = Arc::clone(&leave);
    let (shows, shown) = mpsc::channel();
    std::thread::Builder::new().name("view".to_owned()).spawn(move || {
        let view =
            std::panic::catch_unwind(AssertUnwindSafe(|| View::new(stream, colours)?.run(&left)));
        // The hook has said what happened.
        let _ = shows.send(view.unwrap_or(Ok(())));
    })?;
    let result = loop {
        match shown.recv_timeout(KEY_WAIT) {
            Ok(result) => break Some(result),
            Err(RecvTimeoutError::Disconnected) => break Some(Ok(())),
            Err(RecvTimeoutError::Timeout) if interrupt::requested() || terminal::is_gone() => {
                break None;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    leave.store(true, Ordering::Release);
    // Leave the process in order, whatever became of the view.
    recording.stop_handle().stop();
    let ended = recording.wait();
    // A view that is stuck gives nothing, and a terminal that is gone takes nothing.
    let result = result.or_else(|| shown.recv_timeout(LEAVING).ok()).unwrap_or(Ok(()));
    if !(interrupt::requested() || terminal::is_gone()) {
        result?;
    }
    ended?;
    Ok(())
}

/// What is on the screen.
struct View {
    feed: Feed,
    state: State,
    theme: Theme,
    terminal: LiveTerminal,
}

impl View {
    fn new(stream: LiveStream, colours: bool) -> anyhow::Result<Self> {
        let terminal =
            LiveTerminal::take().context("top needs a terminal; use record, or top --json")?;
        Ok(Self {
            feed: Feed::new(stream),
            state: State::new(),
            theme: Theme::new(colours),
            terminal,
        })
    }

    fn run(mut self, leave: &AtomicBool) -> anyhow::Result<()> {
        let mut recent = None;
        let mut content = PaneContent::default();
        let mut drawn: Option<Instant> = None;
        while !leave.load(Ordering::Acquire) {
            let cut = self.feed.take();
            let mut changed = false;
            // crossterm reads a terminal that is gone for ever.
            if terminal::is_gone() {
                return Ok(());
            }
            if event::poll(KEY_WAIT)? {
                match event::read()? {
                    Event::Key(key) => {
                        self.state.key(key, &content);
                        changed = true;
                    }
                    Event::Resize(..) => changed = true,
                    _ => {}
                }
            }
            if self.state.quit {
                return Ok(());
            }
            let due = drawn.is_none_or(|drawn| drawn.elapsed() >= DRAWING);
            if changed || cut || due {
                // Sums change only with a new slice or another window.
                let fresh = changed || cut || recent.is_none();
                if fresh && !self.state.frozen {
                    recent = self.feed.live().recent(self.state.window());
                }
                if fresh {
                    content = content_of(recent.as_ref(), &self.state);
                }
                let Self { terminal, state, theme, feed } = &mut self;
                let (left_out, ended) = (feed.left_out(), feed.live().has_ended());
                let recent = recent.as_ref();
                let shown = screen::Shown { recent, content: &content, left_out, ended };
                terminal.0.draw(|frame| screen::draw(frame, shown, state, *theme))?;
                drawn = Some(Instant::now());
            }
        }
        Ok(())
    }
}

/// What the chosen pane shows: of its rows, those with the text that the user searches.
fn content_of(recent: Option<&Recent>, state: &State) -> PaneContent {
    let Some(recent) = recent else { return PaneContent::default() };
    let mut content = PANES[state.pane].content(recent, &state.options());
    let rows = content.table.rows.len();
    content.keep(&state.search);
    if rows > 0 && content.table.rows.is_empty() {
        content.section.say("No row has this text.");
        content.table.columns.clear();
    }
    content
}

/// Writes a line of JSON for each second of a recording, until a signal comes or it is over.
///
/// # Errors
/// When standard output cannot be written, and those of the recording.
pub fn print_lines(mut recording: Recording) -> anyhow::Result<()> {
    let stream = recording.subscribe().context("the recording has no live view")?;
    let mut feed = Feed::new(stream);
    let (prints, printed) = mpsc::channel();
    std::thread::Builder::new().name("view".to_owned()).spawn(move || {
        let print = || -> anyhow::Result<()> {
            while !feed.is_over() {
                std::thread::sleep(KEY_WAIT);
                if let Some(view) = live::View::next(&mut feed) {
                    console::print_json_line(&view)?;
                }
            }
            Ok(())
        };
        let printed = std::panic::catch_unwind(AssertUnwindSafe(print));
        // The hook has said what happened.
        let _ = prints.send(printed.unwrap_or(Ok(())));
    })?;
    let mut result = None;
    while result.is_none() && !recording.finishes_within(KEY_WAIT) {
        // A reader that is gone is seen when the next line is written, and here at once.
        if console::output_is_gone() {
            break;
        }
        result = printed.try_recv().ok();
    }
    recording.stop_handle().stop();
    let ended = recording.wait();
    let last = || match interrupt::requested() {
        // Nobody may read them.
        true => printed.recv_timeout(LAST_LINES).ok(),
        false => printed.recv().ok(),
    };
    result.or_else(last).unwrap_or(Ok(()))?;
    ended?;
    Ok(())
}
