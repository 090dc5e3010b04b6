//! The agent's main thread: talks to clrscope, writes what was collected, and ends the session.

use crate::engines::exact_allocations;
use crate::engines::exceptions::Storm;
use crate::engines::probes::reader;
use crate::engines::probes::traced;
use crate::engines::probes::{self, Told, What};
use crate::engines::{compare, hooks, ticks};
use crate::heap_memory;
use crate::host::Phase;
use crate::host::code_regions::Trust;
use crate::host::context::number_of_class;
use crate::host::counters::Counters;
use crate::host::queue::Event;
use crate::host::resolver::Resolver;
use crate::ledger;
use crate::os::connection::{Connection, Incoming};
use crate::os::signals::{self, SignalEngine};
use crate::os::threads::OwnThread;
use crate::os::{clock, tasks, threads};
use crate::panics;
use crate::session::agent::Agent;
use crate::session::event_mask;
use crate::session::fault;
use crate::session::leaving::{self, Called};
use com::codes::{
    CORPROF_E_IMMUTABLE_FLAGS_SET, CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT,
    CORPROF_E_PROFILER_DETACHING,
};
use corprof::Error;
use corprof::ids::{ClassId, ModuleId};
use corprof::metadata::token::MethodDef;
use instrument::{Arguments, Shown, State};
use profilers::trace::Rewriting;
use profilers::{CallbackSample, Class, FlushCx};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::frame::FrameBuilder;
use wire::{
    Bye, ByeReason, Control, CpuEngine, HeapEnd, Hello, InstrumentState, Instrumented, LogLevel,
    Nanos, Parameter, ParameterShown, Parameters, Record, Resource, Rewritten, Status,
};

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
/// Nanoseconds between two unasked status records.
const STATUS_INTERVAL: Nanos = 1_000_000_000;
/// How long and how often the runtime is asked to let us go before we stop to listen to it,
/// nanoseconds; and how often from then on.
const DETACH_SOON: Nanos = 5_000_000_000;
const DETACH_PAUSE: Nanos = 20_000_000;
const DETACH_LATER: Nanos = 500_000_000;
/// The message where the runtime cannot be suspended even once.
const BUSY: &str = "the runtime could not be suspended within 2 s, because it is being suspended \
    by something else all the time; try again, or check whether another profiler or a debugger is \
    active there";
/// Longest time that writing a frame may take: a stopped clrscope must not keep us for ever.
const WRITE_LIMIT: Nanos = 10_000_000_000;

/// Names of the threads that do what takes long.
const TICKS: &str = "clrscope-ticks";
const LOOKS: &str = "clrscope-heap";
const REJIT: &str = "clrscope-rejit";

