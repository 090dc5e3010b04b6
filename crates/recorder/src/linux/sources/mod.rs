//! How profilers get their rows from outside of the target: from the runtime's events, and from the
//! threads that their collectors have seen.
//!
//! One file for each profiler. The recorder knows none by name.

use super::{
    define::Definitions,
    events::{EventSessions, SessionStart},
    frames::Frames,
    held::MakeBatch,
    output::Output,
    statistics::Statistics,
    target::Target,
    window::Window,
};
use crate::RecordError;
use nettrace::{Collect, Event};
use rows::Row;
use session::{FunctionId, FunctionKind, SessionInfo, StackId, ThreadId, ThreadState};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    sync::Arc,
};

/// Declares the modules of all sources and the list of them: those of whole profilers, and these.
macro_rules! sources {
    ($($whole:ident),* $(,)?) => {
        sources! {
            all wall, gc, allocations, locks, counters, threads, threadpool, jit, loads
                $(, $whole)*
        }
    };
    (all $($name:ident),*) => {
        $(mod $name;)*

        /// All sources.
        const SOURCES: &[Source] = &[$($name::SOURCE),*];
    };
}

profilers::whole_profilers!(sources);

/// What stands in the place of callers where there are none.
const NO_CALLER: &str = "[the runtime itself]";

