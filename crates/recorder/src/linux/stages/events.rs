//! What the runtime says in its EventPipe sessions.

use super::Stage;
use crate::linux::{
    allocation_events::AllocationEvents,
    clock::now,
    context::Context,
    event_samples::{EventSample, EventSamples},
    events::{Events, FromEvents},
    waiting::{Needs, WaitingSample},
};
use nettrace::{
    counters::{self, Counted},
    locks::Contention,
    thread_pool,
};
use profilers::{
    counters::{CounterDef, CounterKind, CounterValue},
    gc::{Collection, Pause},
    jit::Lookups,
    loads::Unloaded,
    threadpool::{PoolChange, PoolEvent},
};
use std::sync::mpsc::Receiver;

/// What counters the thread pool has, and whose they are.
const POOL_COUNTERS: (&str, &str) = ("System.Runtime", "threadpool-");

/// The profilers whose data are events of the runtime.
pub(in crate::linux) struct EventPipe {
    sessions: Vec<Events>,
    /// Sessions for allocations, which are apart since they do not last.
    allocations: Option<AllocationEvents>,
    samples: EventSamples,
    /// Precompiled code that was looked for since that was last written.
    precompiled: Lookups,
}

impl EventPipe {
    pub fn new(sessions: Vec<Events>, allocations: Option<AllocationEvents>) -> Self {
        let (samples, precompiled) = (EventSamples::default(), Lookups::default());
        Self { sessions, allocations, samples, precompiled }
    }

    /// Whether the runtime drops events that are not read in time.
    pub fn are_urgent(&self) -> bool {
        self.allocations.is_some()
    }

    /// Takes the events that have come.
    pub fn take(&mut self, cx: &mut Context) {
        let events = self.sessions.iter().map(|events| &events.incoming);
        let allocations = self.allocations.iter().map(|events| &events.incoming);
        let taken: Vec<_> = events.chain(allocations).flat_map(Receiver::try_iter).collect();
        for event in taken {
            self.event(cx, event);
        }
    }

    /// Ends the sessions, and takes what they still have.
    pub fn stop(&mut self, cx: &mut Context) {
        let mut rest = Vec::new();
        for events in &mut self.sessions {
            events.finish(&mut rest);
        }
        if let Some(allocations) = &mut self.allocations {
            allocations.finish(&mut rest);
        }
        for event in rest {
            self.event(cx, event);
        }
    }

    /// What is at the addresses of a sample is known, as far as it will be.
    pub fn resolved(&mut self, sample: EventSample) {
        self.samples.ready(sample);
    }

    fn event(&mut self, cx: &mut Context, event: FromEvents) {
        match event {
            // Another profiler may listen to more than its own events.
            FromEvents::Gc(_) | FromEvents::Pause(_) | FromEvents::Induced(_) if !cx.runs("gc") => {
            }
            // Without a stack it says no more than the collection does.
            FromEvents::Induced(call) => {
                if cx.window.holds(call.time) && !call.stack.is_empty() {
                    self.push_event_sample(cx, EventSample::Induced(call));
                }
            }
            FromEvents::Gc(gc) => {
                let Some((start, end)) = cx.window.part(gc.start, gc.end) else { return };
                cx.count("gc", 1);
                cx.definitions.row(&Collection { start, end, ..gc });
            }
            FromEvents::Pause(pause) => self.pause(cx, pause),
            FromEvents::Allocation(allocation) => {
                self.event_sample(cx, "allocations", EventSample::Allocation(allocation))
            }
            FromEvents::AllocationWindow(window) => cx.definitions.row(&window),
            FromEvents::Contention(wait) => self.contention(cx, wait),
            FromEvents::Compiled(compiled) => {
                self.event_sample(cx, "jit", EventSample::Compiled(compiled))
            }
            // Of what has a time and stands for itself, what lies outside counts nowhere.
            FromEvents::Lookup(time, ..)
            | FromEvents::Unloaded(time, ..)
            | FromEvents::Pool(time, _)
            | FromEvents::Counted(time, _)
                if !cx.window.holds(time) => {}
            FromEvents::Lookup(_, found, duration) => {
                let count = &mut self.precompiled;
                *(if found { &mut count.found } else { &mut count.missing }) += 1;
                count.duration = count.duration.saturating_add(duration.unwrap_or(0));
            }
            FromEvents::CodeFreed => self.precompiled.freed += 1,
            FromEvents::Loaded(load) => self.event_sample(cx, "loads", EventSample::Loaded(load)),
            FromEvents::Unloaded(time, assembly, name) => {
                cx.definitions.row(&Unloaded { time, assembly, name });
            }
            FromEvents::TypeLoaded(load) => {
                self.event_sample(cx, "loads", EventSample::TypeLoaded(load))
            }
            FromEvents::Creation(creation) => {
                if cx.runs("threads") && cx.window.holds(creation.time) {
                    self.push_event_sample(cx, EventSample::Creation(creation));
                }
            }
            FromEvents::Pool(time, change) => {
                if cx.runs("threadpool") {
                    cx.definitions.row(&pool_event(time, change));
                }
            }
            FromEvents::Counted(time, counted) => self.counted(cx, time, counted),
            FromEvents::Lost(count) => cx.dropped("EventPipe events lost by the runtime", count),
            FromEvents::LeftOut(count) => {
                cx.dropped("allocations of a moment with too many", count)
            }
            FromEvents::Note(message) | FromEvents::Failed(message) => cx.note(message),
        }
    }

