//! The end: timers, handlers, alternate stacks and memory are given back, in this order.

use super::disposition::{empty_action, exchange_action, is_ours, own_action};
use super::slots::{IN_USE, LEAVE, ThreadSlot};
use super::visits::ask;
use super::{ACTIVE, IN_FLIGHT, RESTORED, STAYS, Shared, SignalEngine};
use crate::os::threads::{current_tid, is_gone};
use crate::os::{alternate, clock, map, tasks};
use std::ptr::{self};
use std::sync::atomic::Ordering;

/// How often threads are asked to go back to their own alternate stacks, and nanoseconds between.
pub(super) const LEAVES: u32 = 60;
pub(super) const LEAVE_INTERVAL: u64 = 3_000_000;
/// How long it is waited for handlers at the end, nanoseconds.
pub(super) const END_LIMIT: u64 = 2_000_000_000;
/// CPU time after which a thread has certainly left the kernel, where it may have been just before
/// or behind a handler, nanoseconds.
pub(super) const MOVED_ON: u64 = 200_000;

/// What is left of an engine that was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Why the library must stay loaded, if it must.
    pub stays: Option<&'static str>,
    /// Alternate stacks of ours that threads still have: they did not answer, or may need what lies
    /// there.
    pub stacks: usize,
}

impl Drop for SignalEngine {
    fn drop(&mut self) {
        if !self.stopped {
            self.end();
        }
    }
}

impl SignalEngine {
    /// Ends all sampling. Handlers that run meanwhile still finish their samples.
    pub fn disarm(&self) {
        for timer in self.timers().drain(..) {
            self.delete(&timer);
        }
    }

    /// Has all threads set their own alternate stacks again, as far as they can. To be called after
    /// [`Self::disarm`].
    pub fn give_back(&self) {
        for round in 0..LEAVES {
            self.reclaim();
            let asked: Vec<&ThreadSlot> =
                self.shared.threads.iter().filter(|slot| slot.set.load(Ordering::SeqCst)).collect();
            // The signal is somebody else's.
            if asked.is_empty() || self.is_displaced() {
                return;
            }
            if round > 0 {
                clock::sleep_until(clock::monotonic() + LEAVE_INTERVAL);
            }
            asked.iter().for_each(|slot| slot.visit.store(IN_USE, Ordering::SeqCst));
            ask(&asked, IN_USE, LEAVE, self.at_once());
        }
    }

    /// Ends the engine, and frees what nobody can use any more.
    pub fn stop(mut self) -> Left {
        self.end()
    }

    pub(super) fn end(&mut self) -> Left {
        self.stopped = true;
        self.disarm();
        self.give_back();
        let mut ignore = empty_action();
        ignore.sa_sigaction = libc::SIG_IGN;
        let displaced = self.is_displaced() || {
            // Ignoring discards what is pending on any thread; without that a late signal would
            // meet the default action, which ends the process.
            let was = exchange_action(&ignore);
            let taken = !is_ours(&was);
            if taken {
                exchange_action(&was);
            }
            taken
        };
        ACTIVE.store(ptr::null_mut(), Ordering::SeqCst);
        let ended = wait_for_handlers();
        if !displaced {
            // A signal may still be on its way to a thread that has not moved on, such as one that
            // a debugger holds: then our handler stays, and does nothing. The default action would
            // end the process.
            let was = exchange_action(&if ended { self.before } else { own_action() });
            if was.sa_sigaction != libc::SIG_IGN {
                exchange_action(&was);
            }
            RESTORED.store(ended, Ordering::SeqCst);
        }
        let mut left = Left::default();
        let (mut free, mut gone) = (Vec::new(), Vec::new());
        for slot in &self.shared.threads {
            let Some(stack) = slot.new_one() else { continue };
            match slot.set.load(Ordering::SeqCst) {
                // The thread was asked, but has not come: with no handler under way it never will.
                false if ended => free.push(stack),
                // One that is gone is in no handler.
                true if is_gone(slot.tid.load(Ordering::SeqCst)) => gone.push((stack, slot.old())),
                _ => left.stacks += 1,
            }
        }
        // SAFETY: these are set on no thread, and no handler runs that could set one; or the
        // threads are gone.
        unsafe {
            free.into_iter().for_each(|stack| stack.unmap());
            gone.into_iter().for_each(|(stack, old)| stack.unmap_of_ended(&old));
        }
        if displaced {
            left.stays = Some(
                "another tool has set a handler for SIGPROF meanwhile, which may call the one that \
                    was there before",
            );
        } else if !ended {
            left.stays = Some("threads of the program have not returned from signal handlers yet");
        }
        if left.stays.is_some() {
            std::mem::forget(self.held.take());
            STAYS.store(true, Ordering::SeqCst);
        }
        if ended {
            // SAFETY: no handler runs any more, nor finds it; nobody else does, as the engine goes.
            unsafe { free_shared(ptr::from_ref(self.shared).cast_mut()) };
        }
        left
    }
}

