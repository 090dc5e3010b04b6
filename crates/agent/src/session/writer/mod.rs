//! The agent's main thread: talks to clrscope, writes what was collected, and ends the session.

mod calls;
mod end;
mod engines;
mod events;
mod status;

pub use end::say_bye;

use crate::engines::exact_allocations;
use crate::engines::exceptions::Storm;
use crate::engines::hooks;
use crate::engines::probes::reader;
use crate::engines::probes::traced;
use crate::engines::probes::{self};
use crate::heap_memory;
use crate::host::Phase;
use crate::host::code_regions::Trust;
use crate::host::counters::Counters;
use crate::host::queue::Event;
use crate::host::resolver::Resolver;
use crate::os::clock;
use crate::os::connection::{Connection, Incoming};
use crate::os::signals::{self, SignalEngine};
use crate::session::agent::Agent;
use crate::session::event_mask;
use crate::session::leaving::{self, Called};
use corprof::ids::ModuleId;
use corprof::metadata::token::MethodDef;
use profilers::trace::Rewriting;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wire::frame::FrameBuilder;
use wire::{Bye, ByeReason, Control, CpuEngine, LogLevel, Nanos, Record, Status};

/// How long to try to connect, nanoseconds.
const CONNECT_LIMIT: Nanos = 2_000_000_000;
/// Nanoseconds between two rounds of writing what callbacks collected, while they do, and while
/// they do not.
const ROUND: Nanos = 20_000_000;
const IDLE_ROUND: Nanos = 100_000_000;
/// How often threads are visited for the signal engine until all have answered, and nanoseconds
/// between.
const MOST_VISITS: u32 = 10;
const VISIT_INTERVAL: Nanos = 200_000_000;
/// How often the runtime is suspended at most to learn whether suspensions are reported.
const MOST_SETTLES: u32 = 3;
/// Nanoseconds between two unasked status records.
const STATUS_INTERVAL: Nanos = 1_000_000_000;
/// The message where the runtime cannot be suspended even once.
const BUSY: &str = "the runtime could not be suspended within 2 s, because it is being suspended \
    by something else all the time; try again, or check whether another profiler or a debugger is \
    active there";
/// Longest time that writing a frame may take: a stopped clrscope must not keep us for ever.
const WRITE_LIMIT: Nanos = 10_000_000_000;

/// Runs a session to its end, and asks the runtime to let us go.
pub fn run(agent: &Arc<Agent>) {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let connection = Connection::open(&agent.config.socket, CONNECT_LIMIT).ok()?;
        let mut writer = Writer::new(agent, connection);
        let reason = writer.session();
        writer.end(reason);
        Some(())
    }));
    // Whatever happened, nothing of ours may be left running.
    agent.advance(Phase::Stopping);
    if ended.is_err() {
        Counters::add(&agent.counters.panics, 1);
    }
    agent.stop_collecting();
    agent.signals.stop(agent);
    agent.finish();
    #[cfg(feature = "fault-injection")]
    crate::faults::report::write(false);
    if agent.is_shutdown() {
        return;
    }
    if agent.is_resident() || signals::must_stay() {
        return event_mask::idle(agent);
    }
    // The events of the runtime stay as they are meanwhile: whether the agent may leave is seen by
    // what the runtime reports.
    agent.exceptions.wait_until_released(agent);
    if agent.is_shutdown() {
        return;
    }
    if agent.leaving.may_leave(agent) {
        if let Some(manager) = probes::manager() {
            manager.forget();
        }
        agent.runtime.names().forget_all();
        agent.detach();
    } else {
        event_mask::idle(agent);
    }
}

struct Writer<'a> {
    agent: &'a Arc<Agent>,
    connection: Connection,
    frame: FrameBuilder,
    resolver: Resolver,
    /// What callbacks handed over, until their definitions are written.
    events: Vec<Event>,
    dropped: Vec<(&'static str, u64)>,
    lost_records: u64,
    /// How often threads may still be visited for the signal engine.
    visits: u32,
    /// How often the runtime may still be suspended to learn whether suspensions are reported.
    settles: u32,
    /// Whether clrscope has given up the kernel's ring.
    inside: bool,
    /// Whether there is a sampling thread.
    ticking: bool,
    /// Where exceptions come as events.
    storm: Option<Storm>,
    calls: hooks::Reader,
    allocated: exact_allocations::Reader,
    traced: reader::Reader,
    /// The rules as far as their limits are known.
    rules: Option<Arc<rules::RuleSet>>,
    /// Whether it was reported that all rules have come to their ends.
    ended: bool,
    /// Ids on the wire of methods that rules take.
    instrumented: HashMap<(ModuleId, MethodDef), u32>,
}

