//! The end of a recording.

use super::*;

/// How long the agent may take to say goodbye, and then to detach.
const BYE_LIMIT: Duration = Duration::from_secs(6);

/// How long a recording that somebody has stopped waits for the runtime to unload the agent, which
/// has stopped already: who presses Ctrl-C waits for the end.
const INTERRUPTED_LIMIT: Duration = Duration::from_secs(1);

/// The message where it takes longer.
const UNLOADS: &str = "the agent has stopped; the runtime has not unloaded it yet, and does so by \
    itself";

/// How long it may take in a process that runs, where the agent reverts instrumented methods
/// before: there may be tens of thousands.
const PUT_BACK_LIMIT: Duration = Duration::from_secs(60);

/// The message about an agent that cannot detach.
const STAYS: &str = "the agent remains loaded, idle, because another profiler has detached from \
    this process in a way after which notification-only profilers can no longer detach";

/// The message about an agent that has set hooks.
const HOOKED: &str = "the agent remains loaded until the process ends, because the runtime never \
    removes its hooks, nor what transitions and exact-allocations request; they do nothing any \
    more";

/// The message about a resident agent, which takes the next snapshots.
const RESIDENT: &str = "the agent remains loaded until the process ends, idle, and takes the next \
    heap snapshots: many were taken in this process, and no further profiler slot of the runtime \
    is used up for one. Until the process is restarted, its full collections are blocking, because \
    the runtime makes no background collections meanwhile";

/// How long the exit code of a process that has ended may take to arrive.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

impl Recorder {
    /// The exit code of a launched command that has ended. The thread that waits for the command
    /// sets it.
    pub(super) fn exit_code(&self, reason: EndReason) -> Option<i32> {
        let told =
            self.sources.exit_code.as_ref().filter(|_| reason == EndReason::ProcessExited)?;
        let deadline = Instant::now() + EXIT_LIMIT;
        while told.get().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        told.get().copied()
    }

    pub(super) fn finish(mut self) -> Result<SessionSummary, RecordError> {
        self.stage("finishing");
        self.rate.read(self.sources.target.pid);
        self.close_window();
        self.take_last_samples();
        self.take_last_events();
        if !self.closed {
            self.detach();
        }
        let reason = self.end_reason();
        self.settle_all(reason);
        self.every_second();
        let rate = self.sampling_rate();
        let exit_code = self.exit_code(reason);
        let end = SessionEnd { time: self.window.end(), reason, exit_code };
        self.write_rows();
        self.write(&SessionRecord::End(end));
        self.close_file()?;
        self.stage("done");
        Ok(self.summary(reason, rate))
    }

