//! CPU samples: from the ring, or from the agent, to the session.

use super::stage::Stage;
use crate::{
    EngineChoice, RecordError, StackEnd,
    linux::{
        clock::now,
        context::Context,
        cpu::{CpuSource, Taken, TakenSample},
        frames::{Copied, Unwound},
        held::HeldSample,
        rate::{self, RateMeter},
        running::RunningStack,
        waiting::WaitingSample,
    },
};
use session::{SamplingRate, SessionRecord, StackId};
use std::{os::fd::OwnedFd, time::Duration};
use wire::{Control, CpuEngine};

/// How long, in nanoseconds, samples that are reported as lost may be of the time before the
/// recording.
const LOST_BEFORE: u64 = 100_000_000;

/// How the note on deep stacks begins.
const DEEP_STACKS: &str = "many stacks were deeper than what was copied of them";

/// The profiler `cpu`, and the stacks of running threads for others.
pub(in crate::linux) struct Cpu {
    source: CpuSource,
    /// What was asked for; the source says what is used.
    choice: EngineChoice,
    rate: RateMeter,
    /// When the runtime was asked to load the agent; `None` where it did so as it started.
    requested: Option<u64>,
    /// Why there is nothing to record.
    refused: Option<RecordError>,
}

impl Cpu {
    pub fn new(source: CpuSource, choice: EngineChoice, requested: Option<u64>) -> Self {
        Self { source, choice, rate: RateMeter::default(), requested, refused: None }
    }

    /// Whether the first sample is still to come.
    pub fn awaits_first(&self, cx: &Context) -> bool {
        self.requested.is_some() && cx.statistics.timings.attach_to_first_sample.is_none()
    }

    /// Why there is nothing to record, if so.
    pub fn refused(&mut self) -> &mut Option<RecordError> {
        &mut self.refused
    }

    /// How samples are taken, for a reader; empty where only other profilers need them.
    pub fn engine(&self, cx: &Context) -> String {
        if cx.runs("cpu") { self.source.description().to_owned() } else { String::new() }
    }

    /// The recording begins: what was lost before is no loss.
    pub fn begin(&mut self, cx: &mut Context) {
        self.drain(cx, Duration::ZERO);
        self.source.watch_switches();
    }

    /// Waits up to `limit`, then takes what there is.
    pub fn take(&mut self, cx: &mut Context, limit: Duration) {
        let lost = self.drain(cx, limit);
        // The kernel reports what was lost with the next sample, and a ring that was just emptied
        // is not full so soon.
        if now().saturating_sub(cx.window.start) > LOST_BEFORE {
            lost.into_iter().for_each(|(reason, count)| cx.dropped(reason, count));
        }
        cx.ask();
    }

    /// Takes what there is, and says what was lost.
    fn drain(&mut self, cx: &mut Context, limit: Duration) -> Vec<(&'static str, u64)> {
        let mut taken = Vec::new();
        let lost = self.source.take(limit, &mut taken);
        let grown = self.source.grow(&mut taken);
        for taken in taken {
            self.taken(cx, taken);
        }
        if let Some(bytes) = grown {
            cx.output.forget_note(DEEP_STACKS);
            cx.note(format!("{DEEP_STACKS}: {} KB are copied now", bytes >> 10));
        }
        lost
    }

    fn taken(&mut self, cx: &mut Context, taken: Taken) {
        match taken {
            Taken::Sample(mut sample) => {
                let Some(weight) = cx.window.weight(sample.time, sample.weight) else { return };
                sample.weight = weight;
                if self.source.has_inner_tids() {
                    sample.os_tid = cx.target.host_tid(sample.os_tid);
                }
                self.rate.sample(cx.target.pid, sample.os_tid, sample.time);
                self.unwind(cx, Box::new(Copied::new(sample)), true);
            }
            Taken::Named { os_tid, name } => {
                if cx.definitions.thread_name(os_tid).is_none() {
                    cx.definitions.update_thread(os_tid, |thread| thread.name = Some(name));
                }
            }
            Taken::Ended { os_tid, time } => cx.definitions.end_thread(os_tid, time),
            Taken::Mapped(mapping) => cx.frames.mapped(mapping),
            Taken::Replaced => cx.frames.replaced(),
        }
    }

    /// Finds the stack of a sample, from where that stopped before. `ask` is off where the agent
    /// cannot say more.
    pub fn unwind(&mut self, cx: &mut Context, mut copied: Box<Copied<TakenSample>>, ask: bool) {
        match cx.frames.unwind(&mut cx.definitions, &mut copied, ask && !cx.agent.closed) {
            Unwound::Needs(needs) => {
                if !cx.waiting.push(WaitingSample::Cpu(copied), needs.into()) {
                    cx.dropped("no room while the agent resolved addresses", 1);
                }
            }
            Unwound::Stack { stack, end, runtime_leaf } => {
                let truncated = end == StackEnd::Truncated;
                self.unwound(cx, &copied.sample, stack, truncated, runtime_leaf);
            }
        }
    }

