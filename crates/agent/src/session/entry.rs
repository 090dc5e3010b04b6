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
use crate::host::context::Context;
use crate::host::counters::Counters;
use crate::host::queue::Event;
use crate::host::runtime::Runtime;
use crate::ledger;
use crate::os::threads::{OwnThread, current_tid, is_own};
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
use corprof::callback::{
    CollectedGenerations, DeliveredEvent, DependentReferences, GcReason, MovedRanges, Roots,
    SuspendReason, TransitionReason,
};
use corprof::control::FunctionControl;
use corprof::ids::{ClassId, FunctionId, ModuleId, ObjectId, RawObjectId, ReJitId, ThreadId};
use corprof::metadata::token::MethodDef;
use corprof::{
    CallbackCx, EventMask, HResult, PanicReport, Profiler, ProfilerCallback, ProfilerInfo, Utf16,
};
use profilers::trace::{self, Rewriting, tells_il};
use profilers::{Function, Object};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
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
    suspended: AtomicU64,
    collecting: AtomicU64,
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

    fn agent(&self) -> Option<Held<'_>> {
        self.sessions.get()
    }

    /// The session, while it collects.
    fn running(&self) -> Option<Held<'_>> {
        self.sessions.running()
    }

    /// This thread has compiled what it last began to compile.
    fn compiled(&self) {
        let start = jit_activity::end();
        if let Some(agent) = self.running() {
            Counters::add(&agent.counters.compiled, 1);
            // It has no samples then, and a program that starts compiles thousands of methods.
            if !trace::is_alone(&agent.config) {
                Self::work(&agent, RuntimeWorkKind::Jit, start);
            }
        }
    }

    fn work(agent: &Agent, kind: RuntimeWorkKind, start: Nanos) {
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

impl ProfilerCallback for Entry {
    fn thread_created(&self, _cx: &CallbackCx<'_>, thread: ThreadId) {
        // Our own threads become the runtime's when they ask for events; they are nobody's to look
        // at.
        if let Some(agent) = self.running().filter(|_| !is_own()) {
            agent.live.insert(thread);
        }
    }

    fn thread_destroyed(&self, _cx: &CallbackCx<'_>, thread: ThreadId) {
        // Also while stopping: a walk may still be under way.
        if let Some(agent) = self.agent() {
            agent.live.remove(thread);
            // The callback comes on the thread that ends. If one day it does not, that is seen to
            // later.
            agent.signals.with(|engine| engine.remove_current(thread.0 as u64));
            agent.events.push(Event::ThreadEnded { thread, time: clock::monotonic() });
        }
    }

    fn thread_assigned_to_os_thread(&self, _cx: &CallbackCx<'_>, thread: ThreadId, os_tid: u32) {
        if let Some(agent) = self.running().filter(|_| !is_own()) {
            // The callback comes on the thread that it is about. If one day it does not, the thread
            // is not sampled.
            agent.signals.with(|engine| {
                if os_tid == current_tid() {
                    engine.add_current(thread.0 as u64, os_tid);
                }
            });
            // After that, so that no visit comes in between.
            agent.events.push(Event::ThreadRuns { thread, os_tid, time: clock::monotonic() });
        }
    }

    fn thread_name_changed(&self, _cx: &CallbackCx<'_>, thread: ThreadId, name: Utf16<'_>) {
        if let Some(agent) = self.running() {
            agent.events.push(Event::ThreadNamed { thread, name: name.to_string() });
        }
    }

    fn runtime_suspend_started(&self, _cx: &CallbackCx<'_>, _reason: SuspendReason) {
        if let Some(agent) = self.agent() {
            agent.suspensions.fetch_add(1, SeqCst);
        }
        self.suspended.store(clock::monotonic(), Relaxed);
        if let Some(agent) = self.agent() {
            agent.runtime.code_map().suspending();
        }
    }

    fn runtime_suspend_aborted(&self, _cx: &CallbackCx<'_>) {
        self.suspended.store(0, Relaxed);
        if let Some(agent) = self.agent() {
            agent.runtime.code_map().resuming();
        }
    }

    fn runtime_resume_started(&self, _cx: &CallbackCx<'_>) {
        if let Some(agent) = self.agent() {
            agent.runtime.code_map().resuming();
        }
    }

    fn runtime_resume_finished(&self, _cx: &CallbackCx<'_>) {
        let start = self.suspended.swap(0, Relaxed);
        if let Some(agent) = self.agent() {
            let now = clock::monotonic();
            agent.heap.resumed(now);
            agent.survivors.resumed(now);
        }
        if let Some(agent) = self.running() {
            Self::work(&agent, RuntimeWorkKind::Suspended, start);
        }
    }

    fn garbage_collection_started(
        &self,
        _: &CallbackCx<'_>,
        collected: CollectedGenerations<'_>,
        reason: GcReason,
    ) {
        let now = clock::monotonic();
        self.collecting.store(now, Relaxed);
        if let Some(agent) = self.agent() {
            let suspended = self.suspended.load(Relaxed);
            let suspended = if suspended == 0 { now } else { suspended };
            agent.heap.collection_started(collected, reason, suspended);
            agent.survivors.collection_started(&agent, collected, reason, suspended);
        }
    }

    fn moved_references2(&self, _cx: &CallbackCx<'_>, ranges: MovedRanges<'_, usize>) {
        if let Some(agent) = self.agent() {
            agent.survivors.moved(ranges);
        }
    }

    fn root_references2(&self, _cx: &CallbackCx<'_>, roots: Roots<'_>) {
        if let Some(agent) = self.agent() {
            agent.heap.roots(&agent, roots);
            agent.survivors.roots(&agent, roots);
        }
    }

    fn conditional_weak_table_element_references(
        &self,
        _cx: &CallbackCx<'_>,
        references: DependentReferences<'_>,
    ) {
        if let Some(agent) = self.agent() {
            agent.heap.dependent(&agent, references);
            agent.survivors.dependent(&agent, references);
        }
    }

    fn object_references(
        &self,
        _cx: &CallbackCx<'_>,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool {
        self.agent().is_some_and(|agent| {
            agent.heap.object(&agent, object, class, references)
                || agent.survivors.object(&agent, object, class, references)
        })
    }

    fn garbage_collection_finished(&self, _cx: &CallbackCx<'_>) {
        if let Some(agent) = self.agent() {
            agent.heap.collection_finished(&agent);
            agent.survivors.collection_finished(&agent);
        }
        let start = self.collecting.swap(0, Relaxed);
        if let Some(agent) = self.running() {
            Self::work(&agent, RuntimeWorkKind::Gc, start);
        }
    }

    fn jit_cached_function_search_started(
        &self,
        _cx: &CallbackCx<'_>,
        _function: FunctionId,
    ) -> bool {
        self.running().is_none_or(|agent| !agent.instrumentation.is_by_first_calls())
    }

    fn jit_compilation_started(
        &self,
        _cx: &CallbackCx<'_>,
        function: FunctionId,
        _safe_to_block: bool,
    ) {
        jit_activity::begin();
        if let Some(agent) = self.running() {
            agent.instrumentation.first_call(function, agent.runtime.unloads().went());
        }
    }

    fn jit_compilation_finished(
        &self,
        _cx: &CallbackCx<'_>,
        function: FunctionId,
        status: Result<(), HResult>,
        _safe_to_block: bool,
    ) {
        self.compiled();
        if let Some(manager) = probes::manager() {
            manager.compiled(function, ReJitId(0), status);
        }
    }

    fn dynamic_method_jit_compilation_started(
        &self,
        _cx: &CallbackCx<'_>,
        _function: FunctionId,
        _safe_to_block: bool,
        _il: &[u8],
    ) {
        jit_activity::begin();
    }

    fn dynamic_method_jit_compilation_finished(
        &self,
        _cx: &CallbackCx<'_>,
        _function: FunctionId,
        _status: Result<(), HResult>,
        _safe_to_block: bool,
    ) {
        self.compiled();
    }

    fn object_allocated(&self, cx: &CallbackCx<'_>, object: ObjectId<'_>, class: ClassId) {
        exact_allocations::count(cx.info(), object, class);
    }

    fn module_load_started(&self, _cx: &CallbackCx<'_>, module: ModuleId) {
        if let Some(agent) = self.agent() {
            agent.runtime.unloads().module_comes(module);
        }
    }

    fn module_unload_started(&self, _cx: &CallbackCx<'_>, module: ModuleId) {
        exact_allocations::module_unloading(module);
        if let Some(agent) = self.agent() {
            agent.runtime.module_unloading(module);
        }
    }

    fn module_load_finished(
        &self,
        _cx: &CallbackCx<'_>,
        module: ModuleId,
        _status: Result<(), HResult>,
    ) {
        if let Some(agent) = self.running() {
            agent.instrumentation.module_loaded(module);
        }
    }

    fn get_rejit_parameters(
        &self,
        _cx: &CallbackCx<'_>,
        module: ModuleId,
        method: MethodDef,
        control: Option<FunctionControl<'_>>,
    ) {
        if let (Some(manager), Some(control)) = (probes::manager(), control) {
            manager.rejit_parameters(module, method, &control);
        }
    }

    fn rejit_compilation_started(
        &self,
        _cx: &CallbackCx<'_>,
        _function: FunctionId,
        _rejit: ReJitId,
        _safe_to_block: bool,
    ) {
        jit_activity::begin();
    }

    fn rejit_compilation_finished(
        &self,
        _cx: &CallbackCx<'_>,
        function: FunctionId,
        rejit: ReJitId,
        status: Result<(), HResult>,
        _safe_to_block: bool,
    ) {
        jit_activity::end();
        if let Some(manager) = probes::manager() {
            manager.compiled(function, rejit, status);
            // The original body, compiled again, has the number 0.
            if let Some(agent) =
                self.running().filter(|agent| rejit.0 != 0 && tells_il(&agent.config))
            {
                let failed = status.err().map(|hresult| hresult.to_string());
                agent.instrumentation.recompiled(manager, function, failed);
            }
        }
    }

    fn rejit_error(
        &self,
        _cx: &CallbackCx<'_>,
        module: ModuleId,
        method: MethodDef,
        _function: Option<FunctionId>,
        status: HResult,
    ) {
        if let Some(manager) = probes::manager() {
            manager.refused(module, method, status);
        }
    }

    fn jit_inlining(&self, _cx: &CallbackCx<'_>, _caller: FunctionId, callee: FunctionId) -> bool {
        // A session that ends may still ask for methods.
        self.agent().is_none_or(|agent| {
            let is_hooked = agent.phase() != Phase::Stopping && hooks::is_hooked(callee);
            !is_hooked && agent.instrumentation.may_inline(&agent)
        })
    }

    fn exception_unwind_function_enter(&self, _cx: &CallbackCx<'_>, function: FunctionId) {
        hooks::unwinding(function);
    }

    fn exception_unwind_function_leave(&self, _cx: &CallbackCx<'_>) {
        hooks::unwound();
    }

    fn managed_to_unmanaged_transition(
        &self,
        _cx: &CallbackCx<'_>,
        function: Option<FunctionId>,
        reason: TransitionReason,
    ) {
        if let Some(agent) = self.running() {
            hooks::crossed(agent.runtime.ids(), function, false, reason == TransitionReason::CALL);
        }
    }

    fn unmanaged_to_managed_transition(
        &self,
        _cx: &CallbackCx<'_>,
        function: Option<FunctionId>,
        reason: TransitionReason,
    ) {
        if let Some(agent) = self.running() {
            hooks::crossed(agent.runtime.ids(), function, true, reason == TransitionReason::CALL);
        }
    }

    fn module_unload_finished(
        &self,
        _cx: &CallbackCx<'_>,
        module: ModuleId,
        _status: Result<(), HResult>,
    ) {
        hooks::unloaded(module);
        if let Some(manager) = probes::manager() {
            manager.unloaded(module);
        }
        if let Some(agent) = self.agent() {
            agent.events.push(Event::ModuleUnloaded(module));
        }
    }

    fn dynamic_method_unloaded(&self, _cx: &CallbackCx<'_>, function: FunctionId) {
        if let Some(agent) = self.agent() {
            agent.runtime.function_goes(function);
            agent.events.push(Event::FunctionFreed(function));
        }
    }

    fn event_pipe_event_delivered(&self, _cx: &CallbackCx<'_>, event: DeliveredEvent<'_>) {
        if let Some(agent) = self.running() {
            fault::panic_if_asked(&agent, "panic");
            agent.exceptions.on_event(&agent, event.id, event.data);
        }
    }

    fn exception_thrown(&self, _cx: &CallbackCx<'_>, exception: ObjectId<'_>) {
        if let Some(agent) = self.running() {
            fault::panic_if_asked(&agent, "panic");
            let context = Context::new(&agent);
            agent.each_collector(|collector| {
                collector.exception_thrown(&context, Object(exception.address()))
            });
        }
    }

    fn exception_catcher_enter(
        &self,
        _cx: &CallbackCx<'_>,
        function: FunctionId,
        exception: ObjectId<'_>,
    ) {
        if let Some(agent) = self.running() {
            let context = Context::new(&agent);
            agent.each_collector(|collector| {
                collector.exception_caught(
                    &context,
                    Function(function.0),
                    Object(exception.address()),
                );
            });
        }
    }
}
