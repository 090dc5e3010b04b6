//! `threadpool`: what happens to the thread pool, and what its workers do.

use super::{
    Context, EventReader, EventSample, Made, OfTicks, Pace, ReadSession, Samples, Source, States,
    counters::Counters,
};
use crate::linux::waits;
use nettrace::{Event, thread_pool};
use profilers::{
    counters::{self, CounterDef},
    threadpool::{PoolEvent, SPEC},
};
use session::{SessionRecord, StackId};
use std::collections::HashSet;

pub const SOURCE: Source = Source {
    ticks: Some(OfTicks {
        is_of_interest: is_worker,
        made: Made::Samples(SessionRecord::PoolSamples),
    }),
    paced: Some(Pace { most: MOST_EVENTS, what: "events of the thread pool" }),
    thread_ended: Some(forget_worker),
    ..Source::of_events(SPEC.id, |session| Box::new(Reader::of(session)))
};

/// More events than this per second cost a busy program some percent of its time. Nearly all of
/// them then say that a worker has run out of work, which those of a pool that is starved never do.
const MOST_EVENTS: u32 = 500;

/// How workers of the thread pool are named, from .NET 6 on.
const WORKERS: [&str; 2] = [".NET TP Worker", ".NET ThreadPool"];

struct Reader {
    /// Reads the counters of the thread pool, where no other profiler does.
    counters: Option<Counters>,
}

impl Reader {
    fn of(session: &ReadSession<'_>) -> Self {
        let are_read = (session.runs)(counters::SPEC.id);
        Self { counters: (!are_read).then(|| Counters::some(session, is_of_pool)) }
    }
}

/// Whether a counter is one of the thread pool. They come with all others of their source.
fn is_of_pool(counter: &CounterDef) -> bool {
    counter.source == "System.Runtime" && counter.name.starts_with("threadpool-")
}

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        if let Some(event) = thread_pool::parse(event) {
            out.push(Box::new(event));
        }
        if let Some(counters) = &mut self.counters {
            counters.push(event, out);
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

/// Workers that were seen at work, by their ids of the operating system: on .NET Core 3.1 they show
/// nothing while they idle.
#[derive(Default)]
struct Workers(HashSet<u32>);

/// Whether a thread is a worker of the thread pool: by its name, or by what it was ever seen to do.
fn is_worker(context: &mut Context<'_>, os_tid: u32, stack: StackId) -> bool {
    if context.states.of::<Workers>().0.contains(&os_tid) {
        return true;
    }
    let Context { frames, definitions, .. } = context;
    let name = definitions.thread_name(os_tid).unwrap_or_default();
    let is_it = WORKERS.iter().any(|known| name.starts_with(known))
        || frames.leaf_names(definitions, stack).any(|(ty, _)| waits::is_of_pool(ty));
    if is_it {
        context.states.of::<Workers>().0.insert(os_tid);
    }
    is_it
}

fn forget_worker(states: &mut States, os_tid: u32) {
    states.of::<Workers>().0.remove(&os_tid);
}