/// What such a thread does. A panic in it ends the session, which says so: whoever waited for the
/// thread would wait for ever.
fn guarded(agent: &Arc<Agent>, name: &str, body: impl FnOnce(&Arc<Agent>)) {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        fault::panic_if_asked(agent, name);
        body(agent);
    }));
    if ended.is_err() {
        Counters::add(&agent.counters.panics, 1);
        let place = panics::place();
        agent.give_up(format!(
            "the agent has failed in its thread {name} ({place}): the recording ended. Please \
                report this"
        ));
    }
}

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
    hooks::stop();
    exact_allocations::stop();
    agent.instrumentation.stop(agent.is_shutdown());
    agent.stop_sampling();
    agent.stop_looking();
    agent.signals.stop(agent);
    agent.exceptions.stop(agent);
    agent.finish();
    #[cfg(feature = "fault-injection")]
    crate::faults::report::write(false);
    if agent.is_shutdown() {
        return;
    }
    if !agent.is_resident() && agent.leaving.may_leave(agent) && !signals::must_stay() {
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
        if due.begun && !agent.runtime.code_map().sees_all() {
            drop(agent.runtime.suspend());
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

    /// Reports the threads that exist.
    fn list_threads(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let listed = agent.live.insert_listed(|| match agent.runtime.threads() {
            Ok(threads) => threads,
            Err(error) => {
                agent.log(
                    LogLevel::Warning,
                    format!("the runtime does not list its threads: {error}"),
                );
                Vec::new()
            }
        });
        let mut started = Vec::new();
        {
            let mut threads = agent.threads();
            for thread in listed {
                // A thread that was ended meanwhile must not be asked for.
                if let Some(os_tid) =
                    agent.live.hold(thread, || agent.runtime.os_tid(thread)).flatten()
                {
                    started.extend(threads.runs(thread, os_tid, None));
                }
            }
        }
        started.into_iter().try_for_each(|record| self.put(record))
    }

    /// The runtime answers from now on.
    fn begin(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        agent.runtime.session_begins();
        self.list_threads()?;
        let by_signals =
            self.inside || matches!(agent.config.cpu, CpuEngine::Signals | CpuEngine::Compare);
        if by_signals {
            self.start_signals()?;
        }
        self.start_ticks();
        self.start_snapshots()?;
        self.start_instrumentation();
        if agent.exceptions_by_events() {
            match agent.exceptions.start(&agent.host) {
                Ok(()) => self.storm = Some(Storm::new(clock::monotonic())),
                Err(error) => agent.log(LogLevel::Error, format!("no exceptions: {error}")),
            }
        }
        self.send()
    }

    /// Starts the sampling thread, where something needs it.
    fn start_ticks(&mut self) {
        let agent = self.agent;
        let compares = matches!(agent.config.cpu, CpuEngine::Compare | CpuEngine::CompareBlocked);
        if !self.ticking && (compares || agent.wants_ticks()) {
            self.ticking = true;
            let for_thread = Arc::clone(agent);
            let run: fn(&Agent) = if compares {
                |agent| compare::run(agent, &agent.signals)
            } else {
                |agent| ticks::run(agent)
            };
            match OwnThread::spawn(TICKS, move || guarded(&for_thread, TICKS, |agent| run(agent))) {
                Ok(thread) => agent.keep_sampler(thread),
                Err(error) => agent.log(LogLevel::Error, format!("no sampling thread: {error}")),
            }
        }
    }

    /// Starts the thread that takes heap snapshots, where that is wanted.
    fn start_snapshots(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let heap = profilers::heap::HeapSettings::of(&agent.config);
        let survivors = profilers::survivors::SurvivorSettings::of(&agent.config);
        if heap.is_none() && survivors.is_none() {
            return Ok(());
        }
        let waited_for = heap.is_some();
        let (for_thread, outgoing) = (Arc::clone(agent), self.connection.outgoing().clone());
        // Never both: clrscope asks for one at most, and one after the other they would do no harm.
        let snapshots = move |agent: &Arc<Agent>| {
            if let Some(settings) = heap {
                agent.heap.run(agent, &outgoing, settings);
            }
            if let Some(settings) = survivors {
                agent.survivors.run(agent, &outgoing, settings);
            }
        };
        match OwnThread::spawn(LOOKS, move || guarded(&for_thread, LOOKS, snapshots)) {
            Ok(thread) => agent.keep_looker(thread),
            Err(error) => {
                let why = format!("no heap snapshots: {error}");
                agent.log(LogLevel::Error, why.clone());
                if waited_for {
                    // Whoever waits for the first one learns that none comes.
                    let time = clock::monotonic();
                    let end = HeapEnd {
                        snapshot: 0,
                        time,
                        paused: 0,
                        objects: 0,
                        complete: false,
                        reason: Some(why),
                    };
                    self.put(Record::HeapBegin { snapshot: 0, time })?;
                    self.put(Record::HeapEnd(end))?;
                }
            }
        }
        Ok(())
    }

    /// Starts the thread that rewrites methods, where that is allowed.
    fn start_instrumentation(&self) {
        let agent = self.agent;
        if agent.config.profiler(profilers::trace::SPEC.id).is_none() || probes::manager().is_none()
        {
            return;
        }
        let for_thread = Arc::clone(agent);
        match OwnThread::spawn(REJIT, move || {
            guarded(&for_thread, REJIT, |agent| agent.instrumentation.run(agent))
        }) {
            Ok(thread) => agent.instrumentation.keep(thread),
            // Each module that is loaded would wait for it, and clrscope for the first method.
            Err(error) => agent.give_up(format!("no methods are traced: {error}")),
        }
    }

    fn start_signals(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let engine = match agent.config.cpu {
            CpuEngine::Compare => SignalEngine::start_on_demand(),
            _ => SignalEngine::start(agent.config.rate_hz),
        };
        let engine = match engine {
            Ok(engine) => engine,
            Err(error) => {
                agent.walk_instead(&error.to_string());
                return Ok(());
            }
        };
        self.send()?;
        let (layout, ring) = engine.ring().map_err(|_| Gone)?;
        let mut turn = self.connection.turn().map_err(|_| Gone)?;
        turn.write_with_descriptor(&Record::SampleRing(layout), ring).map_err(|_| Gone)?;
        drop(turn);
        agent.signals.keep(engine);
        // Threads that begin from now on see to themselves. All others are known once the events
        // are read.
        self.drain()?;
        self.visit_threads();
        Ok(())
    }

    /// Makes the signal engine sample the threads that it does not sample yet. On a busy machine
    /// not all of them answer in time, and the runtime cannot always be suspended: then it is tried
    /// again later, but not for ever.
    fn visit_threads(&mut self) {
        let agent = self.agent;
        let threads: Vec<(u64, u32)> =
            agent.threads().running().map(|(thread, os_tid)| (thread.0 as u64, os_tid)).collect();
        // All that can be done before the runtime is suspended.
        let Some(visits) = agent.signals.with(|engine| engine.prepare(&threads)) else { return };
        if visits.is_empty() {
            // A process that is about to start has no threads, and could not be suspended either.
            return;
        }
        let all = visits.len() == threads.len();
        let Some(more) = self.visits.checked_sub(1) else { return };
        self.visits = more;
        let begun = clock::monotonic();
        let Ok(suspended) = agent.runtime.suspend() else {
            Counters::add(&agent.counters.refused_suspensions, 1);
            return;
        };
        agent.signals.with(|engine| engine.visit(&visits));
        drop(suspended);
        // Not in the counter of suspensions, which are those of ticks.
        Counters::add(&agent.counters.stopped, clock::monotonic().saturating_sub(begun));
        let (answered, armed) =
            agent.signals.with(|engine| engine.arm_visited(&visits)).unwrap_or_default();
        if answered > 0 && armed == 0 && all {
            // Such as where the user may have no more signals pending: timers need that.
            agent.walk_instead("no thread gets a timer (see RLIMIT_SIGPENDING)");
            self.start_ticks();
        }
    }

    /// Everything that was collected, and the last words.
    fn end(&mut self, reason: Result<ByeReason, Gone>) {
        self.agent.advance(Phase::Stopping);
        hooks::stop();
        exact_allocations::stop();
        self.agent.instrumentation.stop(self.agent.is_shutdown());
        self.agent.stop_sampling();
        self.agent.stop_looking();
        self.agent.signals.with(SignalEngine::disarm);
        self.agent.exceptions.stop(self.agent);
        if let Ok(reason) = reason {
            // Where nobody listens any more, there is nothing else to do.
            let _ = self.say_goodbye(reason);
        }
        self.give_back_tables();
    }

    /// Gives back what threads that are gone have left. A process that ends takes it with it.
    fn give_back_tables(&self) {
        if !self.agent.is_shutdown() {
            traced::give_back();
        }
    }

    fn say_goodbye(&mut self, reason: ByeReason) -> Result<(), Gone> {
        self.flush_collectors()?;
        self.flush_calls(true)?;
        self.flush_allocated()?;
        self.flush_traced()?;
        self.drain()?;
        let mut status = self.status();
        // What is left of it decides whether we can leave.
        self.agent.signals.stop(self.agent);
        self.drain()?;
        self.give_back_tables();
        status.resources = ledger::report();
        let reason = match reason {
            _ if self.agent.is_shutdown() => reason,
            _ if signals::must_stay() => ByeReason::Handler,
            _ if self.agent.is_hooked() => ByeReason::Hooked,
            ByeReason::Stopped if self.agent.is_resident() => ByeReason::Resident,
            _ if self.agent.leaving.may_leave(self.agent) => reason,
            _ => ByeReason::Stays,
        };
        self.put(Record::Bye(Bye { reason, status }))?;
        self.send()
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

    /// Writes what callbacks and ticks handed over.
    fn drain(&mut self) -> Result<(), Gone> {
        // At most a queue full, so that a storm cannot keep us here.
        for _ in 0..8192 {
            let Some(event) = self.agent.events.pop() else { break };
            self.events.push(event);
        }
        // Before their modules may be gone.
        let mut records = Vec::new();
        self.calls.define(self.agent, &mut self.resolver, &mut records);
        self.put_all(&mut records)?;
        self.define_instrumented()?;
        // Asked after the events were taken: what came later is written as it should be.
        let lost_ends = self.agent.events.take_lost_ends();
        // Taken after the events: every stack that they name is there, or was written before.
        self.define_stacks()?;
        let mut events = std::mem::take(&mut self.events);
        let result = events.drain(..).try_for_each(|event| self.event(event));
        self.events = events;
        result?;
        if lost_ends { self.forget_ended() } else { Ok(()) }
    }

    /// Forgets everything that may have ended: too much has ended to report all of it.
    fn forget_ended(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let mut records = Vec::new();
        self.resolver.forget_loaded(&mut records);
        self.instrumented.retain(|(module, _), _| !agent.runtime.unloads().is_gone(*module));
        let running: Vec<_> = agent.threads().running().collect();
        for (thread, os_tid) in running.into_iter().filter(|(_, os_tid)| threads::is_gone(*os_tid))
        {
            agent.signals.with(|engine| engine.remove(thread.0 as u64, os_tid));
            records.extend(agent.threads().ended(thread, clock::monotonic()));
        }
        records.push(Record::Log {
            level: LogLevel::Warning,
            message: "more threads, modules or dynamic methods ended at a time than could be \
                recorded: they were looked up again"
                .to_owned(),
        });
        self.put_all(&mut records)?;
        self.list_threads()
    }

    /// Writes stacks that have no definition outside yet, and the code that they lie in.
    fn define_stacks(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let mut stacks = agent.stacks().take_new().into_iter();
        let mut records = Vec::new();
        loop {
            // Many at a time: a lookup may need a suspension, and they share most of their code.
            let part: Vec<_> = stacks.by_ref().take(64).collect();
            if part.is_empty() {
                return Ok(());
            }
            let ips: Vec<u64> = part.iter().flat_map(|stack| stack.ips.iter().copied()).collect();
            self.resolver.resolve(&agent.runtime, &agent.counters, &ips, &mut records);
            self.put_all(&mut records)?;
            records.extend(part.into_iter().map(Record::Stack));
            self.put_all(&mut records)?;
        }
    }

    fn event(&mut self, event: Event) -> Result<(), Gone> {
        let agent = self.agent;
        let mut records = Vec::new();
        match event {
            Event::ThreadRuns { thread, os_tid, time } => {
                records.extend(agent.threads().runs(thread, os_tid, Some(time)));
            }
            Event::ThreadNamed { thread, name } => {
                records.extend(agent.threads().named(thread, name))
            }
            Event::ThreadEnded { thread, time } => {
                let ended = agent.threads().ended(thread, time);
                if let Some(Record::ThreadEnded { os_tid, .. }) = ended {
                    agent.signals.with(|engine| engine.remove(thread.0 as u64, os_tid));
                }
                records.extend(ended);
            }
            Event::Work(work) => records.push(Record::RuntimeWork(work)),
            Event::FunctionFreed(function) => self.resolver.freed(function, &mut records),
            Event::ModuleUnloaded(module) => {
                self.instrumented.retain(|(of, _), _| *of != module);
                self.resolver.unloaded(module, &mut records);
            }
            Event::Record(record) => records.push(record),
            Event::Log(level, message) => records.push(Record::Log { level, message }),
            Event::Sample(CallbackSample::Exception {
                sequence,
                time,
                os_tid,
                class,
                message,
                ips,
                truncated,
                weight,
            }) => {
                let class = class_id(agent, &mut self.resolver, class, &mut records);
                let stack = agent.stacks().intern(&ips, truncated);
                self.put_all(&mut records)?;
                self.define_stacks()?;
                let exception =
                    wire::Exception { sequence, time, os_tid, class, message, stack, weight };
                records.push(Record::Exception(exception));
            }
            Event::Sample(CallbackSample::ExceptionCaught { sequence, time, function }) => {
                let number = u32::try_from(function.0).ok().filter(|number| *number != 0);
                let method = number.and_then(|number| {
                    self.resolver.numbered_method(
                        &agent.runtime,
                        &agent.counters,
                        number,
                        &mut records,
                    )
                });
                records.push(Record::ExceptionCaught(wire::ExceptionCaught {
                    sequence,
                    time,
                    method,
                }));
            }
        }
        self.put_all(&mut records)
    }

    fn flush_collectors(&mut self) -> Result<(), Gone> {
        self.dropped.clear();
        let mut records = Vec::new();
        let mut flush = Flush {
            agent: self.agent,
            resolver: &mut self.resolver,
            records: &mut records,
            dropped: &mut self.dropped,
        };
        self.agent.each_collector(|collector| collector.flush(&mut flush));
        self.put_all(&mut records)
    }

    /// Writes what was called since the last time; in the end also what has not returned.
    fn flush_calls(&mut self, is_last: bool) -> Result<(), Gone> {
        self.define_instrumented()?;
        let mut records = Vec::new();
        self.calls.begin();
        let mut next = Some(0);
        // One after the other: all together may be large.
        while let Some(place) = next {
            next = self.calls.read(place, self.agent, &mut self.resolver, is_last, &mut records);
            self.put_all(&mut records)?;
        }
        Ok(())
    }

    /// Writes everything collected so far.
    fn flush(&mut self) -> Result<(), Gone> {
        let begun = clock::monotonic();
        self.flush_collectors()?;
        self.flush_calls(false)?;
        self.flush_allocated()?;
        self.flush_traced()?;
        let ended = clock::monotonic();
        self.drain()?;
        self.put(Record::Flushed { begun, ended })
    }

    /// Writes what was allocated since the last time.
    fn flush_allocated(&mut self) -> Result<(), Gone> {
        let mut records = Vec::new();
        self.allocated.begin();
        let mut next = Some(0);
        while let Some(place) = next {
            next = self.allocated.read(place, &mut self.resolver, &mut records);
            self.put_all(&mut records)?;
        }
        Ok(())
    }

    /// Writes what became of methods that rules take.
    fn define_instrumented(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        // Asked first: what was applied has told its changes before.
        let applied = agent.instrumentation.take_applied();
        let changes = agent.instrumentation.take_changes();
        let mut records = Vec::new();
        // Taken after the changes: the new body of each of them has been reported by then.
        for Told { time, module, method, what } in agent.instrumentation.take_told() {
            let Some(method) = self.instrumented_id(module, method, &mut records) else { continue };
            records.push(match what {
                What::Rewritten(rule, slot, bodies) => Record::Rewritten(Rewritten {
                    time,
                    method,
                    rule: rule.as_ref().to_owned(),
                    slot,
                    bodies,
                }),
                What::Recompiled(failed) => Record::Recompiled { time, method, failed },
            });
            self.put_all(&mut records)?;
        }
        for change in changes {
            let method = change.method;
            let Some(id) = self.instrumented_id(method.module, method.method, &mut records) else {
                continue;
            };
            if let Some(slot) = method.slot.filter(|_| change.state == State::Requested) {
                self.traced.begin(slot, method.rule);
                self.calls.name_slot(slot, id);
            }
            let is_new = change.state == State::Requested;
            let state = match change.state {
                State::Possible => InstrumentState::Possible,
                State::Requested => InstrumentState::Requested,
                State::Original => InstrumentState::Original,
                State::Refused(refusal) => InstrumentState::Refused(refusal.to_string()),
            };
            records.push(Record::Instrumented(Instrumented {
                method: id,
                rule: method.rule_name.as_ref().to_owned(),
                slot: method.slot,
                state,
            }));
            records.extend(parameters(id, &method.arguments).filter(|_| is_new));
            self.put_all(&mut records)?;
        }
        if applied { self.put(Record::Applied) } else { Ok(()) }
    }

    /// The id of a method that is instrumented; `None` if its module is gone.
    fn instrumented_id(
        &mut self,
        module: ModuleId,
        method: MethodDef,
        records: &mut Vec<Record>,
    ) -> Option<u32> {
        if let Some(known) = self.instrumented.get(&(module, method)) {
            return Some(*known);
        }
        let runtime = &self.agent.runtime;
        let there = || self.resolver.method_def(runtime, module, method, records);
        let id = runtime.unloads().hold(module, there)?;
        self.instrumented.insert((module, method), id);
        Some(id)
    }

    /// Writes what was called of instrumented methods since the last time.
    fn flush_traced(&mut self) -> Result<(), Gone> {
        self.define_instrumented()?;
        self.flush_single_calls()?;
        let mut records = Vec::new();
        self.traced.read(&mut records);
        if let Some(rules) = self.agent.instrumentation.rules() {
            if !self.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, &rules)) {
                self.traced.limits_begin();
                self.rules = Some(Arc::clone(&rules));
                self.ended = false;
            }
            let expired = self.traced.expired(&rules);
            if !expired.is_empty() {
                self.agent.instrumentation.expire(expired);
            }
            if !self.ended
                && self.traced.is_over(&rules)
                && probes::manager().is_some_and(|manager| manager.installed() == 0)
            {
                self.ended = true;
                self.define_instrumented()?;
                records.push(Record::RulesEnded);
            }
        }
        self.put_all(&mut records)
    }

    /// Writes the calls that are recorded individually.
    fn flush_single_calls(&mut self) -> Result<(), Gone> {
        let mut records = Vec::new();
        self.traced.read_single(&self.agent.runtime, &mut self.resolver, &mut records);
        self.put_all(&mut records)
    }

    fn status(&self) -> Status {
        let agent = self.agent;
        let mut dropped = vec![("events, queue full".to_owned(), agent.events.dropped())];
        dropped.push(("records over the frame size".to_owned(), self.lost_records));
        dropped.extend(self.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)));
        dropped.extend(self.calls.dropped().map(|(reason, count)| (reason.to_owned(), count)));
        dropped.extend(self.allocated.dropped().map(|(reason, count)| (reason.to_owned(), count)));
        dropped.push((
            "compilations of new bodies, log full".to_owned(),
            agent.instrumentation.lost(),
        ));
        dropped.extend(self.traced.dropped().map(|(reason, count)| (reason.to_owned(), count)));
        let mut counters = agent.counters.list();
        counters.push(("events".to_owned(), agent.events.passed()));
        // Of the tables of threads, what is in use.
        let tables = self.calls.memory() + self.allocated.memory() + self.traced.memory();
        let mut memory = ledger::held(Resource::HeapBytes) + tables as u64;
        agent.signals.with(|engine| {
            let (full, off_stack) = engine.dropped();
            dropped.push(("samples, ring full".to_owned(), full));
            dropped.push(("samples off the thread's stack".to_owned(), off_stack));
            dropped.push(("threads not sampled".to_owned(), engine.unsampled()));
            dropped.push((
                "threads without a timer (RLIMIT_SIGPENDING)".to_owned(),
                engine.without_timer(),
            ));
            let (median, handled) = engine.handler_time();
            counters.push(("signals handled".to_owned(), handled));
            counters.push(("nanoseconds in the signal handler, median".to_owned(), median));
            memory += engine.memory() as u64;
        });
        dropped.retain(|(_, count)| *count > 0);
        Status {
            time: clock::monotonic(),
            memory,
            cpu: clock::thread_cpu() + agent.tick_cpu.load(Relaxed),
            stopped: agent.counters.extending.load(Relaxed) + agent.counters.stopped.load(Relaxed),
            dropped,
            counters,
            resources: ledger::report(),
        }
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

