//! Samples that are held until those of all sources have come, so that they can be put in order.

use super::{
    define::Definitions,
    frames::Frames,
    running::{RunningStack, RunningStacks},
};
use profilers::PROFILERS;
use session::{SampleBatch, SessionRecord, StackId, ThreadId, ThreadState};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
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

impl HeldSample {
    /// Of a thread that ran, with the stack that it had.
    pub fn running(os_tid: u32, thread: ThreadId, weight: u64, stack: RunningStack) -> Self {
        let RunningStack { time, stack, truncated, runtime_leaf } = stack;
        let state = ThreadState::Running;
        Self { time, os_tid, thread, stack, weight, state, truncated, runtime_leaf, near: 0 }
    }
}

/// What makes a record of samples.
pub(super) type MakeBatch = fn(SampleBatch) -> SessionRecord;

/// All of them, with what is put into them as they are written.
#[derive(Default)]
pub(super) struct Held {
    /// Those of each profiler, by its place in the list of all.
    series: BTreeMap<usize, (MakeBatch, Vec<HeldSample>)>,
    /// Stacks of threads that ran.
    pub running: RunningStacks,
    /// What threads did for the runtime, by their ids on this machine.
    work: HashMap<u32, VecDeque<RuntimeWork>>,
}

impl Held {
    /// Adds samples of a profiler.
    pub fn add(
        &mut self,
        profiler: &str,
        make: MakeBatch,
        samples: impl IntoIterator<Item = HeldSample>,
    ) {
        let place = PROFILERS.iter().position(|spec| spec.id == profiler).unwrap_or(usize::MAX);
        let (_, of_profiler) = self.series.entry(place).or_insert_with(|| (make, Vec::new()));
        of_profiler.extend(samples);
    }

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
        let Self { series, running, work } = self;
        let batches = series.values_mut().filter_map(|(make, samples)| {
            batch(samples, until, running, work, frames, definitions).map(*make)
        });
        let batches = batches.collect();
        running.forget(until);
        batches
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
