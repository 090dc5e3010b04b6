//! `gc`: collections, pauses and the calls that induce collections.

use super::{Context, EventSample, Source, States, collected};
use crate::linux::{frames::Frames, window::Window};
use nettrace::{
    Located,
    gc::{Collector, Output},
};
use profilers::gc::{Collection, Induced, Pause, SPEC};

pub const SOURCE: Source = Source::of_events(SPEC.id, |_| {
    collected::<Collector>(|output, out| match output {
        Output::Gc(gc) => out.push(Box::new(gc)),
        Output::Pause(pause) => out.push(Box::new(pause)),
        // Without a stack it says no more than the collection does.
        Output::Induced(call) if call.stack.is_empty() => {}
        Output::Induced(call) => out.push(Box::new(call)),
    })
});

impl EventSample for Collection {
    fn time(&self) -> u64 {
        self.start
    }

    fn clip(&mut self, window: &Window) -> bool {
        let part = window.part(self.start, self.end);
        part.map(|part| (self.start, self.end) = part).is_some()
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
    }
}

impl EventSample for Pause {
    fn time(&self) -> u64 {
        self.suspend_start
    }

    fn clip(&mut self, window: &Window) -> bool {
        let holds = window.part(self.suspend_start, self.resume_end).is_some();
        let Self { suspend_start, suspend_end, resume_start, resume_end, .. } = self;
        for time in [suspend_start, suspend_end, resume_start, resume_end] {
            *time = window.clamp(*time);
        }
        holds
    }

    /// Collections alone are counted.
    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
    }
}

impl EventSample for Located<Induced> {
    fn time(&self) -> u64 {
        self.row.time
    }

    fn count(&self) -> u64 {
        0
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Self { mut row, stack } = *self;
        row.thread = context.thread(row.thread);
        (row.stack, row.truncated) = context.stack(&stack);
        context.row(&row);
    }
}
