//! The signal engine: each managed thread has a timer on its own CPU time, whose signal copies the thread's
//! registers and stack into a ring that clrscope reads from outside.
//!
//! What must not go wrong, and how it is kept from going wrong:
//!
//! * The handler allocates nothing, locks nothing, waits for nothing, and keeps `errno`. It copies only between
//!   the stack pointer and the end of the thread's own stack, which was measured before its timer was armed.
//! * While the runtime handles a `SIGSEGV` (each `NullReferenceException` is one) a thread runs on an alternate
//!   stack of 16 KB, and with AVX-512 a second signal frame does not fit there: the kernel then kills the process.
//!   So before a thread's timer is armed its alternate stack is swapped for a larger one of the same layout, which
//!   the runtime frees at the thread's end as it would have freed its own. The swap happens where the thread is
//!   certainly not on the old one: in the callback in which it starts, or while the runtime is suspended.
//! * Nobody else's handler is touched: if `SIGPROF` has one, the engine does not start.
//! * At the end timers go first, then pending signals (ignoring a signal discards them), then it is waited until
//!   every thread that might stand at the handler's first instruction has moved on, and until no handler runs.

use super::clock;
use super::tasks::{self, Tasks};
use crossbeam_queue::ArrayQueue;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use wire::ring::{Layout, REGISTERS, slot_state};

/// Most threads that are sampled at once.
const THREADS: usize = 4096;
/// Bytes of the alternate stack that a thread gets, guard page included.
const ALTERNATE_STACK: usize = 96 << 10;
/// Slots in the ring, and bytes of stack in each: 12 MB, and 19 ms of 20,000 samples a second. Pages that no stack
/// reaches into take no memory.
const SLOTS: u32 = 384;
const SLOT_STACK: u32 = 32 << 10;
/// The same without timers, where it is not the number of samples that counts.
const SLOTS_ON_DEMAND: u32 = 128;
const SLOT_STACK_ON_DEMAND: u32 = 64 << 10;
/// How long a thread may take to answer a single signal, nanoseconds.
const ANSWER_LIMIT: u64 = 5_000_000;
/// No timer of the kernel's has this number.
const NO_TIMER: libc::c_int = -1;
/// The table of the handler's running times has one entry for so many nanoseconds.
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
    /// The application, or another tool in it, uses the signal.
    #[error("SIGPROF already has a handler in this process")]
    HandlerTaken,
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

/// What handlers use. Never freed while a handler may run.
struct Shared {
    ring: NonNull<u8>,
    layout: Layout,
    threads: Box<[ThreadSlot]>,
    /// How often the handler took so many [`TIME_STEP`]s; the last entry is for all that took longer.
    times: Box<[AtomicU32]>,
}

// SAFETY: the ring is memory shared with everyone by design, and is only accessed through atomics and through slots
// that one handler owns at a time.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A thread's stack. Written before its timer is armed, and cleared when it is gone.
#[derive(Default)]
struct ThreadSlot {
    tid: AtomicU32,
    /// `VISITED` is set by the handler of the one visit.
    visit: AtomicU32,
    low: AtomicU64,
    high: AtomicU64,
    /// What the visit found: stack pointer and thread control block.
    seen_sp: AtomicU64,
    seen_tcb: AtomicU64,
    /// Time of the sample that was asked for; 0 if there was none to be had.
    sampled: AtomicU64,
    /// The large alternate stack that the visit gave it; 0 if it gave none.
    alternate: AtomicU64,
}

const NOT_VISITED: u32 = 0;
const VISITED: u32 = 1;
const VISIT_FAILED: u32 = 2;
/// A sample is asked for; back to `VISITED` once it is taken.
const WANTED: u32 = 3;

