//! Which threads are sampled: each is taken in as it starts, and what it had is given back when it
//! has ended.

use super::end::give_back_own;
use super::handler::own_stack;
use super::slots::{HAS_LEFT, ThreadSlot, VISIT_FAILED};
use super::{SignalEngine, lock};
use crate::os::threads::{current_tid, is_gone};
use crate::os::{alternate, clock};
use std::sync::atomic::Ordering;

/// How often all threads are looked at, whether they are still there, nanoseconds: not every end is
/// reported.
const SWEEP_INTERVAL: u64 = 500_000_000;

impl SignalEngine {
    /// Samples the calling thread from now on: to be called as it starts. `thread` is what the
    /// runtime knows it by.
    pub fn add_current(&self, thread: u64, tid: u32) {
        if self.interval.is_some() && self.room.load(Ordering::SeqCst) == 0 {
            self.without_timer.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // A visit may have come to this thread before it says that it runs, and its id may be that
        // of one that is gone.
        let set = alternate::own().map_or(0, |stack| stack.ss_sp as u64);
        for (index, slot) in self.slots_of(tid) {
            let stack = slot.stack.load(Ordering::SeqCst);
            if slot.thread.load(Ordering::SeqCst) == thread || stack != 0 && stack == set {
                slot.thread.store(thread, Ordering::SeqCst);
                return;
            }
            lock(&self.ending).push((index, tid, true));
        }
        let sampled = own_stack().and_then(|(low, high)| {
            let index = self.free.pop()?;
            let slot = self.shared.threads.get(index as usize)?;
            slot.visit.store(HAS_LEFT, Ordering::SeqCst);
            slot.thread.store(thread, Ordering::SeqCst);
            slot.tid.store(tid, Ordering::SeqCst);
            // From here on a visit to this thread does nothing. One that came just before has done
            // all that is to be done.
            let is_its = |slot: &ThreadSlot| slot.thread.load(Ordering::SeqCst) == thread;
            if self.slots_of(tid).any(|(other, slot)| other != index && is_its(slot)) {
                self.release(index, tid);
                return Some(());
            }
            let armed = self.give_own(slot).and_then(|()| self.arm(index, tid, low, high));
            if armed.is_none() && give_back_own(slot) {
                self.release(index, tid);
            }
            armed
        });
        if sampled.is_none() {
            self.unsampled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the calling thread a large alternate stack, if its own is small.
    fn give_own(&self, slot: &ThreadSlot) -> Option<()> {
        let old = alternate::own()?;
        if !alternate::is_small(&old) {
            return Some(());
        }
        let new = self.stacks.map()?;
        slot.keep_old(&old);
        slot.keep_new(new);
        new.mark_old(&old);
        // SAFETY: it was mapped for this thread, and is unmapped once it is not set any more.
        let set = unsafe { alternate::set_own(&alternate::of(new.start, alternate::SIZE)) };
        slot.set.store(set, Ordering::SeqCst);
        set.then_some(())
    }

    /// Those of these threads that are not sampled.
    pub fn unsampled_of(&self, threads: &[(u64, u32)]) -> Vec<(u64, u32)> {
        let armed: std::collections::HashSet<u32> =
            self.timers().iter().map(|timer| timer.tid).collect();
        threads.iter().copied().filter(|(_, tid)| !armed.contains(tid)).collect()
    }

    /// Whether timers can still be made.
    pub fn has_room(&self) -> bool {
        self.interval.is_none() || self.room.load(Ordering::SeqCst) > 0
    }

    /// A thread may have got the id of one that is gone.
    fn index_of_both(&self, thread: u64, tid: u32) -> Option<u32> {
        let is_it = |slot: &ThreadSlot| {
            slot.tid.load(Ordering::SeqCst) == tid && slot.thread.load(Ordering::SeqCst) == thread
        };
        self.shared.threads.iter().position(is_it).map(|index| index as u32)
    }

    fn slots_of(&self, tid: u32) -> impl Iterator<Item = (u32, &ThreadSlot)> {
        (0..)
            .zip(&self.shared.threads)
            .filter(move |(_, slot)| slot.tid.load(Ordering::SeqCst) == tid)
    }

    pub(super) fn index_of(&self, tid: u32) -> Option<u32> {
        self.shared
            .threads
            .iter()
            .position(|slot| slot.tid.load(Ordering::SeqCst) == tid)
            .map(|index| index as u32)
    }

    /// The calling thread ends: the runtime says so on the thread itself. Its own alternate stack
    /// is set again, and ours is given back.
    pub fn remove_current(&self, thread: u64) {
        let tid = current_tid();
        // It may also be said of another thread.
        for (index, slot) in
            self.slots_of(tid).filter(|(_, slot)| slot.thread.load(Ordering::SeqCst) == thread)
        {
            // A visit that comes now does nothing.
            slot.visit.store(HAS_LEFT, Ordering::SeqCst);
            self.delete_timer_of(index);
            if give_back_own(slot) {
                self.release(index, tid);
            }
        }
    }

    /// The thread is gone, or will be at once.
    pub fn remove(&self, thread: u64, tid: u32) {
        let Some(index) = self.index_of_both(thread, tid) else { return };
        self.delete_timer_of(index);
        lock(&self.ending).push((index, tid, false));
    }

    /// Reclaims what threads had that are gone by now. Called by one thread only.
    pub fn reclaim(&self) {
        let slot = |index: u32| self.shared.threads.get(index as usize);
        let tid_of = |slot: &ThreadSlot| slot.tid.load(Ordering::SeqCst);
        let now = clock::monotonic();
        if now >= self.sweep.load(Ordering::SeqCst) {
            self.sweep.store(now + SWEEP_INTERVAL, Ordering::SeqCst);
            let tids = self.shared.threads.iter().map(tid_of).zip(0u32..);
            let gone: Vec<_> = tids.filter(|&(tid, _)| tid != 0 && is_gone(tid)).collect();
            lock(&self.ending).extend(gone.into_iter().map(|(tid, index)| (index, tid, true)));
        }
        let ending = std::mem::take(&mut *lock(&self.ending));
        let mut later = Vec::new();
        for (index, tid, certain) in ending {
            // It may have done so itself.
            let Some(slot) = slot(index).filter(|slot| tid_of(slot) == tid) else { continue };
            if !certain && !is_gone(tid) {
                later.push((index, tid, false));
                continue;
            }
            self.delete_timer_of(index);
            let was_set = slot.set.swap(false, Ordering::SeqCst);
            if let Some(stack) = slot.take_new() {
                // SAFETY: who took it out is the one to unmap it, and its thread is gone, which had
                // the old one before if ours was set.
                unsafe { if was_set { stack.unmap_of_ended(&slot.old()) } else { stack.unmap() } };
            }
            self.release(index, tid);
        }
        lock(&self.ending).extend(later);
    }

    /// Lets another thread have a slot whose alternate stack is unused.
    fn release(&self, index: u32, tid: u32) {
        let Some(slot) = self.shared.threads.get(index as usize) else { return };
        if let Some(stack) = slot.take_new() {
            // SAFETY: who took it out is the one to unmap it, and it is not set.
            unsafe { stack.unmap() };
        }
        slot.high.store(0, Ordering::SeqCst);
        slot.thread.store(0, Ordering::SeqCst);
        slot.visit.store(VISIT_FAILED, Ordering::SeqCst);
        if slot.tid.compare_exchange(tid, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            let _ = self.free.push(index);
        }
    }
}
