//! What is special about x86-64. Registers go by their DWARF numbers (System V ABI, AMD64
//! supplement, 3.6.2).
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod epilog;
mod instructions;
mod managed;
mod prolog;
mod registers;
mod unwind_info;

// Built on every processor so that it stays right, used on its own.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_imports))]
pub(crate) use self::managed::ManagedRule;
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_imports))]
pub use registers::Registers;

use gimli::X86_64;

/// How many registers [`Registers`] has besides the instruction pointer.
pub(crate) const REGISTERS: usize = 16;
/// The stack pointer, by DWARF number.
pub(crate) const SP: u16 = X86_64::RSP.0;
/// The frame pointer, by DWARF number.
pub(crate) const FP: u16 = X86_64::RBP.0;
/// The column of the return address in call frame information.
pub(crate) const RETURN_ADDRESS: gimli::Register = X86_64::RA;
/// Registers that a callee preserves besides the stack pointer, by DWARF number.
pub(crate) const SAVED: [u16; 6] =
    [X86_64::RBX.0, X86_64::RBP.0, X86_64::R12.0, X86_64::R13.0, X86_64::R14.0, X86_64::R15.0];
/// [`SAVED`] and the stack pointer, as bits.
pub(crate) const PRESERVED: u64 = 1 << SP
    | 1 << SAVED[0]
    | 1 << SAVED[1]
    | 1 << SAVED[2]
    | 1 << SAVED[3]
    | 1 << SAVED[4]
    | 1 << SAVED[5];
/// How many bytes lie between the stack pointer and the frame address, as [`is_hijack`] code
/// describes itself, once all is pushed: the return address that it did not get, room for the real
/// one, [`SAVED`].
pub(crate) const HIJACK_PUSHED: i64 = 64;
/// Where [`SAVED`] are then, from the real frame address.
pub(crate) const HIJACK_SAVED: [i32; 6] = [-24, -16, -56, -48, -40, -32];

/// Whether a function that begins so is `OnHijackTripThread`, to which the runtime makes a method
/// return that it wants to stop (src/coreclr/vm/amd64/asmhelpers.S in dotnet/runtime, the same in
/// 3.1 to 10): it pushes `rax` to make room for the return address, `rbp`, `rbx`, `r15`, `r14`,
/// `r13` and `r12`. No function that is called begins so.
pub(crate) fn is_hijack(code: [u8; 11]) -> bool {
    code == [0x50, 0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54]
}

/// Where the return address of a frame made by `push rbp; mov rbp, rsp` lies, from the frame
/// pointer up, and how far up the stack pointer of the caller is.
pub(crate) const FRAME_RECORD: (u64, u64) = (8, 16);

/// Where the frame pointer of a function points, from its stack pointer up, once its prolog is
/// done: read from the first bytes of its code. `None` for a function that does not begin with
/// `push rbp; mov rbp, rsp`, or that aligns its stack.
pub(crate) fn frame_above_stack(code: &[u8]) -> Option<u64> {
    prolog::frame_above_stack(code)
}

/// How many bytes of code [`frame_above_stack`] looks at.
pub(crate) const PROLOG_BYTES: usize = 48;

/// What the runtime notes on the stack of a method that calls native code (`InlinedCallFrame`,
/// src/coreclr/vm/frames.h in dotnet/runtime, the same in 3.1 to 10): three words one after the
/// other, the stack pointer at the call, the address that it returns to, and the frame pointer of
/// the method.
pub(crate) const NATIVE_CALL_NOTE: bool = true;

/// A return address as it is found in memory, without what the processor may mix into it: nothing
/// here.
pub(crate) fn plain_address(address: u64) -> u64 {
    address
}

/// Where the return address of a leaf that has not touched the stack is: in memory, at the stack
/// pointer.
pub(crate) const LEAF_RETURN: LeafReturn = LeafReturn::OnStack;

/// See [`LEAF_RETURN`].
#[allow(dead_code, reason = "each architecture uses one of them")]
pub(crate) enum LeafReturn {
    /// At the stack pointer, which the return pops.
    OnStack,
    /// In a register, by DWARF number.
    Register(u16),
}