/// What is reported about the arguments of a method, if anything is.
fn parameters(method: u32, arguments: &Arguments) -> Option<Record> {
    let (parameters, refused) = match arguments {
        Arguments::Off => return None,
        Arguments::Told(parameters) => (&**parameters, None),
        Arguments::Refused(why) => (&[][..], Some((*why).to_owned())),
    };
    let parameter = |parameter: &instrument::Parameter| Parameter {
        name: parameter.name.clone(),
        type_name: parameter.type_name.clone(),
        shown: match parameter.shown {
            Shown::Redacted => ParameterShown::Redacted,
            Shown::ByType => ParameterShown::ByType,
            Shown::Signed | Shown::Unsigned | Shown::Float | Shown::Text | Shown::Object => {
                ParameterShown::ByValue
            }
        },
    };
    let parameters = parameters.iter().map(parameter).collect();
    Some(Record::Parameters(Parameters { method, parameters, refused }))
}

/// Id of a class on the wire, whether the runtime has a number for it or it is known by name only.
fn class_id(
    agent: &Agent,
    resolver: &mut Resolver,
    class: Class,
    records: &mut Vec<Record>,
) -> u32 {
    let runtime = &agent.runtime;
    match agent.exceptions.classes.name(class) {
        Some(name) => resolver.event_class(runtime, ClassId(class.0), name, records),
        None => resolver.numbered_class(runtime, number_of_class(class), records),
    }
}

