use std::{io::Read, ops::Range, sync::Arc};

use profilers::{
    allocations::{AllocationSample, AllocationWindow},
    calls::Calls,
    counters::{CounterDef, CounterValue},
    exact_allocations::Allocated,
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Induced, Pause},
    jit::{Compilation, Lookups},
    loads::{AssemblyLoad, TypeLoad, Unloaded},
    locks::Wait,
    threadpool::PoolEvent,
    threads::Creation,
    transitions::Transitions,
};
use rows::{Row, RowBatch, TableDef};
use session::{
    Argument, InstrumentedMethod, ModelError, Nanos, ObserverStatus, ProcessorUse, SampleBatch,
    SamplingRate, SessionEnd, SessionError, SessionInfo, SessionReader, SessionRecord, SingleCall,
    Sink, StackId, SurvivorSnapshot, ThreadId, ThreadSnapshot, ThreadState, TracedCalls, Validator,
};

use crate::{
    Allocations, Counter, Exceptions, Jit, Loads, Locks, OtherTable, Pool, Profile, Series,
    SeriesKind, Tables, Threads, Traced, TracedEvent, series,
};

/// What to keep of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// Keep every single CPU and wall sample with its time, not only the sums. Needs about 26 bytes
    /// for each.
    pub keep_samples: bool,
    /// Only what happened in this time, nanoseconds since the start of the recording.
    pub time: Option<Range<Nanos>>,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The session could not be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session has no first record.
    #[error("nothing was recorded: the session ends before its first record; record again")]
    Empty,
}

/// Makes a profile of the records of a session, saved or live.
#[derive(Debug, Default)]
pub struct ProfileBuilder {
    options: BuildOptions,
    validator: Validator,
    tables: Arc<Tables>,
    /// There from the first record on.
    profile: Option<Box<Profile>>,
    /// Latest time that a record has.
    latest: Nanos,
}

