//! Threads that are sampled, and where the stack of each lies.

use crate::os::{alternate, maps};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(super) const NOT_VISITED: u32 = 0;
pub(super) const VISITED: u32 = 1;
pub(super) const VISIT_FAILED: u32 = 2;
/// A sample is asked for; back to `VISITED` once it is taken.
pub(super) const WANTED: u32 = 3;
/// It is asked to go back to its own alternate stack.
pub(super) const LEAVE: u32 = 4;
/// It has.
pub(super) const HAS_LEFT: u32 = 5;
/// It may still need the large one.
pub(super) const IN_USE: u32 = 6;

/// A thread. Written before its timer is armed, and cleared when it is gone.
#[derive(Default)]
pub(super) struct ThreadSlot {
    pub(super) tid: AtomicU32,
    /// What the runtime knows it by.
    pub(super) thread: AtomicU64,
    /// How far it is with a visit.
    pub(super) visit: AtomicU32,
    pub(super) low: AtomicU64,
    pub(super) high: AtomicU64,
    /// What the visit found: stack pointer and thread control block.
    pub(super) seen_sp: AtomicU64,
    pub(super) seen_tcb: AtomicU64,
    /// Time of the sample that was asked for; 0 if no sample was available.
    pub(super) sampled: AtomicU64,
    /// The large alternate stack that was mapped for it; 0 if there is none. Who takes it out
    /// unmaps it.
    pub(super) stack: AtomicU64,
    /// The number of that stack.
    pub(super) number: AtomicU64,
    /// Whether that is set, as far as we know. Changed by the thread itself only, but for its end.
    pub(super) set: AtomicBool,
    /// Address and size of the alternate stack that it had before.
    pub(super) old: [AtomicU64; 2],
}

impl ThreadSlot {
    pub(super) fn keep_old(&self, stack: &libc::stack_t) {
        let [start, size] = &self.old;
        start.store(stack.ss_sp as u64, Ordering::SeqCst);
        size.store(stack.ss_size as u64, Ordering::SeqCst);
    }

    pub(super) fn keep_new(&self, stack: alternate::Stack) {
        self.number.store(stack.number, Ordering::SeqCst);
        self.stack.store(stack.start, Ordering::SeqCst);
    }

    pub(super) fn new_one(&self) -> Option<alternate::Stack> {
        self.stack_at(self.stack.load(Ordering::SeqCst))
    }

    /// Takes it out.
    pub(super) fn take_new(&self) -> Option<alternate::Stack> {
        self.stack_at(self.stack.swap(0, Ordering::SeqCst))
    }

    pub(super) fn stack_at(&self, start: u64) -> Option<alternate::Stack> {
        (start != 0).then(|| alternate::Stack { start, number: self.number.load(Ordering::SeqCst) })
    }

    pub(super) fn old(&self) -> libc::stack_t {
        let [start, size] = &self.old;
        alternate::of(start.load(Ordering::SeqCst), size.load(Ordering::SeqCst) as usize)
    }
}

/// Bytes that the stack of the first thread may have (`RLIMIT_STACK`), 1 GB at most.
pub(super) fn stack_limit() -> u64 {
    let mut limits = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes to a local.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limits) };
    limits.rlim_cur.min(1 << 30)
}

/// The lowest and the highest address of the stack of a thread with this stack pointer and thread
/// control block; `None` if it is on another one. `limit` is that of the first thread's stack.
pub(super) fn stack_of(
    mappings: &[maps::Mapping],
    sp: u64,
    tcb: u64,
    limit: u64,
) -> Option<(u64, u64)> {
    let index = mappings.iter().position(|mapping| (mapping.start..mapping.end).contains(&sp))?;
    let mapping = mappings.get(index)?;
    if mapping.path == "[stack]" {
        // The kernel lets it grow downwards, to its limit and not into what is below. That may be
        // near where addresses are not random, and may be the thread's alternate stack.
        let below =
            index.checked_sub(1).and_then(|index| mappings.get(index)).map_or(0, |below| below.end);
        return Some((
            mapping.end.saturating_sub(limit).max(below).min(mapping.start),
            mapping.end,
        ));
    }
    // The control block stands at the end of the stack's own block of memory, in glibc and in musl.
    // What follows in the mapping may belong to somebody else, and go at any time.
    (sp..mapping.end).contains(&tcb).then_some((mapping.start, tcb))
}
