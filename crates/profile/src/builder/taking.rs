//! What becomes of each record and of the rows of each table that the profile sums up.

use std::sync::Arc;

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
    Argument, ImportedValue, InstrumentedMethod, Nanos, ObserverStatus, ProcessorUse, SampleBatch,
    SamplingRate, SessionEnd, SessionRecord, SingleCall, StackId, SurvivorSnapshot, ThreadId,
    ThreadSnapshot, ThreadState, TracedCalls,
};

use super::Times;
use crate::{Counter, OtherTable, Profile, Tables, TracedEvent, TracedMethod, series, size};

/// Bytes that a list within a record takes in memory for each of its bytes in the session: an empty
/// text is one byte there.
const UNPACKED: usize = 24;

/// Counters that are kept: more than a program can have any use for.
const MOST_COUNTERS: usize = 10_000;

/// Profilers of which measured rates are kept.
const MOST_RATES: usize = 256;

/// What records are taken into.
pub(super) struct Taking<'a> {
    pub tables: &'a mut Arc<Tables>,
    pub profile: &'a mut Profile,
    pub times: Times<'a>,
    pub keep_samples: bool,
    /// Bytes of the record in the session.
    pub bytes: usize,
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
    |taking, table, batch| taking.known(table, batch, Taking::imported),
];

impl Taking<'_> {
    pub fn take(&mut self, record: &SessionRecord) {
        match record {
            SessionRecord::Info(_) => {}
            SessionRecord::Thread(thread) => self.tables().add_thread(thread),
            SessionRecord::Module(module) => self.tables().add_module(module),
            SessionRecord::Function(function) => self.tables().add_function(function),
            SessionRecord::Frame(frame) => self.tables().add_frame(frame),
            SessionRecord::Stack(stack) => self.tables().add_stack(stack),
            SessionRecord::Type(ty) => self.tables().add_type(ty),
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
            SessionRecord::Parameters(method) => {
                self.profile.traced.inner += self.bytes * UNPACKED;
                self.profile.traced.add_parameters(method);
            }
            SessionRecord::CallsWithArguments(calls) => {
                calls.iter().for_each(|call| self.single_call(&call.call, Some(&call.arguments)));
            }
            SessionRecord::ThreadSnapshot(snapshot) => self.thread_snapshot(snapshot),
            SessionRecord::PoolSamples(batch) => self.pool_samples(batch),
            SessionRecord::Table(table) => {
                self.profile.inner += self.bytes * UNPACKED;
                self.profile
                    .other_tables
                    .push(OtherTable { table: table.clone(), batches: Vec::new() });
            }
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
        self.profile.traced.inner += self.bytes * UNPACKED + size_of::<TracedMethod>();
        self.profile.traced.add_method(method);
        self.traced_event(method.time, || TracedEvent::State(method.clone()));
    }

    /// Keeps an event of a method that is traced, where single ones are kept.
    fn traced_event(&mut self, time: Nanos, event: impl FnOnce() -> TracedEvent) {
        if self.times.take(time) && self.keep_samples {
            self.profile.inner += self.bytes * UNPACKED;
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
        if TABLES.iter().any(|take| take(self, &table, batch)) {
            let texts = size::of_batch(batch).1;
            let is_kept = self.times.wanted.0.is_none()
                || table.times(batch).iter().any(|time| self.times.wanted.holds(*time));
            self.profile.inner += if is_kept { texts } else { 0 };
            return;
        }
        let times = table.times(batch);
        times.iter().for_each(|time| self.times.see(*time));
        let wanted = &self.times.wanted;
        let kept = match &wanted.0 {
            None => batch.clone(),
            // Without times it is not known which rows are wanted.
            Some(_) => batch.kept(|row| times.get(row).is_some_and(|time| wanted.holds(*time))),
        };
        if let Some(known) = self.profile.other_tables.get_mut(batch.table.0 as usize)
            && kept.rows > 0
        {
            self.profile.inner += size_of::<RowBatch>() + size::of_batch(&kept).0;
            known.batches.push(Arc::new(kept));
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

    fn imported(&mut self, rows: Vec<ImportedValue>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        wanted.for_each(|row| self.profile.imported.add(&row));
    }

    fn counters(&mut self, rows: Vec<CounterDef>) {
        for def in rows {
            // They are found by their place.
            let place = self.profile.counters.len();
            if def.counter as usize == place && place < MOST_COUNTERS {
                self.profile.counters.push(Counter { def, values: Vec::new() });
            }
        }
    }

    fn counter_values(&mut self, rows: Vec<CounterValue>) {
        let wanted = rows.into_iter().filter(|row| self.times.take(row.time));
        for CounterValue { time, counter, value } in wanted.filter(|row| row.value.is_finite()) {
            if let Some(counter) = self.profile.counters.get_mut(counter as usize) {
                self.profile.inner += size_of::<(Nanos, f64)>();
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
        if self.times.take(snapshot.collection.time) {
            self.profile.inner += self.bytes * UNPACKED;
            self.profile.survivors.push(snapshot.clone());
        }
    }

    fn observer(&mut self, status: &ObserverStatus) {
        self.times.see(status.time);
        self.profile.inner += self.bytes * UNPACKED;
        self.profile.observer.push(status.clone());
    }

    fn processors(&mut self, used: ProcessorUse) {
        if self.times.take(used.time) {
            self.profile.processors.push(used);
        }
    }

    fn sampling_rate(&mut self, rate: &SamplingRate) {
        self.profile.rates.retain(|known| known.profiler != rate.profiler);
        if self.profile.rates.len() < MOST_RATES {
            self.profile.rates.push(rate.clone());
        }
    }

    fn note(&mut self, time: Nanos, message: &str) {
        self.times.see(time);
        self.profile.inner += message.len();
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
