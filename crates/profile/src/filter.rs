use std::ops::Range;

use session::{Nanos, StackId, ThreadId, ThreadState};

use crate::{
    Allocations, Jit, Loads, Locks, NameStyle, Pool, Profile, Series, Tables, names::state_id,
    series::Row,
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

    fn series(&self, from: &Series, start: Nanos) -> Series {
        let mut series = Series::new(from.kind, start, from.samples.is_some());
        match &from.samples {
            Some(table) => {
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
            }
            None => {
                let cells = from
                    .cells
                    .iter()
                    .filter(|cell| self.takes(cell.thread, cell.stack, cell.state));
                cells.for_each(|cell| series.add(Row::of(cell, start), cell.samples));
                // The times of sums are not known; the timeline stays that of all.
                series.timeline = from.timeline.clone();
            }
        }
        series.settle();
        series
    }
}

impl Row {
    fn of(cell: &crate::Cell, time: Nanos) -> Self {
        let crate::Cell { stack, thread, state, truncated, weight, .. } = *cell;
        Self { time, thread, stack, state, truncated, weight }
    }
}

impl Profile {
    /// What a filter lets through. Collections, pauses, survivors, counters and costs are filtered
    /// by time only: they belong to all threads.
    ///
    /// # Errors
    /// When the filter picks a time and single samples were not kept.
    pub fn filtered(&self, filter: &Filter) -> Result<Profile, FilterError> {
        let sums_only = [&self.cpu, &self.wall, &self.calls, &self.transitions]
            .iter()
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
        if filter != &Filter::default() {
            profile.exceptions.series = Series::new(crate::SeriesKind::Exceptions, start, false);
            profile.exceptions.samples.clear();
            profile.exceptions.forget_counts();
            for sample in &self.exceptions.samples {
                if sieve.takes_time(sample.time)
                    && sieve.takes(sample.thread, sample.stack, ThreadState::Running)
                {
                    profile.exceptions.add(sample);
                }
            }
        }
        profile.exceptions.series.settle();
        let keeps = |series: &Series| series.samples.is_some();
        profile.allocations = Allocations {
            sampling: self.allocations.sampling,
            ..Allocations::new(start, keeps(&self.allocations.series))
        };
        let windows = self.allocations.windows.iter();
        profile
            .allocations
            .windows
            .extend(windows.filter(|window| sieve.takes_time(window.followed_from)));
        for sample in &self.allocations.samples {
            if sieve.takes_time(sample.time)
                && sieve.takes(sample.thread, sample.stack, ThreadState::Running)
            {
                profile.allocations.add(*sample);
            }
        }
        // Counts know a thread and a type only. What a filter by time, state or text leaves of them
        // is not known.
        if filter.time.is_none() && filter.states.is_none() && filter.text.is_none() {
            let takes = |thread: ThreadId| {
                sieve.threads.as_ref().is_none_or(|threads| threads[thread.index()])
            };
            let kept = self.allocations.exact.iter().filter(|((thread, _), _)| takes(*thread));
            profile.allocations.exact.extend(kept.map(|(key, count)| (*key, *count)));
        }
        profile.allocations.series.settle();
        profile.locks = Locks::new(start, keeps(&self.locks.series));
        for wait in &self.locks.waits {
            if sieve.takes_time(wait.time)
                && sieve.takes(wait.thread, wait.stack, ThreadState::Lock)
            {
                profile.locks.add(*wait);
            }
        }
        profile.locks.series.settle();
        // Looks are summed up, so that a time cannot be picked from them.
        profile.threads.retain(|thread, stack, state| sieve.takes(thread, stack, state));
        profile.threads.settle(start);
        profile.pool = Pool::new(start, keeps(&self.pool.series));
        for sample in &self.pool.samples {
            if sieve.takes_time(sample.time)
                && sieve.takes(sample.thread, sample.stack, sample.state)
            {
                profile.pool.add(*sample);
            }
        }
        profile.pool.series.settle();
        profile
            .pool
            .events
            .extend(self.pool.events.iter().filter(|event| sieve.takes_time(event.time)).cloned());
        profile.jit = Jit::new(start, keeps(&self.jit.series));
        for one in &self.jit.compilations {
            if sieve.takes_time(one.time)
                && sieve.takes(one.thread, one.stack, ThreadState::Running)
            {
                profile.jit.add(*one);
            }
        }
        profile.jit.series.settle();
        profile
            .jit
            .lookups
            .extend(self.jit.lookups.iter().filter(|count| sieve.takes_time(count.time)));
        profile.loads = Loads::new(start, keeps(&self.loads.series));
        for load in &self.loads.assemblies {
            if sieve.takes_time(load.time)
                && sieve.takes(load.thread, load.stack, ThreadState::Running)
            {
                profile.loads.add_assembly(load);
            }
        }
        for load in &self.loads.types {
            if sieve.takes_time(load.time)
                && sieve.takes(load.thread, load.stack, ThreadState::Running)
            {
                profile.loads.add_type(*load);
            }
        }
        profile.loads.series.settle();
        profile.loads.unloads.extend(
            self.loads.unloads.iter().filter(|unload| sieve.takes_time(unload.time)).cloned(),
        );
        profile.processors.retain(|used| sieve.takes_time(used.time));
        for counter in &mut profile.counters {
            counter.values.retain(|(time, _)| sieve.takes_time(*time));
        }
        profile.gcs.retain(|gc| sieve.takes_time(gc.start));
        profile.inductions.retain(|call| {
            sieve.takes_time(call.time)
                && sieve.takes(call.thread, call.stack, ThreadState::Running)
        });
        profile.pauses.retain(|pause| sieve.takes_time(pause.suspend_start));
        profile.survivors.retain(|look| sieve.takes_time(look.time));
        profile.filtered = match (&self.filtered, filter.describe()) {
            (Some(before), Some(now)) => Some(format!("{before}, {now}")),
            (before, now) => before.clone().or(now),
        };
        Ok(profile)
    }
}
