//! Stacks of blocked threads, from their arrival until they are unwound, and what waits for them.

use super::{processors::Split, sources::Source, target::Activity, thread_snapshots::OsThread};
use session::{StackId, ThreadId};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};
use unwind::Needed;
use wire::{BlockedStack, WallTick};

/// How long the stacks of running threads are remembered: longer than samples are held before they
/// are written.
const REMEMBERED: u64 = 2_000_000_000;

/// Most of these for each thread.
const MOST_REMEMBERED: usize = 256;

/// Most bytes of stacks that wait for the agent.
const MOST_WAITING: usize = 128 << 20;

/// Stacks that it takes to tell whether too many are cut, and how many of them may be.
const ENOUGH: u64 = 20;
const CUT_SHARE: u64 = 100;

/// A stack that waits for the agent to say what code stands at its addresses.
pub(super) struct WaitingStack {
    pub stack: BlockedStack,
    pub needs: Needed,
    pub since: Instant,
}

/// What the threads of a tick are for.
pub(super) enum Purpose {
    /// The profiler `wall`.
    Wall,
    /// The profiler `threadpool`.
    Pool,
    /// The profiler `threads`, with what the kernel said of all threads at that time.
    Snapshot(Vec<OsThread>),
    /// Another profiler.
    Source(&'static Source),
}

/// A tick that waits until all its stacks are known.
pub(super) struct PendingTick {
    pub purpose: Purpose,
    pub tick: WallTick,
    /// When the tick before was; `None` for the first.
    pub previous: Option<u64>,
    /// How the time of ready threads was spent, by their ids on this machine.
    pub splits: HashMap<u32, Split>,
}

/// The stack of a thread that ran, out of a CPU sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunningStack {
    pub time: u64,
    pub stack: StackId,
    pub truncated: bool,
    /// Whether the leaf is native code of the runtime.
    pub runtime_leaf: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct BlockedStacks {
    waiting: HashMap<u32, WaitingStack>,
    /// The system call of each stack; [`Activity::Unknown`] where the thread waits outside of one.
    calls: HashMap<u32, Activity>,
    /// The last stack of each thread, by its id in the target.
    last: HashMap<u32, u32>,
    /// Stacks that no later tick can name, with the number of ticks that had come before that was
    /// so.
    old: VecDeque<(u64, u32)>,
    ticks: VecDeque<PendingTick>,
    /// Ticks that have come, and those of them that were taken.
    ticks_came: u64,
    ticks_taken: u64,
    running: HashMap<ThreadId, VecDeque<RunningStack>>,
    /// Stacks that were unwound, and those of them that were deeper than the copy, since the size
    /// of copies was changed.
    unwound: u64,
    cut: u64,
    /// Bytes that are copied of each.
    copied: Option<u32>,
}

impl BlockedStacks {
    /// A stack has come. Ticks that were sent before may still name the thread's one before.
    pub fn arrived(&mut self, stack: BlockedStack) {
        let call = stack.call.map_or(Activity::Unknown, Activity::of);
        self.calls.insert(stack.id, call);
        if let Some(before) = self.last.insert(stack.os_tid, stack.id) {
            self.old.push_back((self.ticks_came, before));
        }
        let waiting = WaitingStack { needs: Needed::default(), since: Instant::now(), stack };
        self.waiting.insert(waiting.stack.id, waiting);
    }

    /// A thread has ended; `inner` is its id in the target.
    pub fn ended(&mut self, inner: u32) {
        self.old.extend(self.last.remove(&inner).map(|stack| (self.ticks_came, stack)));
    }

    /// Takes the stacks that can be unwound now: `ready` says so of what they need.
    pub fn take_ready(
        &mut self,
        mut ready: impl FnMut(&WaitingStack) -> bool,
    ) -> Vec<WaitingStack> {
        let mut ids: Vec<u32> =
            self.waiting.iter().filter(|(_, one)| ready(one)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.iter().filter_map(|id| self.waiting.remove(id)).collect()
    }

    /// Whether so much waits that no answer should be waited for.
    pub fn is_crowded(&self) -> bool {
        self.waiting.values().map(|waiting| waiting.stack.bytes.len()).sum::<usize>() > MOST_WAITING
    }

    /// A stack waits again.
    pub fn wait(&mut self, waiting: WaitingStack) {
        self.waiting.insert(waiting.stack.id, waiting);
    }

    /// What the waiting stacks need.
    pub fn needs(&self) -> impl Iterator<Item = &Needed> {
        self.waiting.values().map(|waiting| &waiting.needs)
    }

    /// Whether nothing waits.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.ticks.is_empty()
    }

