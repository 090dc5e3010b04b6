//! Stacks of blocked threads, from their arrival until they are unwound, and what waits for them.

use super::{processors::Split, sources::Source, target::Activity, thread_snapshots::OsThread};
use std::collections::{HashMap, HashSet, VecDeque};
use wire::{BlockedStack, WallTick};

/// Stacks that it takes to tell whether too many are cut, and how many of them may be.
const ENOUGH: u64 = 20;
const CUT_SHARE: u64 = 100;

/// What the threads of a tick are for.
pub(super) enum Purpose {
    /// A thread snapshot, with what the kernel said of all threads at that time.
    Snapshot(Vec<OsThread>),
    /// What the source of a profiler makes of them.
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

/// All of them.
#[derive(Default)]
pub(super) struct BlockedStacks {
    /// Stacks that are not unwound.
    waiting: HashSet<u32>,
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
    /// Stacks that were unwound, and those of them that were deeper than the copy, since the size
    /// of copies was changed.
    unwound: u64,
    cut: u64,
    /// Bytes that are copied of each.
    copied: Option<u32>,
}

impl BlockedStacks {
    /// A stack has come. Ticks that were sent before may still name the thread's one before.
    pub fn arrived(&mut self, stack: &BlockedStack) {
        let call = stack.call.map_or(Activity::Unknown, Activity::Call);
        self.calls.insert(stack.id, call);
        if let Some(before) = self.last.insert(stack.os_tid, stack.id) {
            self.old.push_back((self.ticks_came, before));
        }
        self.waiting.insert(stack.id);
    }

    /// A thread has ended; `inner` is its id in the target.
    pub fn ended(&mut self, inner: u32) {
        self.old.extend(self.last.remove(&inner).map(|stack| (self.ticks_came, stack)));
    }

    /// Whether a stack is not unwound, and can still be named.
    pub fn is_waiting(&self, stack: u32) -> bool {
        self.waiting.contains(&stack)
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
            .any(|thread| thread.stack.is_some_and(|id| self.waiting.contains(&id)));
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
    pub fn unwound(&mut self, stack: u32, truncated: bool) -> Option<u32> {
        self.waiting.remove(&stack);
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
        PendingTick {
            purpose: Purpose::Snapshot(Vec::new()),
            tick,
            previous: None,
            splits: HashMap::new(),
        }
    }

    #[test]
    fn ticks_wait_for_their_stacks_and_keep_their_order() {
        let mut stacks = BlockedStacks::default();
        stacks.arrived(&stack(1, 7));
        stacks.tick(tick(10, &[1]));
        stacks.tick(tick(20, &[]));
        assert!(stacks.next_tick().is_none() && stacks.first_tick() == Some(10));
        assert!(stacks.is_waiting(1) && !stacks.is_waiting(2));
        stacks.unwound(1, false);
        assert_eq!(stacks.next_tick().unwrap().tick.time, 10);
        assert_eq!(stacks.next_tick().unwrap().tick.time, 20);
        assert!(stacks.next_tick().is_none() && stacks.is_settled());
    }

    #[test]
    fn what_no_tick_names_any_more_is_forgotten() {
        let mut stacks = BlockedStacks::default();
        stacks.arrived(&stack(1, 7));
        stacks.tick(tick(10, &[1]));
        stacks.arrived(&stack(2, 7));
        assert!(stacks.take_old().is_empty(), "a tick that waits names it");
        stacks.unwound(1, false);
        stacks.next_tick().unwrap();
        assert_eq!(stacks.take_old(), [1]);
        assert_eq!(
            (stacks.activity(Some(1)), stacks.activity(Some(2))),
            (None, Some(Activity::Unknown))
        );
        stacks.ended(7);
        assert_eq!(stacks.take_old(), [2]);
        // The number comes again as another thread.
        stacks.arrived(&stack(3, 7));
        assert!(stacks.take_old().is_empty());
        // Later ticks that wait hold back nothing that only earlier ones name.
        stacks.tick(tick(20, &[3]));
        stacks.arrived(&stack(4, 7));
        stacks.tick(tick(30, &[4]));
        stacks.unwound(3, false);
        stacks.next_tick().unwrap();
        assert!(stacks.next_tick().is_none());
        assert_eq!(stacks.take_old(), [3]);
    }

    #[test]
    fn more_is_copied_where_many_stacks_are_deeper() {
        let mut stacks = BlockedStacks::default();
        assert!((0..100).all(|_| stacks.unwound(1, false).is_none()));
        assert_eq!(stacks.unwound(1, true), None);
        assert_eq!(stacks.unwound(1, true), Some(2 * BlockedStack::FIRST_BYTES));
        let grown: Vec<u32> = (0..1000).filter_map(|_| stacks.unwound(1, true)).collect();
        assert_eq!(grown, [BlockedStack::MOST_BYTES], "not beyond the limit");
    }
}
