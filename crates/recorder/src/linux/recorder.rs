//! The one thread of a recording that merges all sources into session records.

mod ending;
mod opening;
#[cfg(test)]
mod tests;

pub(super) use ending::{BYE_LIMIT, INTERRUPTED_LIMIT, STAYS, UNLOADS};

use super::{
    agent::Agent,
    clock::now,
    context::Context,
    cpu::CpuSource,
    define::Definitions,
    events::EventSessions,
    frames::Frames,
    held::{HOLD, Held},
    link::AgentLink,
    output::{Out, Output},
    room::{self, ThreadWatch},
    sources,
    stages::{Calls, Cpu, EventPipe, Exceptions, Heap, Stages, Ticks, Trace},
    statistics::Statistics,
    target::Target,
    waiting::Waiting,
    window::Window,
};
use crate::{EngineChoice, Progress, RecordError, RuleHandle, SessionSummary, StopHandle, Timings};
use session::{SessionInfo, SessionRecord};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};
use wire::Control;

/// How long one round waits for something to come.
const ROUND: Duration = Duration::from_millis(10);

/// The same until the first sample, for a second at most: who looks on wants to see soon that it
/// works.
const FIRST_ROUND: Duration = Duration::from_millis(1);
const FIRST: u64 = 1_000_000_000;

/// How long what the agent says is taken at a time, before something else has its turn.
const TAKE_LIMIT: Duration = Duration::from_millis(100);

/// Threads that the kernel ends so shortly before the end of the process is seen end because of it,
/// in nanoseconds.
const ENDS_WITH_PROCESS: u64 = 500_000_000;

/// Everything a recording needs once the agent has said hello.
pub(super) struct Sources {
    pub target: Target,
    pub link: AgentLink,
    pub cpu: CpuSource,
    /// What was asked for; the source says what is used.
    pub engine: EngineChoice,
    pub events: Vec<Box<dyn EventSessions>>,
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

/// A recording: a loop over its stages.
pub(super) struct Recorder {
    cx: Context,
    stages: Stages,
    duration: Option<Duration>,
    /// How near the process comes to its limit of threads.
    threads: ThreadWatch,
    /// Sentences that are written as soon as the session has begun.
    notes: Vec<String>,
    /// Whether the process was held until [`Self::go`].
    held: bool,
    before_detach: Option<Box<dyn FnOnce() + Send>>,
    exit_code: Option<Arc<OnceLock<i32>>>,
    stays: bool,
    library: String,
}

impl Recorder {
    /// `notes` are sentences for the end, and for the session.
    pub fn new(sources: Sources, notes: Vec<String>) -> Self {
        let entered = sources.link.hello.entered;
        let attach_to_initialize =
            sources.requested.map(|at| Duration::from_nanos(entered.saturating_sub(at)));
        let timings = Timings { attach_to_initialize, ..Timings::default() };
        let stages = Stages {
            ticks: Ticks::new(sources.cpu.reads_blocked()),
            cpu: Cpu::new(sources.cpu, sources.engine, sources.requested),
            heap: Heap::new(sources.last_snapshot),
            events: EventPipe::new(sources.events),
            exceptions: Exceptions::default(),
            calls: Calls::default(),
            trace: Trace::new(sources.rules, sources.dry),
        };
        let cx = Context {
            definitions: Definitions::default(),
            frames: Frames::new(&sources.target),
            window: Window::new(sources.info.start),
            target: sources.target,
            agent: Agent::new(sources.link),
            info: sources.info,
            waiting: Waiting::default(),
            held: Held::default(),
            sources: sources::States::default(),
            output: Output::new(sources.out, sources.path),
            statistics: Statistics::new(timings),
            stop: sources.stop,
            progress: sources.progress,
        };
        Self {
            stages,
            duration: sources.duration,
            threads: ThreadWatch::new(cx.target.pid),
            notes,
            held: false,
            before_detach: None,
            exit_code: sources.exit_code,
            stays: sources.stays,
            library: sources.library,
            cx,
        }
    }

    /// Sends the rules, if there are some that were not sent.
    pub fn instrument(&mut self) -> Result<(), RecordError> {
        self.stages.trace.send_rules(&mut self.cx)
    }

    /// Resumes a launched process: everything is ready to record it.
    pub fn go(&mut self) {
        self.held = true;
        self.begin_window(now());
        // An agent that is gone shows up as such in the first round.
        let _ = self.cx.agent.link.send(&Control::Go);
    }

    /// Does something before the agent is asked to detach from a process that runs.
    pub fn before_detach(&mut self, act: impl FnOnce() + Send + 'static) {
        self.before_detach = Some(Box::new(act));
    }

