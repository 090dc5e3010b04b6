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

mod disposition;
mod end;
mod handler;
mod slots;
mod timers;
mod visits;

use disposition::{current_action, install, is_free, is_ours};
pub use end::Left;
use end::{free_shared, give_back_own};
use handler::own_stack;
use slots::{HAS_LEFT, ThreadSlot, VISIT_FAILED};
use timers::{Timer, queued_signals};
pub use visits::Visits;

use crate::ledger::{self, Held};
use crate::os::descriptors::Kept;
use crate::os::threads::{current_tid, is_gone};
use crate::os::{alternate, clock, descriptors, map, sandbox};
use crossbeam_queue::ArrayQueue;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use wire::Resource;
use wire::ring::Layout;

/// Most threads that are sampled at once.
const THREADS: usize = 4096;
/// Slots in the ring, and bytes of stack in each: 12 MB, and 19 ms of 20,000 samples a second.
/// Pages that no stack reaches into take no memory.
const SLOTS: u32 = 384;
const SLOT_STACK: u32 = 32 << 10;
/// The same without timers, where it is not the number of samples that counts.
const SLOTS_ON_DEMAND: u32 = 128;
const SLOT_STACK_ON_DEMAND: u32 = 64 << 10;
/// How often all threads are looked at, whether they are still there, nanoseconds: not every end is
/// reported.
const SWEEP_INTERVAL: u64 = 500_000_000;
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
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::disposition::*;
    use super::end::*;
    use super::slots::*;
    use super::timers::*;
    use super::*;
    use crate::os::threads::current_tid;
    use crate::os::{maps, tasks};
    use wire::ring::{REGISTERS, Register, slot_state};

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
