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
use std::sync::atomic::Ordering::Relaxed;
use wire::{Nanos, Record};

/// Most threads walked at one tick: at 5 µs each the world stands still for 5 ms at most.
const MOST_WALKS: usize = 1000;
/// Longest pause of the sampling thread: so soon it notices that it should end.
const LONGEST_SLEEP: Nanos = 20_000_000;

/// Runs until the session stops.
pub fn run(agent: &Agent) {
    let mut due: HashMap<&'static str, Nanos> = HashMap::new();
    let mut worker = Worker::new(agent);
    while agent.phase() == Phase::Running {
        let now = clock::monotonic();
        let mut next = now + LONGEST_SLEEP;
        agent.each_collector(|collector| {
            let Some(interval) = collector.interval().filter(|&interval| interval > 0) else { return };
            let due = due.entry(collector.id()).or_insert(now);
            if *due <= now {
                // Ticks stand on a raster. Those that passed while the last took long are left out, not made up.
                let late = (now - *due) / interval;
                Counters::add(&agent.counters.late_ticks, late);
                *due += (late + 1) * interval;
                if agent.events.is_filling() || !agent.stacks().has_room() {
                    // clrscope does not read fast enough. What it cannot take is not collected.
                    Counters::add(&agent.counters.late_ticks, 1);
                } else {
                    worker.begin();
                    collector.tick(&mut worker);
                }
            }
            next = next.min(*due);
        });
        agent.tick_cpu.store(clock::thread_cpu(), Relaxed);
        if agent.events.is_filling() {
            agent.wake.wake();
        }
        clock::sleep_until(next);
    }
}

struct Worker<'a> {
    agent: &'a Agent,
    tasks: Tasks,
    /// Threads of this tick by number.
    ids: HashMap<u32, ThreadId>,
    last: HashMap<u32, LastWalk>,
    ips: Vec<u64>,
}

#[derive(Clone, Copy)]
struct LastWalk {
    thread: ThreadId,
    run: Nanos,
    stack: Option<u32>,
}

impl<'a> Worker<'a> {
    fn new(agent: &'a Agent) -> Self {
        Self { agent, tasks: Tasks::default(), ids: HashMap::new(), last: HashMap::new(), ips: Vec::new() }
    }

    fn begin(&mut self) {
        self.ids = self.agent.threads().running().map(|(thread, os_tid)| (os_tid, thread)).collect();
        let ids = &self.ids;
        self.tasks.retain(|os_tid| ids.contains_key(&os_tid));
        self.last.retain(|os_tid, last| ids.get(os_tid) == Some(&last.thread));
    }

    /// The thread's last stack, if it did not run since.
    fn unchanged(&self, task: &Task) -> Option<Option<u32>> {
        // The kernel brings the run time of a thread that is on a CPU up to date now and then only.
        let last = self.last.get(&task.os_tid)?;
        (last.run == task.run && task.state != b'R').then_some(last.stack)
    }
}

impl WorkerCx for Worker<'_> {
    fn now(&self) -> Nanos {
        clock::monotonic()
    }

    fn tasks(&mut self) -> Vec<Task> {
        let mut tids: Vec<u32> = self.ids.keys().copied().collect();
        tids.sort_unstable();
        let tasks = tids.into_iter().filter_map(|os_tid| {
            let times = self.tasks.read(os_tid)?;
            Some(Task { os_tid, run: times.run, state: times.state })
        });
        tasks.collect()
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
        let counters = &self.agent.counters;
        Counters::add(&counters.reused, (tasks.len() - to_walk.len()) as u64);
        if to_walk.len() > MOST_WALKS {
            // Those left out keep their last stack, and are walked first next time only if they run again.
            to_walk.truncate(MOST_WALKS);
        }
        if to_walk.is_empty() {
            return Walk { stacks, stopped: 0 };
        }
        let most = self.agent.config.max_frames.clamp(1, 4096) as usize;
        // Room is made before the world stops. A walk adds at most `most` addresses to what is there.
        self.ips.clear();
        self.ips.reserve(to_walk.len() * 64);
        let mut walked = Vec::with_capacity(to_walk.len());
        let begun = clock::monotonic();
        let Ok(suspended) = self.agent.runtime.suspend() else {
            Counters::add(&counters.refused_suspensions, 1);
            return Walk { stacks, stopped: 0 };
        };
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
        Counters::add(&counters.walks, walked.len() as u64);
        let mut interned = self.agent.stacks();
        for (index, task, thread, range, result) in walked {
            let ips = self.ips.get(range).unwrap_or_default();
            let stack = (!ips.is_empty()).then(|| interned.intern(ips, result == Walked::Truncated));
            let before = self.last.get(&task.os_tid);
            if stack.is_none() && before.is_some_and(|last| last.stack.is_some()) {
                Counters::add(&counters.failed_walks, 1);
            }
            self.last.insert(task.os_tid, LastWalk { thread, run: task.run, stack });
            if let Some(slot) = stacks.get_mut(index) {
                *slot = stack;
            }
        }
        Walk { stacks, stopped }
    }

    fn send(&mut self, record: Record) {
        self.agent.events.push(Event::Record(record));
    }
}
