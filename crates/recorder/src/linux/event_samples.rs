//! Allocations, waits for locks, compilations and loads on their way from the EventPipe session to
//! the session file. They become rows once it is known what code stands at the addresses of their
//! stacks.

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
use profilers::{
    allocations::{AllocationHeap, AllocationSample, AllocationSampling},
    gc::Induced,
    jit::{JitTier, PrecompiledCode},
    loads::{AssemblyLoad, LoadOutcome},
    locks::Wait,
};
use session::{FunctionId, FunctionKind, StackId, ThreadId};
use std::{collections::HashMap, sync::Arc};

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

/// Samples that are ready to be written, and names that are remembered for them.
#[derive(Default)]
pub(super) struct EventSamples {
    ready: Vec<EventSample>,
    /// Names of types as C# writes them, by their names in events.
    type_names: HashMap<String, String>,
    /// Compiled methods that the agent has named: a method is asked for once.
    methods: HashMap<MethodKey, FunctionId>,
    /// The same of loaded types, which have another form.
    loaded_names: HashMap<String, String>,
}

impl EventSamples {
    /// Addresses that the agent has to explain before a sample is ready.
    pub fn needs_of(&self, sample: &EventSample, frames: &Frames) -> Vec<u64> {
        let mut needs = frames.unknown_of(sample.stack());
        // The agent knows more of a method than the event: its module, the arguments of generic
        // ones.
        if let EventSample::Compiled(compiled) = sample
            && !compiled.dynamic
            && !self.methods.contains_key(&method_key(compiled))
            && !frames.knows(compiled.code)
        {
            needs.push(compiled.code);
        }
        needs
    }

    /// Takes a sample whose addresses are known, as far as they will be.
    pub fn ready(&mut self, sample: EventSample) {
        self.ready.push(sample);
    }

    /// Makes rows of all samples that are ready, in the order of their times. What is unknown is
    /// shown as such.
    pub fn settle(&mut self, frames: &mut Frames, definitions: &mut Definitions, target: &Target) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_by_key(EventSample::time);
        let mut context = Context { frames, definitions, target };
        for sample in ready {
            match sample {
                EventSample::Allocation(allocation) => self.allocation(&mut context, allocation),
                EventSample::Contention(wait) => context.contention(&wait),
                EventSample::Induced(call) => context.induced(&call),
                EventSample::Creation(creation) => context.creation(&creation),
                EventSample::Compiled(compiled) => self.compiled(&mut context, &compiled),
                EventSample::Loaded(load) => context.loaded(*load),
                EventSample::TypeLoaded(load) => self.type_loaded(&mut context, load),
            }
        }
    }

    fn allocation(&mut self, context: &mut Context<'_>, allocation: Allocation) {
        let thread = context.thread(allocation.thread);
        let (stack, truncated) = context.stack(&allocation.stack);
        let name = self
            .type_names
            .entry(allocation.type_name)
            .or_insert_with_key(|name| wire::as_csharp(name));
        let ty = context.definitions.ty(name);
        let sampling = match allocation.sampling {
            Sampling::Random => AllocationSampling::Random,
            Sampling::Tick => AllocationSampling::Tick,
        };
        let heap = match allocation.heap {
            Heap::Small => AllocationHeap::Small,
            Heap::Large => AllocationHeap::Large,
            Heap::Pinned => AllocationHeap::Pinned,
        };
        context.definitions.row(&AllocationSample {
            time: allocation.time,
            thread,
            stack,
            ty,
            heap,
            size: allocation.size,
            bytes: allocation.bytes,
            truncated,
            sampling,
        });
    }

    fn compiled(&mut self, context: &mut Context<'_>, compiled: &Compilation) {
        let thread = context.thread(compiled.thread);
        let function = self.function(context.frames, context.definitions, compiled);
        let alone = if compiled.background { BACKGROUND } else { NO_CALLER };
        let (stack, truncated) = context.stack_of(&compiled.stack, function, alone);
        context.definitions.row(&profilers::jit::Compilation {
            time: compiled.start,
            thread,
            stack,
            duration: compiled.duration,
            method: compiled.method,
            tier: tier(compiled.tier),
            il_size: compiled.il_size,
            native_size: compiled.native_size,
            background: compiled.background,
            precompiled: match compiled.precompiled {
                Precompiled::NotSought => PrecompiledCode::NotSought,
                Precompiled::Missing => PrecompiledCode::Missing,
                Precompiled::Rejected => PrecompiledCode::Rejected,
                Precompiled::RejectedByProfiler => PrecompiledCode::RejectedByProfiler,
            },
            truncated,
        });
    }

    fn type_loaded(&mut self, context: &mut Context<'_>, load: TypeLoad) {
        let thread = context.thread(load.thread);
        let leaf = context.definitions.named(FunctionKind::Runtime, "[load types]", None);
        let (stack, truncated) = context.stack_of(&load.stack, leaf, NO_CALLER);
        let name = self.loaded_names.entry(load.name);
        let ty =
            context.definitions.ty(name.or_insert_with_key(|name| event_names::type_name(name)));
        let (time, duration, own) = (load.start, load.duration, load.own);
        let load = profilers::loads::TypeLoad { time, thread, stack, ty, duration, own, truncated };
        context.definitions.row(&load);
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
    let mut row = AssemblyLoad {
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
        step: Vec::new(),
        step_found: Vec::new(),
        step_result: Vec::new(),
        step_took: Vec::new(),
        dynamic: load.dynamic,
        collectible: load.collectible,
        precompiled: load.precompiled,
    };
    for step in load.steps {
        let kind = step_words(step.kind);
        let what =
            if step.what.is_empty() { kind.to_owned() } else { format!("{kind} {}", step.what) };
        row.add_step(what, step.found, step.result, step.took);
    }
    row
}

