//! What rewritten methods call, and what is kept of their calls.
//!
//! Rewritten code calls [`count`], [`enter`] and [`leave`] as if they were managed: see [`instrument::Probes`] for what that
//! asks of them. They take no lock, wait for nobody and allocate nothing, but for pages of a table of their own.
//!
//! Each thread writes a [`Shard`] of its own with a [`Block`] for each method that it has called: everything in it is an
//! atomic number that is loaded and stored without order, which on a processor is a plain load or store. Once its thread is gone, the shard is handed to
//! the next new thread as it is: it is the sum over all shards that counts, and numbers only grow. What the runtime compiled to call these functions
//! may call them as long as the process lives, so nothing is ever given back.

use crate::calls;
use crate::os::map::Zeroed;
use crate::os::threads::{current_tid, is_gone};
use crate::pending::{Begun, Pending};
use instrument::{Manager, Probes};
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Most threads with a shard at a time.
const MOST_SHARDS: usize = 4096;
/// Most bytes of all shards together.
const MOST_MEMORY: usize = 128 << 20;
/// Methods in one piece of a shard: those that are counted, and those that are timed.
const COUNTS: usize = 512;
const BLOCKS: usize = 16;
const METHODS: usize = Manager::MOST as usize;

/// Buckets within each doubling: a bucket is 6 % wide.
const PARTS_BITS: u32 = 4;
const PARTS: usize = 1 << PARTS_BITS;
/// From here on all times share the last bucket: 2⁴⁴ ticks are more than an hour.
const LONGEST_BITS: u32 = 44;
/// Buckets of a histogram.
pub const BUCKETS: usize = PARTS + (LONGEST_BITS - PARTS_BITS) as usize * PARTS;

/// Whether calls are counted. Looked at first of all.
static ON: AtomicBool = AtomicBool::new(false);
/// Of how many calls one is timed, by slot; 0 stands for 1.
static ONE_IN: [AtomicU32; METHODS] = [const { AtomicU32::new(0) }; METHODS];
/// The shards that there are.
static SHARDS: [AtomicPtr<Shard>; MOST_SHARDS] = [const { AtomicPtr::new(null_mut()) }; MOST_SHARDS];
/// Bytes of all shards, as reserved.
static MEMORY: AtomicUsize = AtomicUsize::new(0);
/// Calls that are not counted: in threads without a shard, and those for which there was no memory.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Asynchronous calls that have not ended.
static PENDING: Pending = Pending::new();

