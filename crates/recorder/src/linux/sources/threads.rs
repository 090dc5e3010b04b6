//! `threads`: who starts threads.

use super::{Context, EventSample, Source, States, collected};
use crate::linux::frames::Frames;
use nettrace::{Located, threads::Collector};
use profilers::threads::{Creation, SPEC};

pub const SOURCE: Source = Source::of_events(SPEC.id, |_| {
    collected::<Collector>(|creation, out| out.push(Box::new(creation)))
});

impl EventSample for Located<Creation> {
    fn time(&self) -> u64 {
        self.row.time
    }

    /// Threads of snapshots alone are counted.
    fn count(&self) -> u64 {
        0
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Self { mut row, stack } = *self;
        row.creator = row.creator.map(|creator| context.thread(creator));
        row.stack = row.creator.map(|_| context.stack(&stack).0);
        let (target, os_tid) = (context.target, context.host_tid(row.thread.0.into()));
        let name = || target.thread_name(os_tid);
        row.thread = context.definitions.thread_of(os_tid, row.time, name);
        context.row(&row);
    }
}
