use session::{Nanos, SampleBatch, StackId, ThreadId, ThreadState};

use crate::{Estimate, STATES, Slices, Timeline, state_index, tables::NONE};

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// As pprof and speedscope call it.
    pub fn id(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "nanoseconds",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
        }
    }
}

/// A kind of value with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// Such as `cpu`.
    pub kind: &'static str,
    /// Such as nanoseconds.
    pub unit: Unit,
}

/// Which samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SeriesKind {
    /// Time on a processor.
    Cpu,
    /// Time of every thread, running or waiting.
    Wall,
    /// Thrown exceptions.
    Exceptions,
    /// Allocated bytes.
    Allocations,
    /// Time of waiting for locks.
    Locks,
    /// Threads in the last snapshot.
    Threads,
    /// Time of the workers of the thread pool.
    Pool,
    /// Time in methods with hooks, every call of them.
    Calls,
    /// Time in native code that managed code has called and the other way round, every call.
    Transitions,
    /// Time of compiling.
    Jit,
    /// Time of loading assemblies and types.
    Loads,
    /// Samples of another tool.
    Samples,
    /// Time that another tool has recorded, without saying which.
    Time,
    /// Bytes that another tool has recorded.
    Bytes,
}

impl SeriesKind {
    /// All kinds, in the order of reports.
    pub const ALL: [SeriesKind; 14] = [
        SeriesKind::Cpu,
        SeriesKind::Wall,
        SeriesKind::Exceptions,
        SeriesKind::Allocations,
        SeriesKind::Locks,
        SeriesKind::Threads,
        SeriesKind::Pool,
        SeriesKind::Calls,
        SeriesKind::Transitions,
        SeriesKind::Jit,
        SeriesKind::Loads,
        SeriesKind::Samples,
        SeriesKind::Time,
        SeriesKind::Bytes,
    ];

    /// Whether its samples are calls, all of them: shares are no estimates, and the number of
    /// samples with a stack is the number of calls of its leaf.
    pub fn is_calls(self) -> bool {
        matches!(self, SeriesKind::Calls | SeriesKind::Transitions)
    }

    /// Id of the profiler that makes it.
    pub fn id(self) -> &'static str {
        match self {
            SeriesKind::Cpu => "cpu",
            SeriesKind::Wall => "wall",
            SeriesKind::Exceptions => "exceptions",
            SeriesKind::Allocations => "allocations",
            SeriesKind::Locks => "locks",
            SeriesKind::Threads => "threads",
            SeriesKind::Pool => "threadpool",
            SeriesKind::Calls => "calls",
            SeriesKind::Transitions => "transitions",
            SeriesKind::Jit => "jit",
            SeriesKind::Loads => "loads",
            SeriesKind::Samples => "samples",
            SeriesKind::Time => "time",
            SeriesKind::Bytes => "bytes",
        }
    }

    /// A word or two for a reader.
    pub fn title(self) -> &'static str {
        match self {
            SeriesKind::Cpu => "CPU",
            SeriesKind::Wall => "Wall",
            SeriesKind::Exceptions => "Exceptions",
            SeriesKind::Allocations => "Allocations",
            SeriesKind::Locks => "Locks",
            SeriesKind::Threads => "Threads",
            SeriesKind::Pool => "Thread pool",
            SeriesKind::Calls => "Calls",
            SeriesKind::Transitions => "Transitions",
            SeriesKind::Jit => "Compilation",
            SeriesKind::Loads => "Loads",
            SeriesKind::Samples => "Samples",
            SeriesKind::Time => "Time",
            SeriesKind::Bytes => "Bytes",
        }
    }

    /// What a weight counts, where its unit is a number of things; else empty.
    pub fn noun(self) -> &'static str {
        match self {
            SeriesKind::Exceptions => "exception",
            SeriesKind::Threads => "thread",
            SeriesKind::Samples => "sample",
            _ => "",
        }
    }

    /// Whether more of it is worse, whatever the program does: time on a processor, allocations.
    /// Time of threads that wait is not: they may have nothing to do.
    pub fn more_is_worse(self) -> bool {
        !matches!(
            self,
            SeriesKind::Wall | SeriesKind::Threads | SeriesKind::Pool | SeriesKind::Time
        )
    }

    /// What the weight of a sample counts.
    pub fn value_type(self) -> ValueType {
        let unit = match self {
            SeriesKind::Cpu | SeriesKind::Wall | SeriesKind::Locks | SeriesKind::Pool => {
                Unit::Nanoseconds
            }
            SeriesKind::Calls | SeriesKind::Transitions | SeriesKind::Jit | SeriesKind::Loads => {
                Unit::Nanoseconds
            }
            SeriesKind::Time => Unit::Nanoseconds,
            SeriesKind::Exceptions | SeriesKind::Threads | SeriesKind::Samples => Unit::Count,
            SeriesKind::Allocations | SeriesKind::Bytes => Unit::Bytes,
        };
        ValueType { kind: self.id(), unit }
    }
}

