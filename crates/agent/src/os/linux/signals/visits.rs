//! Visits: threads that run already are asked by a signal for their stack, and to take an alternate
//! one.

use super::SignalEngine;
use super::slots::{NOT_VISITED, ThreadSlot, VISIT_FAILED, VISITED, WANTED, stack_limit, stack_of};
use super::timers::send;
use crate::os::threads::is_gone;
use crate::os::{clock, maps};
use std::sync::atomic::Ordering;

/// How long a thread may take to answer a single signal, nanoseconds.
pub(super) const ANSWER_LIMIT: u64 = 5_000_000;
/// How long threads may take in all to answer to a visit, nanoseconds.
pub(super) const VISIT_LIMIT: u64 = 50_000_000;
/// Most visits whose signals are queued at once.
pub(super) const VISITS_AT_ONCE: usize = 64;

/// Visits that were prepared.
#[derive(Debug)]
pub struct Visits {
    pub(super) indices: Vec<u32>,
}

impl Visits {
    /// How many.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}

impl SignalEngine {
    /// Prepares visits to threads that already run: of each, what the runtime knows it by, and its
    /// id. Those that are sampled are left out, and those for which there is no room.
    pub fn prepare(&self, threads: &[(u64, u32)]) -> Visits {
        let mut missing: Vec<_> = self.unsampled_of(threads);
        // The runtime lists threads of native code for a while after their end.
        missing.retain(|(_, tid)| !is_gone(*tid));
        let room = self.interval.map_or(usize::MAX, |_| self.room.load(Ordering::SeqCst));
        if missing.len() > room {
            self.without_timer.fetch_max((missing.len() - room) as u64, Ordering::Relaxed);
        }
        let wanted = missing.len().min(room);
        let mut indices = Vec::with_capacity(wanted);
        for (thread, tid) in missing.into_iter().take(room) {
            // One that did not come in time may still come, or may have come meanwhile.
            let asked = self.index_of(tid);
            let Some(index) = asked.or_else(|| self.free.pop()) else { break };
            let Some(slot) = self.shared.threads.get(index as usize) else { break };
            if asked.is_none() {
                let Some(stack) = self.stacks.map() else {
                    let _ = self.free.push(index);
                    break;
                };
                slot.keep_new(stack);
                slot.thread.store(thread, Ordering::SeqCst);
                slot.visit.store(VISIT_FAILED, Ordering::SeqCst);
                slot.tid.store(tid, Ordering::SeqCst);
            }
            indices.push(index);
        }
        // There are more threads than slots, or no memory for their alternate stacks.
        if indices.len() < wanted {
            self.unsampled.fetch_max((wanted - indices.len()) as u64, Ordering::Relaxed);
        }
        Visits { indices }
    }

    /// Visits threads. The caller has suspended the runtime, so none of them is inside the
    /// runtime's handler of a `SIGSEGV`; each is sent one signal, in which it gets its alternate
    /// stack. The timers are armed by [`Self::arm_visited`] after the runtime continues.
    pub fn visit(&self, visits: &Visits) {
        let asked: Vec<&ThreadSlot> = visits
            .indices
            .iter()
            .filter_map(|&index| self.shared.threads.get(index as usize))
            .collect();
        ask(&asked, VISIT_FAILED, NOT_VISITED, self.at_once());
    }

    /// How many signals may be queued at once.
    pub(super) fn at_once(&self) -> usize {
        self.room.load(Ordering::SeqCst).clamp(1, VISITS_AT_ONCE)
    }

    /// Arms the timers of threads that were visited. Says how many of them had answered, and how
    /// many are armed.
    pub fn arm_visited(&self, visits: &Visits) -> (usize, usize) {
        let mappings = maps::mappings();
        let visited = &visits.indices;
        let slots = visited.iter().filter_map(|&index| self.shared.threads.get(index as usize));
        let answered = slots.filter(|slot| slot.visit.load(Ordering::SeqCst) == VISITED).count();
        let armed = visited.iter().filter(|index| {
            let armed = self.shared.threads.get(**index as usize).and_then(|slot| {
                if slot.visit.load(Ordering::SeqCst) != VISITED {
                    return None;
                }
                let sp = slot.seen_sp.load(Ordering::SeqCst);
                let (low, high) =
                    stack_of(&mappings, sp, slot.seen_tcb.load(Ordering::SeqCst), stack_limit())?;
                self.arm(**index, slot.tid.load(Ordering::SeqCst), low, high)
            });
            armed.is_some()
        });
        (answered, armed.count())
    }

    /// The threads that are sampled: their ids, and what [`Self::sample_now`] knows them by.
    pub fn sampled(&self) -> Vec<(u32, u32)> {
        self.timers().iter().map(|timer| (timer.tid, timer.index)).collect()
    }

    /// Makes a thread copy itself into the ring now, and waits for it, a few milliseconds at most.
    /// Says the time in its slot, or `None` if it did not answer, was on another stack, or found
    /// the ring full. Allocates nothing.
    pub fn sample_now(&self, (tid, index): (u32, u32)) -> Option<u64> {
        let slot = self
            .shared
            .threads
            .get(index as usize)
            .filter(|slot| slot.tid.load(Ordering::SeqCst) == tid)?;
        slot.sampled.store(0, Ordering::SeqCst);
        slot.visit.compare_exchange(VISITED, WANTED, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        let deadline = clock::monotonic() + ANSWER_LIMIT;
        if send(tid, slot) {
            while slot.visit.load(Ordering::SeqCst) == WANTED && clock::monotonic() < deadline {
                clock::sleep_until(clock::monotonic() + 10_000);
            }
        }
        // A signal that comes later finds nothing to do.
        let _ = slot.visit.compare_exchange(WANTED, VISITED, Ordering::SeqCst, Ordering::SeqCst);
        Some(slot.sampled.load(Ordering::SeqCst)).filter(|&time| time != 0)
    }
}

/// Asks threads for something, some at a time, and waits until each has answered; a thread that
/// waits in the kernel comes at once. Those that do not come in time may come later.
pub(super) fn ask(slots: &[&ThreadSlot], from: u32, to: u32, at_once: usize) {
    let deadline = clock::monotonic() + VISIT_LIMIT;
    for some in slots.chunks(at_once.max(1)) {
        if clock::monotonic() > deadline {
            return;
        }
        for slot in some {
            let asked =
                slot.visit.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if asked && !send(slot.tid.load(Ordering::SeqCst), slot) {
                let _ = slot.visit.compare_exchange(to, from, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
        while clock::monotonic() < deadline
            && some.iter().any(|slot| slot.visit.load(Ordering::SeqCst) == to)
        {
            clock::sleep_until(clock::monotonic() + 50_000);
        }
    }
}