/// What a session does next, and when.
struct Due {
    /// Whether the runtime answers.
    begun: bool,
    /// How often clrscope has asked for everything so far.
    flushes: u32,
    /// When the next status is sent.
    status: Nanos,
    /// When threads are visited next.
    visit: Nanos,
    /// Events that had passed in the last round.
    passed: u64,
}

/// The other side is gone, or does not read.
struct Gone;

impl<'a> Writer<'a> {
    fn new(agent: &'a Arc<Agent>, mut connection: Connection) -> Self {
        connection.set_write_limit(WRITE_LIMIT);
        Self {
            agent,
            connection,
            frame: FrameBuilder::default(),
            resolver: Resolver::new(agent.memory.clone()),
            events: Vec::new(),
            dropped: Vec::new(),
            lost_records: 0,
            visits: MOST_VISITS,
            settles: MOST_SETTLES,
            inside: false,
            ticking: false,
            storm: None,
            calls: hooks::Reader::new(),
            allocated: exact_allocations::Reader::default(),
            traced: reader::Reader::new(&agent.runtime),
            rules: None,
            ended: false,
            instrumented: HashMap::new(),
        }
    }

    /// From hello to the reason to end.
    fn session(&mut self) -> Result<ByeReason, Gone> {
        if let Some(reason) = self.greet()? {
            return Ok(reason);
        }
        let now = clock::monotonic();
        let mut due = Due {
            begun: false,
            flushes: 0,
            status: now + STATUS_INTERVAL,
            visit: now + VISIT_INTERVAL,
            passed: 0,
        };
        loop {
            let now = clock::monotonic();
            self.work(&mut due, now)?;
            if self.agent.phase() == Phase::Stopping {
                return Ok(if self.agent.is_shutdown() {
                    ByeReason::Shutdown
                } else {
                    ByeReason::Failed
                });
            }
            if heap_memory::is_exhausted() {
                self.put(Record::Log {
                    level: LogLevel::Error,
                    message: wire::OUT_OF_MEMORY.to_owned(),
                })?;
                return Ok(ByeReason::Failed);
            }
            let messages = self.messages(&mut due, now)?;
            let ends = messages.contains(&Control::Stop);
            for message in messages {
                match message {
                    Control::Stop => return Ok(ByeReason::Stopped),
                    // Nobody waits for the answer any more.
                    Control::Resolve { .. } if ends => {}
                    message => self.obey(message, &mut due)?,
                }
            }
        }
    }

    /// Says hello. Returns why the session ends, if it does so at once.
    fn greet(&mut self) -> Result<Option<ByeReason>, Gone> {
        self.hello()?;
        // One that is launched is called: nobody can have left before the first instruction.
        if self.agent.notify_only && !self.agent.config.launched {
            match leaving::is_called(self.agent) {
                Called::Yes => {}
                Called::No => return Ok(Some(ByeReason::Stays)),
                Called::Busy => {
                    // At once: to find out whether we may leave takes longer than clrscope waits.
                    self.put(Record::Log { level: LogLevel::Error, message: BUSY.to_owned() })?;
                    self.put(Record::Bye(Bye {
                        reason: ByeReason::Failed,
                        status: Status::default(),
                    }))?;
                    self.send()?;
                    return Ok(Some(ByeReason::Failed));
                }
            }
        }
        self.send()?;
        Ok(None)
    }

    /// Does what is due, and sends what there is.
    fn work(&mut self, due: &mut Due, now: Nanos) -> Result<(), Gone> {
        let agent = self.agent;
        // Until the attach is complete the runtime gives no answers.
        if !due.begun && agent.phase() >= Phase::Running {
            due.begun = true;
            self.begin()?;
        }
        if due.begun {
            for _ in 0..std::mem::take(&mut due.flushes) {
                self.flush()?;
            }
        }
        agent.count_seconds(now);
        // One may be under way that began before its end could be seen. Refused while a collection
        // runs.
        if due.begun && self.settles > 0 && !agent.runtime.code_map().sees_all() {
            self.settle();
        }
        if due.begun && self.visits > 0 && now >= due.visit {
            due.visit = now + VISIT_INTERVAL;
            self.flush_single_calls()?;
            self.visit_threads();
        }
        if agent.signals.with(SignalEngine::is_displaced) == Some(true) {
            agent.walk_instead("another tool has set a handler for SIGPROF");
            self.start_ticks();
        }
        agent.signals.with(SignalEngine::reclaim);
        // A process that ends may not answer.
        if agent.phase() == Phase::Running
            && let Some(storm) = &mut self.storm
        {
            storm.look(&agent.exceptions, &agent.host, now);
        }
        if now >= due.status {
            due.status = now + STATUS_INTERVAL;
            self.flush_collectors()?;
            self.flush_calls(false)?;
            self.flush_allocated()?;
            self.flush_traced()?;
            let status = self.status();
            self.put(Record::Status(status))?;
        }
        // Names of many methods at once would take long as the process ends, and so would many
        // calls.
        self.define_instrumented()?;
        traced::free_shards_if_grown();
        if due.begun && self.calls.has_much() {
            self.flush_calls(false)?;
        }
        self.drain()?;
        if due.begun {
            self.answer()?;
        }
        self.send()
    }

