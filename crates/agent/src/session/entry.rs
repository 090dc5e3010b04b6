//! How the runtime reaches the agent: start, callbacks, end.
//!
//! Everything here runs on threads of the target. It takes no lock that could be held for long,
//! waits for nobody, and registers no thread-local destructor: one of those would keep the library
//! mapped after the detach.

use crate::engines::exact_allocations;
use crate::engines::exceptions;
use crate::engines::hooks;
use crate::engines::probes;
use crate::engines::probes::jit_activity;
use crate::host::Phase;
use crate::host::counters::Counters;
use crate::host::queue::Event;
use crate::host::runtime::Runtime;
use crate::ledger;
use crate::os::threads::{OwnThread, current_tid};
use crate::os::{clock, tasks, tls};
use crate::panics;
use crate::session::agent::Agent;
use crate::session::event_mask::{HEAP_REFUSED, allow_heap, event_mask};
use crate::session::fault;
use crate::session::reattach;
use crate::session::sessions::{Held, Sessions};
use crate::session::writer;
use com::codes::CORPROF_E_PROFILER_CANCEL_ACTIVATION;
use com::hresult::{E_FAIL, E_INVALIDARG, E_OUTOFMEMORY};
use corprof::{CallbackCx, EventMask, HResult, PanicReport, Profiler, ProfilerInfo};
use profilers::trace::{self, Rewriting};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use wire::{LogLevel, Nanos, Resource, RuntimeWork, RuntimeWorkKind, SessionConfig};

/// How long a launched process is held back at most.
const HOLD_LIMIT: Nanos = 2_000_000_000;
/// How long the end of the process waits for the last words.
const SHUTDOWN_LIMIT: Nanos = 500_000_000;

/// Most instances in one process that do nothing but make up for main profilers that have left:
/// each takes one of the runtime's 32 slots for notification-only profilers, and others may want
/// some.
const MOST_MADE_UP: u32 = 16;
/// How many there are.
static MADE_UP: AtomicU32 = AtomicU32::new(0);

/// One instance of the agent, as the runtime made it.
pub struct Entry {
    notify_only: bool,
    sessions: Arc<Sessions>,
    _used: tls::Used,
    /// When the running suspension and collection began; 0 while there is none. There is only one
    /// at a time.
    pub(super) suspended: AtomicU64,
    pub(super) collecting: AtomicU64,
}

impl Entry {
    /// An instance for the main place, or one beside another profiler.
    pub fn new(notify_only: bool) -> Self {
        let (suspended, collecting) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            notify_only,
            sessions: Arc::default(),
            _used: tls::Used::count(),
            suspended,
            collecting,
        }
    }

    fn start(
        &self,
        info: &ProfilerInfo,
        config: SessionConfig,
        entered: Nanos,
    ) -> Result<EventMask, HResult> {
        let runtime = Runtime::new(info).map_err(HResult::from)?;
        let mut mask = event_mask(&config, self.notify_only, exceptions::needed(runtime.version()));
        let launched = config.launched;
        let mut no_hooks = None;
        if mask.contains(EventMask::ENTER_LEAVE)
            && let Err(error) = hooks::set_hooks(info, &config)
        {
            mask = mask.without(EventMask::ENTER_LEAVE);
            no_hooks = Some(error);
        }
        jit_activity::restart();
        // Before anything is started: what the runtime refuses must not leave a thread behind.
        let heap_is_refused = allow_heap(info, &config, mask).is_err();
        info.set_event_mask(mask).map_err(HResult::from)?;
        self.holds(1);
        let agent = Agent::new(
            Arc::new(runtime),
            config,
            self.notify_only,
            (mask.low(), mask.high()),
            entered,
        );
        let agent = Arc::new(agent.map_err(|_| E_FAIL)?);
        if heap_is_refused {
            agent.log(LogLevel::Warning, HEAP_REFUSED.to_owned());
        }
        if let Some(error) = no_hooks {
            agent.log(LogLevel::Error, format!("no calls: {error}"));
        } else if mask.contains(EventMask::ENTER_LEAVE)
            || mask.contains(EventMask::CODE_TRANSITIONS)
        {
            hooks::start(&agent);
        }
        if mask.contains(EventMask::OBJECT_ALLOCATED) {
            exact_allocations::start(info);
        }
        let (for_thread, sessions) = (Arc::clone(&agent), Arc::clone(&self.sessions));
        // clrscope sees by these names who is in a process.
        let name = if self.notify_only { "clrscope-agent" } else { "clrscope-main" };
        // Last of all that can fail: once it runs, the library must stay until it is joined.
        self.sessions.replace(Some(Arc::clone(&agent)));
        let main = OwnThread::spawn(name, move || reattach::run(for_thread, &sessions))
            .map_err(|_| E_FAIL)?;
        agent.keep_main(main);
        fault::panic_if_asked(&agent, "panic-initialize");
        if fault::is_asked_for(&agent, "fail-initialize") {
            return Err(E_FAIL);
        }
        // It stays for the life of the library: nothing may fail behind it. The thread asks for it
        // once the session runs, and callbacks come later, too.
        if Rewriting::of(&agent.config) != Rewriting::Off {
            probes::allow(&agent.runtime);
        }
        if launched {
            agent.runtime.code_map().begin_at_start();
            agent.attached.store(true, SeqCst);
            agent.advance(Phase::Running);
            agent.wait_go(entered + HOLD_LIMIT);
        }
        Ok(mask)
    }

    /// Whether the runtime has given us a slot and an event mask: 1, or 0 once it has detached us.
    fn holds(&self, amount: u64) {
        ledger::set(
            if self.notify_only { Resource::NotificationSlot } else { Resource::MainSlot },
            amount,
        );
        ledger::set(Resource::EventMask, amount);
    }

    pub(super) fn agent(&self) -> Option<Held<'_>> {
        self.sessions.get()
    }

    /// The session, while it collects.
    pub(super) fn running(&self) -> Option<Held<'_>> {
        self.sessions.running()
    }

    /// This thread has compiled what it last began to compile.
    pub(super) fn compiled(&self) {
        let start = jit_activity::end();
        if let Some(agent) = self.running() {
            Counters::add(&agent.counters.compiled, 1);
            // It has no samples then, and a program that starts compiles thousands of methods.
            if !trace::is_alone(&agent.config) {
                Self::work(&agent, RuntimeWorkKind::Jit, start);
            }
        }
    }

    pub(super) fn work(agent: &Agent, kind: RuntimeWorkKind, start: Nanos) {
        if start != 0 {
            agent.events.push(Event::Work(RuntimeWork {
                kind,
                os_tid: current_tid(),
                start,
                end: clock::monotonic(),
            }));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.holds(0);
    }
}