    /// Records until told to stop, until time is up, or until the target ends; then writes what is
    /// left.
    pub fn run(mut self) -> Result<SessionSummary, RecordError> {
        self.begin();
        let started = Instant::now();
        let mut next_second = started + Duration::from_secs(1);
        let mut gives_way = self.may_give_way();
        while !self.is_over(started) {
            self.step();
            // The first sample is waited for.
            if gives_way && started.elapsed() >= Duration::from_nanos(FIRST) {
                gives_way = false;
                // Where the kernel refuses, samples are read as before.
                let _ = sampler::give_way();
            }
            if let Err(error) = self.instrument() {
                self.cx.note(error.to_string());
            }
            if Instant::now() >= next_second {
                next_second += Duration::from_secs(1);
                self.stages.cpu.read_rate(&self.cx);
                self.every_second();
                if self.stages.heap.waits_in_vain(&mut self.cx)
                    || self.stages.trace.waits_in_vain(&mut self.cx)
                {
                    break;
                }
            }
            self.cx.progress().elapsed = started.elapsed();
        }
        self.finish()
    }

    /// Whether samples may be read with less priority than other programs run. The agent gives up a
    /// snapshot that is not read for 100 ms, and the runtime drops events of allocations that are
    /// not read in time.
    fn may_give_way(&self) -> bool {
        let takes_snapshots =
            |id: &str| profilers::by_id(id).is_some_and(profilers::ProfilerSpec::needs_main_slot);
        !self.stages.events.are_urgent()
            && !self.cx.info.profilers.iter().any(|run| takes_snapshots(&run.id))
    }

    fn is_over(&mut self, started: Instant) -> bool {
        let begun = self.stages.trace.begun(&self.cx, started);
        let is_over = |limit| begun.is_some_and(|begun| begun.elapsed() >= limit);
        self.cx.agent.has_left()
            || self.cx.output.has_failed()
            || self.stages.cpu.refused().is_some()
            || self.stages.are_over()
            || self.cx.stop.is_stopped()
            || self.duration.is_some_and(is_over)
    }

    /// One round: take what there is from every source, and write what is due.
    fn step(&mut self) {
        let Self { cx, stages, .. } = self;
        if cx.waiting.holds_cpu() && !cx.agent.closed {
            // The agent's answer lets waiting samples continue, and often leads to the next
            // question. It comes in a millisecond.
            cx.agent.link.wait(ROUND);
            stages.cpu.take(cx, Duration::ZERO);
        } else {
            // The first sample of a program that is launched is not waited for, and the program
            // needs its processors.
            let first =
                stages.cpu.awaits_first(cx) && now().saturating_sub(cx.window.start) < FIRST;
            stages.cpu.take(cx, if first { FIRST_ROUND } else { ROUND });
        }
        self.take_agent();
        let Self { cx, stages, .. } = self;
        stages.events.take(cx);
        stages.settle(cx, false);
        self.confirm_ends();
        self.write_samples(now().saturating_sub(HOLD.as_nanos() as u64));
        let Context { output, definitions, .. } = &mut self.cx;
        if output.rows_gathered_for() >= HOLD {
            output.write_rows(definitions);
        }
        output.idle();
    }

    /// Takes what the agent said, for a moment: where more comes than can be taken, all the rest
    /// has its turn nevertheless.
    fn take_agent(&mut self) {
        let began = Instant::now();
        while let Some(event) = self.cx.agent.next() {
            self.stages.take(&mut self.cx, event);
            if self.cx.agent.closed || began.elapsed() > TAKE_LIMIT {
                return;
            }
        }
    }

    /// Threads that the kernel ended a while ago did not end with the process, which still runs.
    fn confirm_ends(&mut self) {
        let Context { definitions, agent, target, .. } = &mut self.cx;
        let long_ago = now().saturating_sub(ENDS_WITH_PROCESS);
        if definitions.has_ends(long_ago) && !agent.has_left() && target.is_alive() {
            definitions.confirm_ends(long_ago);
        }
    }

    /// Writes the samples up to a time, in order: ticks that wait hold back what comes after them.
    fn write_samples(&mut self, until: u64) {
        let first_tick = self.stages.ticks.first_tick();
        self.cx.write_samples(first_tick.map_or(until, |time| time.min(until)));
    }

    fn every_second(&mut self) {
        let Self { cx, stages, .. } = self;
        let (cost, counters) = (stages.cpu.cost(cx), cx.frames.counters());
        let observer = cx.statistics.observe(cost, counters).clone();
        let dropped = observer.dropped.iter().map(|(_, count)| count).sum();
        let [taken, stopped] =
            [observer.target_cpu, observer.target_stopped].map(Duration::from_nanos);
        cx.write(&SessionRecord::Observer(observer));
        let pid = cx.target.pid;
        let lacks = || {
            room::lacks_memory(pid)
                .or_else(|| room::lacks_address_space(pid))
                .or_else(|| self.threads.lacks(pid))
        };
        if let Some(why) = (!cx.stop.is_stopped()).then(lacks).flatten() {
            cx.note(why);
            cx.stop.stop();
        }
        let resources = cx.statistics.resources(cx.agent.bye.is_some());
        if !resources.is_empty() {
            cx.write(&SessionRecord::Resources(resources));
        }
        stages.second(cx);
        let (samples, bytes) = (cx.statistics.counts(), cx.output.bytes_written());
        let mut progress = cx.progress();
        (progress.samples, progress.dropped, progress.bytes) = (samples, dropped, bytes);
        (progress.target_cpu, progress.target_stopped) = (taken, stopped);
    }
}
