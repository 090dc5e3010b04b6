//! What a live view shows: a recording cut into slices of about a second, and the sums of the
//! latest of them.

use profile::{
    BuildOptions, Cell, NameStyle, ProfileBuilder, STATES, SeriesKind, Tables, pause_length,
    state_id,
};
use profilers::gc::Collection;
use schemars::JsonSchema;
use serde::Serialize;
use session::{
    FunctionId, FunctionKind, ModelError, Nanos, ObserverStatus, SessionInfo, SessionRecord,
    StackId, ThreadId, TypeId,
};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// Slices kept: as many seconds as the longest window has.
const SLICES: usize = 60;

/// Collections kept for the list.
const COLLECTIONS: usize = 200;

/// A live recording.
#[derive(Debug)]
pub struct Live {
    builder: ProfileBuilder,
    slices: VecDeque<Slice>,
    elapsed: Duration,
    exceptions: HashMap<TypeId, Thrown>,
    collections: VecDeque<Collection>,
    collection_pause: HashMap<u32, Nanos>,
    info: Option<SessionInfo>,
    observer: Option<ObserverStatus>,
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
    paused: Nanos,
}

/// Exceptions of a type since the start.
#[derive(Debug, Default)]
struct Thrown {
    count: u64,
    message: Option<String>,
    thrown_at: Option<FunctionId>,
}

/// How a view is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// How much of the past.
    pub window: Duration,
    /// CPU time of this thread only.
    pub thread: Option<ThreadId>,
    /// Greatest total first instead of greatest self.
    pub by_total: bool,
}

/// What a process does: CPU, threads, exceptions and pauses of the window that the view covers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct View {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Runtime version.
    pub runtime: String,
    /// Operating system and processor.
    pub platform: String,
    /// How CPU samples are taken.
    pub engine: String,
    /// Seconds since the start of the recording.
    pub elapsed_seconds: f64,
    /// Seconds that the numbers below are of.
    pub window_seconds: f64,
    /// CPU time by time: 1 is one processor.
    pub cpu: f64,
    /// CPU of each slice of the past minute, oldest first.
    pub cpu_history: Vec<f64>,
    /// CPU samples in the window.
    pub samples: u64,
    /// Exceptions per second.
    pub exceptions_per_second: f64,
    /// Share of the time that the runtime was suspended.
    pub paused: f64,
    /// The same of each slice of the past minute, oldest first.
    pub paused_history: Vec<f64>,
    /// Samples and events lost since the start.
    pub dropped: u64,
    /// Records that this view was too slow for since the start: they are missing in its numbers
    /// only.
    pub left_out: u64,
    /// Latest remark of the recording.
    pub note: Option<String>,
    /// The recording is over.
    pub ended: bool,
    /// Name of the thread that `methods` is of, if it is of one.
    pub thread_filter: Option<String>,
    /// CPU by method.
    pub methods: Vec<MethodRow>,
    /// Threads.
    pub threads: Vec<ThreadRow>,
    /// Exceptions by type.
    pub exceptions: Vec<ExceptionRow>,
    /// Collections, latest first.
    pub collections: Vec<CollectionRow>,
}

/// CPU of a method.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MethodRow {
    /// Full name.
    pub name: String,
    /// Name without namespaces.
    #[serde(skip)]
    pub short: String,
    /// Module.
    pub module: Option<String>,
    /// Whether it is code of the program, not of the runtime or the system.
    pub managed: bool,
    /// Share of the CPU samples in it.
    pub own: f64,
    /// Share of the CPU samples in it or in what it called.
    pub total: f64,
    /// CPU time in it, milliseconds.
    pub own_ms: f64,
}

/// A thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// Id in the recording.
    #[serde(skip)]
    pub id: ThreadId,
    /// Id of the operating system.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time by time: 1 is one processor.
    pub cpu: f64,
    /// What it did most.
    pub state: Option<&'static str>,
    /// Share of each state, in the order of [`STATES`].
    #[serde(skip)]
    pub states: [f64; STATES.len()],
    /// The method it was seen in most.
    pub method: Option<String>,
}

/// Exceptions of a type.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExceptionRow {
    /// The type.
    pub name: String,
    /// In the window.
    pub per_second: f64,
    /// Since the start.
    pub count: u64,
    /// A message that was seen.
    pub message: Option<String>,
    /// Where it was thrown.
    pub thrown_at: Option<String>,
}