/// The engine of one session.
pub struct SignalEngine {
    shared: Box<Shared>,
    ring_file: File,
    free: ArrayQueue<u32>,
    timers: Mutex<Vec<Timer>>,
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
        Self::new(Layout::new(SLOTS, SLOT_STACK), Some(1_000_000_000 / u64::from(rate_hz.clamp(1, 1000))))
    }

    /// As [`Self::start`], but without timers: samples are taken by [`Self::sample_now`].
    pub fn start_on_demand() -> Result<Self, SignalError> {
        Self::new(Layout::new(SLOTS_ON_DEMAND, SLOT_STACK_ON_DEMAND), None)
    }

    fn new(layout: Layout, interval: Option<u64>) -> Result<Self, SignalError> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(SignalError::Processor);
        }
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
        let pointer = ptr::from_ref(shared.as_ref()).cast_mut();
        if ACTIVE.compare_exchange(ptr::null_mut(), pointer, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Err(SignalError::Busy);
        }
        match install() {
            Ok(before) => Ok(Self {
                shared,
                ring_file,
                free,
                timers: Mutex::default(),
                interval,
                before,
                unsampled: AtomicU64::new(0),
            }),
            Err(error) => {
                ACTIVE.store(ptr::null_mut(), Ordering::SeqCst);
                Err(error)
            }
        }
    }

    /// Shape of the ring, and the file to map it from.
    pub fn ring(&self) -> (Layout, BorrowedFd<'_>) {
        (self.shared.layout, self.ring_file.as_fd())
    }

    /// Threads that could not be sampled from their start: too many, or their stacks are not understood.
    pub fn unsampled(&self) -> u64 {
        self.unsampled.load(Ordering::Relaxed)
    }

    /// Samples dropped because the ring was full, and because the thread was not on its own stack.
    pub fn dropped(&self) -> (u64, u64) {
        let counter = |offset| self.shared.counter(offset).load(Ordering::Relaxed);
        (counter(8), counter(16))
    }

    /// Median time of the handler, nanoseconds, and how many ran.
    pub fn handler_time(&self) -> (u64, u64) {
        let counts: Vec<u64> = self.shared.times.iter().map(|c| u64::from(c.load(Ordering::Relaxed))).collect();
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

    /// Samples the calling thread from now on: to be called as it starts.
    pub fn add_current(&self, tid: u32) {
        let sampled = swap_own_alternate_stack().and_then(|()| {
            let (low, high) = own_stack()?;
            let index = self.free.pop()?;
            self.arm(index, tid, low, high)
        });
        if sampled.is_none() {
            self.unsampled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Prepares threads that already run. The caller has suspended the runtime, so none of them is inside the
    /// runtime's handler of a `SIGSEGV`; each is sent one signal, in which its alternate stack is swapped.
    /// The timers are armed by [`Self::arm_visited`] after the runtime goes on.
    pub fn visit(&self, tids: &[u32]) -> Vec<u32> {
        let mut visited = Vec::with_capacity(tids.len());
        for tid in self.unsampled_of(tids) {
            // One that did not come in time may still come, or may have come meanwhile.
            let asked = self.index_of(tid);
            let Some(index) = asked.or_else(|| self.free.pop()) else { break };
            let Some(slot) = self.shared.threads.get(index as usize) else { break };
            if asked.is_some() && slot.visit.load(Ordering::SeqCst) != VISIT_FAILED {
                visited.push(index);
                continue;
            }
            slot.alternate.store(0, Ordering::SeqCst);
            slot.visit.store(NOT_VISITED, Ordering::SeqCst);
            slot.tid.store(tid, Ordering::SeqCst);
            if send(tid, index) {
                visited.push(index);
            } else {
                slot.tid.store(0, Ordering::SeqCst);
                let _ = self.free.push(index);
            }
        }
        // A thread that waits in the kernel comes at once. One that does not come in this time may be visited again.
        let deadline = clock::monotonic() + 50_000_000;
        let slot = |index: u32| self.shared.threads.get(index as usize);
        while clock::monotonic() < deadline
            && visited.iter().filter_map(|&index| slot(index)).any(|s| s.visit.load(Ordering::SeqCst) == NOT_VISITED)
        {
            clock::sleep_until(clock::monotonic() + 50_000);
        }
        visited
    }

    /// Those of these threads that are not sampled.
    pub fn unsampled_of(&self, tids: &[u32]) -> Vec<u32> {
        let armed: std::collections::HashSet<u32> = self.timers().iter().map(|timer| timer.tid).collect();
        tids.iter().copied().filter(|tid| !armed.contains(tid)).collect()
    }

    fn index_of(&self, tid: u32) -> Option<u32> {
        self.shared.threads.iter().position(|slot| slot.tid.load(Ordering::SeqCst) == tid).map(|index| index as u32)
    }

    /// Arms the timers of threads that were visited. Says how many of them had answered, and how many are armed.
    pub fn arm_visited(&self, visited: &[u32]) -> (usize, usize) {
        let mappings = super::maps::mappings();
        let slots = visited.iter().filter_map(|&index| self.shared.threads.get(index as usize));
        let answered = slots.filter(|slot| slot.visit.load(Ordering::SeqCst) == VISITED).count();
        let armed = visited.iter().filter(|index| {
            let armed = self.shared.threads.get(**index as usize).and_then(|slot| {
                if slot.visit.load(Ordering::SeqCst) != VISITED {
                    return None;
                }
                let sp = slot.seen_sp.load(Ordering::SeqCst);
                let tcb = slot.seen_tcb.load(Ordering::SeqCst);
                let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&sp))?;
                let (low, high) = if mapping.path == "[stack]" {
                    // The kernel lets it grow downwards.
                    (mapping.end.saturating_sub(1 << 30), mapping.end)
                } else if (sp..mapping.end).contains(&tcb) {
                    // The control block stands at the end of the stack's own block of memory, in glibc and in musl.
                    // What follows in the mapping may belong to somebody else, and go at any time.
                    (mapping.start, tcb)
                } else {
                    return None;
                };
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

    /// Makes a thread copy itself into the ring now, and waits for it, a few milliseconds at most. Says the time in
    /// its slot, or `None` if it did not answer, was on another stack, or found the ring full. Allocates nothing.
    pub fn sample_now(&self, (tid, index): (u32, u32)) -> Option<u64> {
        let slot = self.shared.threads.get(index as usize).filter(|slot| slot.tid.load(Ordering::SeqCst) == tid)?;
        slot.sampled.store(0, Ordering::SeqCst);
        slot.visit.compare_exchange(VISITED, WANTED, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        let deadline = clock::monotonic() + ANSWER_LIMIT;
        if send(tid, index) {
            while slot.visit.load(Ordering::SeqCst) == WANTED && clock::monotonic() < deadline {
                clock::sleep_until(clock::monotonic() + 10_000);
            }
        }
        // A signal that comes later finds nothing to do.
        let _ = slot.visit.compare_exchange(WANTED, VISITED, Ordering::SeqCst, Ordering::SeqCst);
        Some(slot.sampled.load(Ordering::SeqCst)).filter(|&time| time != 0)
    }

    /// The thread is gone.
    pub fn remove(&self, tid: u32) {
        let mut timers = self.timers();
        if timers.iter().all(|timer| timer.tid != tid) {
            // It ended before it answered to its visit.
            if let Some(index) = self.index_of(tid)
                && let Some(slot) = self.shared.threads.get(index as usize)
            {
                slot.tid.store(0, Ordering::SeqCst);
                slot.alternate.store(0, Ordering::SeqCst);
                let _ = self.free.push(index);
            }
            return;
        }
        timers.retain(|timer| {
            if timer.tid != tid {
                return true;
            }
            delete_timer(timer.id);
            if let Some(slot) = self.shared.threads.get(timer.index as usize) {
                slot.high.store(0, Ordering::SeqCst);
                slot.tid.store(0, Ordering::SeqCst);
                slot.alternate.store(0, Ordering::SeqCst);
            }
            let _ = self.free.push(timer.index);
            false
        });
    }

    /// Ends all sampling. Handlers that run meanwhile still finish their samples.
    pub fn disarm(&self) {
        for timer in self.timers().drain(..) {
            delete_timer(timer.id);
        }
    }

    fn timers(&self) -> std::sync::MutexGuard<'_, Vec<Timer>> {
        self.timers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn arm(&self, index: u32, tid: u32, low: u64, high: u64) -> Option<()> {
        let slot = self.shared.threads.get(index as usize)?;
        slot.low.store(low, Ordering::SeqCst);
        slot.high.store(high, Ordering::SeqCst);
        slot.tid.store(tid, Ordering::SeqCst);
        slot.visit.store(VISITED, Ordering::SeqCst);
        let Some(interval) = self.interval else {
            self.timers().push(Timer { id: NO_TIMER, index, tid });
            return Some(());
        };
        let id = create_timer(tid, index)?;
        // The first tick comes at another point of the interval for each thread.
        let phase = (u64::from(tid).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % interval;
        let setting =
            libc::itimerspec { it_interval: clock::timespec(interval), it_value: clock::timespec(phase.max(1)) };
        // SAFETY: the timer was just made, and the setting is a local.
        let set = unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const setting, ptr::null_mut::<u8>()) };
        if set != 0 {
            delete_timer(id);
            return None;
        }
        self.timers().push(Timer { id, index, tid });
        Some(())
    }
}

impl Drop for SignalEngine {
    fn drop(&mut self) {
        self.disarm();
        let mut ignore = empty_action();
        ignore.sa_sigaction = libc::SIG_IGN;
        // SAFETY: both actions are valid. Ignoring discards what is pending on any thread; without that a late
        // signal would meet the default action, which ends the process.
        unsafe { libc::sigaction(libc::SIGPROF, &ignore, ptr::null_mut()) };
        ACTIVE.store(ptr::null_mut(), Ordering::SeqCst);
        wait_for_handlers();
        // SAFETY: the action that was there before us.
        unsafe { libc::sigaction(libc::SIGPROF, &self.before, ptr::null_mut()) };
        // SAFETY: no handler runs any more, and the mapping is ours.
        unsafe { libc::munmap(self.shared.ring.as_ptr().cast(), self.shared.layout.size()) };
    }
}

/// Waits until no handler runs, and no thread can stand at its first instruction: each thread has slept, or has run
/// on, since the signal is ignored.
fn wait_for_handlers() {
    let deadline = clock::monotonic() + 2_000_000_000;
    let mut tasks = Tasks::default();
    let mut running: Vec<(u32, u64)> = tasks::all_tids()
        .into_iter()
        .filter_map(|tid| tasks.read(tid).filter(|times| times.state == b'R').map(|times| (tid, times.run)))
        .collect();
    let own = super::threads::current_tid();
    running.retain(|(tid, _)| *tid != own);
    while clock::monotonic() < deadline && (!running.is_empty() || IN_FLIGHT.load(Ordering::SeqCst) != 0) {
        clock::sleep_until(clock::monotonic() + 500_000);
        running.retain(|&(tid, run)| tasks.read(tid).is_some_and(|now| now.state == b'R' && now.run == run));
    }
}

fn map_ring(layout: &Layout) -> Result<(File, NonNull<u8>), SignalError> {
    // SAFETY: the name is a C string; the new descriptor is ours alone.
    let file = unsafe {
        // The reader seals it against shrinking, so that its own reads cannot fault.
        let fd = libc::memfd_create(c"clrscope-ring".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if fd < 0 {
            return Err(system("no memory file"));
        }
        File::from_raw_fd(fd)
    };
    file.set_len(layout.size() as u64).map_err(|source| SignalError::System { what: "memory file", source })?;
    // Pages are made now: a fault in a handler would be slow, though not wrong.
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping of a file of that length.
    let ring = unsafe {
        libc::mmap(ptr::null_mut(), layout.size(), libc::PROT_READ | libc::PROT_WRITE, flags, file.as_raw_fd(), 0)
    };
    let ring = if ring == libc::MAP_FAILED { None } else { NonNull::new(ring.cast()) };
    ring.map(|ring| (file, ring)).ok_or_else(|| system("no room for the ring"))
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this C struct: default action, empty mask.
    unsafe { std::mem::zeroed() }
}

fn install() -> Result<libc::sigaction, SignalError> {
    let mut before = empty_action();
    // SAFETY: asks only.
    if unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), &mut before) } != 0 {
        return Err(system("cannot ask for the signal's handler"));
    }
    if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN {
        return Err(SignalError::HandlerTaken);
    }
    let mut ours = empty_action();
    ours.sa_sigaction = handler as *const () as usize;
    // Not on the alternate stack: the handler runs on the stack that it copies. Interrupted calls go on.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGPROF, &ours, ptr::null_mut()) } != 0 {
        return Err(system("cannot set the signal's handler"));
    }
    Ok(before)
}

/// `struct sigevent` of the kernel (asm-generic/siginfo.h) for `SIGEV_THREAD_ID`: C libraries differ in how they
/// name the thread's field.
#[repr(C)]
struct SigEvent {
    value: usize,
    signal: i32,
    notify: i32,
    tid: i32,
    pad: [i32; 11],
}

fn create_timer(tid: u32, index: u32) -> Option<libc::c_int> {
    // The kernel's number of a thread's CPU clock (include/linux/posix-timers.h): CPUCLOCK_PERTHREAD | SCHED.
    let clock = (!(tid as i32) << 3) | 4 | 2;
    let event = SigEvent {
        value: index as usize,
        signal: libc::SIGPROF,
        notify: libc::SIGEV_THREAD_ID,
        tid: tid as i32,
        pad: [0; 11],
    };
    let mut id: libc::c_int = 0;
    // SAFETY: both pointers are to locals of the kernel's layout.
    let made = unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut id) };
    (made == 0).then_some(id)
}

