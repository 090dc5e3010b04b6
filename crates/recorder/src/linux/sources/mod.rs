//! How profilers get their rows from outside of the target: from the runtime's events, and from the
//! threads that their collectors have seen.
//!
//! One file for each profiler. The recorder knows none by name.

use super::{define::Definitions, event_names, frames::Frames, target::Target, window::Window};
use nettrace::Event;
use rows::Row;
use session::{FunctionId, FunctionKind, StackId, ThreadId, ThreadState};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    sync::Arc,
};

/// Declares the modules of all sources and the list of them: those of whole profilers, and these.
macro_rules! sources {
    ($($whole:ident),* $(,)?) => {
        sources! { all gc, locks, threads, threadpool, jit, loads $(, $whole)* }
    };
    (all $($name:ident),*) => {
        $(mod $name;)*

        /// All sources.
        const SOURCES: &[Source] = &[$($name::SOURCE),*];
    };
}

profilers::whole_profilers!(sources);

mod allocations;

/// What stands in the place of callers where there are none.
const NO_CALLER: &str = "[the runtime itself]";

/// How a profiler gets its rows.
pub(super) struct Source {
    /// Id of the profiler.
    profiler: &'static str,
    /// Makes the part that reads the events of a session, if it needs any.
    reader: Option<fn() -> Box<dyn EventReader>>,
    /// Called about every second and at the end, with the time: for rows that are sums.
    every_second: Option<fn(&mut Context<'_>, u64)>,
    /// What to make of the ticks of the profiler's collector, if it has one that sends
    /// [`wire::Record::ThreadTick`]: whether a thread with this id and stack is of interest, and
    /// rows of a tick.
    ticks: Option<(IsOfInterest, WriteTick)>,
}

/// Whether a thread is of interest to a profiler: by its id of the operating system, as this
/// machine numbers it, and by its stack.
type IsOfInterest = fn(&mut Context<'_>, u32, StackId) -> bool;

/// Makes rows of a tick.
type WriteTick = fn(&mut Context<'_>, &Tick);

/// Threads at a tick of a profiler's collector.
pub(super) struct Tick {
    /// When.
    pub time: u64,
    /// Nanoseconds for which it stands: those since the tick before.
    pub elapsed: u64,
    /// Those of interest.
    pub threads: Vec<TickedThread>,
}

/// A thread at a [`Tick`].
#[derive(Clone, Copy, Debug)]
pub(super) struct TickedThread {
    /// Which.
    pub thread: ThreadId,
    /// Its stack.
    pub stack: StackId,
    /// What it did or waited for.
    pub state: ThreadState,
}

impl Source {
    /// A source that makes rows of the runtime's events.
    const fn of_events(profiler: &'static str, reader: fn() -> Box<dyn EventReader>) -> Self {
        Self { profiler, reader: Some(reader), every_second: None, ticks: None }
    }
}

/// Makes samples of single events, on the thread that reads a session.
pub(super) trait EventReader: Send {
    /// Takes the next event. Events come in the order of their times, those of other profilers
    /// among them.
    fn push(&mut self, event: &Event, out: &mut Samples);

    /// No more events come.
    fn finish(&mut self, _out: &mut Samples) {}
}

/// What a reader gives: each sample on its own.
pub(super) type Samples = Vec<Box<dyn EventSample>>;

/// Something that events have told. It becomes rows once it is known what code stands at the
/// addresses of its stack.
pub(super) trait EventSample: Debug + Send {
    /// When it happened; of something that lasted, when it began.
    fn time(&self) -> u64;

    /// Leaves the part of it that lies in the time that the recording is of. False if there is none.
    fn clip(&mut self, window: &Window) -> bool {
        window.holds(self.time())
    }

    /// For how many samples of its profiler it counts in the summary of the recording.
    fn count(&self) -> u64 {
        1
    }

    /// Addresses that the agent has to explain first.
    fn needs(&self, _frames: &Frames, _states: &States) -> Vec<u64> {
        Vec::new()
    }

    /// Makes rows of it.
    fn write(self: Box<Self>, context: &mut Context<'_>);
}

/// The readers of those profilers that run.
pub(super) struct Readers(Vec<(&'static str, Box<dyn EventReader>)>);

impl Readers {
    /// New ones, for one session.
    pub fn of(runs: impl Fn(&str) -> bool) -> Self {
        let running = SOURCES.iter().filter(|source| runs(source.profiler));
        Self(running.filter_map(|source| Some((source.profiler, (source.reader?)()))).collect())
    }

    /// Passes an event to all, and what they make of it on, with the ids of their profilers.
    pub fn push<E>(
        &mut self,
        event: &Event,
        mut send: impl FnMut(&'static str, Box<dyn EventSample>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = Samples::new();
        for (profiler, reader) in &mut self.0 {
            reader.push(event, &mut out);
            out.drain(..).try_for_each(|sample| send(profiler, sample))?;
        }
        Ok(())
    }

    /// No more events come; see [`Self::push`].
    pub fn finish<E>(
        &mut self,
        mut send: impl FnMut(&'static str, Box<dyn EventSample>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = Samples::new();
        for (profiler, reader) in &mut self.0 {
            reader.finish(&mut out);
            out.drain(..).try_for_each(|sample| send(profiler, sample))?;
        }
        Ok(())
    }
}

/// The source of a profiler that makes rows of ticks, if there is one.
pub(super) fn of_ticks(profiler: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.profiler == profiler && source.ticks.is_some())
}

impl Source {
    /// Id of the profiler.
    pub fn profiler(&self) -> &'static str {
        self.profiler
    }

    /// Whether the samples of the profiler are its threads at ticks: it has no others.
    pub fn counts_ticks(&self) -> bool {
        self.reader.is_none()
    }

    /// See [`Self::ticks`].
    pub fn is_of_interest(&self, context: &mut Context<'_>, os_tid: u32, stack: StackId) -> bool {
        self.ticks.is_some_and(|(is_of_interest, _)| is_of_interest(context, os_tid, stack))
    }

    /// Makes rows of a tick.
    pub fn write_tick(&self, context: &mut Context<'_>, tick: &Tick) {
        if let Some((_, write)) = self.ticks {
            write(context, tick);
        }
    }
}

/// Has the sources of those profilers that run write their sums.
pub(super) fn every_second(runs: impl Fn(&str) -> bool, context: &mut Context<'_>, time: u64) {
    let running = SOURCES.iter().filter(|source| runs(source.profiler));
    running.filter_map(|source| source.every_second).for_each(|write| write(context, time));
}

/// What sources remember of a recording: one value of each type.
#[derive(Default)]
pub(super) struct States(HashMap<TypeId, Box<dyn Any + Send>>);

impl States {
    /// The value of this type, if there is one.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The value of this type, which is made first if there is none.
    pub fn of<T: Default + Send + 'static>(&mut self) -> &mut T {
        let state = self.0.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        match state.downcast_mut() {
            Some(state) => state,
            None => unreachable!("a value is stored by its own type"),
        }
    }
}

/// Names of types as C# writes them, by their names in events, which have either of two forms.
#[derive(Default)]
struct TypeNames {
    reflection: HashMap<String, String>,
    events: HashMap<String, String>,
}

/// Where threads, stacks and types get their ids, and rows go to.
pub(super) struct Context<'a> {
    pub frames: &'a mut Frames,
    pub definitions: &'a mut Definitions,
    pub target: &'a Target,
    pub states: &'a mut States,
}

impl Context<'_> {
    /// Adds a row.
    pub fn row<R: Row>(&mut self, row: &R) {
        self.definitions.row(row);
    }

    /// The thread of a row of events, which name it by its number in the pid namespace of the
    /// process.
    pub fn thread(&mut self, inner: ThreadId) -> ThreadId {
        let (target, os_tid) = (self.target, self.host_tid(inner.0.into()));
        self.definitions.thread(os_tid, || target.thread_name(os_tid))
    }

    /// The id that a thread has here, by that in the pid namespace of the process.
    pub fn host_tid(&self, inner: u64) -> u32 {
        self.target.host_tid(u32::try_from(inner).unwrap_or(u32::MAX))
    }

    /// The stack of an event, and whether it is cut.
    pub fn stack(&mut self, ips: &Arc<[u64]>) -> (StackId, bool) {
        self.frames.event_stack(self.definitions, ips)
    }

    /// See [`Frames::event_stack_of`].
    pub fn stack_of(&mut self, ips: &Arc<[u64]>, leaf: FunctionId, alone: &str) -> (StackId, bool) {
        self.frames.event_stack_of(self.definitions, ips, leaf, alone)
    }

    /// Something that the runtime does, as a leaf of stacks.
    pub fn runtime_function(&mut self, name: &str) -> FunctionId {
        self.definitions.named(FunctionKind::Runtime, name, None)
    }

    /// A type, by its name as reflection writes it.
    pub fn type_of_reflection(&mut self, name: String) -> rows::TypeId {
        let names = &mut self.states.of::<TypeNames>().reflection;
        let name = names.entry(name).or_insert_with_key(|name| wire::as_csharp(name));
        self.definitions.ty(name)
    }

    /// A type, by its name as events about loaded types write it.
    pub fn type_of_events(&mut self, name: String) -> rows::TypeId {
        let names = &mut self.states.of::<TypeNames>().events;
        let name = names.entry(name).or_insert_with_key(|name| event_names::type_name(name));
        self.definitions.ty(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_source_is_of_a_profiler_of_its_own() {
        let ids: HashSet<_> = SOURCES.iter().map(|source| source.profiler).collect();
        assert_eq!(ids.len(), SOURCES.len());
        assert!(ids.iter().all(|id| profilers::by_id(id).is_some()), "{ids:?}");
        assert_eq!(Readers::of(|id| id == "gc").0.len(), 1);
        assert_eq!(Readers::of(|_| false).0.len(), 0);
    }

    #[test]
    fn a_state_is_one_for_each_type() {
        let mut states = States::default();
        assert_eq!(states.get::<u32>(), None);
        *states.of::<u32>() += 1;
        *states.of::<u32>() += 1;
        states.of::<String>().push('x');
        assert_eq!(states.get::<u32>(), Some(&2));
        assert_eq!(states.of::<String>(), "x");
    }
}