thread_local! {
    // Without a destructor: the library may be asked on threads of the target that are about to end.
    static SHARD: Cell<*const Shard> = const { Cell::new(null()) };
    /// The asynchronous call that begins on this thread: slot + 1, and when.
    static BEGUN: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// What is known of the calls of a method on one thread.
#[repr(C, align(64))]
pub struct Block {
    calls: AtomicU64,
    /// Timed calls that have ended.
    timed: AtomicU64,
    /// Those of them that ended by an exception.
    failed: AtomicU64,
    /// Ticks of all of them together.
    ticks: AtomicU64,
    /// Those of the longest since it was last read.
    longest: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// What one thread writes. All zeros are a shard that is nobody's.
#[repr(C)]
struct Shard {
    /// Thread that writes it; 0 for nobody.
    os_tid: AtomicU32,
    counts: [AtomicPtr<[AtomicU64; COUNTS]>; METHODS / COUNTS],
    blocks: [AtomicPtr<[Block; BLOCKS]>; METHODS / BLOCKS],
}

/// The functions, for rewritten code.
pub fn probes() -> Probes {
    Probes {
        count: count as extern "C" fn(u32) as usize,
        enter: enter as extern "C" fn(u32) -> i64 as usize,
        leave: leave as extern "C" fn(u32, i64, i32) as usize,
        begin_async: begin_async as extern "C" fn(u32) as usize,
        resume_async: resume_async as extern "C" fn(u32) -> i64 as usize,
        end_async: end_async as extern "C" fn(u32, i64, i32) as usize,
        pending: pending as extern "C" fn(u32, i64, u32) as usize,
        completed: completed as extern "C" fn(u32, u32, i32) as usize,
    }
}

/// From now on calls are counted, or not.
pub fn switch(on: bool) {
    if on {
        PENDING.clear();
    }
    ON.store(on, Relaxed);
}

/// One of so many calls of a method is timed from now on.
pub fn time_one_in(slot: u32, one_in: u32) {
    if let Some(place) = ONE_IN.get(slot as usize) {
        place.store(one_in, Relaxed);
    }
}

/// See [`Probes::count`].
extern "C" fn count(slot: u32) {
    if !ON.load(Relaxed) {
        return;
    }
    match shard().and_then(|shard| shard.count(slot)) {
        Some(calls) => add(calls, 1),
        None => lost(),
    }
}

/// See [`Probes::enter`].
extern "C" fn enter(slot: u32) -> i64 {
    if !ON.load(Relaxed) {
        return 0;
    }
    if !begins(slot) {
        return 0;
    }
    let now = calls::ticks();
    calls::with_traced(|tree| tree.enter_told(calls::key_of_slot(slot), now));
    now.cast_signed()
}

/// See [`Probes::leave`].
extern "C" fn leave(slot: u32, entered: i64, failed: i32) {
    if entered == 0 {
        return;
    }
    let now = calls::ticks();
    // Also when nothing is counted any more: the tree has a frame for it.
    calls::with_traced(|tree| tree.leave_key(calls::key_of_slot(slot), now));
    if !ON.load(Relaxed) {
        return;
    }
    ends(slot, now.saturating_sub(entered.cast_unsigned()), failed != 0);
}

/// See [`Probes::begin_async`].
extern "C" fn begin_async(slot: u32) {
    if ON.load(Relaxed) && begins(slot) {
        let _ = BEGUN.try_with(|begun| begun.set((slot.wrapping_add(1), calls::ticks())));
    }
}

/// See [`Probes::resume_async`].
extern "C" fn resume_async(slot: u32) -> i64 {
    let begun = BEGUN.try_with(|begun| match begun.get() {
        (of, time) if of == slot.wrapping_add(1) => {
            begun.set((0, 0));
            time
        }
        _ => 0,
    });
    begun.unwrap_or(0).cast_signed()
}

/// See [`Probes::end_async`].
extern "C" fn end_async(slot: u32, begun: i64, failed: i32) {
    if ON.load(Relaxed) {
        ends(slot, calls::ticks().saturating_sub(begun.cast_unsigned()), failed != 0);
    }
}

/// See [`Probes::pending`].
extern "C" fn pending(slot: u32, begun: i64, task: u32) {
    if !ON.load(Relaxed) {
        return;
    }
    let begun = begun.cast_unsigned();
    match PENDING.begin(slot, task, begun) {
        Begun::Waits => {}
        Begun::IsOver { time, failed } => ends(slot, time.saturating_sub(begun), failed),
        Begun::NoRoom => lost(),
    }
}

/// See [`Probes::completed`].
extern "C" fn completed(slot: u32, task: u32, failed: i32) {
    if !ON.load(Relaxed) {
        return;
    }
    let now = calls::ticks();
    if let Some(begun) = PENDING.end(slot, task, now, failed != 0) {
        ends(slot, now.saturating_sub(begun), failed != 0);
    }
}

/// Counts a call. Whether it is timed.
fn begins(slot: u32) -> bool {
    let Some(block) = shard().and_then(|shard| shard.block(slot)) else {
        lost();
        return false;
    };
    let calls = block.calls.load(Relaxed);
    block.calls.store(calls.wrapping_add(1), Relaxed);
    let one_in = ONE_IN.get(slot as usize).map_or(0, |place| place.load(Relaxed));
    one_in <= 1 || calls.is_multiple_of(u64::from(one_in))
}

/// A timed call has ended.
fn ends(slot: u32, taken: u64, failed: bool) {
    let Some(block) = shard().and_then(|shard| shard.block(slot)) else { return lost() };
    add(&block.timed, 1);
    if failed {
        add(&block.failed, 1);
    }
    add(&block.ticks, taken);
    if taken > block.longest.load(Relaxed) {
        block.longest.store(taken, Relaxed);
    }
    if let Some(bucket) = block.buckets.get(bucket_of(taken)) {
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// Adds to a number that nobody else writes.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}

#[cold]
fn lost() {
    LOST.fetch_add(1, Relaxed);
}

/// The bucket of a time in ticks: one each below 16, then 16 for each doubling.
fn bucket_of(ticks: u64) -> usize {
    let Some(bits) = ticks.checked_ilog2().filter(|bits| *bits >= PARTS_BITS) else { return ticks as usize };
    if bits >= LONGEST_BITS {
        return BUCKETS - 1;
    }
    let part = (ticks >> (bits - PARTS_BITS)) as usize & (PARTS - 1);
    PARTS + (bits - PARTS_BITS) as usize * PARTS + part
}

/// This thread's shard, which it gets if need be.
fn shard() -> Option<&'static Shard> {
    let place = SHARD.try_with(Cell::get).ok()?;
    if place.is_null() {
        return first_shard();
    }
    // SAFETY: shards are never given back.
    unsafe { place.as_ref() }
}

#[cold]
fn first_shard() -> Option<&'static Shard> {
    let os_tid = current_tid();
    let shard = shards().find(|shard| shard.os_tid.compare_exchange(0, os_tid, AcqRel, Relaxed).is_ok());
    let shard = shard.or_else(|| new_shard(os_tid))?;
    SHARD.try_with(|place| place.set(shard)).ok()?;
    Some(shard)
}

fn new_shard(os_tid: u32) -> Option<&'static Shard> {
    let free = SHARDS.iter().position(|slot| slot.load(Relaxed).is_null())?;
    let made = piece::<Shard>()?;
    // SAFETY: it was made just now, and is never given back.
    let shard = unsafe { made.as_ref()? };
    shard.os_tid.store(os_tid, Relaxed);
    // Others look for a place at the same time.
    let mut places = SHARDS.iter().skip(free);
    let placed = places.any(|slot| slot.compare_exchange(null_mut(), made, AcqRel, Relaxed).is_ok());
    // One without a place stays, unused: the rare loser of a race for the last one.
    placed.then_some(shard)
}

fn shards() -> impl Iterator<Item = &'static Shard> {
    // SAFETY: what stands there was made by `new_shard`, and is never given back.
    SHARDS.iter().filter_map(|slot| unsafe { slot.load(Acquire).as_ref() })
}