/// All samples of one thread with the same stack and state. (Beyond 2^32 samples there is a second
/// cell of the same kind.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The stack.
    pub stack: StackId,
    /// The thread.
    pub thread: ThreadId,
    /// What the samples stand for, in the unit of the series.
    pub weight: u64,
    /// Number of samples.
    pub samples: u32,
    /// What the thread was doing.
    pub state: ThreadState,
    /// Whether the stack is cut before the root of the thread.
    pub truncated: bool,
}

/// Sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of samples.
    pub samples: u64,
    /// What they stand for, in the unit of the series.
    pub weight: u64,
}

/// The sum of numbers of a session, which may say anything.
pub(crate) fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Adds to such a sum.
pub(crate) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl Totals {
    pub(crate) fn add(&mut self, samples: u64, weight: u64) {
        self.samples = self.samples.saturating_add(samples);
        self.weight = self.weight.saturating_add(weight);
    }
}

/// Single samples, in columns and in the order of the recording. Times ascend within a thread, not
/// over all.
#[derive(Clone, Debug, Default)]
pub struct SampleTable {
    /// When.
    pub time: Vec<Nanos>,
    /// Thread.
    pub thread: Vec<ThreadId>,
    /// Stack.
    pub stack: Vec<StackId>,
    /// What the sample stands for.
    pub weight: Vec<u64>,
    /// What the thread was doing.
    pub state: Vec<ThreadState>,
    /// Whether the stack is cut.
    pub truncated: Vec<bool>,
}

impl SampleTable {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
}

/// One sample on its way into a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub time: Nanos,
    pub thread: ThreadId,
    pub stack: StackId,
    pub state: ThreadState,
    pub truncated: bool,
    pub weight: u64,
}

/// What a series keeps beside its sums.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    /// Single samples.
    pub samples: bool,
    /// How they are spread over time.
    pub slices: bool,
}

/// Samples of one kind, summed by thread, stack and state, and singly where they were kept.
#[derive(Clone, Debug)]
pub struct Series {
    /// Which samples.
    pub kind: SeriesKind,
    /// Sums by thread, stack and state, in the order of stack, thread and state.
    pub cells: Vec<Cell>,
    /// Sum of all.
    pub totals: Totals,
    /// Samples whose stack is cut.
    pub truncated: u64,
    /// Weight by time and state.
    pub timeline: Timeline,
    /// Single samples, where [`crate::BuildOptions::keep_samples`] asked for them.
    pub samples: Option<SampleTable>,
    /// How the samples are spread over time, where [`crate::BuildOptions::slices`] asked for it.
    pub slices: Option<Slices>,
    /// Sum of the squares of the weights.
    squares: f64,
    /// How many of the cells, from the first, are in order and of different kinds.
    sorted: usize,
    /// Cell of the last sample of each thread: a waiting thread stays where it is.
    last: Vec<u32>,
}

impl Series {
    pub(crate) fn new(kind: SeriesKind, start: Nanos, keep: Keep) -> Self {
        Self {
            kind,
            cells: Vec::new(),
            totals: Totals::default(),
            truncated: 0,
            timeline: Timeline::new(start),
            samples: keep.samples.then(SampleTable::default),
            slices: keep.slices.then(|| Slices::new(start)),
            squares: 0.0,
            sorted: 0,
            last: Vec::new(),
        }
    }

