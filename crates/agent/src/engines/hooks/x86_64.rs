//! The hooks, and the clock that they read, on x86-64.
//!
//! The compiler calls the hooks with the registers of the hooked method live
//! (`CodeGen::genProfilingEnterCallback` and `genProfilingLeaveCallback`,
//! src/coreclr/jit/codegenxarch.cpp). On every system but Windows the enter hook finds the method
//! in `r14` and the caller's stack pointer in `r15`; the leave and tailcall hooks find them in
//! `rdi` and `rsi`. The runtime's own hooks (`ProfileEnterNaked` and the two others,
//! src/coreclr/vm/amd64/asmhelpers.S) keep all registers of arguments and return values, and trash
//! `r10` and `r11`; so do these. Upper halves of vector registers they do not touch.
//!
//! Most calls are of a method that its caller has called before, in a thread whose tree is there,
//! and return to where they came from. For those everything is done right here, with three
//! registers saved. All else is for [`super::enter`] and [`super::leave`].

use super::tree::{FRAME, Frame, LAST_FRAME, Node, Tree};
use super::{HOOKS_ON, enter, leave};
use crate::os::tls;
use corprof::abi::FunctionIDOrClientID;
use corprof::info::ProfilerInfo;
use std::arch::naked_asm;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

/// The place that holds this thread's tree.
pub fn place_of_tree() -> *mut *const Tree {
    tls::block().tree.as_ptr()
}

/// Saves what a call may change, calls a function with two arguments, and brings all back.
macro_rules! slowly {
    ($before:literal) => {
        concat!(
            "push rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp, 0\nmov rbp, rsp\n\
                .cfi_def_cfa_register rbp\n",
            "push rax\npush rcx\npush rdx\npush rsi\npush rdi\npush r8\npush r9\npush r10\n\
                push r11\n",
            "sub rsp, 128\nand rsp, -16\n",
            "movaps [rsp], xmm0\nmovaps [rsp + 16], xmm1\nmovaps [rsp + 32], xmm2\n\
                movaps [rsp + 48], xmm3\n",
            "movaps [rsp + 64], xmm4\nmovaps [rsp + 80], xmm5\nmovaps [rsp + 96], xmm6\n\
                movaps [rsp + 112], xmm7\n",
            $before,
            "call {function}\n",
            "movaps xmm0, [rsp]\nmovaps xmm1, [rsp + 16]\nmovaps xmm2, [rsp + 32]\n\
                movaps xmm3, [rsp + 48]\n",
            "movaps xmm4, [rsp + 64]\nmovaps xmm5, [rsp + 80]\nmovaps xmm6, [rsp + 96]\n\
                movaps xmm7, [rsp + 112]\n",
            "lea rsp, [rbp - 72]\n",
            "pop r11\npop r10\npop r9\npop r8\npop rdi\npop rsi\npop rdx\npop rcx\npop rax\n\
                pop rbp\n",
            ".cfi_def_cfa rsp, 8\n",
            "ret\n",
            ".cfi_endproc",
        )
    };
}

/// Finds the thread's block, and its tree in it; goes to 3 if either is missing. Uses `rax` and
/// `rdx`.
macro_rules! tree_to_r11 {
    () => {
        concat!(
            "mov rax, qword ptr [rip + {place}]\n",
            "mov rdx, qword ptr fs:[rax - 8]\ncmp rdx, qword ptr [rip + {sequence}]\njne 3f\n",
            "mov rax, qword ptr fs:[rax]\ntest rax, rax\njz 3f\n",
            "mov r11, [rax + {tree}]\ntest r11, r11\njz 3f",
        )
    };
}

