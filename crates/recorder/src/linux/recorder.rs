//! The one thread of a recording that merges all sources into session records.

mod agent;
mod calls;
mod cpu;
mod emit;
mod ending;
mod events;
mod exceptions;
mod heap;
mod statistics;
mod threads;
mod ticks;
mod trace;
mod window;

use self::heap::STAYS_STOPPED;
use super::{
    allocation_events::AllocationEvents,
    blocked::{BlockedStacks, PendingTick, Purpose},
    calls::CallTrees,
    cpu::{CpuSource, Taken, TakenSample},
    define::Definitions,
    event_samples::{EventSample, EventSamples},
    events::{Events, FromEvents},
    frames::{Frames, Unwound},
    heap_fields,
    link::{AgentLink, FromAgent},
    processors::{self, Census, Sharing, Split, Ticked},
    rate::{self, RateMeter},
    reattach::UNLOAD_LIMIT,
    room::{self, ThreadWatch},
    running::{RunningStack, RunningStacks, near},
    start::BY_WALKING,
    survivors::Survivors,
    target::Target,
    thread_snapshots::{OsThread, ThreadSnapshots},
    waiting::{Needs, Released, Waiting, WaitingSample},
    waits,
    window::Window,
};
use crate::{EngineChoice, Progress, RecordError, RuleHandle, SessionSummary, StopHandle, Timings};
use nettrace::{
    counters::{self, Counted},
    locks::Contention,
    thread_pool,
};
use profilers::{
    counters::{CounterDef, CounterKind, CounterValue},
    exact_allocations::Allocated,
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Pause},
    jit::Lookups,
    loads::Unloaded,
    threadpool::{PoolChange, PoolEvent},
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
use wire::{
    AllocatedObjects, BlockedStack, ByeReason, CallKind, Calls, Control, CpuEngine, Exception,
    LogLevel, Record, RuntimeWork, RuntimeWorkKind, WallSample, WallTick, frame::FrameError,
};

/// How long one round waits for something to come.
const ROUND: Duration = Duration::from_millis(10);

/// The same until the first sample, for a second at most: who looks on wants to see soon that it
/// works.
const FIRST_ROUND: Duration = Duration::from_millis(1);
const FIRST: u64 = 1_000_000_000;

/// How long samples are held before they are written. Meanwhile those of all sources can be put in
/// order, and the runtime's work (collections, compilation), which is reported when it ends, can be
/// seen in them. Rows of tables are gathered for as long.
const HOLD: Duration = Duration::from_millis(400);

/// How long the agent may take at the end to say what code is at the addresses of the last samples.
const RESOLVE_LIMIT: Duration = Duration::from_secs(2);

/// How the agent's own threads are named.
const OWN_THREADS: &str = "clrscope-";

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
    /// Samples that wait for the agent.
    waiting: Waiting,
    /// Stacks of threads that ran.
    running: RunningStacks,
    event_samples: EventSamples,
    call_trees: CallTrees,
    /// Looked for since it was last written.
    precompiled: Lookups,
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
            waiting: Waiting::default(),
            running: RunningStacks::default(),
            event_samples: EventSamples::default(),
            call_trees: CallTrees::default(),
            precompiled: Lookups::default(),
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

    /// One round: take what there is from every source, and write what is due.
    fn step(&mut self) {
        if !self.waiting.holds_cpu() || self.closed {
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
        self.resolve(false);
        self.settle_event_samples();
        self.settle_ticks();
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

    // The agent

    // Looks at collections

    // Heap snapshots

    // EventPipe

    // Writing

    // The end
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
