//! The signal engine: each managed thread has a timer on its own CPU time, whose signal copies the
//! thread's registers and stack into a ring that clrscope reads from outside.
//!
//! What must not go wrong, and how it is kept from going wrong:
//!
//! * The handler allocates nothing, locks nothing, waits for nothing, and keeps `errno`. It copies
//!   only between the stack pointer and the end of the thread's own stack, which was measured
//!   before its timer was armed.
//! * While the runtime handles a `SIGSEGV` (each `NullReferenceException` is one) a thread runs on
//!   an alternate stack of 16 KB, and with AVX-512 a second signal frame does not fit there: the
//!   kernel then kills the process. So before a thread's timer is armed it gets a larger [alternate
//!   stack](super::alternate) of the same layout. This happens where the thread is certainly not on
//!   the old one: in the callback in which it starts, or while the runtime is suspended. Its own
//!   one stays as it is, and is set again when the thread ends, or the recording: the runtime
//!   unmaps, as a thread ends, the one that it has made, and no other.
//! * Nobody else's handler is touched: if `SIGPROF` has one, the engine does not start, and where
//!   one was set meanwhile, it stays. That one may call ours, so the library then stays loaded.
//! * Timers and queued signals count against `RLIMIT_SIGPENDING`, and .NET Core 3.1 aborts when its
//!   own signal cannot be queued. So at most half of what was free at the start is used.
//! * At the end timers go first, then pending signals (ignoring a signal discards them), then it is
//!   waited until every thread that might stand at the handler's first instruction has moved on,
//!   and until no handler runs. If that takes too long, nothing that a handler uses is freed, and
//!   the library stays loaded.

use super::descriptors::Kept;
use super::threads::{current_tid, is_gone};
use super::{alternate, clock, descriptors, map, maps, sandbox, tasks};
use crate::ledger::{self, Held};
use crossbeam_queue::ArrayQueue;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use wire::Resource;
use wire::ring::{Layout, REGISTERS, slot_state};

/// Most threads that are sampled at once.
const THREADS: usize = 4096;
/// Slots in the ring, and bytes of stack in each: 12 MB, and 19 ms of 20,000 samples a second.
/// Pages that no stack reaches into take no memory.
const SLOTS: u32 = 384;
const SLOT_STACK: u32 = 32 << 10;
/// The same without timers, where it is not the number of samples that counts.
const SLOTS_ON_DEMAND: u32 = 128;
const SLOT_STACK_ON_DEMAND: u32 = 64 << 10;
/// How long a thread may take to answer a single signal, nanoseconds.
const ANSWER_LIMIT: u64 = 5_000_000;
/// How long threads may take in all to answer to a visit, nanoseconds.
const VISIT_LIMIT: u64 = 50_000_000;
/// Most visits whose signals are queued at once.
const VISITS_AT_ONCE: usize = 64;
/// How often threads are asked to go back to their own alternate stacks, and nanoseconds between.
const LEAVES: u32 = 60;
const LEAVE_INTERVAL: u64 = 3_000_000;
/// How often all threads are looked at, whether they are still there, nanoseconds: not every end is
/// reported.
const SWEEP_INTERVAL: u64 = 500_000_000;
/// How long it is waited for handlers at the end, nanoseconds.
const END_LIMIT: u64 = 2_000_000_000;
/// CPU time after which a thread has certainly left the kernel, where it may have been just before
/// or behind a handler, nanoseconds.
const MOVED_ON: u64 = 200_000;
/// No timer of the kernel's has this number.
const NO_TIMER: libc::c_int = -1;
/// Nanoseconds per entry in the table of the handler's running times.
const TIME_STEP: u64 = 100;

/// Why the engine does not run.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// Only x86-64 registers are known to the ring.
    #[error("the signal engine needs an x86-64 processor")]
    Processor,
    /// Another one runs in this process: that of a session beside this one.
    #[error("another session samples this process by signals")]
    Busy,
    /// A filter of system calls may end the process for making a timer.
    #[error(
        "a filter of system calls (seccomp) is in place, which may end the process for making a \
            timer"
    )]
    Filtered,
    /// The user may have no more signals queued.
    #[error(
        "the user has {queued} of at most {limit} signals queued: timers for threads need room \
            (RLIMIT_SIGPENDING)"
    )]
    Queue {
        /// How many are queued.
        queued: u64,
        /// How many may be.
        limit: u64,
    },
    /// The application, or another tool in it, uses the signal.
    #[error("SIGPROF already has a handler in this process")]
    HandlerTaken,
    /// Somebody has set a handler at the same moment, and may have found ours there.
    #[error("another tool has set a handler for SIGPROF at this moment")]
    Overtaken,
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The answer.
        source: io::Error,
    },
}

fn system(what: &'static str) -> SignalError {
    SignalError::System { what, source: io::Error::last_os_error() }
}

/// The engine that the handler works for. Null while none runs.
static ACTIVE: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
/// Handlers between their first and their last instruction.
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

/// Whether code or memory of this library may be used by a signal handler for ever.
static STAYS: AtomicBool = AtomicBool::new(false);
/// Whether the signal was ignored before our handler was installed.
static IGNORED_BEFORE: AtomicBool = AtomicBool::new(false);
/// Whether our handler was installed, and what was there before has been restored.
static RESTORED: AtomicBool = AtomicBool::new(false);

/// Whether the library must stay loaded: a handler of ours may still be called, or has not
/// returned.
///
/// To be asked as late as possible: another tool may have read our handler while it was installed,
/// and set its own only now.
pub fn must_stay() -> bool {
    if RESTORED.load(Ordering::SeqCst) && !is_free(&current_action()) {
        STAYS.store(true, Ordering::SeqCst);
    }
    STAYS.load(Ordering::SeqCst)
}

/// What is left of an engine that was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Why the library must stay loaded, if it must.
    pub stays: Option<&'static str>,
    /// Alternate stacks of ours that threads still have: they did not answer, or may need what lies
    /// there.
    pub stacks: usize,
}

/// What handlers use. Never freed while a handler may run.
struct Shared {
    ring: NonNull<u8>,
    layout: Layout,
    threads: Box<[ThreadSlot]>,
    /// How often the handler took each number of [`TIME_STEP`]s, by that number; the last entry
    /// counts all runs that took longer.
    times: Box<[AtomicU32]>,
}

