//! `allocations`: sampled allocations. They come from sessions of their own
//! ([`AllocationEvents`](crate::linux::allocation_events::AllocationEvents)), which do not last.

use super::{Context, EventSample, States};
use crate::linux::frames::Frames;
use nettrace::allocations::{Allocation, Heap, Sampling};
use profilers::allocations::{AllocationHeap, AllocationSample, AllocationSampling};

impl EventSample for Allocation {
    fn time(&self) -> u64 {
        self.time
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let thread = context.thread(self.thread);
        let (stack, truncated) = context.stack(&self.stack);
        let ty = context.type_of_reflection(self.type_name);
        let sampling = match self.sampling {
            Sampling::Random => AllocationSampling::Random,
            Sampling::Tick => AllocationSampling::Tick,
        };
        let heap = match self.heap {
            Heap::Small => AllocationHeap::Small,
            Heap::Large => AllocationHeap::Large,
            Heap::Pinned => AllocationHeap::Pinned,
        };
        context.row(&AllocationSample {
            time: self.time,
            thread,
            stack,
            ty,
            heap,
            size: self.size,
            bytes: self.bytes,
            truncated,
            sampling,
        });
    }
}
