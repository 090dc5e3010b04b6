//! `locks`: waits for locks.

use super::{Context, EventReader, EventSample, Samples, Source, States};
use crate::linux::{frames::Frames, window::Window};
use nettrace::{
    Event,
    locks::{Collector, Contention},
};
use profilers::locks::{SPEC, Wait};

pub const SOURCE: Source = Source::of_events(SPEC.id, || Box::new(Reader(Collector::new())));

struct Reader(Collector);

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        self.0.push(event);
        while let Some(wait) = self.0.next_output() {
            out.push(Box::new(wait));
        }
    }
}

impl EventSample for Contention {
    fn time(&self) -> u64 {
        self.start
    }

    fn clip(&mut self, window: &Window) -> bool {
        let part = window.part(self.start, self.start.saturating_add(self.duration));
        part.map(|(start, end)| (self.start, self.duration) = (start, end - start)).is_some()
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let thread = context.thread(self.thread);
        let owner = self.owner.map(|owner| context.thread(owner));
        let (stack, truncated) = context.stack(&self.stack);
        let Self { start: time, duration, lock, .. } = *self;
        context.row(&Wait { time, thread, stack, duration, lock, owner, truncated });
    }
}
