//! `threadpool`: what happens to the thread pool.

use super::{Context, EventReader, EventSample, Samples, Source};
use nettrace::{Event, thread_pool};
use profilers::threadpool::{PoolEvent, SPEC};

pub const SOURCE: Source = Source::of_events(SPEC.id, || Box::new(Reader));

struct Reader;

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        if let Some(event) = thread_pool::parse(event) {
            out.push(Box::new(event));
        }
    }
}

impl EventSample for PoolEvent {
    fn time(&self) -> u64 {
        self.time
    }

    /// Samples of workers alone are counted.
    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
    }
}