impl ProfileBuilder {
    /// A builder that has seen nothing yet.
    pub fn new(options: BuildOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// When the record does not fit those before it; it is then left out.
    pub fn add(&mut self, record: &SessionRecord) -> Result<(), ModelError> {
        self.validator.check(record)?;
        self.take(record);
        Ok(())
    }

    /// Takes a record that has been checked.
    fn take(&mut self, record: &SessionRecord) {
        if let SessionRecord::Info(info) = record {
            self.begin(info);
            return;
        }
        let Some(profile) = self.profile.as_deref_mut() else { return };
        let start = profile.info.start;
        let time = self
            .options
            .time
            .as_ref()
            .map(|time| start.saturating_add(time.start)..start.saturating_add(time.end));
        let keep_samples = self.options.keep_samples;
        let times = Times { wanted: Wanted(time), latest: &mut self.latest };
        Taking { tables: &mut self.tables, profile, times, keep_samples }.take(record);
    }

    fn begin(&mut self, info: &SessionInfo) {
        let window = self.options.time.clone();
        let start = info.start.saturating_add(window.map_or(0, |time| time.start));
        self.latest = info.start;
        self.profile = Some(Box::new(Profile {
            info: info.clone(),
            tables: Arc::default(),
            start,
            stop: start,
            cpu: Series::new(SeriesKind::Cpu, start, self.options.keep_samples),
            wall: Series::new(SeriesKind::Wall, start, self.options.keep_samples),
            exceptions: Exceptions::new(start),
            allocations: Allocations::new(start, self.options.keep_samples),
            locks: Locks::new(start, self.options.keep_samples),
            // Never singly: there are too many of them.
            calls: Series::new(SeriesKind::Calls, start, false),
            transitions: Series::new(SeriesKind::Transitions, start, false),
            traced: Traced::new(self.options.keep_samples),
            jit: Jit::new(start, self.options.keep_samples),
            loads: Loads::new(start, self.options.keep_samples),
            counters: Vec::new(),
            threads: Threads::new(start),
            pool: Pool::new(start, self.options.keep_samples),
            gcs: Vec::new(),
            inductions: Vec::new(),
            other_tables: Vec::new(),
            pauses: Vec::new(),
            survivors: Vec::new(),
            observer: Vec::new(),
            processors: Vec::new(),
            rates: Vec::new(),
            resources: Vec::new(),
            notes: Vec::new(),
            end: None,
            cut_short: false,
            damage: None,
            filtered: None,
        }));
    }

    /// The profile of what has come so far; `None` before the first record. Cheap enough for every
    /// second: tables are shared until the next definition comes.
    pub fn snapshot(&self) -> Option<Profile> {
        let mut profile = (**self.profile.as_ref()?).clone();
        self.complete(&mut profile);
        Some(profile)
    }

    /// Forgets samples, events and notes, and keeps definitions: the next [`Self::snapshot`] shows
    /// what came since.
    pub fn clear(&mut self) {
        let Some(mut old) = self.profile.take() else { return };
        let latest = self.latest;
        self.begin(&old.info);
        if let Some(profile) = self.profile.as_deref_mut() {
            profile.start = latest;
            profile.cpu = Series::new(SeriesKind::Cpu, latest, self.options.keep_samples);
            profile.wall = Series::new(SeriesKind::Wall, latest, self.options.keep_samples);
            profile.exceptions = Exceptions::new(latest);
            profile.allocations = Allocations::new(latest, self.options.keep_samples);
            profile.locks = Locks::new(latest, self.options.keep_samples);
            profile.threads = Threads::new(latest);
            profile.pool = Pool::new(latest, self.options.keep_samples);
            profile.calls = Series::new(SeriesKind::Calls, latest, false);
            profile.transitions = Series::new(SeriesKind::Transitions, latest, false);
            profile.traced = std::mem::take(&mut old.traced);
            profile.traced.forget_calls();
            profile.jit = Jit::new(latest, self.options.keep_samples);
            profile.loads = Loads::new(latest, self.options.keep_samples);
            profile.counters = std::mem::take(&mut old.counters);
            profile.counters.iter_mut().for_each(|counter| counter.values.clear());
            profile.end = old.end.take();
            // The costs of the observer count from the start, so that the last one stays true.
            profile.observer.extend(old.observer.pop());
            profile.resources = std::mem::take(&mut old.resources);
            profile.rates = std::mem::take(&mut old.rates);
            profile.other_tables = std::mem::take(&mut old.other_tables);
            profile.other_tables.iter_mut().for_each(|table| table.batches.clear());
        }
        self.latest = latest;
    }

    /// The profile of all; `None` if not even the first record came. `cut_short` as
    /// [`SessionReader::cut_short`] says.
    pub fn finish(mut self, cut_short: bool) -> Option<Profile> {
        let mut profile = *self.profile.take()?;
        profile.cut_short = cut_short;
        self.complete(&mut profile);
        Some(profile)
    }

    fn complete(&self, profile: &mut Profile) {
        profile.cpu.settle();
        profile.wall.settle();
        profile.exceptions.series.settle();
        profile.allocations.series.settle();
        profile.locks.series.settle();
        profile.threads.settle(profile.start);
        profile.pool.series.settle();
        profile.calls.settle();
        profile.transitions.settle();
        profile.jit.series.settle();
        profile.loads.series.settle();
        profile.tables = Arc::clone(&self.tables);
        // The report of the cost comes after the end.
        let last = profile.end.as_ref().map_or(self.latest, |end| end.time).max(profile.start);
        let limit =
            self.options.time.as_ref().map(|time| profile.info.start.saturating_add(time.end));
        profile.stop = limit.map_or(last, |limit| limit.min(last).max(profile.start));
    }
}

/// The time that is wanted, on the clock of the recording; `None` for all.
struct Wanted(Option<Range<Nanos>>);

impl Wanted {
    fn holds(&self, time: Nanos) -> bool {
        self.0.as_ref().is_none_or(|wanted| wanted.contains(&time))
    }
}

/// What the times of records are compared with.
struct Times<'a> {
    wanted: Wanted,
    latest: &'a mut Nanos,
}

impl Times<'_> {
    /// A record has this time.
    fn see(&mut self, time: Nanos) {
        *self.latest = (*self.latest).max(time);
    }

    /// A record has this time. Tells whether it is wanted.
    fn take(&mut self, time: Nanos) -> bool {
        self.see(time);
        self.wanted.holds(time)
    }

    /// A batch has these times. Says of each time whether it is wanted.
    fn of_batch(&mut self, start: Nanos, deltas: &[u64]) -> impl Fn(Nanos) -> bool + use<'_> {
        self.see(end_of(start, deltas));
        let wanted = &self.wanted;
        move |time| wanted.holds(time)
    }
}

/// What records are taken into.
struct Taking<'a> {
    tables: &'a mut Arc<Tables>,
    profile: &'a mut Profile,
    times: Times<'a>,
    keep_samples: bool,
}