/// Called before the first instruction of a method.
#[unsafe(naked)]
unsafe extern "system" fn enter_hook(_function: FunctionIDOrClientID) {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "je 2f",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        tree_to_r11!(),
        // Only below the frame that runs; others were left by an exception.
        "mov r10d, [r11 + {top}]",
        "cmp r15, [r11 + r10 + {sp}]",
        "jae 3f",
        "cmp r10d, {last_frame}",
        "jae 3f",
        // The child that the node remembers, if it is the right one. Bits 2 to 4 of a key are a
        // place for it.
        "mov edx, [r11 + r10 + {node}]",
        "mov ecx, r14d",
        "and ecx, 28",
        "add rcx, rdx",
        "mov ecx, [r11 + rcx + {children}]",
        "cmp r14, [r11 + rcx + {key}]",
        "jne 3f",
        // The time until now belongs to the caller.
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov edx, [r11 + r10 + {node}]",
        "sub rax, [r11 + {last}]",
        "add [r11 + {last}], rax",
        "add [r11 + rdx + {own}], rax",
        "inc qword ptr [r11 + rcx + {count}]",
        "add r10d, {frame}",
        "mov [r11 + r10 + {sp}], r15",
        "mov [r11 + r10 + {node}], ecx",
        "mov [r11 + {top}], r10d",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "2: ret",
        "3:",
        ".cfi_adjust_cfa_offset 24",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        slowly!("mov rdi, r14\nmov rsi, r15\n"),
        on = sym HOOKS_ON,
        function = sym enter,
        place = sym tls::PLACE,
        sequence = sym tls::SEQUENCE,
        tree = const offset_of!(tls::Block, tree),
        top = const offset_of!(Tree, top),
        last = const offset_of!(Tree, last),
        sp = const offset_of!(Frame, sp),
        node = const offset_of!(Frame, node),
        frame = const FRAME,
        last_frame = const LAST_FRAME,
        children = const offset_of!(Node, children),
        key = const offset_of!(Node, key),
        own = const offset_of!(Node, own),
        count = const offset_of!(Node, count),
    )
}

/// Called behind the last instruction of a method, and before a tail call, which ends it too.
#[unsafe(naked)]
unsafe extern "system" fn leave_hook(_function: FunctionIDOrClientID) {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "je 2f",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        tree_to_r11!(),
        // The frame that runs, and no other.
        "mov r10d, [r11 + {top}]",
        "cmp rsi, [r11 + r10 + {sp}]",
        "jne 3f",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov edx, [r11 + r10 + {node}]",
        "sub rax, [r11 + {last}]",
        "add [r11 + {last}], rax",
        "add [r11 + rdx + {own}], rax",
        "sub r10d, {frame}",
        "mov [r11 + {top}], r10d",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "2: ret",
        "3:",
        ".cfi_adjust_cfa_offset 16",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        slowly!(""),
        on = sym HOOKS_ON,
        function = sym leave,
        place = sym tls::PLACE,
        sequence = sym tls::SEQUENCE,
        tree = const offset_of!(tls::Block, tree),
        top = const offset_of!(Tree, top),
        last = const offset_of!(Tree, last),
        sp = const offset_of!(Frame, sp),
        node = const offset_of!(Frame, node),
        frame = const FRAME,
        own = const offset_of!(Node, own),
    )
}

/// As [`enter_hook`], where a thread's block cannot be found without a call of the C library, which
/// may use any register.
#[unsafe(naked)]
unsafe extern "system" fn careful_enter_hook(_function: FunctionIDOrClientID) {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "jne 3f",
        "ret",
        "3:",
        slowly!("mov rdi, r14\nmov rsi, r15\n"),
        on = sym HOOKS_ON,
        function = sym enter,
    )
}

/// As [`leave_hook`], likewise.
#[unsafe(naked)]
unsafe extern "system" fn careful_leave_hook(_function: FunctionIDOrClientID) {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {on}], 0",
        "jne 3f",
        "ret",
        "3:",
        slowly!(""),
        on = sym HOOKS_ON,
        function = sym leave,
    )
}

/// Sets the hooks.
///
/// # Errors
/// The runtime refuses.
pub fn set_hooks(info: &ProfilerInfo) -> Result<(), String> {
    // SAFETY: they keep every register that the runtime's own keep, and once they are set the
    // library is never unloaded, as the runtime then refuses every request to detach.
    unsafe {
        match tls::PLACE.load(Relaxed) != 0 {
            true => {
                info.set_enter_leave_hooks3(Some(enter_hook), Some(leave_hook), Some(leave_hook))
            }
            false => {
                let (enter, leave) = (Some(careful_enter_hook as _), Some(careful_leave_hook as _));
                info.set_enter_leave_hooks3(enter, leave, leave)
            }
        }
    }
    .map_err(|error| error.to_string())
}

/// Now, in ticks.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether ticks come evenly, whatever a processor does.
pub fn ticks_are_even() -> bool {
    const INVARIANT: u32 = 1 << 8;
    let highest = std::arch::x86_64::__cpuid(0x8000_0000).eax;
    highest >= 0x8000_0007 && std::arch::x86_64::__cpuid(0x8000_0007).edx & INVARIANT != 0
}
