use std::borrow::Cow;

use unwind::{Mapping, Registers};

pub use wire::Nanos;

/// What a thread was doing at one moment. The same for every engine.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSample<'a> {
    /// When.
    pub time: Nanos,
    /// The thread: in our pid namespace from a [`crate::KernelRing`], in the target's from a
    /// [`crate::SharedRing`].
    pub tid: u32,
    /// CPU time that the sample stands for.
    pub cpu: Nanos,
    /// Whether the thread was in the kernel. The registers are those with which it entered it.
    pub in_kernel: bool,
    /// Its registers in user space.
    pub registers: Registers,
    /// The bytes of its stack from the stack pointer up.
    pub stack: &'a [u8],
    /// What following the frame pointers from its registers gives, for stacks that are deeper than
    /// their copy. Empty where the engine does not follow them.
    pub callers: ReturnAddresses<'a>,
}

/// Return addresses, innermost first: at most 127 (`kernel.perf_event_max_stack`). A function that
/// keeps no frame pointer hides its caller, and one that uses the register for something else ends
/// them, perhaps with an address that is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnAddresses<'a>(pub(crate) &'a [[u8; 8]]);

impl ReturnAddresses<'_> {
    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|word| u64::from_le_bytes(*word))
    }
}

/// What a [`crate::KernelRing`] tells. Events of one processor come in order; those of different
/// processors do not.
#[derive(Clone, Debug)]
pub enum RingEvent<'a> {
    /// A sample of a thread on a processor.
    Sample(ThreadSample<'a>),
    /// A thread was on a processor, but has nothing in user space, because it is about to end.
    KernelOnly {
        /// When.
        time: Nanos,
        /// The thread.
        tid: u32,
        /// CPU time that this stands for.
        cpu: Nanos,
    },
    /// Executable memory was mapped, or memory was made executable.
    Mapped {
        /// When.
        time: Nanos,
        /// What was mapped.
        mapping: Mapping,
    },
    /// A thread was created.
    ThreadStarted {
        /// When.
        time: Nanos,
        /// The thread.
        tid: u32,
    },
    /// A thread has ended.
    ThreadEnded {
        /// When.
        time: Nanos,
        /// The thread.
        tid: u32,
    },
    /// A thread has got a name.
    ThreadNamed {
        /// When.
        time: Nanos,
        /// The thread.
        tid: u32,
        /// Its name, cut by the system after 15 bytes.
        name: Cow<'a, str>,
    },
    /// The process has replaced its program (`execve`): nothing known about its memory holds any
    /// more.
    Replaced {
        /// When.
        time: Nanos,
    },
    /// This many events found no room in the ring.
    Lost(u64),
}

/// What the events of a [`crate::KernelRing`] are bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Each processor, with a filter in the kernel that lets only the process through. It costs
    /// nothing where threads are switched. For root, or with `CAP_PERFMON` and `CAP_BPF`.
    #[default]
    Processors,
    /// Each thread. Ordinary users may watch their own processes (`kernel.perf_event_paranoid` at
    /// most 2), but each switch of a thread takes some microseconds longer.
    Threads,
}

/// How a [`crate::KernelRing`] samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// What is watched.
    pub binding: Binding,
    /// Samples for each second that a thread spends on a processor, 1 to 10 000.
    pub rate_hz: u32,
    /// How much of the stack is copied for each sample, in bytes; at most about 65 000, because the
    /// kernel's records end there.
    pub stack_bytes: u32,
    /// How long the ring must last if nobody reads it, in milliseconds, with all processors busy.
    /// Rings have at most 32 MB for each processor, and less where the system allows less locked
    /// memory.
    pub buffer_ms: u32,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { binding: Binding::default(), rate_hz: 100, stack_bytes: 16 * 1024, buffer_ms: 500 }
    }
}

/// What became of the time that threads spend in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTime {
    /// It is sampled like any other time; such samples show the system call.
    Sampled,
    /// The system lets us sample user space only (`perf_event_paranoid`), but tells how much CPU
    /// time has passed: the time is added to the thread's next sample in user space.
    InNextSample,
    /// The system lets us sample user space only, and cannot tell the rest: the time is missing.
    Missing,
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A good part of a ring is full.
    Filling,
    /// The time is up. There may be events all the same.
    TimedOut,
    /// The process has ended. Its last events can still be drained.
    ProcessEnded,
}

/// What a [`crate::KernelRing`] has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Samples handed out.
    pub samples: u64,
    /// Bytes read from the rings.
    pub bytes: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Times that the kernel slowed sampling down.
    pub throttled: u64,
    /// Samples of other processes, left out: the filter in the kernel did not hold them back.
    pub of_others: u64,
    /// Samples of threads that were watched twice, left out.
    pub duplicates: u64,
    /// Records that made no sense, left out.
    pub malformed: u64,
}

/// What the kernel does for a [`crate::KernelRing`] on the time of the process, in nanoseconds;
/// `None` where that could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCosts {
    /// For each sample: the timer's interrupt, and copying registers and stack.
    pub sample: Option<u64>,
    /// For each switch to a thread, beside what it takes anyway.
    pub switch: Option<u64>,
}

/// What a [`crate::SharedRing`] has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRingCounters {
    /// Samples handed out.
    pub samples: u64,
    /// Samples that handlers had to drop because their slot was not free.
    pub dropped_full: u64,
    /// Samples that handlers dropped because the stack pointer lay on no known stack.
    pub dropped_stack: u64,
    /// Slots whose content made no sense or changed while it was read, left out.
    pub malformed: u64,
}
