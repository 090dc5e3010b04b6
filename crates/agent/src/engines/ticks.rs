//! The sampling thread: reads where blocked threads stand, or suspends the runtime and walks the
//! threads that ran.

use crate::heap_memory;
use crate::host::budget::Budget;
use crate::host::counters::Counters;
use crate::host::queue::Event;
use crate::host::runtime::Walked;
use crate::host::{Host, Phase};
use crate::os::blocked::{self, Seen};
use crate::os::clock;
use crate::os::descriptors;
use crate::os::tasks::{TaskTimes, Tasks, state_of};
use crate::os::threads::is_gone;
use corprof::ids::ThreadId;
use profilers::{Stacked, Stacks, Task, ThreadMap, WorkerCx};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::{BlockedStack, Nanos, Record};

/// Most threads walked at one tick: at 5 µs each the runtime is suspended for 5 ms at most.
const MOST_WALKS: usize = 1000;
/// How many addresses a walked stack has on the average, as far as is known. There is room for that
/// average, and for one of the deepest stacks.
const ROOM: usize = 64;

/// Room for the addresses of all, at most: 1 MB of them.
const MOST_ADDRESSES: usize = 1 << 17;
/// Most bytes of stacks copied at one tick. Less is in the queue at a time: see
/// [`crate::host::queue::Events`].
const MOST_COPIED: usize = 8 << 20;
/// Most CPU time for reading threads at one tick. Those that are left out come first at the next.
const MOST_READING: Nanos = 20_000_000;
/// How long a tick waits at most for the writer to take stacks out of the queue, and how often it
/// looks.
const ROOM_LIMIT: Nanos = 20_000_000;
const ROOM_STEP: Nanos = 1_000_000;
/// What sending a copied byte takes, in nanoseconds: it is copied twice more, by the writer and by
/// the kernel.
const SENDING: Nanos = 1;
/// This many threads in a row that cannot be read and have not ended show that none can.
const MOST_UNREADABLE: u32 = 32;
/// If the kernel reports this many sleeping threads as running, and none as blocked, it does not
/// report the state of threads.
const MOST_UNTOLD: u32 = 32;
/// Longest pause of the sampling thread: so soon it notices that it should end.
const LONGEST_SLEEP: Nanos = 20_000_000;

/// The message where callbacks have ceased, see [`crate::session::leaving::is_called`].
const UNHEARD: &str = "the runtime no longer calls the agent, because another profiler has \
    detached from the process meanwhile: the recording ended";

/// Runs until the session stops.
pub fn run(host: &Host) {
    let mut plans: HashMap<&'static str, Plan> = HashMap::new();
    let mut worker = Worker::new(host);
    while host.phase() == Phase::Running {
        let now = clock::monotonic();
        worker.end_round();
        let mut next = now + LONGEST_SLEEP;
        host.each_collector(|collector| {
            let Some(interval) = collector.interval().filter(|&interval| interval > 0) else {
                return;
            };
            let plan = plans.entry(collector.id()).or_insert_with(|| Plan {
                due: now,
                budget: Budget::new(collector.most_stopped(), now),
                cpu: Budget::full(host.config.share_of_processor(collector.most_cpu()), now),
            });
            if plan.due <= now {
                // Ticks stand on a raster. Those that passed while the last took long are left out,
                // not made up.
                let late = (now - plan.due) / interval;
                Counters::add(&host.counters.late_ticks, late);
                plan.due += (late + 1) * interval;
                if host.events.is_filling()
                    || !host.stacks().has_room()
                    || heap_memory::is_exhausted()
                {
                    // clrscope does not read fast enough. What it cannot take is not collected.
                    Counters::add(&host.counters.late_ticks, 1);
                } else if !(plan.budget.allows(now) & plan.cpu.allows(now)) {
                    Counters::add(&host.counters.spared_ticks, 1);
                } else {
                    let begun = clock::thread_cpu();
                    worker.begin();
                    collector.tick(&mut worker);
                    plan.budget.spend(std::mem::take(&mut worker.stopped));
                    let used = clock::thread_cpu().saturating_sub(begun);
                    plan.cpu
                        .spend(used + std::mem::take(&mut worker.copied).saturating_mul(SENDING));
                    Counters::add(&host.counters.ticks, 1);
                    Counters::add(&host.counters.tick_time, used);
                }
            }
            next = next.min(plan.due);
        });
        host.tick_cpu.store(clock::thread_cpu(), Relaxed);
        if host.events.is_filling() {
            host.wake.wake();
        }
        clock::sleep_until(next);
    }
}

