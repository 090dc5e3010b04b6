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
mod members;
mod memory;
mod slots;
mod timers;
mod visits;

use disposition::{current_action, install, is_free, is_ours};
pub use end::Left;
use end::free_shared;
use memory::map_ring;
use slots::ThreadSlot;
use timers::{Timer, queued_signals};
pub use visits::Visits;

use crate::ledger::{self, Held};
use crate::os::descriptors::Kept;
use crate::os::{alternate, sandbox};
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
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