struct Flush<'a> {
    agent: &'a Agent,
    resolver: &'a mut Resolver,
    records: &'a mut Vec<Record>,
    dropped: &'a mut Vec<(&'static str, u64)>,
}

impl FlushCx for Flush<'_> {
    fn now(&self) -> Nanos {
        clock::monotonic()
    }

    fn class(&mut self, class: Class) -> u32 {
        class_id(self.agent, self.resolver, class, self.records)
    }

    fn write(&mut self, record: Record) {
        self.records.push(record);
    }

    fn dropped(&mut self, reason: &'static str, total: u64) {
        self.dropped.push((reason, total));
    }
}

/// Says that there is no session, and why: a connection of its own.
pub fn say_bye(config: &wire::SessionConfig, hello: Hello, reason: ByeReason, why: &str) {
    let Ok(mut connection) = Connection::open(&config.socket, CONNECT_LIMIT / 4) else { return };
    connection.set_write_limit(200_000_000);
    let mut frame = FrameBuilder::default();
    let level = if reason == ByeReason::Skipped { LogLevel::Info } else { LogLevel::Error };
    let bye = Bye { reason, status: Status::default() };
    for record in
        [Record::Hello(hello), Record::Log { level, message: why.to_owned() }, Record::Bye(bye)]
    {
        if frame.push(&record).is_err() {
            return;
        }
    }
    if let Ok(mut turn) = connection.turn() {
        let _ = frame.write_to(&mut turn);
    }
}