/// When a collector's next tick is due, and whether it may come.
struct Plan {
    due: Nanos,
    /// Time for which the runtime may be suspended.
    budget: Budget,
    /// CPU time of this thread.
    cpu: Budget,
}

struct Worker<'a> {
    host: &'a Host,
    /// For how long the runtime was suspended since this was last taken.
    stopped: Nanos,
    tasks: Tasks,
    /// Counts the rounds, in which ticks come together. Collectors whose ticks do share one list of
    /// the threads.
    round: u64,
    /// Threads of this round, once somebody has asked for them.
    seen: Option<Vec<Task>>,
    /// Threads of this round by number.
    ids: ThreadMap<ThreadId>,
    last: ThreadMap<LastStack>,
    ips: Vec<u64>,
    /// See [`ROOM`]; more once that was too little.
    room: usize,
    /// Whether blocked threads are read; `None` until that is found out.
    reads: Option<bool>,
    /// Copy of a stack.
    copy: Vec<u8>,
    /// Bytes copied since this was last taken.
    copied: u64,
    /// The first thread that was left out of the last tick; the next one begins with it.
    first: u32,
    /// How many threads could not be read since one was.
    unreadable: u32,
    /// How many threads that sleep were said to run; `None` once a blocked one was read.
    untold: Option<u32>,
}

/// The stack of a thread as it was last taken.
#[derive(Clone, Copy)]
struct LastStack {
    thread: ThreadId,
    round: u64,
    run: Nanos,
    stack: Option<u32>,
    state: u8,
    /// Whether the thread has run since the stack was taken: then it is only the last that is
    /// known.
    old: bool,
}

