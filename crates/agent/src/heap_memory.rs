//! The agent's heap: counted, and with a reserve for when the process has no more memory.
//!
//! The standard library ends the process when an allocation fails. In somebody else's process that
//! must not be. So where the C library has no memory left, allocations come from a reserve inside
//! the library, and the session ends collecting at once ([`is_exhausted`]): what is left to do
//! needs little. On threads of the agent an allocation that does not fit into the reserve waits for
//! memory.
//!
//! Large blocks are mappings of their own. The C library would keep them: once a block that it had
//! mapped is freed, it takes the next ones of that size out of the heap of the thread that asks,
//! and each of our threads may have another such heap (glibc, `M_MMAP_THRESHOLD`). A few snapshots
//! left some 4 MB in each of a dozen of them.

use crate::os::map;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Bytes of the reserve. It is part of the library's zeroed data: address space, and no memory
/// until it is used.
const RESERVE: usize = 4 << 20;
/// Counters: threads are spread over them.
const STRIPES: usize = 16;
/// A stripe is added to the sum when it has changed by so much: the highest mark is exact to
/// [`STRIPES`] times that.
const STEP: i64 = 16 << 10;
/// How often, and every how many nanoseconds, a thread of the agent asks again for memory that is
/// not there.
const TRIES: u32 = 500;
const PAUSE: libc::c_long = 10_000_000;

/// A block of at least this many bytes is a mapping of its own.
const LARGE: usize = 128 << 10;

/// The allocator of everything in this library.
#[derive(Debug)]
pub struct Heap;

/// A number on a cache line of its own.
#[repr(align(64))]
struct Stripe(AtomicI64);

static STRIPED: [Stripe; STRIPES] = [const { Stripe(AtomicI64::new(0)) }; STRIPES];
/// What stripes have handed over.
static SUM: AtomicI64 = AtomicI64::new(0);
static HIGHEST: AtomicI64 = AtomicI64::new(0);
/// The most that may be allocated at a time.
static BUDGET: AtomicU64 = AtomicU64::new(wire::Resource::HeapBytes.budget());
static EXHAUSTED: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicU64 = AtomicU64::new(0);

#[repr(align(4096))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: each byte belongs to the one allocation that `RESERVED` gave it to.
unsafe impl Sync for Reserve {}

static MEMORY: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
/// The reserve's state: the next free offset in the upper half, live allocations in the lower. A
/// block that is the last one is free again at once, and all of it is when none lives.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Bytes that are allocated.
pub fn held() -> u64 {
    let parts: i64 = STRIPED.iter().map(|Stripe(part)| part.load(Relaxed)).sum();
    u64::try_from(SUM.load(Relaxed) + parts).unwrap_or_default()
}

/// The most that was allocated at a time, exact to 256 KB.
pub fn highest() -> u64 {
    u64::try_from(HIGHEST.load(Relaxed)).unwrap_or_default().max(held())
}

/// How often there was no memory.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Whether the process ran out of memory, or the agent's heap exceeded its budget: nothing is
/// collected any more.
pub fn is_exhausted() -> bool {
    EXHAUSTED.load(Relaxed)
}

/// Sets the most that may be allocated at a time, bytes.
pub fn set_budget(bytes: u64) {
    BUDGET.store(bytes, Relaxed);
}

/// A new session begins.
pub fn restart() {
    HIGHEST.store(i64::try_from(held()).unwrap_or(i64::MAX), Relaxed);
    REFUSED.store(0, Relaxed);
    EXHAUSTED.store(false, Relaxed);
}

fn count(change: i64) {
    let here = 0_u8;
    // Stacks of threads lie apart from each other.
    let stripe = ((&raw const here).addr() >> 14) % STRIPES;
    let Some(Stripe(part)) = STRIPED.get(stripe) else { return };
    let now = part.fetch_add(change, Relaxed) + change;
    if now.abs() < STEP {
        return;
    }
    // Several threads may do this at once: each moves what it takes.
    let moved = part.swap(0, Relaxed);
    let sum = SUM.fetch_add(moved, Relaxed) + moved;
    if moved > 0 && sum > HIGHEST.load(Relaxed) {
        HIGHEST.fetch_max(sum, Relaxed);
        if sum as u64 > BUDGET.load(Relaxed) {
            EXHAUSTED.store(true, Relaxed);
        }
    }
}

/// Whether such a block, if it is not part of the reserve, is a mapping of its own.
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= map::PAGE
}

/// A block outside of the reserve, or null.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[inline]
unsafe fn take(layout: Layout) -> *mut u8 {
    if is_large(layout) {
        return map::block(layout.size());
    }
    // SAFETY: the caller's contract.
    unsafe { System.alloc(layout) }
}

/// A zeroed block outside of the reserve, or null.
///
/// # Safety
/// As [`GlobalAlloc::alloc_zeroed`].
#[inline]
unsafe fn take_zeroed(layout: Layout) -> *mut u8 {
    if is_large(layout) {
        return map::block(layout.size());
    }
    // SAFETY: the caller's contract.
    unsafe { System.alloc_zeroed(layout) }
}

