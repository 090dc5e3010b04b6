//! Records of format 1 that are rows of tables today. The rows of one are `None` if the columns of
//! a batch have different lengths.

use profilers::{
    allocations::{AllocationHeap, AllocationSample, AllocationSampling, AllocationWindow},
    calls::Calls,
    counters::{CounterDef, CounterKind, CounterValue},
    exact_allocations::Allocated,
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Induced, Pause},
    jit::{Compilation, JitTier, Lookups, PrecompiledCode},
    loads::{AssemblyLoad, LoadOutcome, TypeLoad, Unloaded},
    locks::Wait,
    threadpool,
    threads::Creation,
    transitions::Transitions,
};
use rows::Words;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected},
};

use crate::{FunctionId, Nanos, StackId, ThreadId, TypeId};

/// A call that induces a collection.
#[derive(Deserialize)]
pub(crate) struct InducedGc {
    time: Nanos,
    thread: ThreadId,
    stack: StackId,
    truncated: bool,
}

impl InducedGc {
    pub fn rows(self) -> Option<Vec<Induced>> {
        let Self { time, thread, stack, truncated } = self;
        Some(vec![Induced { time, thread, stack, truncated }])
    }
}

/// A garbage collection.
#[derive(Deserialize)]
pub(crate) struct GcEvent {
    number: u32,
    generation: u8,
    reason: String,
    kind: String,
    induced: bool,
    start: Nanos,
    end: Nanos,
    size_after: [u64; 5],
    promoted: [u64; 5],
    pinned_objects: u32,
    gc_handles: u32,
}

impl GcEvent {
    pub fn rows(self) -> Option<Vec<Collection>> {
        Some(vec![Collection {
            number: self.number,
            generation: self.generation,
            reason: self.reason,
            kind: self.kind,
            induced: self.induced,
            start: self.start,
            end: self.end,
            size_after: self.size_after,
            promoted: self.promoted,
            pinned_objects: self.pinned_objects,
            gc_handles: self.gc_handles,
        }])
    }
}

/// A suspension of the runtime.
#[derive(Deserialize)]
pub(crate) struct PauseEvent {
    reason: String,
    gc: Option<u32>,
    suspend_start: Nanos,
    suspend_end: Nanos,
    resume_start: Nanos,
    resume_end: Nanos,
}

impl PauseEvent {
    pub fn rows(self) -> Option<Vec<Pause>> {
        Some(vec![Pause {
            reason: self.reason,
            gc: self.gc,
            suspend_start: self.suspend_start,
            suspend_end: self.suspend_end,
            resume_start: self.resume_start,
            resume_end: self.resume_end,
        }])
    }
}

/// Compiled methods.
#[derive(Deserialize)]
pub(crate) struct CompilationBatch {
    start: Nanos,
    time_delta: Vec<u64>,
    thread: Vec<ThreadId>,
    stack: Vec<StackId>,
    duration: Vec<Option<u64>>,
    method: Vec<u64>,
    tier: Vec<Variant<JitTier>>,
    il_size: Vec<u32>,
    native_size: Vec<u32>,
    background: Vec<bool>,
    precompiled: Vec<Variant<PrecompiledCode>>,
    truncated: Vec<bool>,
}

impl CompilationBatch {
    pub fn rows(self) -> Option<Vec<Compilation>> {
        rows(self.start, &self.time_delta, |time, row| {
            Some(Compilation {
                time,
                thread: *self.thread.get(row)?,
                stack: *self.stack.get(row)?,
                duration: *self.duration.get(row)?,
                method: *self.method.get(row)?,
                tier: self.tier.get(row)?.0,
                il_size: *self.il_size.get(row)?,
                native_size: *self.native_size.get(row)?,
                background: *self.background.get(row)?,
                precompiled: self.precompiled.get(row)?.0,
                truncated: *self.truncated.get(row)?,
            })
        })
    }
}

/// How often precompiled code was looked for.
#[derive(Deserialize)]
pub(crate) struct PrecompiledCount {
    time: Nanos,
    found: u64,
    missing: u64,
    duration: Nanos,
    freed: u64,
}