/// Takes the rows of a batch, if they are of the table that it is for and have its columns.
type TakeRows = fn(&mut Taking<'_>, &TableDef, &RowBatch) -> bool;

/// All tables that the profile knows.
const TABLES: &[TakeRows] = &[
    |taking, table, batch| taking.known(table, batch, Taking::collections),
    |taking, table, batch| taking.known(table, batch, Taking::pauses),
    |taking, table, batch| taking.known(table, batch, Taking::induced),
    |taking, table, batch| taking.known(table, batch, Taking::counters),
    |taking, table, batch| taking.known(table, batch, Taking::counter_values),
    |taking, table, batch| taking.known(table, batch, Taking::exceptions),
    |taking, table, batch| taking.known(table, batch, Taking::exception_counts),
    |taking, table, batch| taking.known(table, batch, Taking::allocations),
    |taking, table, batch| taking.known(table, batch, Taking::allocation_windows),
    |taking, table, batch| taking.known(table, batch, Taking::allocated),
    |taking, table, batch| taking.known(table, batch, Taking::waits),
    |taking, table, batch| taking.known(table, batch, Taking::thread_creations),
    |taking, table, batch| taking.known(table, batch, Taking::pool_events),
    |taking, table, batch| taking.known(table, batch, Taking::calls),
    |taking, table, batch| taking.known(table, batch, Taking::transitions),
    |taking, table, batch| taking.known(table, batch, Taking::compilations),
    |taking, table, batch| taking.known(table, batch, Taking::lookups),
    |taking, table, batch| taking.known(table, batch, Taking::assembly_loads),
    |taking, table, batch| taking.known(table, batch, Taking::type_loads),
    |taking, table, batch| taking.known(table, batch, Taking::unloaded),
];

impl Taking<'_> {
    fn take(&mut self, record: &SessionRecord) {
        match record {
            SessionRecord::Info(_) => {}
            SessionRecord::Thread(thread) => self.tables().add_thread(thread),
            SessionRecord::Module(module) => self.tables().modules.push(module.clone()),
            SessionRecord::Function(function) => self.tables().functions.push(function.clone()),
            SessionRecord::Frame(frame) => self.tables().add_frame(frame),
            SessionRecord::Stack(stack) => self.tables().add_stack(stack),
            SessionRecord::Type(ty) => self.tables().types.push(ty.clone()),
            SessionRecord::CpuSamples(batch) => self.cpu_samples(batch),
            SessionRecord::WallSamples(batch) => self.wall_samples(batch),
            SessionRecord::Instrumented(method) => self.instrumented(method),
            SessionRecord::Rewritten(method) => {
                self.traced_event(method.time, || TracedEvent::Rewritten(method.clone()));
            }
            SessionRecord::Recompiled(method) => {
                self.traced_event(method.time, || TracedEvent::Recompiled(method.clone()));
            }
            SessionRecord::Traced(calls) => self.traced(calls),
            SessionRecord::SingleCalls(calls) => {
                calls.iter().for_each(|call| self.single_call(call, None));
            }
            SessionRecord::Parameters(method) => self.profile.traced.add_parameters(method),
            SessionRecord::CallsWithArguments(calls) => {
                calls.iter().for_each(|call| self.single_call(&call.call, Some(&call.arguments)));
            }
            SessionRecord::ThreadSnapshot(snapshot) => self.thread_snapshot(snapshot),
            SessionRecord::PoolSamples(batch) => self.pool_samples(batch),
            SessionRecord::Table(table) => self
                .profile
                .other_tables
                .push(OtherTable { table: table.clone(), batches: Vec::new() }),
            SessionRecord::Rows(batch) => self.rows(batch),
            SessionRecord::Survivors(snapshot) => self.survivors(snapshot),
            SessionRecord::Observer(status) => self.observer(status),
            SessionRecord::Processors(used) => self.processors(*used),
            SessionRecord::SamplingRate(rate) => self.sampling_rate(rate),
            SessionRecord::Resources(uses) => self.profile.resources.clone_from(uses),
            SessionRecord::Note { time, message } => self.note(*time, message),
            SessionRecord::Engine { profiler, engine } => self.engine(profiler, engine),
            // Heap snapshots are no part of a profile.
            SessionRecord::HeapBegin { time, .. } => self.times.see(*time),
            SessionRecord::Collection { .. }
            | SessionRecord::HeapChunk { .. }
            | SessionRecord::HeapClasses { .. }
            | SessionRecord::HeapMethods { .. }
            | SessionRecord::HeapStatics { .. }
            | SessionRecord::HeapFields { .. }
            | SessionRecord::AsyncStateMachines { .. } => {}
            SessionRecord::HeapEnd(end) => self.times.see(end.time),
            SessionRecord::End(end) => self.end(end),
        }
    }

    fn tables(&mut self) -> &mut Tables {
        Arc::make_mut(self.tables)
    }

    fn cpu_samples(&mut self, batch: &SampleBatch) {
        let inside = self.times.of_batch(batch.start, &batch.time_delta);
        self.profile.cpu.add_batch(batch, |time, _, _| inside(time));
    }

    fn wall_samples(&mut self, batch: &SampleBatch) {
        let inside = self.times.of_batch(batch.start, &batch.time_delta);
        self.profile.wall.add_batch(batch, |time, _, _| inside(time));
    }

    fn exceptions(&mut self, rows: Vec<ExceptionSample>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.exceptions.add(row));
    }

    fn exception_counts(&mut self, rows: Vec<ExceptionCount>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.exceptions.count(row));
    }

    fn allocations(&mut self, rows: Vec<AllocationSample>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.allocations.add(row));
    }

    fn allocation_windows(&mut self, rows: Vec<AllocationWindow>) {
        rows.iter().for_each(|window| self.times.see(window.end));
        let wanted = rows.into_iter().filter(|row| self.times.wanted.holds(row.followed_from));
        wanted.for_each(|window| self.profile.allocations.add_window(window));
    }

    fn allocated(&mut self, rows: Vec<Allocated>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.allocations.add_exact(row));
    }

    fn waits(&mut self, rows: Vec<Wait>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.locks.add(row));
    }

    fn calls(&mut self, rows: Vec<Calls>) {
        for Calls { time, thread, stack, count, own } in rows {
            if self.times.take(time) {
                self.profile.calls.add_calls(call(time, thread, stack, own), count);
            }
        }
    }

    fn transitions(&mut self, rows: Vec<Transitions>) {
        for Transitions { time, thread, stack, count, own } in rows {
            if self.times.take(time) {
                self.profile.transitions.add_calls(call(time, thread, stack, own), count);
            }
        }
    }

    fn instrumented(&mut self, method: &InstrumentedMethod) {
        self.profile.traced.add_method(method);
        self.traced_event(method.time, || TracedEvent::State(method.clone()));
    }

    /// Keeps an event of a method that is traced, where single ones are kept.
    fn traced_event(&mut self, time: Nanos, event: impl FnOnce() -> TracedEvent) {
        if self.times.take(time) && self.keep_samples {
            self.profile.traced.events.push(event());
        }
    }

    fn traced(&mut self, calls: &TracedCalls) {
        if self.times.take(calls.time) {
            self.profile.traced.add_calls(calls);
        }
    }

    fn single_call(&mut self, call: &SingleCall, arguments: Option<&[(u16, Argument)]>) {
        self.times.see(call.begun.saturating_add(call.taken));
        if self.times.wanted.holds(call.begun) {
            self.profile.traced.add_single(call, arguments);
        }
    }

    fn compilations(&mut self, rows: Vec<Compilation>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.jit.add(row));
    }

    fn lookups(&mut self, rows: Vec<Lookups>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        self.profile.jit.lookups.extend(wanted);
    }

    /// Takes the rows of a batch, if they are of this kind.
    fn known<R: Row>(
        &mut self,
        table: &TableDef,
        batch: &RowBatch,
        take: fn(&mut Self, Vec<R>),
    ) -> bool {
        let rows = if R::is(table) { R::read(table, batch).ok() } else { None };
        rows.map(|rows| take(self, rows)).is_some()
    }

    /// Takes rows of a table that the profile knows, or keeps them as they are.
    fn rows(&mut self, batch: &RowBatch) {
        let Some(known) = self.profile.other_tables.get(batch.table.0 as usize) else { return };
        let table = known.table.clone();
        if !TABLES.iter().any(|take| take(self, &table, batch))
            && let Some(unknown) = self.profile.other_tables.get_mut(batch.table.0 as usize)
            && self.times.wanted.0.is_none()
        {
            unknown.batches.push(Arc::new(batch.clone()));
        }
    }

    fn assembly_loads(&mut self, rows: Vec<AssemblyLoad>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.loads.add_assembly(row));
    }

    fn unloaded(&mut self, rows: Vec<Unloaded>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        self.profile.loads.unloads.extend(wanted);
    }

    fn type_loads(&mut self, rows: Vec<TypeLoad>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.loads.add_type(row));
    }

    fn counters(&mut self, rows: Vec<CounterDef>) {
        for def in rows {
            // They are found by their place.
            if def.counter as usize == self.profile.counters.len() {
                self.profile.counters.push(Counter { def, values: Vec::new() });
            }
        }
    }

    fn counter_values(&mut self, rows: Vec<CounterValue>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        for CounterValue { time, counter, value } in wanted.filter(|row| row.value.is_finite()) {
            if let Some(counter) = self.profile.counters.get_mut(counter as usize) {
                counter.add(self.profile.start, time, value);
            }
        }
    }

    fn thread_snapshot(&mut self, snapshot: &ThreadSnapshot) {
        if self.times.take(snapshot.time) {
            self.profile.threads.add_snapshot(snapshot);
        }
    }

    fn thread_creations(&mut self, rows: Vec<Creation>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.threads.add_creation(row));
    }

    fn pool_samples(&mut self, batch: &SampleBatch) {
        let inside = self.times.of_batch(batch.start, &batch.time_delta);
        self.profile.pool.add_batch(batch, inside);
    }

    fn pool_events(&mut self, rows: Vec<PoolEvent>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        self.profile.pool.events.extend(wanted);
    }

    fn collections(&mut self, rows: Vec<Collection>) {
        rows.iter().for_each(|gc| self.times.see(gc.end));
        let wanted = rows.into_iter().filter(|gc| self.times.wanted.holds(gc.start));
        self.profile.gcs.extend(wanted);
    }

    fn induced(&mut self, rows: Vec<Induced>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        self.profile.inductions.extend(wanted);
    }

    fn pauses(&mut self, rows: Vec<Pause>) {
        rows.iter().for_each(|pause| self.times.see(pause.resume_end));
        let wanted = rows.into_iter().filter(|pause| self.times.wanted.holds(pause.suspend_start));
        self.profile.pauses.extend(wanted);
    }

    fn survivors(&mut self, snapshot: &SurvivorSnapshot) {
        if self.times.take(snapshot.time) {
            self.profile.survivors.push(snapshot.clone());
        }
    }

    fn observer(&mut self, status: &ObserverStatus) {
        self.times.see(status.time);
        self.profile.observer.push(status.clone());
    }

    fn processors(&mut self, used: ProcessorUse) {
        if self.times.take(used.time) {
            self.profile.processors.push(used);
        }
    }

    fn sampling_rate(&mut self, rate: &SamplingRate) {
        self.profile.rates.retain(|known| known.profiler != rate.profiler);
        self.profile.rates.push(rate.clone());
    }

    fn note(&mut self, time: Nanos, message: &str) {
        self.times.see(time);
        self.profile.notes.push((time, message.to_owned()));
    }

    fn engine(&mut self, profiler: &str, engine: &String) {
        let run = self.profile.info.profilers.iter_mut().find(|run| run.id == *profiler);
        run.into_iter().for_each(|run| run.engine.clone_from(engine));
    }

    fn end(&mut self, end: &SessionEnd) {
        self.times.see(end.time);
        self.profile.end = Some(end.clone());
    }
}