    /// What these sums are together. Their times are not known and count as `start`.
    pub(crate) fn of<'a>(
        kind: SeriesKind,
        start: Nanos,
        cells: impl Iterator<Item = &'a Cell>,
    ) -> Self {
        let mut series = Self::new(kind, start, Keep::default());
        for cell in cells {
            let Cell { stack, thread, state, truncated, weight, .. } = *cell;
            let row = Row { time: start, thread, stack, state, truncated, weight };
            series.add(row, cell.samples);
        }
        series.settle();
        series
    }

    /// What it keeps beside its sums.
    pub(crate) fn keep(&self) -> Keep {
        Keep { samples: self.samples.is_some(), slices: self.slices.is_some() }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many samples of equal weight would say as much as these: the base of all error bars
    /// (Kish's effective sample size, the square of the sum by the sum of squares).
    pub fn effective_samples(&self) -> f64 {
        if self.squares > 0.0 { (self.totals.weight as f64).powi(2) / self.squares } else { 0.0 }
    }

    /// The share of a weight in these samples, from 0 to 1, with its error bar; 0 if there are no
    /// samples. Shares of calls are exact.
    pub fn share(&self, weight: u64) -> Estimate {
        let all = self.totals.weight;
        let share = if all > 0 { weight as f64 / all as f64 } else { 0.0 };
        if self.kind.is_calls() {
            return Estimate { share, low: share, high: share };
        }
        Estimate::wilson(share, self.effective_samples())
    }

    /// The samples in one state, as sums without times.
    pub fn in_state(&self, state: ThreadState) -> Series {
        let cells = self.cells.iter().filter(|cell| cell.state == state);
        Series::of(self.kind, self.timeline.start(), cells)
    }

    pub(crate) fn add_batch(
        &mut self,
        batch: &SampleBatch,
        keep: impl Fn(Nanos, ThreadId, ThreadState) -> bool,
    ) {
        let mut time = batch.start;
        let rows = batch.time_delta.iter().zip(&batch.thread).zip(&batch.stack).zip(&batch.weight);
        for ((((delta, thread), stack), weight), (state, truncated)) in
            rows.zip(batch.state.iter().zip(&batch.truncated))
        {
            time = time.wrapping_add(*delta);
            let row = Row {
                time,
                thread: *thread,
                stack: *stack,
                state: *state,
                truncated: *truncated,
                weight: *weight,
            };
            if keep(time, row.thread, row.state) {
                self.add(row, 1);
            }
        }
    }

    /// Adds calls with this stack and what they took together.
    pub(crate) fn add_calls(&mut self, mut row: Row, count: u64) {
        // A row is of about a second. One that claims more calls than that has time for would take
        // a cell for each 2^32 of them.
        let mut count = count.min(MOST_CALLS);
        // At least once: a call from before may have gone on.
        loop {
            let samples = u32::try_from(count).unwrap_or(u32::MAX);
            self.add(row, samples);
            (count, row.weight) = (count - u64::from(samples), 0);
            if count == 0 {
                break;
            }
        }
    }

    pub(crate) fn add(&mut self, row: Row, samples: u32) {
        self.add_cell(&row, samples);
        let samples = u64::from(samples);
        self.totals.add(samples, row.weight);
        // Several samples summed to one cell share their weight; their squares are no longer known
        // one by one.
        self.squares += (row.weight as f64).powi(2) / samples.max(1) as f64;
        self.truncated += u64::from(row.truncated) * samples;
        self.timeline.add(row.time, row.state, row.weight);
        if let Some(slices) = &mut self.slices {
            slices.add(&row, samples);
        }
        if let Some(table) = &mut self.samples {
            table.time.push(row.time);
            table.thread.push(row.thread);
            table.stack.push(row.stack);
            table.weight.push(row.weight);
            table.state.push(row.state);
            table.truncated.push(row.truncated);
        }
    }

    fn add_cell(&mut self, row: &Row, samples: u32) {
        let cell = Cell {
            stack: row.stack,
            thread: row.thread,
            weight: row.weight,
            samples,
            state: row.state,
            truncated: row.truncated,
        };
        let thread = row.thread.index();
        if thread >= self.last.len() {
            self.last.resize(thread + 1, NONE);
        }
        if let Some(last) = self.cells.get_mut(self.last[thread] as usize)
            && last.absorb(&cell)
        {
            return;
        }
        // As many new cells as old ones are sorted in together, so that each is moved only a few
        // times.
        if self.cells.len() - self.sorted >= self.sorted.max(FEWEST_TO_SORT) {
            self.settle();
        }
        self.last[thread] = self.cells.len() as u32;
        self.cells.push(cell);
    }

    /// Brings [`Self::cells`] into order and sums those that are of the same kind.
    pub(crate) fn settle(&mut self) {
        self.last.fill(NONE);
        let (_, new) = self.cells.split_at_mut(self.sorted);
        if new.is_empty() {
            return;
        }
        new.sort_unstable_by_key(Cell::key);
        // Two sorted parts: this sort sees them and merges.
        self.cells.sort_by_key(Cell::key);
        self.cells.dedup_by(|next, sum| sum.absorb(next));
        self.sorted = self.cells.len();
    }

    /// Sums of each thread, by thread id.
    pub fn by_thread(&self, threads: usize) -> Vec<Totals> {
        let mut totals = vec![Totals::default(); threads];
        for cell in &self.cells {
            totals[cell.thread.index()].add(cell.samples.into(), cell.weight);
        }
        totals
    }

    /// Sums of each state, in the order of [`STATES`].
    pub fn by_state(&self) -> [Totals; STATES.len()] {
        let mut totals = [Totals::default(); STATES.len()];
        for cell in &self.cells {
            totals[state_index(cell.state)].add(cell.samples.into(), cell.weight);
        }
        totals
    }

    /// Sums of each thread and state, by thread id and in the order of [`STATES`].
    pub fn by_thread_and_state(&self, threads: usize) -> Vec<[Totals; STATES.len()]> {
        let mut totals = vec![[Totals::default(); STATES.len()]; threads];
        for cell in &self.cells {
            totals[cell.thread.index()][state_index(cell.state)]
                .add(cell.samples.into(), cell.weight);
        }
        totals
    }

    /// Sums of each stack by itself, by stack id.
    pub fn by_stack(&self, stacks: usize) -> Vec<Totals> {
        let mut totals = vec![Totals::default(); stacks];
        for cell in &self.cells {
            totals[cell.stack.index()].add(cell.samples.into(), cell.weight);
        }
        totals
    }
}

