use std::ops::Range;

use session::{Nanos, StackId, ThreadId, ThreadState};

use crate::{
    Allocations, Cell, Exceptions, Jit, Loads, Locks, NameStyle, Pool, Profile, Series, SliceKey,
    Tables, Totals, names::state_id, series::Row,
};

/// What to keep. All that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Nanoseconds since the start of the recording.
    pub time: Option<Range<Nanos>>,
    /// Part of a thread's name, or its id in the operating system as a number; upper and lower case
    /// are the same.
    pub thread: Option<String>,
    /// One of these states.
    pub states: Option<Vec<ThreadState>>,
    /// Part of the full name of a function on the stack; upper and lower case are the same.
    pub text: Option<String>,
}

/// Why a filter cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Sums know no times.
    #[error(
        "single samples were not kept when the session was read, so a time cannot be picked from it"
    )]
    NeedsSamples,
}

impl Filter {
    fn describe(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(time) = &self.time {
            parts.push(format!(
                "time {:.3} s to {:.3} s",
                time.start as f64 / 1e9,
                time.end as f64 / 1e9
            ));
        }
        if let Some(thread) = &self.thread {
            parts.push(format!("thread \"{thread}\""));
        }
        if let Some(states) = &self.states {
            let states: Vec<_> = states.iter().copied().map(state_id).collect();
            parts.push(format!("state {}", states.join(" or ")));
        }
        if let Some(text) = &self.text {
            parts.push(format!("stacks with \"{text}\""));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Which threads, states, stacks and times a filter lets through.
struct Sieve {
    threads: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    states: Option<Vec<ThreadState>>,
    time: Option<Range<Nanos>>,
}

impl Sieve {
    fn new(tables: &Tables, filter: &Filter, start: Nanos) -> Self {
        let threads = filter.thread.as_ref().map(|text| {
            let text = text.to_lowercase();
            let matches = |thread: &session::ThreadDef| {
                text.parse() == Ok(thread.os_tid)
                    || thread.name.as_ref().is_some_and(|name| name.to_lowercase().contains(&text))
            };
            tables.threads.iter().map(matches).collect()
        });
        let stacks = filter.text.as_ref().map(|text| {
            let text = text.to_lowercase();
            let functions: Vec<bool> = tables
                .functions
                .iter()
                .map(|function| {
                    tables
                        .function_name(function.id, NameStyle::FULL)
                        .to_lowercase()
                        .contains(&text)
                })
                .collect();
            let mut stacks: Vec<bool> = Vec::with_capacity(tables.stack_count());
            for id in (0..tables.stack_count()).map(|id| StackId(id as u32)) {
                let above = tables.parent(id).is_some_and(|parent| stacks[parent.index()]);
                stacks.push(above || functions[tables.stack_function(id).index()]);
            }
            stacks
        });
        let time = filter
            .time
            .as_ref()
            .map(|t| start.saturating_add(t.start)..start.saturating_add(t.end));
        Self { threads, stacks, states: filter.states.clone(), time }
    }

    fn takes(&self, thread: ThreadId, stack: StackId, state: ThreadState) -> bool {
        self.threads.as_ref().is_none_or(|threads| threads[thread.index()])
            && self.stacks.as_ref().is_none_or(|stacks| stacks[stack.index()])
            && self.states.as_ref().is_none_or(|states| states.contains(&state))
    }

    fn takes_time(&self, time: Nanos) -> bool {
        self.time.as_ref().is_none_or(|range| range.contains(&time))
    }

    /// Whether it takes what a thread does that runs.
    fn takes_running(&self, time: Nanos, thread: ThreadId, stack: StackId) -> bool {
        self.takes_time(time) && self.takes(thread, stack, ThreadState::Running)
    }

    fn series(&self, from: &Series, start: Nanos) -> Series {
        let mut series = match &from.samples {
            Some(table) => {
                let mut series = Series::new(from.kind, start, from.keep());
                for row in 0..table.len() {
                    let row = Row {
                        time: table.time[row],
                        thread: table.thread[row],
                        stack: table.stack[row],
                        state: table.state[row],
                        truncated: table.truncated[row],
                        weight: table.weight[row],
                    };
                    if self.takes_time(row.time) && self.takes(row.thread, row.stack, row.state) {
                        series.add(row, 1);
                    }
                }
                series
            }
            None => {
                let takes = |cell: &&Cell| self.takes(cell.thread, cell.stack, cell.state);
                let mut series = Series::of(from.kind, start, from.cells.iter().filter(takes));
                // The times of sums are not known; the timeline stays that of all.
                series.timeline = from.timeline.clone();
                let takes = |key: SliceKey| self.takes(key.thread, key.stack, key.state);
                series.slices = from.slices.as_ref().map(|slices| slices.filtered(takes));
                series
            }
        };
        series.settle();
        series
    }

    fn exceptions(&self, exceptions: &mut Exceptions, start: Nanos) {
        let keep = exceptions.series.keep();
        exceptions.series = Series::new(crate::SeriesKind::Exceptions, start, keep);
        exceptions.forget_counts();
        for sample in std::mem::take(&mut exceptions.samples) {
            if self.takes_running(sample.time, sample.thread, sample.stack) {
                exceptions.add(sample);
            }
        }
    }

    /// `counts`: whether exact counts are known of what the filter leaves.
    fn allocations(&self, from: &Allocations, start: Nanos, counts: bool) -> Allocations {
        let mut allocations =
            Allocations { sampling: from.sampling, ..Allocations::new(start, from.series.keep()) };
        let windows = from.windows.iter();
        allocations.windows.extend(windows.filter(|window| self.takes_time(window.followed_from)));
        for sample in &from.samples {
            if self.takes_running(sample.time, sample.thread, sample.stack) {
                allocations.add(*sample);
            }
        }
        if counts {
            let takes = |thread: ThreadId| {
                self.threads.as_ref().is_none_or(|threads| threads[thread.index()])
            };
            let kept = from.exact.iter().filter(|((thread, _), _)| takes(*thread));
            allocations.exact.extend(kept.map(|(key, count)| (*key, *count)));
        }
        allocations.series.settle();
        allocations
    }

    fn locks(&self, from: &Locks, start: Nanos) -> Locks {
        let mut locks = Locks::new(start, from.series.keep());
        for wait in &from.waits {
            if self.takes_time(wait.time) && self.takes(wait.thread, wait.stack, ThreadState::Lock)
            {
                locks.add(*wait);
            }
        }
        locks.series.settle();
        locks
    }

    fn pool(&self, from: &Pool, start: Nanos) -> Pool {
        let mut pool = Pool::new(start, from.series.keep());
        for sample in &from.samples {
            if self.takes_time(sample.time) && self.takes(sample.thread, sample.stack, sample.state)
            {
                pool.add(*sample);
            }
        }
        pool.series.settle();
        pool.events.extend(from.events.iter().filter(|event| self.takes_time(event.time)).cloned());
        pool
    }

    fn jit(&self, from: &Jit, start: Nanos) -> Jit {
        let mut jit = Jit::new(start, from.series.keep());
        for one in &from.compilations {
            if self.takes_running(one.time, one.thread, one.stack) {
                jit.add(*one);
            }
        }
        jit.series.settle();
        jit.lookups.extend(from.lookups.iter().filter(|count| self.takes_time(count.time)));
        jit
    }

    fn loads(&self, from: &Loads, start: Nanos) -> Loads {
        let mut loads = Loads::new(start, from.series.keep());
        for load in &from.assemblies {
            if self.takes_running(load.time, load.thread, load.stack) {
                loads.add_assembly(load.clone());
            }
        }
        for load in &from.types {
            if self.takes_running(load.time, load.thread, load.stack) {
                loads.add_type(*load);
            }
        }
        loads.series.settle();
        let unloads = from.unloads.iter().filter(|unload| self.takes_time(unload.time));
        loads.unloads.extend(unloads.cloned());
        loads
    }
}

impl Profile {
    /// Sums of each stack by itself, by stack id, of the samples of a kind that a filter lets
    /// through. Sums know no times, so that a time in the filter has no effect.
    pub fn stack_sums(&self, kind: crate::SeriesKind, filter: &Filter) -> Vec<Totals> {
        let mut sums = vec![Totals::default(); self.tables.stack_count()];
        self.each_cell(kind, filter, |cell| {
            sums[cell.stack.index()].add(cell.samples.into(), cell.weight);
        });
        sums
    }

    /// Calls a function with each cell of a kind that a filter lets through. A time in the filter
    /// has no effect: cells know no times.
    pub fn each_cell(&self, kind: crate::SeriesKind, filter: &Filter, mut each: impl FnMut(&Cell)) {
        let filter = Filter { time: None, ..filter.clone() };
        let sieve = Sieve::new(&self.tables, &filter, self.start);
        let cells = self.series(kind).cells.iter();
        cells.filter(|cell| sieve.takes(cell.thread, cell.stack, cell.state)).for_each(&mut each);
    }

    /// What a filter lets through. Collections, pauses, survivors, counters and costs are filtered
    /// by time only: they belong to all threads.
    ///
    /// # Errors
    /// When the filter picks a time and single samples were not kept.
    pub fn filtered(&self, filter: &Filter) -> Result<Profile, FilterError> {
        let imported = &self.imported;
        let imported = [&imported.samples, &imported.time, &imported.bytes];
        let sums_only = [&self.cpu, &self.wall, &self.calls, &self.transitions]
            .iter()
            .chain(&imported)
            .any(|series| series.samples.is_none() && !series.is_empty());
        if filter.time.is_some() && sums_only {
            return Err(FilterError::NeedsSamples);
        }
        let sieve = Sieve::new(&self.tables, filter, self.info.start);
        let (start, stop) = match &sieve.time {
            Some(time) => (time.start.max(self.start), time.end.min(self.stop)),
            None => (self.start, self.stop),
        };
        let mut profile = self.clone();
        (profile.start, profile.stop) = (start, stop.max(start));
        profile.cpu = sieve.series(&self.cpu, start);
        profile.wall = sieve.series(&self.wall, start);
        profile.calls = sieve.series(&self.calls, start);
        profile.transitions = sieve.series(&self.transitions, start);
        profile.imported.map(|series| *series = sieve.series(series, start));
        if filter != &Filter::default() {
            sieve.exceptions(&mut profile.exceptions, start);
        }
        profile.exceptions.series.settle();
        // Counts know a thread and a type only. What a filter by time, state or text leaves of them
        // is not known.
        let counts = filter.time.is_none() && filter.states.is_none() && filter.text.is_none();
        profile.allocations = sieve.allocations(&self.allocations, start, counts);
        profile.locks = sieve.locks(&self.locks, start);
        // Looks are summed up, so that a time cannot be picked from them.
        profile.threads.retain(|thread, stack, state| sieve.takes(thread, stack, state));
        profile.threads.settle(start);
        profile.pool = sieve.pool(&self.pool, start);
        profile.jit = sieve.jit(&self.jit, start);
        profile.loads = sieve.loads(&self.loads, start);
        profile.processors.retain(|used| sieve.takes_time(used.time));
        for counter in &mut profile.counters {
            counter.values.retain(|(time, _)| sieve.takes_time(*time));
        }
        profile.gcs.retain(|gc| sieve.takes_time(gc.start));
        profile.inductions.retain(|call| sieve.takes_running(call.time, call.thread, call.stack));
        if filter != &Filter::default() {
            // Of rows without thread and stack it is not known which belong to a thread.
            let by_time = Filter { time: filter.time.clone(), ..Filter::default() } == *filter;
            for table in &mut profile.other_tables {
                table.retain(|time, ids| match ids {
                    Some((thread, stack)) => sieve.takes_running(time, thread, stack),
                    None => by_time && sieve.takes_time(time),
                });
            }
        }
        profile.pauses.retain(|pause| sieve.takes_time(pause.suspend_start));
        profile.survivors.retain(|look| sieve.takes_time(look.collection.time));
        profile.filtered = match (&self.filtered, filter.describe()) {
            (Some(before), Some(now)) => Some(format!("{before}, {now}")),
            (before, now) => before.clone().or(now),
        };
        Ok(profile)
    }
}