/// Sets the calling thread's own alternate stack again, where it has ours, and gives that back.
/// Whether nothing of ours is left.
pub(super) fn give_back_own(slot: &ThreadSlot) -> bool {
    let stack = slot.stack.load(Ordering::SeqCst);
    if !slot.set.swap(false, Ordering::SeqCst) || stack == 0 {
        return true;
    }
    // From here on no handler sets ours again.
    let given_back = alternate::own().is_some_and(|now| {
        // SAFETY: the thread's own, which nobody has unmapped: it would have set another one first.
        now.ss_sp as u64 != stack || unsafe { alternate::set_own(&slot.old()) }
    });
    slot.set.store(!given_back, Ordering::SeqCst);
    given_back
}

/// Waits until no handler runs, and no thread stands at its first instruction or behind its last:
/// each thread has slept, or has run on, since the signal is ignored, and once more since no
/// handler is counted. `false` if that takes too long.
pub(super) fn wait_for_handlers() -> bool {
    let deadline = clock::monotonic() + END_LIMIT;
    if !have_moved_on(deadline) {
        return false;
    }
    while IN_FLIGHT.load(Ordering::SeqCst) != 0 {
        if clock::monotonic() > deadline {
            return false;
        }
        clock::sleep_until(clock::monotonic() + 500_000);
    }
    have_moved_on(deadline)
}

/// Waits until each other thread has slept, or used some CPU time. `false` also where that cannot
/// be seen.
pub(super) fn have_moved_on(deadline: u64) -> bool {
    let own = current_tid();
    let mut inside: Option<Vec<(u32, u64)>> = None;
    loop {
        match &mut inside {
            // Without descriptors nobody knows which threads there are; there may be some in a
            // moment.
            None => {
                inside = tasks::all_tids_now().map(|tids| {
                    let others = tids.into_iter().filter(|&tid| tid != own && may_be_inside(tid));
                    others.filter_map(|tid| Some((tid, clock::cpu_of(tid)?))).collect()
                });
            }
            Some(inside) => inside.retain(|&(tid, run)| {
                clock::cpu_of(tid).is_some_and(|now| now < run.saturating_add(MOVED_ON))
                    && may_be_inside(tid)
            }),
        }
        if inside.as_ref().is_some_and(Vec::is_empty) {
            return true;
        }
        if clock::monotonic() > deadline {
            return false;
        }
        clock::sleep_until(clock::monotonic() + 500_000);
    }
}

/// Whether a thread may stand in a handler, or just before or behind it: it does, unless it sleeps
/// in a system call, or has ended. One that waits for a page of memory (`D`) or is stopped (`T`,
/// `t`) may.
pub(super) fn may_be_inside(tid: u32) -> bool {
    match tasks::state_now(tid) {
        b'S' | b'I' | b'Z' | b'X' => false,
        b'?' => !is_gone(tid),
        _ => true,
    }
}

/// Frees what handlers use.
///
/// # Safety
/// It came from [`Box::into_raw`], no handler uses it, nor does anybody else from now on.
pub(super) unsafe fn free_shared(shared: *mut Shared) {
    // SAFETY: the caller's contract; the mapping is ours.
    unsafe {
        let shared = Box::from_raw(shared);
        libc::munmap(shared.ring.as_ptr().cast(), shared.layout.size());
        map::returned(shared.layout.size());
    }
}