fn delete_timer(id: libc::c_int) {
    if id == NO_TIMER {
        return;
    }
    // SAFETY: a system call without pointers.
    unsafe { libc::syscall(libc::SYS_timer_delete, id) };
}

/// Layout of `siginfo_t` for what the handler reads (asm-generic/siginfo.h, 64 bit): timers have an overrun at 20,
/// and both timers and queued signals have the value at 24.
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

/// Sends the visit's signal to a thread, with the number of its slot.
fn send(tid: u32, index: u32) -> bool {
    // SAFETY: no pointers.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = SigInfo {
        signal: libc::SIGPROF,
        errno: 0,
        code: SI_QUEUE,
        pad: 0,
        pid,
        overrun_or_uid: uid as i32,
        value: index as usize,
        rest: [0; 12],
    };
    // SAFETY: the info is a local of the kernel's layout and size.
    let sent = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, libc::SIGPROF, &raw const info) };
    sent == 0
}

/// Bounds of the calling thread's stack.
fn own_stack() -> Option<(u64, u64)> {
    let mut attributes = [std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed(); 2];
    let attributes = attributes.as_mut_ptr().cast::<libc::pthread_attr_t>();
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the attributes are a local with room for the largest layout; both results go to locals.
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

/// A new alternate stack, laid out as the runtime lays out its own: a guard page at its low end, both in the bounds
/// that are told to the kernel.
fn new_alternate_stack() -> Option<libc::stack_t> {
    // SAFETY: a new private mapping.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        libc::mmap(ptr::null_mut(), ALTERNATE_STACK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the first page of the mapping just made.
    unsafe { libc::mprotect(start, 4096, libc::PROT_NONE) };
    Some(libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: ALTERNATE_STACK })
}

