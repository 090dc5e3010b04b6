//! A recording that runs, as its owner sees it.

use crate::{Progress, RecordError, RuleHandle, StopHandle, Summary};
use session::LiveStream;
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::Duration,
};

/// A recording that runs in the background.
#[derive(Debug)]
pub struct Recording {
    pub(super) stop: StopHandle,
    pub(super) rules: RuleHandle,
    pub(super) progress: Arc<Mutex<Progress>>,
    pub(super) live: Option<LiveStream>,
    pub(super) worker: Worker,
    /// Process id of a launched command while it runs, else 0.
    pub(super) command: Arc<AtomicU32>,
}

/// The thread that records.
#[derive(Debug)]
pub(super) struct Worker {
    thread: JoinHandle<Result<Summary, RecordError>>,
    /// Nothing ever comes; it is closed when the thread ends.
    end: Receiver<Infallible>,
}

impl Worker {
    /// Starts it.
    pub fn start(
        name: &str,
        run: impl FnOnce() -> Result<Summary, RecordError> + Send + 'static,
    ) -> Result<Self, RecordError> {
        let (ends, end) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _ends = ends;
                run()
            })
            .map_err(|source| RecordError::Io {
                what: "starting the recording thread".into(),
                source,
            })?;
        Ok(Self { thread, end })
    }
}

impl Recording {
    /// A handle that ends the recording. What was recorded is still written. A launched command
    /// keeps running.
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

    /// Tells how far it is, also from another thread.
    pub fn progress_reader(&self) -> impl Fn() -> Progress + Send + use<> {
        let progress = Arc::clone(&self.progress);
        move || progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The records as they are made, where [`crate::RecordOptions::live`] asked for them. Given
    /// once.
    pub fn subscribe(&mut self) -> Option<LiveStream> {
        self.live.take()
    }

    /// Process id of a launched command while it runs.
    pub fn command_pid(&self) -> Option<u32> {
        Some(self.command.load(Ordering::Acquire)).filter(|pid| *pid != 0)
    }

    /// Whether [`Self::wait`] would return at once.
    pub fn is_finished(&self) -> bool {
        self.worker.thread.is_finished()
    }

    /// Waits until [`Self::wait`] would return at once, or until time is up. Whether it would.
    pub fn finishes_within(&self, limit: Duration) -> bool {
        !matches!(self.worker.end.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }

    /// Waits for the end: of the recording, and of a launched command too.
    pub fn wait(self) -> Result<Summary, RecordError> {
        // A subscriber that is not read must not hold the recording back.
        drop(self.live);
        match self.worker.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