    /// Stops the CPU engine. What was sampled deserves its names: a last chance for the agent to
    /// resolve them.
    pub(super) fn take_last_samples(&mut self) {
        self.take_cpu(Duration::ZERO);
        self.sources.cpu.stop();
        let deadline = Instant::now() + RESOLVE_LIMIT;
        let waits =
            |recorder: &Self| recorder.waiting.holds_cpu() || !recorder.blocked.is_settled();
        while waits(self) && !self.closed && self.bye.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            self.take_agent();
            self.resolve(false);
            self.settle_ticks();
        }
    }

    /// Ends the EventPipe sessions, and resolves what came last.
    pub(super) fn take_last_events(&mut self) {
        let mut rest = Vec::new();
        for events in &mut self.sources.events {
            events.finish(&mut rest);
        }
        if let Some(allocations) = &mut self.sources.allocations {
            allocations.finish(&mut rest);
        }
        for event in rest {
            self.event(event);
        }
        let deadline = Instant::now() + RESOLVE_LIMIT;
        self.resolve(false);
        while self.waiting.holds_events()
            && !self.closed
            && self.bye.is_none()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(2));
            self.take_agent();
            self.resolve(false);
        }
    }

    /// Asks the agent to detach, and waits until it is unloaded. It says goodbye, closes, and asks
    /// the runtime to detach it.
    pub(super) fn detach(&mut self) {
        let runs = self.bye.is_none()
            && self.sources.target.is_alive()
            && !self.sources.target.is_stopped();
        self.before_detach.take().filter(|_| runs).into_iter().for_each(|act| act());
        let asked = self.bye.is_none().then(Instant::now);
        if asked.is_some() {
            let _ = self.sources.link.send(&Control::Stop);
        }
        let begun = Instant::now();
        let goes_on = |recorder: &Self| match begun.elapsed() {
            waited if waited < BYE_LIMIT => true,
            waited => {
                waited < PUT_BACK_LIMIT
                    && recorder.runs("trace")
                    && !recorder.sources.target.is_stopped()
            }
        };
        while !self.closed && goes_on(self) {
            self.take_agent();
            std::thread::sleep(Duration::from_millis(2));
        }
        if !self.closed {
            self.note(
                "the agent did not confirm that it has detached; it detaches when clrscope ends"
                    .into(),
            );
        } else if let (Some(asked), Some(ByeReason::Stopped)) = (asked, self.bye) {
            // The runtime checks only now and then whether the profiler can detach.
            let limit =
                if self.sources.stop.is_stopped() { INTERRUPTED_LIMIT } else { UNLOAD_LIMIT };
            let left = self.sources.target.wait_unloaded(&self.sources.library, limit);
            self.timings.detach = left.map(|()| asked.elapsed());
            if left.is_none() {
                self.note(UNLOADS.into());
            } else if !self.sources.target.is_alive() {
                self.note("the process ended while the agent was about to detach".into());
            }
        }
    }

    /// Why the recording ended, by the agent's goodbye. Notes why the agent stays, if it does.
    pub(super) fn end_reason(&mut self) -> EndReason {
        match self.bye {
            Some(ByeReason::Shutdown) => return EndReason::ProcessExited,
            // The agent itself has reported why it stays.
            Some(ByeReason::Stopped | ByeReason::Handler) => {}
            Some(ByeReason::Stays) => self.note(STAYS.into()),
            // This was reported before where methods are traced, and where the agent was resident
            // already.
            Some(ByeReason::Hooked) if self.runs("trace") || self.sources.stays => {}
            Some(ByeReason::Hooked) => self.note(HOOKED.into()),
            Some(ByeReason::Resident) => self.note(RESIDENT.into()),
            Some(ByeReason::Failed | ByeReason::Skipped | ByeReason::Refused) => {
                return EndReason::AgentLost;
            }
            None => {
                self.sources.target.wait_exit(Duration::from_millis(300));
                return match (self.sources.target.is_alive(), self.closed) {
                    (false, _) => EndReason::ProcessExited,
                    (true, true) => EndReason::AgentLost,
                    (true, false) => EndReason::Stopped,
                };
            }
        }
        EndReason::Stopped
    }

    /// Writes everything that has waited for something: nothing more comes.
    pub(super) fn settle_all(&mut self, reason: EndReason) {
        self.close_snapshot(match reason {
            EndReason::ProcessExited => "the process ended",
            _ if self.notes.iter().any(|note| note == STAYS_STOPPED) => STAYS_STOPPED,
            _ if self.closed => "the connection to the agent ended",
            _ => "the recording was stopped",
        });
        self.resolve(true);
        self.settle_event_samples();
        self.settle_ticks();
        self.settle_exceptions(true);
        if reason != EndReason::ProcessExited {
            self.definitions.confirm_ends(u64::MAX);
        }
        self.emit(u64::MAX);
        if let Err(why) = self.sources.cpu.wait_for_costs() {
            self.note(why.to_owned());
        }
    }

    /// Closes the session file; removes it where there was nothing to record.
    pub(super) fn close_file(&mut self) -> Result<(), RecordError> {
        let path = self.sources.path.clone().unwrap_or_default();
        let closed = match (self.failure.take(), self.sources.out.0.take()) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(()),
            (None, Some(writer)) => writer.finish().and_then(|mut file| Ok(file.flush()?)),
        };
        closed.map_err(|source| RecordError::Output { path: path.clone(), source })?;
        if let Some(refused) = self.refused.take() {
            let _ = std::fs::remove_file(path);
            return Err(refused);
        }
        Ok(())
    }

    pub(super) fn summary(self, reason: EndReason, rate: Option<SamplingRate>) -> SessionSummary {
        let mut samples: Vec<(&'static str, u64)> =
            self.counts.iter().map(|(id, count)| (*id, *count)).collect();
        samples.sort_unstable();
        SessionSummary {
            pid: self.sources.info.pid,
            process_name: self.sources.info.process_name.clone(),
            command_line: self.sources.info.command_line.clone(),
            path: self.sources.path.clone(),
            duration: Duration::from_nanos(self.window.end() - self.window.start),
            engine: if self.runs("cpu") {
                self.sources.cpu.description().to_owned()
            } else {
                String::new()
            },
            rate,
            samples,
            resources: self.resources(),
            observer: self.observer,
            notes: self.notes,
            end: reason,
            timings: self.timings,
        }
    }
}
