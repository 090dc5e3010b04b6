//! What each kind of data goes through, from its source to the session.

mod calls;
mod cpu;
mod events;
mod exceptions;
mod heap;
mod stage;
mod ticks;
mod trace;

pub(super) use self::{
    calls::Calls,
    cpu::Cpu,
    events::EventPipe,
    exceptions::Exceptions,
    heap::Heap,
    ticks::{BY_WALKING, Ticks},
    trace::Trace,
};

use self::stage::Stage;
use super::{
    context::Context,
    link::FromAgent,
    waiting::{Released, WaitingSample},
};
use std::os::fd::OwnedFd;
use wire::{LogLevel, Record, RuntimeWork, RuntimeWorkKind, frame::FrameError};

/// All of them.
pub(super) struct Stages {
    pub cpu: Cpu,
    pub ticks: Ticks,
    pub heap: Heap,
    pub events: EventPipe,
    pub exceptions: Exceptions,
    pub calls: Calls,
    pub trace: Trace,
}

impl Stages {
    fn all(&mut self) -> [&mut dyn Stage; 7] {
        let Self { cpu, ticks, heap, events, exceptions, calls, trace } = self;
        [cpu, events, ticks, exceptions, heap, calls, trace]
    }

    /// Whether the recording was for something that is done, or cannot be done.
    pub fn are_over(&mut self) -> bool {
        self.all().iter().any(|stage| stage.is_over())
    }

    /// Does what is due once a second.
    pub fn second(&mut self, cx: &mut Context) {
        self.all().into_iter().for_each(|stage| stage.second(cx));
    }

    /// Takes what need not wait any longer to the session; everything if `all` is set, because
    /// nothing more comes.
    pub fn settle(&mut self, cx: &mut Context, all: bool) {
        self.resolve(cx, all);
        self.all().into_iter().for_each(|stage| stage.settle(cx, all));
    }

    /// Hands on the samples whose addresses are known by now, and asks about those that are not.
    fn resolve(&mut self, cx: &mut Context, all: bool) {
        let all = all || cx.agent.closed;
        for Released { sample, late } in cx.waiting.release(&mut cx.frames, all) {
            match sample {
                WaitingSample::Cpu(sample) => self.cpu.unwind(cx, sample, !late),
                WaitingSample::Blocked(stack) => self.ticks.unwind(cx, stack, !late),
                WaitingSample::Event(sample) => self.events.resolved(sample),
            }
        }
        cx.ask();
    }

    /// A tick has come: it is processed at once, if its stacks are known.
    fn settle_ticks(&mut self, cx: &mut Context) {
        self.resolve(cx, false);
        self.ticks.settle(cx, false);
    }

    /// Takes something that the agent said.
    pub fn take(&mut self, cx: &mut Context, event: FromAgent) {
        match event {
            FromAgent::Frame(records, descriptors) => {
                let mut descriptors = descriptors.into_iter();
                for record in records {
                    self.record(cx, record, &mut descriptors);
                }
            }
            FromAgent::Closed(error) => {
                // An end between two frames is how an agent leaves. After its goodbye the
                // connection is reset where it has not read all that was asked of it.
                let has_left = matches!(error, FrameError::Closed) || cx.agent.bye.is_some();
                if !has_left && cx.target.is_alive() {
                    cx.note(format!("the connection to the agent broke: {error}"));
                }
                cx.agent.closed = true;
            }
        }
    }

