//! What the runtime says in its EventPipe sessions.

use super::*;

/// What counters the thread pool has, and whose they are.
const POOL_COUNTERS: (&str, &str) = ("System.Runtime", "threadpool-");

impl Recorder {
    pub(super) fn take_events(&mut self) {
        let events = self.sources.events.iter().map(|events| &events.incoming);
        let allocations = self.sources.allocations.iter().map(|events| &events.incoming);
        let taken: Vec<_> = events.chain(allocations).flat_map(Receiver::try_iter).collect();
        for event in taken {
            self.event(event);
        }
    }

    pub(super) fn event(&mut self, event: FromEvents) {
        match event {
            // Another profiler may listen to more than its own events.
            FromEvents::Gc(_) | FromEvents::Pause(_) | FromEvents::Induced(_)
                if !self.runs("gc") => {}
            // Without a stack it says no more than the collection does.
            FromEvents::Induced(call) => {
                if self.window.holds(call.time) && !call.stack.is_empty() {
                    self.push_event_sample(EventSample::Induced(call));
                }
            }
            FromEvents::Gc(gc) => {
                let Some((start, end)) = self.window.part(gc.start, gc.end) else { return };
                self.count("gc", 1);
                self.definitions.row(&Collection { start, end, ..gc });
            }
            FromEvents::Pause(pause) => self.pause(pause),
            FromEvents::Allocation(allocation) => {
                self.event_sample("allocations", EventSample::Allocation(allocation))
            }
            FromEvents::AllocationWindow(window) => self.definitions.row(&window),
            FromEvents::Contention(wait) => self.contention(wait),
            FromEvents::Compiled(compiled) => {
                self.event_sample("jit", EventSample::Compiled(compiled))
            }
            // Of what has a time and stands for itself, what lies outside counts nowhere.
            FromEvents::Lookup(time, ..)
            | FromEvents::Unloaded(time, ..)
            | FromEvents::Pool(time, _)
            | FromEvents::Counted(time, _)
                if !self.window.holds(time) => {}
            FromEvents::Lookup(_, found, duration) => {
                let count = &mut self.precompiled;
                *(if found { &mut count.found } else { &mut count.missing }) += 1;
                count.duration = count.duration.saturating_add(duration.unwrap_or(0));
            }
            FromEvents::CodeFreed => self.precompiled.freed += 1,
            FromEvents::Loaded(load) => self.event_sample("loads", EventSample::Loaded(load)),
            FromEvents::Unloaded(time, assembly, name) => {
                self.definitions.row(&Unloaded { time, assembly, name });
            }
            FromEvents::TypeLoaded(load) => {
                self.event_sample("loads", EventSample::TypeLoaded(load))
            }
            FromEvents::Creation(creation) => {
                if self.runs("threads") && self.window.holds(creation.time) {
                    self.push_event_sample(EventSample::Creation(creation));
                }
            }
            FromEvents::Pool(time, change) => {
                if self.runs("threadpool") {
                    self.definitions.row(&pool_event(time, change));
                }
            }
            FromEvents::Counted(time, counted) => self.counted(time, counted),
            FromEvents::Lost(count) => {
                self.drop_sample("EventPipe events lost by the runtime", count)
            }
            FromEvents::LeftOut(count) => {
                self.drop_sample("allocations of a moment with too many", count)
            }
            FromEvents::Note(message) | FromEvents::Failed(message) => self.note(message),
        }
    }

    pub(super) fn pause(&mut self, pause: Pause) {
        if self.window.part(pause.suspend_start, pause.resume_end).is_some() {
            self.definitions.row(&Pause {
                suspend_start: self.window.clamp(pause.suspend_start),
                suspend_end: self.window.clamp(pause.suspend_end),
                resume_start: self.window.clamp(pause.resume_start),
                resume_end: self.window.clamp(pause.resume_end),
                ..pause
            });
        }
    }

    pub(super) fn contention(&mut self, wait: Contention) {
        let part = self.window.part(wait.start, wait.start.saturating_add(wait.duration));
        let Some((start, end)) = part else { return };
        let wait = Contention { start, duration: end - start, ..wait };
        self.event_sample("locks", EventSample::Contention(wait));
    }

    /// Values of counters.
    pub(super) fn counted(&mut self, time: u64, mut counted: Vec<Counted>) {
        // Those of the thread pool come with all others of their source, which nobody may have
        // asked for.
        if !self.runs("counters") {
            let (source, prefix) = POOL_COUNTERS;
            counted.retain(|counted| counted.source == source && counted.name.starts_with(prefix));
        }
        let came = counted.len() as u64;
        let mut known = 0;
        for counted in counted {
            let kind = match counted.kind {
                counters::Kind::Level => CounterKind::Level,
                counters::Kind::Rate => CounterKind::Rate,
            };
            let Counted { source, name, title, unit, tags, value, .. } = counted;
            let def = CounterDef { counter: 0, source, name, title, unit, tags, kind };
            if let Some(counter) = self.definitions.counter(def) {
                self.definitions.row(&CounterValue { time, counter, value });
                known += 1;
            }
        }
        if self.runs("counters") {
            self.count("counters", known);
        }
        self.drop_sample("values of too many counters", came - known);
    }

    /// Takes and counts a sample of the time that the recording is of.
    pub(super) fn event_sample(&mut self, profiler: &'static str, sample: EventSample) {
        if self.window.holds(sample.time()) {
            self.count(profiler, 1);
            self.push_event_sample(sample);
        }
    }

    pub(super) fn push_event_sample(&mut self, sample: EventSample) {
        let executed = self.event_samples.needs_of(&sample, &self.frames);
        if executed.is_empty() {
            self.event_samples.ready(sample);
            return;
        }
        // The runtime itself has walked the stacks of events.
        let needs = Needs { executed, guessed: Vec::new() };
        if !self.waiting.push(WaitingSample::Event(sample), needs) {
            self.drop_sample("no room while the agent resolved addresses", 1);
        }
    }

    /// Makes rows of what events told, as far as it is known what is at the addresses of their
    /// stacks.
    pub(super) fn settle_event_samples(&mut self) {
        let target = &self.sources.target;
        self.event_samples.settle(&mut self.frames, &mut self.definitions, target);
        self.write_definitions();
    }
}

fn pool_event(time: u64, change: thread_pool::Change) -> PoolEvent {
    match change {
        thread_pool::Change::Started(active) => {
            PoolEvent::worker(time, PoolChange::Started, active)
        }
        thread_pool::Change::Stopped(active) => {
            PoolEvent::worker(time, PoolChange::Stopped, active)
        }
        thread_pool::Change::Adjusted { throughput, workers, reason } => {
            PoolEvent::adjusted(time, workers, throughput, reason.name())
        }
        thread_pool::Change::Limits { min, max } => PoolEvent::limits(time, min.into(), max.into()),
    }
}
