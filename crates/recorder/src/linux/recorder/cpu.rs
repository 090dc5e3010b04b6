//! Samples of threads that run.

use super::*;

/// How long, in nanoseconds, samples that are reported as lost may be of the time before the
/// recording.
const LOST_BEFORE: u64 = 100_000_000;

/// How the note on deep stacks begins.
const DEEP_STACKS: &str = "many stacks were deeper than what was copied of them";

impl Recorder {
    pub(super) fn take_cpu(&mut self, limit: Duration) {
        let lost = self.drain_cpu(limit);
        // The kernel reports what was lost with the next sample, and a ring that was just emptied
        // is not full so soon.
        if now().saturating_sub(self.window.start) > LOST_BEFORE {
            lost.into_iter().for_each(|(reason, count)| self.drop_sample(reason, count));
        }
        self.ask();
    }

    /// Takes what there is, and says what was lost.
    pub(super) fn drain_cpu(&mut self, limit: Duration) -> Vec<(&'static str, u64)> {
        let mut taken = Vec::new();
        let lost = self.sources.cpu.take(limit, &mut taken);
        let grown = self.sources.cpu.grow(&mut taken);
        for taken in taken {
            self.taken(taken);
        }
        if let Some(bytes) = grown {
            let before = self.notes.iter().position(|note| note.starts_with(DEEP_STACKS));
            before.map(|index| self.notes.remove(index));
            self.note(format!("{DEEP_STACKS}: {} KB are copied now", bytes >> 10));
        }
        lost
    }

    /// Asks the agent for what waiting samples need and nobody asked for yet.
    pub(super) fn ask(&mut self) {
        let mut questions = self.waiting.questions();
        let (executed, guessed) = (&mut questions.executed, &mut questions.guessed);
        while !(self.closed || executed.is_empty() && guessed.is_empty()) {
            let part =
                |all: &mut Vec<u64>| all.split_off(all.len().saturating_sub(Control::MAX_RESOLVE));
            let message = Control::Resolve { executed: part(executed), guessed: part(guessed) };
            if self.sources.link.send(&message).is_err() {
                break;
            }
        }
    }

    pub(super) fn taken(&mut self, taken: Taken) {
        match taken {
            Taken::Sample(mut sample) => {
                let Some(weight) = self.window.weight(sample.time, sample.weight) else { return };
                sample.weight = weight;
                if self.sources.cpu.has_inner_tids() {
                    sample.os_tid = self.sources.target.host_tid(sample.os_tid);
                }
                self.rate.sample(self.sources.target.pid, sample.os_tid, sample.time);
                self.sample(Box::new(sample), true);
            }
            Taken::Named { os_tid, name } => {
                if self.definitions.thread_name(os_tid).is_none() {
                    self.definitions.update_thread(os_tid, |thread| thread.name = Some(name));
                }
            }
            Taken::Ended { os_tid, time } => self.definitions.end_thread(os_tid, time),
            Taken::Mapped(mapping) => self.frames.mapped(mapping),
            Taken::Replaced => self.frames.replaced(),
        }
    }

    pub(super) fn sample(&mut self, sample: Box<TakenSample>, ask: bool) {
        match self.frames.unwind(&mut self.definitions, &sample, ask && !self.closed) {
            Unwound::Needs(needs) => {
                if !self.waiting.push(WaitingSample::Cpu(sample), needs.into()) {
                    self.drop_sample("no room while the agent resolved addresses", 1);
                }
            }
            Unwound::Stack { stack, truncated, runtime_leaf } => {
                self.ready_cpu(&sample, stack, truncated, runtime_leaf);
            }
        }
    }