/// Calls of one row.
const MOST_CALLS: u64 = 1 << 36;

/// Fewer new cells than these are not worth a sort: 24 MB of them.
const FEWEST_TO_SORT: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

impl Cell {
    /// Order of cells. More than 2^27 threads would share keys, which costs merging and no more:
    /// see [`Self::absorb`].
    fn key(&self) -> u64 {
        let tag = (self.state as u64) << 1 | u64::from(self.truncated);
        u64::from(self.stack.0) << 32 | u64::from(self.thread.0 << 5) | tag
    }

    fn is_like(&self, other: &Cell) -> bool {
        self.key() == other.key() && self.thread == other.thread
    }

    /// Adds another cell of the same key; false if the key is another, or the number would
    /// overflow.
    fn absorb(&mut self, other: &Cell) -> bool {
        let samples = self.samples.checked_add(other.samples);
        let (true, Some(samples)) = (self.is_like(other), samples) else { return false };
        self.samples = samples;
        self.weight = self.weight.saturating_add(other.weight);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn sums_are_those_of_a_plain_map() {
        let mut series = Series::new(SeriesKind::Wall, 0, Keep::default());
        let mut plain: HashMap<_, (u64, u64)> = HashMap::new();
        let mut random = 7_u64;
        let mut number = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        // Sorted more than once, most stacks rare and some frequent.
        for time in 0..(FEWEST_TO_SORT as u64 * 40) {
            let stacks = 1 + number(3000);
            let row = Row {
                time,
                thread: ThreadId(number(5) as u32),
                stack: StackId(number(stacks) as u32),
                state: STATES[number(STATES.len() as u64) as usize],
                truncated: number(100) == 0,
                weight: number(1000),
            };
            series.add(row, 1);
            let sum = plain.entry((row.stack, row.thread, row.state, row.truncated)).or_default();
            *sum = (sum.0 + 1, sum.1 + row.weight);
            // A view in the middle of it changes nothing.
            if time == 5000 {
                series.settle();
            }
        }
        series.settle();
        assert_eq!(series.cells.len(), plain.len());
        assert!(series.cells.is_sorted_by_key(Cell::key));
        for cell in &series.cells {
            let sum = plain[&(cell.stack, cell.thread, cell.state, cell.truncated)];
            assert_eq!((u64::from(cell.samples), cell.weight), sum);
        }
        assert_eq!(series.totals.samples, FEWEST_TO_SORT as u64 * 40);
        assert_eq!(series.totals.weight, plain.values().map(|(_, weight)| weight).sum::<u64>());
    }

    #[test]
    fn a_full_cell_is_continued_in_another() {
        let mut series = Series::new(SeriesKind::Cpu, 0, Keep::default());
        let (thread, stack, state) = (ThreadId(0), StackId(0), ThreadState::Running);
        let row = Row { time: 0, thread, stack, state, truncated: false, weight: 5 };
        series.add(row, u32::MAX);
        series.add(row, 2);
        series.settle();
        assert_eq!(
            series.cells.iter().map(|cell| u64::from(cell.samples)).sum::<u64>(),
            u64::from(u32::MAX) + 2
        );
        assert_eq!(series.by_stack(1)[0], series.totals);
    }
}