    /// A tick has come. Ticks are processed in their order.
    pub fn tick(&mut self, tick: PendingTick) {
        self.ticks_came += 1;
        self.ticks.push_back(tick);
    }

    /// The next tick, if all its stacks are known.
    pub fn next_tick(&mut self) -> Option<PendingTick> {
        let next = self.ticks.front()?;
        let waits = next
            .tick
            .threads
            .iter()
            .any(|thread| thread.stack.is_some_and(|id| self.waiting.contains_key(&id)));
        if waits {
            return None;
        }
        self.ticks_taken += 1;
        self.ticks.pop_front()
    }

    /// When the first tick was that is not processed.
    pub fn first_tick(&self) -> Option<u64> {
        self.ticks.iter().map(|tick| tick.tick.time).min()
    }

    /// Stacks that are not needed any more.
    pub fn take_old(&mut self) -> Vec<u32> {
        let mut old = Vec::new();
        while let Some((_, id)) = self.old.pop_front_if(|(ticks, _)| *ticks <= self.ticks_taken) {
            self.calls.remove(&id);
            self.waiting.remove(&id);
            old.push(id);
        }
        old
    }

    /// What a thread with this stack does in the kernel; `None` where the stack is no copy.
    pub fn activity(&self, stack: Option<u32>) -> Option<Activity> {
        self.calls.get(&stack?).copied()
    }

    /// A stack was unwound. Says how many bytes should be copied from now on, if more.
    pub fn unwound(&mut self, truncated: bool) -> Option<u32> {
        self.unwound += 1;
        self.cut += u64::from(truncated);
        let copied = *self.copied.get_or_insert(BlockedStack::FIRST_BYTES);
        if self.unwound < ENOUGH
            || self.cut * CUT_SHARE <= self.unwound
            || copied >= BlockedStack::MOST_BYTES
        {
            return None;
        }
        (self.unwound, self.cut) = (0, 0);
        let more = copied.saturating_mul(2).min(BlockedStack::MOST_BYTES);
        self.copied = Some(more);
        Some(more)
    }

    /// A thread ran, and was sampled.
    pub fn ran(&mut self, thread: ThreadId, stack: RunningStack) {
        let of_thread = self.running.entry(thread).or_default();
        if of_thread.len() >= MOST_REMEMBERED {
            of_thread.pop_front();
        }
        of_thread.push_back(stack);
    }

    /// The stack that a thread had when it ran at a time, or at most so much earlier or later.
    pub fn running_at(&self, thread: ThreadId, time: u64, apart: u64) -> Option<RunningStack> {
        let near =
            self.running.get(&thread)?.iter().min_by_key(|stack| stack.time.abs_diff(time))?;
        (near.time.abs_diff(time) <= apart).then_some(*near)
    }