/// How a profiler gets its rows and samples.
pub(super) struct Source {
    /// Id of the profiler.
    profiler: &'static str,
    /// Makes the part that reads the events of a session, if it needs any.
    reader: Option<MakeReader>,
    /// Starts event sessions of its own, if its events do not come in those that profilers share.
    own_sessions: Option<StartSessions>,
    /// Events of the runtime that come in sessions of their own, because there may be too many.
    paced: Option<Pace>,
    /// Called about every second and at the end, with the time: for rows that are sums.
    every_second: Option<fn(&mut Context<'_>, u64)>,
    /// What to make of the ticks of the profiler's collector, if it has one that sends
    /// [`wire::Record::ThreadTick`].
    ticks: Option<OfTicks>,
    /// Called when a thread has ended, with its id of the operating system as this machine numbers
    /// it.
    thread_ended: Option<fn(&mut States, u32)>,
}

/// Makes the reader of a session.
type MakeReader = fn(&ReadSession<'_>) -> Box<dyn EventReader>;

/// Starts event sessions of a profiler.
type StartSessions = fn(SessionStart<'_>) -> Result<Box<dyn EventSessions>, RecordError>;

/// How many events of the runtime's main provider are too many for a profiler: while there are
/// more, its session is closed most of the time, unless another profiler asks for them, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Events per second.
    pub most: u32,
    /// What a user calls them, plural.
    pub what: &'static str,
}

/// What is made of the ticks of a profiler's collector.
struct OfTicks {
    /// Which threads count.
    is_of_interest: IsOfInterest,
    /// What is made of them.
    made: Made,
}

/// What is made of ticks.
enum Made {
    /// Rows of tables.
    Rows(WriteTick),
    /// A series of samples, which stand for the time between ticks.
    Samples(MakeBatch),
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

/// A session whose events are read.
pub(super) struct ReadSession<'a> {
    /// What the runtime knows it by, where it asks for that.
    pub id: &'a str,
    /// Whether a profiler runs.
    pub runs: &'a dyn Fn(&str) -> bool,
}

impl Source {
    /// The source of a profiler without anything.
    const fn of(profiler: &'static str) -> Self {
        Self {
            profiler,
            reader: None,
            own_sessions: None,
            paced: None,
            every_second: None,
            ticks: None,
            thread_ended: None,
        }
    }

    /// A source that makes rows of the runtime's events.
    const fn of_events(profiler: &'static str, reader: MakeReader) -> Self {
        Self { reader: Some(reader), ..Self::of(profiler) }
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

/// Reads events by a collector.
struct Collected<C: Collect> {
    collector: C,
    /// Makes samples of what came to be known.
    make: fn(C::Output, &mut Samples),
}

/// A reader that makes samples of what a collector puts together.
fn collected<C>(make: fn(C::Output, &mut Samples)) -> Box<dyn EventReader>
where
    C: Collect + Send + 'static,
    C::Output: 'static,
{
    Box::new(Collected::<C> { collector: C::default(), make })
}

impl<C: Collect> Collected<C> {
    fn drain(&mut self, out: &mut Samples) {
        while let Some(output) = self.collector.next_output() {
            (self.make)(output, out);
        }
    }
}

impl<C: Collect + Send> EventReader for Collected<C> {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        self.collector.push(event);
        self.drain(out);
    }

    fn finish(&mut self, out: &mut Samples) {
        self.collector.finish();
        self.drain(out);
    }
}

/// What a reader gives: each sample on its own.
pub(super) type Samples = Vec<Box<dyn EventSample>>;

/// Something that events have told. It becomes rows once it is known what code stands at the
/// addresses of its stack.
pub(super) trait EventSample: Debug + Send {
    /// When it happened; of something that lasted, when it began.
    fn time(&self) -> u64;

    /// Leaves the part of it that lies in the time of the recording. False if there is none.
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
    pub fn of(session: &ReadSession<'_>) -> Self {
        let running = SOURCES.iter().filter(|source| (session.runs)(source.profiler));
        let readers =
            running.filter_map(|source| Some((source.profiler, (source.reader?)(session))));
        Self(readers.collect())
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

/// The source of a profiler that makes something of ticks, if there is one.
pub(super) fn of_ticks(profiler: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.profiler == profiler && source.ticks.is_some())
}

/// Whether a profiler has event sessions of its own.
pub(super) fn has_own_sessions(profiler: &str) -> bool {
    own_sessions(profiler).is_some()
}

/// What starts the event sessions that a profiler has of its own, if it has any.
pub(super) fn own_sessions(profiler: &str) -> Option<StartSessions> {
    SOURCES.iter().find(|source| source.profiler == profiler)?.own_sessions
}

/// How many events of the runtime are too many for a profiler, if it has such a limit.
pub(super) fn pace_of(profiler: &str) -> Option<Pace> {
    SOURCES.iter().find(|source| source.profiler == profiler)?.paced
}

/// The profilers that make a series of samples of ticks.
pub(super) fn with_samples() -> impl Iterator<Item = &'static Source> {
    SOURCES.iter().filter(|source| source.makes_samples().is_some())
}

/// A thread has ended.
pub(super) fn thread_ended(states: &mut States, os_tid: u32) {
    SOURCES.iter().filter_map(|source| source.thread_ended).for_each(|tell| tell(states, os_tid));
}

impl Source {
    /// Id of the profiler.
    pub fn profiler(&self) -> &'static str {
        self.profiler
    }

    /// What makes the records of its samples, if it makes samples of ticks.
    pub fn makes_samples(&self) -> Option<MakeBatch> {
        match self.ticks.as_ref()?.made {
            Made::Samples(make) => Some(make),
            Made::Rows(_) => None,
        }
    }

    /// Whether the samples of the profiler are its threads at ticks: it has no others.
    pub fn counts_ticks(&self) -> bool {
        self.reader.is_none() || self.makes_samples().is_some()
    }

    /// Whether a thread at a tick counts, see [`IsOfInterest`].
    pub fn is_of_interest(&self, context: &mut Context<'_>, os_tid: u32, stack: StackId) -> bool {
        let ticks = self.ticks.as_ref();
        ticks.is_some_and(|ticks| (ticks.is_of_interest)(context, os_tid, stack))
    }

    /// Makes rows of a tick.
    pub fn write_tick(&self, context: &mut Context<'_>, tick: &Tick) {
        if let Some(OfTicks { made: Made::Rows(write), .. }) = self.ticks {
            write(context, tick);
        }
    }
}

/// Has the sources of those profilers that run write their sums.
pub(super) fn every_second(context: &mut Context<'_>, time: u64) {
    for source in SOURCES {
        if let Some(write) = source.every_second.filter(|_| context.runs(source.profiler)) {
            write(context, time);
        }
    }
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
    pub info: &'a SessionInfo,
    pub frames: &'a mut Frames,
    pub definitions: &'a mut Definitions,
    pub target: &'a Target,
    pub states: &'a mut States,
    pub output: &'a mut Output,
    pub statistics: &'a mut Statistics,
}

impl Context<'_> {
    /// Whether a profiler was asked for.
    pub fn runs(&self, profiler: &str) -> bool {
        self.info.profilers.iter().any(|run| run.id == profiler)
    }

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
        let name = names.entry(name).or_insert_with_key(|name| nettrace::names::type_name(name));
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
        let readers = |runs: &dyn Fn(&str) -> bool| Readers::of(&ReadSession { id: "", runs }).0;
        assert_eq!(readers(&|id| id == "gc").len(), 1);
        assert_eq!(readers(&|_| false).len(), 0);
        assert!(has_own_sessions("allocations") && !has_own_sessions("gc"));
        let samples: Vec<_> = with_samples().map(Source::profiler).collect();
        assert_eq!(samples, ["wall", "threadpool"]);
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