    /// Suspends the runtime once: from then on every suspension is seen that may be under way. One
    /// that is granted and not reported shows that the runtime no longer calls this agent; it is
    /// not suspended in vain for ever.
    fn settle(&mut self) {
        let agent = self.agent;
        let begun = clock::monotonic();
        let Ok(suspended) = agent.runtime.suspend() else { return };
        drop(suspended);
        self.settles -= 1;
        Counters::add(&agent.counters.stopped, clock::monotonic().saturating_sub(begun));
    }

    /// Waits for messages, not longer than until something is due.
    fn messages(&mut self, due: &mut Due, now: Nanos) -> Result<Vec<Control>, Gone> {
        let agent = self.agent;
        let busy = agent.events.passed() != due.passed
            || agent.wants_ticks()
            || self.resolver.has_waiting();
        due.passed = agent.events.passed();
        let round = if busy { ROUND } else { IDLE_ROUND };
        let timeout =
            if due.begun { round.min(due.status.saturating_sub(now)) } else { STATUS_INTERVAL };
        let incoming = self.connection.receive(timeout.div_ceil(1_000_000) as i32, &agent.wake);
        agent.wake.clear();
        match incoming {
            Incoming::Messages(messages) => Ok(messages),
            _ => Err(Gone),
        }
    }

    /// Does what clrscope wants, but for the end.
    fn obey(&mut self, message: Control, due: &mut Due) -> Result<(), Gone> {
        let agent = self.agent;
        match message {
            Control::Go => {
                // Before the first module is loaded: what comes later is seen to as it comes.
                agent.instrumentation.wait_done();
                agent.go();
            }
            Control::Resolve { mut executed, mut guessed } => {
                executed.truncate(Control::MAX_RESOLVE);
                guessed.truncate(Control::MAX_RESOLVE);
                let (mut refused, counters) = (Vec::new(), &agent.counters);
                self.resolver.ask(counters, &executed, Trust::Executed, &mut refused);
                self.resolver.ask(counters, &guessed, Trust::Guessed, &mut refused);
                self.put_all(&mut refused)?;
                // Before that the runtime gives no answers.
                if due.begun {
                    // Freed code must be reported before its addresses get another meaning.
                    self.drain()?;
                    self.answer()?;
                    self.send()?;
                }
            }
            Control::Status => {
                let status = self.status();
                self.put(Record::Status(status))?;
            }
            Control::CopyMore(bytes) => agent.copy_more(bytes),
            Control::SampleInside if agent.config.cpu != CpuEngine::KernelRing || self.inside => {}
            Control::SampleInside => {
                self.inside = true;
                if due.begun {
                    self.start_signals()?;
                    self.start_ticks();
                }
            }
            Control::Flush => due.flushes += 1,
            Control::Instrument(rules) => {
                agent.instrumentation.apply(rules, Rewriting::of(&agent.config));
            }
            Control::Stop => {}
        }
        Ok(())
    }

    fn hello(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        self.put(Record::Hello(agent.hello(agent.config.token, agent.entered)))
    }

    /// Looks up the addresses that were asked for, as far as that is possible now.
    fn answer(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let mut records = Vec::new();
        // A process that is ending does not wait for thousands of methods.
        while self.resolver.has_waiting() && !agent.is_shutdown() {
            let all = self.resolver.answer(&agent.runtime, &agent.counters, &mut records);
            self.put_all(&mut records)?;
            if !all {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&mut self, records: &mut Vec<Record>) -> Result<(), Gone> {
        records.drain(..).try_for_each(|record| self.put(record))
    }

    fn put(&mut self, record: Record) -> Result<(), Gone> {
        if self.frame.push(&record).is_err() {
            // Too large beside what is already in the frame, or altogether.
            self.send()?;
            if self.frame.push(&record).is_err() {
                self.lost_records += 1;
            }
        }
        if self.frame.is_full() { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Gone> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let mut turn = self.connection.turn().map_err(|_| Gone)?;
        self.frame.write_to(&mut turn).map_err(|_| Gone)
    }
}
