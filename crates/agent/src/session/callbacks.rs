//! Hands the runtime's callbacks to the engines of the session.

use crate::engines::exact_allocations;
use crate::engines::hooks;
use crate::engines::probes;
use crate::engines::probes::jit_activity;
use crate::host::Phase;
use crate::host::context::Context;
use crate::host::queue::Event;
use crate::os::clock;
use crate::os::threads::{current_tid, is_own};
use crate::session::entry::Entry;
use crate::session::fault;
use corprof::callback::{
    CollectedGenerations, DeliveredEvent, DependentReferences, GcReason, MovedRanges, Roots,
    SuspendReason, TransitionReason,
};
use corprof::control::FunctionControl;
use corprof::ids::{ClassId, FunctionId, ModuleId, ObjectId, RawObjectId, ReJitId, ThreadId};
use corprof::metadata::token::MethodDef;
use corprof::{CallbackCx, HResult, ProfilerCallback, Utf16};
use profilers::trace::tells_il;
use profilers::{Function, Object};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::RuntimeWorkKind;

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
            agent.heap.reported().roots(&agent, roots);
            agent.survivors.reported().roots(&agent, roots);
        }
    }

    fn conditional_weak_table_element_references(
        &self,
        _cx: &CallbackCx<'_>,
        references: DependentReferences<'_>,
    ) {
        if let Some(agent) = self.agent() {
            agent.heap.reported().dependent(&agent, references);
            agent.survivors.reported().dependent(&agent, references);
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
            agent.heap.reported().object(&agent, object, class, references)
                || agent.survivors.reported().object(&agent, object, class, references)
        })
    }

    fn garbage_collection_finished(&self, _cx: &CallbackCx<'_>) {
        if let Some(agent) = self.agent() {
            agent.heap.reported().collection_finished(&agent);
            agent.survivors.reported().collection_finished(&agent);
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