    pub(super) fn ready_cpu(
        &mut self,
        sample: &TakenSample,
        stack: StackId,
        truncated: bool,
        runtime_leaf: bool,
    ) {
        if truncated {
            self.sources.cpu.was_cut();
        }
        let os_tid = sample.os_tid;
        let target = &self.sources.target;
        let thread = self.definitions.thread(os_tid, || target.thread_name(os_tid));
        // Our own threads are in the costs of the observation, not in the profile.
        if self.definitions.thread_name(os_tid).is_some_and(|name| name.starts_with(OWN_THREADS)) {
            return;
        }
        let state = ThreadState::Running;
        let (time, weight) = (sample.time, sample.weight);
        self.running.ran(thread, RunningStack { time, stack, truncated, runtime_leaf });
        // The engine may run for other profilers alone.
        if self.runs("cpu") {
            self.cpu.push(PendingSample {
                time,
                os_tid,
                thread,
                stack,
                weight,
                state,
                truncated,
                runtime_leaf,
                near: 0,
            });
            self.cpu_sample_kept();
        }
    }

    pub(super) fn cpu_sample_kept(&mut self) {
        self.count("cpu", 1);
        if self.timings.attach_to_first_sample.is_none() {
            let requested = self.sources.requested;
            self.timings.attach_to_first_sample =
                requested.map(|at| Duration::from_nanos(now().saturating_sub(at)));
        }
    }

    /// Hands on the samples whose addresses are known by now, all of them if `all` is set, and asks
    /// about those that are not.
    pub(super) fn resolve(&mut self, all: bool) {
        let all = all || self.closed;
        for Released { sample, late } in self.waiting.release(&mut self.frames, all) {
            match sample {
                WaitingSample::Cpu(sample) => self.sample(sample, !late),
                WaitingSample::Blocked(stack) => self.unwind_blocked(stack, !late),
                WaitingSample::Event(sample) => self.event_samples.ready(sample),
            }
        }
        self.ask();
    }

    /// A CPU sample whose stack the runtime has walked.
    pub(super) fn walked_sample(&mut self, sample: &wire::CpuSample) {
        let Some(weight) = self.window.weight(sample.time, sample.cpu) else { return };
        let os_tid = self.sources.target.host_tid(sample.os_tid);
        let target = &self.sources.target;
        self.rate.sample(target.pid, os_tid, sample.time);
        let thread = self.definitions.thread(os_tid, || target.thread_name(os_tid));
        let (stack, truncated) = self.frames.walked(&mut self.definitions, Some(sample.stack));
        self.cpu.push(PendingSample {
            time: sample.time,
            os_tid,
            thread,
            stack,
            weight,
            state: ThreadState::Running,
            truncated,
            runtime_leaf: false,
            near: 0,
        });
        self.cpu_sample_kept();
    }

    /// The agent has made a ring for samples that it takes inside the process.
    pub(super) fn sample_ring(&mut self, layout: wire::ring::Layout, descriptor: Option<OwnedFd>) {
        let gave_way = self.sources.cpu.engine == CpuEngine::KernelRing;
        let error = match descriptor {
            Some(descriptor) => self.sources.cpu.share(descriptor, layout).err(),
            None => Some("its descriptor is missing".to_owned()),
        };
        match error {
            Some(error) => self.note(format!("the agent's sample ring cannot be read: {error}")),
            None if gave_way && self.runs("cpu") => self.write_engine(),
            None => {}
        }
    }

    /// The agent cannot take samples as it was asked to.
    pub(super) fn engine_fallback(&mut self, reason: String) {
        if self.runs("cpu")
            && self.sources.engine == EngineChoice::Signals
            && !self.sources.cpu.is_shared()
        {
            self.refused.get_or_insert(RecordError::Engine { engine: "signals", reason });
            return;
        }
        self.sources.cpu.walk_instead(&reason);
        // The agent says by itself what that means for those that only need the stacks of
        // running threads.
        if self.runs("cpu") {
            self.note(format!("CPU samples are taken by {}", self.sources.cpu.description()));
            self.write_engine();
        }
    }

    /// Writes by what CPU samples are taken from now on.
    pub(super) fn write_engine(&mut self) {
        let engine = self.sources.cpu.description().to_owned();
        self.write(&SessionRecord::Engine { profiler: "cpu".to_owned(), engine });
    }
}