/// A collection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CollectionRow {
    /// Number since the process started.
    pub number: u32,
    /// Generation.
    pub generation: u8,
    /// Why.
    pub reason: String,
    /// How.
    pub kind: String,
    /// How long its GC pause was, milliseconds, where known.
    pub pause_ms: Option<f64>,
    /// Bytes of all heaps after it.
    pub heap_bytes: u64,
    /// Bytes promoted.
    pub promoted_bytes: u64,
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
            info: None,
            observer: None,
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
            SessionRecord::Info(info) => self.info = Some(info.clone()),
            SessionRecord::Note { message, .. } => self.note = Some(message.clone()),
            SessionRecord::Observer(status) => self.observer = Some(status.clone()),
            SessionRecord::End(_) => self.ended = true,
            _ => {}
        }
        self.builder.add(record)
    }

    /// The recording is over.
    pub fn end(&mut self) {
        self.ended = true;
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
            thrown.thrown_at = row.thrown_at.map(|(function, _)| function).or(thrown.thrown_at);
        }
        for pause in &profile.pauses {
            slice.paused += pause_length(pause);
            if let Some(gc) = pause.gc {
                *self.collection_pause.entry(gc).or_default() += pause_length(pause);
            }
        }
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

    /// The numbers of the latest slices.
    pub fn view(&self, question: Question) -> View {
        let (Some(info), Some(profile)) = (&self.info, self.builder.snapshot()) else {
            return View { ended: self.ended, note: self.note.clone(), ..View::default() };
        };
        let tables = &profile.tables;
        let mut window = Duration::ZERO;
        let slices: Vec<&Slice> = self
            .slices
            .iter()
            .rev()
            .take_while(|slice| {
                let more = window < question.window;
                window += if more { slice.length } else { Duration::ZERO };
                more
            })
            .collect();
        let seconds = window.as_secs_f64().max(1e-3);
        let cpu: Vec<&Cell> = slices.iter().flat_map(|slice| &slice.cpu).collect();
        let cpu_nanos: u64 = cpu.iter().map(|cell| cell.weight).sum();
        let paused: Nanos = slices.iter().map(|slice| slice.paused).sum();
        let thrown = exceptions_of(&slices);
        let share = |nanos: u64, of: Duration| nanos as f64 / (of.as_nanos() as f64).max(1.0);
        View {
            pid: info.pid,
            process: info.process_name.clone(),
            runtime: info.runtime.clone(),
            platform: info.platform.clone(),
            engine: profile
                .run(SeriesKind::Cpu.id())
                .map(|run| run.engine.clone())
                .unwrap_or_default(),
            elapsed_seconds: self.elapsed.as_secs_f64(),
            window_seconds: window.as_secs_f64(),
            cpu: cpu_nanos as f64 / 1e9 / seconds,
            cpu_history: self
                .slices
                .iter()
                .map(|slice| share(slice.cpu.iter().map(|cell| cell.weight).sum(), slice.length))
                .collect(),
            samples: cpu.iter().map(|cell| u64::from(cell.samples)).sum(),
            exceptions_per_second: thrown.values().sum::<u64>() as f64 / seconds,
            paused: paused as f64 / 1e9 / seconds,
            paused_history: self
                .slices
                .iter()
                .map(|slice| share(slice.paused, slice.length))
                .collect(),
            dropped: self
                .observer
                .iter()
                .flat_map(|status| &status.dropped)
                .map(|(_, count)| count)
                .sum(),
            left_out: 0,
            note: self.note.clone(),
            ended: self.ended,
            thread_filter: question.thread.map(|thread| tables.thread_name(thread)),
            methods: methods(tables, &cpu, question),
            threads: threads(tables, &slices, seconds),
            exceptions: self.exception_rows(tables, &thrown, seconds),
            collections: self.collections.iter().rev().map(|gc| self.collection(gc)).collect(),
        }
    }

    fn exception_rows(
        &self,
        tables: &Tables,
        window: &HashMap<TypeId, u64>,
        seconds: f64,
    ) -> Vec<ExceptionRow> {
        let mut rows: Vec<ExceptionRow> = self
            .exceptions
            .iter()
            .map(|(ty, thrown)| ExceptionRow {
                name: tables.ty(*ty).name.clone(),
                per_second: window.get(ty).copied().unwrap_or_default() as f64 / seconds,
                count: thrown.count,
                message: thrown.message.clone(),
                thrown_at: thrown
                    .thrown_at
                    .map(|function| tables.function_name(function, NameStyle::PLAIN)),
            })
            .collect();
        rows.sort_by(|a, b| {
            b.per_second
                .total_cmp(&a.per_second)
                .then(b.count.cmp(&a.count))
                .then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    fn collection(&self, gc: &Collection) -> CollectionRow {
        CollectionRow {
            number: gc.number,
            generation: gc.generation,
            reason: gc.reason.clone(),
            kind: gc.kind.clone(),
            pause_ms: self.collection_pause.get(&gc.number).map(|pause| *pause as f64 / 1e6),
            heap_bytes: gc.size_after.iter().sum(),
            promoted_bytes: gc.promoted.iter().sum(),
        }
    }
}

fn exceptions_of(slices: &[&Slice]) -> HashMap<TypeId, u64> {
    let mut counts = HashMap::new();
    for (ty, count) in slices.iter().flat_map(|slice| &slice.exceptions) {
        *counts.entry(*ty).or_default() += count;
    }
    counts
}

fn methods(tables: &Tables, cells: &[&Cell], question: Question) -> Vec<MethodRow> {
    let mut stacks: HashMap<StackId, u64> = HashMap::new();
    for cell in
        cells.iter().filter(|cell| question.thread.is_none_or(|thread| thread == cell.thread))
    {
        *stacks.entry(cell.stack).or_default() += cell.weight;
    }
    let all = stacks.values().sum::<u64>().max(1) as f64;
    let mut sums: HashMap<FunctionId, (u64, u64)> = HashMap::new();
    let mut on_stack: Vec<FunctionId> = Vec::new();
    for (stack, weight) in stacks {
        on_stack.clear();
        on_stack.extend(tables.walk(stack).map(|frame| tables.frame(frame).function));
        if let Some(leaf) = on_stack.first() {
            sums.entry(*leaf).or_default().0 += weight;
        }
        // A function that is on the stack several times is there once.
        on_stack.sort_unstable();
        on_stack.dedup();
        for function in &on_stack {
            sums.entry(*function).or_default().1 += weight;
        }
    }
    let mut sums: Vec<(FunctionId, (u64, u64))> = sums.into_iter().collect();
    sums.sort_by(|(a, (a_own, a_total)), (b, (b_own, b_total))| {
        let order = if question.by_total {
            (b_total, b_own).cmp(&(a_total, a_own))
        } else {
            (b_own, b_total).cmp(&(a_own, a_total))
        };
        order.then(a.cmp(b))
    });
    sums.into_iter()
        .map(|(function, (own, total))| MethodRow {
            name: tables.function_name(function, NameStyle::FULL),
            short: tables.function_name(function, NameStyle::SHORT),
            module: tables.function_module(function).map(str::to_owned),
            managed: matches!(
                tables.function(function).kind,
                FunctionKind::Managed | FunctionKind::Dynamic
            ),
            own: own as f64 / all,
            total: total as f64 / all,
            own_ms: own as f64 / 1e6,
        })
        .collect()
}

fn threads(tables: &Tables, slices: &[&Slice], seconds: f64) -> Vec<ThreadRow> {
    let mut cpu = vec![0_u64; tables.threads.len()];
    let mut states = vec![[0_u64; STATES.len()]; tables.threads.len()];
    let mut stacks: HashMap<(ThreadId, StackId), u64> = HashMap::new();
    for slice in slices {
        for cell in &slice.cpu {
            cpu[cell.thread.index()] += cell.weight;
        }
        for cell in &slice.wall {
            states[cell.thread.index()][profile::state_index(cell.state)] += cell.weight;
        }
        // Where a thread is shows best in wall samples; without them, where it used the processor.
        let seen = if slice.wall.is_empty() { &slice.cpu } else { &slice.wall };
        for cell in seen {
            *stacks.entry((cell.thread, cell.stack)).or_default() += cell.weight;
        }
    }
    let mut most: HashMap<ThreadId, (u64, StackId)> = HashMap::new();
    for ((thread, stack), weight) in stacks {
        let best = most.entry(thread).or_insert((weight, stack));
        *best = (*best).max((weight, stack));
    }
    let mut rows: Vec<ThreadRow> = tables
        .threads
        .iter()
        .filter(|thread| thread.ended.is_none() || cpu[thread.id.index()] > 0)
        .map(|thread| {
            let all = states[thread.id.index()].iter().sum::<u64>();
            let shares = states[thread.id.index()].map(|state| state as f64 / all.max(1) as f64);
            let greatest = STATES
                .iter()
                .zip(shares)
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map(|(state, _)| *state);
            ThreadRow {
                id: thread.id,
                tid: thread.os_tid,
                name: thread.name.clone().unwrap_or_default(),
                cpu: cpu[thread.id.index()] as f64 / 1e9 / seconds,
                state: greatest.filter(|_| all > 0).map(state_id),
                states: shares,
                method: most.get(&thread.id).and_then(|(_, stack)| place(tables, *stack)),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.cpu.total_cmp(&a.cpu).then(a.tid.cmp(&b.tid)));
    rows
}

/// The innermost managed method of a stack, or its leaf.
fn place(tables: &Tables, stack: StackId) -> Option<String> {
    let function = |frame| tables.frame(frame).function;
    let managed = |id: &FunctionId| {
        matches!(tables.function(*id).kind, FunctionKind::Managed | FunctionKind::Dynamic)
    };
    tables
        .walk(stack)
        .map(function)
        .find(managed)
        .or_else(|| tables.walk(stack).next().map(function))
        .map(|function| tables.function_name(function, NameStyle::SHORT))
}
