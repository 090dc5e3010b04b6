//! Signals where there are only those of the C library (Windows): Ctrl-C, and the request to end.

use super::Signal;
use signal_hook::{
    SigId,
    consts::{SIGINT, SIGTERM},
    flag, low_level,
};
use std::{
    io,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

const NUMBERS: [(Signal, i32); 2] = [(Signal::Interrupt, SIGINT), (Signal::Terminate, SIGTERM)];

/// How soon a signal is reported.
const POLL: Duration = Duration::from_millis(50);

/// Calls a function for each signal that arrives, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct SignalWatch {
    ids: Vec<SigId>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Watches these signals, as far as the system has them.
    ///
    /// # Errors
    /// When the handlers cannot be installed or the thread cannot be made.
    pub fn start(
        watched: &[Signal],
        mut on: impl FnMut(Signal) + Send + 'static,
    ) -> io::Result<Self> {
        let mut ids = Vec::new();
        let mut flags = Vec::new();
        for (signal, number) in NUMBERS {
            if watched.contains(&signal) {
                let arrived = Arc::new(AtomicBool::new(false));
                ids.push(flag::register(number, Arc::clone(&arrived))?);
                flags.push((signal, arrived));
            }
        }
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while !end.load(Ordering::Acquire) {
                for (signal, arrived) in &flags {
                    if arrived.swap(false, Ordering::AcqRel) {
                        on(*signal);
                    }
                }
                std::thread::sleep(POLL);
            }
        })?;
        Ok(Self { ids, ended, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// Always: there are no signals between processes here.
pub fn send(_pid: u32, _signal: Signal) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a signal is ignored: the end of the terminal, which is not reported here.
pub fn is_ignored(signal: Signal) -> bool {
    signal == Signal::Hangup
}

/// The command that opens an address in a browser.
pub fn browser(url: &str) -> Option<Command> {
    let mut command = Command::new("cmd");
    // The first text in quotes is the title of a window.
    command.args(["/c", "start", "", url]);
    Some(command)
}

/// Whether this program may do everything; not known here.
pub fn is_root() -> bool {
    false
}

/// Whether the other end of a terminal or pipe is gone; not known here.
pub fn hung_up<T>(_stream: &T) -> bool {
    false
}

/// There is no such limit here.
pub fn survive_file_limit() {}

/// Whether more text can be written to a stream without waiting for its reader; not known here.
pub fn takes_text<T>(_stream: &T) -> bool {
    true
}

/// Ends the process as the signal does where nobody handles it.
pub fn die_of(signal: Signal) {
    if let Some((_, number)) = NUMBERS.iter().find(|(known, _)| *known == signal) {
        // It fails for signals that nobody can handle, which are not among these.
        let _ = low_level::emulate_default_handler(*number);
    }
}

/// Whether the terminal sends Ctrl-C to our children as well. A console sends it to all its
/// processes.
pub fn in_foreground() -> bool {
    true
}

/// Columns and rows of the terminal on standard error, if there is one and it knows.
pub fn error_terminal() -> Option<(usize, usize)> {
    crossterm::terminal::size().ok().map(|(columns, rows)| (columns.into(), rows.into()))
}
