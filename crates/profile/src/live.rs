use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use profilers::gc::Collection;
use session::{
    FunctionId, ModelError, Nanos, SessionRecord, StackId, ThreadId, ThreadState, TypeId,
};

use crate::{
    BuildOptions, CallSite, Cell, Line, Profile, ProfileBuilder, STATES, Series, SeriesKind,
    pause_length, series::sum, state_index,
};

/// Slices kept: as many seconds as the longest window has.
const SLICES: usize = 60;

/// Collections kept for the list.
const COLLECTIONS: usize = 200;

/// A recording that is being made, cut into slices of about a second. Of these the latest 60 are
/// kept.
#[derive(Debug)]
pub struct Live {
    builder: ProfileBuilder,
    slices: VecDeque<Slice>,
    elapsed: Duration,
    exceptions: HashMap<TypeId, Thrown>,
    collections: VecDeque<Collection>,
    collection_pause: HashMap<u32, Nanos>,
    /// Whether an allocation was ever recorded.
    allocates: bool,
    note: Option<String>,
    ended: bool,
}

/// What happened in about a second.
#[derive(Debug, Default)]
struct Slice {
    length: Duration,
    cpu: Vec<Cell>,
    wall: Vec<Cell>,
    exceptions: Vec<(TypeId, u64)>,
    /// Bytes.
    allocated: u64,
    paused: Nanos,
}

/// Exceptions of a type since the start.
#[derive(Debug, Default)]
struct Thrown {
    count: u64,
    message: Option<String>,
    thrown_at: Option<(FunctionId, Option<Line>)>,
}

/// What the latest slices of a recording that is being made say.
#[derive(Clone, Debug)]
pub struct Recent {
    /// The definitions, what the observation cost, and of the window the samples of CPU and wall
    /// time. It is as long as the window.
    pub profile: Profile,
    /// Time since the start of the recording.
    pub elapsed: Duration,
    /// CPU time by time in the window: 1 is one processor.
    pub cpu: f64,
    /// The same of each slice that is kept, oldest first.
    pub cpu_history: Vec<f64>,
    /// Share of the window in which the runtime was suspended.
    pub paused: f64,
    /// The same of each slice that is kept, oldest first.
    pub paused_history: Vec<f64>,
    /// Exceptions per second in the window.
    pub exceptions_per_second: f64,
    /// Exceptions by type, the most frequent of the window first.
    pub exceptions: Vec<ThrownType>,
    /// Bytes allocated per second in the window; `None` if no allocation was ever recorded.
    pub allocated_per_second: Option<f64>,
    /// The latest 200 collections, latest first, and how long their GC pauses were, where known.
    pub collections: Vec<(Collection, Option<Nanos>)>,
    /// Latest remark of the recording.
    pub note: Option<String>,
}

/// Exceptions of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrownType {
    /// The type.
    pub ty: TypeId,
    /// Exceptions per second in the window.
    pub per_second: f64,
    /// Exceptions since the start.
    pub count: u64,
    /// A message that was seen.
    pub message: Option<String>,
    /// The method that threw most of the latest ones, and its line.
    pub thrown_at: Option<(FunctionId, Option<Line>)>,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadActivity {
    /// The thread.
    pub thread: ThreadId,
    /// CPU time by time: 1 is one processor.
    pub cpu: f64,
    /// What it did most, where wall samples say.
    pub state: Option<ThreadState>,
    /// Share of each state, in the order of [`STATES`].
    pub states: [f64; STATES.len()],
    /// Where it was seen most.
    pub place: Option<CallSite>,
}

