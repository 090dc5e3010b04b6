//! What the agent says.

use super::*;

/// How long what the agent says is taken at a time, before something else has its turn.
const TAKE_LIMIT: Duration = Duration::from_millis(100);

impl Recorder {
    /// Takes what the agent said, for a moment: where more comes than can be taken, all the rest
    /// has its turn nevertheless.
    pub(super) fn take_agent(&mut self) {
        let began = Instant::now();
        while let Some(event) = self.early.pop_front().or_else(|| self.sources.link.try_next()) {
            self.take_from_agent(event);
            if self.closed || began.elapsed() > TAKE_LIMIT {
                return;
            }
        }
    }

    pub(super) fn take_from_agent(&mut self, event: FromAgent) {
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

    pub(super) fn record(
        &mut self,
        record: Record,
        descriptors: &mut impl Iterator<Item = OwnedFd>,
    ) {
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
                self.waiting.code_freed();
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
            Record::BlockedStack(stack) => self.blocked_stack(stack),
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

    pub(super) fn thread_started(&mut self, thread: wire::ThreadStarted) {
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

    pub(super) fn thread_ended(&mut self, inner: u32, time: u64) {
        let os_tid = self.sources.target.host_tid(inner);
        self.blocked.ended(inner);
        self.definitions.thread_ended(os_tid, time);
        self.pool_threads.remove(&os_tid);
    }
}
