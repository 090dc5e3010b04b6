//! `threadpool`: what happens to the thread pool.

use super::{Context, EventReader, EventSample, Samples, Source};
use nettrace::{
    Event,
    thread_pool::{self, Change},
};
use profilers::threadpool::{PoolChange, PoolEvent, SPEC};

pub const SOURCE: Source = Source::of_events(SPEC.id, || Box::new(Reader));

struct Reader;

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        if let Some(change) = thread_pool::parse(event) {
            out.push(Box::new(At { time: event.timestamp, change }));
        }
    }
}

/// A change and when it came.
#[derive(Debug)]
struct At {
    time: u64,
    change: Change,
}

impl EventSample for At {
    fn time(&self) -> u64 {
        self.time
    }

    /// Samples of workers alone are counted.
    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Self { time, change } = *self;
        context.row(&match change {
            Change::Started(active) => PoolEvent::worker(time, PoolChange::Started, active),
            Change::Stopped(active) => PoolEvent::worker(time, PoolChange::Stopped, active),
            Change::Adjusted { throughput, workers, reason } => {
                PoolEvent::adjusted(time, workers, throughput, reason.name())
            }
            Change::Limits { min, max } => PoolEvent::limits(time, min.into(), max.into()),
        });
    }
}
