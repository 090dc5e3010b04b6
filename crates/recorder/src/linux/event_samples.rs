//! Allocations, waits for locks, compilations and loads on their way from the EventPipe session to
//! the session file: they wait until it is known what code stands at the addresses of their stacks.

use super::{
    define::Definitions,
    event_names,
    frames::{EventMethod, Frames},
    target::Target,
};
use nettrace::{
    allocations::{Allocation, Heap, Sampling},
    gc::Induction,
    jit::{Compilation, Precompiled, Tier},
    loads::{self, Load, Outcome, StepKind, TypeLoad},
    locks::Contention,
    threads::Creation,
};
use session::{
    AllocationBatch, AllocationHeap, AllocationSampling, AssemblyLoad, CompilationBatch,
    ContentionBatch, FunctionId, FunctionKind, InducedGc, JitTier, LoadOutcome, LoadStep,
    PrecompiledCode, SessionRecord, StackId, ThreadCreation, ThreadId, TypeLoadBatch,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

/// Most samples that wait at a time. They are small, and at the end of a recording all that the
/// runtime has buffered comes at once.
const MAX_WAITING: usize = 1 << 17;

/// Most rows of a batch.
const MAX_ROWS: usize = 1 << 14;

/// What an event told.
pub(super) enum EventSample {
    Allocation(Allocation),
    Contention(Contention),
    Induced(Induction),
    Creation(Creation),
    Compiled(Box<Compilation>),
    Loaded(Box<Load>),
    TypeLoaded(TypeLoad),
}

impl EventSample {
    fn stack(&self) -> &Arc<[u64]> {
        match self {
            Self::Allocation(allocation) => &allocation.stack,
            Self::Contention(wait) => &wait.stack,
            Self::Induced(call) => &call.stack,
            Self::Creation(creation) => &creation.stack,
            Self::Compiled(compiled) => &compiled.stack,
            Self::Loaded(load) => &load.stack,
            Self::TypeLoaded(load) => &load.stack,
        }
    }

    pub fn time(&self) -> u64 {
        match self {
            Self::Allocation(allocation) => allocation.time,
            Self::Contention(wait) => wait.start,
            Self::Induced(call) => call.time,
            Self::Creation(creation) => creation.time,
            Self::Compiled(compiled) => compiled.start,
            Self::Loaded(load) => load.start,
            Self::TypeLoaded(load) => load.start,
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
    /// Compiled methods that the agent has named: a method is asked for once.
    methods: HashMap<MethodKey, FunctionId>,
    /// The same of loaded types, which have another form.
    loaded_names: HashMap<String, String>,
}

impl EventSamples {
    /// Takes a sample; false if there is no room.
    pub fn push(&mut self, sample: EventSample, frames: &Frames) -> bool {
        let mut needs = frames.unknown_of(sample.stack());
        // The agent knows more of a method than the event: its module, the arguments of generic
        // ones.
        if let EventSample::Compiled(compiled) = &sample
            && !compiled.dynamic
            && !self.methods.contains_key(&method_key(compiled))
            && !frames.knows(compiled.code)
        {
            needs.push(compiled.code);
        }
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

    /// Records of all samples whose addresses are known, in the order of their times. Those that
    /// have waited longer than the limit (all, if `all` is set) no longer wait: what is unknown
    /// then is shown as such.
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
        let (mut compilations, mut type_loads) = (Compilations::default(), TypeLoads::default());
        for sample in ready {
            let mut thread = |inner: u64| {
                let os_tid = target.host_tid(u32::try_from(inner).unwrap_or(u32::MAX));
                definitions.thread(os_tid, || target.thread_name(os_tid))
            };
            match sample {
                EventSample::Allocation(allocation) => {
                    let thread = thread(allocation.thread);
                    let (stack, truncated) = frames.event_stack(definitions, &allocation.stack);
                    let name = self
                        .type_names
                        .entry(allocation.type_name)
                        .or_insert_with_key(|name| wire::as_csharp(name));
                    let ty = definitions.ty(name);
                    let sampling = match allocation.sampling {
                        Sampling::Random => AllocationSampling::Random,
                        Sampling::Tick => AllocationSampling::Tick,
                    };
                    if allocations.batch.sampling != sampling {
                        records.extend(allocations.take());
                    }
                    let delta = allocations.next_row(allocation.time, &mut records);
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
                    let delta = contentions.next_row(wait.start, &mut records);
                    let batch = &mut contentions.batch;
                    batch.time_delta.push(delta);
                    batch.thread.push(waiter);
                    batch.stack.push(stack);
                    batch.duration.push(wait.duration);
                    batch.lock.push(wait.lock.unwrap_or(0));
                    batch.owner.push(owner);
                    batch.truncated.push(truncated);
                }
                EventSample::Induced(call) => {
                    let thread = thread(call.thread);
                    let (stack, truncated) = frames.event_stack(definitions, &call.stack);
                    let call = InducedGc { time: call.time, thread, stack, truncated };
                    records.push(SessionRecord::InducedGc(call));
                }
                EventSample::Creation(creation) => {
                    let creator = creation.creator.map(&mut thread);
                    let creator = creator.map(|creator| {
                        (creator, frames.event_stack(definitions, &creation.stack).0)
                    });
                    let os_tid =
                        target.host_tid(u32::try_from(creation.thread).unwrap_or(u32::MAX));
                    let thread =
                        definitions.thread_of(os_tid, creation.time, || target.thread_name(os_tid));
                    let Creation { time, managed_id, pool, .. } = creation;
                    let creation = ThreadCreation { time, thread, creator, managed_id, pool };
                    records.push(SessionRecord::ThreadCreation(creation));
                }
                EventSample::Compiled(compiled) => {
                    let thread = thread(compiled.thread);
                    let function = self.function(frames, definitions, &compiled);
                    let alone = if compiled.background { BACKGROUND } else { NO_CALLER };
                    let (stack, truncated) =
                        frames.event_stack_of(definitions, &compiled.stack, function, alone);
                    let delta = compilations.next_row(compiled.start, &mut records);
                    let batch = &mut compilations.batch;
                    batch.time_delta.push(delta);
                    batch.thread.push(thread);
                    batch.stack.push(stack);
                    batch.duration.push(compiled.duration);
                    batch.method.push(compiled.method);
                    batch.tier.push(tier(compiled.tier));
                    batch.il_size.push(compiled.il_size);
                    batch.native_size.push(compiled.native_size);
                    batch.background.push(compiled.background);
                    batch.precompiled.push(match compiled.precompiled {
                        Precompiled::NotSought => PrecompiledCode::NotSought,
                        Precompiled::Missing => PrecompiledCode::Missing,
                        Precompiled::Rejected => PrecompiledCode::Rejected,
                        Precompiled::RejectedByProfiler => PrecompiledCode::RejectedByProfiler,
                    });
                    batch.truncated.push(truncated);
                }
                EventSample::Loaded(load) => {
                    let thread = thread(load.thread);
                    let leaf = format!("[load {}]", loads::simple_name(&load.name));
                    let leaf = definitions.named(FunctionKind::Runtime, &leaf, None);
                    let (stack, truncated) =
                        frames.event_stack_of(definitions, &load.stack, leaf, NO_CALLER);
                    records.push(SessionRecord::AssemblyLoad(assembly_load(
                        *load, thread, stack, truncated,
                    )));
                }
                EventSample::TypeLoaded(load) => {
                    let thread = thread(load.thread);
                    let leaf = definitions.named(FunctionKind::Runtime, "[load types]", None);
                    let (stack, truncated) =
                        frames.event_stack_of(definitions, &load.stack, leaf, NO_CALLER);
                    let name = self.loaded_names.entry(load.name);
                    let ty = definitions
                        .ty(name.or_insert_with_key(|name| event_names::type_name(name)));
                    let delta = type_loads.next_row(load.start, &mut records);
                    let batch = &mut type_loads.batch;
                    batch.time_delta.push(delta);
                    batch.thread.push(thread);
                    batch.stack.push(stack);
                    batch.ty.push(ty);
                    batch.duration.push(load.duration);
                    batch.own.push(load.own);
                    batch.truncated.push(truncated);
                }
            }
        }
        records.extend(allocations.take());
        records.extend(contentions.take());
        records.extend(compilations.take());
        records.extend(type_loads.take());
        records
    }
}

impl EventSamples {
    /// The compiled method: as the agent names it, else as its event does.
    fn function(
        &mut self,
        frames: &mut Frames,
        definitions: &mut Definitions,
        compiled: &Compilation,
    ) -> FunctionId {
        let key = method_key(compiled);
        if !compiled.dynamic {
            if let Some(known) = self.methods.get(&key) {
                return *known;
            }
            if let Some(named) = frames.method_at(compiled.code, compiled.token) {
                if self.methods.len() >= MAX_METHODS {
                    self.methods.clear();
                }
                self.methods.insert(key, named);
                return named;
            }
        }
        frames.method_of_event(definitions, &method(compiled))
    }
}

/// The runtime's numbers of a method and of its module, and its token: the number may come again
/// once its assembly was unloaded.
type MethodKey = (u64, u64, u32);

fn method_key(compiled: &Compilation) -> MethodKey {
    (compiled.method, compiled.module, compiled.token)
}

/// Most methods that are remembered.
const MAX_METHODS: usize = 1 << 18;

/// What stands in the place of callers where there are none.
const BACKGROUND: &str = "[compiled in the background]";
const NO_CALLER: &str = "[the runtime itself]";

/// A method as far as its event tells.
fn method(compiled: &Compilation) -> EventMethod {
    EventMethod {
        dynamic: compiled.dynamic,
        type_name: event_names::type_name(&compiled.type_name),
        name: event_names::cut(compiled.name.clone()),
        parameters: event_names::parameters(&compiled.signature),
    }
}

fn tier(tier: Tier) -> JitTier {
    match tier {
        Tier::Unknown => JitTier::Unknown,
        Tier::MinOpt => JitTier::MinOpt,
        Tier::Optimized => JitTier::Optimized,
        Tier::Quick => JitTier::Quick,
        Tier::Tier1 => JitTier::Tier1,
        Tier::Tier1Osr => JitTier::Tier1Osr,
        Tier::QuickInstrumented => JitTier::QuickInstrumented,
        Tier::Tier1Instrumented => JitTier::Tier1Instrumented,
    }
}

fn assembly_load(load: Load, thread: ThreadId, stack: StackId, truncated: bool) -> AssemblyLoad {
    let step = |step: loads::Step| {
        let what = match step.kind {
            StepKind::InContext => "assemblies of the load context",
            StepKind::ContextLoad => "AssemblyLoadContext.Load",
            StepKind::Application => "assemblies of the application",
            StepKind::DefaultContext => "the default load context",
            StepKind::Satellite => "satellite assemblies",
            StepKind::ContextResolving => "handlers of AssemblyLoadContext.Resolving",
            StepKind::AppDomainResolve => "handlers of AppDomain.AssemblyResolve",
            StepKind::OtherStage => "a stage of the runtime",
            StepKind::ContextHandler => "AssemblyLoadContext.Resolving handler",
            StepKind::AppDomainHandler => "AppDomain.AssemblyResolve handler",
            StepKind::LoadFromHandler => "beside the assembly that asks:",
            StepKind::Probe => "file",
        };
        let what =
            if step.what.is_empty() { what.to_owned() } else { format!("{what} {}", step.what) };
        LoadStep { what, found: step.found, result: step.result, took: step.took }
    };
    AssemblyLoad {
        time: load.start,
        thread,
        stack,
        truncated,
        duration: load.duration,
        own: load.own,
        resolution: load.resolution,
        outcome: match load.outcome {
            Outcome::Loaded => LoadOutcome::Loaded,
            Outcome::Known => LoadOutcome::Known,
            Outcome::Failed => LoadOutcome::Failed,
        },
        assembly: load.assembly,
        name: load.name,
        path: load.path,
        requested: load.requested,
        requested_by: load.requested_by,
        context: load.context,
        steps: load.steps.into_iter().map(step).collect(),
        dynamic: load.dynamic,
        collectible: load.collectible,
        precompiled: load.precompiled,
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
            /// Time since the row before, which begins the batch if there is none. A full batch
            /// goes to `records` first.
            fn next_row(&mut self, time: u64, records: &mut Vec<SessionRecord>) -> u64 {
                if self.batch.time_delta.len() >= MAX_ROWS {
                    records.extend(self.take());
                }
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
growing!(Compilations, CompilationBatch, Compilations);
growing!(TypeLoads, TypeLoadBatch, TypeLoads);
