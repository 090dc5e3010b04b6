//! What runs in the signal handler: it allocates nothing, locks nothing and waits for nothing.

use super::slots::{
    HAS_LEFT, IN_USE, LEAVE, NOT_VISITED, ThreadSlot, VISIT_FAILED, VISITED, WANTED,
};
use super::{ACTIVE, IN_FLIGHT, Shared, TIME_STEP};
use crate::os::threads::current_tid;
use crate::os::{alternate, clock};
use std::ptr::{self};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::ring::{Layout, REGISTERS, slot_state};

pub(super) const SI_QUEUE: i32 = -1;
pub(super) const SI_TIMER: i32 = -2;

/// Layout of `siginfo_t` for what the handler reads (asm-generic/siginfo.h, 64 bit): timers have an
/// overrun at 20, and both timers and queued signals have the value at 24.
#[repr(C)]
pub(super) struct SigInfo {
    pub(super) signal: i32,
    pub(super) errno: i32,
    pub(super) code: i32,
    pub(super) pad: i32,
    pub(super) pid: i32,
    pub(super) overrun_or_uid: i32,
    pub(super) value: usize,
    pub(super) rest: [u64; 12],
}

impl Shared {
    /// The slot that a signal is about. Other tools send the same signal, with values of their own.
    pub(super) fn slot(&self, value: usize) -> Option<&ThreadSlot> {
        let offset = value.wrapping_sub(self.threads.as_ptr() as usize);
        if !offset.is_multiple_of(size_of::<ThreadSlot>()) {
            return None;
        }
        self.threads.get(offset / size_of::<ThreadSlot>())
    }

    /// One of the ring's own counters.
    pub(super) fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offsets are those of the header, which is 64 bytes large and aligned to a
        // page.
        unsafe { self.ring.add(offset).cast::<AtomicU64>().as_ref() }
    }
}

