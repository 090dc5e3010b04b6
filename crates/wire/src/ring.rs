//! The shared-memory ring through which the signal engine hands out samples.
//!
//! A ring is a memory file: one [`Layout::HEADER`]-byte header, then [`Layout::slots`] slots of
//! [`Layout::slot_size`] bytes. Signal handlers fill slots, clrscope empties them from outside;
//! neither waits for the other. All numbers are little-endian and naturally aligned.
//!
//! | header offset | type | meaning |
//! |---|---|---|
//! | 0 | `u64` atomic | tickets given to handlers so far; ticket `n` belongs to slot `n % slots` |
//! | 8 | `u64` atomic | samples dropped because their slot was not free |
//! | 16 | `u64` atomic | samples dropped because the stack pointer lay on no known stack |
//!
//! | slot offset | type | meaning |
//! |---|---|---|
//! | 0 | `u32` atomic | [`slot_state`] |
//! | 4 | `u32` | thread id in the target's pid namespace |
//! | 8 | `u64` | time, nanoseconds of `CLOCK_MONOTONIC` |
//! | 16 | `u64` × 17 | registers in the order of [`Register`] |
//! | 152 | `u32` | bytes of stack copied, from the stack pointer up |
//! | 156 | `u32` | timer overruns: how many further ticks this sample stands for |
//! | 160 | bytes | the stack |

use serde::{Deserialize, Serialize};

/// Shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// How many slots.
    pub slots: u32,
    /// Bytes of each slot, a multiple of 64.
    pub slot_size: u32,
}

impl Layout {
    /// Bytes before the first slot.
    pub const HEADER: usize = 64;
    /// Bytes of a slot before the stack.
    pub const SLOT_HEADER: usize = 160;

    /// A ring whose slots keep `stack` bytes of stack.
    pub fn new(slots: u32, stack: u32) -> Self {
        Self { slots, slot_size: (Self::SLOT_HEADER as u32 + stack).next_multiple_of(64) }
    }

    /// Bytes of stack that a slot keeps.
    pub fn stack_size(&self) -> usize {
        (self.slot_size as usize).saturating_sub(Self::SLOT_HEADER)
    }

    /// Bytes of the whole memory file.
    pub fn size(&self) -> usize {
        Self::HEADER + self.slots as usize * self.slot_size as usize
    }
}

/// Who owns a slot.
pub mod slot_state {
    /// Empty: a handler may take it.
    pub const FREE: u32 = 0;
    /// A handler fills it.
    pub const WRITING: u32 = 1;
    /// Filled: clrscope may read it, and then sets it to [`FREE`].
    pub const READY: u32 = 2;
}

/// Registers of a sample in their order. The names are those of x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names of the processor manual say it all")]
pub enum Register {
    Rax,
    Rbx,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
    Rbp,
    Rsp,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    Rip,
}

/// How many [`Register`]s there are.
pub const REGISTERS: usize = 17;
