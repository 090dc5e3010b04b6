//! Signals that end clrscope. While it records, the first one ends the recording in order; else it
//! ends the program at once.

use crate::{
    console,
    exit::Code,
    os::{self, Signal, SignalWatch},
};
use recorder::StopHandle;
use std::{
    io,
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// How long the program may take to end after SIGTERM or SIGHUP, counted from the end of its
/// recording: a large report takes its time.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The same where standard output or error takes no more text: a terminal or pipe that nobody reads
/// would hold it for ever.
const STUCK_LIMIT: Duration = Duration::from_millis(600);

/// How long the orderly end may take after the second Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long loading the agent may continue after SIGTERM or SIGHUP. A process that does not answer
/// would hold the program for longer; the agent detaches by itself when nobody is connected.
const ATTACH_LIMIT: Duration = Duration::from_secs(3);

/// What signals end now.
static STATE: Mutex<State> = Mutex::new(State { recordings: 0, stop: None, first: None });

/// Signaled when no recording is left to end.
static OVER: Condvar = Condvar::new();

/// Installs the handlers once. They stay until the program ends: a library that removes its
/// handlers does not bring the default ones back.
static WATCH: OnceLock<SignalWatch> = OnceLock::new();

struct State {
    /// Recordings that were announced and are not over.
    recordings: u32,
    stop: Option<StopHandle>,
    /// The signal that ended the recording.
    first: Option<Signal>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, SIGINT, SIGTERM and SIGHUP end the recording in order. A second SIGINT ends
/// the program, as soon as that is done or takes too long.
#[derive(Debug)]
pub struct StopOnSignal(());

impl StopOnSignal {
    /// Watches from now on: a signal that comes while the agent is being loaded ends the recording
    /// as soon as it has begun.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn start() -> io::Result<Self> {
        if WATCH.get().is_none() {
            let watch = SignalWatch::start(
                &[Signal::Interrupt, Signal::Terminate, Signal::Hangup],
                on_signal,
            )?;
            // One more would have been made only by another thread at the same time; either will
            // do.
            let _ = WATCH.set(watch);
        }
        state().recordings += 1;
        Ok(Self(()))
    }

    /// What to stop from now on; at once, if a signal came before.
    pub fn set(&self, stop: StopHandle) {
        let mut state = state();
        if state.first.is_some() {
            stop.stop();
        }
        state.stop = Some(stop);
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        let mut state = state();
        state.recordings = state.recordings.saturating_sub(1);
        if state.recordings > 0 {
            return;
        }
        state.stop = None;
        OVER.notify_all();
        let polite = matches!(state.first, Some(Signal::Terminate | Signal::Hangup));
        drop(state);
        if polite {
            end_after(STUCK_LIMIT, || {
                !(os::takes_text(&io::stdout()) && os::takes_text(&io::stderr()))
            });
            end_after(END_LIMIT, || true);
        }
    }
}

/// Ends the program after some time if it is still there and `stuck` says so.
fn end_after(limit: Duration, stuck: impl FnOnce() -> bool + Send + 'static) {
    // Without that thread, only what is stuck keeps the program.
    drop(std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        std::thread::sleep(limit);
        if stuck() {
            std::process::exit(Code::Aborted.number().into());
        }
    }));
}

/// Whether a signal has asked the program to end.
pub fn requested() -> bool {
    state().first.is_some()
}

fn on_signal(signal: Signal) {
    let mut state = state();
    if state.recordings == 0 {
        drop(state);
        crate::top::terminal::restore();
        os::die_of(signal);
        return;
    }
    // A closed terminal may send SIGHUP twice, and service managers send it beside SIGTERM: only
    // Ctrl-C is impatience.
    if signal == Signal::Interrupt && state.first == Some(Signal::Interrupt) {
        let over = OVER.wait_timeout_while(state, PATIENCE, |state| state.recordings > 0);
        if over.unwrap_or_else(PoisonError::into_inner).0.recordings == 0 {
            return;
        }
        crate::top::terminal::restore();
        console::say(
            "\n\
                error: interrupted twice, ended before the recording did; the session file may be \
                cut short",
        );
        std::process::exit(Code::Aborted.number().into());
    }
    // The latest counts: Ctrl-C after a SIGTERM that takes long is a first Ctrl-C.
    state.first = Some(signal);
    match &state.stop {
        Some(stop) => stop.stop(),
        None if signal != Signal::Interrupt => {
            end_after(ATTACH_LIMIT, || {
                let state = self::state();
                state.recordings > 0 && state.stop.is_none()
            });
        }
        None => {}
    }
}
