//! `allocations`: sampled allocations, of event sessions of their own, which come and go.

mod pace;
mod reading;
mod sessions;

use self::sessions::AllocationEvents;
use super::{Context, EventSample, Source, States};
use crate::linux::{frames::Frames, window::Window};
use nettrace::{Located, allocations::Allocation};
use profilers::allocations::{AllocationWindow, SPEC};

pub const SOURCE: Source = Source {
    own_sessions: Some(|start| Ok(Box::new(AllocationEvents::start(start)?))),
    ..Source::of(SPEC.id)
};

/// Why samples are missing for which there was no room.
const LEFT_OUT: &str = "allocations of a moment with too many";

impl EventSample for Allocation {
    fn time(&self) -> u64 {
        self.sample.row.time
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.sample.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Located { mut row, stack } = self.sample;
        row.thread = context.thread(row.thread);
        (row.stack, row.truncated) = context.stack(&stack);
        row.ty = context.type_of_reflection(self.type_name);
        context.row(&row);
    }
}

impl EventSample for AllocationWindow {
    fn time(&self) -> u64 {
        self.start
    }

    /// It says what the others stand for, also where a part of it lies outside.
    fn clip(&mut self, _window: &Window) -> bool {
        true
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
    }
}
