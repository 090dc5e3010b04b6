//! What an unwinder gets of a thread, and what it returns.

use std::collections::BTreeMap;

use crate::arch::Registers;
use wire::FrameTrust;

/// What was taken of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its registers, as they were in user space.
    pub registers: &'a Registers,
    /// The bytes of its stack from its stack pointer up.
    pub stack: &'a [u8],
}

/// What was taken of a blocked thread: of its registers only two are known.
#[derive(Clone, Copy, Debug)]
pub struct BlockedSample<'a> {
    /// The instruction that it executes when it continues.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// The bytes of its stack from its stack pointer up.
    pub stack: &'a [u8],
}

/// What to do about executable addresses of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Report them by [`Outcome::NeedCode`].
    Ask,
    /// Treat them like stubs: nobody can be asked, or the answer did not come.
    Guess,
}

/// What kind of code a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameCode {
    /// A managed method.
    Managed {
        /// The method, as in [`wire::Code::method`].
        method: u32,
        /// Number of the code version: what [`CodeMap::insert`](crate::CodeMap::insert) returned.
        version: u32,
        /// Offset of the instruction in its native code.
        offset: u32,
    },
    /// A native image: [`Unwinder::locate`](crate::Unwinder::locate) tells which.
    Native,
    /// Executable memory of the runtime that is no method.
    Stub,
    /// Executable memory that nobody could tell about, or none at all.
    Unknown,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The instruction that is executed next in this frame.
    pub ip: u64,
    /// The address to look up for names and lines: the instruction pointer, or for a return address
    /// one less, so that it lies in the call.
    pub lookup: u64,
    /// How it was found.
    pub trust: FrameTrust,
    /// What it runs.
    pub code: FrameCode,
}

/// A chain of frames, leaf first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The frames.
    pub frames: Vec<Frame>,
}

/// What unwinding a sample came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The root of the thread was reached.
    Complete(Stack),
    /// The copied bytes ended before the root: the stack is deeper than the copy, or the thread was
    /// on another stack, such as that of a signal handler.
    Truncated(Stack),
    /// A frame could not be left, for another reason.
    Broken(Stack, Failure),
    /// These addresses must be resolved before the stack can be unwound. Feed
    /// [`CodeMap::insert`](crate::CodeMap::insert) or
    /// [`CodeMap::insert_not_code`](crate::CodeMap::insert_not_code) for each of them.
    NeedCode(Needed),
}

/// Addresses of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// The one that was met, if it is of an instruction that was being executed.
    pub executed: Option<u64>,
    /// What may be a return address to managed code, ascending: the one that was met, if it is none
    /// that was being executed, and all of the copied stack. Of each it is the address before,
    /// which lies in the call.
    pub guessed: Vec<u64>,
}

impl Needed {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.executed.into_iter().chain(self.guessed.iter().copied())
    }
}

/// Why a frame could not be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// The instruction pointer is in no executable memory.
    NotExecutable,
    /// There is no rule, and nothing plausible was found either.
    NoCallerFound,
    /// The caller's stack pointer would not lie above the callee's.
    StackNotGrowing,
    /// More signal frames than can be.
    TooManySignals,
}

impl Failure {
    /// A name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotExecutable => "instruction pointer in no executable memory",
            Self::NoCallerFound => "no caller found",
            Self::StackNotGrowing => "stack pointer not growing",
            Self::TooManySignals => "too many signal frames",
        }
    }
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stacks that reached the root.
    pub complete: u64,
    /// Stacks deeper than the copied bytes.
    pub truncated: u64,
    /// Broken stacks by reason.
    pub broken: BTreeMap<Failure, u64>,
    /// Times that code had to be asked for.
    pub need_code: u64,
    /// Frames found by exact tables.
    pub frames_by_tables: u64,
    /// Frames found by learned rules and what is plausible.
    pub frames_learned: u64,
    /// Frames found by search.
    pub frames_scanned: u64,
    /// Exact rules that failed on the stack they were applied to, so that the frame was left by
    /// what was plausible.
    pub failed_rules: u64,
    /// Frames whose rule needs a register that is unknown. They were left all the same, by what is
    /// true for all of them: the size of the frame, what the runtime notes of a call of native
    /// code.
    pub frames_without_register: u64,
}