// SAFETY: the ring is memory shared with everyone by design, and is only accessed through atomics
// and through slots that one handler owns at a time.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A thread. Written before its timer is armed, and cleared when it is gone.
#[derive(Default)]
struct ThreadSlot {
    tid: AtomicU32,
    /// What the runtime knows it by.
    thread: AtomicU64,
    /// How far it is with a visit.
    visit: AtomicU32,
    low: AtomicU64,
    high: AtomicU64,
    /// What the visit found: stack pointer and thread control block.
    seen_sp: AtomicU64,
    seen_tcb: AtomicU64,
    /// Time of the sample that was asked for; 0 if no sample was available.
    sampled: AtomicU64,
    /// The large alternate stack that was mapped for it; 0 if there is none. Who takes it out
    /// unmaps it.
    stack: AtomicU64,
    /// The number of that stack.
    number: AtomicU64,
    /// Whether that is set, as far as we know. Changed by the thread itself only, but for its end.
    set: AtomicBool,
    /// Address and size of the alternate stack that it had before.
    old: [AtomicU64; 2],
}

const NOT_VISITED: u32 = 0;
const VISITED: u32 = 1;
const VISIT_FAILED: u32 = 2;
/// A sample is asked for; back to `VISITED` once it is taken.
const WANTED: u32 = 3;
/// It is asked to go back to its own alternate stack.
const LEAVE: u32 = 4;
/// It has.
const HAS_LEFT: u32 = 5;
/// It may still need the large one.
const IN_USE: u32 = 6;

/// The engine of one session.
pub struct SignalEngine {
    /// Freed at the end, if at all.
    shared: &'static Shared,
    ring_file: Kept,
    stacks: alternate::Stacks,
    free: ArrayQueue<u32>,
    timers: Mutex<Vec<Timer>>,
    /// Threads that were said to have ended: place and id, and whether they are gone for certain.
    ending: Mutex<Vec<(u32, u32, bool)>>,
    /// When all threads are looked at again.
    sweep: AtomicU64,
    /// Timers that may still be made.
    room: AtomicUsize,
    /// Most threads that got no timer for want of room.
    without_timer: AtomicU64,
    stopped: bool,
    /// The handler. Gone as it is.
    held: Option<Held>,
    /// Nanoseconds of a thread's CPU time between two samples; `None` without timers.
    interval: Option<u64>,
    before: libc::sigaction,
    unsampled: AtomicU64,
}

#[derive(Clone, Copy)]
struct Timer {
    id: libc::c_int,
    index: u32,
    tid: u32,
}

impl std::fmt::Debug for SignalEngine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SignalEngine").field("interval", &self.interval).finish_non_exhaustive()
    }
}

impl SignalEngine {
    /// Makes the ring and installs the handler; no timer is armed yet.
    pub fn start(rate_hz: u32) -> Result<Self, SignalError> {
        Self::new(
            Layout::new(SLOTS, SLOT_STACK),
            Some(1_000_000_000 / u64::from(rate_hz.clamp(1, 1000))),
        )
    }

    /// As [`Self::start`], but without timers: samples are taken by [`Self::sample_now`].
    pub fn start_on_demand() -> Result<Self, SignalError> {
        Self::new(Layout::new(SLOTS_ON_DEMAND, SLOT_STACK_ON_DEMAND), None)
    }

