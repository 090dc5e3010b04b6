//! The terminal in the state that a live view needs, and back.

use crossterm::{
    cursor::Show,
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use ratatui::{Terminal, backend::CrosstermBackend};
use std::{
    io::{self, Stdout},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether the terminal is in our state: panics and signals restore it from other threads.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// The terminal of a live view; dropping it restores the old state.
#[derive(Debug)]
pub struct LiveTerminal(pub Terminal<CrosstermBackend<Stdout>>);

impl LiveTerminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When standard output or input is no terminal.
    pub fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        ACTIVE.store(true, Ordering::Release);
        // From here on, a failure has something to restore.
        let taken = execute!(io::stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the terminal on standard input is gone: its window, tmux session or connection was
/// closed.
pub fn is_gone() -> bool {
    crate::os::hung_up(&io::stdin())
}

/// Restores the terminal if it is in our state. What fails here cannot be helped.
pub fn restore() {
    if ACTIVE.swap(false, Ordering::AcqRel) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