impl PrecompiledCount {
    pub fn rows(self) -> Option<Vec<Lookups>> {
        let Self { time, found, missing, duration, freed } = self;
        Some(vec![Lookups { time, found, missing, duration, freed }])
    }
}

/// Which calls are counted.
#[derive(Deserialize)]
enum CallKind {
    Methods,
    Transitions,
}

/// Calls that a thread has made.
#[derive(Deserialize)]
pub(crate) struct CallBatch {
    kind: CallKind,
    time: Nanos,
    thread: ThreadId,
    stack: Vec<StackId>,
    count: Vec<u64>,
    own: Vec<u64>,
}

impl CallBatch {
    /// Whether these are calls of methods, and no transitions.
    pub fn is_of_methods(&self) -> bool {
        matches!(self.kind, CallKind::Methods)
    }

    pub fn calls(self) -> Option<Vec<Calls>> {
        self.rows(|time, thread, stack, count, own| Calls { time, thread, stack, count, own })
    }

    pub fn transitions(self) -> Option<Vec<Transitions>> {
        self.rows(|time, thread, stack, count, own| Transitions { time, thread, stack, count, own })
    }

    fn rows<R>(self, row: fn(Nanos, ThreadId, StackId, u64, u64) -> R) -> Option<Vec<R>> {
        let Self { time, thread, stack, count, own, .. } = self;
        if count.len() != stack.len() || own.len() != stack.len() {
            return None;
        }
        let columns = stack.into_iter().zip(count).zip(own);
        Some(columns.map(|((stack, count), own)| row(time, thread, stack, count, own)).collect())
    }
}

/// A counter.
#[derive(Deserialize)]
pub(crate) struct Counter {
    id: u32,
    source: String,
    name: String,
    title: String,
    unit: String,
    tags: String,
    kind: Variant<CounterKind>,
}

impl Counter {
    pub fn rows(self) -> Option<Vec<CounterDef>> {
        Some(vec![CounterDef {
            counter: self.id,
            source: self.source,
            name: self.name,
            title: self.title,
            unit: self.unit,
            tags: self.tags,
            kind: self.kind.0,
        }])
    }
}

/// Values of counters at a time.
#[derive(Deserialize)]
pub(crate) struct CounterValues {
    time: Nanos,
    values: Vec<(u32, f64)>,
}

impl CounterValues {
    pub fn rows(self) -> Option<Vec<CounterValue>> {
        let Self { time, values } = self;
        let values = values.into_iter();
        Some(values.map(|(counter, value)| CounterValue { time, counter, value }).collect())
    }
}

/// A thrown exception kept as a sample.
#[derive(Deserialize)]
pub(crate) struct Exception {
    time: Nanos,
    thread: ThreadId,
    ty: TypeId,
    message: Option<String>,
    stack: StackId,
    weight: u64,
    caught_by: Option<FunctionId>,
    time_to_catch: Option<u64>,
}

impl Exception {
    pub fn rows(self) -> Option<Vec<ExceptionSample>> {
        Some(vec![ExceptionSample {
            time: self.time,
            thread: self.thread,
            ty: self.ty,
            message: self.message,
            stack: self.stack,
            weight: self.weight,
            caught_by: self.caught_by,
            time_to_catch: self.time_to_catch,
        }])
    }
}

/// Exact numbers of thrown exceptions.
#[derive(Deserialize)]
pub(crate) struct ExceptionCounts {
    time: Nanos,
    counts: Vec<(TypeId, u64)>,
}

impl ExceptionCounts {
    pub fn rows(self) -> Option<Vec<ExceptionCount>> {
        let Self { time, counts } = self;
        let counts = counts.into_iter();
        Some(counts.map(|(ty, count)| ExceptionCount { time, ty, count }).collect())
    }
}

/// Something that happened to the thread pool.
#[derive(Deserialize)]
pub(crate) struct PoolEvent {
    time: Nanos,
    change: PoolChange,
}

