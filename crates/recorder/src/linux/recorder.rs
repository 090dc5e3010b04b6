//! The one thread of a recording that merges all sources into session records.

use super::{
    allocation_events::AllocationEvents,
    blocked::{BlockedStacks, PendingTick, Purpose, RunningStack, near},
    calls::CallTrees,
    cpu::{CpuSource, Taken, TakenSample},
    define::Definitions,
    event_samples::EventSamples,
    events::{Events, FromEvents},
    frames::{Frames, Unwound},
    heap_fields,
    link::{AgentLink, FromAgent},
    processors::{self, Census, Sharing, Split, Ticked},
    rate::{self, RateMeter},
    reattach::UNLOAD_LIMIT,
    room::{self, ThreadWatch},
    sources::{self, Context, EventSample, Source, Tick, TickedThread},
    start::BY_WALKING,
    survivors::Survivors,
    target::Target,
    thread_snapshots::{OsThread, ThreadSnapshots},
    waits,
    window::Window,
};
use crate::{EngineChoice, Progress, RecordError, RuleHandle, SessionSummary, StopHandle, Timings};
use nettrace::counters::{self, Counted};
use profilers::{
    counters::{CounterDef, CounterKind, CounterValue},
    exact_allocations::Allocated,
    exceptions::{ExceptionCount, ExceptionSample},
};
use rustix::time::{ClockId, clock_gettime};
use session::{
    Argument, CallArguments, EndReason, HeapEnd, IlBody, InstrumentState, InstrumentedMethod,
    LiveSink, MethodParameters, ObserverStatus, Parameter, ParameterShown, RecompiledMethod,
    ResourceUse, RewrittenMethod, SampleBatch, SamplingRate, SessionEnd, SessionError, SessionInfo,
    SessionRecord, SessionWriter, SingleCall, Sink, StackId, Tee, ThreadId, ThreadSeen,
    ThreadSnapshot, ThreadState, TracedCalls, TracedMethod,
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs::File,
    io::{BufWriter, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, mpsc::Receiver},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use unwind::Needed;
use wire::{
    AllocatedObjects, ByeReason, CallKind, Calls, Control, CpuEngine, Exception, LogLevel, Record,
    RuntimeWork, RuntimeWorkKind, WallSample, WallTick, frame::FrameError,
};

/// How long one round waits for something to come.
const ROUND: Duration = Duration::from_millis(10);

/// How long what the agent says is taken at a time, before something else has its turn.
const TAKE_LIMIT: Duration = Duration::from_millis(100);

/// The same until the first sample, for a second at most: who looks on wants to see soon that it
/// works.
const FIRST_ROUND: Duration = Duration::from_millis(1);
const FIRST: u64 = 1_000_000_000;

/// How long samples are held before they are written. Meanwhile those of all sources can be put in
/// order, and the runtime's work (collections, compilation), which is reported when it ends, can be
/// seen in them. Rows of tables are gathered for as long.
const HOLD: Duration = Duration::from_millis(400);

/// How long a sample waits for the agent to say what code stands at its addresses.
const RESOLVE_LIMIT: Duration = Duration::from_secs(2);

/// How long the stack of a blocked thread waits for each such answer: thousands of them may come at
/// once, and none is worth anything without its managed frames.
const BLOCKED_LIMIT: Duration = Duration::from_secs(5);

/// Most samples that wait for the agent at a time; their stacks are kept, so this bounds memory.
const MAX_WAITING: usize = 4096;

/// How long a thrown exception waits to be caught before it is written without a catcher.
const CATCH_LIMIT: Duration = Duration::from_secs(1);

/// How long the agent may take until all profilers have begun, and how much of what it writes
/// meanwhile is kept.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
const MAX_EARLY: usize = 256;

/// How long, in nanoseconds, samples that are reported as lost may be of the time before the
/// recording.
const LOST_BEFORE: u64 = 100_000_000;

/// How long it may take to write its last sums.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// The message where it takes longer.
const SUMS_MISSING: &str = "the process did not answer at the end of the recording: exceptions of \
    its last second are not counted";

/// How long the agent may take to say goodbye, and then to detach.
const BYE_LIMIT: Duration = Duration::from_secs(6);
/// How long a recording that somebody has stopped waits for the runtime to unload the agent, which
/// has stopped already: who presses Ctrl-C waits for the end.
const INTERRUPTED_LIMIT: Duration = Duration::from_secs(1);

/// The message where it takes longer.
const UNLOADS: &str = "the agent has stopped; the runtime has not unloaded it yet, and does so by \
    itself";

/// How long it may take in a process that runs, where the agent reverts instrumented methods
/// before: there may be tens of thousands.
const PUT_BACK_LIMIT: Duration = Duration::from_secs(60);

/// How long a process may be stopped by a signal while a snapshot of its heap is waited for. That
/// wait has no other limit.
const STOPPED_LIMIT: Duration = Duration::from_secs(5);

/// Why such a snapshot is given up.
const STAYS_STOPPED: &str = "the process was stopped and does not continue: resume it (kill \
    -CONT), then take the snapshot again";

/// How the note on deep stacks begins.
const DEEP_STACKS: &str = "many stacks were deeper than what was copied of them";

/// The message about an agent that cannot detach.
const STAYS: &str = "the agent remains loaded, idle, because another profiler has detached from \
    this process in a way after which notification-only profilers can no longer detach";

/// The message about an agent that has set hooks.
const HOOKED: &str = "the agent remains loaded until the process ends, because the runtime never \
    removes its hooks, nor what transitions and exact-allocations request; they do nothing any \
    more";

/// The message about a resident agent, which takes the next snapshots.
const RESIDENT: &str = "the agent remains loaded until the process ends, idle, and takes the next \
    heap snapshots: many were taken in this process, and no further profiler slot of the runtime \
    is used up for one. Until the process is restarted, its full collections are blocking, because \
    the runtime makes no background collections meanwhile";

/// How the agent's own threads are named.
const OWN_THREADS: &str = "clrscope-";

/// How workers of the thread pool are named, from .NET 6 on.
const POOL_THREADS: [&str; 2] = [".NET TP Worker", ".NET ThreadPool"];

/// What counters the thread pool has, and whose they are.
const POOL_COUNTERS: (&str, &str) = ("System.Runtime", "threadpool-");

/// How long the exit code of a process that has ended may take to arrive.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

/// Most intervals of runtime work remembered for each thread.
const MAX_WORK: usize = 256;

/// The clock of the recording, in nanoseconds.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Where the records go.
pub(super) type Out = Tee<Option<SessionWriter<BufWriter<File>>>, Option<LiveSink>>;

/// Everything a recording needs once the agent has said hello.
pub(super) struct Sources {
    pub target: Target,
    pub link: AgentLink,
    pub cpu: CpuSource,
    /// What was asked for; the source says what is used.
    pub engine: EngineChoice,
    pub events: Vec<Events>,
    /// Sessions for allocations, which are apart since they do not last.
    pub allocations: Option<AllocationEvents>,
    pub info: SessionInfo,
    pub path: Option<PathBuf>,
    pub out: Out,
    pub duration: Option<Duration>,
    /// How many heap snapshots end the recording, if it is for them only.
    pub last_snapshot: Option<u32>,
    /// The rules by which methods are instrumented, if any are.
    pub rules: RuleHandle,
    /// Whether that is only told, and ends the recording.
    pub dry: bool,
    pub stop: StopHandle,
    pub progress: Arc<Mutex<Progress>>,
    /// Where the exit code of the process will stand, if it is the command that we launched.
    pub exit_code: Option<Arc<OnceLock<i32>>>,
    /// When the runtime was asked to load the agent; `None` where it did so as it started.
    pub requested: Option<u64>,
    /// Whether the agent was there before, and stays.
    pub stays: bool,
    /// Name of the agent's file.
    pub library: String,
}

/// A sample whose stack is known.
#[derive(Clone, Copy)]
struct PendingSample {
    time: u64,
    os_tid: u32,
    thread: ThreadId,
    stack: StackId,
    weight: u64,
    state: ThreadState,
    truncated: bool,
    /// Whether the leaf is native code of the runtime, so that a collection or a compilation may be
    /// what it is.
    runtime_leaf: bool,
    /// For a thread that runs and whose stack was not taken: how far the CPU sample may be whose
    /// stack it has, in nanoseconds. 0 for all others.
    near: u64,
}

/// Threads that the kernel ends so shortly before the end of the process is seen end because of it,
/// in nanoseconds.
const ENDS_WITH_PROCESS: u64 = 500_000_000;

/// A sample that waits for the agent.
struct Waiting {
    sample: TakenSample,
    needs: Needed,
    since: Instant,
}

/// State of the heap snapshots.
#[derive(Default)]
struct HeapSnapshots {
    /// How many have begun, and how many have ended.
    begun: u32,
    ended: u32,
    /// Objects of the one under way.
    under_way: Option<u64>,
    /// Whether one ended before it had seen all.
    incomplete: bool,
    /// Since when the process has been stopped by a signal, as far as that was looked at.
    stopped_since: Option<Instant>,
}

pub(super) struct Recorder {
    sources: Sources,
    before_detach: Option<Box<dyn FnOnce() + Send>>,
    definitions: Definitions,
    frames: Frames,
    requested: HashSet<u64>,
    waiting: VecDeque<Waiting>,
    event_samples: EventSamples,
    call_trees: CallTrees,
    /// When rows of tables were last written.
    rows_written: Instant,
    cpu: Vec<PendingSample>,
    rate: RateMeter,
    /// How near the process comes to its limit of threads.
    threads: ThreadWatch,
    wall: Vec<PendingSample>,
    last_wall: Option<u64>,
    wall_sharing: Sharing,
    pool: Vec<PendingSample>,
    last_pool: Option<u64>,
    pool_sharing: Sharing,
    /// When the last tick of each profiler came that the recorder knows by its source alone.
    last_ticks: HashMap<&'static str, u64>,
    census: Option<Census>,
    /// Workers of the thread pool that were seen at work: on .NET Core 3.1 they show nothing while
    /// they idle.
    pool_threads: HashSet<u32>,
    snapshots: ThreadSnapshots,
    /// Stacks of blocked threads, and ticks that name them.
    blocked: BlockedStacks,
    /// Whether the agent reads blocked threads, so that running ones have no stacks of their own.
    reads_blocked: bool,
    stack_states: HashMap<u32, ThreadState>,
    work: HashMap<u32, VecDeque<RuntimeWork>>,
    gc_pauses: VecDeque<(u64, u64)>,
    exceptions: HashMap<u64, (ExceptionSample, Instant)>,
    heap_snapshots: HeapSnapshots,
    survivors: Survivors,
    observer: ObserverStatus,
    dropped: HashMap<&'static str, u64>,
    agent_status: wire::Status,
    counts: HashMap<&'static str, u64>,
    notes: Vec<String>,
    failure: Option<SessionError>,
    /// Why there is nothing to record.
    refused: Option<RecordError>,
    window: Window,
    /// What the agent wrote before the window began.
    early: VecDeque<FromAgent>,
    /// When the agent had last written all sums, as it was asked to.
    flushed: Option<u64>,
    /// Whether the process was held until [`Self::go`].
    held: bool,
    bye: Option<ByeReason>,
    closed: bool,
    timings: Timings,
    /// When the rules had been applied.
    applied: Option<Instant>,
    /// Methods that were instrumented since rules were sent.
    instrumented: HashSet<session::FunctionId>,
    /// Which of the rules were sent.
    sent_rules: u64,
    /// Whether nothing is instrumented any more, as the rules wanted it.
    rules_ended: bool,
}

impl Recorder {
    /// `notes` are sentences for the end, and for the session.
    pub fn new(sources: Sources, notes: Vec<String>) -> Self {
        let frames = Frames::new(&sources.target);
        let start = sources.info.start;
        let entered = sources.link.hello.entered;
        let reads_blocked = sources.cpu.reads_blocked();
        let attach_to_initialize =
            sources.requested.map(|at| Duration::from_nanos(entered.saturating_sub(at)));
        let threads = ThreadWatch::new(sources.target.pid);
        Self {
            before_detach: None,
            sources,
            definitions: Definitions::default(),
            frames,
            requested: HashSet::new(),
            waiting: VecDeque::new(),
            event_samples: EventSamples::default(),
            call_trees: CallTrees::default(),
            rows_written: Instant::now(),
            cpu: Vec::new(),
            rate: RateMeter::default(),
            threads,
            wall: Vec::new(),
            last_wall: None,
            wall_sharing: Sharing::default(),
            pool: Vec::new(),
            last_pool: None,
            pool_sharing: Sharing::default(),
            last_ticks: HashMap::new(),
            census: None,
            pool_threads: HashSet::new(),
            snapshots: ThreadSnapshots::default(),
            blocked: BlockedStacks::default(),
            reads_blocked,
            stack_states: HashMap::new(),
            work: HashMap::new(),
            gc_pauses: VecDeque::new(),
            exceptions: HashMap::new(),
            heap_snapshots: HeapSnapshots::default(),
            survivors: Survivors::default(),
            observer: ObserverStatus::default(),
            dropped: HashMap::new(),
            agent_status: wire::Status::default(),
            counts: HashMap::new(),
            notes,
            failure: None,
            refused: None,
            window: Window::new(start),
            early: VecDeque::new(),
            flushed: None,
            held: false,
            bye: None,
            closed: false,
            timings: Timings { attach_to_initialize, ..Timings::default() },
            applied: None,
            instrumented: HashSet::new(),
            sent_rules: 0,
            rules_ended: false,
        }
    }

    /// Sends the rules, if there are some that were not sent.
    pub fn instrument(&mut self) -> Result<(), RecordError> {
        let Some((number, rules)) = self.sources.rules.newer_than(self.sent_rules) else {
            return Ok(());
        };
        self.sent_rules = number;
        match self.sources.link.send(&Control::Instrument(rules)) {
            Err(FrameError::TooLarge(_)) => Err(RecordError::RulesTooLarge),
            // An agent that is gone shows up as such in the first round.
            _ => Ok(()),
        }
    }

    /// Resumes a launched process: everything is ready to record it.
    pub fn go(&mut self) {
        self.held = true;
        self.begin_window(now());
        // An agent that is gone shows up as such in the first round.
        let _ = self.sources.link.send(&Control::Go);
    }

    /// Does something before the agent is asked to detach from a process that runs.
    pub fn before_detach(&mut self, act: impl FnOnce() + Send + 'static) {
        self.before_detach = Some(Box::new(act));
    }

    /// Records until told to stop, until time is up, or until the target ends; then writes what is
    /// left.
    pub fn run(mut self) -> Result<SessionSummary, RecordError> {
        if !self.held {
            self.open_window();
        }
        let info = SessionRecord::Info(self.sources.info.clone());
        self.write(&info);
        std::mem::take(&mut self.notes).into_iter().for_each(|note| self.note(note));
        self.define_threads();
        self.begin_census();
        // What was lost before is no loss.
        self.drain_cpu(Duration::ZERO);
        self.sources.cpu.watch_switches();
        self.stage("recording");
        let started = Instant::now();
        let mut next_second = started + Duration::from_secs(1);
        let takes_snapshots =
            |id: &str| profilers::by_id(id).is_some_and(profilers::ProfilerSpec::needs_main_slot);
        // The agent gives up a snapshot that is not read for 100 ms, and the runtime drops events of
        // allocations that are not read in time.
        let mut gives_way = self.sources.allocations.is_none()
            && !self.sources.info.profilers.iter().any(|run| takes_snapshots(&run.id));
        while !self.closed && self.bye.is_none() && self.failure.is_none() && self.refused.is_none()
        {
            if self.snapshots_are_over() {
                break;
            }
            // Where methods are instrumented, time counts from when they are.
            let begun = if self.runs("trace") { self.applied } else { Some(started) };
            let is_over = |limit| begun.is_some_and(|begun| begun.elapsed() >= limit);
            if self.sources.stop.is_stopped() || self.sources.duration.is_some_and(is_over) {
                break;
            }
            if self.rules_ended || self.sources.dry && self.applied.is_some() {
                break;
            }
            self.step();
            // The first sample is waited for.
            if gives_way && started.elapsed() >= Duration::from_nanos(FIRST) {
                gives_way = false;
                // Where the kernel refuses, samples are read as before.
                let _ = sampler::give_way();
            }
            if let Err(error) = self.instrument() {
                self.note(error.to_string());
            }
            if Instant::now() >= next_second {
                next_second += Duration::from_secs(1);
                self.rate.read(self.sources.target.pid);
                self.every_second();
                if self.waits_in_vain() {
                    break;
                }
            }
            let mut progress = self.progress();
            progress.elapsed = started.elapsed();
        }
        self.finish()
    }

    /// The recording is of the time from here on.
    fn begin_window(&mut self, start: u64) {
        let ago = Duration::from_nanos(now().saturating_sub(start));
        let unix =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(ago);
        (self.sources.info.start, self.sources.info.start_unix_ms) =
            (start, unix.as_millis() as u64);
        self.window.start = start;
    }

    /// Begins once everything is ready. The ring of samples was opened before the agent was loaded,
    /// and the agent began as soon as it was; where that took long, what they have by now is of
    /// another time than the one that was asked for.
    fn open_window(&mut self) {
        let begun = if self.counts_exactly() { self.flush_early() } else { None };
        self.begin_window(begun.unwrap_or_else(now));
    }

    /// Whether the agent counts by itself from the moment it is attached.
    fn counts_exactly(&self) -> bool {
        self.runs("exceptions")
    }

    /// Has the agent write what it has counted so far; when that was, unless it takes too long.
    fn flush_early(&mut self) -> Option<u64> {
        self.window.wait_for_flush();
        self.sources.link.send(&Control::Flush).ok()?;
        let deadline = Instant::now() + BEGIN_LIMIT;
        while self.early.len() < MAX_EARLY
            && !self.sources.stop.is_stopped()
            && Instant::now() < deadline
        {
            self.sources.link.wait(ROUND);
            let Some(event) = self.sources.link.try_next() else { continue };
            let begun = match &event {
                FromAgent::Frame(records, _) => records.iter().find_map(|record| match record {
                    Record::Flushed { begun, .. } => Some(*begun),
                    _ => None,
                }),
                FromAgent::Closed(_) => Some(now()),
            };
            self.early.push_back(event);
            if begun.is_some() {
                return begun;
            }
        }
        None
    }

    /// Ends the time that the recording is of, when the agent has written all that it counted in
    /// it.
    fn close_window(&mut self) {
        let has_ended = |recorder: &Self| recorder.closed || recorder.bye.is_some();
        if !self.counts_exactly() || has_ended(self) {
            // What comes of a process that has ended was counted before its end.
            return self.window.close(now(), true);
        }
        // On a busy machine, the answer to the question at the beginning may come only now.
        let since = now();
        let flushed = |recorder: &Self| recorder.flushed.filter(|ended| *ended >= since);
        let asked =
            !self.sources.target.is_stopped() && self.sources.link.send(&Control::Flush).is_ok();
        let deadline = Instant::now() + FLUSH_LIMIT;
        while asked && flushed(self).is_none() && !has_ended(self) && Instant::now() < deadline {
            self.sources.link.wait(ROUND);
            self.take_agent();
        }
        if flushed(self).is_none() && !has_ended(self) {
            self.note(SUMS_MISSING.into());
        }
        self.window.close(flushed(self).unwrap_or_else(now), has_ended(self));
    }

    /// One round: take what there is from every source, and write what is due.
    fn step(&mut self) {
        if self.waiting.is_empty() || self.closed {
            // The first sample of a program that is launched is not waited for, and the program
            // needs its processors.
            let first = self.sources.requested.is_some()
                && self.timings.attach_to_first_sample.is_none()
                && now().saturating_sub(self.window.start) < FIRST;
            self.take_cpu(if first { FIRST_ROUND } else { ROUND });
        } else {
            // The agent's answer lets waiting samples continue, and often leads to the next
            // question. It comes in a millisecond.
            self.sources.link.wait(ROUND);
            self.take_cpu(Duration::ZERO);
        }
        self.take_agent();
        self.take_events();
        self.settle_event_samples(false);
        self.retry_waiting(false);
        self.settle_blocked(false);
        self.settle_exceptions(false);
        let long_ago = now().saturating_sub(ENDS_WITH_PROCESS);
        let goes_on = |recorder: &Self| {
            !recorder.closed && recorder.bye.is_none() && recorder.sources.target.is_alive()
        };
        if self.definitions.has_ends(long_ago) && goes_on(self) {
            self.definitions.confirm_ends(long_ago);
        }
        self.emit(now().saturating_sub(HOLD.as_nanos() as u64));
        if self.rows_written.elapsed() >= HOLD {
            self.write_rows();
        }
        if let Err(error) = self.sources.out.idle() {
            self.failure.get_or_insert(error);
        }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.sources.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn stage(&self, stage: &str) {
        self.progress().stage = stage.to_owned();
    }

    /// Whether a profiler was asked for.
    fn runs(&self, profiler: &str) -> bool {
        self.sources.info.profilers.iter().any(|run| run.id == profiler)
    }

    fn count(&mut self, profiler: &'static str, more: u64) {
        *self.counts.entry(profiler).or_default() += more;
    }

    fn drop_sample(&mut self, reason: &'static str, more: u64) {
        if more > 0 {
            *self.dropped.entry(reason).or_default() += more;
        }
    }

    fn note(&mut self, message: String) {
        if !self.notes.contains(&message) {
            self.write(&SessionRecord::Note { time: now(), message: message.clone() });
            self.notes.push(message);
        }
    }

    fn write(&mut self, record: &SessionRecord) {
        if self.failure.is_none()
            && let Err(error) = self.sources.out.record(record)
        {
            self.failure = Some(error);
        }
    }

    fn write_definitions(&mut self) {
        for record in self.definitions.take() {
            self.write(&record);
        }
    }

    /// Writes the rows that have come.
    fn write_rows(&mut self) {
        self.write_definitions();
        for record in self.definitions.take_rows() {
            self.write(&record);
        }
        self.rows_written = Instant::now();
    }

    /// The threads that are there now, with the names the system has for them.
    fn define_threads(&mut self) {
        for (tid, name) in self.sources.target.threads() {
            self.definitions.thread(tid, || name);
        }
    }

    // CPU samples

    fn take_cpu(&mut self, limit: Duration) {
        let lost = self.drain_cpu(limit);
        // The kernel reports what was lost with the next sample, and a ring that was just emptied
        // is not full so soon.
        if now().saturating_sub(self.window.start) > LOST_BEFORE {
            lost.into_iter().for_each(|(reason, count)| self.drop_sample(reason, count));
        }
        self.ask();
    }

    /// Takes what there is, and says what was lost.
    fn drain_cpu(&mut self, limit: Duration) -> Vec<(&'static str, u64)> {
        let mut taken = Vec::new();
        let lost = self.sources.cpu.take(limit, &mut taken);
        let grown = self.sources.cpu.grow(&mut taken);
        for taken in taken {
            self.taken(taken);
        }
        if let Some(bytes) = grown {
            let before = self.notes.iter().position(|note| note.starts_with(DEEP_STACKS));
            before.map(|index| self.notes.remove(index));
            self.note(format!("{DEEP_STACKS}: {} KB are copied now", bytes >> 10));
        }
        lost
    }

    /// Asks the agent for what waiting samples need and nobody asked for yet.
    fn ask(&mut self) {
        let needs =
            || self.waiting.iter().map(|waiting| &waiting.needs).chain(self.blocked.needs());
        let executed = needs().filter_map(|needs| needs.executed);
        // The runtime itself has walked the stacks of events.
        let mut executed: Vec<u64> = executed.chain(self.event_samples.needs().copied()).collect();
        let mut guessed: Vec<u64> = needs().flat_map(|needs| &needs.guessed).copied().collect();
        executed.retain(|address| self.requested.insert(*address));
        guessed.retain(|address| self.requested.insert(*address));
        while !(self.closed || executed.is_empty() && guessed.is_empty()) {
            let part =
                |all: &mut Vec<u64>| all.split_off(all.len().saturating_sub(Control::MAX_RESOLVE));
            let message =
                Control::Resolve { executed: part(&mut executed), guessed: part(&mut guessed) };
            if self.sources.link.send(&message).is_err() {
                break;
            }
        }
    }

    fn taken(&mut self, taken: Taken) {
        match taken {
            Taken::Sample(mut sample) => {
                let Some(weight) = self.window.weight(sample.time, sample.weight) else { return };
                sample.weight = weight;
                if self.sources.cpu.has_inner_tids() {
                    sample.os_tid = self.sources.target.host_tid(sample.os_tid);
                }
                self.rate.sample(self.sources.target.pid, sample.os_tid, sample.time);
                self.sample(sample, true);
            }
            Taken::Named { os_tid, name } => {
                if self.definitions.thread_name(os_tid).is_none() {
                    self.definitions.update_thread(os_tid, |thread| thread.name = Some(name));
                }
            }
            Taken::Ended { os_tid, time } => self.definitions.end_thread(os_tid, time),
            Taken::Mapped(mapping) => self.frames.mapped(mapping),
            Taken::Replaced => self.frames.replaced(),
        }
    }

    fn sample(&mut self, sample: TakenSample, ask: bool) {
        match self.frames.unwind(&mut self.definitions, &sample, ask && !self.closed) {
            Unwound::Needs(needs) => {
                if self.waiting.len() >= MAX_WAITING {
                    self.drop_sample("no room while the agent resolved addresses", 1);
                } else {
                    self.waiting.push_back(Waiting { sample, needs, since: Instant::now() });
                }
            }
            Unwound::Stack { stack, truncated, runtime_leaf } => {
                self.ready_cpu(&sample, stack, truncated, runtime_leaf);
            }
        }
    }

    fn ready_cpu(
        &mut self,
        sample: &TakenSample,
        stack: StackId,
        truncated: bool,
        runtime_leaf: bool,
    ) {
        if truncated {
            self.sources.cpu.was_cut();
        }
        let os_tid = sample.os_tid;
        let target = &self.sources.target;
        let thread = self.definitions.thread(os_tid, || target.thread_name(os_tid));
        // Our own threads are in the costs of the observation, not in the profile.
        if self.definitions.thread_name(os_tid).is_some_and(|name| name.starts_with(OWN_THREADS)) {
            return;
        }
        let state = ThreadState::Running;
        let (time, weight) = (sample.time, sample.weight);
        self.blocked.ran(thread, RunningStack { time, stack, truncated, runtime_leaf });
        // The engine may run for other profilers alone.
        if self.runs("cpu") {
            self.cpu.push(PendingSample {
                time,
                os_tid,
                thread,
                stack,
                weight,
                state,
                truncated,
                runtime_leaf,
                near: 0,
            });
            self.cpu_sample_kept();
        }
    }

    fn cpu_sample_kept(&mut self) {
        self.count("cpu", 1);
        if self.timings.attach_to_first_sample.is_none() {
            let requested = self.sources.requested;
            self.timings.attach_to_first_sample =
                requested.map(|at| Duration::from_nanos(now().saturating_sub(at)));
        }
    }

    /// Tries the waiting samples again whose addresses are all known now, and gives up on those
    /// that waited too long (on all of them when `all` is set): what is unknown then is shown as
    /// such.
    fn retry_waiting(&mut self, all: bool) {
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            let late = all || waiting.since.elapsed() > RESOLVE_LIMIT;
            if late {
                for ip in waiting.needs.all() {
                    self.frames.give_up(ip);
                }
            }
            if late || waiting.needs.all().all(|ip| self.frames.knows(ip)) {
                self.sample(waiting.sample, !late);
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    // The agent

    /// Takes what the agent said, for a moment: where more comes than can be taken, all the rest
    /// has its turn nevertheless.
    fn take_agent(&mut self) {
        let began = Instant::now();
        while let Some(event) = self.early.pop_front().or_else(|| self.sources.link.try_next()) {
            self.take_from_agent(event);
            if self.closed || began.elapsed() > TAKE_LIMIT {
                return;
            }
        }
    }

    fn take_from_agent(&mut self, event: FromAgent) {
        match event {
            FromAgent::Frame(records, descriptors) => {
                let mut descriptors = descriptors.into_iter();
                for record in records {
                    self.record(record, &mut descriptors);
                }
            }
            FromAgent::Closed(error) => {
                // An end between two frames is how an agent leaves. After its goodbye the
                // connection is reset where it has not read all that was asked of it.
                let has_left = matches!(error, FrameError::Closed) || self.bye.is_some();
                if !has_left && self.sources.target.is_alive() {
                    self.note(format!("the connection to the agent broke: {error}"));
                }
                self.closed = true;
            }
        }
    }

    fn record(&mut self, record: Record, descriptors: &mut impl Iterator<Item = OwnedFd>) {
        match record {
            // Comparisons are for checks of ours, and no recording asks for them.
            Record::Hello(_) | Record::Comparison(_) => {}
            Record::Flushed { ended, .. } => {
                self.window.flushed();
                self.flushed = Some(ended);
            }
            Record::Module(module) => self.frames.module(&mut self.definitions, module),
            Record::Class(class) => self.frames.class(class),
            Record::Method(method) => self.frames.method(&mut self.definitions, method),
            Record::Code(code) => self.frames.code(code),
            Record::NotCode(ip) => self.frames.not_code(ip),
            Record::CodeFreed(start) => {
                self.frames.freed(start);
                self.requested.clear();
            }
            Record::ThreadStarted(thread) => self.thread_started(thread),
            Record::ThreadNamed { os_tid, name } => {
                let os_tid = self.sources.target.host_tid(os_tid);
                self.definitions.update_thread(os_tid, |thread| thread.name = Some(name));
            }
            Record::ThreadEnded { os_tid, time } => self.thread_ended(os_tid, time),
            Record::Stack(stack) => self.frames.walked_stack(&mut self.definitions, &stack),
            Record::CpuSample(sample) => self.walked_sample(&sample),
            Record::WallTick(tick) => self.wall_tick(tick),
            Record::BlockedStack(stack) => self.blocked.arrived(stack),
            Record::WalkBlocked { reason } => self.walk_blocked(&reason),
            Record::Exception(exception) => self.exception(exception),
            Record::ExceptionCaught(caught) => self.exception_caught(&caught),
            Record::ExceptionCounts { time, counts } => self.exception_counts(time, counts),
            Record::Calls(calls) => self.calls(&calls),
            Record::Instrumented(method) => self.instrumented(method),
            Record::Rewritten(method) => self.rewritten(method),
            Record::Recompiled { time, method, failed } => self.recompiled(time, method, failed),
            Record::Applied => self.rules_applied(),
            Record::Traced(calls) => self.traced(calls),
            Record::SingleCalls(calls) => self.single_calls(&calls),
            Record::Parameters(method) => self.parameters(method),
            Record::CallsWithArguments(calls) => self.calls_with_arguments(calls),
            Record::RulesEnded => self.rules_ended = true,
            Record::AllocatedObjects(allocated) => self.allocated(allocated),
            Record::RuntimeWork(work) => self.runtime_work(work),
            Record::SampleRing(layout) => self.sample_ring(layout, descriptors.next()),
            Record::EngineFallback { reason } => self.engine_fallback(reason),
            Record::Status(status) => self.agent_says(status),
            Record::Log { level, message } => {
                if level >= LogLevel::Warning {
                    self.note(message);
                }
            }
            Record::Bye(bye) => {
                self.agent_says(bye.status);
                self.bye = Some(bye.reason);
            }
            Record::ThreadSnapshot(snapshot) => self.thread_snapshot(snapshot),
            Record::PoolTick(tick) => self.pool_tick(tick),
            Record::ThreadTick { profiler, tick } => self.thread_tick(&profiler, tick),
            Record::HeapBegin { time, .. } => self.snapshot_begins(time),
            Record::HeapChunk { objects, bytes, .. } => self.heap_chunk(objects, bytes),
            Record::HeapClasses { classes, .. } => self.heap_classes(classes),
            Record::HeapMethods { methods, .. } => self.heap_methods(methods),
            Record::SurvivorsBegin { .. } => self.survivors.begin(),
            Record::SurvivorsEnd(end) => self.survivors_end(end),
            Record::HeapStatics { fields, .. } => self.heap_statics(fields),
            Record::HeapFields { classes, .. } => self.heap_fields(classes),
            Record::AsyncStateMachines { machines, .. } => self.async_machines(machines),
            Record::HeapEnd(end) => self.snapshot_ends(end),
        }
    }

    fn thread_started(&mut self, thread: wire::ThreadStarted) {
        let os_tid = self.sources.target.host_tid(thread.os_tid);
        let target = &self.sources.target;
        if let Some(time) = thread.time {
            self.definitions.thread_begins(os_tid, time);
        }
        self.definitions.thread(os_tid, || target.thread_name(os_tid));
        self.definitions.update_thread(os_tid, |known| {
            known.managed = true;
            known.started = known.started.or(thread.time);
            known.name = thread.name.or(known.name.take());
        });
    }

    fn thread_ended(&mut self, inner: u32, time: u64) {
        let os_tid = self.sources.target.host_tid(inner);
        self.blocked.ended(inner);
        self.definitions.thread_ended(os_tid, time);
        self.pool_threads.remove(&os_tid);
    }

    /// A CPU sample whose stack the runtime has walked.
    fn walked_sample(&mut self, sample: &wire::CpuSample) {
        let Some(weight) = self.window.weight(sample.time, sample.cpu) else { return };
        let os_tid = self.sources.target.host_tid(sample.os_tid);
        let target = &self.sources.target;
        self.rate.sample(target.pid, os_tid, sample.time);
        let thread = self.definitions.thread(os_tid, || target.thread_name(os_tid));
        let (stack, truncated) = self.frames.walked(&mut self.definitions, Some(sample.stack));
        self.cpu.push(PendingSample {
            time: sample.time,
            os_tid,
            thread,
            stack,
            weight,
            state: ThreadState::Running,
            truncated,
            runtime_leaf: false,
            near: 0,
        });
        self.cpu_sample_kept();
    }

    /// The agent has made a ring for samples that it takes inside the process.
    fn sample_ring(&mut self, layout: wire::ring::Layout, descriptor: Option<OwnedFd>) {
        let gave_way = self.sources.cpu.engine == CpuEngine::KernelRing;
        let error = match descriptor {
            Some(descriptor) => self.sources.cpu.share(descriptor, layout).err(),
            None => Some("its descriptor is missing".to_owned()),
        };
        match error {
            Some(error) => self.note(format!("the agent's sample ring cannot be read: {error}")),
            None if gave_way && self.runs("cpu") => self.write_engine(),
            None => {}
        }
    }

    /// The agent cannot take samples as it was asked to.
    fn engine_fallback(&mut self, reason: String) {
        if self.runs("cpu")
            && self.sources.engine == EngineChoice::Signals
            && !self.sources.cpu.is_shared()
        {
            self.refused.get_or_insert(RecordError::Engine { engine: "signals", reason });
            return;
        }
        self.sources.cpu.walk_instead(&reason);
        // The agent says by itself what that means for those that only need the stacks of
        // running threads.
        if self.runs("cpu") {
            self.note(format!("CPU samples are taken by {}", self.sources.cpu.description()));
            self.write_engine();
        }
    }

    /// Writes by what CPU samples are taken from now on.
    fn write_engine(&mut self) {
        let engine = self.sources.cpu.description().to_owned();
        self.write(&SessionRecord::Engine { profiler: "cpu".to_owned(), engine });
    }

    // Looks at collections

    fn survivors_end(&mut self, end: wire::SurvivorsEnd) {
        let telling = end.telling;
        let snapshot = self.survivors.end(&mut self.definitions, end);
        let lost = self.survivors.take_lost();
        self.drop_sample("survivors beyond what one snapshot keeps", lost);
        let Some(snapshot) = snapshot else { return };
        self.observer.target_stopped += telling;
        self.count("survivors", snapshot.counts.iter().map(|count| count.objects).sum());
        self.write_definitions();
        self.write(&SessionRecord::Survivors(snapshot));
    }

    // Heap snapshots

    fn heap_chunk(&mut self, objects: u64, bytes: Vec<u8>) {
        if self.survivors.is_under_way() {
            if !self.survivors.chunk(&bytes) {
                self.drop_sample("damaged parts of snapshots of collections", 1);
            }
            return;
        }
        // The agent is not believed: what does not fit is left out.
        if bytes.len() > session::MAX_HEAP_CHUNK {
            self.drop_sample("parts of a heap snapshot that are too large", 1);
            return;
        }
        self.in_snapshot(|snapshot| SessionRecord::HeapChunk { snapshot, bytes });
        if let Some(seen) = &mut self.heap_snapshots.under_way {
            *seen = objects;
            self.counts.insert("heap", objects);
            self.stage(&format!("taking a heap snapshot: {objects} objects so far"));
        }
    }

    fn heap_classes(&mut self, classes: Vec<(u64, String, String)>) {
        if self.survivors.is_under_way() {
            self.survivors.classes(classes);
        } else {
            self.in_snapshot(|snapshot| SessionRecord::HeapClasses { snapshot, classes });
        }
    }

    fn heap_methods(&mut self, methods: Vec<(u64, String)>) {
        if self.survivors.is_under_way() {
            self.survivors.methods(methods);
        } else {
            self.in_snapshot(|snapshot| SessionRecord::HeapMethods { snapshot, methods });
        }
    }

    fn heap_statics(&mut self, fields: Vec<wire::StaticField>) {
        let fields = fields.into_iter().map(heap_fields::static_field).collect();
        self.in_snapshot(|snapshot| SessionRecord::HeapStatics { snapshot, fields });
    }

    fn heap_fields(&mut self, classes: Vec<wire::ClassFields>) {
        let classes = classes.into_iter().map(heap_fields::class).collect();
        self.in_snapshot(|snapshot| SessionRecord::HeapFields { snapshot, classes });
    }

    fn async_machines(&mut self, machines: Vec<wire::Machine>) {
        let frames = &mut self.frames;
        let machines = machines.into_iter().map(|machine| frames.machine(machine)).collect();
        self.in_snapshot(|snapshot| SessionRecord::AsyncStateMachines { snapshot, machines });
    }

    fn snapshot_begins(&mut self, time: u64) {
        self.close_snapshot("another snapshot began");
        let snapshot = self.heap_snapshots.begun;
        self.heap_snapshots.begun += 1;
        self.heap_snapshots.under_way = Some(0);
        self.stage("taking a heap snapshot");
        self.write(&SessionRecord::HeapBegin { snapshot, time });
    }

    /// Writes a part of the snapshot that is under way.
    fn in_snapshot(&mut self, record: impl FnOnce(u32) -> SessionRecord) {
        if self.heap_snapshots.under_way.is_some() {
            self.write(&record(self.heap_snapshots.begun - 1));
        }
    }

    fn snapshot_ends(&mut self, end: wire::HeapEnd) {
        if self.heap_snapshots.under_way.take().is_none() {
            return;
        }
        let wire::HeapEnd { time, paused, objects, complete, reason, .. } = end;
        if let Some(reason) = &reason {
            let what = if complete {
                "the heap snapshot lacks something"
            } else {
                "the heap snapshot is not complete"
            };
            self.note(format!("{what}: {reason}"));
        }
        self.observer.target_stopped += paused;
        self.counts.insert("heap", objects);
        self.heap_snapshots.ended += 1;
        self.heap_snapshots.incomplete |= !complete;
        self.stage("recording");
        let snapshot = self.heap_snapshots.begun - 1;
        self.write(&SessionRecord::HeapEnd(HeapEnd {
            snapshot,
            time,
            paused,
            objects,
            complete,
            reason,
        }));
    }

    /// Ends a snapshot whose own end does not come.
    fn close_snapshot(&mut self, reason: &str) {
        if let Some(objects) = self.heap_snapshots.under_way {
            let (time, reason) = (now(), Some(reason.to_owned()));
            self.snapshot_ends(wire::HeapEnd {
                snapshot: 0,
                time,
                paused: 0,
                objects,
                complete: false,
                reason,
            });
        }
    }

    /// Whether a snapshot is waited for while the process is stopped, and that for too long.
    fn waits_in_vain(&mut self) -> bool {
        let waits = self.sources.last_snapshot.is_some() || self.heap_snapshots.under_way.is_some();
        if !waits || !self.sources.target.is_stopped() {
            self.heap_snapshots.stopped_since = None;
            return false;
        }
        let since = *self.heap_snapshots.stopped_since.get_or_insert_with(Instant::now);
        let in_vain = since.elapsed() >= STOPPED_LIMIT;
        if in_vain {
            self.note(STAYS_STOPPED.into());
        }
        in_vain
    }

    /// Whether the snapshots that the recording is for have been taken, or cannot be.
    fn snapshots_are_over(&self) -> bool {
        let Some(last) = self.sources.last_snapshot else { return false };
        self.heap_snapshots.ended >= last || self.heap_snapshots.incomplete
    }

    fn calls(&mut self, calls: &Calls) {
        let os_tid = self.sources.target.host_tid(calls.os_tid);
        let target = &self.sources.target;
        let thread = self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid));
        let count = self.call_trees.grown(&self.frames, &mut self.definitions, calls, thread);
        let profiler = match calls.kind {
            // The tree of calls that are counted by themselves.
            CallKind::Methods if self.runs("trace") => None,
            CallKind::Methods => Some("calls"),
            CallKind::Transitions => Some("transitions"),
        };
        if let Some(profiler) = profiler {
            self.count(profiler, count);
        }
    }

    fn instrumented(&mut self, method: wire::Instrumented) {
        let Some(function) = self.frames.function_of(method.method) else { return };
        let state = match method.state {
            wire::InstrumentState::Possible => InstrumentState::Possible,
            wire::InstrumentState::Requested => InstrumentState::Requested,
            wire::InstrumentState::Original => InstrumentState::Original,
            wire::InstrumentState::Refused(reason) => InstrumentState::Refused(reason),
        };
        // Counted as the report counts: methods that cannot be told apart by name are one.
        if state == InstrumentState::Requested {
            self.instrumented.insert(function);
        }
        self.write_definitions();
        let (slot, rule) = (method.slot, method.rule);
        self.write(&SessionRecord::Instrumented(InstrumentedMethod {
            time: now(),
            function,
            rule,
            slot,
            state,
        }));
    }

    fn rewritten(&mut self, method: wire::Rewritten) {
        let Some(function) = self.frames.function_of(method.method) else { return };
        self.write_definitions();
        let il = |il: wire::Il| IlBody { bytes: il.bytes, text: il.text };
        let bodies = method.bodies.map(|(before, after)| (il(before), il(after)));
        let (time, rule, slot) = (method.time, method.rule, method.slot);
        self.write(&SessionRecord::Rewritten(RewrittenMethod {
            time,
            function,
            rule,
            slot,
            bodies,
        }));
    }

    fn recompiled(&mut self, time: u64, method: u32, failed: Option<String>) {
        if let Some(function) = self.frames.function_of(method) {
            self.write_definitions();
            self.write(&SessionRecord::Recompiled(RecompiledMethod { time, function, failed }));
        }
    }

    fn rules_applied(&mut self) {
        self.applied.get_or_insert_with(Instant::now);
        self.progress().rules_applied += 1;
        let methods = std::mem::take(&mut self.instrumented).len();
        self.stage(&format!("tracing {methods} method{}", if methods == 1 { "" } else { "s" }));
    }

    fn traced(&mut self, calls: wire::Traced) {
        self.count("trace", calls.methods.iter().map(|method| method.calls).sum());
        let methods = calls.methods.into_iter();
        let methods = methods.map(|method| TracedMethod {
            slot: method.slot,
            calls: method.calls,
            timed: method.timed,
            failed: method.failed,
            ticks: method.ticks,
            longest: method.longest,
            buckets: method.buckets,
        });
        let (time, ticks_per_second) = (calls.time, calls.ticks_per_second);
        self.write(&SessionRecord::Traced(TracedCalls {
            time,
            ticks_per_second,
            methods: methods.collect(),
        }));
    }

    fn single_calls(&mut self, calls: &[wire::SingleCall]) {
        let calls = calls.iter().map(|call| self.single_call(call)).collect();
        self.write_definitions();
        self.write(&SessionRecord::SingleCalls(calls));
    }

    fn single_call(&mut self, call: &wire::SingleCall) -> SingleCall {
        let target = &self.sources.target;
        let os_tid = target.host_tid(call.os_tid);
        SingleCall {
            slot: call.slot,
            thread: self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid)),
            begun: call.begun,
            taken: call.taken,
            failed: call.failed,
            asynchronous: call.asynchronous,
        }
    }

    fn parameters(&mut self, method: wire::Parameters) {
        let Some(function) = self.frames.function_of(method.method) else { return };
        let parameters = method.parameters.into_iter().map(|parameter| Parameter {
            name: parameter.name,
            type_name: parameter.type_name,
            shown: match parameter.shown {
                wire::ParameterShown::ByValue => ParameterShown::ByValue,
                wire::ParameterShown::Redacted => ParameterShown::Redacted,
                wire::ParameterShown::ByType => ParameterShown::ByType,
            },
        });
        let (parameters, refused) = (parameters.collect(), method.refused);
        self.write_definitions();
        self.write(&SessionRecord::Parameters(MethodParameters { function, parameters, refused }));
    }

    fn calls_with_arguments(&mut self, calls: Vec<wire::CallArguments>) {
        let mut told = Vec::with_capacity(calls.len());
        for wire::CallArguments { call, arguments } in calls {
            let call = self.single_call(&call);
            let (frames, definitions) = (&self.frames, &mut self.definitions);
            let arguments = arguments.into_iter().map(|(index, argument)| {
                let argument = match argument {
                    wire::Argument::Number(number) => Argument::Number(number),
                    wire::Argument::Float(number) => Argument::Float(number),
                    wire::Argument::Text { text, length } => Argument::Text { text, length },
                    wire::Argument::Null => Argument::Null,
                    wire::Argument::Object { class, elements } => {
                        let ty = class.map(|class| definitions.ty(&frames.class_name(class)));
                        Argument::Object { ty, elements }
                    }
                };
                (index, argument)
            });
            told.push(CallArguments { call, arguments: arguments.collect() });
        }
        self.write_definitions();
        self.write(&SessionRecord::CallsWithArguments(told));
    }

    fn allocated(&mut self, allocated: AllocatedObjects) {
        let os_tid = self.sources.target.host_tid(allocated.os_tid);
        let target = &self.sources.target;
        let thread = self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid));
        let time = allocated.time;
        let mut all = 0_u64;
        for (class, objects, bytes) in allocated.counts {
            let ty = self.definitions.ty(&self.frames.class_name(class));
            self.definitions.row(&Allocated { time, thread, ty, objects, bytes });
            all = all.saturating_add(objects);
        }
        self.count("exact-allocations", all);
    }

    fn runtime_work(&mut self, work: RuntimeWork) {
        let os_tid = self.sources.target.host_tid(work.os_tid);
        if work.kind == RuntimeWorkKind::Gc {
            if self.heap_snapshots.begun > 0 {
                self.write(&SessionRecord::Collection { start: work.start, end: work.end });
            }
            self.gc_pauses.push_back((work.start, work.end));
            if self.gc_pauses.len() > MAX_WORK {
                self.gc_pauses.pop_front();
            }
        }
        if work.kind != RuntimeWorkKind::Suspended {
            let of_thread = self.work.entry(os_tid).or_default();
            of_thread.push_back(RuntimeWork { os_tid, ..work });
            if of_thread.len() > MAX_WORK {
                of_thread.pop_front();
            }
        }
    }

    /// The agent walks all threads, and says why.
    fn walk_blocked(&mut self, reason: &str) {
        let shown = profilers::PROFILERS.iter().filter(|spec| spec.shows_running);
        let concerned: Vec<&str> =
            shown.map(|spec| spec.id).filter(|profiler| self.runs(profiler)).collect();
        if concerned.is_empty() {
            return;
        }
        let engine = format!("{BY_WALKING}, because {reason}");
        if std::mem::take(&mut self.reads_blocked) {
            self.note(format!("stacks of threads are taken by {engine}"));
        }
        for profiler in concerned {
            let (profiler, engine) = (profiler.to_owned(), engine.clone());
            self.write(&SessionRecord::Engine { profiler, engine });
        }
    }

    fn wall_tick(&mut self, tick: WallTick) {
        let previous = self.last_wall.replace(tick.time.max(self.window.start));
        let mut sharing = std::mem::take(&mut self.wall_sharing);
        self.tick_arrived(Purpose::Wall, tick, previous, &mut sharing);
        self.wall_sharing = sharing;
    }

    fn pool_tick(&mut self, tick: WallTick) {
        let previous = self.last_pool.replace(tick.time.max(self.window.start));
        let mut sharing = std::mem::take(&mut self.pool_sharing);
        self.tick_arrived(Purpose::Pool, tick, previous, &mut sharing);
        self.pool_sharing = sharing;
    }

    /// A tick of a profiler that the recorder knows by its source alone.
    fn thread_tick(&mut self, profiler: &str, tick: WallTick) {
        // The agent is not believed: a profiler that does not run has no ticks.
        let Some(source) = sources::of_ticks(profiler).filter(|_| self.runs(profiler)) else {
            return;
        };
        let time = tick.time.max(self.window.start);
        let previous = self.last_ticks.insert(source.profiler(), time);
        let (purpose, splits) = (Purpose::Source(source), HashMap::new());
        self.blocked.tick(PendingTick { purpose, tick, previous, splits });
        self.settle_blocked(false);
    }

    /// What the kernel says at the time of a tick is read at once; the rest waits for the stacks
    /// that the tick names.
    fn tick_arrived(
        &mut self,
        purpose: Purpose,
        tick: WallTick,
        previous: Option<u64>,
        sharing: &mut Sharing,
    ) {
        let target = &self.sources.target;
        let ticked: Vec<Ticked> = tick
            .threads
            .iter()
            .map(|sample| Ticked {
                os_tid: target.host_tid(sample.os_tid),
                cpu: sample.cpu,
                ready: sample.state == b'R',
            })
            .collect();
        sharing.tick(target, tick.time.saturating_sub(previous.unwrap_or(tick.time)), &ticked);
        let mut splits = HashMap::new();
        if let Some(previous) = previous.filter(|_| self.window.holds(tick.time)) {
            let time = tick.time.saturating_sub(previous) - self.in_gc(previous, tick.time);
            let ready = ticked.iter().filter(|thread| thread.ready);
            splits.extend(ready.map(|thread| (thread.os_tid, sharing.split(thread.os_tid, time))));
        }
        self.blocked.tick(PendingTick { purpose, tick, previous, splits });
        self.settle_blocked(false);
    }

    /// How much of a time was spent in collections that have been reported.
    fn in_gc(&self, from: u64, to: u64) -> u64 {
        let parts = self
            .gc_pauses
            .iter()
            .map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from)));
        parts.sum::<u64>().min(to.saturating_sub(from))
    }

    /// Unwinds the stacks of blocked threads of which all is known, or all of them if `all` is set,
    /// and processes the ticks that have waited for them.
    fn settle_blocked(&mut self, all: bool) {
        if !self.blocked.is_settled() {
            let (frames, now) = (&self.frames, all || self.closed || self.blocked.is_crowded());
            let is_late = |since: Instant| now || since.elapsed() > BLOCKED_LIMIT;
            let ready = self.blocked.take_ready(|waiting| {
                is_late(waiting.since) || waiting.needs.all().all(|address| frames.knows(address))
            });
            for mut waiting in ready {
                let late = is_late(waiting.since);
                if late {
                    waiting.needs.all().for_each(|address| self.frames.give_up(address));
                }
                match self.frames.blocked_stack(&mut self.definitions, &waiting.stack, !late) {
                    Err(needs) => {
                        // Another question: the agent has answered the one before.
                        waiting.since = Instant::now();
                        waiting.needs = needs;
                        self.blocked.wait(waiting);
                    }
                    Ok(truncated) => {
                        if let Some(bytes) = self.blocked.unwound(truncated && waiting.stack.cut) {
                            // An agent that is gone shows up as such elsewhere.
                            let _ = self.sources.link.send(&Control::CopyMore(bytes));
                        }
                    }
                }
            }
            self.ask();
            let unread = self.frames.take_unread();
            self.drop_sample("stacks of blocked threads that could not be read", unread);
            while let Some(pending) = self.blocked.next_tick() {
                self.process_tick(pending);
            }
        }
        for id in self.blocked.take_old() {
            self.frames.forget_blocked(id);
        }
    }

    fn process_tick(&mut self, pending: PendingTick) {
        let PendingTick { purpose, tick, previous, splits } = pending;
        match purpose {
            Purpose::Wall => {
                let samples = self.tick_samples(&tick, previous, &splits, |_, _, _| true);
                self.count("wall", samples.len() as u64);
                self.wall.extend(samples);
            }
            Purpose::Pool => {
                let samples = self.tick_samples(&tick, previous, &splits, Self::is_pool_thread);
                self.count("threadpool", samples.len() as u64);
                self.pool.extend(samples);
            }
            Purpose::Snapshot(all) => self.thread_look_settled(&tick, all),
            Purpose::Source(source) => self.source_tick(source, &tick, previous),
        }
    }

    /// Hands the threads of a tick that are of interest to the source of a profiler. The first tick
    /// stands for no time yet.
    fn source_tick(&mut self, source: &Source, tick: &WallTick, previous: Option<u64>) {
        let Some(previous) = previous.filter(|_| self.window.holds(tick.time)) else { return };
        let elapsed = tick.time.saturating_sub(previous);
        let mut threads = Vec::new();
        for sample in &tick.threads {
            let os_tid = self.sources.target.host_tid(sample.os_tid);
            let target = &self.sources.target;
            let thread =
                self.definitions.thread_at(os_tid, tick.time, || target.thread_name(os_tid));
            let (mut stack, _) = self.frames.walked(&mut self.definitions, sample.stack);
            if self.reads_blocked
                && sample.state == b'R'
                && let Some(running) =
                    self.blocked.running_at(thread, tick.time, near(elapsed, HOLD))
            {
                stack = running.stack;
            }
            if source.is_of_interest(&mut self.source_context(), os_tid, stack) {
                let state = self.state_of(os_tid, sample, stack);
                threads.push(TickedThread { thread, stack, state });
            }
        }
        self.count(source.profiler(), threads.len() as u64);
        source.write_tick(&mut self.source_context(), &Tick { time: tick.time, elapsed, threads });
    }

    /// What sources need to write rows.
    fn source_context(&mut self) -> Context<'_> {
        let (frames, definitions) = (&mut self.frames, &mut self.definitions);
        self.event_samples.context(frames, definitions, &self.sources.target)
    }

    /// Whether a thread is a worker of the thread pool: by its name, or by what it was ever seen to
    /// do.
    fn is_pool_thread(&mut self, os_tid: u32, stack: StackId) -> bool {
        if self.pool_threads.contains(&os_tid) {
            return true;
        }
        let name = self.definitions.thread_name(os_tid).unwrap_or_default();
        let is_it = POOL_THREADS.iter().any(|known| name.starts_with(known))
            || self
                .frames
                .leaf_names(&self.definitions, stack)
                .any(|(ty, _)| waits::is_of_pool(ty));
        if is_it {
            self.pool_threads.insert(os_tid);
        }
        is_it
    }

    /// Samples of the threads of a tick that are wanted. The first tick says only who is there: it
    /// stands for no time yet.
    fn tick_samples(
        &mut self,
        tick: &WallTick,
        previous: Option<u64>,
        splits: &HashMap<u32, Split>,
        wanted: impl Fn(&mut Self, u32, StackId) -> bool,
    ) -> Vec<PendingSample> {
        let mut samples = Vec::new();
        let Some(previous) = previous.filter(|_| self.window.holds(tick.time)) else {
            return samples;
        };
        let elapsed = tick.time.saturating_sub(previous);
        let in_gc = self.in_gc(previous, tick.time);
        for sample in &tick.threads {
            let os_tid = self.sources.target.host_tid(sample.os_tid);
            let target = &self.sources.target;
            let thread =
                self.definitions.thread_at(os_tid, tick.time, || target.thread_name(os_tid));
            let (stack, truncated) = self.frames.walked(&mut self.definitions, sample.stack);
            if !wanted(self, os_tid, stack) {
                continue;
            }
            let state = self.state_of(os_tid, sample, stack);
            let base = PendingSample {
                time: tick.time,
                os_tid,
                thread,
                stack,
                weight: elapsed - in_gc,
                state,
                truncated,
                runtime_leaf: false,
                near: if self.reads_blocked && sample.state == b'R' {
                    near(elapsed, HOLD)
                } else {
                    0
                },
            };
            if in_gc > 0 {
                samples.push(PendingSample { weight: in_gc, state: ThreadState::Gc, ..base });
            }
            if state == ThreadState::Running {
                let split = splits
                    .get(&os_tid)
                    .map_or_else(|| Split::all_running(base.weight), |split| split.of(base.weight));
                let parts = [
                    (split.running, ThreadState::Running),
                    (split.no_processor, ThreadState::NoProcessor),
                    (split.throttled, ThreadState::Throttled),
                ];
                let parts = parts.into_iter().filter(|(weight, _)| *weight > 0);
                samples.extend(parts.map(|(weight, state)| PendingSample {
                    weight,
                    state,
                    ..base
                }));
            } else if base.weight > 0 {
                samples.push(base);
            }
        }
        samples
    }

    /// What a managed thread does or waits for.
    fn state_of(&mut self, os_tid: u32, sample: &WallSample, stack: StackId) -> ThreadState {
        if sample.state == b'R' {
            return ThreadState::Running;
        }
        let (frames, definitions) = (&self.frames, &self.definitions);
        if frames.is_unread(definitions, stack) {
            return ThreadState::Other;
        }
        let by_names = self
            .stack_states
            .entry(stack.0)
            .or_insert_with(|| waits::classify(frames.leaf_names(definitions, stack)));
        match *by_names {
            // It depends on the thread alone, each time.
            ThreadState::Other => {
                let calls = self.frames.leaf_waits(sample.stack);
                // What the agent has read of a blocked thread is of the time of its stack.
                let activity = self.blocked.activity(sample.stack);
                waits::classify_leaf(
                    activity.unwrap_or_else(|| self.sources.target.activity(os_tid)),
                    calls,
                )
            }
            known => known,
        }
    }

    /// Puts the agent's snapshot of managed threads and the kernel's figures of all threads
    /// together.
    fn thread_snapshot(&mut self, snapshot: WallTick) {
        // One from before the start says what the first threads had used up by then.
        if self.window.is_over(snapshot.time) {
            return;
        }
        let (all, gone) = self.snapshots.snapshot(&self.sources.target);
        for os_tid in gone {
            // Of managed threads the agent tells, exactly.
            let (managed, _) = self.definitions.thread_facts(os_tid);
            if !managed {
                self.definitions.end_thread(os_tid, snapshot.time);
            }
        }
        let (purpose, previous, splits) = (Purpose::Snapshot(all), None, HashMap::new());
        self.blocked.tick(PendingTick { purpose, tick: snapshot, previous, splits });
        self.settle_blocked(false);
    }

    fn thread_look_settled(&mut self, snapshot: &WallTick, all: Vec<OsThread>) {
        let target = &self.sources.target;
        let walked: HashMap<u32, &WallSample> = snapshot
            .threads
            .iter()
            .map(|sample| (target.host_tid(sample.os_tid), sample))
            .collect();
        let mut threads = Vec::with_capacity(all.len());
        for seen in all {
            // One that has ended since, as the kernel says, while the stacks of the others were
            // asked about.
            if self.definitions.has_gone(seen.tid, snapshot.time) {
                continue;
            }
            let target = &self.sources.target;
            if let Ok(born) = u64::try_from(seen.born) {
                self.definitions.thread_begins(seen.tid, born);
            }
            let thread = self.definitions.thread(seen.tid, || target.thread_name(seen.tid));
            let name = self.definitions.thread_name(seen.tid);
            let (_, ended) = self.definitions.thread_facts(seen.tid);
            // A managed thread may have ended while the kernel's is on its way out.
            if ended || name.is_some_and(|name| name.starts_with(OWN_THREADS)) {
                continue;
            }
            if let Some(born) =
                u64::try_from(seen.born).ok().filter(|born| *born >= self.window.start)
            {
                self.definitions.update_thread(seen.tid, |thread| {
                    thread.started = thread.started.or(Some(born))
                });
            }
            let sample = walked.get(&seen.tid).copied();
            let (mut stack, _) =
                self.frames.walked(&mut self.definitions, sample.and_then(|sample| sample.stack));
            if self.reads_blocked
                && sample.is_some_and(|sample| sample.state == b'R')
                && let Some(running) =
                    self.blocked.running_at(thread, snapshot.time, near(u64::MAX, HOLD))
            {
                stack = running.stack;
            }
            let state = match sample {
                Some(sample) => self.state_of(seen.tid, sample, stack),
                None if seen.state == b'R' => ThreadState::Running,
                None => waits::classify_unmanaged(seen.call),
            };
            let (cpu, os_state) =
                sample.map_or((seen.run, seen.state), |sample| (sample.cpu, sample.state));
            let (born, call, limited) = (seen.born, seen.call, seen.limited);
            threads.push(ThreadSeen { thread, stack, state, os_state, cpu, born, call, limited });
        }
        self.count("threads", threads.len() as u64);
        self.write_definitions();
        self.write(&SessionRecord::ThreadSnapshot(ThreadSnapshot { time: snapshot.time, threads }));
    }

    fn exception(&mut self, exception: Exception) {
        let counted = self.window.exception(exception.class, exception.time, exception.weight);
        let Some(weight) = counted else { return };
        let os_tid = self.sources.target.host_tid(exception.os_tid);
        let target = &self.sources.target;
        let thread = self.definitions.thread(os_tid, || target.thread_name(os_tid));
        let (stack, _) = self.frames.walked(&mut self.definitions, Some(exception.stack));
        let sample = ExceptionSample {
            time: exception.time,
            thread,
            ty: self.definitions.ty(&self.frames.class_name(exception.class)),
            message: exception.message,
            stack,
            weight,
            caught_by: None,
            time_to_catch: None,
        };
        self.exceptions.insert(exception.sequence, (sample, Instant::now()));
    }

    fn exception_caught(&mut self, caught: &wire::ExceptionCaught) {
        let method = caught.method.and_then(|method| self.frames.function_of(method));
        if let Some((sample, _)) = self.exceptions.get_mut(&caught.sequence) {
            sample.caught_by = method;
            sample.time_to_catch = Some(caught.time.saturating_sub(sample.time));
            self.write_exception(caught.sequence);
        }
    }

    fn exception_counts(&mut self, time: u64, counts: Vec<(u32, u64)>) {
        if !self.window.exceptions(&counts) {
            return;
        }
        let total = counts.iter().map(|(_, count)| count).sum();
        for (class, count) in counts {
            let ty = self.definitions.ty(&self.frames.class_name(class));
            self.definitions.row(&ExceptionCount { time, ty, count });
        }
        self.count("exceptions", total);
    }

    fn write_exception(&mut self, sequence: u64) {
        if let Some((sample, _)) = self.exceptions.remove(&sequence) {
            self.definitions.row(&sample);
        }
    }

    fn settle_exceptions(&mut self, all: bool) {
        let mut due: Vec<u64> = self
            .exceptions
            .iter()
            .filter(|(_, (_, since))| all || since.elapsed() > CATCH_LIMIT)
            .map(|(sequence, _)| *sequence)
            .collect();
        due.sort_unstable();
        for sequence in due {
            self.write_exception(sequence);
        }
    }

    // EventPipe

    fn take_events(&mut self) {
        let events = self.sources.events.iter().map(|events| &events.incoming);
        let allocations = self.sources.allocations.iter().map(|events| &events.incoming);
        let taken: Vec<_> = events.chain(allocations).flat_map(Receiver::try_iter).collect();
        for event in taken {
            self.event(event);
        }
    }

    fn event(&mut self, event: FromEvents) {
        match event {
            FromEvents::Sample(profiler, sample) => self.event_sample(profiler, sample),
            FromEvents::Allocation(allocation) => {
                self.event_sample("allocations", Box::new(allocation));
            }
            FromEvents::AllocationWindow(window) => self.definitions.row(&window),
            // What lies outside counts nowhere.
            FromEvents::Counted(time, _) if !self.window.holds(time) => {}
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

    /// Values of counters.
    fn counted(&mut self, time: u64, mut counted: Vec<Counted>) {
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

    /// Takes and counts what of a sample is of the time that the recording is of.
    fn event_sample(&mut self, profiler: &'static str, mut sample: Box<dyn EventSample>) {
        if !sample.clip(&self.window) {
            return;
        }
        match sample.count() {
            0 => {}
            count => self.count(profiler, count),
        }
        if !self.event_samples.push(sample, &self.frames) {
            self.drop_sample("no room while the agent resolved addresses", 1);
        }
    }

    /// Writes what events told, as far as it is known what stands at the addresses of their stacks;
    /// all of it when `all` is set.
    fn settle_event_samples(&mut self, all: bool) {
        self.ask();
        let all = all || self.closed;
        self.event_samples.settle(
            &mut self.frames,
            &mut self.definitions,
            &self.sources.target,
            RESOLVE_LIMIT,
            all,
        );
        self.write_definitions();
    }

    // Writing

    /// Writes the samples up to a time, in order.
    fn emit(&mut self, until: u64) {
        // Samples that wait for the agent hold back those after them, so that all come in order.
        let until = self
            .waiting
            .iter()
            .map(|waiting| waiting.sample.time)
            .min()
            .map_or(until, |time| time.min(until));
        let until = self.blocked.first_tick().map_or(until, |time| time.min(until));
        let cpu = self.batch(until, |recorder| &mut recorder.cpu);
        let wall = self.batch(until, |recorder| &mut recorder.wall);
        let pool = self.batch(until, |recorder| &mut recorder.pool);
        self.blocked.forget_running(until);
        self.write_definitions();
        if let Some(batch) = cpu {
            self.write(&SessionRecord::CpuSamples(batch));
        }
        if let Some(batch) = wall {
            self.write(&SessionRecord::WallSamples(batch));
        }
        if let Some(batch) = pool {
            self.write(&SessionRecord::PoolSamples(batch));
        }
    }

    fn batch(
        &mut self,
        until: u64,
        which: impl Fn(&mut Self) -> &mut Vec<PendingSample>,
    ) -> Option<SampleBatch> {
        let samples = which(self);
        samples.sort_by_key(|sample| sample.time);
        let due = samples.partition_point(|sample| sample.time < until);
        let due: Vec<PendingSample> = samples.drain(..due).collect();
        let start = due.first()?.time;
        let mut batch = SampleBatch { start, ..SampleBatch::default() };
        let mut last = start;
        for mut sample in due {
            // By now all CPU samples of the time around a tick have come.
            if sample.near > 0
                && let Some(running) =
                    self.blocked.running_at(sample.thread, sample.time, sample.near)
            {
                let RunningStack { stack, truncated, runtime_leaf, .. } = running;
                sample = PendingSample { stack, truncated, runtime_leaf, ..sample };
            }
            let work =
                sample.runtime_leaf.then(|| self.work_at(sample.os_tid, sample.time)).flatten();
            let stack = match work {
                Some(kind) => {
                    self.frames.name_runtime_work(&mut self.definitions, sample.stack, kind)
                }
                None => sample.stack,
            };
            batch.time_delta.push(sample.time - last);
            last = sample.time;
            batch.thread.push(sample.thread);
            batch.stack.push(stack);
            batch.weight.push(sample.weight);
            batch.state.push(sample.state);
            batch.truncated.push(sample.truncated);
        }
        Some(batch)
    }

    /// What a thread did for the runtime at a time. A compilation inside a collection cannot be;
    /// the most recent interval that holds the time wins.
    fn work_at(&self, os_tid: u32, time: u64) -> Option<RuntimeWorkKind> {
        let of_thread = self.work.get(&os_tid)?;
        let found = of_thread.iter().rev().find(|work| (work.start..=work.end).contains(&time))?;
        Some(found.kind)
    }

    fn every_second(&mut self) {
        self.update_observer();
        let observer = self.observer.clone();
        self.write(&SessionRecord::Observer(observer));
        if let Some(why) = self.sources.cpu.costs_too_much() {
            self.sources.cpu.give_up(&why);
            self.note(format!("{why}: samples are taken from inside the process from now on"));
            // A recording whose connection is gone ends soon.
            let _ = self.sources.link.send(&Control::SampleInside);
        }
        let pid = self.sources.target.pid;
        let lacks = || room::lacks_memory(pid).or_else(|| self.threads.lacks(pid));
        if let Some(why) = (!self.sources.stop.is_stopped()).then(lacks).flatten() {
            self.note(why);
            self.sources.stop.stop();
        }
        let resources = self.resources();
        if !resources.is_empty() {
            self.write(&SessionRecord::Resources(resources));
        }
        self.count_processors();
        if let Some(rate) = self.sampling_rate() {
            self.write(&SessionRecord::SamplingRate(rate));
        }
        let profilers = &self.sources.info.profilers;
        let (frames, definitions) = (&mut self.frames, &mut self.definitions);
        let mut context = self.event_samples.context(frames, definitions, &self.sources.target);
        let runs = |id: &str| profilers.iter().any(|run| run.id == id);
        sources::every_second(runs, &mut context, now());
        let mut samples: Vec<(&'static str, u64)> =
            self.counts.iter().map(|(id, count)| (*id, *count)).collect();
        samples.sort_unstable();
        let dropped = self.observer.dropped.iter().map(|(_, count)| count).sum();
        let bytes = self.sources.out.0.as_ref().map_or(0, SessionWriter::bytes_written);
        let mut progress = self.progress();
        progress.samples = samples;
        progress.dropped = dropped;
        progress.bytes = bytes;
    }

    /// How often threads have been sampled so far; `None` where none of them is.
    fn sampling_rate(&self) -> Option<SamplingRate> {
        let cpu = &self.sources.cpu;
        self.runs("cpu")
            .then(|| rate::sampling_rate(&self.rate, cpu.rate_hz(), cpu.limits(&self.agent_status)))
    }

    /// Begins to count how the process gets on with its processors, where something is recorded
    /// that shows it.
    fn begin_census(&mut self) {
        if !self.runs("wall") && !self.runs("threadpool") {
            return;
        }
        let pid = self.sources.target.pid;
        if !processors::is_reported(pid) {
            self.note(processors::NOT_REPORTED.into());
        }
        (self.wall_sharing, self.pool_sharing) = (Sharing::new(pid), Sharing::new(pid));
        self.census = Census::begin(&self.sources.target, now());
    }

    fn count_processors(&mut self) {
        // Nothing can be read of a process that has ended.
        if let Some(census) = self.census.as_mut().filter(|_| self.sources.target.is_alive()) {
            let used = census.advance(&self.sources.target, now());
            self.write(&SessionRecord::Processors(used));
        }
    }

    fn agent_says(&mut self, status: wire::Status) {
        self.observer.target_stopped += status.stopped.saturating_sub(self.agent_status.stopped);
        self.agent_status = status;
    }

    fn update_observer(&mut self) {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        self.observer.time = now();
        self.observer.own_cpu = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        self.observer.target_memory = self.agent_status.memory;
        let samples = self.sources.cpu.cost(&self.agent_status.counters);
        self.observer.target_cpu = self
            .agent_status
            .cpu
            .saturating_add(u64::try_from(samples.as_nanos()).unwrap_or(u64::MAX));
        let mut dropped: Vec<(String, u64)> =
            self.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        dropped.extend(self.agent_status.dropped.iter().filter(|(_, count)| *count > 0).cloned());
        dropped.sort();
        self.observer.dropped = dropped;
        let mut counters = self.agent_status.counters.clone();
        counters.extend(self.frames.counters());
        self.observer.counters = counters;
    }

    /// What the agent holds, and after its last record what it has left behind.
    fn resources(&self) -> Vec<ResourceUse> {
        let uses = self.agent_status.resources.iter().map(|used| ResourceUse {
            name: used.resource.name().to_owned(),
            unit: used.resource.unit().to_owned(),
            highest: used.highest,
            budget: used.resource.budget(),
            refused: used.refused,
            left: if self.bye.is_some() { used.left() } else { None },
        });
        uses.collect()
    }

    // The end

    /// The exit code of a launched command that has ended. The thread that waits for the command
    /// sets it.
    fn exit_code(&self, reason: EndReason) -> Option<i32> {
        let told =
            self.sources.exit_code.as_ref().filter(|_| reason == EndReason::ProcessExited)?;
        let deadline = Instant::now() + EXIT_LIMIT;
        while told.get().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        told.get().copied()
    }

    fn finish(mut self) -> Result<SessionSummary, RecordError> {
        self.stage("finishing");
        self.rate.read(self.sources.target.pid);
        self.close_window();
        self.take_last_samples();
        self.take_last_events();
        if !self.closed {
            self.detach();
        }
        let reason = self.end_reason();
        self.settle_all(reason);
        self.every_second();
        let rate = self.sampling_rate();
        let exit_code = self.exit_code(reason);
        let end = SessionEnd { time: self.window.end(), reason, exit_code };
        self.write_rows();
        self.write(&SessionRecord::End(end));
        self.close_file()?;
        self.stage("done");
        Ok(self.summary(reason, rate))
    }

    /// Stops the CPU engine. What was sampled deserves its names: a last chance for the agent to
    /// resolve them.
    fn take_last_samples(&mut self) {
        self.take_cpu(Duration::ZERO);
        self.sources.cpu.stop();
        let deadline = Instant::now() + RESOLVE_LIMIT;
        let waits =
            |recorder: &Self| !recorder.waiting.is_empty() || !recorder.blocked.is_settled();
        while waits(self) && !self.closed && self.bye.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            self.take_agent();
            self.retry_waiting(false);
            self.settle_blocked(false);
            self.ask();
        }
    }

    /// Ends the EventPipe sessions, and resolves what came last.
    fn take_last_events(&mut self) {
        let mut rest = Vec::new();
        for events in &mut self.sources.events {
            events.finish(&mut rest);
        }
        if let Some(allocations) = &mut self.sources.allocations {
            allocations.finish(&mut rest);
        }
        for event in rest {
            self.event(event);
        }
        let deadline = Instant::now() + RESOLVE_LIMIT;
        self.settle_event_samples(false);
        while !self.event_samples.is_empty()
            && !self.closed
            && self.bye.is_none()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(2));
            self.take_agent();
            self.settle_event_samples(false);
        }
    }

    /// Asks the agent to detach, and waits until it is unloaded. It says goodbye, closes, and asks
    /// the runtime to detach it.
    fn detach(&mut self) {
        let runs = self.bye.is_none()
            && self.sources.target.is_alive()
            && !self.sources.target.is_stopped();
        self.before_detach.take().filter(|_| runs).into_iter().for_each(|act| act());
        let asked = self.bye.is_none().then(Instant::now);
        if asked.is_some() {
            let _ = self.sources.link.send(&Control::Stop);
        }
        let begun = Instant::now();
        let goes_on = |recorder: &Self| match begun.elapsed() {
            waited if waited < BYE_LIMIT => true,
            waited => {
                waited < PUT_BACK_LIMIT
                    && recorder.runs("trace")
                    && !recorder.sources.target.is_stopped()
            }
        };
        while !self.closed && goes_on(self) {
            self.take_agent();
            std::thread::sleep(Duration::from_millis(2));
        }
        if !self.closed {
            self.note(
                "the agent did not confirm that it has detached; it detaches when clrscope ends"
                    .into(),
            );
        } else if let (Some(asked), Some(ByeReason::Stopped)) = (asked, self.bye) {
            // The runtime checks only now and then whether the profiler can detach.
            let limit =
                if self.sources.stop.is_stopped() { INTERRUPTED_LIMIT } else { UNLOAD_LIMIT };
            let left = self.sources.target.wait_unloaded(&self.sources.library, limit);
            self.timings.detach = left.map(|()| asked.elapsed());
            if left.is_none() {
                self.note(UNLOADS.into());
            } else if !self.sources.target.is_alive() {
                self.note("the process ended while the agent was about to detach".into());
            }
        }
    }

    /// Why the recording ended, by the agent's goodbye. Notes why the agent stays, if it does.
    fn end_reason(&mut self) -> EndReason {
        match self.bye {
            Some(ByeReason::Shutdown) => return EndReason::ProcessExited,
            // The agent itself has reported why it stays.
            Some(ByeReason::Stopped | ByeReason::Handler) => {}
            Some(ByeReason::Stays) => self.note(STAYS.into()),
            // This was reported before where methods are traced, and where the agent was resident
            // already.
            Some(ByeReason::Hooked) if self.runs("trace") || self.sources.stays => {}
            Some(ByeReason::Hooked) => self.note(HOOKED.into()),
            Some(ByeReason::Resident) => self.note(RESIDENT.into()),
            Some(ByeReason::Failed | ByeReason::Skipped | ByeReason::Refused) => {
                return EndReason::AgentLost;
            }
            None => {
                self.sources.target.wait_exit(Duration::from_millis(300));
                return match (self.sources.target.is_alive(), self.closed) {
                    (false, _) => EndReason::ProcessExited,
                    (true, true) => EndReason::AgentLost,
                    (true, false) => EndReason::Stopped,
                };
            }
        }
        EndReason::Stopped
    }

    /// Writes everything that has waited for something: nothing more comes.
    fn settle_all(&mut self, reason: EndReason) {
        self.close_snapshot(match reason {
            EndReason::ProcessExited => "the process ended",
            _ if self.notes.iter().any(|note| note == STAYS_STOPPED) => STAYS_STOPPED,
            _ if self.closed => "the connection to the agent ended",
            _ => "the recording was stopped",
        });
        self.retry_waiting(true);
        self.settle_blocked(true);
        self.settle_event_samples(true);
        self.settle_exceptions(true);
        if reason != EndReason::ProcessExited {
            self.definitions.confirm_ends(u64::MAX);
        }
        self.emit(u64::MAX);
        if let Err(why) = self.sources.cpu.wait_for_costs() {
            self.note(why.to_owned());
        }
    }

    /// Closes the session file; removes it where there was nothing to record.
    fn close_file(&mut self) -> Result<(), RecordError> {
        let path = self.sources.path.clone().unwrap_or_default();
        let closed = match (self.failure.take(), self.sources.out.0.take()) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(()),
            (None, Some(writer)) => writer.finish().and_then(|mut file| Ok(file.flush()?)),
        };
        closed.map_err(|source| RecordError::Output { path: path.clone(), source })?;
        if let Some(refused) = self.refused.take() {
            let _ = std::fs::remove_file(path);
            return Err(refused);
        }
        Ok(())
    }

    fn summary(self, reason: EndReason, rate: Option<SamplingRate>) -> SessionSummary {
        let mut samples: Vec<(&'static str, u64)> =
            self.counts.iter().map(|(id, count)| (*id, *count)).collect();
        samples.sort_unstable();
        SessionSummary {
            pid: self.sources.info.pid,
            process_name: self.sources.info.process_name.clone(),
            command_line: self.sources.info.command_line.clone(),
            path: self.sources.path.clone(),
            duration: Duration::from_nanos(self.window.end() - self.window.start),
            engine: if self.runs("cpu") {
                self.sources.cpu.description().to_owned()
            } else {
                String::new()
            },
            rate,
            samples,
            resources: self.resources(),
            observer: self.observer,
            notes: self.notes,
            end: reason,
            timings: self.timings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, os::unix::net::UnixStream};
    use wire::{Hello, frame};

    /// An agent that sends new records all the time, for at most `limit`. They take longer to read
    /// than to send.
    fn talkative(mut stream: UnixStream, limit: Duration) {
        let hello = Hello {
            protocol: wire::PROTOCOL_VERSION,
            token: [0; 16],
            pid: std::process::id(),
            runtime: [9, 0, 0, 5],
            info_version: 15,
            notify_only: true,
            event_mask: (0, 0),
            entered: 0,
            command_line: Vec::new(),
        };
        frame::write(&mut stream, &Record::Hello(hello)).unwrap();
        // Whatever is sent to it ends it.
        let mut told = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let _ = told.read(&mut [0]);
            let _ = told.shutdown(std::net::Shutdown::Both);
        });
        let until = Instant::now() + limit;
        let mut number = 0u64;
        while Instant::now() < until {
            let mut bytes = Vec::new();
            for _ in 0..100 {
                let message = format!("{number:0200}");
                frame::write(&mut bytes, &Record::Log { level: LogLevel::Warning, message })
                    .unwrap();
                number += 1;
            }
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }

    #[test]
    fn a_recording_ends_in_time_though_more_is_said_than_can_be_taken() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let agent = std::thread::spawn(move || talkative(theirs, Duration::from_secs(30)));
        let link = AgentLink::new(ours, Instant::now() + Duration::from_secs(5)).unwrap();
        let info = SessionInfo {
            tool_version: String::new(),
            pid: std::process::id(),
            process_name: String::new(),
            command_line: String::new(),
            runtime: String::new(),
            platform: String::new(),
            entry: session::Entry::Attached,
            start_unix_ms: 0,
            start: now(),
            cpus: 1,
            profilers: Vec::new(),
        };
        let recorder = Recorder::new(
            Sources {
                target: Target::new(std::process::id()).unwrap(),
                link,
                cpu: CpuSource::off(),
                engine: EngineChoice::Auto,
                events: Vec::new(),
                allocations: None,
                info,
                path: None,
                out: Tee(None, None),
                duration: Some(Duration::from_millis(500)),
                last_snapshot: None,
                rules: RuleHandle::new(None),
                dry: false,
                stop: StopHandle::default(),
                progress: Arc::default(),
                exit_code: None,
                requested: None,
                stays: false,
                library: String::new(),
            },
            Vec::new(),
        );
        let began = Instant::now();
        recorder.run().unwrap();
        let taken = began.elapsed();
        assert!(taken < Duration::from_secs(10), "{taken:?}");
        agent.join().unwrap();
    }
}