    /// Forgets stacks of running threads from long before a time.
    pub fn forget_running(&mut self, time: u64) {
        let from = time.saturating_sub(REMEMBERED);
        self.running.retain(|_, stacks| {
            while stacks.front().is_some_and(|stack| stack.time < from) {
                stacks.pop_front();
            }
            !stacks.is_empty()
        });
    }
}

/// How far the CPU sample of a thread may be from a tick at which it ran: about the time between
/// two ticks, and no less than that between two CPU samples.
pub(super) fn near(elapsed: u64, limit: Duration) -> u64 {
    const LEAST: u64 = 20_000_000;
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    elapsed.clamp(LEAST, limit.max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::WallSample;

    fn stack(id: u32, os_tid: u32) -> BlockedStack {
        BlockedStack {
            id,
            os_tid,
            time: 1,
            ip: 1,
            sp: 1,
            call: None,
            bytes: Vec::new(),
            cut: false,
        }
    }

    fn tick(time: u64, stacks: &[u32]) -> PendingTick {
        let sample = |id: &u32| WallSample { os_tid: *id, stack: Some(*id), cpu: 0, state: b'S' };
        let tick = WallTick { time, stopped: 0, threads: stacks.iter().map(sample).collect() };
        PendingTick { purpose: Purpose::Wall, tick, previous: None, splits: HashMap::new() }
    }

    #[test]
    fn ticks_wait_for_their_stacks_and_keep_their_order() {
        let mut stacks = BlockedStacks::default();
        stacks.arrived(stack(1, 7));
        stacks.tick(tick(10, &[1]));
        stacks.tick(tick(20, &[]));
        assert!(stacks.next_tick().is_none() && stacks.first_tick() == Some(10));
        assert!(stacks.take_ready(|_| false).is_empty());
        let ready = stacks.take_ready(|_| true);
        assert_eq!(ready.iter().map(|one| one.stack.id).collect::<Vec<_>>(), [1]);
        assert_eq!(stacks.next_tick().unwrap().tick.time, 10);
        assert_eq!(stacks.next_tick().unwrap().tick.time, 20);
        assert!(stacks.next_tick().is_none() && stacks.is_settled());
    }

    #[test]
    fn what_no_tick_names_any_more_is_forgotten() {
        let mut stacks = BlockedStacks::default();
        stacks.arrived(stack(1, 7));
        stacks.tick(tick(10, &[1]));
        stacks.arrived(stack(2, 7));
        assert!(stacks.take_old().is_empty(), "a tick that waits names it");
        stacks.take_ready(|waiting| waiting.stack.id == 1);
        stacks.next_tick().unwrap();
        assert_eq!(stacks.take_old(), [1]);
        assert_eq!(
            (stacks.activity(Some(1)), stacks.activity(Some(2))),
            (None, Some(Activity::Unknown))
        );
        stacks.ended(7);
        assert_eq!(stacks.take_old(), [2]);
        // The number comes again as another thread.
        stacks.arrived(stack(3, 7));
        assert!(stacks.take_old().is_empty());
        // Later ticks that wait hold back nothing that only earlier ones name.
        stacks.tick(tick(20, &[3]));
        stacks.arrived(stack(4, 7));
        stacks.tick(tick(30, &[4]));
        stacks.take_ready(|waiting| waiting.stack.id == 3);
        stacks.next_tick().unwrap();
        assert!(stacks.next_tick().is_none());
        assert_eq!(stacks.take_old(), [3]);
    }

    #[test]
    fn the_nearest_sample_counts_if_it_is_near() {
        let mut stacks = BlockedStacks::default();
        for time in [100, 200, 300] {
            let stack = StackId(time as u32);
            stacks.ran(
                ThreadId(7),
                RunningStack { time, stack, truncated: false, runtime_leaf: false },
            );
        }
        let at = |time, apart| stacks.running_at(ThreadId(7), time, apart).map(|stack| stack.time);
        assert_eq!(
            (at(240, 50), at(260, 50), at(400, 50), at(350, 50)),
            (Some(200), Some(300), None, Some(300))
        );
        assert_eq!(stacks.running_at(ThreadId(8), 200, 50), None);
        stacks.forget_running(REMEMBERED + 250);
        assert_eq!(stacks.running_at(ThreadId(7), 100, 50), None);
        assert!(stacks.running_at(ThreadId(7), 300, 50).is_some());
    }

    #[test]
    fn more_is_copied_where_many_stacks_are_deeper() {
        let mut stacks = BlockedStacks::default();
        assert!((0..100).all(|_| stacks.unwound(false).is_none()));
        assert_eq!(stacks.unwound(true), None);
        assert_eq!(stacks.unwound(true), Some(2 * BlockedStack::FIRST_BYTES));
        let grown: Vec<u32> = (0..1000).filter_map(|_| stacks.unwound(true)).collect();
        assert_eq!(grown, [BlockedStack::MOST_BYTES], "not beyond the limit");
    }
}