    fn unwound(
        &mut self,
        cx: &mut Context,
        sample: &TakenSample,
        stack: StackId,
        truncated: bool,
        runtime_leaf: bool,
    ) {
        if truncated {
            self.source.was_cut();
        }
        let (os_tid, time) = (sample.os_tid, sample.time);
        let thread = cx.thread(os_tid);
        if cx.is_own_thread(os_tid) {
            return;
        }
        let stack = RunningStack { time, stack, truncated, runtime_leaf };
        cx.held.running.ran(thread, stack);
        // The engine may run for other profilers alone.
        if cx.runs("cpu") {
            self.keep(cx, HeldSample::running(os_tid, thread, sample.weight, stack));
        }
    }

    fn keep(&mut self, cx: &mut Context, sample: HeldSample) {
        cx.held.add("cpu", SessionRecord::CpuSamples, [sample]);
        cx.count("cpu", 1);
        if self.awaits_first(cx) {
            let took = self.requested.map(|at| Duration::from_nanos(now().saturating_sub(at)));
            cx.statistics.timings.attach_to_first_sample = took;
        }
    }

    /// A sample whose stack the runtime has walked.
    pub fn walked(&mut self, cx: &mut Context, sample: &wire::CpuSample) {
        let Some(weight) = cx.window.weight(sample.time, sample.cpu) else { return };
        let os_tid = cx.target.host_tid(sample.os_tid);
        self.rate.sample(cx.target.pid, os_tid, sample.time);
        let thread = cx.thread(os_tid);
        let (stack, truncated) = cx.frames.walked(&mut cx.definitions, Some(sample.stack));
        let stack = RunningStack { time: sample.time, stack, truncated, runtime_leaf: false };
        self.keep(cx, HeldSample::running(os_tid, thread, weight, stack));
    }

    /// The agent has made a ring for samples that it takes inside the process.
    pub fn ring(
        &mut self,
        cx: &mut Context,
        layout: wire::ring::Layout,
        descriptor: Option<OwnedFd>,
    ) {
        let gave_way = self.source.engine == CpuEngine::KernelRing;
        let error = match descriptor {
            Some(descriptor) => self.source.share(descriptor, layout).err(),
            None => Some("its descriptor is missing".to_owned()),
        };
        match error {
            Some(error) => cx.note(format!("the agent's sample ring cannot be read: {error}")),
            None if gave_way && cx.runs("cpu") => self.write_engine(cx),
            None => {}
        }
    }

    /// The agent cannot take samples as it was asked to.
    pub fn fallback(&mut self, cx: &mut Context, reason: String) {
        if cx.runs("cpu") && self.choice == EngineChoice::Signals && !self.source.is_shared() {
            self.refused.get_or_insert(RecordError::Engine { engine: "signals", reason });
            return;
        }
        self.source.walk_instead(&reason);
        // The agent says by itself what that means for those that only need the stacks of
        // running threads.
        if cx.runs("cpu") {
            cx.note(format!("CPU samples are taken by {}", self.source.description()));
            self.write_engine(cx);
        }
    }

    /// Writes by what CPU samples are taken from now on.
    fn write_engine(&mut self, cx: &mut Context) {
        let engine = self.source.description().to_owned();
        cx.write(&SessionRecord::Engine { profiler: "cpu".to_owned(), engine });
    }

    /// Reads how much CPU time threads have used, while the process lives.
    pub fn read_rate(&mut self, cx: &Context) {
        self.rate.read(cx.target.pid);
    }

    /// How often threads have been sampled so far; `None` where none of them is.
    pub fn sampling_rate(&self, cx: &Context) -> Option<SamplingRate> {
        let limits = || self.source.limits(cx.statistics.agent());
        cx.runs("cpu").then(|| rate::sampling_rate(&self.rate, self.source.rate_hz(), limits()))
    }

    /// What samples cost the target, beside the agent.
    pub fn cost(&mut self, cx: &Context) -> Duration {
        self.source.cost(&cx.statistics.agent().counters)
    }

    /// Takes the last samples, and stops.
    pub fn stop(&mut self, cx: &mut Context) {
        self.take(cx, Duration::ZERO);
        self.source.stop();
    }
}

impl Stage for Cpu {
    fn settle(&mut self, cx: &mut Context, all: bool) {
        if all && let Err(why) = self.source.wait_for_costs() {
            cx.note(why.to_owned());
        }
    }

    fn second(&mut self, cx: &mut Context) {
        if let Some(why) = self.source.costs_too_much() {
            self.source.give_up(&why);
            cx.note(format!("{why}: samples are taken from inside the process from now on"));
            // A recording whose connection is gone ends soon.
            let _ = cx.agent.link.send(&Control::SampleInside);
        }
        if let Some(rate) = self.sampling_rate(cx) {
            cx.write(&SessionRecord::SamplingRate(rate));
        }
    }
}
