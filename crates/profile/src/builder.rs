use std::{io::Read, ops::Range, sync::Arc};

use session::{
    CallArguments, CallKind, ExceptionSample, ModelError, Nanos, SessionError, SessionInfo,
    SessionReader, SessionRecord, Sink, ThreadState, Validator,
};

use crate::{
    Allocations, Counter, Exceptions, Jit, Loads, Locks, Pool, Profile, Series, SeriesKind, Tables,
    Threads, Traced, TracedEvent, Unload, series::Row,
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
        let inside = |at: Nanos| time.as_ref().is_none_or(|time| time.contains(&at));
        let latest = &mut self.latest;
        let mut see = |at: Nanos| *latest = (*latest).max(at);
        match record {
            SessionRecord::Info(_) => {}
            SessionRecord::Thread(thread) => Arc::make_mut(&mut self.tables).add_thread(thread),
            SessionRecord::Module(module) => {
                Arc::make_mut(&mut self.tables).modules.push(module.clone())
            }
            SessionRecord::Function(function) => {
                Arc::make_mut(&mut self.tables).functions.push(function.clone())
            }
            SessionRecord::Frame(frame) => Arc::make_mut(&mut self.tables).add_frame(frame),
            SessionRecord::Stack(stack) => Arc::make_mut(&mut self.tables).add_stack(stack),
            SessionRecord::Type(ty) => Arc::make_mut(&mut self.tables).types.push(ty.clone()),
            SessionRecord::CpuSamples(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.cpu.add_batch(batch, |at, _, _| inside(at));
            }
            SessionRecord::WallSamples(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.wall.add_batch(batch, |at, _, _| inside(at));
            }
            SessionRecord::Exception(sample) => {
                see(sample.time);
                if inside(sample.time) {
                    profile.exceptions.add(sample);
                }
            }
            SessionRecord::ExceptionCounts { time, counts } => {
                see(*time);
                if inside(*time) {
                    counts.iter().for_each(|(ty, count)| profile.exceptions.count(*ty, *count));
                }
            }
            SessionRecord::Allocations(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.allocations.add_batch(batch, inside);
            }
            SessionRecord::AllocationWindow(window) => {
                see(window.end);
                if inside(window.followed_from) {
                    profile.allocations.add_window(*window);
                }
            }
            SessionRecord::AllocatedObjects(allocated) => {
                see(allocated.time);
                if inside(allocated.time) {
                    profile.allocations.add_exact(allocated);
                }
            }
            SessionRecord::Contentions(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.locks.add_batch(batch, inside);
            }
            SessionRecord::Calls(batch) => {
                see(batch.time);
                let series = match batch.kind {
                    CallKind::Methods => &mut profile.calls,
                    CallKind::Transitions => &mut profile.transitions,
                };
                if inside(batch.time) {
                    series.add_calls(batch);
                }
            }
            SessionRecord::Instrumented(method) => {
                see(method.time);
                profile.traced.add_method(method);
                if self.options.keep_samples && inside(method.time) {
                    profile.traced.events.push(TracedEvent::State(method.clone()));
                }
            }
            SessionRecord::Rewritten(method) => {
                see(method.time);
                if self.options.keep_samples && inside(method.time) {
                    profile.traced.events.push(TracedEvent::Rewritten(method.clone()));
                }
            }
            SessionRecord::Recompiled(method) => {
                see(method.time);
                if self.options.keep_samples && inside(method.time) {
                    profile.traced.events.push(TracedEvent::Recompiled(method.clone()));
                }
            }
            SessionRecord::Traced(calls) => {
                see(calls.time);
                if inside(calls.time) {
                    profile.traced.add_calls(calls);
                }
            }
            SessionRecord::SingleCalls(calls) => {
                for call in calls {
                    see(call.begun.saturating_add(call.taken));
                    if inside(call.begun) {
                        profile.traced.add_single(call, None);
                    }
                }
            }
            SessionRecord::Parameters(method) => profile.traced.add_parameters(method),
            SessionRecord::CallsWithArguments(calls) => {
                for CallArguments { call, arguments } in calls {
                    see(call.begun.saturating_add(call.taken));
                    if inside(call.begun) {
                        profile.traced.add_single(call, Some(arguments));
                    }
                }
            }
            SessionRecord::Compilations(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.jit.add_batch(batch, inside);
            }
            SessionRecord::Precompiled(count) => {
                see(count.time);
                if inside(count.time) {
                    profile.jit.lookups.push(*count);
                }
            }
            SessionRecord::AssemblyLoad(load) => {
                see(load.time);
                if inside(load.time) {
                    profile.loads.add_assembly(load);
                }
            }
            SessionRecord::AssemblyUnload { time, assembly, name } => {
                see(*time);
                if inside(*time) {
                    profile.loads.unloads.push(Unload {
                        time: *time,
                        assembly: *assembly,
                        name: name.clone(),
                    });
                }
            }
            SessionRecord::TypeLoads(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.loads.add_types(batch, inside);
            }
            SessionRecord::Counter(counter) => {
                profile.counters.push(Counter { def: counter.clone(), values: Vec::new() });
            }
            SessionRecord::CounterValues { time, values } => {
                see(*time);
                for (counter, value) in
                    values.iter().filter(|(_, value)| value.is_finite() && inside(*time))
                {
                    if let Some(counter) = profile.counters.get_mut(counter.index()) {
                        counter.add(profile.start, *time, *value);
                    }
                }
            }
            SessionRecord::ThreadSnapshot(snapshot) => {
                see(snapshot.time);
                if inside(snapshot.time) {
                    profile.threads.add_snapshot(snapshot);
                }
            }
            SessionRecord::ThreadCreation(creation) => {
                see(creation.time);
                if inside(creation.time) {
                    profile.threads.add_creation(creation);
                }
            }
            SessionRecord::PoolSamples(batch) => {
                see(end_of(batch.start, &batch.time_delta));
                profile.pool.add_batch(batch, inside);
            }
            SessionRecord::PoolEvent(event) => {
                see(event.time);
                if inside(event.time) {
                    profile.pool.events.push(event.clone());
                }
            }
            SessionRecord::Gc(gc) => {
                see(gc.end);
                if inside(gc.start) {
                    profile.gcs.push(gc.clone());
                }
            }
            SessionRecord::InducedGc(call) => {
                see(call.time);
                if inside(call.time) {
                    profile.inductions.push(*call);
                }
            }
            SessionRecord::Pause(pause) => {
                see(pause.resume_end);
                if inside(pause.suspend_start) {
                    profile.pauses.push(pause.clone());
                }
            }
            SessionRecord::Survivors(snapshot) => {
                see(snapshot.time);
                if inside(snapshot.time) {
                    profile.survivors.push(snapshot.clone());
                }
            }
            SessionRecord::Observer(status) => {
                see(status.time);
                profile.observer.push(status.clone());
            }
            SessionRecord::Processors(used) => {
                see(used.time);
                if inside(used.time) {
                    profile.processors.push(*used);
                }
            }
            SessionRecord::SamplingRate(rate) => {
                profile.rates.retain(|known| known.profiler != rate.profiler);
                profile.rates.push(rate.clone());
            }
            SessionRecord::Resources(uses) => profile.resources.clone_from(uses),
            SessionRecord::Note { time, message } => {
                see(*time);
                profile.notes.push((*time, message.clone()));
            }
            SessionRecord::Engine { profiler, engine } => {
                let run = profile.info.profilers.iter_mut().find(|run| run.id == *profiler);
                run.into_iter().for_each(|run| run.engine.clone_from(engine));
            }
            // Heap snapshots are no part of a profile.
            SessionRecord::HeapBegin { time, .. } => see(*time),
            SessionRecord::Collection { .. }
            | SessionRecord::HeapChunk { .. }
            | SessionRecord::HeapClasses { .. }
            | SessionRecord::HeapMethods { .. }
            | SessionRecord::HeapStatics { .. }
            | SessionRecord::HeapFields { .. }
            | SessionRecord::AsyncStateMachines { .. } => {}
            SessionRecord::HeapEnd(end) => see(end.time),
            SessionRecord::End(end) => {
                see(end.time);
                profile.end = Some(end.clone());
            }
        }
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

impl Exceptions {
    pub(crate) fn add(&mut self, sample: &ExceptionSample) {
        let row = Row {
            time: sample.time,
            thread: sample.thread,
            stack: sample.stack,
            state: ThreadState::Running,
            truncated: false,
            weight: sample.weight,
        };
        self.series.add(row, 1);
        self.samples.push(sample.clone());
    }
}
