//! What was called so far, for the one thread that reads it and gives back what ended threads have
//! left.

use super::shards::{GROWN, MEMORY, SHARDS, Shard, USED, shards};
use super::{LOST, SEEKERS, UNSHOWN, UNTOLD};
use crate::engines::probes::arguments::{Value, Values};
use crate::engines::probes::individual_calls::SingleCall;
use crate::os::threads::is_gone;
use std::ptr::null_mut;
use std::sync::atomic::{
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::thread;
use std::time::{Duration, Instant};

/// Owner of a shard that is about to be given back.
pub(super) const NOBODY_ANY_MORE: u32 = u32::MAX;
/// How long threads that are just looking for a shard are waited for.
pub(super) const SEEK_LIMIT: Duration = Duration::from_millis(100);

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
    /// Buckets into which some fell, in order, and how many: numbers that begin again behind the
    /// largest.
    pub buckets: Vec<(u16, u32)>,
}

/// Calls of a method so far, begun and timed, of all threads.
pub fn counted(slot: u32) -> (u64, u64) {
    let slot = slot as usize;
    shards().fold((0, 0), |(calls, timed), shard| {
        let (begun, ended) = shard.block_there(slot).map_or((0, 0), |block| {
            let ended = block.timed.load(Acquire);
            (block.calls.load(Relaxed), ended)
        });
        (calls + shard.count_there(slot).unwrap_or(0) + begun, timed + ended)
    })
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
        block.buckets(timed, |bucket, count| totals.buckets.push((bucket as u16, count)));
    }
    totals.buckets.sort_unstable();
    totals.buckets.dedup_by(|more, sum| {
        let is_same = more.0 == sum.0;
        sum.1 = sum.1.wrapping_add(u32::from(is_same) * more.1);
        is_same
    });
    totals.buckets.shrink_to_fit();
    totals
}

/// The same, if shards were made since the last time: where threads come and go by the hundred in a
/// second, each would need one of its own.
pub fn free_shards_if_grown() {
    if GROWN.load(Relaxed) {
        free_shards();
    }
}

/// Lets shards of threads that are gone be taken by new ones.
pub fn free_shards() {
    GROWN.store(false, Relaxed);
    for shard in shards() {
        let os_tid = shard.os_tid.load(Relaxed);
        if os_tid != 0 && os_tid != NOBODY_ANY_MORE && is_gone(os_tid) {
            shard.os_tid.store(0, Release);
        }
    }
}

/// Gives back the shards of threads that are gone. What they counted is in no sum any more: to be
/// called between two sessions, by the thread that reads.
pub fn give_back() {
    free_shards();
    let mut gone = Vec::new();
    for place in SHARDS.iter().take(USED.load(Acquire)) {
        let shard = place.load(Acquire);
        // SAFETY: only this thread takes away what stands there.
        let free = unsafe { shard.as_ref() };
        // Nobody who sees it takes it any more.
        if free.is_some_and(|free| {
            free.os_tid.compare_exchange(0, NOBODY_ANY_MORE, AcqRel, Relaxed).is_ok()
        }) {
            place.store(null_mut(), Release);
            gone.push(shard);
        }
    }
    // Whoever begins to look from here on finds none of them.
    fence(SeqCst);
    let until = Instant::now() + SEEK_LIMIT;
    while SEEKERS.load(SeqCst) != 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    let nobody_looks = SEEKERS.load(SeqCst) == 0;
    for shard in gone {
        if nobody_looks {
            // SAFETY: its thread is gone, it is in no place, and nobody looks at what was in one
            // before.
            unsafe { Shard::discard(shard) };
            continue;
        }
        // A thread is paused in its search: they stay for new threads, as before.
        // SAFETY: it was not given back.
        if let Some(shard) = unsafe { shard.as_ref() } {
            shard.os_tid.store(0, Release);
        }
        let mut places = SHARDS.iter().enumerate();
        let placed = places
            .find(|(_, slot)| slot.compare_exchange(null_mut(), shard, AcqRel, Relaxed).is_ok());
        USED.fetch_max(placed.map_or(0, |(place, _)| place + 1), AcqRel);
    }
}

/// Takes the calls that are to be reported individually, with their arguments where those were
/// shown. Only one thread at a time may do this.
pub fn take_single_calls(mut each: impl FnMut(SingleCall, Vec<(u16, Value)>)) {
    for shard in shards() {
        // SAFETY: as in `made`.
        let Some(ring) = (unsafe { shard.calls.load(Acquire).as_ref() }) else { continue };
        ring.take(|call| {
            // SAFETY: as in `made`.
            let values = unsafe { shard.values.load(Acquire).as_ref() }.filter(|_| call.arguments);
            each(call, values.map(Values::take).unwrap_or_default());
        });
    }
}

/// Number of individual calls that are not reported.
pub fn untold_calls() -> u64 {
    UNTOLD.load(Relaxed)
}

/// Arguments of individual calls that are not reported: of a whole call, or one.
pub fn unshown_arguments() -> u64 {
    UNSHOWN.load(Relaxed)
}

/// Calls that are in no block.
pub fn lost_calls() -> u64 {
    LOST.load(Relaxed)
}

/// About how many bytes all of it holds.
pub fn memory() -> usize {
    MEMORY.load(Relaxed)
}