impl Live {
    /// A recording of which nothing is known yet.
    pub fn new() -> Self {
        Self {
            builder: ProfileBuilder::new(BuildOptions::default()),
            slices: VecDeque::new(),
            elapsed: Duration::ZERO,
            exceptions: HashMap::new(),
            collections: VecDeque::new(),
            collection_pause: HashMap::new(),
            allocates: false,
            note: None,
            ended: false,
        }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// When it does not fit the records before it.
    pub fn add(&mut self, record: &SessionRecord) -> Result<(), ModelError> {
        match record {
            SessionRecord::Note { message, .. } => self.note = Some(message.clone()),
            SessionRecord::End(_) => self.ended = true,
            _ => {}
        }
        self.builder.add(record)
    }

    /// The recording is over.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the recording is over.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends a slice; `length` is the time since the last one.
    pub fn cut(&mut self, length: Duration) {
        self.elapsed += length;
        let Some(profile) = self.builder.snapshot() else { return };
        self.builder.clear();
        let mut slice = Slice { length, ..Slice::default() };
        for row in profile.exception_rows() {
            slice.exceptions.push((row.ty, row.count));
            let thrown = self.exceptions.entry(row.ty).or_default();
            thrown.count += row.count;
            thrown.message = row.message.or(thrown.message.take());
            thrown.thrown_at = row.thrown_at.or(thrown.thrown_at);
        }
        for pause in &profile.pauses {
            slice.paused += pause_length(pause);
            if let Some(gc) = pause.gc {
                *self.collection_pause.entry(gc).or_default() += pause_length(pause);
            }
        }
        // Every object, where all were counted, else what the samples stand for.
        slice.allocated = match profile.allocations.exact_total().bytes {
            0 => profile.allocations.series.totals.weight,
            exact => exact,
        };
        self.allocates |= slice.allocated > 0;
        self.collections.extend(profile.gcs);
        while self.collections.len() > COLLECTIONS {
            self.collections.pop_front();
        }
        if let Some(oldest) = self.collections.front().map(|gc| gc.number) {
            self.collection_pause.retain(|number, _| *number >= oldest);
        }
        slice.cpu = profile.cpu.cells;
        slice.wall = profile.wall.cells;
        self.slices.push_back(slice);
        while self.slices.len() > SLICES {
            self.slices.pop_front();
        }
    }

    /// What the latest slices say that together are as long as `window`; `None` before the first
    /// record.
    pub fn recent(&self, window: Duration) -> Option<Recent> {
        let mut profile = self.builder.snapshot()?;
        let mut length = Duration::ZERO;
        let slices: Vec<&Slice> = self
            .slices
            .iter()
            .rev()
            .take_while(|slice| {
                let more = length < window;
                length += if more { slice.length } else { Duration::ZERO };
                more
            })
            .collect();
        profile.start = profile.stop.saturating_sub(length.as_nanos() as Nanos);
        let series = |kind, cells: fn(&Slice) -> &Vec<Cell>| {
            Series::of(kind, profile.start, slices.iter().flat_map(|slice| cells(slice)))
        };
        (profile.cpu, profile.wall) = (
            series(SeriesKind::Cpu, |slice| &slice.cpu),
            series(SeriesKind::Wall, |slice| &slice.wall),
        );
        let seconds = length.as_secs_f64().max(1e-3);
        let paused: Nanos = slices.iter().map(|slice| slice.paused).sum();
        let mut thrown: HashMap<TypeId, u64> = HashMap::new();
        for (ty, count) in slices.iter().flat_map(|slice| &slice.exceptions) {
            *thrown.entry(*ty).or_default() += count;
        }
        let share = |nanos: u64, of: Duration| nanos as f64 / (of.as_nanos() as f64).max(1.0);
        let history = |nanos: fn(&Slice) -> Nanos| {
            self.slices.iter().map(|slice| share(nanos(slice), slice.length)).collect()
        };
        Some(Recent {
            elapsed: self.elapsed,
            cpu: profile.cpu.totals.weight as f64 / 1e9 / seconds,
            cpu_history: history(|slice| slice.cpu.iter().map(|cell| cell.weight).sum()),
            paused: paused as f64 / 1e9 / seconds,
            paused_history: history(|slice| slice.paused),
            exceptions_per_second: thrown.values().sum::<u64>() as f64 / seconds,
            exceptions: self.thrown_types(&profile, &thrown, seconds),
            allocated_per_second: self
                .allocates
                .then(|| sum(slices.iter().map(|slice| slice.allocated)) as f64 / seconds),
            collections: (self.collections.iter().rev())
                .map(|gc| (gc.clone(), self.collection_pause.get(&gc.number).copied()))
                .collect(),
            note: self.note.clone(),
            profile,
        })
    }

    fn thrown_types(
        &self,
        profile: &Profile,
        window: &HashMap<TypeId, u64>,
        seconds: f64,
    ) -> Vec<ThrownType> {
        let name = |ty: &ThrownType| profile.tables.ty(ty.ty).name.as_str();
        let rows = self.exceptions.iter().map(|(ty, thrown)| ThrownType {
            ty: *ty,
            per_second: window.get(ty).copied().unwrap_or_default() as f64 / seconds,
            count: thrown.count,
            message: thrown.message.clone(),
            thrown_at: thrown.thrown_at,
        });
        let mut rows: Vec<ThrownType> = rows.collect();
        order::sort_by(&mut rows, |a, b| {
            b.per_second
                .total_cmp(&a.per_second)
                .then(b.count.cmp(&a.count))
                .then_with(|| name(a).cmp(name(b)))
        });
        rows
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Recent {
    /// The profile of the window, with the CPU samples of one thread only.
    pub fn cpu_of(&self, thread: ThreadId) -> Profile {
        let mut profile = self.profile.clone();
        let cells = self.profile.cpu.cells.iter().filter(|cell| cell.thread == thread);
        profile.cpu = Series::of(SeriesKind::Cpu, profile.start, cells);
        profile
    }

    /// What the threads that have not ended do, and those that have used a processor in the window.
    /// Who used it most comes first.
    pub fn threads(&self) -> Vec<ThreadActivity> {
        let Profile { tables, cpu, wall, .. } = &self.profile;
        let cpu_of = cpu.by_thread(tables.threads.len());
        let states_of = wall.by_thread_and_state(tables.threads.len());
        // Where a thread is shows best in wall samples; without them, where it used the processor.
        let seen = if wall.is_empty() { cpu } else { wall };
        let mut stacks: HashMap<(ThreadId, StackId), u64> = HashMap::new();
        for cell in &seen.cells {
            *stacks.entry((cell.thread, cell.stack)).or_default() += cell.weight;
        }
        let mut most: HashMap<ThreadId, (u64, StackId)> = HashMap::new();
        for ((thread, stack), weight) in stacks {
            let best = most.entry(thread).or_insert((weight, stack));
            *best = (*best).max((weight, stack));
        }
        let seconds = (self.profile.duration() as f64 / 1e9).max(1e-3);
        let shown = tables
            .threads
            .iter()
            .filter(|thread| thread.ended.is_none() || cpu_of[thread.id.index()].weight > 0);
        let mut threads: Vec<ThreadActivity> = shown
            .map(|thread| {
                let states = states_of[thread.id.index()].map(|state| state.weight);
                let all: u64 = states.iter().sum();
                let shares = states.map(|state| state as f64 / all.max(1) as f64);
                let greatest = STATES.into_iter().max_by_key(|state| states[state_index(*state)]);
                let place = most.get(&thread.id).map(|(_, stack)| tables.place(*stack));
                ThreadActivity {
                    thread: thread.id,
                    cpu: cpu_of[thread.id.index()].weight as f64 / 1e9 / seconds,
                    state: greatest.filter(|_| all > 0),
                    states: shares,
                    place,
                }
            })
            .collect();
        let id = |row: &ThreadActivity| tables.thread(row.thread).os_tid;
        order::sort_by(&mut threads, |a, b| b.cpu.total_cmp(&a.cpu).then(id(a).cmp(&id(b))));
        threads
    }
}