/// Another size for a block outside of the reserve, in place or moved; null, also where it changes
/// from one kind to the other.
///
/// # Safety
/// As [`GlobalAlloc::realloc`].
#[inline]
unsafe fn resize(place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: the caller's contract: the new size is no larger than a layout's may be.
    let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
    match (is_large(layout), is_large(new)) {
        // SAFETY: it was mapped with this length, and is the caller's alone.
        (true, true) => unsafe { map::resize_block(place, layout.size(), size) },
        // SAFETY: the caller's contract.
        (false, false) => unsafe { System.realloc(place, layout, size) },
        _ => null_mut(),
    }
}

fn is_reserve(place: *mut u8) -> bool {
    let begin = MEMORY.0.get().addr();
    (begin..begin + RESERVE).contains(&place.addr())
}

fn from_reserve(layout: Layout) -> *mut u8 {
    EXHAUSTED.store(true, Relaxed);
    let (mut offset, mut place) = (0, 0);
    let taken = RESERVED.fetch_update(AcqRel, Acquire, |state| {
        let (next, live) = ((state >> 32) as usize, state & 0xffff_ffff);
        place = next.checked_next_multiple_of(layout.align())?;
        offset = place.checked_add(layout.size())?;
        (offset <= RESERVE).then_some(((offset as u64) << 32) | (live + 1))
    });
    match taken {
        // SAFETY: the place lies in the reserve.
        Ok(_) => unsafe { MEMORY.0.get().cast::<u8>().add(place) },
        Err(_) => null_mut(),
    }
}

fn to_reserve(place: *mut u8, layout: Layout) {
    let begin = place.addr().wrapping_sub(MEMORY.0.get().addr());
    let _ = RESERVED.fetch_update(AcqRel, Acquire, |state| {
        let (next, live) = ((state >> 32) as usize, state & 0xffff_ffff);
        let next = if begin.wrapping_add(layout.size()) == next { begin } else { next };
        Some(if live <= 1 { 0 } else { ((next as u64) << 32) | (live - 1) })
    });
}

/// Whether enough of the reserve is free for another session. Blocks of the last one that ran out
/// of memory may be in use for as long as the library is loaded.
pub fn has_reserve() -> bool {
    (RESERVED.load(Acquire) >> 32) as usize <= RESERVE / 2
}

/// Memory where the C library had none: from the reserve, or, on a thread that may wait, from the C
/// library after all.
#[cold]
fn emergency(layout: Layout, ask: impl Fn() -> *mut u8) -> *mut u8 {
    REFUSED.fetch_add(1, Relaxed);
    let reserved = from_reserve(layout);
    if !reserved.is_null() || !crate::os::threads::is_own() {
        return reserved;
    }
    for _ in 0..TRIES {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE };
        // SAFETY: the pause is a local.
        unsafe { libc::nanosleep(&pause, null_mut()) };
        let asked = ask();
        if !asked.is_null() {
            return asked;
        }
        let reserved = from_reserve(layout);
        if !reserved.is_null() {
            return reserved;
        }
    }
    null_mut()
}

// SAFETY: memory is the C library's, a mapping of its own, or a part of the reserve that is only
// the caller's. Nothing here panics or allocates.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let mut place = unsafe { ask(|| take(layout)) };
        if place.is_null() {
            // SAFETY: the caller's contract.
            place = emergency(layout, || unsafe { take(layout) });
        }
        if !place.is_null() {
            count(layout.size() as i64);
        }
        place
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let mut place = unsafe { ask(|| take_zeroed(layout)) };
        if place.is_null() {
            // SAFETY: the caller's contract.
            place = emergency(layout, || unsafe { take_zeroed(layout) });
            if is_reserve(place) {
                // Somebody may have used it before.
                // SAFETY: the place has this size.
                unsafe { place.write_bytes(0, layout.size()) };
            }
        }
        if !place.is_null() {
            count(layout.size() as i64);
        }
        place
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        if is_reserve(place) {
            to_reserve(place, layout);
        } else if is_large(layout) {
            // SAFETY: it was mapped with this length, and is not used any more.
            unsafe { map::free_block(place, layout.size()) };
        } else {
            // SAFETY: it came from there.
            unsafe { System.dealloc(place, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_reserve(place) {
            // SAFETY: it came from there.
            let moved = unsafe { ask(|| resize(place, layout, size)) };
            if !moved.is_null() {
                count(size as i64 - layout.size() as i64);
                return moved;
            }
        }
        // SAFETY: the caller's contract: the size is no larger than a layout's may be.
        let moved = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both have at least this many bytes, and the new ones belong to nobody else;
            // the old ones are given back once.
            unsafe {
                moved.copy_from_nonoverlapping(place, layout.size().min(size));
                self.dealloc(place, layout);
            }
        }
        moved
    }
}