    fn new(layout: Layout, interval: Option<u64>) -> Result<Self, SignalError> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(SignalError::Processor);
        }
        if sandbox::is_filtered() {
            return Err(SignalError::Filtered);
        }
        let (queued, limit) = queued_signals();
        let room = usize::try_from(limit.saturating_sub(queued) / 2).unwrap_or(usize::MAX);
        if room == 0 {
            return Err(SignalError::Queue { queued, limit });
        }
        let stacks = alternate::Stacks::new()
            .map_err(|source| SignalError::System { what: "no memory file", source })?;
        let (ring_file, ring) = map_ring(&layout)?;
        let shared = Box::new(Shared {
            ring,
            layout,
            threads: (0..THREADS).map(|_| ThreadSlot::default()).collect(),
            times: (0..128).map(|_| AtomicU32::new(0)).collect(),
        });
        let free = ArrayQueue::new(THREADS);
        for index in 0..THREADS {
            let _ = free.push(index as u32);
        }
        let held = ledger::take(Resource::SignalHandlers, 1);
        let shared = Box::into_raw(shared);
        let started = ACTIVE
            .compare_exchange(ptr::null_mut(), shared, Ordering::SeqCst, Ordering::SeqCst)
            .map_err(|_| SignalError::Busy)
            .and_then(|_| {
                install().inspect_err(|_| ACTIVE.store(ptr::null_mut(), Ordering::SeqCst))
            });
        match started {
            Ok(before) => Ok(Self {
                // SAFETY: it is freed at the end of the engine, if at all.
                shared: unsafe { &*shared },
                ring_file,
                stacks,
                free,
                timers: Mutex::default(),
                ending: Mutex::default(),
                sweep: AtomicU64::new(0),
                room: AtomicUsize::new(room),
                without_timer: AtomicU64::new(0),
                interval,
                before,
                unsampled: AtomicU64::new(0),
                stopped: false,
                held,
            }),
            Err(error) => {
                // A handler of ours that was installed for a moment may use it, or may be called by
                // another tool's.
                if !matches!(error, SignalError::Overtaken) {
                    // SAFETY: no handler of ours was installed since it was made.
                    unsafe { free_shared(shared) };
                }
                Err(error)
            }
        }
    }

    /// Shape of the ring, and the file to map it from.
    ///
    /// # Errors
    /// The program has closed the file.
    pub fn ring(&self) -> io::Result<(Layout, BorrowedFd<'_>)> {
        Ok((self.shared.layout, self.ring_file.borrow()?))
    }

    /// Threads that could not be sampled from their start: too many, or their stacks are not
    /// understood.
    pub fn unsampled(&self) -> u64 {
        self.unsampled.load(Ordering::Relaxed)
    }

    /// Threads that got no timer, because that would take more than half of the signals that the
    /// user may have queued.
    pub fn without_timer(&self) -> u64 {
        self.without_timer.load(Ordering::Relaxed)
    }

    /// Whether somebody else has set a handler for the signal since the engine was started.
    pub fn is_displaced(&self) -> bool {
        !is_ours(&current_action())
    }

    /// Samples dropped because the ring was full, and because the thread was not on its own stack.
    pub fn dropped(&self) -> (u64, u64) {
        let counter = |offset| self.shared.counter(offset).load(Ordering::Relaxed);
        (counter(8), counter(16))
    }

    /// Median time of the handler, nanoseconds, and how many ran.
    pub fn handler_time(&self) -> (u64, u64) {
        let counts: Vec<u64> =
            self.shared.times.iter().map(|c| u64::from(c.load(Ordering::Relaxed))).collect();
        let all: u64 = counts.iter().sum();
        let mut below = 0;
        let median = counts.iter().position(|count| {
            below += count;
            below * 2 >= all
        });
        (median.map_or(0, |step| step as u64 * TIME_STEP + TIME_STEP / 2), all)
    }

    /// Bytes that the engine holds in this process, the ring included.
    pub fn memory(&self) -> usize {
        self.shared.layout.size() + THREADS * size_of::<ThreadSlot>()
    }

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
    fn at_once(&self) -> usize {
        self.room.load(Ordering::SeqCst).clamp(1, VISITS_AT_ONCE)
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

    fn index_of(&self, tid: u32) -> Option<u32> {
        self.shared
            .threads
            .iter()
            .position(|slot| slot.tid.load(Ordering::SeqCst) == tid)
            .map(|index| index as u32)
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

    /// Lets another thread have a slot whose alternate stack nobody uses.
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

    fn delete_timer_of(&self, index: u32) {
        self.timers().retain(|timer| {
            if timer.index == index {
                self.delete(timer);
            }
            timer.index != index
        });
    }

    fn delete(&self, timer: &Timer) {
        if timer.id != NO_TIMER {
            delete_timer(timer.id);
            self.room.fetch_add(1, Ordering::SeqCst);
        }
    }

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

    fn end(&mut self) -> Left {
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

    fn timers(&self) -> std::sync::MutexGuard<'_, Vec<Timer>> {
        lock(&self.timers)
    }

    fn arm(&self, index: u32, tid: u32, low: u64, high: u64) -> Option<()> {
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
    fn keep(&self, timer: Timer) {
        let mut timers = self.timers();
        let is_known = timers.iter().any(|known| known.index == timer.index);
        if is_known { self.delete(&timer) } else { timers.push(timer) }
    }
}

impl Drop for SignalEngine {
    fn drop(&mut self) {
        if !self.stopped {
            self.end();
        }
    }
}

/// Visits that were prepared.
#[derive(Debug)]
pub struct Visits {
    indices: Vec<u32>,
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

impl ThreadSlot {
    fn keep_old(&self, stack: &libc::stack_t) {
        let [start, size] = &self.old;
        start.store(stack.ss_sp as u64, Ordering::SeqCst);
        size.store(stack.ss_size as u64, Ordering::SeqCst);
    }

    fn keep_new(&self, stack: alternate::Stack) {
        self.number.store(stack.number, Ordering::SeqCst);
        self.stack.store(stack.start, Ordering::SeqCst);
    }

    fn new_one(&self) -> Option<alternate::Stack> {
        self.stack_at(self.stack.load(Ordering::SeqCst))
    }

    /// Takes it out.
    fn take_new(&self) -> Option<alternate::Stack> {
        self.stack_at(self.stack.swap(0, Ordering::SeqCst))
    }

    fn stack_at(&self, start: u64) -> Option<alternate::Stack> {
        (start != 0).then(|| alternate::Stack { start, number: self.number.load(Ordering::SeqCst) })
    }

    fn old(&self) -> libc::stack_t {
        let [start, size] = &self.old;
        alternate::of(start.load(Ordering::SeqCst), size.load(Ordering::SeqCst) as usize)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Asks threads for something, some at a time, and waits until each has answered; a thread that
/// waits in the kernel comes at once. Those that do not come in time may come later.
fn ask(slots: &[&ThreadSlot], from: u32, to: u32, at_once: usize) {
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

/// Sets the calling thread's own alternate stack again, where it has ours, and gives that back.
/// Whether nothing of ours is left.
fn give_back_own(slot: &ThreadSlot) -> bool {
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
fn wait_for_handlers() -> bool {
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
fn have_moved_on(deadline: u64) -> bool {
    let own = current_tid();
    let mut inside: Option<Vec<(u32, u64)>> = None;
    loop {
        match &mut inside {
            // Without descriptors nobody knows which threads there are; there may be some in a
            // moment.
            None => {
                inside = tasks::all_tids().map(|tids| {
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
fn may_be_inside(tid: u32) -> bool {
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
unsafe fn free_shared(shared: *mut Shared) {
    // SAFETY: the caller's contract; the mapping is ours.
    unsafe {
        let shared = Box::from_raw(shared);
        libc::munmap(shared.ring.as_ptr().cast(), shared.layout.size());
        map::returned(shared.layout.size());
    }
}

/// How many signals the user has queued, and how many may be (`SigQ` of proc_pid_status(5)); none
/// where that is not known.
fn queued_signals() -> (u64, u64) {
    let status = ledger::read("/proc/self/status").unwrap_or_default();
    parse_queued(&String::from_utf8_lossy(&status)).unwrap_or((0, 0))
}

fn parse_queued(status: &str) -> Option<(u64, u64)> {
    let (queued, limit) =
        status.lines().find_map(|line| line.strip_prefix("SigQ:"))?.trim().split_once('/')?;
    Some((queued.parse().ok()?, limit.parse().ok()?))
}

fn map_ring(layout: &Layout) -> Result<(Kept, NonNull<u8>), SignalError> {
    // The reader seals it against shrinking, so that its own reads cannot fault.
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let refused = |source| SignalError::System { what: "no memory file", source };
    // SAFETY: the name is a C string.
    let file = Kept::new(|| unsafe { libc::memfd_create(c"clrscope-ring".as_ptr(), flags) })
        .map_err(refused)?;
    // Pages come as they are used, so that what the stacks of the program do not need is not
    // charged to it. Where the kernel promises no more memory than there is, it may refuse a page
    // at its first touch, and end the process.
    let is_strict =
        ledger::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"2"));
    let length = if is_strict { descriptors::allocate } else { descriptors::set_length };
    length(&file, layout.size()).map_err(refused)?;
    let number = file.number().map_err(refused)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    map::count(layout.size()).ok_or_else(|| system("no room for the ring"))?;
    // SAFETY: a new mapping of a file of that length.
    let ring =
        unsafe { libc::mmap(ptr::null_mut(), layout.size(), access, libc::MAP_SHARED, number, 0) };
    let ring = if ring == libc::MAP_FAILED { None } else { NonNull::new(ring.cast()) };
    let Some(ring) = ring else {
        let error = system("no room for the ring");
        map::returned(layout.size());
        return Err(error);
    };
    Ok((file, ring))
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this C struct: default action, empty mask.
    unsafe { std::mem::zeroed() }
}

/// Sets the action of the signal, and gives the one before.
fn exchange_action(new: &libc::sigaction) -> libc::sigaction {
    let mut was = empty_action();
    // SAFETY: both actions are valid, and what the new one names stays for as long as it is set.
    unsafe { libc::sigaction(libc::SIGPROF, new, &mut was) };
    was
}

fn current_action() -> libc::sigaction {
    let mut now = empty_action();
    // SAFETY: asks only.
    unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), &mut now) };
    now
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handler as *const () as usize
}

/// Bytes that the stack of the first thread may have (`RLIMIT_STACK`), 1 GB at most.
fn stack_limit() -> u64 {
    let mut limits = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes to a local.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limits) };
    limits.rlim_cur.min(1 << 30)
}

/// The lowest and the highest address of the stack of a thread with this stack pointer and thread
/// control block; `None` if it is on another one. `limit` is that of the first thread's stack.
fn stack_of(mappings: &[maps::Mapping], sp: u64, tcb: u64, limit: u64) -> Option<(u64, u64)> {
    let index = mappings.iter().position(|mapping| (mapping.start..mapping.end).contains(&sp))?;
    let mapping = mappings.get(index)?;
    if mapping.path == "[stack]" {
        // The kernel lets it grow downwards, to its limit and not into what is below. That may be
        // near where addresses are not random, and may be the thread's alternate stack.
        let below =
            index.checked_sub(1).and_then(|index| mappings.get(index)).map_or(0, |below| below.end);
        return Some((
            mapping.end.saturating_sub(limit).max(below).min(mapping.start),
            mapping.end,
        ));
    }
    // The control block stands at the end of the stack's own block of memory, in glibc and in musl.
    // What follows in the mapping may belong to somebody else, and go at any time.
    (sp..mapping.end).contains(&tcb).then_some((mapping.start, tcb))
}

/// Whether no tool has a handler for the signal.
fn is_free(action: &libc::sigaction) -> bool {
    matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// What makes the kernel call our handler: not on the alternate stack, as it runs on the stack that
/// it copies, and interrupted system calls are restarted.
fn own_action() -> libc::sigaction {
    let mut ours = empty_action();
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    ours
}

/// Installs our handler, and gives the action before it. Once it was installed, another tool may
/// have found it there, and may call it later: then the library stays.
fn install() -> Result<libc::sigaction, SignalError> {
    let now = current_action();
    if is_ours(&now) {
        // It was left there, or another tool has put it back, which had found it here.
        let is_ignored = IGNORED_BEFORE.load(Ordering::SeqCst);
        return Ok(libc::sigaction {
            sa_sigaction: if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL },
            ..empty_action()
        });
    }
    if !is_free(&now) {
        return Err(SignalError::HandlerTaken);
    }
    RESTORED.store(false, Ordering::SeqCst);
    let before = exchange_action(&own_action());
    if !is_free(&before) {
        // Set just now. Should a third one have come in between, its handler is the newest.
        let newest = exchange_action(&before);
        if !is_ours(&newest) {
            exchange_action(&newest);
        }
        STAYS.store(true, Ordering::SeqCst);
        return Err(SignalError::Overtaken);
    }
    if !is_ours(&current_action()) {
        STAYS.store(true, Ordering::SeqCst);
        return Err(SignalError::Overtaken);
    }
    IGNORED_BEFORE.store(before.sa_sigaction == libc::SIG_IGN, Ordering::SeqCst);
    Ok(before)
}

/// `struct sigevent` of the kernel (asm-generic/siginfo.h) for `SIGEV_THREAD_ID`: C libraries
/// differ in how they name the thread's field.
#[repr(C)]
struct SigEvent {
    value: usize,
    signal: i32,
    notify: i32,
    tid: i32,
    pad: [i32; 11],
}

fn create_timer(tid: u32, slot: &ThreadSlot) -> Option<libc::c_int> {
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

fn delete_timer(id: libc::c_int) {
    if id == NO_TIMER {
        return;
    }
    // SAFETY: a system call without pointers.
    unsafe { libc::syscall(libc::SYS_timer_delete, id) };
    ledger::leave(Resource::Timers, 1);
}

/// Layout of `siginfo_t` for what the handler reads (asm-generic/siginfo.h, 64 bit): timers have an
/// overrun at 20, and both timers and queued signals have the value at 24.
#[repr(C)]
struct SigInfo {
    signal: i32,
    errno: i32,
    code: i32,
    pad: i32,
    pid: i32,
    overrun_or_uid: i32,
    value: usize,
    rest: [u64; 12],
}

const SI_QUEUE: i32 = -1;
const SI_TIMER: i32 = -2;

/// Sends the visit's signal to a thread, with its slot. `false` if there is no such thread.
fn send(tid: u32, slot: &ThreadSlot) -> bool {
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

/// Bounds of the calling thread's stack.
fn own_stack() -> Option<(u64, u64)> {
    let mut attributes = [std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed(); 2];
    let attributes = attributes.as_mut_ptr().cast::<libc::pthread_attr_t>();
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the attributes are a local with room for the largest layout; both results go to
    // locals.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes, &mut start, &mut size) == 0;
        libc::pthread_attr_destroy(attributes);
        let (start, sp) = (start as u64, (&raw const size) as u64);
        let end = start.checked_add(size as u64)?;
        // What stands above the control block, and that itself, is of no use to an unwinder.
        let tcb = libc::pthread_self() as u64;
        let end = if (sp..end).contains(&tcb) { tcb } else { end };
        (found && (start..end).contains(&sp)).then_some((start, end))
    }
}

impl Shared {
    /// The slot that a signal is about. Other tools send the same signal, with values of their own.
    fn slot(&self, value: usize) -> Option<&ThreadSlot> {
        let offset = value.wrapping_sub(self.threads.as_ptr() as usize);
        if !offset.is_multiple_of(size_of::<ThreadSlot>()) {
            return None;
        }
        self.threads.get(offset / size_of::<ThreadSlot>())
    }

    /// One of the ring's own counters.
    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offsets are those of the header, which is 64 bytes large and aligned to a
        // page.
        unsafe { self.ring.add(offset).cast::<AtomicU64>().as_ref() }
    }
}

/// The handler. See the top of the file for what it may not do.
unsafe extern "C" fn handler(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the address of the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    let shared = ACTIVE.load(Ordering::SeqCst);
    if !shared.is_null() {
        // SAFETY: while this handler is counted, the engine is not freed; the kernel's pointers are
        // valid here.
        unsafe {
            handle(&*shared, &*info.cast::<SigInfo>(), &mut *context.cast::<libc::ucontext_t>())
        };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
}

/// # Safety
///
/// Called by the handler only, with what the kernel gave it.
#[inline]
unsafe fn handle(shared: &Shared, info: &SigInfo, context: &mut libc::ucontext_t) {
    let Some(thread) = shared.slot(info.value) else { return };
    match info.code {
        SI_TIMER => {
            let begun = clock::monotonic();
            keep_alternate(thread, context);
            // SAFETY: the caller's contract.
            unsafe { sample(shared, thread, info.overrun_or_uid, context, begun) };
            let step = clock::monotonic().wrapping_sub(begun) / TIME_STEP;
            let step = (step as usize).min(shared.times.len().wrapping_sub(1));
            if let Some(count) = shared.times.get(step) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        // One that came late: the slot is another thread's.
        SI_QUEUE if thread.tid.load(Ordering::SeqCst) != current_tid() => {}
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == NOT_VISITED => {
            // SAFETY: the caller's contract.
            unsafe { visited(shared, thread, context) };
        }
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == WANTED => {
            let begun = clock::monotonic();
            // SAFETY: the caller's contract.
            if unsafe { sample(shared, thread, 0, context, begun) } {
                thread.sampled.store(begun, Ordering::SeqCst);
            }
            let _ =
                thread.visit.compare_exchange(WANTED, VISITED, Ordering::SeqCst, Ordering::SeqCst);
        }
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == LEAVE => {
            // SAFETY: the caller's contract.
            let answer = unsafe { leave(thread, context) };
            thread.visit.store(answer, Ordering::SeqCst);
        }
        // Somebody else's signal: it is not ours to answer, and there was no handler before us.
        _ => {}
    }
}

#[cfg(target_arch = "x86_64")]
fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    let [.., rsp, _, _, _, _, _, _, _] = context.uc_mcontext.gregs;
    rsp as u64
}

#[cfg(not(target_arch = "x86_64"))]
fn stack_pointer(_context: &libc::ucontext_t) -> u64 {
    0
}

/// Sets the large alternate stack again where something has put the small one back.
fn keep_alternate(thread: &ThreadSlot, context: &mut libc::ucontext_t) {
    let now = context.uc_stack;
    if alternate::is_small(&now)
        && thread.set.load(Ordering::SeqCst)
        && thread.tid.load(Ordering::SeqCst) == current_tid()
        && !alternate::range(&now).contains(&stack_pointer(context))
    {
        context.uc_stack = alternate::of(thread.stack.load(Ordering::SeqCst), alternate::SIZE);
    }
}

/// The one visit: gives the thread its alternate stack, and tells where the thread's stack is.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
unsafe fn visited(shared: &Shared, thread: &ThreadSlot, context: &mut libc::ucontext_t) {
    let of =
        |slot: &ThreadSlot| (slot.tid.load(Ordering::SeqCst), slot.thread.load(Ordering::SeqCst));
    // It has just begun to see to itself.
    if shared.threads.iter().any(|other| !ptr::eq(other, thread) && of(other) == of(thread)) {
        thread.visit.store(VISIT_FAILED, Ordering::SeqCst);
        return;
    }
    let sp = stack_pointer(context);
    let old = context.uc_stack;
    let mut result = VISITED;
    if alternate::is_small(&old) {
        if let Some(stack) = thread.new_one().filter(|_| !alternate::range(&old).contains(&sp)) {
            let new = alternate::of(stack.start, alternate::SIZE);
            thread.keep_old(&old);
            stack.mark_old(&old);
            // The kernel sets this stack as the handler returns. The old one stays: a thread that
            // throws for a null reference runs on its own stack again while it still needs what the
            // kernel and the runtime have put there.
            context.uc_stack = new;
            // SAFETY: the thread's own alternate stack, on which it is not; nobody else uses it.
            unsafe { alternate::replace_on_alternate(&old, &new) };
            thread.set.store(true, Ordering::SeqCst);
        } else {
            result = VISIT_FAILED;
        }
    }
    // SAFETY: reads a register, in glibc and in musl.
    let tcb = unsafe { libc::pthread_self() } as u64;
    thread.seen_sp.store(sp, Ordering::SeqCst);
    thread.seen_tcb.store(tcb, Ordering::SeqCst);
    thread.visit.store(result, Ordering::SeqCst);
}

/// Sets the thread's own alternate stack again, if it does not need anything on ours.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
unsafe fn leave(thread: &ThreadSlot, context: &mut libc::ucontext_t) -> u32 {
    let stack = thread.stack.load(Ordering::SeqCst);
    if stack == 0 || !thread.set.load(Ordering::SeqCst) {
        return HAS_LEFT;
    }
    let sp = stack_pointer(context);
    let (low, high) = (thread.low.load(Ordering::SeqCst), thread.high.load(Ordering::SeqCst));
    if !(low..high).contains(&sp) {
        return IN_USE;
    }
    let (ours, old) = (alternate::of(stack, alternate::SIZE), thread.old());
    // SAFETY: the thread's own stack, from its stack pointer to its end.
    unsafe {
        if alternate::is_in_use(stack, sp, high, &registers(context)) {
            return IN_USE;
        }
        // Other handlers that this one has interrupted would set ours again as they return.
        alternate::replace_on_own(sp, high, &ours, &old);
    }
    if context.uc_stack.ss_sp as u64 == stack {
        context.uc_stack = old;
    }
    thread.set.store(false, Ordering::SeqCst);
    HAS_LEFT
}

/// Copies the thread into a free slot of the ring, if it is on its own stack.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
#[inline]
unsafe fn sample(
    shared: &Shared,
    thread: &ThreadSlot,
    overrun: i32,
    context: &libc::ucontext_t,
    now: u64,
) -> bool {
    let sp = stack_pointer(context);
    // While the runtime looks at a fault the thread is on its alternate stack. What is copied then
    // ends there.
    let alternate = alternate::range(&context.uc_stack);
    let is_on_alternate =
        context.uc_stack.ss_flags & libc::SS_DISABLE == 0 && alternate.contains(&sp);
    let own = thread.low.load(Ordering::Relaxed)..thread.high.load(Ordering::Relaxed);
    let stack = if is_on_alternate { alternate } else { own };
    if !stack.contains(&sp) {
        shared.counter(16).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let high = stack.end;
    let ticket = shared.counter(0).fetch_add(1, Ordering::Relaxed);
    let index = (ticket % u64::from(shared.layout.slots)) as usize;
    // SAFETY: the index is below the number of slots, so the slot lies in the ring.
    let slot = unsafe {
        shared.ring.as_ptr().add(Layout::HEADER + index * shared.layout.slot_size as usize)
    };
    // SAFETY: slots are multiples of 64 bytes, so this is aligned, and all access to it is atomic.
    let state = unsafe { &*slot.cast::<AtomicU32>() };
    if state
        .compare_exchange(
            slot_state::FREE,
            slot_state::WRITING,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_err()
    {
        shared.counter(8).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let length = (high - sp).min(shared.layout.stack_size() as u64) as usize;
    // SAFETY: this handler owns the slot now. The offsets are those of the ring's description; the
    // stack from `sp` to `high` is the thread's own, mapped for as long as it runs.
    unsafe {
        slot.add(4).cast::<u32>().write(thread.tid.load(Ordering::Relaxed));
        slot.add(8).cast::<u64>().write(now);
        slot.add(16).cast::<[u64; REGISTERS]>().write(registers(context));
        slot.add(152).cast::<u32>().write(length as u32);
        slot.add(156).cast::<u32>().write(overrun.max(0) as u32);
        ptr::copy_nonoverlapping(sp as *const u8, slot.add(Layout::SLOT_HEADER), length);
    }
    state.store(slot_state::READY, Ordering::Release);
    true
}

/// Registers in the order of [`wire::ring::Register`], from the order of the kernel's context
/// (`REG_R8` = 0 …).
#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> [u64; REGISTERS] {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, ..] =
        context.uc_mcontext.gregs;
    [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip]
        .map(|register| register as u64)
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(_context: &libc::ucontext_t) -> [u64; REGISTERS] {
    [0; REGISTERS]
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::os::threads::current_tid;
    use wire::ring::Register;

    /// Only one engine can run in a process.
    static ONE: Mutex<()> = Mutex::new(());

    fn limit_descriptors(limit: u64) {
        let mut both = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limits are a local.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut both), 0);
            both.rlim_cur = limit;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &both), 0);
        }
    }

    #[test]
    fn without_descriptors_nobody_is_said_to_have_moved_on() {
        let _one = lock(&ONE);
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send(current_tid()).unwrap();
            let _ = receive.recv();
        });
        let tid = told.recv().unwrap();
        // Close to the limit threads are still seen.
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 + 3;
        limit_descriptors(open);
        assert!((0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            tasks::state_now(tid) == b'S'
        }));
        assert!(!may_be_inside(tid));
        // At the limit they are not.
        limit_descriptors(0);
        assert_eq!(tasks::all_tids(), None);
        assert!(tasks::Sleepers::default().awake().is_none());
        assert!(!have_moved_on(clock::monotonic() + 5_000_000));
        limit_descriptors(1024);
        assert!(tasks::all_tids().is_some_and(|tids| tids.contains(&tid)));
        drop(send);
        sleeper.join().unwrap();
    }

    fn burn(nanos: u64) {
        let end = clock::thread_cpu() + nanos;
        while clock::thread_cpu() < end {}
    }

    struct Sample {
        tid: u32,
        registers: [u64; REGISTERS],
        stack: Vec<u8>,
        overrun: u32,
    }

    /// All samples that are ready; frees their slots.
    fn take(engine: &SignalEngine) -> Vec<Sample> {
        let shared = &engine.shared;
        let mut samples = Vec::new();
        for index in 0..shared.layout.slots as usize {
            // SAFETY: the slot lies in the ring, and is ours while it is ready.
            unsafe {
                let slot = shared
                    .ring
                    .as_ptr()
                    .add(Layout::HEADER + index * shared.layout.slot_size as usize);
                let state = &*slot.cast::<AtomicU32>();
                if state.load(Ordering::Acquire) != slot_state::READY {
                    continue;
                }
                let length = slot.add(152).cast::<u32>().read() as usize;
                samples.push(Sample {
                    tid: slot.add(4).cast::<u32>().read(),
                    registers: slot.add(16).cast::<[u64; REGISTERS]>().read(),
                    stack: std::slice::from_raw_parts(slot.add(Layout::SLOT_HEADER), length)
                        .to_vec(),
                    overrun: slot.add(156).cast::<u32>().read(),
                });
                state.store(slot_state::FREE, Ordering::Release);
            }
        }
        samples
    }

    #[test]
    fn a_burning_thread_is_sampled_in_proportion_to_its_cpu_time() {
        let _one = lock(&ONE);
        let engine = SignalEngine::start(100).unwrap();
        let tid = current_tid();
        engine.add_current(1, tid);
        let mut ticks = 0;
        let mut count = 0;
        for _ in 0..10 {
            burn(50_000_000);
            for sample in take(&engine) {
                assert_eq!(sample.tid, tid);
                assert!(sample.stack.len() > 256 && sample.stack.len() <= SLOT_STACK as usize);
                let rip = sample.registers[Register::Rip as usize];
                assert!(maps::mapping_of(rip).unwrap().executable, "{rip:x}");
                assert_ne!(sample.registers[Register::Rsp as usize], 0);
                ticks += 1 + sample.overrun;
                count += 1;
            }
        }
        // 500 ms at 100 Hz; the first one comes early, and the kernel rounds to its own ticks.
        assert!((35..=56).contains(&ticks), "{ticks} ticks in {count} samples");
        assert_eq!(engine.dropped(), (0, 0));
        assert_eq!(engine.unsampled(), 0);
        let (median, handled) = engine.handler_time();
        // One more may have come since they were taken last.
        assert!((count..=count + 1).contains(&handled), "{handled} handled, {count} taken");
        eprintln!("handler: {median} ns, {handled} times");
        engine.remove_current(2);
        assert_eq!(engine.sampled().len(), 1, "that was another thread");
        engine.remove_current(1);
        burn(50_000_000);
        take(&engine);
        burn(50_000_000);
        assert_eq!(take(&engine).len(), 0);
    }

    /// How many of our alternate stacks are mapped.
    fn mapped() -> usize {
        // Each is a guard page and the rest.
        maps::mappings()
            .iter()
            .filter(|one| one.path.contains("clrscope-stack") && one.end - one.start == 4096)
            .count()
    }

    fn threads_of(tids: &[u32]) -> Vec<(u64, u32)> {
        tids.iter().map(|&tid| (u64::from(tid) << 8, tid)).collect()
    }

    fn visit_all(engine: &SignalEngine, tids: &[u32]) -> Visits {
        let visits = engine.prepare(&threads_of(tids));
        engine.visit(&visits);
        engine.arm_visited(&visits);
        visits
    }

    #[test]
    fn threads_that_run_already_are_visited_and_get_their_alternate_stacks_back() {
        let _one = lock(&ONE);
        let engine = SignalEngine::start(1000).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let stop = AtomicBool::new(false);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for sleeps in [true, false] {
                let (send, stop, ended) = (send.clone(), &stop, &ended);
                scope.spawn(move || {
                    let before = alternate::own().unwrap();
                    send.send(current_tid()).unwrap();
                    while !stop.load(Ordering::SeqCst) {
                        if sleeps {
                            std::thread::sleep(std::time::Duration::from_millis(100));
                        }
                    }
                    let during = alternate::own().unwrap();
                    assert_eq!(during.ss_size, alternate::SIZE);
                    while !ended.load(Ordering::SeqCst) {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    let after = alternate::own().unwrap();
                    assert_eq!((after.ss_sp, after.ss_size), (before.ss_sp, before.ss_size));
                });
            }
            let tids: Vec<u32> = receive.iter().take(2).collect();
            let visits = visit_all(&engine, &tids);
            let unsampled = engine.unsampled();
            // As long as it takes the burning one to get to a processor.
            let mut samples = Vec::new();
            let deadline = clock::monotonic() + 30_000_000_000;
            while samples.len() < 10 && clock::monotonic() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(50));
                samples.extend(take(&engine));
            }
            // First of all, so that the threads end whatever is found.
            stop.store(true, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(300));
            let during = mapped();
            let left = engine.stop();
            ended.store(true, Ordering::SeqCst);
            assert_eq!((visits.len(), unsampled, during), (2, 0, 2));
            assert_eq!((left, mapped(), must_stay()), (Left::default(), 0, false));
            assert!(samples.len() >= 10, "{}", samples.len());
            // The sleeping one uses no CPU time.
            assert!(
                samples
                    .iter()
                    .all(|sample| sample.tid == samples[0].tid && tids.contains(&sample.tid))
            );
        });
    }

    #[test]
    fn a_thread_that_is_visited_before_it_says_that_it_runs_keeps_its_stack() {
        let _one = lock(&ONE);
        let engine = SignalEngine::start(1000).unwrap();
        for thread_says in [1, 2] {
            let (visited, says) = (AtomicBool::new(false), AtomicBool::new(false));
            let (tid, done) = (AtomicU32::new(0), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    tid.store(current_tid(), Ordering::SeqCst);
                    while !visited.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    engine.add_current(thread_says, current_tid());
                    says.store(true, Ordering::SeqCst);
                    while !done.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    let own = alternate::own().unwrap();
                    assert_eq!(own.ss_size, alternate::SIZE);
                    // SAFETY: asks only whether it is mapped.
                    assert_eq!(unsafe { libc::msync(own.ss_sp, own.ss_size, libc::MS_ASYNC) }, 0);
                    engine.remove_current(thread_says);
                    assert_ne!(alternate::own().unwrap().ss_size, alternate::SIZE);
                });
                while tid.load(Ordering::SeqCst) == 0 {
                    std::hint::spin_loop();
                }
                // The runtime may know it by another number when it says that it runs.
                let visits = engine.prepare(&[(1, tid.load(Ordering::SeqCst))]);
                engine.visit(&visits);
                visited.store(true, Ordering::SeqCst);
                while !says.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                engine.reclaim();
                assert_eq!(engine.arm_visited(&visits), (1, 1));
                engine.reclaim();
                done.store(true, Ordering::SeqCst);
            });
            assert_eq!((mapped(), engine.free.len(), engine.timers().len()), (0, THREADS, 0));
        }
        assert_eq!(engine.stop(), Left::default());
    }

    #[test]
    fn alternate_stacks_of_threads_that_end_are_given_back_and_those_of_others_stay() {
        let _one = lock(&ONE);
        let engine = SignalEngine::start(1000).unwrap();
        for says in [true, false] {
            for _ in 0..20 {
                // As Go and Rust make them: on the heap.
                let mut own = vec![7u8; 32 << 10];
                let start = own.as_mut_ptr() as u64;
                let tid = std::thread::scope(|scope| {
                    let thread = scope.spawn(|| {
                        let before = alternate::own().unwrap();
                        let heap = alternate::of(start, 32 << 10);
                        // SAFETY: it lives longer than the thread, and nothing else is on it.
                        assert!(unsafe { alternate::set_own(&heap) });
                        engine.add_current(5, current_tid());
                        burn(2_000_000);
                        assert_eq!(alternate::own().unwrap().ss_size, alternate::SIZE);
                        if says {
                            engine.remove_current(5);
                            assert_eq!(alternate::own().unwrap().ss_sp as u64, start);
                            assert_eq!(mapped(), 0);
                        }
                        // SAFETY: as the thread had it.
                        unsafe { alternate::set_own(&before) };
                        current_tid()
                    });
                    thread.join().unwrap()
                });
                engine.remove(5, tid);
                assert!(own.iter().all(|&byte| byte == 7));
            }
            let gone = (0..200).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                engine.reclaim();
                mapped() == 0
            });
            assert!(gone, "{}", mapped());
        }
        assert_eq!((engine.unsampled(), engine.free.len()), (0, THREADS));
        assert_eq!(engine.stop(), Left::default());
    }

    #[test]
    fn at_most_half_of_what_may_be_queued_is_used() {
        let _one = lock(&ONE);
        assert_eq!(parse_queued("Threads:\t1\nSigQ:\t12/96365\nSigPnd:\t0\n"), Some((12, 96365)));
        let (queued, _) = queued_signals();
        let limit = |soft| {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a valid limit; the hard one stays where it is for root only, and this process
            // ends with its test.
            unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit) }
        };
        if limit(queued + 10) != 0 {
            return;
        }
        let engine = SignalEngine::start(100).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(Mutex::new(wait));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (send, wait) = (send.clone(), std::sync::Arc::clone(&wait));
                std::thread::spawn(move || {
                    send.send(current_tid()).unwrap();
                    let _ = lock(&wait).recv();
                })
            })
            .collect();
        let tids: Vec<u32> = receive.iter().take(8).collect();
        visit_all(&engine, &tids);
        let armed = engine.sampled().len();
        let (free, without) = (engine.has_room(), engine.without_timer());
        // A thread that begins now has none either.
        engine.add_current(1, current_tid());
        let more = engine.sampled().len();
        engine.disarm();
        let room = engine.has_room();
        drop(stop);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(engine);
        // Others of the same user may queue signals meanwhile.
        assert!(
            (1..=5).contains(&armed) && !free && more == armed && room,
            "{armed} {free} {more}"
        );
        assert!(without >= 3, "{without}");
        assert_eq!(limit(queued_signals().0), 0);
        assert!(matches!(SignalEngine::start(100), Err(SignalError::Queue { .. })));
    }

    #[test]
    fn a_handler_that_has_not_returned_keeps_everything() {
        let _one = lock(&ONE);
        let engine = SignalEngine::start(100).unwrap();
        let (shared, ring) = (engine.shared, engine.shared.ring);
        // As if it was held.
        IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
        let left = engine.stop();
        assert!(left.stays.is_some() && must_stay());
        // SAFETY: this is what is tested: it is still there.
        unsafe { ring.as_ptr().write_volatile(1) };
        assert_eq!(shared.threads.len(), THREADS);
        IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
    }

    #[test]
    fn a_handler_that_was_set_meanwhile_stays() {
        let _one = lock(&ONE);
        unsafe extern "C" fn theirs(_: libc::c_int) {}
        let engine = SignalEngine::start(1000).unwrap();
        let tid = current_tid();
        engine.add_current(1, tid);
        let mut action = empty_action();
        action.sa_sigaction = theirs as *const () as usize;
        let was = exchange_action(&action);
        assert!(is_ours(&was) && engine.is_displaced());
        burn(20_000_000);
        let left = engine.stop();
        assert!(left.stays.is_some() && must_stay());
        assert_eq!(current_action().sa_sigaction, theirs as *const () as usize);
        assert!(matches!(SignalEngine::start(100), Err(SignalError::HandlerTaken)));
        // They restore what they found, and nobody is hurt; and the next recording uses it.
        exchange_action(&was);
        // SAFETY: no pointers.
        unsafe { libc::raise(libc::SIGPROF) };
        let engine = SignalEngine::start(1000).unwrap();
        engine.add_current(1, tid);
        burn(20_000_000);
        assert!(!take(&engine).is_empty());
        engine.stop();
        assert_eq!(current_action().sa_sigaction, libc::SIG_DFL);
    }

    #[test]
    fn a_handler_that_is_set_after_ours_was_read_and_restored_keeps_the_library() {
        let _one = lock(&ONE);
        unsafe extern "C" fn theirs(_: libc::c_int) {}
        STAYS.store(false, Ordering::SeqCst);
        let engine = SignalEngine::start(1000).unwrap();
        assert!(engine.stop().stays.is_none() && !must_stay());
        let mut action = empty_action();
        action.sa_sigaction = theirs as *const () as usize;
        let free = exchange_action(&action);
        assert!(must_stay());
        // It stays when they have left: they may have passed on what they read.
        exchange_action(&free);
        assert!(must_stay());
    }

    #[test]
    fn the_stack_of_the_first_thread_ends_above_what_is_below() {
        let mapping = |start, end, path: &str| maps::Mapping {
            start,
            end,
            executable: false,
            path: path.into(),
        };
        let megabyte = 1 << 20;
        let stack = mapping(1000 * megabyte, 1001 * megabyte, "[stack]");
        let (sp, tcb) = (stack.start + 100, 5);
        let below =
            |below| stack_of(&[mapping(0, below, ""), stack.clone()], sp, tcb, 8 * megabyte);
        assert_eq!(below(500 * megabyte), Some((993 * megabyte, stack.end)));
        // An alternate stack, as it lies where addresses are not random.
        assert_eq!(below(996 * megabyte), Some((996 * megabyte, stack.end)));
        assert_eq!(stack_of(std::slice::from_ref(&stack), sp, tcb, 1 << 30), Some((0, stack.end)));
        // It was allowed to be larger when it grew.
        assert_eq!(
            stack_of(std::slice::from_ref(&stack), sp, tcb, 4096),
            Some((stack.start, stack.end))
        );
        assert_eq!(stack_of(&[stack], 7, tcb, megabyte), None);
        // Another thread's, with something that follows in the same mapping.
        let other = [mapping(megabyte, 3 * megabyte, "")];
        assert_eq!(stack_of(&other, megabyte, 2 * megabyte, 0), Some((megabyte, 2 * megabyte)));
        assert_eq!(stack_of(&other, 2 * megabyte, megabyte, 0), None);
    }

    #[test]
    fn signals_of_others_are_nobodys() {
        let _one = lock(&ONE);
        let engine = SignalEngine::start(100).unwrap();
        let base = engine.shared.threads.as_ptr() as usize;
        assert!(engine.shared.slot(base).is_some());
        for value in [
            0,
            1,
            base + 1,
            base - size_of::<ThreadSlot>(),
            base + THREADS * size_of::<ThreadSlot>(),
        ] {
            assert!(engine.shared.slot(value).is_none(), "{value:x}");
        }
    }

    #[test]
    fn a_foreign_handler_is_left_alone() {
        let _one = lock(&ONE);
        unsafe extern "C" fn theirs(_: libc::c_int) {}
        let mut action = empty_action();
        action.sa_sigaction = theirs as *const () as usize;
        let mut before = empty_action();
        // SAFETY: these are valid actions; the previous one is restored below.
        unsafe { libc::sigaction(libc::SIGPROF, &action, &mut before) };
        assert!(matches!(SignalEngine::start(100), Err(SignalError::HandlerTaken)));
        let mut now = empty_action();
        // SAFETY: as above.
        unsafe { libc::sigaction(libc::SIGPROF, &before, &mut now) };
        assert_eq!(now.sa_sigaction, theirs as *const () as usize);
        // And the refusal left room for the next.
        let engine = SignalEngine::start(100).unwrap();
        assert!(matches!(SignalEngine::start(100), Err(SignalError::Busy)));
        drop(engine);
        // SAFETY: asks only.
        unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), &mut now) };
        assert_eq!(now.sa_sigaction, libc::SIG_DFL);
    }

    #[test]
    fn starting_and_stopping_under_fire_is_safe() {
        let _one = lock(&ONE);
        let stop = AtomicBool::new(false);
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (send, stop) = (send.clone(), &stop);
                scope.spawn(move || {
                    send.send(current_tid()).unwrap();
                    while !stop.load(Ordering::SeqCst) {}
                });
            }
            let tids: Vec<u32> = receive.iter().take(4).collect();
            for _ in 0..30 {
                let engine = SignalEngine::start(1000).unwrap();
                visit_all(&engine, &tids);
                std::thread::sleep(std::time::Duration::from_millis(10));
                assert_eq!(engine.stop().stays, None);
            }
            stop.store(true, Ordering::SeqCst);
            assert_eq!(mapped(), 0);
        });
    }
}