    fn pause(&mut self, cx: &mut Context, pause: Pause) {
        if cx.window.part(pause.suspend_start, pause.resume_end).is_some() {
            cx.definitions.row(&Pause {
                suspend_start: cx.window.clamp(pause.suspend_start),
                suspend_end: cx.window.clamp(pause.suspend_end),
                resume_start: cx.window.clamp(pause.resume_start),
                resume_end: cx.window.clamp(pause.resume_end),
                ..pause
            });
        }
    }

    fn contention(&mut self, cx: &mut Context, wait: Contention) {
        let part = cx.window.part(wait.start, wait.start.saturating_add(wait.duration));
        let Some((start, end)) = part else { return };
        let wait = Contention { start, duration: end - start, ..wait };
        self.event_sample(cx, "locks", EventSample::Contention(wait));
    }

    /// Values of counters.
    fn counted(&mut self, cx: &mut Context, time: u64, mut counted: Vec<Counted>) {
        // Those of the thread pool come with all others of their source, which nobody may have
        // asked for.
        if !cx.runs("counters") {
            let (source, prefix) = POOL_COUNTERS;
            counted.retain(|counted| counted.source == source && counted.name.starts_with(prefix));
        }
        let came = counted.len() as u64;
        let mut known = 0;
        for counted in counted {
            let kind = match counted.kind {
                counters::Kind::Level => CounterKind::Level,
                counters::Kind::Rate => CounterKind::Rate,
            };
            let Counted { source, name, title, unit, tags, value, .. } = counted;
            let def = CounterDef { counter: 0, source, name, title, unit, tags, kind };
            if let Some(counter) = cx.definitions.counter(def) {
                cx.definitions.row(&CounterValue { time, counter, value });
                known += 1;
            }
        }
        if cx.runs("counters") {
            cx.count("counters", known);
        }
        cx.dropped("values of too many counters", came - known);
    }

    /// Takes and counts a sample of the time that the recording is of.
    fn event_sample(&mut self, cx: &mut Context, profiler: &'static str, sample: EventSample) {
        if cx.window.holds(sample.time()) {
            cx.count(profiler, 1);
            self.push_event_sample(cx, sample);
        }
    }

    fn push_event_sample(&mut self, cx: &mut Context, sample: EventSample) {
        let executed = self.samples.needs_of(&sample, &cx.frames);
        if executed.is_empty() {
            self.samples.ready(sample);
            return;
        }
        // The runtime itself has walked the stacks of events.
        let needs = Needs { executed, guessed: Vec::new() };
        if !cx.waiting.push(WaitingSample::Event(sample), needs) {
            cx.dropped("no room while the agent resolved addresses", 1);
        }
    }
}

impl Stage for EventPipe {
    /// Makes rows of the samples whose addresses are known.
    fn settle(&mut self, cx: &mut Context, _all: bool) {
        self.samples.settle(&mut cx.frames, &mut cx.definitions, &cx.target);
        cx.output.write_definitions(&mut cx.definitions);
    }

    fn second(&mut self, cx: &mut Context) {
        let precompiled = std::mem::take(&mut self.precompiled);
        if precompiled != Lookups::default() {
            cx.definitions.row(&Lookups { time: now(), ..precompiled });
        }
    }
}

fn pool_event(time: u64, change: thread_pool::Change) -> PoolEvent {
    match change {
        thread_pool::Change::Started(active) => {
            PoolEvent::worker(time, PoolChange::Started, active)
        }
        thread_pool::Change::Stopped(active) => {
            PoolEvent::worker(time, PoolChange::Stopped, active)
        }
        thread_pool::Change::Adjusted { throughput, workers, reason } => {
            PoolEvent::adjusted(time, workers, throughput, reason.name())
        }
        thread_pool::Change::Limits { min, max } => PoolEvent::limits(time, min.into(), max.into()),
    }
}
