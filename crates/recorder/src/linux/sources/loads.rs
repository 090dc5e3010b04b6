//! `loads`: loaded assemblies and types.

use super::{Context, EventSample, NO_CALLER, Source, States, collected};
use crate::linux::frames::Frames;
use nettrace::{
    Located,
    loads::{self, Collector, LoadedType, Output},
};
use profilers::loads::{AssemblyLoad, SPEC, Unloaded};

pub const SOURCE: Source = Source::of_events(SPEC.id, |_| {
    collected::<Collector>(|output, out| match output {
        Output::Load(load) => out.push(load),
        Output::Type(load) => out.push(Box::new(load)),
        Output::Unloaded(unloaded) => out.push(Box::new(unloaded)),
    })
});

impl EventSample for Located<AssemblyLoad> {
    fn time(&self) -> u64 {
        self.row.time
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Self { mut row, stack } = *self;
        row.thread = context.thread(row.thread);
        let leaf = format!("[load {}]", loads::simple_name(&row.name));
        let leaf = context.runtime_function(&leaf);
        (row.stack, row.truncated) = context.stack_of(&stack, leaf, NO_CALLER);
        context.row(&row);
    }
}

impl EventSample for LoadedType {
    fn time(&self) -> u64 {
        self.load.row.time
    }

    fn needs(&self, frames: &Frames, _states: &States) -> Vec<u64> {
        frames.unknown_of(&self.load.stack)
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Located { mut row, stack } = self.load;
        row.thread = context.thread(row.thread);
        let leaf = context.runtime_function("[load types]");
        (row.stack, row.truncated) = context.stack_of(&stack, leaf, NO_CALLER);
        row.ty = context.type_of_events(self.name);
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
