//! Larger alternate stacks for the program's threads.
//!
//! Each one that we map is private memory of an own memory file, so that `/proc/<pid>/maps` names
//! it, and holds a mark, which tells it from all else whatever has become of its address meanwhile.
//! Only what we mapped is ever unmapped, and the program's own alternate stacks stay as they are.

use super::descriptors::{self, Kept};
use super::memory::holds;
use crate::ledger;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Resource;

/// Bytes of a large alternate stack, guard page included.
pub const SIZE: usize = 96 << 10;
const GUARD: usize = 4096;
/// What stands, with the stack's number, behind its guard page: no other code writes this there.
const MARK: u64 = 0x6b63_6174_735f_7263;
/// What stands, with the number of the stack that has taken its place, at the same place of one of
/// the runtime's.
const MARK_OF_OLD: u64 = 0x646c_6f5f_7263_6b63;
/// The number of the stack that was mapped last.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Most bytes of a thread's own stack that are looked through.
const MOST_SEARCHED: u64 = 1 << 20;
/// `SS_AUTODISARM` (linux/signal.h): whoever sets this leaves handlers in ways of its own, and ours
/// could not set such a stack again.
const AUTODISARM: i32 = 1 << 31;
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
        let file = Kept::new(|| unsafe {
            libc::memfd_create(c"clrscope-stack".as_ptr(), libc::MFD_CLOEXEC)
        })?;
        // With its memory: where there is none left, the first touch of a page would end the
        // process.
        descriptors::allocate(&file, SIZE)?;
        let stacks = Self { file };
        let first = stacks.map().ok_or(io::ErrorKind::OutOfMemory)?;
        let found = first.is_there();
        // SAFETY: no thread has got it.
        unsafe { first.unmap() };
        // Without an answer none could be given back.
        found.map(|_| stacks).map_err(io::Error::from_raw_os_error)
    }

    /// Maps one, laid out as the runtime lays out its own: a guard page at its low end, within the
    /// bounds given to the kernel.
    pub fn map(&self) -> Option<Stack> {
        if !ledger::enter(Resource::AlternateStacks, 1) {
            return None;
        }
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_STACK);
        // SAFETY: a new private mapping of a file of that length.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), SIZE, access, flags, self.file.number().unwrap_or(-1), 0)
        };
        if start == libc::MAP_FAILED {
            ledger::leave(Resource::AlternateStacks, 1);
            return None;
        }
        // It takes one more mapping, which the kernel may refuse. Without a guard, what lies below
        // would be written over.
        // SAFETY: the first page of the mapping just made.
        if unsafe { libc::mprotect(start, GUARD, libc::PROT_NONE) } != 0 {
            // SAFETY: the mapping just made, of which nothing else knows.
            unsafe { libc::munmap(start, SIZE) };
            ledger::leave(Resource::AlternateStacks, 1);
            return None;
        }
        let number = LAST.fetch_add(1, Relaxed).wrapping_add(1);
        // SAFETY: behind the guard page all of it can be written to; the kernel begins at the other
        // end.
        unsafe { start.cast::<u8>().add(GUARD).cast::<[u64; 2]>().write_volatile([MARK, number]) };
        Some(Stack { start: start as u64, number })
    }
}

/// A stack that [`Stacks::map`] made. Another one may be mapped at its address once somebody has
/// unmapped it: its number is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its address.
    pub start: u64,
    /// Its number.
    pub number: u64,
}

impl Stack {
    /// Whether its mark stands where it should.
    fn is_there(self) -> Result<bool, i32> {
        holds(self.start + GUARD as u64, [MARK, self.number])
    }

