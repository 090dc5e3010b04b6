//! The end of a recording.

use super::{ROUND, Recorder};
use crate::{
    RecordError, SessionSummary,
    linux::{
        clock::now,
        reattach::UNLOAD_LIMIT,
        stages::{Exceptions, Trace},
    },
};
use session::{EndReason, SamplingRate, SessionEnd, SessionRecord};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use wire::{ByeReason, Control};

/// How long the agent may take to write its last sums.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// The message where it takes longer.
const SUMS_MISSING: &str = "the process did not answer at the end of the recording: exceptions of \
    its last second are not counted";

/// How long the agent may take to say what code is at the addresses of the last samples.
const RESOLVE_LIMIT: Duration = Duration::from_secs(2);

/// How long the agent may take to say goodbye, and then to detach.
pub(in crate::linux) const BYE_LIMIT: Duration = Duration::from_secs(6);

/// How long a recording that somebody has stopped waits for the runtime to unload the agent, which
/// has stopped already: who presses Ctrl-C waits for the end.
pub(in crate::linux) const INTERRUPTED_LIMIT: Duration = Duration::from_secs(1);

/// The message where it takes longer.
pub(in crate::linux) const UNLOADS: &str = "the agent has stopped; the runtime has not unloaded it yet, and does so by \
    itself";

/// How long it may take in a process that runs, where the agent reverts instrumented methods
/// before: there may be tens of thousands.
const PUT_BACK_LIMIT: Duration = Duration::from_secs(60);

/// The message about an agent that cannot detach.
pub(in crate::linux) const STAYS: &str = "the agent remains loaded, idle, because another profiler has detached from \
    this process in a way after which notification-only profilers can no longer detach";

/// The message about an agent that has set hooks.
const HOOKED: &str = "the agent remains loaded until the process ends, because the runtime never \
    removes its hooks, nor what transitions and exact-allocations request; they do nothing any \
    more";

/// The message where the runtime keeps a thread of the agent.
const KEPT: &str = "the agent has stopped, and remains loaded until the runtime releases its \
    thread: another tool (dotnet-trace, for example) is ending an event session of this process, \
    and its reader is slow or stopped";

/// The message about a resident agent, which takes the next snapshots.
const RESIDENT: &str = "the agent remains loaded until the process ends, idle, and takes the next \
    heap snapshots: many were taken in this process, and no further profiler slot of the runtime \
    is used up for one. Until the process is restarted, its full collections are blocking, because \
    the runtime makes no background collections meanwhile";

/// How long the exit code of a process that has ended may take to arrive.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

impl Recorder {
    /// Ends the recording and closes the session.
    pub(super) fn finish(mut self) -> Result<SessionSummary, RecordError> {
        self.cx.announce("finishing");
        self.stages.cpu.read_rate(&self.cx);
        self.close_window();
        self.take_last_samples();
        self.take_last_events();
        if !self.cx.agent.closed {
            self.detach();
        }
        let reason = self.end_reason();
        self.settle_all(reason);
        self.every_second();
        let rate = self.stages.cpu.sampling_rate(&self.cx);
        let exit_code = self.exit_code(reason);
        let end = SessionEnd { time: self.cx.window.end(), reason, exit_code };
        self.cx.output.write_rows(&mut self.cx.definitions);
        self.cx.write(&SessionRecord::End(end));
        self.cx.output.close(self.stages.cpu.refused().take())?;
        self.cx.announce("done");
        Ok(self.summary(reason, rate))
    }

    /// Ends the time that the recording is of, when the agent has written all that it counted in
    /// it.
    fn close_window(&mut self) {
        if !Exceptions::are_counted(&self.cx) || self.cx.agent.has_left() {
            // What comes of a process that has ended was counted before its end.
            return self.cx.window.close(now(), true);
        }
        // On a busy machine, the answer to the question at the beginning may come only now.
        let since = now();
        let flushed = |recorder: &Self| recorder.cx.agent.flushed.filter(|ended| *ended >= since);
        let asked =
            !self.cx.target.is_stopped() && self.cx.agent.link.send(&Control::Flush).is_ok();
        let deadline = Instant::now() + FLUSH_LIMIT;
        while asked
            && flushed(self).is_none()
            && !self.cx.agent.has_left()
            && Instant::now() < deadline
        {
            self.cx.agent.link.wait(ROUND);
            self.take_agent();
        }
        if flushed(self).is_none() && !self.cx.agent.has_left() {
            self.cx.note(SUMS_MISSING.into());
        }
        let end = flushed(self).unwrap_or_else(now);
        self.cx.window.close(end, self.cx.agent.has_left());
    }

    /// Stops the CPU engine. What was sampled deserves its names: a last chance for the agent to
    /// resolve them.
    fn take_last_samples(&mut self) {
        self.stages.cpu.stop(&mut self.cx);
        self.wait_while(|recorder| {
            recorder.cx.waiting.holds_cpu() || !recorder.stages.ticks.is_settled()
        });
    }

    /// Ends the EventPipe sessions, and resolves what came last.
    fn take_last_events(&mut self) {
        self.stages.events.stop(&mut self.cx);
        self.stages.settle(&mut self.cx, false);
        self.wait_while(|recorder| recorder.cx.waiting.holds_events());
    }

