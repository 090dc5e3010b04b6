//! Systems on which recording is not built yet.

use crate::{
    AgentFile, CodeReader, LaunchCommand, Progress, RecordError, RecordOptions, RuleHandle,
    StopHandle, Summary, ThreadDump,
};
use diagnostics::DotnetProcess;
use session::LiveStream;
use std::{convert::Infallible, time::Duration};

/// A recording: there can be none here.
#[derive(Debug)]
pub struct Recording(Infallible);

/// Refuses: recording is not built for this system.
pub fn attach(_process: &DotnetProcess, _options: RecordOptions) -> Result<Recording, RecordError> {
    Err(RecordError::Unsupported(std::env::consts::OS))
}

/// Refuses: recording is not built for this system.
pub fn launch(
    _command: impl Into<LaunchCommand>,
    _options: RecordOptions,
) -> Result<Recording, RecordError> {
    Err(RecordError::Unsupported(std::env::consts::OS))
}

/// An agent that has to detach: there can be none here.
#[derive(Debug)]
pub struct Departure(Infallible);

/// Refuses: recording is not built for this system.
pub fn dump(
    _process: &DotnetProcess,
    _agent: AgentFile,
) -> Result<(ThreadDump, Departure), RecordError> {
    Err(RecordError::Unsupported(std::env::consts::OS))
}

/// Refuses: recording is not built for this system.
pub fn dump_outside(_pid: u32, _code: &mut dyn CodeReader) -> Result<ThreadDump, RecordError> {
    Err(RecordError::Unsupported(std::env::consts::OS))
}

impl Departure {
    /// Has the agent detach.
    pub fn finish(self) -> Option<String> {
        match self.0 {}
    }
}

impl Recording {
    /// A handle that ends the recording.
    pub fn stop_handle(&self) -> StopHandle {
        match self.0 {}
    }

    /// A handle that replaces what is instrumented.
    pub fn rule_handle(&self) -> RuleHandle {
        match self.0 {}
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        match self.0 {}
    }

    /// Tells how far it is, also from another thread.
    pub fn progress_reader(&self) -> impl Fn() -> Progress + Send + use<> {
        let never = self.0;
        move || match never {}
    }

    /// The records as they are made.
    pub fn subscribe(&mut self) -> Option<LiveStream> {
        match self.0 {}
    }

    /// Process id of a launched command while it runs.
    pub fn command_pid(&self) -> Option<u32> {
        match self.0 {}
    }

    /// Whether [`Self::wait`] would return at once.
    pub fn is_finished(&self) -> bool {
        match self.0 {}
    }

    /// Waits until [`Self::wait`] would return at once, or until time is up. Whether it would.
    pub fn finishes_within(&self, _limit: Duration) -> bool {
        match self.0 {}
    }

    /// Waits for the end.
    pub fn wait(self) -> Result<Summary, RecordError> {
        match self.0 {}
    }
}
