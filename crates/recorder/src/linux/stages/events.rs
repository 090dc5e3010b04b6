//! What the runtime says in its EventPipe sessions.

use super::stage::Stage;
use crate::linux::{
    allocation_events::AllocationEvents,
    clock::now,
    context::Context,
    events::{Events, FromEvents},
    sources::{self, EventSample},
    waiting::{Needs, WaitingSample},
};
use nettrace::counters::Counted;
use profilers::counters::CounterValue;
use std::sync::mpsc::Receiver;

/// What counters the thread pool has, and whose they are.
const POOL_COUNTERS: (&str, &str) = ("System.Runtime", "threadpool-");

/// The profilers whose data are events of the runtime.
pub(in crate::linux) struct EventPipe {
    sessions: Vec<Events>,
    /// Sessions for allocations, which are apart since they do not last.
    allocations: Option<AllocationEvents>,
    /// What waits for nothing any more.
    ready: Vec<Box<dyn EventSample>>,
}

impl EventPipe {
    pub fn new(sessions: Vec<Events>, allocations: Option<AllocationEvents>) -> Self {
        Self { sessions, allocations, ready: Vec::new() }
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
    pub fn resolved(&mut self, sample: Box<dyn EventSample>) {
        self.ready.push(sample);
    }

    fn event(&mut self, cx: &mut Context, event: FromEvents) {
        match event {
            FromEvents::Sample(profiler, sample) => self.event_sample(cx, profiler, sample),
            FromEvents::Allocation(allocation) => {
                self.event_sample(cx, "allocations", Box::new(allocation));
            }
            FromEvents::AllocationWindow(window) => cx.definitions.row(&window),
            // What lies outside counts nowhere.
            FromEvents::Counted(time, _) if !cx.window.holds(time) => {}
            FromEvents::Counted(time, counted) => self.counted(cx, time, counted),
            FromEvents::Lost(count) => cx.dropped("EventPipe events lost by the runtime", count),
            FromEvents::LeftOut(count) => {
                cx.dropped("allocations of a moment with too many", count)
            }
            FromEvents::Note(message) | FromEvents::Failed(message) => cx.note(message),
        }
    }

    /// Values of counters.
    fn counted(&mut self, cx: &mut Context, time: u64, mut counted: Vec<Counted>) {
        // Those of the thread pool come with all others of their source, also where these were not
        // asked for.
        if !cx.runs("counters") {
            let (source, prefix) = POOL_COUNTERS;
            counted.retain(|Counted { counter, .. }| {
                counter.source == source && counter.name.starts_with(prefix)
            });
        }
        let came = counted.len() as u64;
        let mut known = 0;
        for Counted { counter, value } in counted {
            if let Some(counter) = cx.definitions.counter(counter) {
                cx.definitions.row(&CounterValue { time, counter, value });
                known += 1;
            }
        }
        if cx.runs("counters") {
            cx.count("counters", known);
        }
        cx.dropped("values of too many counters", came - known);
    }

    /// Takes and counts what of a sample is of the time that the recording is of.
    fn event_sample(
        &mut self,
        cx: &mut Context,
        profiler: &'static str,
        mut sample: Box<dyn EventSample>,
    ) {
        if !sample.clip(&cx.window) {
            return;
        }
        match sample.count() {
            0 => {}
            count => cx.count(profiler, count),
        }
        let executed = sample.needs(&cx.frames, &cx.sources);
        if executed.is_empty() {
            self.ready.push(sample);
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
    /// Makes rows of the samples whose addresses are known, in the order of their times. What is
    /// unknown is shown as such.
    fn settle(&mut self, cx: &mut Context, _all: bool) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_by_key(|sample| sample.time());
        let mut context = cx.for_sources();
        ready.into_iter().for_each(|sample| sample.write(&mut context));
        cx.output.write_definitions(&mut cx.definitions);
    }

    fn second(&mut self, cx: &mut Context) {
        let Context { info, frames, definitions, target, sources: states, .. } = cx;
        let runs = |id: &str| info.profilers.iter().any(|run| run.id == id);
        let mut context = sources::Context { frames, definitions, target, states };
        sources::every_second(runs, &mut context, now());
    }
}
