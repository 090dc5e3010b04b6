//! `allocations`: sampled allocations. They come from sessions of their own
//! ([`AllocationEvents`](crate::linux::allocation_events::AllocationEvents)), which do not last.

use super::{Context, EventSample, States};
use crate::linux::frames::Frames;
use nettrace::{Located, allocations::Allocation};

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