    fn record(
        &mut self,
        cx: &mut Context,
        record: Record,
        descriptors: &mut impl Iterator<Item = OwnedFd>,
    ) {
        let Self { cpu, ticks, heap, events: _, exceptions, calls, trace } = self;
        match record {
            // Comparisons are for checks of ours, and no recording asks for them.
            Record::Hello(_) | Record::Comparison(_) => {}
            Record::Flushed { ended, .. } => {
                cx.window.flushed();
                cx.agent.flushed = Some(ended);
            }
            Record::Module(module) => cx.frames.module(&mut cx.definitions, module),
            Record::Class(class) => cx.frames.class(class),
            Record::Method(method) => cx.frames.method(&mut cx.definitions, method),
            Record::Code(code) => cx.frames.code(code),
            Record::NotCode(ip) => cx.frames.not_code(ip),
            Record::CodeFreed(start) => cx.code_freed(start),
            Record::ThreadStarted(thread) => cx.thread_started(thread),
            Record::ThreadNamed { os_tid, name } => cx.thread_named(os_tid, name),
            Record::ThreadEnded { os_tid, time } => ticks.thread_ended(cx, os_tid, time),
            Record::Stack(stack) => cx.frames.walked_stack(&mut cx.definitions, &stack),
            Record::CpuSample(sample) => cpu.walked(cx, &sample),
            Record::ThreadTick { profiler, tick } => {
                ticks.thread_tick(cx, &profiler, tick);
                self.settle_ticks(cx);
            }
            Record::ThreadSnapshot(snapshot) => {
                ticks.thread_snapshot(cx, snapshot);
                self.settle_ticks(cx);
            }
            Record::BlockedStack(stack) => ticks.blocked_stack(cx, stack),
            Record::WalkBlocked { reason } => ticks.walk_blocked(cx, &reason),
            Record::Exception(exception) => exceptions.thrown(cx, exception),
            Record::ExceptionCaught(caught) => exceptions.caught(cx, &caught),
            Record::ExceptionCounts { time, counts } => exceptions.counts(cx, time, counts),
            Record::Calls(grown) => calls.grown(cx, &grown),
            Record::AllocatedObjects(allocated) => calls.allocated(cx, allocated),
            Record::Instrumented(method) => trace.instrumented(cx, method),
            Record::Rewritten(method) => trace.rewritten(cx, method),
            Record::Recompiled(method) => trace.recompiled(cx, method),
            Record::Applied => trace.rules_applied(cx),
            Record::Traced(calls) => trace.traced(cx, calls),
            Record::SingleCalls(calls) => trace.single_calls(cx, calls),
            Record::Parameters(method) => trace.parameters(cx, method),
            Record::CallsWithArguments(calls) => trace.calls_with_arguments(cx, calls),
            Record::RulesEnded => trace.rules_ended(),
            Record::RuntimeWork(work) => self.runtime_work(cx, work),
            Record::SampleRing(layout) => cpu.ring(cx, layout, descriptors.next()),
            Record::EngineFallback { reason } => cpu.fallback(cx, reason),
            Record::Status(status) => cx.statistics.agent_says(status),
            Record::Log { level, message } => {
                if level >= LogLevel::Warning {
                    cx.note(message);
                }
            }
            Record::Bye(bye) => {
                cx.statistics.agent_says(bye.status);
                cx.agent.bye = Some(bye.reason);
            }
            Record::HeapBegin { time, .. } => heap.begins(cx, time),
            Record::HeapChunk { objects, bytes, .. } => heap.chunk(cx, objects, bytes),
            Record::HeapClasses { classes, .. } => heap.classes(cx, classes),
            Record::HeapMethods { methods, .. } => heap.methods(cx, methods),
            Record::HeapStatics { fields, .. } => heap.statics(cx, fields),
            Record::HeapFields { classes, .. } => heap.fields(cx, classes),
            Record::AsyncStateMachines { machines, .. } => heap.machines(cx, machines),
            Record::HeapEnd(end) => heap.ends(cx, end),
            Record::SurvivorsBegin { .. } => heap.survivors_begin(),
            Record::SurvivorsEnd(end) => heap.survivors_end(cx, end),
        }
    }

    /// A thread has worked for the runtime.
    fn runtime_work(&mut self, cx: &mut Context, work: RuntimeWork) {
        if work.kind == RuntimeWorkKind::Gc {
            self.heap.collected(cx, &work);
            self.ticks.collected(&work);
        }
        if work.kind != RuntimeWorkKind::Suspended {
            let os_tid = cx.target.host_tid(work.os_tid);
            cx.held.worked(os_tid, work);
        }
    }
}