impl<'a> Worker<'a> {
    fn new(host: &'a Host) -> Self {
        Self {
            host,
            stopped: 0,
            tasks: Tasks::default(),
            round: 0,
            seen: None,
            ids: ThreadMap::default(),
            last: ThreadMap::default(),
            ips: Vec::new(),
            room: ROOM,
            reads: None,
            copy: Vec::new(),
            copied: 0,
            first: 0,
            unreadable: 0,
            untold: Some(0),
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
        self.ids = self.host.threads().running().map(|(thread, os_tid)| (os_tid, thread)).collect();
        let ids = &self.ids;
        self.tasks.retain(|os_tid| ids.contains_key(&os_tid));
        self.last.retain(|os_tid, last| ids.get(os_tid) == Some(&last.thread));
    }

    /// The thread's last stack, if it is of this round or it did not run since.
    fn unchanged(&self, task: &Task) -> Option<Stacked> {
        let last = self.last.get(&task.os_tid)?;
        if last.round == self.round {
            return Some(Stacked { stack: last.stack, state: last.state });
        }
        let still = !last.old && last.run == task.run && task.state != b'R';
        still.then_some(Stacked { stack: last.stack, state: task.state })
    }

    /// Whether blocked threads are read, and not walked.
    fn reads(&mut self) -> bool {
        let host = self.host;
        if self.reads != Some(false) {
            let walks = host.walks_blocked();
            let refused = walks.or_else(|| {
                if self.reads.is_none() { blocked::refusal(&host.memory) } else { None }
            });
            // What cannot be read because descriptors are short is no reason to suspend the runtime
            // at each tick until the end.
            if self.reads.is_none() && refused.is_some() && descriptors::are_short() {
                return true;
            }
            self.reads = Some(refused.is_none());
            if let Some(why) = refused {
                host.walk_blocked(why);
            }
        }
        self.reads == Some(true)
    }

    /// Waits a moment for the writer, if the queue fills up with copies of stacks.
    fn has_room(&self) -> bool {
        let deadline = clock::monotonic() + ROOM_LIMIT;
        while self.host.events.is_filling() {
            if self.host.phase() != Phase::Running || clock::monotonic() >= deadline {
                return false;
            }
            self.host.wake.wake();
            clock::sleep_until(clock::monotonic() + ROOM_STEP);
        }
        true
    }

    /// Reads the threads that ran since their last stack was taken.
    fn read(&mut self, tasks: &[Task]) -> Stacks {
        let host = self.host;
        let limit = host.copied_bytes();
        let begun = clock::thread_cpu();
        let (mut copied, mut full, mut is_first) = (0, false, true);
        let mut threads = vec![None; tasks.len()];
        // They are sorted by number.
        let first = tasks.partition_point(|task| task.os_tid < self.first);
        for index in (first..tasks.len()).chain(0..first) {
            let (Some(task), Some(taken)) = (tasks.get(index), threads.get_mut(index)) else {
                continue;
            };
            *taken = self.unchanged(task);
            if taken.is_some() {
                Counters::add(&host.counters.reused, 1);
                continue;
            }
            let Some(&thread) = self.ids.get(&task.os_tid) else { continue };
            if task.state == b'R' {
                *taken = Some(self.ready(task, thread, b'R'));
                continue;
            }
            let was_full = full;
            full = full
                || copied >= MOST_COPIED
                || clock::thread_cpu().saturating_sub(begun) >= MOST_READING
                || heap_memory::is_exhausted()
                || !self.has_room();
            if !full {
                // Where nothing has run, nothing is read.
                if std::mem::take(&mut is_first) {
                    host.memory.look_for_filter();
                }
                *taken = self.read_one(task, thread, limit, &mut copied);
            } else if !was_full {
                self.first = task.os_tid;
            }
            if taken.is_none() {
                Counters::add(&host.counters.left_out, 1);
            }
        }
        self.copied += copied as u64;
        Counters::add(&host.counters.blocked_bytes, copied as u64);
        Stacks { threads, stopped: 0, refused: false }
    }

    fn read_one(
        &mut self,
        task: &Task,
        thread: ThreadId,
        limit: usize,
        copied: &mut usize,
    ) -> Option<Stacked> {
        let host = self.host;
        let os_tid = task.os_tid;
        let seen = blocked::look(&host.memory, os_tid, limit, &mut self.copy);
        *copied += self.copy.len();
        match seen {
            Seen::Blocked(at) => {
                self.untold = None;
                Counters::add(&host.counters.blocked_reads, 1);
                let id = host.stacks().number();
                let (time, bytes) = (clock::monotonic(), self.copy.clone());
                let cut = bytes.len() >= limit;
                let stack = BlockedStack {
                    id,
                    os_tid,
                    time,
                    ip: at.ip,
                    sp: at.sp,
                    call: at.call,
                    bytes,
                    cut,
                };
                self.unreadable = 0;
                if !host.events.push(Event::Record(Record::BlockedStack(stack))) {
                    return None;
                }
                // Outside of a system call a thread waits for memory or a disk.
                let state = if at.call.is_some() { b'S' } else { b'D' };
                self.tasks.note(os_tid, TaskTimes { run: at.run, state });
                let last = LastStack {
                    thread,
                    round: self.round,
                    run: at.run,
                    stack: Some(id),
                    state,
                    old: false,
                };
                self.last.insert(os_tid, last);
                Some(Stacked { stack: Some(id), state })
            }
            Seen::Ready { still } => {
                let state = if still && self.untold.is_some() { self.told(os_tid) } else { b'R' };
                Some(self.ready(task, thread, state))
            }
            Seen::NoStack | Seen::Unreadable => {
                self.cannot_be_read(os_tid);
                None
            }
        }
    }

    /// A thread could not be read: it has ended, or there is no descriptor to spare, or what could
    /// be read at first no longer can.
    fn cannot_be_read(&mut self, os_tid: u32) {
        if descriptors::are_short() || is_gone(os_tid) {
            return;
        }
        self.unreadable += 1;
        if self.unreadable >= MOST_UNREADABLE {
            self.reads = Some(false);
            self.host.walk_blocked("blocked threads can no longer be read".to_owned());
        }
    }

    /// The state of a thread that the kernel says to run, where it has said so of every thread
    /// until now.
    fn told(&mut self, os_tid: u32) -> u8 {
        let state = state_of(os_tid);
        if matches!(state, b'S' | b'D')
            && let Some(untold) = &mut self.untold
        {
            *untold += 1;
            if *untold >= MOST_UNTOLD {
                self.reads = Some(false);
                self.host.walk_blocked(
                    "the kernel reports all threads as running, also those that sleep".to_owned(),
                );
            }
        }
        state
    }

    /// A thread whose stack is not read: it keeps the last that is known of it.
    fn ready(&mut self, task: &Task, thread: ThreadId, state: u8) -> Stacked {
        Counters::add(&self.host.counters.ready_threads, u64::from(state == b'R'));
        // What was known already stays known for as long as it would: it is looked at again now and
        // then.
        if task.state == b'?' {
            self.tasks.note(task.os_tid, TaskTimes { run: task.run, state });
        }
        let stack = self.last.get(&task.os_tid).and_then(|last| last.stack);
        let last = LastStack { thread, round: self.round, run: task.run, stack, state, old: true };
        self.last.insert(task.os_tid, last);
        Stacked { stack, state }
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
        let reads = self.reads();
        let mut tids: Vec<u32> = self.ids.keys().copied().collect();
        tids.sort_unstable();
        let tasks = tids.into_iter().filter_map(|os_tid| {
            // Where a thread that ran is read, its state comes with that.
            let times =
                if reads { self.tasks.read_if_still(os_tid)? } else { self.tasks.read(os_tid)? };
            Some(Task { os_tid, run: times.run, state: times.state })
        });
        self.seen.insert(tasks.collect()).clone()
    }

    fn stacks(&mut self, tasks: &[Task]) -> Stacks {
        if self.reads() { self.read(tasks) } else { self.walk(tasks) }
    }

    fn walk(&mut self, tasks: &[Task]) -> Stacks {
        let mut threads: Vec<_> = tasks.iter().map(|task| self.unchanged(task)).collect();
        let mut to_walk: Vec<(usize, Task)> = (tasks.iter().zip(&threads).enumerate())
            .filter(|(_, (_, known))| known.is_none())
            .map(|(index, (task, _))| (index, *task))
            .collect();
        let (counters, round) = (&self.host.counters, self.round);
        Counters::add(&counters.reused, (tasks.len() - to_walk.len()) as u64);
        if to_walk.is_empty() {
            return Stacks { threads, stopped: 0, refused: false };
        }
        // Who was left out is first. They are sorted by number.
        let first = to_walk.partition_point(|(_, task)| task.os_tid < self.first);
        to_walk.rotate_left(first);
        let wanted = to_walk.len();
        let beyond = to_walk.get(MOST_WALKS).map(|(_, task)| task.os_tid);
        to_walk.truncate(MOST_WALKS);
        let most = self.host.config.max_frames.clamp(1, 4096) as usize;
        // Room is made before the runtime is suspended: while it is, nothing may be allocated. The
        // program would wait with us for memory that is not there.
        self.ips.clear();
        let room = (to_walk.len() * self.room).min(MOST_ADDRESSES) + most;
        if self.ips.try_reserve_exact(room).is_err() {
            Counters::add(&counters.left_out, wanted as u64);
            return Stacks { threads, stopped: 0, refused: false };
        }
        let mut walked = Vec::with_capacity(to_walk.len());
        let begun = clock::monotonic();
        let heard = self.host.suspensions.load(SeqCst);
        let Ok(suspended) = self.host.runtime.suspend() else {
            Counters::add(&counters.refused_suspensions, 1);
            return Stacks { threads, stopped: 0, refused: true };
        };
        if self.host.notify_only && self.host.suspensions.load(SeqCst) == heard {
            // Nor are the ends of threads told: one that is walked may have been freed.
            drop(suspended);
            self.host.give_up(UNHEARD.to_owned());
            return Stacks { threads, stopped: 0, refused: true };
        }
        let reached = within_room(&mut self.ips, most, &to_walk, |ips, (index, task)| {
            let Some(&thread) = self.ids.get(&task.os_tid) else { return };
            let before = ips.len();
            let result = suspended.walk(&self.host.live, thread, ips, before + most);
            walked.push((*index, *task, thread, before..ips.len(), result));
        });
        drop(suspended);
        let short = to_walk.get(reached).map(|(_, task)| task.os_tid);
        if short.is_some() {
            // Next time there is room for more.
            self.room = self.room.saturating_mul(2).min(most);
        }
        self.first = short.or(beyond).unwrap_or(0);
        Counters::add(&counters.left_out, (wanted - reached) as u64);
        let stopped = clock::monotonic().saturating_sub(begun);
        Counters::add(&counters.suspensions, 1);
        Counters::add(&counters.stopped, stopped);
        self.stopped += stopped;
        Counters::add(&counters.walks, walked.len() as u64);
        let mut interned = self.host.stacks();
        for (index, task, thread, range, result) in walked {
            let ips = self.ips.get(range).unwrap_or_default();
            let stack =
                (!ips.is_empty()).then(|| interned.intern(ips, result == Walked::Truncated));
            let before = self.last.get(&task.os_tid);
            if stack.is_none() && before.is_some_and(|last| last.stack.is_some()) {
                Counters::add(&counters.failed_walks, 1);
            }
            let last =
                LastStack { thread, round, run: task.run, stack, state: task.state, old: false };
            self.last.insert(task.os_tid, last);
            if let Some(slot) = threads.get_mut(index) {
                *slot = Some(Stacked { stack, state: task.state });
            }
        }
        Stacks { threads, stopped, refused: false }
    }

    fn send(&mut self, record: Record) {
        self.host.events.push(Event::Record(record));
    }
}

/// Calls `walk` for one after another, as long as there is room for `most` more addresses: what it
/// adds makes `ips` no larger. How many there was room for.
fn within_room<T>(
    ips: &mut Vec<u64>,
    most: usize,
    all: impl IntoIterator<Item = T>,
    mut walk: impl FnMut(&mut Vec<u64>, T),
) -> usize {
    let mut reached = 0;
    for one in all {
        if ips.capacity() - ips.len() < most {
            break;
        }
        walk(ips, one);
        reached += 1;
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allocated_while_threads_are_walked() {
        const MOST: usize = 512;
        // How many of a hundred threads with stacks of this depth are walked at once.
        let walked = |room: usize, depth: usize| {
            let (mut ips, mut walked) = (Vec::with_capacity(100 * room + MOST), 0);
            let place = (ips.as_ptr(), ips.capacity());
            let reached = within_room(&mut ips, MOST, 0..100, |ips, _| {
                ips.extend(std::iter::repeat_n(7, depth));
                walked += 1;
            });
            assert_eq!((ips.as_ptr(), ips.capacity()), place);
            assert_eq!(reached, walked);
            walked
        };
        assert_eq!([walked(ROOM, 0), walked(ROOM, ROOM), walked(MOST, MOST)], [100; 3]);
        // As many as there is room for, and twice as many the next time.
        assert_eq!([walked(ROOM, MOST), walked(2 * ROOM, MOST)], [13, 26]);
    }
}
