//! Recording on Linux.

mod allocation_events;
mod attach;
mod calls;
mod cpu;
mod define;
mod door;
mod event_names;
mod event_samples;
mod events;
mod frames;
mod launch;
mod link;
mod looks;
mod names;
mod place;
mod pump;
mod start;
mod survivors;
mod target;
mod waits;

pub use attach::attach;
pub use launch::launch;

use crate::{Progress, RecordError, RuleHandle, StopHandle, Summary};
use session::LiveStream;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread::JoinHandle,
};

/// A recording that goes on in the background.
#[derive(Debug)]
pub struct Recording {
    stop: StopHandle,
    rules: RuleHandle,
    progress: Arc<Mutex<Progress>>,
    live: Option<LiveStream>,
    worker: JoinHandle<Result<Summary, RecordError>>,
    /// Process id of a launched command while it runs, else 0.
    command: Arc<AtomicU32>,
}

impl Recording {
    /// A handle that ends the recording. What was recorded is still written. A launched command goes on.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// A handle that replaces what is instrumented.
    pub fn rule_handle(&self) -> RuleHandle {
        self.rules.clone()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The records as they are made, where [`crate::RecordOptions::live`] asked for them. Given once.
    pub fn subscribe(&mut self) -> Option<LiveStream> {
        self.live.take()
    }

    /// Process id of a launched command while it runs.
    pub fn command_pid(&self) -> Option<u32> {
        Some(self.command.load(Ordering::Acquire)).filter(|pid| *pid != 0)
    }

    /// Whether [`Self::wait`] would return at once.
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Waits for the end: of the recording, and of a launched command too.
    pub fn wait(self) -> Result<Summary, RecordError> {
        // A subscriber that nobody reads must not hold the recording back.
        drop(self.live);
        match self.worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
