//! What the runtime says in its EventPipe sessions.

use super::stage::Stage;
use crate::linux::{
    clock::now,
    context::Context,
    events::{EventSessions, FromEvents},
    sources::{self, EventSample},
    waiting::{Needs, WaitingSample},
};

/// The profilers whose data are events of the runtime.
pub(in crate::linux) struct EventPipe {
    sessions: Vec<Box<dyn EventSessions>>,
    /// What waits for nothing any more.
    ready: Vec<Box<dyn EventSample>>,
}

impl EventPipe {
    pub fn new(sessions: Vec<Box<dyn EventSessions>>) -> Self {
        Self { sessions, ready: Vec::new() }
    }

    /// Whether events are to be read without a delay.
    pub fn are_urgent(&self) -> bool {
        self.sessions.iter().any(|sessions| sessions.are_urgent())
    }

    /// Takes the events that have come.
    pub fn take(&mut self, cx: &mut Context) {
        let taken: Vec<_> =
            self.sessions.iter().flat_map(|sessions| sessions.incoming().try_iter()).collect();
        for event in taken {
            self.event(cx, event);
        }
    }

    /// Ends the sessions, and takes what they still have.
    pub fn stop(&mut self, cx: &mut Context) {
        let mut rest = Vec::new();
        self.sessions.iter_mut().for_each(|sessions| sessions.finish(&mut rest));
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
            FromEvents::Lost(count) => cx.dropped("EventPipe events lost by the runtime", count),
            FromEvents::LeftOut(reason, count) => cx.dropped(reason, count),
            FromEvents::Note(message) | FromEvents::Failed(message) => cx.note(message),
        }
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
        sources::every_second(&mut cx.for_sources(), now());
    }
}
