//! Thread snapshots: all threads, as the agent and the kernel see them.

use super::Ticks;
use crate::linux::{
    blocked::{PendingTick, Purpose},
    context::Context,
    held::HOLD,
    running::near,
    thread_snapshots::OsThread,
    waits,
};
use session::{SessionRecord, ThreadSeen, ThreadSnapshot, ThreadState};
use std::collections::HashMap;
use wire::{WallSample, WallTick};

impl Ticks {
    /// Puts the agent's snapshot of managed threads and the kernel's figures of all threads
    /// together.
    pub fn thread_snapshot(&mut self, cx: &mut Context, snapshot: WallTick) {
        // One from before the start says what the first threads had used up by then.
        if cx.window.is_over(snapshot.time) {
            return;
        }
        let (all, gone) = self.snapshots.snapshot(&cx.target);
        for os_tid in gone {
            // Of managed threads the agent tells, exactly.
            let (managed, _) = cx.definitions.thread_facts(os_tid);
            if !managed {
                cx.definitions.end_thread(os_tid, snapshot.time);
            }
        }
        let (purpose, previous, splits) = (Purpose::Snapshot(all), None, HashMap::new());
        self.blocked.tick(PendingTick { purpose, tick: snapshot, previous, splits });
    }

    /// Writes a snapshot whose stacks are known.
    pub(super) fn snapshot_settled(
        &mut self,
        cx: &mut Context,
        snapshot: &WallTick,
        all: Vec<OsThread>,
    ) {
        let walked: HashMap<u32, &WallSample> = snapshot
            .threads
            .iter()
            .map(|sample| (cx.target.host_tid(sample.os_tid), sample))
            .collect();
        let mut threads = Vec::with_capacity(all.len());
        for seen in all {
            let sample = walked.get(&seen.tid).copied();
            threads.extend(self.seen(cx, snapshot.time, &seen, sample));
        }
        cx.count("threads", threads.len() as u64);
        cx.write(&SessionRecord::ThreadSnapshot(ThreadSnapshot { time: snapshot.time, threads }));
    }

    /// A thread at the time of a snapshot, as the kernel saw it, and the agent if it is managed.
    fn seen(
        &mut self,
        cx: &mut Context,
        time: u64,
        seen: &OsThread,
        sample: Option<&WallSample>,
    ) -> Option<ThreadSeen> {
        // One that has ended since, as the kernel says, while the stacks of the others were asked
        // about.
        if cx.definitions.has_gone(seen.tid, time) {
            return None;
        }
        if let Ok(born) = u64::try_from(seen.born) {
            cx.definitions.thread_begins(seen.tid, born);
        }
        let thread = cx.thread(seen.tid);
        let (_, ended) = cx.definitions.thread_facts(seen.tid);
        // A managed thread may have ended while the kernel's is on its way out.
        if ended || cx.is_own_thread(seen.tid) {
            return None;
        }
        if let Some(born) = u64::try_from(seen.born).ok().filter(|born| *born >= cx.window.start) {
            cx.definitions.update_thread(seen.tid, |thread| {
                thread.started = thread.started.or(Some(born));
            });
        }
        let walked = sample.and_then(|sample| sample.stack);
        let (mut stack, _) = cx.frames.walked(&mut cx.definitions, walked);
        if self.reads_blocked
            && sample.is_some_and(|sample| sample.state == b'R')
            && let Some(running) = cx.held.running.at(thread, time, near(u64::MAX, HOLD))
        {
            stack = running.stack;
        }
        let state = match sample {
            Some(sample) => self.state_of(cx, seen.tid, sample, stack),
            None if seen.state == b'R' => ThreadState::Running,
            None => waits::classify_unmanaged(seen.call),
        };
        let (cpu, os_state) =
            sample.map_or((seen.run, seen.state), |sample| (sample.cpu, sample.state));
        let (born, call, limited) = (seen.born, seen.call, seen.limited);
        Some(ThreadSeen { thread, stack, state, os_state, cpu, born, call, limited })
    }
}
