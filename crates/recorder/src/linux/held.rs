//! Samples that are held until those of all sources have come, so that they can be put in order.

use super::{
    define::Definitions,
    frames::Frames,
    running::{RunningStack, RunningStacks},
};
use session::{SampleBatch, SessionRecord, StackId, ThreadId, ThreadState};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use wire::{RuntimeWork, RuntimeWorkKind};

/// How long samples are held before they are written. Meanwhile those of all sources can be put in
/// order, and the runtime's work (collections, compilation), which is reported when it ends, can be
/// seen in them. Rows of tables are gathered for as long.
pub(super) const HOLD: Duration = Duration::from_millis(400);

/// Most intervals of runtime work remembered for each thread.
const MOST_WORK: usize = 256;

/// A sample whose stack is known.
#[derive(Clone, Copy)]
pub(super) struct HeldSample {
    pub time: u64,
    pub os_tid: u32,
    pub thread: ThreadId,
    pub stack: StackId,
    pub weight: u64,
    pub state: ThreadState,
    pub truncated: bool,
    /// Whether the leaf is native code of the runtime, so that a collection or a compilation may be
    /// what it is.
    pub runtime_leaf: bool,
    /// For a thread that runs and whose stack was not taken: how far the CPU sample may be whose
    /// stack it has, in nanoseconds. 0 for all others.
    pub near: u64,
}

/// All of them, with what is put into them as they are written.
#[derive(Default)]
pub(super) struct Held {
    pub cpu: Vec<HeldSample>,
    pub wall: Vec<HeldSample>,
    pub pool: Vec<HeldSample>,
    /// Stacks of threads that ran.
    pub running: RunningStacks,
    /// What threads did for the runtime, by their ids on this machine.
    work: HashMap<u32, VecDeque<RuntimeWork>>,
}

impl Held {
    /// A thread with this id on this machine worked for the runtime.
    pub fn worked(&mut self, os_tid: u32, work: RuntimeWork) {
        let of_thread = self.work.entry(os_tid).or_default();
        of_thread.push_back(RuntimeWork { os_tid, ..work });
        if of_thread.len() > MOST_WORK {
            of_thread.pop_front();
        }
    }

    /// Takes the samples up to a time, in order. The definitions that they use come first.
    pub fn take(
        &mut self,
        frames: &mut Frames,
        definitions: &mut Definitions,
        until: u64,
    ) -> Vec<SessionRecord> {
        let Self { cpu, wall, pool, running, work } = self;
        let mut batch = |samples| batch(samples, until, running, work, frames, definitions);
        let batches = [
            batch(cpu).map(SessionRecord::CpuSamples),
            batch(wall).map(SessionRecord::WallSamples),
            batch(pool).map(SessionRecord::PoolSamples),
        ];
        running.forget(until);
        batches.into_iter().flatten().collect()
    }
}

fn batch(
    samples: &mut Vec<HeldSample>,
    until: u64,
    running: &RunningStacks,
    work: &HashMap<u32, VecDeque<RuntimeWork>>,
    frames: &mut Frames,
    definitions: &mut Definitions,
) -> Option<SampleBatch> {
    samples.sort_by_key(|sample| sample.time);
    let due = samples.partition_point(|sample| sample.time < until);
    let start = samples.first().filter(|_| due > 0)?.time;
    let mut batch = SampleBatch { start, ..SampleBatch::default() };
    let mut last = start;
    for mut sample in samples.drain(..due) {
        // By now all CPU samples of the time around a tick have come.
        if sample.near > 0
            && let Some(running) = running.at(sample.thread, sample.time, sample.near)
        {
            let RunningStack { stack, truncated, runtime_leaf, .. } = running;
            sample = HeldSample { stack, truncated, runtime_leaf, ..sample };
        }
        let work = sample.runtime_leaf.then(|| work_at(work, sample.os_tid, sample.time)).flatten();
        let stack = match work {
            Some(kind) => frames.name_runtime_work(definitions, sample.stack, kind),
            None => sample.stack,
        };
        batch.time_delta.push(sample.time - last);
        last = sample.time;
        batch.thread.push(sample.thread);
        batch.stack.push(stack);
        batch.weight.push(sample.weight);
        batch.state.push(sample.state);
        batch.truncated.push(sample.truncated);
    }
    Some(batch)
}

/// What a thread did for the runtime at a time. A compilation inside a collection cannot be; the
/// most recent interval that holds the time wins.
fn work_at(
    work: &HashMap<u32, VecDeque<RuntimeWork>>,
    os_tid: u32,
    time: u64,
) -> Option<RuntimeWorkKind> {
    let of_thread = work.get(&os_tid)?;
    let found = of_thread.iter().rev().find(|work| (work.start..=work.end).contains(&time))?;
    Some(found.kind)
}