/// Memory of zeros that is never given back; `None` if there is none, or there would be too much.
fn piece<T>() -> Option<*mut T> {
    let size = size_of::<T>();
    if MEMORY.fetch_add(size, Relaxed) + size > MOST_MEMORY {
        MEMORY.fetch_sub(size, Relaxed);
        return None;
    }
    // SAFETY: only called for types that are made of atomic numbers and pointers, for which zero is a value.
    match unsafe { Zeroed::<T>::reserve() } {
        Some(made) => Some(made.into_raw()),
        None => {
            MEMORY.fetch_sub(size, Relaxed);
            None
        }
    }
}

/// What stands in a slot; made if need be by the one thread that owns the shard.
fn made<T>(slot: &AtomicPtr<T>) -> Option<&'static T> {
    let mut place = slot.load(Acquire);
    if place.is_null() {
        place = piece::<T>()?;
        slot.store(place, std::sync::atomic::Ordering::Release);
    }
    // SAFETY: pieces are never given back.
    unsafe { place.as_ref() }
}

impl Shard {
    fn count(&self, slot: u32) -> Option<&AtomicU64> {
        let slot = slot as usize;
        made(self.counts.get(slot / COUNTS)?)?.get(slot % COUNTS)
    }

    fn block(&self, slot: u32) -> Option<&Block> {
        let slot = slot as usize;
        made(self.blocks.get(slot / BLOCKS)?)?.get(slot % BLOCKS)
    }

    /// The same for a reader, who makes nothing.
    fn count_there(&self, slot: usize) -> Option<u64> {
        // SAFETY: as in `made`.
        let piece = unsafe { self.counts.get(slot / COUNTS)?.load(Acquire).as_ref()? };
        piece.get(slot % COUNTS).map(|count| count.load(Relaxed))
    }

    fn block_there(&self, slot: usize) -> Option<&Block> {
        // SAFETY: as in `made`.
        let piece = unsafe { self.blocks.get(slot / BLOCKS)?.load(Acquire).as_ref()? };
        piece.get(slot % BLOCKS)
    }
}

