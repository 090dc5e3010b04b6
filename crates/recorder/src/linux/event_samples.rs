//! Allocations and waits for locks on their way from the EventPipe session to the session file: they wait until it is
//! known what code stands at the addresses of their stacks.

use super::{define::Definitions, frames::Frames, target::Target};
use nettrace::{
    allocations::{Allocation, Heap, Sampling},
    locks::Contention,
    threads::Creation,
};
use session::{
    AllocationBatch, AllocationHeap, AllocationSampling, ContentionBatch, SessionRecord, ThreadCreation, ThreadId,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

/// Most samples that wait at a time. They are small, and at the end of a recording all that the runtime has buffered
/// comes at once.
const MAX_WAITING: usize = 1 << 17;

/// Most rows of a batch.
const MAX_ROWS: usize = 1 << 14;

/// What an event told.
pub(super) enum EventSample {
    Allocation(Allocation),
    Contention(Contention),
    Creation(Creation),
}

impl EventSample {
    fn stack(&self) -> &Arc<[u64]> {
        match self {
            Self::Allocation(allocation) => &allocation.stack,
            Self::Contention(wait) => &wait.stack,
            Self::Creation(creation) => &creation.stack,
        }
    }

    fn time(&self) -> u64 {
        match self {
            Self::Allocation(allocation) => allocation.time,
            Self::Contention(wait) => wait.start,
            Self::Creation(creation) => creation.time,
        }
    }
}

struct Waiting {
    sample: EventSample,
    /// Addresses that the agent has to explain first.
    needs: Vec<u64>,
    since: Instant,
}

/// Samples that wait, and those that are ready to be written.
#[derive(Default)]
pub(super) struct EventSamples {
    waiting: VecDeque<Waiting>,
    ready: Vec<EventSample>,
    /// Names of types as C# writes them, by their names in events.
    type_names: HashMap<String, String>,
}

impl EventSamples {
    /// Takes a sample; false if there is no room.
    pub fn push(&mut self, sample: EventSample, frames: &Frames) -> bool {
        let needs = frames.unknown_of(sample.stack());
        if needs.is_empty() {
            self.ready.push(sample);
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back(Waiting { sample, needs, since: Instant::now() });
        true
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    /// What the agent has to explain.
    pub fn needs(&self) -> impl Iterator<Item = &u64> {
        self.waiting.iter().flat_map(|waiting| &waiting.needs)
    }

    /// Records of all samples whose addresses are known, in the order of their times. Those that have waited longer than
    /// the limit (all, if `all` is set) no longer wait: what is unknown then is shown as such.
    pub fn settle(
        &mut self,
        frames: &mut Frames,
        definitions: &mut Definitions,
        target: &Target,
        limit: Duration,
        all: bool,
    ) -> Vec<SessionRecord> {
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else { break };
            waiting.needs.retain(|address| !frames.knows(*address));
            if !waiting.needs.is_empty() && (all || waiting.since.elapsed() > limit) {
                waiting.needs.drain(..).for_each(|address| frames.give_up(address));
            }
            if waiting.needs.is_empty() {
                self.ready.push(waiting.sample);
            } else {
                self.waiting.push_back(waiting);
            }
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_by_key(EventSample::time);
        let (mut records, mut allocations, mut contentions) =
            (Vec::new(), Allocations::default(), Contentions::default());
        for sample in ready {
            let mut thread = |inner: u64| {
                let os_tid = target.host_tid(u32::try_from(inner).unwrap_or(u32::MAX));
                definitions.thread(os_tid, || target.thread_name(os_tid))
            };
            match sample {
                EventSample::Allocation(allocation) => {
                    let thread = thread(allocation.thread);
                    let (stack, truncated) = frames.event_stack(definitions, &allocation.stack);
                    let name =
                        self.type_names.entry(allocation.type_name).or_insert_with_key(|name| wire::as_csharp(name));
                    let ty = definitions.ty(name);
                    let sampling = match allocation.sampling {
                        Sampling::Random => AllocationSampling::Random,
                        Sampling::Tick => AllocationSampling::Tick,
                    };
                    if allocations.batch.sampling != sampling || allocations.batch.time_delta.len() >= MAX_ROWS {
                        records.extend(allocations.take());
                    }
                    let delta = allocations.delta(allocation.time);
                    let batch = &mut allocations.batch;
                    batch.sampling = sampling;
                    batch.time_delta.push(delta);
                    batch.thread.push(thread);
                    batch.stack.push(stack);
                    batch.ty.push(ty);
                    batch.heap.push(match allocation.heap {
                        Heap::Small => AllocationHeap::Small,
                        Heap::Large => AllocationHeap::Large,
                        Heap::Pinned => AllocationHeap::Pinned,
                    });
                    batch.size.push(allocation.size);
                    batch.bytes.push(allocation.bytes);
                    batch.truncated.push(truncated);
                }
                EventSample::Contention(wait) => {
                    let waiter = thread(wait.thread);
                    let owner: Option<ThreadId> = wait.owner.map(&mut thread);
                    let (stack, truncated) = frames.event_stack(definitions, &wait.stack);
                    if contentions.batch.time_delta.len() >= MAX_ROWS {
                        records.extend(contentions.take());
                    }
                    let delta = contentions.delta(wait.start);
                    let batch = &mut contentions.batch;
                    batch.time_delta.push(delta);
                    batch.thread.push(waiter);
                    batch.stack.push(stack);
                    batch.duration.push(wait.duration);
                    batch.lock.push(wait.lock.unwrap_or(0));
                    batch.owner.push(owner);
                    batch.truncated.push(truncated);
                }
                EventSample::Creation(creation) => {
                    let creator = creation.creator.map(&mut thread);
                    let creator = creator.map(|creator| (creator, frames.event_stack(definitions, &creation.stack).0));
                    let os_tid = target.host_tid(u32::try_from(creation.thread).unwrap_or(u32::MAX));
                    let thread = definitions.thread_of(os_tid, creation.time, || target.thread_name(os_tid));
                    let Creation { time, managed_id, pool, .. } = creation;
                    let creation = ThreadCreation { time, thread, creator, managed_id, pool };
                    records.push(SessionRecord::ThreadCreation(creation));
                }
            }
        }
        records.extend(allocations.take());
        records.extend(contentions.take());
        records
    }
}

macro_rules! growing {
    ($name:ident, $batch:ident, $record:ident) => {
        /// A batch that grows, with the time of its last row.
        #[derive(Default)]
        struct $name {
            batch: $batch,
            last: u64,
        }

        impl $name {
            /// Time since the row before, which begins the batch if there is none.
            fn delta(&mut self, time: u64) -> u64 {
                if self.batch.time_delta.is_empty() {
                    (self.batch.start, self.last) = (time, time);
                }
                let delta = time - self.last;
                self.last = time;
                delta
            }

            /// The record of what has come, if anything has.
            fn take(&mut self) -> Option<SessionRecord> {
                let batch = std::mem::take(&mut self.batch);
                (!batch.time_delta.is_empty()).then_some(SessionRecord::$record(batch))
            }
        }
    };
}

growing!(Allocations, AllocationBatch, Allocations);
growing!(Contentions, ContentionBatch, Contentions);
