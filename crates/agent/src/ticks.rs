//! The sampling thread: suspends the runtime and walks the threads that ran.

use crate::agent::{Agent, Phase};
use crate::counters::Counters;
use crate::os::clock;
use crate::os::tasks::Tasks;
use crate::queue::Event;
use crate::runtime::Walked;
use corprof::ids::ThreadId;
use profilers::{Task, Walk, WorkerCx};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::{Nanos, Record};

/// Most threads walked at one tick: at 5 µs each the world stands still for 5 ms at most.
const MOST_WALKS: usize = 1000;
/// Longest pause of the sampling thread: so soon it notices that it should end.
const LONGEST_SLEEP: Nanos = 20_000_000;

/// The message where callbacks have ceased, see [`Agent::is_called`].
const UNHEARD: &str = "the runtime has ceased to call the agent, because another profiler has left the process meanwhile: the recording ended";

/// Runs until the session stops.
pub fn run(agent: &Agent) {
    let mut plans: HashMap<&'static str, Plan> = HashMap::new();
    let mut worker = Worker::new(agent);
    while agent.phase() == Phase::Running {
        let now = clock::monotonic();
        worker.end_round();
        let mut next = now + LONGEST_SLEEP;
        agent.each_collector(|collector| {
            let Some(interval) = collector.interval().filter(|&interval| interval > 0) else { return };
            let plan = plans
                .entry(collector.id())
                .or_insert_with(|| Plan { due: now, budget: Budget::new(collector.most_stopped(), now) });
            if plan.due <= now {
                // Ticks stand on a raster. Those that passed while the last took long are left out, not made up.
                let late = (now - plan.due) / interval;
                Counters::add(&agent.counters.late_ticks, late);
                plan.due += (late + 1) * interval;
                if agent.events.is_filling() || !agent.stacks().has_room() {
                    // clrscope does not read fast enough. What it cannot take is not collected.
                    Counters::add(&agent.counters.late_ticks, 1);
                } else if !plan.budget.allows(now) {
                    Counters::add(&agent.counters.spared_ticks, 1);
                } else {
                    worker.begin();
                    collector.tick(&mut worker);
                    plan.budget.spend(std::mem::take(&mut worker.stopped));
                }
            }
            next = next.min(plan.due);
        });
        agent.tick_cpu.store(clock::thread_cpu(), Relaxed);
        if agent.events.is_filling() {
            agent.wake.wake();
        }
        clock::sleep_until(next);
    }
}

/// When a collector's next tick is due, and whether it may come.
struct Plan {
    due: Nanos,
    budget: Budget,
}

/// Time that the world may stand still: a share of the time that passes. What is not used is kept for
/// [`Self::KEPT`] only, so that a long quiet time pays for no long stop.
struct Budget {
    share: u64,
    /// Nanoseconds in hand, times a thousand; below zero when the last stop took more than there was.
    credit: i64,
    told: Nanos,
}

impl Budget {
    /// Time whose share is kept at most.
    const KEPT: Nanos = 2_000_000_000;

    fn new(share: u64, now: Nanos) -> Self {
        Self { share, credit: 1, told: now }
    }

    /// Whether anything is in hand.
    fn allows(&mut self, now: Nanos) -> bool {
        let passed = now.saturating_sub(self.told);
        self.told = now;
        let kept = Self::KEPT.saturating_mul(self.share);
        let earned = passed.saturating_mul(self.share);
        self.credit = self.credit.saturating_add_unsigned(earned).min(i64::try_from(kept).unwrap_or(i64::MAX));
        self.credit > 0
    }

    fn spend(&mut self, stopped: Nanos) {
        self.credit = self.credit.saturating_sub_unsigned(stopped.saturating_mul(1000));
    }
}

struct Worker<'a> {
    agent: &'a Agent,
    /// How long the world stood still since this was last taken.
    stopped: Nanos,
    tasks: Tasks,
    /// Counts the times that ticks come together. Collectors whose ticks do share one look at the threads.
    round: u64,
    /// Threads of this round, once somebody has asked for them.
    seen: Option<Vec<Task>>,
    /// Threads of this round by number.
    ids: HashMap<u32, ThreadId>,
    last: HashMap<u32, LastWalk>,
    ips: Vec<u64>,
}

#[derive(Clone, Copy)]
struct LastWalk {
    thread: ThreadId,
    round: u64,
    run: Nanos,
    stack: Option<u32>,
}

impl<'a> Worker<'a> {
    fn new(agent: &'a Agent) -> Self {
        Self {
            agent,
            stopped: 0,
            tasks: Tasks::default(),
            round: 0,
            seen: None,
            ids: HashMap::new(),
            last: HashMap::new(),
            ips: Vec::new(),
        }
    }

    fn end_round(&mut self) {
        self.round += 1;
        self.seen = None;
    }

    fn begin(&mut self) {
        if self.seen.is_some() {
            return;
        }
        self.ids = self.agent.threads().running().map(|(thread, os_tid)| (os_tid, thread)).collect();
        let ids = &self.ids;
        self.tasks.retain(|os_tid| ids.contains_key(&os_tid));
        self.last.retain(|os_tid, last| ids.get(os_tid) == Some(&last.thread));
    }