/// All calls of a method so far, of all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls that have begun.
    pub calls: u64,
    /// Those that were timed and have ended.
    pub timed: u64,
    /// Of these, those that ended by an exception.
    pub failed: u64,
    /// Their ticks together.
    pub ticks: u64,
    /// Ticks of the longest since the last time that it was asked for.
    pub longest: u64,
    /// How many fell into each bucket; empty without any.
    pub buckets: Vec<u64>,
}

/// Adds up all threads. Only one at a time may: the longest of each is taken.
pub fn totals(slot: u32) -> Totals {
    let slot = slot as usize;
    let mut totals = Totals::default();
    for shard in shards() {
        totals.calls += shard.count_there(slot).unwrap_or(0);
        let Some(block) = shard.block_there(slot) else { continue };
        // Asynchronous calls may begin on one thread and end on another.
        // Ends first: what has ended had begun.
        let timed = block.timed.load(Acquire);
        let calls = block.calls.load(Relaxed);
        if calls == 0 && timed == 0 {
            continue;
        }
        totals.calls += calls;
        totals.timed += timed;
        totals.failed += block.failed.load(Relaxed);
        totals.ticks += block.ticks.load(Relaxed);
        totals.longest = totals.longest.max(block.longest.swap(0, Relaxed));
        totals.buckets.resize(BUCKETS, 0);
        for (sum, bucket) in totals.buckets.iter_mut().zip(&block.buckets) {
            *sum += bucket.load(Relaxed);
        }
    }
    totals
}

/// Lets shards of threads that are gone be taken by new ones.
pub fn free_shards() {
    for shard in shards() {
        let os_tid = shard.os_tid.load(Relaxed);
        if os_tid != 0 && is_gone(os_tid) {
            shard.os_tid.store(0, std::sync::atomic::Ordering::Release);
        }
    }
}

/// Calls that are in no block.
pub fn lost_calls() -> u64 {
    LOST.load(Relaxed)
}

/// About how many bytes all of it holds.
pub fn memory() -> usize {
    MEMORY.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_six_percent_wide_and_in_order() {
        let mut last = 0;
        for ticks in (0..100_000).chain([1 << 20, (1 << 20) + (1 << 16), 1 << 43, (1 << 44) - 1]) {
            let bucket = bucket_of(ticks);
            assert!(bucket == last || bucket == last + 1 || ticks >= 1 << 20, "{ticks}");
            assert!(bucket >= last);
            last = bucket;
        }
        assert_eq!(bucket_of(15), 15);
        assert_eq!(bucket_of(16), 16);
        assert_eq!(bucket_of(33), bucket_of(32));
        assert_ne!(bucket_of(34), bucket_of(32));
        assert_eq!((bucket_of((1 << 44) - 1), bucket_of(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn calls_of_all_threads_are_added_and_shards_are_taken_over() {
        let slot = Manager::MOST - 1;
        switch(true);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    for call in 0..1000 {
                        let entered = enter(slot);
                        assert_ne!(entered, 0);
                        leave(slot, entered, i32::from(call % 10 == 0));
                        count(slot - 1);
                    }
                    current_tid()
                })
            })
            .collect();
        let tids: Vec<u32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let found = totals(slot);
        assert_eq!((found.calls, found.timed, found.failed), (4000, 4000, 400));
        assert_eq!(found.buckets.iter().sum::<u64>(), 4000);
        assert!(found.longest > 0 && found.ticks >= found.longest);
        assert_eq!(totals(slot).longest, 0, "since the last time");
        assert_eq!(totals(slot - 1).calls, 4000);
        while tids.iter().any(|tid| !is_gone(*tid)) {
            std::thread::yield_now();
        }
        free_shards();
        let before = shards().count();
        std::thread::spawn(move || count(slot - 1)).join().unwrap();
        assert_eq!((shards().count(), totals(slot - 1).calls), (before, 4001));
        switch(false);
        assert_eq!(enter(slot), 0);
        leave(slot, 0, 0);
        assert_eq!(totals(slot).calls, 4000);
    }

    #[test]
    fn one_of_several_calls_is_timed_and_all_are_counted() {
        let slot = Manager::MOST - 3;
        switch(true);
        time_one_in(slot, 10);
        for _ in 0..1000 {
            let entered = enter(slot);
            leave(slot, entered, 0);
        }
        let found = totals(slot);
        assert_eq!((found.calls, found.timed), (1000, 100));
    }
}