/// What happened to the thread pool.
#[derive(Deserialize)]
enum PoolChange {
    Started(u32),
    Stopped(u32),
    Adjusted { workers: u32, throughput: f64, reason: String },
    Limits { min: u32, max: u32 },
}

impl PoolEvent {
    pub fn rows(self) -> Option<Vec<threadpool::PoolEvent>> {
        use threadpool::{PoolChange as Change, PoolEvent as Event};
        let Self { time, change } = self;
        Some(vec![match change {
            PoolChange::Started(active) => Event::worker(time, Change::Started, active),
            PoolChange::Stopped(active) => Event::worker(time, Change::Stopped, active),
            PoolChange::Adjusted { workers, throughput, reason } => {
                Event::adjusted(time, workers, throughput, reason)
            }
            PoolChange::Limits { min, max } => Event::limits(time, min, max),
        }])
    }
}

/// A thread that was started.
#[derive(Deserialize)]
pub(crate) struct ThreadCreation {
    time: Nanos,
    thread: ThreadId,
    creator: Option<(ThreadId, StackId)>,
    managed_id: u32,
    pool: bool,
}

impl ThreadCreation {
    pub fn rows(self) -> Option<Vec<Creation>> {
        let Self { time, thread, creator, managed_id, pool } = self;
        let (creator, stack) = creator.unzip();
        Some(vec![Creation { time, thread, creator, stack, managed_id, pool }])
    }
}

/// Sampled allocations.
#[derive(Deserialize)]
pub(crate) struct AllocationBatch {
    sampling: Variant<AllocationSampling>,
    start: Nanos,
    time_delta: Vec<u64>,
    thread: Vec<ThreadId>,
    stack: Vec<StackId>,
    ty: Vec<TypeId>,
    heap: Vec<Variant<AllocationHeap>>,
    size: Vec<u64>,
    bytes: Vec<u64>,
    truncated: Vec<bool>,
}

impl AllocationBatch {
    pub fn rows(self) -> Option<Vec<AllocationSample>> {
        rows(self.start, &self.time_delta, |time, row| {
            Some(AllocationSample {
                time,
                thread: *self.thread.get(row)?,
                stack: *self.stack.get(row)?,
                ty: *self.ty.get(row)?,
                heap: self.heap.get(row)?.0,
                size: *self.size.get(row)?,
                bytes: *self.bytes.get(row)?,
                truncated: *self.truncated.get(row)?,
                sampling: self.sampling.0,
            })
        })
    }
}

/// A time of which only a part was followed.
#[derive(Deserialize)]
pub(crate) struct Window {
    start: Nanos,
    end: Nanos,
    followed_from: Nanos,
    followed_to: Nanos,
}

impl Window {
    pub fn rows(self) -> Option<Vec<AllocationWindow>> {
        let Self { start, end, followed_from, followed_to } = self;
        Some(vec![AllocationWindow { start, end, followed_from, followed_to }])
    }
}

/// Objects that a thread has allocated.
#[derive(Deserialize)]
pub(crate) struct AllocatedObjects {
    time: Nanos,
    thread: ThreadId,
    /// Type, objects, bytes.
    counts: Vec<(TypeId, u64, u64)>,
}

impl AllocatedObjects {
    pub fn rows(self) -> Option<Vec<Allocated>> {
        let Self { time, thread, counts } = self;
        let rows = counts.into_iter().map(|(ty, objects, bytes)| Allocated {
            time,
            thread,
            ty,
            objects,
            bytes,
        });
        Some(rows.collect())
    }
}

/// Waits for locks.
#[derive(Deserialize)]
pub(crate) struct ContentionBatch {
    start: Nanos,
    time_delta: Vec<u64>,
    thread: Vec<ThreadId>,
    stack: Vec<StackId>,
    duration: Vec<u64>,
    /// 0 where it is not known.
    lock: Vec<u64>,
    owner: Vec<Option<ThreadId>>,
    truncated: Vec<bool>,
}