/// Asks the C library; in a build for fault injection, some requests are answered with nothing.
#[inline]
unsafe fn ask(from: impl FnOnce() -> *mut u8) -> *mut u8 {
    #[cfg(feature = "fault-injection")]
    if crate::faults::allocation_fails() {
        return null_mut();
    }
    from()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted() {
        let before = held();
        let memory: Vec<u8> = Vec::with_capacity(10 << 20);
        assert!(held() >= before + (10 << 20));
        assert!(highest() >= before + (10 << 20));
        drop(memory);
        // Other tests may allocate meanwhile, but not so much.
        assert!(held() < before + (9 << 20), "{} {before}", held());
    }

    #[test]
    fn the_reserve_is_used_and_becomes_free_again() {
        let layout = Layout::from_size_align(1000, 64).unwrap();
        let places: Vec<*mut u8> = (0..100).map(|_| from_reserve(layout)).collect();
        assert!(is_exhausted());
        for (number, place) in places.iter().enumerate() {
            assert!(is_reserve(*place) && place.addr() % 64 == 0);
            // SAFETY: the place has this size.
            unsafe { place.write_bytes(number as u8, layout.size()) };
        }
        for (number, place) in places.iter().enumerate() {
            // SAFETY: as above.
            let ends = unsafe { (place.read(), place.add(999).read()) };
            assert_eq!(ends, (number as u8, number as u8));
        }
        assert!(
            from_reserve(Layout::from_size_align(RESERVE, 1).unwrap()).is_null(),
            "it is not all free"
        );
        count(100 * 1000);
        for place in places {
            // SAFETY: each once.
            unsafe { Heap.dealloc(place, layout) };
        }
        assert_eq!(RESERVED.load(Relaxed), 0);
        let all = Layout::from_size_align(RESERVE, 1).unwrap();
        let whole = from_reserve(all);
        assert!(is_reserve(whole) && !has_reserve());
        to_reserve(whole, all);
        // One block that stays does not make the others stay, too.
        let stays = from_reserve(layout);
        let half = Layout::from_size_align(RESERVE / 2, 1).unwrap();
        for _ in 0..100 {
            let place = from_reserve(half);
            assert!(is_reserve(place) && !has_reserve());
            to_reserve(place, half);
            assert!(has_reserve());
        }
        to_reserve(stays, layout);
        assert_eq!(RESERVED.load(Relaxed), 0);
        restart();
        assert!(!is_exhausted());
    }

    #[test]
    fn large_blocks_go_back_to_the_system_at_once() {
        let is_there = |place: *mut u8| {
            let mut pages = [0];
            // SAFETY: one page is asked about, and one byte is there for the answer.
            unsafe { libc::mincore(place.cast(), map::PAGE, pages.as_mut_ptr()) == 0 }
        };
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        for _ in 0..20 {
            // SAFETY: sizes as given, each freed once.
            unsafe {
                let place = Heap.alloc_zeroed(layout(LARGE));
                assert!(place.addr() % map::PAGE == 0 && place.add(LARGE - 1).read() == 0);
                place.write_bytes(7, LARGE);
                let place = Heap.realloc(place, layout(LARGE), 4 * LARGE + 1);
                assert_eq!((place.read(), place.add(LARGE - 1).read()), (7, 7));
                // From one kind to the other, and back.
                let small = Heap.realloc(place, layout(4 * LARGE + 1), 100);
                assert!(!is_there(place) && small.add(99).read() == 7);
                let place = Heap.realloc(small, layout(100), LARGE);
                assert_eq!(place.add(99).read(), 7);
                Heap.dealloc(place, layout(LARGE));
                assert!(!is_there(place));
            }
        }
    }

    #[test]
    fn a_block_that_grows_leaves_the_reserve_with_its_content() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        let place = from_reserve(layout);
        count(100);
        // SAFETY: sizes as given.
        unsafe {
            place.write_bytes(7, 100);
            let grown = Heap.realloc(place, layout, 100_000);
            assert!(!is_reserve(grown));
            assert_eq!((grown.read(), grown.add(99).read()), (7, 7));
            Heap.dealloc(grown, Layout::from_size_align(100_000, 8).unwrap());
        }
        assert_eq!(RESERVED.load(Relaxed), 0);
    }

    /// `cargo test --release -p agent --lib -- --ignored counting --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn counting_costs_little() {
        let time = |heap: &dyn GlobalAlloc| {
            let layout = Layout::from_size_align(64, 8).unwrap();
            let mut best = f64::MAX;
            for _ in 0..20 {
                let start = std::time::Instant::now();
                for _ in 0..200_000 {
                    // SAFETY: allocated and freed with the same layout.
                    unsafe {
                        let place = heap.alloc(layout);
                        std::hint::black_box(place);
                        heap.dealloc(place, layout);
                    }
                }
                best = best.min(start.elapsed().as_nanos() as f64 / 200_000.0);
            }
            best
        };
        let (plain, counted) = (time(&System), time(&Heap));
        println!("a block of 64 bytes, taken and returned: {plain:.1} ns, counted {counted:.1} ns");
    }
}