fn step_words(kind: StepKind) -> &'static str {
    match kind {
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
    }
}

/// Where threads and stacks get their ids, and rows go to.
struct Context<'a> {
    frames: &'a mut Frames,
    definitions: &'a mut Definitions,
    target: &'a Target,
}

impl Context<'_> {
    /// The thread with an id in the pid namespace of the process.
    fn thread(&mut self, inner: u64) -> ThreadId {
        let target = self.target;
        let os_tid = target.host_tid(u32::try_from(inner).unwrap_or(u32::MAX));
        self.definitions.thread(os_tid, || target.thread_name(os_tid))
    }

    fn stack(&mut self, ips: &Arc<[u64]>) -> (StackId, bool) {
        self.frames.event_stack(self.definitions, ips)
    }

    /// See [`Frames::event_stack_of`].
    fn stack_of(&mut self, ips: &Arc<[u64]>, leaf: FunctionId, alone: &str) -> (StackId, bool) {
        self.frames.event_stack_of(self.definitions, ips, leaf, alone)
    }

    fn contention(&mut self, wait: &Contention) {
        let thread = self.thread(wait.thread);
        let owner = wait.owner.map(|owner| self.thread(owner));
        let (stack, truncated) = self.stack(&wait.stack);
        let (time, duration, lock) = (wait.start, wait.duration, wait.lock);
        self.definitions.row(&Wait { time, thread, stack, duration, lock, owner, truncated });
    }

    fn induced(&mut self, call: &Induction) {
        let thread = self.thread(call.thread);
        let (stack, truncated) = self.stack(&call.stack);
        self.definitions.row(&Induced { time: call.time, thread, stack, truncated });
    }

    fn creation(&mut self, creation: &Creation) {
        let creator = creation.creator.map(|creator| self.thread(creator));
        let stack = creator.map(|_| self.stack(&creation.stack).0);
        let target = self.target;
        let os_tid = target.host_tid(u32::try_from(creation.thread).unwrap_or(u32::MAX));
        let thread =
            self.definitions.thread_of(os_tid, creation.time, || target.thread_name(os_tid));
        let Creation { time, managed_id, pool, .. } = *creation;
        let row = profilers::threads::Creation { time, thread, creator, stack, managed_id, pool };
        self.definitions.row(&row);
    }

    fn loaded(&mut self, load: Load) {
        let thread = self.thread(load.thread);
        let leaf = format!("[load {}]", loads::simple_name(&load.name));
        let leaf = self.definitions.named(FunctionKind::Runtime, &leaf, None);
        let (stack, truncated) = self.stack_of(&load.stack, leaf, NO_CALLER);
        let load = assembly_load(load, thread, stack, truncated);
        self.definitions.row(&load);
    }
}