impl Agent {
    /// The first words of a session.
    pub fn hello(&self, token: [u8; 16], entered: Nanos) -> Hello {
        Hello {
            protocol: wire::PROTOCOL_VERSION,
            token,
            pid: std::process::id(),
            runtime: self.runtime.version(),
            info_version: self.runtime.info().version(),
            notify_only: self.notify_only,
            event_mask: self.event_mask,
            entered,
            command_line: tasks::command_line(),
        }
    }

    /// clrscope is ready: a launched process may continue.
    fn go(&self) {
        self.go.store(true, SeqCst);
    }

    /// Asks the runtime to let us go, again and again while it is busy with something else.
    fn detach(&self) {
        if !self.leaving.is_safe_to_detach(self) {
            return event_mask::idle(self);
        }
        let soon = clock::monotonic() + DETACH_SOON;
        let mut is_idle = false;
        while !self.is_shutdown() {
            match self.runtime.request_detach(self.config.quota) {
                Ok(()) => return,
                Err(Error::Hr { hresult: CORPROF_E_PROFILER_DETACHING, .. }) => return,
                // It never will: we stay, and do nothing.
                Err(Error::Hr {
                    hresult:
                        CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT | CORPROF_E_IMMUTABLE_FLAGS_SET,
                    ..
                }) => return event_mask::idle(self),
                Err(_) => {}
            }
            let is_late = clock::monotonic() >= soon;
            if is_late && !is_idle {
                // Until it does, it need not call us more than it has to.
                is_idle = true;
                event_mask::idle(self);
            }
            clock::sleep_until(
                clock::monotonic() + if is_late { DETACH_LATER } else { DETACH_PAUSE },
            );
        }
    }
}
