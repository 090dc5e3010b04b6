//! What all threads do at a tick.

use super::*;

/// How workers of the thread pool are named, from .NET 6 on.
const POOL_THREADS: [&str; 2] = [".NET TP Worker", ".NET ThreadPool"];

/// Most intervals of runtime work remembered for each thread.
const MAX_WORK: usize = 256;

impl Recorder {
    pub(super) fn runtime_work(&mut self, work: RuntimeWork) {
        let os_tid = self.sources.target.host_tid(work.os_tid);
        if work.kind == RuntimeWorkKind::Gc {
            if self.heap_snapshots.begun > 0 {
                self.write(&SessionRecord::Collection { start: work.start, end: work.end });
            }
            self.gc_pauses.push_back((work.start, work.end));
            if self.gc_pauses.len() > MAX_WORK {
                self.gc_pauses.pop_front();
            }
        }
        if work.kind != RuntimeWorkKind::Suspended {
            let of_thread = self.work.entry(os_tid).or_default();
            of_thread.push_back(RuntimeWork { os_tid, ..work });
            if of_thread.len() > MAX_WORK {
                of_thread.pop_front();
            }
        }
    }

    /// The agent walks all threads, and says why.
    pub(super) fn walk_blocked(&mut self, reason: &str) {
        let concerned =
            ["wall", "threads", "threadpool"].into_iter().filter(|profiler| self.runs(profiler));
        let concerned: Vec<&str> = concerned.collect();
        if concerned.is_empty() {
            return;
        }
        let engine = format!("{BY_WALKING}, because {reason}");
        if std::mem::take(&mut self.reads_blocked) {
            self.note(format!("stacks of threads are taken by {engine}"));
        }
        for profiler in concerned {
            let (profiler, engine) = (profiler.to_owned(), engine.clone());
            self.write(&SessionRecord::Engine { profiler, engine });
        }
    }

    pub(super) fn wall_tick(&mut self, tick: WallTick) {
        let previous = self.last_wall.replace(tick.time.max(self.window.start));
        let mut sharing = std::mem::take(&mut self.wall_sharing);
        self.tick_arrived(Purpose::Wall, tick, previous, &mut sharing);
        self.wall_sharing = sharing;
    }

    pub(super) fn pool_tick(&mut self, tick: WallTick) {
        let previous = self.last_pool.replace(tick.time.max(self.window.start));
        let mut sharing = std::mem::take(&mut self.pool_sharing);
        self.tick_arrived(Purpose::Pool, tick, previous, &mut sharing);
        self.pool_sharing = sharing;
    }

    /// What the kernel says at the time of a tick is read at once; the rest waits for the stacks
    /// that the tick names.
    pub(super) fn tick_arrived(
        &mut self,
        purpose: Purpose,
        tick: WallTick,
        previous: Option<u64>,
        sharing: &mut Sharing,
    ) {
        let target = &self.sources.target;
        let ticked: Vec<Ticked> = tick
            .threads
            .iter()
            .map(|sample| Ticked {
                os_tid: target.host_tid(sample.os_tid),
                cpu: sample.cpu,
                ready: sample.state == b'R',
            })
            .collect();
        sharing.tick(target, tick.time.saturating_sub(previous.unwrap_or(tick.time)), &ticked);
        let mut splits = HashMap::new();
        if let Some(previous) = previous.filter(|_| self.window.holds(tick.time)) {
            let time = tick.time.saturating_sub(previous) - self.in_gc(previous, tick.time);
            let ready = ticked.iter().filter(|thread| thread.ready);
            splits.extend(ready.map(|thread| (thread.os_tid, sharing.split(thread.os_tid, time))));
        }
        self.blocked.tick(PendingTick { purpose, tick, previous, splits });
        self.resolve(false);
        self.settle_ticks();
    }

