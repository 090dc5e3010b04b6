//! What all threads did at the ticks of profilers, and at thread snapshots.

mod rows;
mod snapshots;

use super::stage::Stage;
use crate::linux::{
    blocked::{BlockedStacks, PendingTick, Purpose},
    clock::now,
    context::Context,
    frames::Copied,
    held::{HOLD, HeldSample},
    processors::{self, Census, Sharing, Split, Ticked},
    running::near,
    sources::{self, Source},
    thread_snapshots::ThreadSnapshots,
    waiting::{Needs, WaitingSample},
    waits,
};
use session::{SessionRecord, StackId, ThreadState};
use std::collections::{HashMap, VecDeque};
use wire::{BlockedStack, Control, RuntimeWork, WallSample, WallTick};

/// How stacks of all threads are taken where they are walked under suspension.
pub(in crate::linux) const BY_WALKING: &str =
    "suspend and walk, only threads that ran since the last tick";

/// Most collections that are remembered.
const MOST_PAUSES: usize = 256;

/// Ticks of one profiler.
#[derive(Default)]
struct Series {
    /// When the last one was.
    last: Option<u64>,
    /// How the process gets on with its processors; `None` where only rows are made of ticks.
    sharing: Option<Sharing>,
}

/// Ticks of profilers, and the snapshots of `threads`, as far as the agent reads threads for them.
pub(in crate::linux) struct Ticks {
    /// By profiler.
    series: HashMap<&'static str, Series>,
    census: Option<Census>,
    snapshots: ThreadSnapshots,
    /// Stacks of blocked threads, and ticks that name them.
    blocked: BlockedStacks,
    /// Whether the agent reads blocked threads, so that running ones have no stacks of their own.
    reads_blocked: bool,
    /// What threads with these stacks wait for, by their methods.
    stack_states: HashMap<u32, ThreadState>,
    /// Collections, which interrupt what all threads do.
    pauses: VecDeque<(u64, u64)>,
}

impl Ticks {
    pub fn new(reads_blocked: bool) -> Self {
        Self {
            series: HashMap::new(),
            census: None,
            snapshots: ThreadSnapshots::default(),
            blocked: BlockedStacks::default(),
            reads_blocked,
            stack_states: HashMap::new(),
            pauses: VecDeque::new(),
        }
    }

    /// Begins to count how the process gets on with its processors, where something is recorded
    /// that shows it.
    pub fn begin(&mut self, cx: &mut Context) {
        let running: Vec<_> =
            sources::with_samples().map(Source::profiler).filter(|id| cx.runs(id)).collect();
        if running.is_empty() {
            return;
        }
        let pid = cx.target.pid;
        if !processors::is_reported(pid) {
            cx.note(processors::NOT_REPORTED.into());
        }
        for profiler in running {
            self.series.entry(profiler).or_default().sharing = Some(Sharing::new(pid));
        }
        self.census = Census::begin(&cx.target, now());
    }

    /// Whether stacks or ticks wait.
    pub fn is_settled(&self) -> bool {
        self.blocked.is_settled()
    }

    /// When the first tick was whose samples are still to come.
    pub fn first_tick(&self) -> Option<u64> {
        self.blocked.first_tick()
    }

    /// The runtime has collected.
    pub fn collected(&mut self, work: &RuntimeWork) {
        self.pauses.push_back((work.start, work.end));
        if self.pauses.len() > MOST_PAUSES {
            self.pauses.pop_front();
        }
    }

    /// A thread has ended.
    pub fn thread_ended(&mut self, cx: &mut Context, inner: u32, time: u64) {
        let os_tid = cx.target.host_tid(inner);
        self.blocked.ended(inner);
        cx.definitions.thread_ended(os_tid, time);
        sources::thread_ended(&mut cx.sources, os_tid);
    }

    /// The agent walks all threads, and says why.
    pub fn walk_blocked(&mut self, cx: &mut Context, reason: &str) {
        let shown = profilers::PROFILERS.iter().filter(|spec| spec.shows_running);
        let concerned: Vec<&str> =
            shown.map(|spec| spec.id).filter(|profiler| cx.runs(profiler)).collect();
        if concerned.is_empty() {
            return;
        }
        let engine = format!("{BY_WALKING}, because {reason}");
        if std::mem::take(&mut self.reads_blocked) {
            cx.note(format!("stacks of threads are taken by {engine}"));
        }
        for profiler in concerned {
            let (profiler, engine) = (profiler.to_owned(), engine.clone());
            cx.write(&SessionRecord::Engine { profiler, engine });
        }
    }

    /// The stack of a blocked thread has come.
    pub fn blocked_stack(&mut self, cx: &mut Context, stack: BlockedStack) {
        self.blocked.arrived(&stack);
        // It is unwound with the next tick.
        let _ =
            cx.waiting.push(WaitingSample::Blocked(Box::new(Copied::new(stack))), Needs::default());
    }

    /// Finds the managed frames of a stack, from where that stopped before. `ask` is off where the
    /// agent cannot say more.
    pub fn unwind(&mut self, cx: &mut Context, mut copied: Box<Copied<BlockedStack>>, ask: bool) {
        let (id, cut) = (copied.sample.id, copied.sample.cut);
        if !self.blocked.is_waiting(id) {
            return;
        }
        match cx.frames.blocked_stack(&mut cx.definitions, &mut copied, ask) {
            // Another question: the agent has answered the one before.
            Err(needs) => {
                let _ = cx.waiting.push(WaitingSample::Blocked(copied), needs.into());
            }
            Ok(truncated) => {
                if let Some(bytes) = self.blocked.unwound(id, truncated && cut) {
                    // An agent that is gone shows up as such elsewhere.
                    let _ = cx.agent.link.send(&Control::CopyMore(bytes));
                }
            }
        }
    }

