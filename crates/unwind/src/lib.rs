//! Unwinds copied stacks from outside of the process they were copied in.
//!
//! A [`Sample`] is what a sampling engine takes of a running thread: its registers and the bytes
//! from its stack pointer up. [`Unwinder::unwind`] finds the chain of callers in it. Each frame is
//! left by the exact rule for its code, wherever there is one:
//!
//! * Managed code, JIT'd or precompiled, by the runtime's own unwind information, which comes with
//!   [`wire::Code`] into the [`CodeMap`]: CoreCLR keeps the Windows x64 `UNWIND_INFO` format on all
//!   x64 systems. Epilogs, which that format leaves to the unwinder, are recognised from the code
//!   bytes.
//! * Native code by its call frame information (`.eh_frame`), read from the files that the target
//!   has mapped. Signal trampolines and realigned frames included, because the rules are evaluated
//!   in full.
//! * Anything else, such as the runtime's stubs, by what is plausible: a return address on top of
//!   the stack, the frame pointer, and at last a short search for a return address, that is, for an
//!   address in known code behind a call instruction.
//!
//! How a frame was found is its [`FrameTrust`]. A frame-pointer chain is never followed blindly:
//! JIT'd leaf methods have no frame and OSR methods have two, and such a chain silently loses their
//! callers.
//!
//! Of a blocked thread ([`BlockedSample`]) only the instruction pointer and the stack pointer are
//! known. All other registers are unknown, not 0, until a frame says where they were saved. A frame
//! whose rule needs one that is unknown is left by its fixed size, by what the runtime notes on the
//! stack of calls of native code, or by a search for a frame record; each must lead to a return
//! address.
//!
//! Addresses in executable memory that is neither a native module nor known managed code make
//! [`Outcome::NeedCode`]: ask the agent about them, feed the [`CodeMap`], and unwind again. With
//! the [`Progress`] that was made that need not be from the beginning.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod aarch64;
mod call_frames;
mod code_map;
mod context;
mod elf;
mod maps;
mod modules;
mod stack;
mod target;
mod unwinder;
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64 as arch;

pub use arch::Registers;
pub use code_map::{CodeLocation, CodeMap, Lookup};
pub use maps::Mapping;
pub use modules::NativeLocation;
pub use stack::StackBytes;
pub use target::{LiveProcess, Target};
pub use unwinder::{
    BlockedSample, Counters, Failure, Frame, FrameCode, Needed, Outcome, Progress, Sample, Stack,
    Unknown, Unwinder,
};
pub use wire::FrameTrust;