/// A call, or several with the same stack.
fn call(time: Nanos, thread: ThreadId, stack: StackId, weight: u64) -> series::Row {
    series::Row { time, thread, stack, state: ThreadState::Running, truncated: false, weight }
}

/// Time of the last row of a batch.
fn end_of(start: Nanos, deltas: &[u64]) -> Nanos {
    deltas.iter().fold(start, |time, delta| time.wrapping_add(*delta))
}

impl Sink for ProfileBuilder {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        Ok(self.add(record)?)
    }
}

impl Profile {
    /// Reads a whole session. A damaged session gives the profile of what came before the
    /// damage, which [`Profile::damage`] then names.
    ///
    /// # Errors
    /// When the session cannot be opened or holds not even its first record.
    pub fn read(input: impl Read, options: BuildOptions) -> Result<Self, ProfileError> {
        let mut reader = SessionReader::new(input)?;
        let mut builder = ProfileBuilder::new(options);
        let mut damage = None;
        for record in &mut reader {
            match record {
                // The reader has checked it.
                Ok(record) => builder.take(&record),
                Err(error) => damage = Some(error),
            }
        }
        let cut_short = reader.cut_short();
        match (builder.finish(cut_short), damage) {
            (Some(mut profile), damage) => {
                profile.damage = damage.map(|error| error.to_string());
                Ok(profile)
            }
            (None, Some(damage)) => Err(damage.into()),
            (None, None) => Err(ProfileError::Empty),
        }
    }
}