    /// How much of a time was spent in collections that have been reported.
    pub(super) fn in_gc(&self, from: u64, to: u64) -> u64 {
        let parts = self
            .gc_pauses
            .iter()
            .map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from)));
        parts.sum::<u64>().min(to.saturating_sub(from))
    }

    /// The stack of a blocked thread has come. It is unwound with the next tick.
    pub(super) fn blocked_stack(&mut self, stack: BlockedStack) {
        self.blocked.arrived(&stack);
        let _ = self.waiting.push(WaitingSample::Blocked(Box::new(stack)), Needs::default());
    }

    /// Finds the managed frames of a stack. `ask` is off where the agent cannot say more.
    pub(super) fn unwind_blocked(&mut self, stack: Box<BlockedStack>, ask: bool) {
        if !self.blocked.is_waiting(stack.id) {
            return;
        }
        match self.frames.blocked_stack(&mut self.definitions, &stack, ask) {
            // Another question: the agent has answered the one before.
            Err(needs) => {
                let _ = self.waiting.push(WaitingSample::Blocked(stack), needs.into());
            }
            Ok(truncated) => {
                if let Some(bytes) = self.blocked.unwound(stack.id, truncated && stack.cut) {
                    // An agent that is gone shows up as such elsewhere.
                    let _ = self.sources.link.send(&Control::CopyMore(bytes));
                }
            }
        }
    }

    /// Processes the ticks whose stacks are known.
    pub(super) fn settle_ticks(&mut self) {
        let unread = self.frames.take_unread();
        self.drop_sample("stacks of blocked threads that could not be read", unread);
        while let Some(pending) = self.blocked.next_tick() {
            self.process_tick(pending);
        }
        for id in self.blocked.take_old() {
            self.frames.forget_blocked(id);
        }
    }

    pub(super) fn process_tick(&mut self, pending: PendingTick) {
        let PendingTick { purpose, tick, previous, splits } = pending;
        match purpose {
            Purpose::Wall => {
                let samples = self.tick_samples(&tick, previous, &splits, |_, _, _| true);
                self.count("wall", samples.len() as u64);
                self.wall.extend(samples);
            }
            Purpose::Pool => {
                let samples = self.tick_samples(&tick, previous, &splits, Self::is_pool_thread);
                self.count("threadpool", samples.len() as u64);
                self.pool.extend(samples);
            }
            Purpose::Snapshot(all) => self.thread_look_settled(&tick, all),
        }
    }

    /// Whether a thread is a worker of the thread pool: by its name, or by what it was ever seen to
    /// do.
    pub(super) fn is_pool_thread(&mut self, os_tid: u32, stack: StackId) -> bool {
        if self.pool_threads.contains(&os_tid) {
            return true;
        }
        let name = self.definitions.thread_name(os_tid).unwrap_or_default();
        let is_it = POOL_THREADS.iter().any(|known| name.starts_with(known))
            || self
                .frames
                .leaf_names(&self.definitions, stack)
                .any(|(ty, _)| waits::is_of_pool(ty));
        if is_it {
            self.pool_threads.insert(os_tid);
        }
        is_it
    }

    /// Samples of the threads of a tick that are wanted. The first tick says only who is there: it
    /// stands for no time yet.
    pub(super) fn tick_samples(
        &mut self,
        tick: &WallTick,
        previous: Option<u64>,
        splits: &HashMap<u32, Split>,
        wanted: impl Fn(&mut Self, u32, StackId) -> bool,
    ) -> Vec<PendingSample> {
        let mut samples = Vec::new();
        let Some(previous) = previous.filter(|_| self.window.holds(tick.time)) else {
            return samples;
        };
        let elapsed = tick.time.saturating_sub(previous);
        let in_gc = self.in_gc(previous, tick.time);
        for sample in &tick.threads {
            let os_tid = self.sources.target.host_tid(sample.os_tid);
            let target = &self.sources.target;
            let thread =
                self.definitions.thread_at(os_tid, tick.time, || target.thread_name(os_tid));
            let (stack, truncated) = self.frames.walked(&mut self.definitions, sample.stack);
            if !wanted(self, os_tid, stack) {
                continue;
            }
            let state = self.state_of(os_tid, sample, stack);
            let base = PendingSample {
                time: tick.time,
                os_tid,
                thread,
                stack,
                weight: elapsed - in_gc,
                state,
                truncated,
                runtime_leaf: false,
                near: if self.reads_blocked && sample.state == b'R' {
                    near(elapsed, HOLD)
                } else {
                    0
                },
            };
            if in_gc > 0 {
                samples.push(PendingSample { weight: in_gc, state: ThreadState::Gc, ..base });
            }
            if state == ThreadState::Running {
                let split = splits
                    .get(&os_tid)
                    .map_or_else(|| Split::all_running(base.weight), |split| split.of(base.weight));
                let parts = [
                    (split.running, ThreadState::Running),
                    (split.no_processor, ThreadState::NoProcessor),
                    (split.throttled, ThreadState::Throttled),
                ];
                let parts = parts.into_iter().filter(|(weight, _)| *weight > 0);
                samples.extend(parts.map(|(weight, state)| PendingSample {
                    weight,
                    state,
                    ..base
                }));
            } else if base.weight > 0 {
                samples.push(base);
            }
        }
        samples
    }

    /// What a managed thread does or waits for.
    pub(super) fn state_of(
        &mut self,
        os_tid: u32,
        sample: &WallSample,
        stack: StackId,
    ) -> ThreadState {
        if sample.state == b'R' {
            return ThreadState::Running;
        }
        let (frames, definitions) = (&self.frames, &self.definitions);
        if frames.is_unread(definitions, stack) {
            return ThreadState::Other;
        }
        let by_names = self
            .stack_states
            .entry(stack.0)
            .or_insert_with(|| waits::classify(frames.leaf_names(definitions, stack)));
        match *by_names {
            // It depends on the thread alone, each time.
            ThreadState::Other => {
                let calls = self.frames.leaf_waits(sample.stack);
                // What the agent has read of a blocked thread is of the time of its stack.
                let activity = self.blocked.activity(sample.stack);
                waits::classify_leaf(
                    activity.unwrap_or_else(|| self.sources.target.activity(os_tid)),
                    calls,
                )
            }
            known => known,
        }
    }
}
