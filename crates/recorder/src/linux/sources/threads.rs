//! `threads`: who starts threads.

use super::{Context, EventReader, EventSample, Samples, Source, States};
use crate::linux::frames::Frames;
use nettrace::{
    Event,
    threads::{Collector, Creation},
};
use profilers::threads::{self, SPEC};

pub const SOURCE: Source = Source::of_events(SPEC.id, || Box::new(Reader(Collector::new())));

struct Reader(Collector);

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        self.0.push(event);
        while let Some(creation) = self.0.next_output() {
            out.push(Box::new(creation));
        }
    }
}

impl EventSample for Creation {
    fn time(&self) -> u64 {
        self.time
    }

    /// Threads of snapshots alone are counted.
    fn count(&self) -> u64 {
        0
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let creator = self.creator.map(|creator| context.thread(creator));
        let stack = creator.map(|_| context.stack(&self.stack).0);
        let (target, os_tid) = (context.target, context.host_tid(self.thread));
        let name = || target.thread_name(os_tid);
        let thread = context.definitions.thread_of(os_tid, self.time, name);
        let Self { time, managed_id, pool, .. } = *self;
        context.row(&threads::Creation { time, thread, creator, stack, managed_id, pool });
    }
}
