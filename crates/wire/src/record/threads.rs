//! Threads and their stacks.

use serde::{Deserialize, Serialize};

use super::Nanos;

/// A managed thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStarted {
    /// Thread id of the operating system, in the target's pid namespace.
    pub os_tid: u32,
    /// When it was created; `None` if it was there before us.
    pub time: Option<Nanos>,
    /// Name, where known.
    pub name: Option<String>,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Id.
    pub id: u32,
    /// Instruction pointers, leaf first. All but the first are return addresses.
    pub ips: Vec<u64>,
    /// Whether frames at the root are missing, over the limit of the session.
    pub truncated: bool,
}

/// The stack of a blocked thread as the kernel and a copy of memory show it.
///
/// Of its registers only the instruction pointer and the stack pointer are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedStack {
    /// Id, of the same numbers as [`Stack::id`]. No other stack of the session has it.
    pub id: u32,
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// When it was read. The thread did not run while it was.
    pub time: Nanos,
    /// The instruction that it executes when it continues.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// The system call that it waits in; `None` where it waits in none, such as for a page of
    /// memory.
    pub call: Option<BlockedCall>,
    /// Its stack from the stack pointer up, at most [`BlockedStack::MOST_BYTES`].
    #[serde(with = "crate::bytes")]
    pub bytes: Vec<u8>,
    /// Whether more may have been copied: the copy ends because of its limit, not of the stack's
    /// end.
    pub cut: bool,
}

impl BlockedStack {
    /// Most bytes of a copy, and how many it has at first.
    pub const MOST_BYTES: u32 = 64 << 10;
    /// See [`Self::MOST_BYTES`].
    pub const FIRST_BYTES: u32 = 16 << 10;
}

/// A system call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedCall {
    /// Its number.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// A CPU sample of the suspend-and-walk engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSample {
    /// When.
    pub time: Nanos,
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// CPU time that this sample stands for.
    pub cpu: Nanos,
    /// Stack.
    pub stack: u32,
}

/// The runtime's own walk of a suspended thread, to be compared with that of a copied stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// Time of the sample in the ring: with the thread it says which one.
    pub time: Nanos,
    /// What the runtime found; `None` for no managed frames.
    pub stack: Option<u32>,
}

/// One tick of a profiler that shows threads: all managed threads at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallTick {
    /// When.
    pub time: Nanos,
    /// How long the runtime was suspended for it; 0 when no thread had to be walked.
    pub stopped: Nanos,
    /// Every managed thread, but for those for which the tick had no time or memory left.
    pub threads: Vec<WallSample>,
}

/// One thread in a [`WallTick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallSample {
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// Its stack: a [`Stack`] or a [`BlockedStack`]. `None` for a thread without managed frames,
    /// and for one that runs, whose stack is that of its CPU samples.
    pub stack: Option<u32>,
    /// CPU time it used since the last tick.
    pub cpu: Nanos,
    /// State letter as in `/proc/<pid>/task/<tid>/stat`: `R`, `S`, `D` …
    pub state: u8,
}
