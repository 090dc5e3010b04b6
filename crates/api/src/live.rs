//! What a recording shows while it runs: each line of `top --json`, and what the server sends.

use profile::{
    Feed, FunctionTotals, NameStyle, Recent, SeriesKind, ThreadActivity, ThrownType, state_id,
};
use profilers::gc::Collection;
use schemars::JsonSchema;
use serde::Serialize;
use session::Nanos;

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
    /// Bytes allocated per second; null if no allocation was recorded yet.
    pub allocated_per_second: Option<f64>,
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
    /// Id of the operating system.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time by time: 1 is one processor.
    pub cpu: f64,
    /// What it did most.
    pub state: Option<&'static str>,
    /// The method it was seen in most: of the program, or else of .NET.
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

impl View {
    /// Takes what has come of a recording; what its latest slice says, when one was ended.
    pub fn next(feed: &mut Feed) -> Option<Self> {
        (feed.take() || feed.is_over()).then(|| {
            let live = feed.live();
            let view = Self::of(live.recent(Feed::SLICE).as_ref());
            Self { left_out: feed.left_out(), ended: live.has_ended(), ..view }
        })
    }

    /// What the latest slices say, if there was a record yet. What the view was too slow for, and
    /// whether the recording is over, are not known here.
    pub fn of(recent: Option<&Recent>) -> Self {
        let Some(recent) = recent else { return Self::default() };
        let profile = &recent.profile;
        let engine = profile.run(SeriesKind::Cpu.id()).map(|run| run.engine.clone());
        let functions = profile.top_functions(SeriesKind::Cpu);
        let threads = recent.threads();
        Self {
            pid: profile.info.pid,
            process: profile.info.process_name.clone(),
            runtime: profile.info.runtime.clone(),
            platform: profile.info.platform.clone(),
            engine: engine.unwrap_or_default(),
            elapsed_seconds: recent.elapsed.as_secs_f64(),
            window_seconds: profile.duration() as f64 / 1e9,
            cpu: recent.cpu,
            cpu_history: recent.cpu_history.clone(),
            samples: profile.cpu.totals.samples,
            exceptions_per_second: recent.exceptions_per_second,
            allocated_per_second: recent.allocated_per_second,
            paused: recent.paused,
            paused_history: recent.paused_history.clone(),
            dropped: profile.dropped(),
            left_out: 0,
            note: recent.note.clone(),
            ended: false,
            methods: functions.iter().map(|row| method(recent, row)).collect(),
            threads: threads.iter().map(|row| thread(recent, row)).collect(),
            exceptions: recent.exceptions.iter().map(|row| exception(recent, row)).collect(),
            collections: recent.collections.iter().map(collection).collect(),
        }
    }
}

fn method(recent: &Recent, row: &FunctionTotals) -> MethodRow {
    let tables = &recent.profile.tables;
    MethodRow {
        name: tables.function_name(row.function, NameStyle::FULL),
        module: tables.function_module(row.function).map(str::to_owned),
        managed: tables.is_managed(row.function),
        own: row.own_share.share,
        total: row.total_share.share,
        own_ms: row.own.weight as f64 / 1e6,
    }
}

fn thread(recent: &Recent, row: &ThreadActivity) -> ThreadRow {
    let tables = &recent.profile.tables;
    let thread = tables.thread(row.thread);
    ThreadRow {
        tid: thread.os_tid,
        name: thread.name.clone().unwrap_or_default(),
        cpu: row.cpu,
        state: row.state.map(state_id),
        method: row.place.map(|place| tables.function_name(place.function, NameStyle::SHORT)),
    }
}

fn exception(recent: &Recent, row: &ThrownType) -> ExceptionRow {
    let tables = &recent.profile.tables;
    ExceptionRow {
        name: tables.ty(row.ty).name.clone(),
        per_second: row.per_second,
        count: row.count,
        message: row.message.clone(),
        thrown_at: row
            .thrown_at
            .map(|(function, _)| tables.function_name(function, NameStyle::PLAIN)),
    }
}

fn collection((gc, pause): &(Collection, Option<Nanos>)) -> CollectionRow {
    CollectionRow {
        number: gc.number,
        generation: gc.generation,
        reason: gc.reason.clone(),
        kind: gc.kind.clone(),
        pause_ms: pause.map(|pause| pause as f64 / 1e6),
        heap_bytes: gc.size_after.iter().sum(),
        promoted_bytes: gc.promoted.iter().sum(),
    }
}