    /// The thread's last stack, if it is of this round or it did not run since.
    fn unchanged(&self, task: &Task) -> Option<Option<u32>> {
        let last = self.last.get(&task.os_tid)?;
        (last.round == self.round || last.run == task.run && task.state != b'R').then_some(last.stack)
    }
}

impl WorkerCx for Worker<'_> {
    fn now(&self) -> Nanos {
        clock::monotonic()
    }

    fn tasks(&mut self) -> Vec<Task> {
        if let Some(seen) = &self.seen {
            return seen.clone();
        }
        let mut tids: Vec<u32> = self.ids.keys().copied().collect();
        tids.sort_unstable();
        let tasks = tids.into_iter().filter_map(|os_tid| {
            let times = self.tasks.read(os_tid)?;
            Some(Task { os_tid, run: times.run, state: times.state })
        });
        self.seen.insert(tasks.collect()).clone()
    }

    fn stacks(&mut self, tasks: &[Task]) -> Walk {
        let mut stacks = vec![None; tasks.len()];
        let mut to_walk = Vec::new();
        for (index, (task, stack)) in tasks.iter().zip(&mut stacks).enumerate() {
            match self.unchanged(task) {
                Some(last) => *stack = last,
                None => to_walk.push((index, *task)),
            }
        }
        let (counters, round) = (&self.agent.counters, self.round);
        Counters::add(&counters.reused, (tasks.len() - to_walk.len()) as u64);
        if to_walk.len() > MOST_WALKS {
            // Those left out keep their last stack, and are walked first next time only if they run again.
            to_walk.truncate(MOST_WALKS);
        }
        if to_walk.is_empty() {
            return Walk { stacks, stopped: 0, refused: false };
        }
        let most = self.agent.config.max_frames.clamp(1, 4096) as usize;
        // Room is made before the world stops. A walk adds at most `most` addresses to what is there.
        self.ips.clear();
        self.ips.reserve(to_walk.len() * 64);
        let mut walked = Vec::with_capacity(to_walk.len());
        let begun = clock::monotonic();
        let heard = self.agent.suspensions.load(SeqCst);
        let Ok(suspended) = self.agent.runtime.suspend() else {
            Counters::add(&counters.refused_suspensions, 1);
            return Walk { stacks, stopped: 0, refused: true };
        };
        if self.agent.notify_only && self.agent.suspensions.load(SeqCst) == heard {
            // Nor are the ends of threads told: one that is walked may have been freed.
            drop(suspended);
            self.agent.give_up(UNHEARD.to_owned());
            return Walk { stacks, stopped: 0, refused: true };
        }
        for (index, task) in &to_walk {
            let Some(&thread) = self.ids.get(&task.os_tid) else { continue };
            let before = self.ips.len();
            let result = suspended.walk(&self.agent.live, thread, &mut self.ips, before + most);
            walked.push((*index, *task, thread, before..self.ips.len(), result));
        }
        drop(suspended);
        let stopped = clock::monotonic().saturating_sub(begun);
        Counters::add(&counters.suspensions, 1);
        Counters::add(&counters.stopped, stopped);
        self.stopped += stopped;
        Counters::add(&counters.walks, walked.len() as u64);
        let mut interned = self.agent.stacks();
        for (index, task, thread, range, result) in walked {
            let ips = self.ips.get(range).unwrap_or_default();
            let stack = (!ips.is_empty()).then(|| interned.intern(ips, result == Walked::Truncated));
            let before = self.last.get(&task.os_tid);
            if stack.is_none() && before.is_some_and(|last| last.stack.is_some()) {
                Counters::add(&counters.failed_walks, 1);
            }
            self.last.insert(task.os_tid, LastWalk { thread, round, run: task.run, stack });
            if let Some(slot) = stacks.get_mut(index) {
                *slot = stack;
            }
        }
        Walk { stacks, stopped, refused: false }
    }

    fn send(&mut self, record: Record) {
        self.agent.events.push(Event::Record(record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Nanos = 1_000_000;

    /// Stops of this length at 20 Hz for 100 s: how many come, and their sum in nanoseconds.
    fn hundred_seconds(share: u64, length: Nanos) -> (u64, Nanos) {
        let mut budget = Budget::new(share, 0);
        let mut ticks = 0;
        for tick in 0..2000 {
            if budget.allows(tick * 50 * MILLI) {
                budget.spend(length);
                ticks += 1;
            }
        }
        (ticks, ticks * length)
    }

    #[test]
    fn the_world_never_stands_still_for_more_than_its_share() {
        assert_eq!(hundred_seconds(10, MILLI / 2).0, 2000, "within the share all ticks come");
        let (ticks, stopped) = hundred_seconds(10, MILLI);
        assert!((995..=1001).contains(&ticks), "{ticks}");
        assert!(stopped <= 1001 * MILLI);
        let (ticks, stopped) = hundred_seconds(10, 300 * MILLI);
        assert!(stopped <= 1300 * MILLI, "{ticks} ticks");
        assert_eq!(hundred_seconds(0, MILLI).0, 0, "without a share none comes");
    }

    #[test]
    fn a_quiet_time_pays_for_no_long_stop() {
        let mut budget = Budget::new(10, 0);
        assert!(budget.allows(3_600_000 * MILLI));
        budget.spend(25 * MILLI);
        assert!(!budget.allows(3_600_000 * MILLI + 450 * MILLI));
        assert!(budget.allows(3_600_000 * MILLI + 550 * MILLI));
    }
}
