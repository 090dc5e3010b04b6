//! `loads`: loaded assemblies and types.

use super::{Context, EventReader, EventSample, NO_CALLER, Samples, Source, States};
use crate::linux::frames::Frames;
use nettrace::{
    Event,
    loads::{self, Collector, Load, Outcome, Output, StepKind, TypeLoad},
};
use profilers::loads::{AssemblyLoad, LoadOutcome, SPEC, Unloaded};
use session::{StackId, ThreadId};

pub const SOURCE: Source = Source::of_events(SPEC.id, || Box::new(Reader(Collector::new())));

struct Reader(Collector);

impl Reader {
    fn drain(&mut self, out: &mut Samples) {
        while let Some(output) = self.0.next_output() {
            match output {
                Output::Load(load) => out.push(load),
                Output::Type(load) => out.push(Box::new(load)),
                Output::Unloaded { time, assembly, name } => {
                    out.push(Box::new(Unloaded { time, assembly, name }));
                }
            }
        }
    }
}

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        self.0.push(event);
        self.drain(out);
    }

    fn finish(&mut self, out: &mut Samples) {
        self.0.finish();
        self.drain(out);
    }
}

impl EventSample for Load {
    fn time(&self) -> u64 {
        self.start
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let thread = context.thread(self.thread);
        let leaf = format!("[load {}]", loads::simple_name(&self.name));
        let leaf = context.runtime_function(&leaf);
        let (stack, truncated) = context.stack_of(&self.stack, leaf, NO_CALLER);
        context.row(&assembly_load(*self, thread, stack, truncated));
    }
}

impl EventSample for TypeLoad {
    fn time(&self) -> u64 {
        self.start
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let thread = context.thread(self.thread);
        let leaf = context.runtime_function("[load types]");
        let (stack, truncated) = context.stack_of(&self.stack, leaf, NO_CALLER);
        let ty = context.type_of_events(self.name);
        let (time, duration, own) = (self.start, self.duration, self.own);
        let row = profilers::loads::TypeLoad { time, thread, stack, ty, duration, own, truncated };
        context.row(&row);
    }
}

impl EventSample for Unloaded {
    fn time(&self) -> u64 {
        self.time
    }

    /// Loads alone are counted.
    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
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