    /// Marks an alternate stack that this one takes the place of, if it is one of the runtime's: of
    /// those a page without access at the low end is a part. [`Self::unmap_of_ended`] knows it by
    /// that. Nothing may lie where the mark goes, at the far end of the stack.
    ///
    /// To be called by the thread that has it, which is not on it.
    pub fn mark_old(self, old: &libc::stack_t) {
        let start = old.ss_sp as u64;
        let is_of_pages = start.is_multiple_of(GUARD as u64)
            && old.ss_size.is_multiple_of(GUARD)
            && old.ss_size > 2 * GUARD;
        if !is_of_pages || holds(start, [0]) != Err(libc::EFAULT) {
            return;
        }
        let place = start + GUARD as u64;
        if holds(place, [MARK_OF_OLD]) == Ok(true) || holds(place, [0; 2]) == Ok(true) {
            // SAFETY: it was just read, and the thread's own stack does not go while it is here.
            unsafe { (place as *mut [u64; 2]).write_volatile([MARK_OF_OLD, self.number]) };
        }
    }

    /// Unmaps it, if it is still there.
    ///
    /// # Safety
    /// No thread uses it, nor may return to it, and this is called once.
    pub unsafe fn unmap(self) {
        match self.is_there() {
            Ok(true) => {
                // SAFETY: it is ours, as its number says, and by the caller's contract unused.
                unsafe { libc::munmap(self.start as *mut libc::c_void, SIZE) };
            }
            Ok(false) | Err(libc::EFAULT) => {}
            // The kernel does not say: it stays, and is counted.
            Err(_) => return,
        }
        ledger::leave(Resource::AlternateStacks, 1);
    }

    /// Unmaps it after the end of the thread that it was set for, and also unmaps the stack that
    /// the thread had before.
    ///
    /// A thread sets its own stack again when the runtime reports the thread's end. The runtime
    /// reports the end of a thread of native code only when the thread is gone. By then the runtime
    /// has looked for its stack in vain, because ours was set: no other code will ever unmap it.
    ///
    /// # Safety
    /// The thread is gone, `old` is what it had before, and this is called once.
    pub unsafe fn unmap_of_ended(self, old: &libc::stack_t) {
        // SAFETY: the caller's contract.
        unsafe { self.unmap() };
        // Somebody may have unmapped it, and something else may be there.
        if holds(old.ss_sp as u64 + GUARD as u64, [MARK_OF_OLD, self.number]) == Ok(true) {
            // SAFETY: it is the runtime's, which does not know it any more, and the thread is gone.
            unsafe { libc::munmap(old.ss_sp, old.ss_size) };
        }
    }
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

/// Whether a frame of a second signal may not fit on it. A thread without one never runs a handler
/// on one.
pub fn is_small(stack: &libc::stack_t) -> bool {
    stack.ss_flags & (libc::SS_DISABLE | AUTODISARM) == 0 && stack.ss_size < SIZE
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
/// The runtime handles a fault in managed code on the thread's own stack, while the signal's frame
/// still lies on the alternate one. If it returns through that frame, the kernel sets the alternate
/// stack that it finds there (`restore_altstack`, kernel/signal.c): the small one, and with a timer
/// armed that would be the end of the process.
///
/// # Safety
/// The old stack is the calling thread's, which is not on it.
pub unsafe fn replace_on_alternate(old: &libc::stack_t, new: &libc::stack_t) {
    // Behind the guard page all of it is mapped: the kernel writes there.
    let Range { start, end } = range(old);
    // SAFETY: the caller's contract.
    unsafe { replace(start + GUARD as u64..end, old, new) };
}

/// Replaces an alternate stack in what the kernel has saved in a range of memory: a handler that
/// returns through it sets it again.
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
            if address.read_volatile() == old.ss_sp as u64
                && size.read_volatile() == old.ss_size as u64
            {
                address.write_volatile(new.ss_sp as u64);
                size.write_volatile(new.ss_size as u64);
            }
        }
    }
}

/// Replaces an alternate stack in what the kernel has saved on the calling thread's own stack,
/// between its stack pointer and its end.
///
/// # Safety
/// All between is mapped, and the thread's own stack.
pub unsafe fn replace_on_own(sp: u64, high: u64, old: &libc::stack_t, new: &libc::stack_t) {
    // SAFETY: the caller's contract.
    unsafe {
        replace(sp.next_multiple_of(8)..high.min(sp.saturating_add(MOST_SEARCHED)), old, new)
    };
}

