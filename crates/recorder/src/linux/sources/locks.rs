//! `locks`: waits for locks.

use super::{Context, EventSample, Source, States, collected};
use crate::linux::{frames::Frames, window::Window};
use nettrace::{Located, locks::Collector};
use profilers::locks::{SPEC, Wait};

pub const SOURCE: Source =
    Source::of_events(SPEC.id, |_| collected::<Collector>(|wait, out| out.push(Box::new(wait))));

impl EventSample for Located<Wait> {
    fn time(&self) -> u64 {
        self.row.time
    }

    fn clip(&mut self, window: &Window) -> bool {
        let row = &mut self.row;
        let part = window.part(row.time, row.time.saturating_add(row.duration));
        part.map(|(start, end)| (row.time, row.duration) = (start, end - start)).is_some()
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Self { mut row, stack } = *self;
        row.thread = context.thread(row.thread);
        row.owner = row.owner.map(|owner| context.thread(owner));
        (row.stack, row.truncated) = context.stack(&stack);
        context.row(&row);
    }
}
