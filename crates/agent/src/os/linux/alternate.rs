//! Larger alternate stacks for the program's threads.
//!
//! Each one that we map is private memory of an own memory file, so that `/proc/<pid>/maps` names it, and holds a mark, which tells it from
//! all else whatever has become of its address meanwhile. Only what we mapped is ever unmapped, and the program's own alternate stacks stay as they are.

use super::descriptors::{self, Kept};
use crate::ledger;
use std::io;
use std::ops::Range;
use std::ptr;
use wire::Resource;

/// Bytes of a large alternate stack, guard page included.
pub const SIZE: usize = 96 << 10;
const GUARD: usize = 4096;
/// What stands, with the stack's address, behind its guard page: nobody else writes this there.
const MARK: u64 = 0x6b63_6174_735f_7263;
/// Most bytes of a thread's own stack that are looked through.
const MOST_SEARCHED: u64 = 1 << 20;
/// Bytes below the stack pointer that a function may use without moving it (System V ABI, x86-64).
const RED_ZONE: u64 = 128;

/// Makes large alternate stacks.
#[derive(Debug)]
pub struct Stacks {
    file: Kept,
}

impl Stacks {
    /// Makes the memory file.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the name is a C string.
        let file = Kept::new(|| unsafe { libc::memfd_create(c"clrscope-stack".as_ptr(), libc::MFD_CLOEXEC) })?;
        // With its memory: where there is none left, the first touch of a page would end the process.
        descriptors::allocate(&file, SIZE)?;
        Ok(Self { file })
    }

    /// Maps one, laid out as the runtime lays out its own: a guard page at its low end, in the bounds that are told to the kernel. Gives its
    /// address.
    pub fn map(&self) -> Option<u64> {
        if !ledger::enter(Resource::AlternateStacks, 1) {
            return None;
        }
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_STACK);
        // SAFETY: a new private mapping of a file of that length.
        let start = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, flags, self.file.number().unwrap_or(-1), 0) };
        if start == libc::MAP_FAILED {
            ledger::leave(Resource::AlternateStacks, 1);
            return None;
        }
        // SAFETY: the first page of the mapping just made.
        unsafe { libc::mprotect(start, GUARD, libc::PROT_NONE) };
        // SAFETY: behind the guard page all of it can be written to; the kernel begins at the other end.
        unsafe { start.cast::<u8>().add(GUARD).cast::<[u64; 2]>().write_volatile([MARK, start as u64]) };
        Some(start as u64)
    }
}

/// Unmaps a stack.
///
/// # Safety
/// [`Stacks::map`] gave it, it was not unmapped since, and no thread uses it, nor may return to it.
pub unsafe fn unmap(stack: u64) {
    // SAFETY: the caller's contract.
    unsafe { libc::munmap(stack as *mut libc::c_void, SIZE) };
    ledger::leave(Resource::AlternateStacks, 1);
}

/// Unmaps the stack of a thread that has ended, if it is still there. Says whether it was.
///
/// # Safety
/// [`Stacks::map`] gave it, and no thread uses it.
pub unsafe fn unmap_if_mapped(stack: u64) -> bool {
    let mut words = [0u64; 2];
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    let remote = libc::iovec { iov_base: (stack + GUARD as u64) as *mut libc::c_void, iov_len: size_of_val(&words) };
    // SAFETY: the kernel writes to `words` as many bytes, and checks the other side itself.
    unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if words != [MARK, stack] {
        ledger::leave(Resource::AlternateStacks, 1);
        return false;
    }
    // SAFETY: it is ours, as its mark says, and the caller's contract.
    unsafe { unmap(stack) };
    true
}

/// A stack in the form that the kernel takes.
pub fn of(start: u64, size: usize) -> libc::stack_t {
    libc::stack_t { ss_sp: start as *mut libc::c_void, ss_flags: 0, ss_size: size }
}

/// The addresses of an alternate stack.
pub fn range(stack: &libc::stack_t) -> Range<u64> {
    let start = stack.ss_sp as u64;
    start..start.wrapping_add(stack.ss_size as u64)
}

/// Whether a frame of a second signal may not fit on it. A thread without one never runs a handler on one.
pub fn is_small(stack: &libc::stack_t) -> bool {
    stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size < SIZE
}

/// The calling thread's alternate stack; `None` if it is on it.
pub fn own() -> Option<libc::stack_t> {
    let mut stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: asks only.
    let asked = unsafe { libc::sigaltstack(ptr::null(), &mut stack) };
    (asked == 0 && stack.ss_flags & libc::SS_ONSTACK == 0).then_some(stack)
}

/// Sets the calling thread's alternate stack.
///
/// # Safety
/// It is mapped for as long as it is set, and nobody else uses it.
pub unsafe fn set_own(stack: &libc::stack_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { libc::sigaltstack(stack, ptr::null_mut()) == 0 }
}