impl Profiler for Entry {
    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        if !tls::is_ready() {
            return Err(E_OUTOFMEMORY);
        }
        let entered = clock::monotonic();
        let text = std::env::var(wire::CONFIG_ENV).map_err(|_| E_INVALIDARG)?;
        let mut config = SessionConfig::from_hex(&text).map_err(|_| E_INVALIDARG)?;
        config.launched = true;
        let command_line = tasks::command_line();
        let role = wire::sdk::Role::of(&command_line);
        if !config.sdk_tools.records(role) {
            let runtime = Runtime::new(info).map_err(HResult::from)?;
            let hello = wire::Hello {
                protocol: wire::PROTOCOL_VERSION,
                token: config.token,
                pid: std::process::id(),
                runtime: runtime.version(),
                info_version: runtime.info().version(),
                notify_only: self.notify_only,
                event_mask: (0, 0),
                entered,
                command_line,
            };
            // On an own thread, as everything that may register thread-local destructors.
            if let Ok(thread) = OwnThread::spawn("clrscope-skip", move || {
                let why = format!("not profiled: {}", role.word());
                writer::say_bye(&config, hello, wire::ByeReason::Skipped, &why);
            }) {
                thread.join();
            }
            return Err(CORPROF_E_PROFILER_CANCEL_ACTIVATION);
        }
        self.start(info, config, entered)
    }

    fn initialize_for_attach(
        &self,
        info: &ProfilerInfo,
        client_data: &[u8],
    ) -> Result<EventMask, HResult> {
        if !tls::is_ready() {
            return Err(E_OUTOFMEMORY);
        }
        let entered = clock::monotonic();
        let mut config = SessionConfig::from_bytes(client_data).map_err(|_| E_INVALIDARG)?;
        config.launched = false;
        if config.placeholder {
            let made_up = MADE_UP
                .fetch_update(SeqCst, SeqCst, |count| (count < MOST_MADE_UP).then_some(count + 1));
            return made_up
                .map(|_| EventMask::NONE)
                .map_err(|_| CORPROF_E_PROFILER_CANCEL_ACTIVATION);
        }
        self.start(info, config, entered)
    }

    fn initialize_failed(&self) {
        if let Some(agent) = self.agent() {
            // Nothing is asked of the runtime on the way out, and nobody is waited for but our own
            // threads.
            agent.shut_down();
            agent.join();
        }
    }

    fn load_as_notification_only(&self) -> bool {
        self.notify_only
    }

    fn attach_complete(&self, _cx: &CallbackCx<'_>) {
        if let Some(agent) = self.agent() {
            agent.attached.store(true, SeqCst);
            agent.advance(Phase::Running);
        }
    }

    fn detach_succeeded(&self, _cx: &CallbackCx<'_>) {
        if let Some(agent) = self.agent() {
            agent.join();
        }
    }

    fn shutdown(&self, _cx: &CallbackCx<'_>) {
        if let Some(agent) = self.agent() {
            agent.shut_down();
            agent.wait_finished(clock::monotonic() + SHUTDOWN_LIMIT);
            agent.runtime.close();
        }
    }

    fn panicked(&self, report: PanicReport<'_>) {
        if let Some(agent) = self.agent() {
            Counters::add(&agent.counters.panics, 1);
            let message = report.message.unwrap_or("no message");
            agent.fail(format!(
                "the agent has failed in {} ({message}, {}): nothing was collected from then on. \
                    Please report this",
                report.callback,
                panics::place()
            ));
        }
    }
}
