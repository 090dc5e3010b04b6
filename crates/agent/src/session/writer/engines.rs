//! Starts the engines of a session, once the runtime answers.

use super::{Gone, Writer};
use crate::engines::exceptions::Storm;
use crate::engines::probes::{self};
use crate::engines::{compare, ticks};
use crate::host::counters::Counters;
use crate::os::clock;
use crate::os::signals::SignalEngine;
use crate::os::threads::OwnThread;
use crate::panics;
use crate::session::agent::Agent;
use crate::session::fault;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wire::{CpuEngine, HeapEnd, LogLevel, Record};

/// Names of the threads that do what takes long.
const TICKS: &str = "clrscope-ticks";
const LOOKS: &str = "clrscope-heap";
const REJIT: &str = "clrscope-rejit";

impl Writer<'_> {
    /// The runtime answers from now on.
    pub(super) fn begin(&mut self) -> Result<(), Gone> {
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

    /// Reports the threads that exist.
    pub(super) fn list_threads(&mut self) -> Result<(), Gone> {
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

    /// Starts the sampling thread, where something needs it.
    pub(super) fn start_ticks(&mut self) {
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
    pub(super) fn start_snapshots(&mut self) -> Result<(), Gone> {
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
    pub(super) fn start_instrumentation(&self) {
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

    pub(super) fn start_signals(&mut self) -> Result<(), Gone> {
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
    pub(super) fn visit_threads(&mut self) {
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
}

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