/// Replaces an alternate stack in what the kernel has saved on it.
///
/// The runtime handles a fault in managed code on the thread's own stack, while the signal's frame still lies on the
/// alternate one. If it returns through that frame, the kernel sets the alternate stack that it finds there
/// (`restore_altstack`, kernel/signal.c): the small one, and with a timer armed that would be the end of the process.
///
/// # Safety
/// The old stack is the calling thread's, which is not on it.
pub unsafe fn replace_on_alternate(old: &libc::stack_t, new: &libc::stack_t) {
    // Behind the guard page all of it is mapped: the kernel writes there.
    let Range { start, end } = range(old);
    // SAFETY: the caller's contract.
    unsafe { replace(start + GUARD as u64..end, old, new) };
}

/// Replaces an alternate stack in what the kernel has saved in a range of memory: a handler that returns through it sets it again.
///
/// # Safety
/// The range is the calling thread's own stack or alternate stack, and mapped.
unsafe fn replace(range: Range<u64>, old: &libc::stack_t, new: &libc::stack_t) {
    if !range.start.is_multiple_of(8) {
        return;
    }
    // `stack_t`: address, flags, size (asm-generic/signal.h).
    for at in (range.start..range.end.saturating_sub(16)).step_by(8) {
        // SAFETY: all three words lie in the range.
        unsafe {
            let (address, size) = ((at as *mut u64), (at + 16) as *mut u64);
            if address.read_volatile() == old.ss_sp as u64 && size.read_volatile() == old.ss_size as u64 {
                address.write_volatile(new.ss_sp as u64);
                size.write_volatile(new.ss_size as u64);
            }
        }
    }
}

/// Replaces an alternate stack in what the kernel has saved on the calling thread's own stack, between its stack pointer and its end.
///
/// # Safety
/// All between is mapped, and the thread's own stack.
pub unsafe fn replace_on_own(sp: u64, high: u64, old: &libc::stack_t, new: &libc::stack_t) {
    // SAFETY: the caller's contract.
    unsafe { replace(sp.next_multiple_of(8)..high.min(sp.saturating_add(MOST_SEARCHED)), old, new) };
}

/// Whether the calling thread may still need what lies on a large alternate stack: it is on it, or a register or its own stack holds an
/// address in it. A handler that runs on the thread's own stack has got those of its context.
///
/// # Safety
/// The own stack is mapped from `sp` to `high`, and is the calling thread's.
pub unsafe fn is_in_use(stack: u64, sp: u64, high: u64, registers: &[u64]) -> bool {
    let inside = stack + 1..stack + SIZE as u64;
    if inside.contains(&sp) || registers.iter().any(|register| inside.contains(register)) {
        return true;
    }
    if high.saturating_sub(sp) > MOST_SEARCHED {
        return true;
    }
    // The first address itself is only in what the kernel saves.
    let from = sp.saturating_sub(RED_ZONE).next_multiple_of(8);
    (from..high.saturating_sub(7)).step_by(8).any(|at| {
        // SAFETY: the caller's contract; the red zone belongs to the stack, too.
        let word = unsafe { (at as *const u64).read_volatile() };
        inside.contains(&word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_unmapped() {
        let stacks = Stacks::new().unwrap();
        let (one, two) = (stacks.map().unwrap(), stacks.map().unwrap());
        // SAFETY: nobody uses them.
        unsafe {
            // As the runtime might have: the addresses are somebody else's then.
            unmap(two);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let other = libc::mmap(two as *mut libc::c_void, SIZE, libc::PROT_READ, flags, -1, 0);
            assert_eq!(other as u64, two);
            assert!(unmap_if_mapped(one) && !unmap_if_mapped(two));
            assert!(!unmap_if_mapped(one));
            assert_eq!((two as *const u8).read(), 0, "still there");
            libc::munmap(other, SIZE);
        }
    }

    #[test]
    fn what_the_kernel_saved_is_replaced_and_what_is_needed_is_seen() {
        let (old, new) = (of(0x7000_0000, 16 << 10), of(0x7100_0000, SIZE));
        let mut memory = [0u64, 0x7000_0000, 0, 16 << 10, 7, 0x7000_0000, 0, 5, 0x7100_0000, 0x7100_0000];
        let start = memory.as_mut_ptr() as u64;
        let end = start + size_of_val(&memory) as u64;
        // SAFETY: a local.
        unsafe { replace(start..end, &old, &new) };
        assert_eq!(memory, [0, 0x7100_0000, 0, SIZE as u64, 7, 0x7000_0000, 0, 5, 0x7100_0000, 0x7100_0000]);
        let needs = |memory: &[u64; 32], registers: &[u64]| {
            let start = memory.as_ptr() as u64;
            // SAFETY: as above; the red zone lies in it.
            unsafe { is_in_use(0x7100_0000, start + 128, start + 256, registers) }
        };
        let mut stack = [0x7100_0000; 32];
        assert!(!needs(&stack, &[5]));
        assert!(needs(&stack, &[0x7100_0800]));
        stack[31] = 0x7100_0008;
        assert!(needs(&stack, &[5]));
        stack[31] = 0x7100_0000 + SIZE as u64;
        assert!(!needs(&stack, &[5]));
    }
}