/// Whether the calling thread may still need what lies on a large alternate stack: it is on it, or
/// a register or its own stack holds an address in it. A handler that runs on the thread's own
/// stack has got those of its context.
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
        let (one, two, three) =
            (stacks.map().unwrap(), stacks.map().unwrap(), stacks.map().unwrap());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: nobody uses them.
        unsafe {
            // As the runtime might have: the addresses are somebody else's then, or another
            // stack's.
            assert_eq!(libc::munmap(two.start as *mut libc::c_void, SIZE), 0);
            let other = libc::mmap(
                two.start as *mut libc::c_void,
                SIZE,
                libc::PROT_READ,
                flags | libc::MAP_FIXED,
                -1,
                0,
            );
            assert_eq!(other as u64, two.start);
            let is_there = |stack: Stack| stack.is_there() == Ok(true);
            assert!(is_there(one) && !is_there(two) && is_there(three));
            assert!(!is_there(Stack { number: three.number + 1, ..three }));
            one.unmap();
            two.unmap();
            three.unmap();
            assert!(!is_there(one) && !is_there(three));
            assert_eq!((two.start as *const u8).read(), 0, "still there");
            libc::munmap(other, SIZE);
        }
    }

    #[test]
    fn the_runtimes_own_goes_with_the_thread_whose_end_it_does_not_tell_in_time() {
        let stacks = Stacks::new().unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let make = |guard: i32| {
            // SAFETY: new memory of four pages, the first of which is changed.
            unsafe {
                let place = libc::mmap(
                    ptr::null_mut(),
                    4 * GUARD,
                    access,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                );
                libc::mprotect(place, GUARD, guard);
                of(place as u64, 4 * GUARD)
            }
        };
        // SAFETY: asks only.
        let is_there = |old: &libc::stack_t| unsafe { libc::msync(old.ss_sp, old.ss_size, libc::MS_ASYNC) } == 0;
        let (runtimes, others) = (make(libc::PROT_NONE), make(access));
        for old in [runtimes, others] {
            let stack = stacks.map().unwrap();
            stack.mark_old(&old);
            // SAFETY: no thread has ever had any of them.
            unsafe { stack.unmap_of_ended(&old) };
            assert_ne!(stack.is_there(), Ok(true));
        }
        assert!(!is_there(&runtimes) && is_there(&others));
        // One that was unmapped and is another one's now, and one that is in use up to its far end.
        let (stack, again) = (stacks.map().unwrap(), make(libc::PROT_NONE));
        stack.mark_old(&again);
        let used = make(libc::PROT_NONE);
        let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: as above.
        unsafe {
            libc::mmap(again.ss_sp, again.ss_size, access, fixed, -1, 0);
            stack.unmap_of_ended(&again);
            used.ss_sp.cast::<u8>().add(GUARD).cast::<u64>().write(7);
            let stack = stacks.map().unwrap();
            stack.mark_old(&used);
            stack.unmap_of_ended(&used);
            assert_eq!(used.ss_sp.cast::<u8>().add(GUARD).cast::<u64>().read(), 7);
        }
        assert!(is_there(&again) && is_there(&used));
        for old in [others, again, used] {
            // SAFETY: made above.
            unsafe { libc::munmap(old.ss_sp, old.ss_size) };
        }
    }

    #[test]
    fn what_the_kernel_saved_is_replaced_and_what_is_needed_is_seen() {
        let (old, new) = (of(0x7000_0000, 16 << 10), of(0x7100_0000, SIZE));
        let mut memory =
            [0u64, 0x7000_0000, 0, 16 << 10, 7, 0x7000_0000, 0, 5, 0x7100_0000, 0x7100_0000];
        let start = memory.as_mut_ptr() as u64;
        let end = start + size_of_val(&memory) as u64;
        // SAFETY: a local.
        unsafe { replace(start..end, &old, &new) };
        assert_eq!(
            memory,
            [0, 0x7100_0000, 0, SIZE as u64, 7, 0x7000_0000, 0, 5, 0x7100_0000, 0x7100_0000]
        );
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