/// The handler. See the top of the file for what it may not do.
pub(super) unsafe extern "C" fn handler(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the address of the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    let shared = ACTIVE.load(Ordering::SeqCst);
    if !shared.is_null() {
        // SAFETY: while this handler is counted, the engine is not freed; the kernel's pointers are
        // valid here.
        unsafe {
            handle(&*shared, &*info.cast::<SigInfo>(), &mut *context.cast::<libc::ucontext_t>())
        };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
}

/// # Safety
///
/// Called by the handler only, with what the kernel gave it.
#[inline]
pub(super) unsafe fn handle(shared: &Shared, info: &SigInfo, context: &mut libc::ucontext_t) {
    let Some(thread) = shared.slot(info.value) else { return };
    match info.code {
        SI_TIMER => {
            let begun = clock::monotonic();
            keep_alternate(thread, context);
            // SAFETY: the caller's contract.
            unsafe { sample(shared, thread, info.overrun_or_uid, context, begun) };
            let step = clock::monotonic().wrapping_sub(begun) / TIME_STEP;
            let step = (step as usize).min(shared.times.len().wrapping_sub(1));
            if let Some(count) = shared.times.get(step) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        // One that came late: the slot is another thread's.
        SI_QUEUE if thread.tid.load(Ordering::SeqCst) != current_tid() => {}
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == NOT_VISITED => {
            // SAFETY: the caller's contract.
            unsafe { visited(shared, thread, context) };
        }
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == WANTED => {
            let begun = clock::monotonic();
            // SAFETY: the caller's contract.
            if unsafe { sample(shared, thread, 0, context, begun) } {
                thread.sampled.store(begun, Ordering::SeqCst);
            }
            let _ =
                thread.visit.compare_exchange(WANTED, VISITED, Ordering::SeqCst, Ordering::SeqCst);
        }
        SI_QUEUE if thread.visit.load(Ordering::SeqCst) == LEAVE => {
            // SAFETY: the caller's contract.
            let answer = unsafe { leave(thread, context) };
            thread.visit.store(answer, Ordering::SeqCst);
        }
        // Somebody else's signal: it is not ours to answer, and there was no handler before us.
        _ => {}
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn stack_pointer(context: &libc::ucontext_t) -> u64 {
    let [.., rsp, _, _, _, _, _, _, _] = context.uc_mcontext.gregs;
    rsp as u64
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn stack_pointer(_context: &libc::ucontext_t) -> u64 {
    0
}

/// Sets the large alternate stack again where something has put the small one back.
pub(super) fn keep_alternate(thread: &ThreadSlot, context: &mut libc::ucontext_t) {
    let now = context.uc_stack;
    if alternate::is_small(&now)
        && thread.set.load(Ordering::SeqCst)
        && thread.tid.load(Ordering::SeqCst) == current_tid()
        && !alternate::range(&now).contains(&stack_pointer(context))
    {
        context.uc_stack = alternate::of(thread.stack.load(Ordering::SeqCst), alternate::SIZE);
    }
}

/// The one visit: gives the thread its alternate stack, and tells where the thread's stack is.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
pub(super) unsafe fn visited(shared: &Shared, thread: &ThreadSlot, context: &mut libc::ucontext_t) {
    let of =
        |slot: &ThreadSlot| (slot.tid.load(Ordering::SeqCst), slot.thread.load(Ordering::SeqCst));
    // It has just begun to see to itself.
    if shared.threads.iter().any(|other| !ptr::eq(other, thread) && of(other) == of(thread)) {
        thread.visit.store(VISIT_FAILED, Ordering::SeqCst);
        return;
    }
    let sp = stack_pointer(context);
    let old = context.uc_stack;
    let mut result = VISITED;
    if alternate::is_small(&old) {
        if let Some(stack) = thread.new_one().filter(|_| !alternate::range(&old).contains(&sp)) {
            let new = alternate::of(stack.start, alternate::SIZE);
            thread.keep_old(&old);
            stack.mark_old(&old);
            // The kernel sets this stack as the handler returns. The old one stays: a thread that
            // throws for a null reference runs on its own stack again while it still needs what the
            // kernel and the runtime have put there.
            context.uc_stack = new;
            // SAFETY: the thread's own alternate stack, on which it is not; nobody else uses it.
            unsafe { alternate::replace_on_alternate(&old, &new) };
            thread.set.store(true, Ordering::SeqCst);
        } else {
            result = VISIT_FAILED;
        }
    }
    // SAFETY: reads a register, in glibc and in musl.
    let tcb = unsafe { libc::pthread_self() } as u64;
    thread.seen_sp.store(sp, Ordering::SeqCst);
    thread.seen_tcb.store(tcb, Ordering::SeqCst);
    thread.visit.store(result, Ordering::SeqCst);
}

/// Sets the thread's own alternate stack again, if it does not need anything on ours.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
pub(super) unsafe fn leave(thread: &ThreadSlot, context: &mut libc::ucontext_t) -> u32 {
    let stack = thread.stack.load(Ordering::SeqCst);
    if stack == 0 || !thread.set.load(Ordering::SeqCst) {
        return HAS_LEFT;
    }
    let sp = stack_pointer(context);
    let (low, high) = (thread.low.load(Ordering::SeqCst), thread.high.load(Ordering::SeqCst));
    if !(low..high).contains(&sp) {
        return IN_USE;
    }
    let (ours, old) = (alternate::of(stack, alternate::SIZE), thread.old());
    // SAFETY: the thread's own stack, from its stack pointer to its end.
    unsafe {
        if alternate::is_in_use(stack, sp, high, &registers(context)) {
            return IN_USE;
        }
        // Other handlers that this one has interrupted would set ours again as they return.
        alternate::replace_on_own(sp, high, &ours, &old);
    }
    if context.uc_stack.ss_sp as u64 == stack {
        context.uc_stack = old;
    }
    thread.set.store(false, Ordering::SeqCst);
    HAS_LEFT
}

/// Copies the thread into a free slot of the ring, if it is on its own stack.
///
/// # Safety
///
/// Called in a handler, with the kernel's context.
#[inline]
pub(super) unsafe fn sample(
    shared: &Shared,
    thread: &ThreadSlot,
    overrun: i32,
    context: &libc::ucontext_t,
    now: u64,
) -> bool {
    let sp = stack_pointer(context);
    // While the runtime looks at a fault the thread is on its alternate stack. What is copied then
    // ends there.
    let alternate = alternate::range(&context.uc_stack);
    let is_on_alternate =
        context.uc_stack.ss_flags & libc::SS_DISABLE == 0 && alternate.contains(&sp);
    let own = thread.low.load(Ordering::Relaxed)..thread.high.load(Ordering::Relaxed);
    let stack = if is_on_alternate { alternate } else { own };
    if !stack.contains(&sp) {
        shared.counter(16).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let high = stack.end;
    let ticket = shared.counter(0).fetch_add(1, Ordering::Relaxed);
    let index = (ticket % u64::from(shared.layout.slots)) as usize;
    // SAFETY: the index is below the number of slots, so the slot lies in the ring.
    let slot = unsafe {
        shared.ring.as_ptr().add(Layout::HEADER + index * shared.layout.slot_size as usize)
    };
    // SAFETY: slots are multiples of 64 bytes, so this is aligned, and all access to it is atomic.
    let state = unsafe { &*slot.cast::<AtomicU32>() };
    if state
        .compare_exchange(
            slot_state::FREE,
            slot_state::WRITING,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_err()
    {
        shared.counter(8).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let length = (high - sp).min(shared.layout.stack_size() as u64) as usize;
    // SAFETY: this handler owns the slot now. The offsets are those of the ring's description; the
    // stack from `sp` to `high` is the thread's own, mapped for as long as it runs.
    unsafe {
        slot.add(4).cast::<u32>().write(thread.tid.load(Ordering::Relaxed));
        slot.add(8).cast::<u64>().write(now);
        slot.add(16).cast::<[u64; REGISTERS]>().write(registers(context));
        slot.add(152).cast::<u32>().write(length as u32);
        slot.add(156).cast::<u32>().write(overrun.max(0) as u32);
        ptr::copy_nonoverlapping(sp as *const u8, slot.add(Layout::SLOT_HEADER), length);
    }
    state.store(slot_state::READY, Ordering::Release);
    true
}

/// Registers in the order of [`wire::ring::Register`], from the order of the kernel's context
/// (`REG_R8` = 0 …).
#[cfg(target_arch = "x86_64")]
pub(super) fn registers(context: &libc::ucontext_t) -> [u64; REGISTERS] {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, ..] =
        context.uc_mcontext.gregs;
    [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip]
        .map(|register| register as u64)
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn registers(_context: &libc::ucontext_t) -> [u64; REGISTERS] {
    [0; REGISTERS]
}

/// Bounds of the calling thread's stack.
pub(super) fn own_stack() -> Option<(u64, u64)> {
    let mut attributes = [std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed(); 2];
    let attributes = attributes.as_mut_ptr().cast::<libc::pthread_attr_t>();
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the attributes are a local with room for the largest layout; both results go to
    // locals.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes, &mut start, &mut size) == 0;
        libc::pthread_attr_destroy(attributes);
        let (start, sp) = (start as u64, (&raw const size) as u64);
        let end = start.checked_add(size as u64)?;
        // What stands above the control block, and that itself, is of no use to an unwinder.
        let tcb = libc::pthread_self() as u64;
        let end = if (sp..end).contains(&tcb) { tcb } else { end };
        (found && (start..end).contains(&sp)).then_some((start, end))
    }
}