    /// Takes what the agent says while something waits for it, for a limited time.
    fn wait_while(&mut self, waits: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + RESOLVE_LIMIT;
        while waits(self) && !self.cx.agent.has_left() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            self.take_agent();
            self.stages.settle(&mut self.cx, false);
        }
    }

    /// Asks the agent to detach, and waits until it is unloaded. It says goodbye, closes, and asks
    /// the runtime to detach it.
    fn detach(&mut self) {
        let runs = self.cx.agent.bye.is_none()
            && self.cx.target.is_alive()
            && !self.cx.target.is_stopped();
        if let Some(act) = self.before_detach.take().filter(|_| runs) {
            act();
        }
        let asked = self.cx.agent.bye.is_none().then(Instant::now);
        if asked.is_some() {
            let _ = self.cx.agent.link.send(&Control::Stop);
        }
        let begun = Instant::now();
        let goes_on = |recorder: &Self| match begun.elapsed() {
            waited if waited < BYE_LIMIT => true,
            // It says goodbye when all is as it was; then only the connection is left to close.
            waited => {
                waited < PUT_BACK_LIMIT
                    && recorder.cx.agent.bye.is_none()
                    && Trace::runs(&recorder.cx)
                    && !recorder.cx.target.is_stopped()
            }
        };
        while !self.cx.agent.closed && goes_on(self) {
            self.take_agent();
            std::thread::sleep(Duration::from_millis(2));
        }
        if !self.cx.agent.closed {
            self.cx.note(
                "the agent did not confirm that it has detached; it detaches when clrscope ends"
                    .into(),
            );
        } else if let (Some(asked), Some(ByeReason::Stopped)) = (asked, self.cx.agent.bye) {
            // The runtime checks only now and then whether the profiler can detach.
            let limit = if self.cx.stop.is_stopped() { INTERRUPTED_LIMIT } else { UNLOAD_LIMIT };
            let left = self.cx.target.wait_unloaded(&self.library, limit);
            self.cx.statistics.timings.detach = left.map(|()| asked.elapsed());
            if left.is_none() {
                self.cx.note(UNLOADS.into());
            } else if !self.cx.target.is_alive() {
                self.cx.note("the process ended while the agent was about to detach".into());
            }
        }
    }

    /// Why the recording ended, by the agent's goodbye. Notes why the agent stays, if it does.
    fn end_reason(&mut self) -> EndReason {
        match self.cx.agent.bye {
            Some(ByeReason::Shutdown) => return EndReason::ProcessExited,
            // The agent itself has reported why it stays.
            Some(ByeReason::Stopped | ByeReason::Handler) => {}
            Some(ByeReason::Stays) => self.cx.note(STAYS.into()),
            // This was reported before where methods are traced, and where the agent was resident
            // already.
            Some(ByeReason::Hooked) if Trace::runs(&self.cx) || self.stays => {}
            Some(ByeReason::Hooked) => self.cx.note(HOOKED.into()),
            Some(ByeReason::Resident) => self.cx.note(RESIDENT.into()),
            Some(ByeReason::Kept) => self.cx.note(KEPT.into()),
            Some(ByeReason::Failed | ByeReason::Skipped | ByeReason::Refused) => {
                return EndReason::AgentLost;
            }
            None => {
                self.cx.target.wait_exit(Duration::from_millis(300));
                return match (self.cx.target.is_alive(), self.cx.agent.closed) {
                    (false, _) => EndReason::ProcessExited,
                    (true, true) => EndReason::AgentLost,
                    (true, false) => EndReason::Stopped,
                };
            }
        }
        EndReason::Stopped
    }

    /// Writes everything that has waited for something: nothing more comes.
    fn settle_all(&mut self, reason: EndReason) {
        let Self { cx, stages, .. } = self;
        stages.heap.finish(cx, reason);
        stages.settle(cx, true);
        if reason != EndReason::ProcessExited {
            cx.definitions.confirm_ends(u64::MAX);
        }
        self.write_samples(u64::MAX);
    }

    /// The exit code of a launched command that has ended. The thread that waits for the command
    /// sets it.
    fn exit_code(&self, reason: EndReason) -> Option<i32> {
        let told = self.exit_code.as_ref().filter(|_| reason == EndReason::ProcessExited)?;
        let deadline = Instant::now() + EXIT_LIMIT;
        while told.get().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        told.get().copied()
    }

    fn summary(self, reason: EndReason, rate: Option<SamplingRate>) -> SessionSummary {
        let Self { cx, stages, .. } = self;
        SessionSummary {
            pid: cx.info.pid,
            duration: Duration::from_nanos(cx.window.end() - cx.window.start),
            engine: stages.cpu.engine(&cx),
            rate,
            samples: cx.statistics.counts(),
            resources: cx.statistics.resources(cx.agent.bye.is_some()),
            observer: cx.statistics.observer().clone(),
            timings: cx.statistics.timings,
            notes: cx.output.notes().to_vec(),
            path: cx.output.path().map(Path::to_owned),
            process_name: cx.info.process_name,
            command_line: cx.info.command_line,
            end: reason,
        }
    }
}