impl ContentionBatch {
    pub fn rows(self) -> Option<Vec<Wait>> {
        rows(self.start, &self.time_delta, |time, row| {
            Some(Wait {
                time,
                thread: *self.thread.get(row)?,
                stack: *self.stack.get(row)?,
                duration: *self.duration.get(row)?,
                lock: Some(*self.lock.get(row)?).filter(|lock| *lock != 0),
                owner: *self.owner.get(row)?,
                truncated: *self.truncated.get(row)?,
            })
        })
    }
}

/// An assembly that was loaded, or asked for.
#[derive(Deserialize)]
pub(crate) struct Load {
    time: Nanos,
    thread: ThreadId,
    stack: StackId,
    truncated: bool,
    duration: Option<u64>,
    own: Option<u64>,
    resolution: Option<u64>,
    outcome: Variant<LoadOutcome>,
    assembly: u64,
    name: String,
    path: String,
    requested: String,
    requested_by: String,
    context: String,
    /// What was tried, whether it was found, the result, and how long it took.
    steps: Vec<(String, bool, String, Nanos)>,
    dynamic: bool,
    collectible: bool,
    precompiled: bool,
}

impl Load {
    pub fn rows(self) -> Option<Vec<AssemblyLoad>> {
        let mut row = AssemblyLoad {
            time: self.time,
            thread: self.thread,
            stack: self.stack,
            truncated: self.truncated,
            duration: self.duration,
            own: self.own,
            resolution: self.resolution,
            outcome: self.outcome.0,
            assembly: self.assembly,
            name: self.name,
            path: self.path,
            requested: self.requested,
            requested_by: self.requested_by,
            context: self.context,
            step: Vec::new(),
            step_found: Vec::new(),
            step_result: Vec::new(),
            step_took: Vec::new(),
            dynamic: self.dynamic,
            collectible: self.collectible,
            precompiled: self.precompiled,
        };
        for (what, found, result, took) in self.steps {
            row.add_step(what, found, result, took);
        }
        Some(vec![row])
    }
}

/// An assembly that was unloaded.
#[derive(Deserialize)]
pub(crate) struct Unload {
    time: Nanos,
    assembly: u64,
    name: String,
}

impl Unload {
    pub fn rows(self) -> Option<Vec<Unloaded>> {
        let Self { time, assembly, name } = self;
        Some(vec![Unloaded { time, assembly, name }])
    }
}

/// Loaded types.
#[derive(Deserialize)]
pub(crate) struct TypeLoadBatch {
    start: Nanos,
    time_delta: Vec<u64>,
    thread: Vec<ThreadId>,
    stack: Vec<StackId>,
    ty: Vec<TypeId>,
    duration: Vec<u64>,
    own: Vec<u64>,
    truncated: Vec<bool>,
}

impl TypeLoadBatch {
    pub fn rows(self) -> Option<Vec<TypeLoad>> {
        rows(self.start, &self.time_delta, |time, row| {
            Some(TypeLoad {
                time,
                thread: *self.thread.get(row)?,
                stack: *self.stack.get(row)?,
                ty: *self.ty.get(row)?,
                duration: *self.duration.get(row)?,
                own: *self.own.get(row)?,
                truncated: *self.truncated.get(row)?,
            })
        })
    }
}

/// The rows of a batch: of each, when it was and its place in the columns. `None` if a column is
/// too short.
fn rows<R>(
    start: Nanos,
    time_delta: &[u64],
    row: impl Fn(Nanos, usize) -> Option<R>,
) -> Option<Vec<R>> {
    let times = time_delta.iter().scan(start, |time, delta| {
        *time = time.wrapping_add(*delta);
        Some(*time)
    });
    times.enumerate().map(|(at, time)| row(time, at)).collect()
}

/// A variant that a cell holds today as a word. Files have its number, which is the position of
/// the word.
struct Variant<W>(W);

impl<'de, W: Words> Deserialize<'de> for Variant<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        let found = W::WORDS.get(number as usize);
        found.map(|(variant, _)| Self(*variant)).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Unsigned(number.into()), &"a known variant")
        })
    }
}
