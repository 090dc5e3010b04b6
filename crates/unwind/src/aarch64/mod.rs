//! What is special about 64-bit ARM. Registers go by their DWARF numbers (DWARF for the ARM 64-bit
//! architecture, 4.1).
//!
//! Native code is unwound as on x86-64, by its call frame information. Managed code is left by the
//! frame record that its frame pointer points to: CoreCLR keeps frame pointers in all methods but
//! small leaf ones on this architecture, and for a leaf the link register holds the return address.
//! The runtime's `.xdata` unwind codes are not read, so prologs and epilogs (a few instructions of
//! each method) can lose one caller.
#![cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]

mod managed;
mod registers;

#[cfg_attr(not(target_arch = "aarch64"), allow(unused_imports))]
pub(crate) use managed::ManagedRule;
#[cfg_attr(not(target_arch = "aarch64"), allow(unused_imports, unreachable_pub))]
pub use registers::Registers;

use gimli::AArch64;

/// How many registers [`Registers`] has besides the instruction pointer: `x0` to `x30` and `sp`.
pub(crate) const REGISTERS: usize = 32;
/// The stack pointer, by DWARF number.
pub(crate) const SP: u16 = AArch64::SP.0;
/// The frame pointer, by DWARF number.
pub(crate) const FP: u16 = AArch64::X29.0;
/// The column of the return address in call frame information: the link register.
pub(crate) const RETURN_ADDRESS: gimli::Register = AArch64::X30;
/// Registers that a callee preserves besides the stack pointer, by DWARF number (AAPCS64, 6.1.1).
pub(crate) const SAVED: [u16; 11] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];
/// [`SAVED`] and the stack pointer, as bits.
pub(crate) const PRESERVED: u64 = 1 << SP | 0x3ff8_0000;
/// No such code is known here: see [`is_hijack`].
pub(crate) const HIJACK_PUSHED: i64 = i64::MAX;
/// As [`HIJACK_PUSHED`].
pub(crate) const HIJACK_SAVED: [i32; 11] = [0; 11];

/// Whether a function is one that the runtime makes methods return to. On this architecture it
/// describes itself right.
pub(crate) fn is_hijack(_code: [u8; 11]) -> bool {
    false
}

/// Where the return address of a frame record lies, from the frame pointer up, and how far up the
/// stack pointer of the caller is at least: frame records may stand anywhere in their frame.
pub(crate) const FRAME_RECORD: (u64, u64) = (8, 16);

/// Not read on this architecture: its functions keep frame records.
pub(crate) fn frame_above_stack(_code: &[u8]) -> Option<u64> {
    None
}

/// As [`frame_above_stack`].
pub(crate) const PROLOG_BYTES: usize = 4;

/// Whether the runtime's notes of calls of native code have the form of those on x86-64: not
/// checked here.
pub(crate) const NATIVE_CALL_NOTE: bool = false;

/// A return address as it is found in memory, without its pointer authentication code: user
/// addresses have 48 bits on Linux with 4 KB pages.
pub(crate) fn plain_address(address: u64) -> u64 {
    address & 0x0000_ffff_ffff_ffff
}

/// Where the return address of a leaf that has not touched the stack is: in the link register.
pub(crate) const LEAF_RETURN: LeafReturn = LeafReturn::Register(AArch64::X30.0);

/// See [`LEAF_RETURN`].
#[allow(dead_code, reason = "each architecture uses one of them")]
pub(crate) enum LeafReturn {
    /// At the stack pointer, which the return pops.
    OnStack,
    /// In a register, by DWARF number.
    Register(u16),
}
