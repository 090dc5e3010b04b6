//! What all stages of a recording share.

use super::{
    agent::Agent, define::Definitions, frames::Frames, held::Held, output::Output, sources,
    statistics::Statistics, target::Target, waiting::Waiting, window::Window,
};
use crate::{Progress, StopHandle};
use session::{SessionInfo, SessionRecord, ThreadId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How the agent's own threads are named.
pub(super) const OWN_THREADS: &str = "clrscope-";

/// What all stages read from and write to.
pub(super) struct Context {
    pub target: Target,
    pub agent: Agent,
    pub info: SessionInfo,
    pub window: Window,
    pub definitions: Definitions,
    pub frames: Frames,
    /// Samples that wait for the agent.
    pub waiting: Waiting,
    /// Samples that are written once those of all sources have come.
    pub held: Held,
    /// What sources remember.
    pub sources: sources::States,
    pub output: Output,
    pub statistics: Statistics,
    pub stop: StopHandle,
    pub progress: Arc<Mutex<Progress>>,
}

impl Context {
    /// Whether a profiler was asked for.
    pub fn runs(&self, profiler: &str) -> bool {
        self.info.profilers.iter().any(|run| run.id == profiler)
    }

    /// What sources need to write rows.
    pub fn for_sources(&mut self) -> sources::Context<'_> {
        let Self { info, frames, definitions, target, sources: states, output, statistics, .. } =
            self;
        sources::Context { info, frames, definitions, target, states, output, statistics }
    }

    /// How far the recording is, for those who watch it.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is being done now.
    pub fn announce(&self, what: &str) {
        self.progress().stage = what.to_owned();
    }

    /// See [`Statistics::count`].
    pub fn count(&mut self, profiler: &'static str, more: u64) {
        self.statistics.count(profiler, more);
    }

    /// See [`Statistics::dropped`].
    pub fn dropped(&mut self, reason: &'static str, more: u64) {
        self.statistics.dropped(reason, more);
    }

    /// See [`Output::note`].
    pub fn note(&mut self, message: String) {
        self.output.note(message);
    }

    /// Writes a record and the definitions that it uses.
    pub fn write(&mut self, record: &SessionRecord) {
        self.output.write_definitions(&mut self.definitions);
        self.output.write(record);
    }

    /// Writes the samples up to a time, in order.
    pub fn write_samples(&mut self, until: u64) {
        // Samples that wait for the agent hold back those after them, so that all come in order.
        let until = self.waiting.first_cpu().map_or(until, |time| time.min(until));
        let batches = self.held.take(&mut self.frames, &mut self.definitions, until);
        self.output.write_definitions(&mut self.definitions);
        batches.iter().for_each(|batch| self.output.write(batch));
    }

    /// The thread with this id on this machine.
    pub fn thread(&mut self, os_tid: u32) -> ThreadId {
        let target = &self.target;
        self.definitions.thread(os_tid, || target.thread_name(os_tid))
    }

    /// The same, which may have ended a moment ago.
    pub fn thread_or_ended(&mut self, os_tid: u32) -> ThreadId {
        let target = &self.target;
        self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid))
    }

    /// Whether a thread is the agent's: those are in the costs of the observation, and in nothing
    /// else.
    pub fn is_own_thread(&self, os_tid: u32) -> bool {
        self.definitions.thread_name(os_tid).is_some_and(|name| name.starts_with(OWN_THREADS))
    }

    /// The runtime has begun to use a thread.
    pub fn thread_started(&mut self, thread: wire::ThreadStarted) {
        let os_tid = self.target.host_tid(thread.os_tid);
        if let Some(time) = thread.time {
            self.definitions.thread_begins(os_tid, time);
        }
        self.thread(os_tid);
        self.definitions.update_thread(os_tid, |known| {
            known.managed = true;
            known.started = known.started.or(thread.time);
            known.name = thread.name.or(known.name.take());
        });
    }

    /// A thread has got a name.
    pub fn thread_named(&mut self, inner: u32, name: String) {
        let os_tid = self.target.host_tid(inner);
        self.definitions.update_thread(os_tid, |thread| thread.name = Some(name));
    }

    /// Code was freed; other code may come to be there.
    pub fn code_freed(&mut self, start: u64) {
        self.frames.freed(start);
        self.waiting.code_freed();
    }

    /// Asks the agent for what waiting samples need and was not asked for yet.
    pub fn ask(&mut self) {
        for message in self.waiting.messages() {
            if self.agent.closed || self.agent.link.send(&message).is_err() {
                break;
            }
        }
    }
}
