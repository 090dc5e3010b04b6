//! Stacks of threads that ran, out of CPU samples: ticks that find a thread running have no other
//! stack of it.

use session::{StackId, ThreadId};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// How long the stacks of running threads are remembered: longer than samples are held before they
/// are written.
const REMEMBERED: u64 = 2_000_000_000;

/// Most of these for each thread.
const MOST_REMEMBERED: usize = 256;

/// The stack of a thread that ran, out of a CPU sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunningStack {
    pub time: u64,
    pub stack: StackId,
    pub truncated: bool,
    /// Whether the leaf is native code of the runtime.
    pub runtime_leaf: bool,
}

/// The last ones of each thread.
#[derive(Default)]
pub(super) struct RunningStacks(HashMap<ThreadId, VecDeque<RunningStack>>);

impl RunningStacks {
    /// A thread ran, and was sampled.
    pub fn ran(&mut self, thread: ThreadId, stack: RunningStack) {
        let of_thread = self.0.entry(thread).or_default();
        if of_thread.len() >= MOST_REMEMBERED {
            of_thread.pop_front();
        }
        of_thread.push_back(stack);
    }

    /// The stack that a thread had when it ran at a time, or at most so much earlier or later.
    pub fn at(&self, thread: ThreadId, time: u64, apart: u64) -> Option<RunningStack> {
        let near = self.0.get(&thread)?.iter().min_by_key(|stack| stack.time.abs_diff(time))?;
        (near.time.abs_diff(time) <= apart).then_some(*near)
    }

    /// Forgets stacks from long before a time.
    pub fn forget(&mut self, time: u64) {
        let from = time.saturating_sub(REMEMBERED);
        self.0.retain(|_, stacks| {
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

    #[test]
    fn the_nearest_sample_counts_if_it_is_near() {
        let mut stacks = RunningStacks::default();
        for time in [100, 200, 300] {
            let stack = StackId(time as u32);
            stacks.ran(
                ThreadId(7),
                RunningStack { time, stack, truncated: false, runtime_leaf: false },
            );
        }
        let at = |time, apart| stacks.at(ThreadId(7), time, apart).map(|stack| stack.time);
        assert_eq!(
            (at(240, 50), at(260, 50), at(400, 50), at(350, 50)),
            (Some(200), Some(300), None, Some(300))
        );
        assert_eq!(stacks.at(ThreadId(8), 200, 50), None);
        stacks.forget(REMEMBERED + 250);
        assert_eq!(stacks.at(ThreadId(7), 100, 50), None);
        assert!(stacks.at(ThreadId(7), 300, 50).is_some());
    }
}