fn is_small(stack: &libc::stack_t) -> bool {
    // A thread without one never runs a handler on one.
    stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size < ALTERNATE_STACK
}

/// Swaps the calling thread's alternate stack for a large one. The caller is not on it.
fn swap_own_alternate_stack() -> Option<()> {
    let mut old = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: asks only.
    if unsafe { libc::sigaltstack(ptr::null(), &mut old) } != 0 || old.ss_flags & libc::SS_ONSTACK != 0 {
        return None;
    }
    if !is_small(&old) {
        return Some(());
    }
    let new = new_alternate_stack()?;
    // SAFETY: the new stack is mapped, and the thread is on neither. The old one was mapped by the runtime in this
    // very form, and nothing else points to it.
    unsafe {
        if libc::sigaltstack(&new, ptr::null_mut()) != 0 {
            libc::munmap(new.ss_sp, new.ss_size);
            return None;
        }
        libc::munmap(old.ss_sp, old.ss_size);
    }
    Some(())
}

impl Shared {
    /// One of the ring's own counters.
    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offsets are those of the header, which is 64 bytes large and aligned to a page.
        unsafe { self.ring.add(offset).cast::<AtomicU64>().as_ref() }
    }
}

/// The handler. See the top of the file for what it may not do.
unsafe extern "C" fn handler(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the address of the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    let shared = ACTIVE.load(Ordering::SeqCst);
    if !shared.is_null() {
        // SAFETY: while this handler is counted, the engine is not freed; the kernel's pointers are valid here.
        unsafe { handle(&*shared, &*info.cast::<SigInfo>(), &mut *context.cast::<libc::ucontext_t>()) };
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
    let Some(thread) = shared.threads.get(info.value) else { return };
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
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == NOT_VISITED => {
            // SAFETY: the caller's contract.
            unsafe { visited(thread, context) };
        }
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == WANTED => {
            let begun = clock::monotonic();
            // SAFETY: the caller's contract.
            if unsafe { sample(shared, thread, 0, context, begun) } {
                thread.sampled.store(begun, Ordering::SeqCst);
            }
            let _ = thread.visit.compare_exchange(WANTED, VISITED, Ordering::SeqCst, Ordering::SeqCst);
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
    let large = thread.alternate.load(Ordering::Relaxed);
    let on_it =
        (now.ss_sp as u64..(now.ss_sp as u64).wrapping_add(now.ss_size as u64)).contains(&stack_pointer(context));
    if large != 0 && is_small(&now) && !on_it {
        context.uc_stack = libc::stack_t { ss_sp: large as *mut libc::c_void, ss_flags: 0, ss_size: ALTERNATE_STACK };
    }
}

/// Replaces an alternate stack in what the kernel has saved on it.
///
/// The runtime handles a fault in managed code on the thread's own stack, while the signal's frame still lies on the
/// alternate one. If it returns through that frame, the kernel sets the alternate stack that it finds there
/// (`restore_altstack`, kernel/signal.c): the small one, and with a timer armed that would be the end of the process.
///
/// # Safety
///
/// The old stack is the calling thread's, which is not on it.
unsafe fn replace_saved(old: &libc::stack_t, new: &libc::stack_t) {
    const GUARD: usize = 4096;
    let words = old.ss_size.saturating_sub(GUARD) / size_of::<usize>();
    // SAFETY: behind the guard page all of it is mapped: the kernel writes there.
    let first = unsafe { old.ss_sp.cast::<u8>().add(GUARD).cast::<usize>() };
    if !first.is_aligned() {
        return;
    }
    // `stack_t`: address, flags, size (asm-generic/signal.h).
    for index in 0..words.saturating_sub(2) {
        // SAFETY: all three words lie in the stack.
        unsafe {
            let (address, size) = (first.add(index), first.add(index + 2));
            if address.read_volatile() == old.ss_sp as usize && size.read_volatile() == old.ss_size {
                address.write_volatile(new.ss_sp as usize);
                size.write_volatile(new.ss_size);
            }
        }
    }
}

/// The one visit: swaps the alternate stack, and tells where the thread's stack is.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
unsafe fn visited(thread: &ThreadSlot, context: &mut libc::ucontext_t) {
    let sp = stack_pointer(context);
    let old = context.uc_stack;
    let on_it = (old.ss_sp as u64..(old.ss_sp as u64).wrapping_add(old.ss_size as u64)).contains(&sp);
    let mut result = VISITED;
    if is_small(&old) {
        match new_alternate_stack() {
            Some(new) if !on_it => {
                // The kernel sets this stack as the handler returns. `mmap` and `munmap` are plain system calls.
                context.uc_stack = new;
                // The old one is kept, for ever: a thread that throws for a null reference runs on its own stack
                // again while it still needs what the kernel and the runtime have put there.
                // SAFETY: the thread's own alternate stack, on which it is not; nobody else uses it.
                unsafe { replace_saved(&old, &new) };
                thread.alternate.store(new.ss_sp as u64, Ordering::SeqCst);
            }
            Some(new) => {
                // SAFETY: just made, and nobody's.
                unsafe { libc::munmap(new.ss_sp, new.ss_size) };
                result = VISIT_FAILED;
            }
            None => result = VISIT_FAILED,
        }
    }
    // SAFETY: reads a register, in glibc and in musl.
    let tcb = unsafe { libc::pthread_self() } as u64;
    thread.seen_sp.store(sp, Ordering::SeqCst);
    thread.seen_tcb.store(tcb, Ordering::SeqCst);
    thread.visit.store(result, Ordering::SeqCst);
}

/// Copies the thread into a free slot of the ring, if it is on its own stack.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
#[inline]
unsafe fn sample(shared: &Shared, thread: &ThreadSlot, overrun: i32, context: &libc::ucontext_t, now: u64) -> bool {
    let sp = stack_pointer(context);
    let (mut low, mut high) = (thread.low.load(Ordering::Relaxed), thread.high.load(Ordering::Relaxed));
    if sp < low || sp >= high {
        // While the runtime looks at a fault the thread is on its alternate stack. What is copied then ends there.
        low = context.uc_stack.ss_sp as u64;
        high = low.saturating_add(context.uc_stack.ss_size as u64);
        if sp < low || sp >= high || context.uc_stack.ss_flags & libc::SS_DISABLE != 0 {
            shared.counter(16).fetch_add(1, Ordering::Relaxed);
            return false;
        }
    }
    let ticket = shared.counter(0).fetch_add(1, Ordering::Relaxed);
    let index = (ticket % u64::from(shared.layout.slots)) as usize;
    // SAFETY: the index is below the number of slots, so the slot lies in the ring.
    let slot = unsafe { shared.ring.as_ptr().add(Layout::HEADER + index * shared.layout.slot_size as usize) };
    // SAFETY: slots are multiples of 64 bytes, so this is aligned, and all access to it is atomic.
    let state = unsafe { &*slot.cast::<AtomicU32>() };
    if state.compare_exchange(slot_state::FREE, slot_state::WRITING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        shared.counter(8).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let length = (high - sp).min(shared.layout.stack_size() as u64) as usize;
    // SAFETY: this handler owns the slot now. The offsets are those of the ring's description; the stack from `sp`
    // to `high` is the thread's own, mapped for as long as it runs.
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

/// Registers in the order of [`wire::ring::Register`], from the order of the kernel's context (`REG_R8` = 0 …).
#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> [u64; REGISTERS] {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, ..] =
        context.uc_mcontext.gregs;
    [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip].map(|register| register as u64)
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
                let slot = shared.ring.as_ptr().add(Layout::HEADER + index * shared.layout.slot_size as usize);
                let state = &*slot.cast::<AtomicU32>();
                if state.load(Ordering::Acquire) != slot_state::READY {
                    continue;
                }
                let length = slot.add(152).cast::<u32>().read() as usize;
                samples.push(Sample {
                    tid: slot.add(4).cast::<u32>().read(),
                    registers: slot.add(16).cast::<[u64; REGISTERS]>().read(),
                    stack: std::slice::from_raw_parts(slot.add(Layout::SLOT_HEADER), length).to_vec(),
                    overrun: slot.add(156).cast::<u32>().read(),
                });
                state.store(slot_state::FREE, Ordering::Release);
            }
        }
        samples
    }

    #[test]
    fn a_burning_thread_is_sampled_in_proportion_to_its_cpu_time() {
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        let engine = SignalEngine::start(100).unwrap();
        let tid = current_tid();
        engine.add_current(tid);
        let mut ticks = 0;
        let mut count = 0;
        for _ in 0..10 {
            burn(50_000_000);
            for sample in take(&engine) {
                assert_eq!(sample.tid, tid);
                assert!(sample.stack.len() > 256 && sample.stack.len() <= SLOT_STACK as usize);
                let rip = sample.registers[Register::Rip as usize];
                assert!(crate::os::maps::mapping_of(rip).unwrap().executable, "{rip:x}");
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
        engine.remove(tid);
        burn(50_000_000);
        take(&engine);
        burn(50_000_000);
        assert_eq!(take(&engine).len(), 0);
    }

    #[test]
    fn threads_that_run_already_are_visited_and_the_small_alternate_stack_goes() {
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        let engine = SignalEngine::start(1000).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for sleeps in [true, false] {
                let (send, stop) = (send.clone(), &stop);
                scope.spawn(move || {
                    send.send(current_tid()).unwrap();
                    while !stop.load(Ordering::SeqCst) {
                        if sleeps {
                            std::thread::sleep(std::time::Duration::from_secs(1));
                        }
                    }
                    let mut stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
                    // SAFETY: asks only.
                    unsafe { libc::sigaltstack(ptr::null(), &mut stack) };
                    assert_eq!(stack.ss_size, ALTERNATE_STACK);
                    // SAFETY: the whole of what the visit mapped, as the runtime would unmap it. The standard library
                    // does not miss its own.
                    let before = unsafe {
                        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
                        libc::sigaltstack(&none, ptr::null_mut());
                        libc::munmap(stack.ss_sp, stack.ss_size)
                    };
                    assert_eq!(before, 0);
                });
            }
            let tids: Vec<u32> = receive.iter().take(2).collect();
            let visited = engine.visit(&tids);
            engine.arm_visited(&visited);
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
            assert_eq!((visited.len(), unsampled), (2, 0));
            assert!(samples.len() >= 10, "{}", samples.len());
            // The sleeping one uses no CPU time.
            assert!(samples.iter().all(|sample| sample.tid == samples[0].tid && tids.contains(&sample.tid)));
        });
    }

    #[test]
    fn a_foreign_handler_is_left_alone() {
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        unsafe extern "C" fn theirs(_: libc::c_int) {}
        let mut action = empty_action();
        action.sa_sigaction = theirs as *const () as usize;
        let mut before = empty_action();
        // SAFETY: valid actions; put back below.
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
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        let stop = std::sync::atomic::AtomicBool::new(false);
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
                engine.arm_visited(&engine.visit(&tids));
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            stop.store(true, Ordering::SeqCst);
        });
    }
}