    /// A tick of a profiler's collector.
    pub fn thread_tick(&mut self, cx: &Context, profiler: &str, tick: WallTick) {
        // The agent is not believed: a profiler that does not run has no ticks.
        let Some(source) = sources::of_ticks(profiler).filter(|_| cx.runs(profiler)) else {
            return;
        };
        let series = self.series.entry(source.profiler()).or_default();
        let pending = series.arrived(cx, Purpose::Source(source), tick, &self.pauses);
        self.blocked.tick(pending);
    }

    fn process_tick(&mut self, cx: &mut Context, pending: PendingTick) {
        let PendingTick { purpose, tick, previous, splits } = pending;
        match purpose {
            Purpose::Snapshot(all) => self.snapshot_settled(cx, &tick, all),
            Purpose::Source(source) => match source.makes_samples() {
                Some(make) => {
                    let samples = self.tick_samples(cx, source, &tick, previous, &splits);
                    cx.count(source.profiler(), samples.len() as u64);
                    cx.held.add(source.profiler(), make, samples);
                }
                None => self.rows_of_tick(cx, source, &tick, previous),
            },
        }
    }

    /// Samples of the threads of a tick that are of interest. The first tick says only who is
    /// there: it stands for no time yet.
    fn tick_samples(
        &mut self,
        cx: &mut Context,
        source: &Source,
        tick: &WallTick,
        previous: Option<u64>,
        splits: &HashMap<u32, Split>,
    ) -> Vec<HeldSample> {
        let mut samples = Vec::new();
        let Some(previous) = previous.filter(|_| cx.window.holds(tick.time)) else {
            return samples;
        };
        let elapsed = tick.time.saturating_sub(previous);
        let in_gc = in_gc(&self.pauses, previous, tick.time);
        for sample in &tick.threads {
            let os_tid = cx.target.host_tid(sample.os_tid);
            let target = &cx.target;
            let thread = cx.definitions.thread_at(os_tid, tick.time, || target.thread_name(os_tid));
            let (stack, truncated) = cx.frames.walked(&mut cx.definitions, sample.stack);
            if !source.is_of_interest(&mut cx.for_sources(), os_tid, stack) {
                continue;
            }
            let state = self.state_of(cx, os_tid, sample, stack);
            let runs_unseen = self.reads_blocked && sample.state == b'R';
            let base = HeldSample {
                time: tick.time,
                os_tid,
                thread,
                stack,
                weight: elapsed - in_gc,
                state,
                truncated,
                runtime_leaf: false,
                near: if runs_unseen { near(elapsed, HOLD) } else { 0 },
            };
            if in_gc > 0 {
                samples.push(HeldSample { weight: in_gc, state: ThreadState::Gc, ..base });
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
                samples.extend(parts.map(|(weight, state)| HeldSample { weight, state, ..base }));
            } else if base.weight > 0 {
                samples.push(base);
            }
        }
        samples
    }

    /// What a managed thread does or waits for.
    fn state_of(
        &mut self,
        cx: &mut Context,
        os_tid: u32,
        sample: &WallSample,
        stack: StackId,
    ) -> ThreadState {
        if sample.state == b'R' {
            return ThreadState::Running;
        }
        let (frames, definitions) = (&cx.frames, &cx.definitions);
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
                let calls = cx.frames.leaf_waits(sample.stack);
                // What the agent has read of a blocked thread is of the time of its stack.
                let activity = self.blocked.activity(sample.stack);
                waits::classify_leaf(activity.unwrap_or_else(|| cx.target.activity(os_tid)), calls)
            }
            known => known,
        }
    }
}

impl Series {
    /// What the kernel says at the time of a tick is read at once; the rest waits for the stacks
    /// that the tick names.
    fn arrived(
        &mut self,
        cx: &Context,
        purpose: Purpose,
        tick: WallTick,
        pauses: &VecDeque<(u64, u64)>,
    ) -> PendingTick {
        let target = &cx.target;
        let previous = self.last.replace(tick.time.max(cx.window.start));
        let mut splits = HashMap::new();
        if let Some(sharing) = &mut self.sharing {
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
            if let Some(previous) = previous.filter(|_| cx.window.holds(tick.time)) {
                let time = tick.time.saturating_sub(previous) - in_gc(pauses, previous, tick.time);
                let ready = ticked.iter().filter(|thread| thread.ready);
                splits.extend(
                    ready.map(|thread| (thread.os_tid, sharing.split(thread.os_tid, time))),
                );
            }
        }
        PendingTick { purpose, tick, previous, splits }
    }
}

/// How much of a time was spent in collections that have been reported.
fn in_gc(pauses: &VecDeque<(u64, u64)>, from: u64, to: u64) -> u64 {
    let parts = pauses.iter().map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from)));
    parts.sum::<u64>().min(to.saturating_sub(from))
}

impl Stage for Ticks {
    /// Processes the ticks whose stacks are known.
    fn settle(&mut self, cx: &mut Context, _all: bool) {
        let unread = cx.frames.take_unread();
        cx.dropped("stacks of blocked threads that could not be read", unread);
        while let Some(pending) = self.blocked.next_tick() {
            self.process_tick(cx, pending);
        }
        for id in self.blocked.take_old() {
            cx.frames.forget_blocked(id);
        }
    }

    fn second(&mut self, cx: &mut Context) {
        // Nothing can be read of a process that has ended.
        if let Some(census) = self.census.as_mut().filter(|_| cx.target.is_alive()) {
            let used = census.advance(&cx.target, now());
            cx.write(&SessionRecord::Processors(used));
        }
    }
}
