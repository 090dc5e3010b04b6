//! Timers on the CPU time of threads, and signals to single threads.

use super::handler::{SI_QUEUE, SigInfo};
use super::slots::{ThreadSlot, VISITED};
use super::{SignalEngine, lock};
use crate::ledger::{self};
use crate::os::clock;
use std::ptr::{self};
use std::sync::atomic::Ordering;
use wire::Resource;

/// No timer of the kernel's has this number.
pub(super) const NO_TIMER: libc::c_int = -1;

#[derive(Clone, Copy)]
pub(super) struct Timer {
    pub(super) id: libc::c_int,
    pub(super) index: u32,
    pub(super) tid: u32,
}

/// `struct sigevent` of the kernel (asm-generic/siginfo.h) for `SIGEV_THREAD_ID`: C libraries
/// differ in how they name the thread's field.
#[repr(C)]
pub(super) struct SigEvent {
    pub(super) value: usize,
    pub(super) signal: i32,
    pub(super) notify: i32,
    pub(super) tid: i32,
    pub(super) pad: [i32; 11],
}

impl SignalEngine {
    pub(super) fn delete_timer_of(&self, index: u32) {
        self.timers().retain(|timer| {
            if timer.index == index {
                self.delete(timer);
            }
            timer.index != index
        });
    }

    pub(super) fn delete(&self, timer: &Timer) {
        if timer.id != NO_TIMER {
            delete_timer(timer.id);
            self.room.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn arm(&self, index: u32, tid: u32, low: u64, high: u64) -> Option<()> {
        let slot = self.shared.threads.get(index as usize)?;
        slot.low.store(low, Ordering::SeqCst);
        slot.high.store(high, Ordering::SeqCst);
        slot.visit.store(VISITED, Ordering::SeqCst);
        let Some(interval) = self.interval else {
            self.keep(Timer { id: NO_TIMER, index, tid });
            return Some(());
        };
        let room = |room: usize| room.checked_sub(1);
        if self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_err() {
            self.without_timer.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let Some(id) = create_timer(tid, slot) else {
            self.room.fetch_add(1, Ordering::SeqCst);
            return None;
        };
        // The first tick comes at another point of the interval for each thread.
        let phase = (u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % interval;
        let setting = libc::itimerspec {
            it_interval: clock::timespec(interval),
            it_value: clock::timespec(phase.max(1)),
        };
        // SAFETY: the timer was just made, and the setting is a local.
        let set = unsafe {
            libc::syscall(libc::SYS_timer_settime, id, 0, &raw const setting, ptr::null_mut::<u8>())
        };
        let timer = Timer { id, index, tid };
        if set != 0 {
            self.delete(&timer);
            return None;
        }
        self.keep(timer);
        Some(())
    }

    /// Keeps a timer, unless the thread has armed its own while it was visited.
    pub(super) fn keep(&self, timer: Timer) {
        let mut timers = self.timers();
        let is_known = timers.iter().any(|known| known.index == timer.index);
        if is_known { self.delete(&timer) } else { timers.push(timer) }
    }

    pub(super) fn timers(&self) -> std::sync::MutexGuard<'_, Vec<Timer>> {
        lock(&self.timers)
    }
}

pub(super) fn create_timer(tid: u32, slot: &ThreadSlot) -> Option<libc::c_int> {
    let clock = clock::cpu_clock(tid);
    let event = SigEvent {
        value: ptr::from_ref(slot) as usize,
        signal: libc::SIGPROF,
        notify: libc::SIGEV_THREAD_ID,
        tid: tid as i32,
        pad: [0; 11],
    };
    let mut id: libc::c_int = 0;
    if !ledger::enter(Resource::Timers, 1) {
        return None;
    }
    // SAFETY: both pointers are to locals of the kernel's layout.
    let made =
        unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut id) };
    if made != 0 {
        ledger::leave(Resource::Timers, 1);
    }
    (made == 0).then_some(id)
}

pub(super) fn delete_timer(id: libc::c_int) {
    if id == NO_TIMER {
        return;
    }
    // SAFETY: a system call without pointers.
    unsafe { libc::syscall(libc::SYS_timer_delete, id) };
    ledger::leave(Resource::Timers, 1);
}

/// Sends the visit's signal to a thread, with its slot. `false` if there is no such thread.
pub(super) fn send(tid: u32, slot: &ThreadSlot) -> bool {
    // SAFETY: no pointers.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = SigInfo {
        signal: libc::SIGPROF,
        errno: 0,
        code: SI_QUEUE,
        pad: 0,
        pid,
        overrun_or_uid: uid as i32,
        value: ptr::from_ref(slot) as usize,
        rest: [0; 12],
    };
    // SAFETY: the info is a local of the kernel's layout and size.
    let sent = unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, libc::SIGPROF, &raw const info)
    };
    sent == 0
}

/// How many signals the user has queued, and how many may be (`SigQ` of proc_pid_status(5)); none
/// where that is not known.
pub(super) fn queued_signals() -> (u64, u64) {
    let status = ledger::read("/proc/self/status").unwrap_or_default();
    parse_queued(&String::from_utf8_lossy(&status)).unwrap_or((0, 0))
}

pub(super) fn parse_queued(status: &str) -> Option<(u64, u64)> {
    let (queued, limit) =
        status.lines().find_map(|line| line.strip_prefix("SigQ:"))?.trim().split_once('/')?;
    Some((queued.parse().ok()?, limit.parse().ok()?))
}
