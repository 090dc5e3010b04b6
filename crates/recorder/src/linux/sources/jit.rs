//! `jit`: compiled methods.

use super::{Context, EventSample, NO_CALLER, Samples, Source, States, collected};
use crate::linux::{
    frames::{EventMethod, Frames},
    window::Window,
};
use nettrace::{
    jit::{Collector, Compiled, Output},
    names,
};
use profilers::jit::{Lookups, SPEC};
use session::FunctionId;
use std::collections::HashMap;

pub const SOURCE: Source = Source {
    every_second: Some(write_lookups),
    ..Source::of_events(SPEC.id, |_| collected::<Collector>(sample))
};

/// What stands in the place of callers of what is compiled in the background.
const BACKGROUND: &str = "[compiled in the background]";

/// Most methods that are remembered.
const MAX_METHODS: usize = 1 << 18;

fn sample(output: Output, out: &mut Samples) {
    match output {
        Output::Compiled(compiled) => out.push(compiled),
        Output::Lookup { time, found, duration } => {
            out.push(Box::new(Lookup { time, found, duration }));
        }
        Output::Freed => out.push(Box::new(Freed)),
    }
}

/// Precompiled code was looked for.
#[derive(Debug)]
struct Lookup {
    time: u64,
    found: bool,
    duration: Option<u64>,
}

impl EventSample for Lookup {
    fn time(&self) -> u64 {
        self.time
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let sums = context.states.of::<Lookups>();
        *(if self.found { &mut sums.found } else { &mut sums.missing }) += 1;
        sums.duration = sums.duration.saturating_add(self.duration.unwrap_or(0));
    }
}

/// Code of a method was freed.
#[derive(Debug)]
struct Freed;

impl EventSample for Freed {
    fn time(&self) -> u64 {
        0
    }

    fn clip(&mut self, _window: &Window) -> bool {
        true
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.states.of::<Lookups>().freed += 1;
    }
}

/// Writes what was looked for since it was last written.
fn write_lookups(context: &mut Context<'_>, time: u64) {
    let sums = std::mem::take(context.states.of::<Lookups>());
    if sums != Lookups::default() {
        context.row(&Lookups { time, ..sums });
    }
}

/// Compiled methods that the agent has named: a method is asked for once.
#[derive(Default)]
struct Methods(HashMap<MethodKey, FunctionId>);

/// The runtime's numbers of a method and of its module, and its token: the number may come again
/// once its assembly was unloaded.
type MethodKey = (u64, u64, u32);

fn method_key(compiled: &Compiled) -> MethodKey {
    (compiled.compilation.row.method, compiled.module, compiled.token)
}

impl EventSample for Compiled {
    fn time(&self) -> u64 {
        self.compilation.row.time
    }

    /// The agent knows more of a method than the event: its module, the arguments of generic ones.
    fn needs(&self, frames: &Frames, states: &States) -> Vec<u64> {
        let mut needs = frames.unknown_of(&self.compilation.stack);
        let is_known = || {
            let methods = states.get::<Methods>();
            methods.is_some_and(|methods| methods.0.contains_key(&method_key(self)))
        };
        if !self.dynamic && !is_known() && !frames.knows(self.code) {
            needs.push(self.code);
        }
        needs
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let function = function(context, &self);
        let mut row = self.compilation.row;
        row.thread = context.thread(row.thread);
        let alone = if row.background { BACKGROUND } else { NO_CALLER };
        (row.stack, row.truncated) = context.stack_of(&self.compilation.stack, function, alone);
        context.row(&row);
    }
}

/// The compiled method: as the agent names it, else as its event does.
fn function(context: &mut Context<'_>, compiled: &Compiled) -> FunctionId {
    let key = method_key(compiled);
    if !compiled.dynamic {
        let methods = &mut context.states.of::<Methods>().0;
        if let Some(known) = methods.get(&key) {
            return *known;
        }
        if let Some(named) = context.frames.method_at(compiled.code, compiled.token) {
            if methods.len() >= MAX_METHODS {
                methods.clear();
            }
            methods.insert(key, named);
            return named;
        }
    }
    context.frames.method_of_event(context.definitions, &method(compiled))
}

/// A method as far as its event tells.
fn method(compiled: &Compiled) -> EventMethod {
    EventMethod {
        dynamic: compiled.dynamic,
        type_name: names::type_name(&compiled.type_name),
        name: names::cut(compiled.name.clone()),
        parameters: names::parameters(&compiled.signature),
    }
}
