//! The counts of each thread: memory that is reserved in full and used page by page.

use super::{ASK_AGAIN, FULL_UNTIL, METHODS, SLOWEST};
use crate::engines::probes::arguments::Values;
use crate::engines::probes::individual_calls::Calls;
use crate::os::clock;
use crate::os::map::{self, PAGE, Zeroed};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Most threads with a shard at a time.
pub(super) const MOST_SHARDS: usize = 4096;
/// Most bytes of all shards together.
pub(super) const MOST_MEMORY: usize = 128 << 20;
/// Methods in one piece of a shard: those that are counted, and those that are timed.
pub(super) const COUNTS: usize = 512;
pub(super) const BLOCKS: usize = 16;
/// Fewest and most bytes that a thread reserves at a time.
pub(super) const LEAST_AT_A_TIME: usize = PAGE;
pub(super) const MOST_AT_A_TIME: usize = 512 << 10;
/// Pieces of memory that a thread may reserve in this way: more than fit into all that there may
/// be, and as many as the last page of a shard has room for.
pub(super) const RESERVED: usize = 360;
/// Buckets within each doubling: a bucket is 6 % wide.
pub(super) const PARTS_BITS: u32 = 4;
pub(super) const PARTS: usize = 1 << PARTS_BITS;
/// From here on all times share the last bucket: 2⁴⁴ ticks are more than an hour.
pub(super) const LONGEST_BITS: u32 = 44;
/// Buckets of a histogram.
pub(super) const BUCKETS: usize = PARTS + (LONGEST_BITS - PARTS_BITS) as usize * PARTS;
/// Number of timed calls of a method on a thread that need no histogram. With this number a
/// [`Block`] is four cache lines. A program calls most of its methods no more often than that.
pub(super) const FIRST: usize = 8;
/// The shards that there are.
pub(super) static SHARDS: [AtomicPtr<Shard>; MOST_SHARDS] =
    [const { AtomicPtr::new(null_mut()) }; MOST_SHARDS];
/// Behind all places that ever had a shard: readers look at all of them for each method.
pub(super) static USED: AtomicUsize = AtomicUsize::new(0);
/// Whether shards were made since those of threads that are gone were looked for.
pub(super) static GROWN: AtomicBool = AtomicBool::new(false);
/// Bytes of all shards, as reserved.
pub(super) static MEMORY: AtomicUsize = AtomicUsize::new(0);

/// What is known of the calls of a method on one thread.
#[repr(C, align(64))]
pub struct Block {
    pub(super) calls: AtomicU64,
    /// Timed calls that have ended.
    pub(super) timed: AtomicU64,
    /// Those of them that ended by an exception.
    pub(super) failed: AtomicU64,
    /// Ticks of all of them together.
    pub(super) ticks: AtomicU64,
    /// Those of the longest since it was last read.
    pub(super) longest: AtomicU64,
    /// Those of the least slow of the slowest ones.
    pub(super) slow: AtomicU64,
    /// How many calls took how long, once there are others than the first ones.
    pub(super) histogram: AtomicPtr<Histogram>,
    /// The group that a call was last counted in, and in the lowest bits, which are free, its
    /// place: on the same cache line as all that is not a time.
    pub(super) recent: AtomicUsize,
    /// Ticks of the first calls.
    pub(super) first: [AtomicU64; FIRST],
    /// Those of the slowest ones.
    pub(super) slowest: [AtomicU64; SLOWEST],
}

const _: () = assert!(size_of::<Block>() == 4 * 64, "four cache lines");

/// How many calls took how long: buckets in groups, as most methods take about as long each time.
#[repr(C, align(64))]
pub(super) struct Histogram([AtomicPtr<Group>; BUCKETS / PARTS]);

/// Counts that begin again behind the largest number: a cache line. Readers look at them each
/// second, and only at what was added since.
#[repr(C, align(64))]
pub(super) struct Group([AtomicU32; PARTS]);

const _: () = assert!(BUCKETS / PARTS <= align_of::<Group>(), "its place fits below its address");

/// What one thread writes. All zeros are a shard that is nobody's.
#[repr(C)]
pub(super) struct Shard {
    /// Thread that writes it; 0 for nobody.
    pub(super) os_tid: AtomicU32,
    pub(super) counts: [AtomicPtr<[AtomicU64; COUNTS]>; METHODS / COUNTS],
    pub(super) blocks: [AtomicPtr<[Block; BLOCKS]>; METHODS / BLOCKS],
    pub(super) calls: AtomicPtr<Calls>,
    pub(super) values: AtomicPtr<Values>,
    pub(super) more_blocks: Supply<[Block; BLOCKS]>,
    pub(super) more_histograms: Supply<Histogram>,
    pub(super) more_groups: Supply<Group>,
    pub(super) reserved: Reserved,
}

const _: () =
    assert!(size_of::<Shard>() <= 9 * PAGE, "no page for the list of what is reserved alone");

/// What the supplies of a shard have reserved: addresses, in whose lowest bits, which are free, the
/// number of pages is. All zeros are nothing.
#[repr(C)]
pub(super) struct Reserved([AtomicPtr<u8>; RESERVED]);

/// Memory for more of the same, of which a thread that has many will need more. All zeros are
/// nothing.
#[repr(C)]
pub(super) struct Supply<T> {
    /// How many were taken so far, and are reserved beyond: how many, and where.
    pub(super) taken: AtomicUsize,
    pub(super) spare: AtomicUsize,
    pub(super) next: AtomicPtr<T>,
}

/// The bucket of a time in ticks: one each below 16, then 16 for each doubling.
pub(super) fn bucket_of(ticks: u64) -> usize {
    let Some(bits) = ticks.checked_ilog2().filter(|bits| *bits >= PARTS_BITS) else {
        return ticks as usize;
    };
    if bits >= LONGEST_BITS {
        return BUCKETS - 1;
    }
    let part = (ticks >> (bits - PARTS_BITS)) as usize & (PARTS - 1);
    PARTS + (bits - PARTS_BITS) as usize * PARTS + part
}

pub(super) fn new_shard(os_tid: u32) -> Option<&'static Shard> {
    let free = SHARDS.iter().position(|slot| slot.load(Relaxed).is_null())?;
    let made = piece::<Shard>()?;
    // SAFETY: it was made just now, and is not given back before this thread is gone.
    let shard = unsafe { made.as_ref()? };
    shard.os_tid.store(os_tid, Relaxed);
    // Others look for a place at the same time.
    let mut places = SHARDS.iter().enumerate().skip(free);
    let placed =
        places.find(|(_, slot)| slot.compare_exchange(null_mut(), made, AcqRel, Relaxed).is_ok());
    // One without a place stays, unused: the rare loser of a race for the last one.
    let (place, _) = placed?;
    USED.fetch_max(place + 1, AcqRel);
    GROWN.store(true, Relaxed);
    Some(shard)
}

/// For the one thread that gives them back, and those that are counted in `SEEKERS`.
pub(super) fn shards() -> impl Iterator<Item = &'static Shard> {
    // SAFETY: what stands there was made by `new_shard`. Whoever gives it back takes it away here
    // first and then waits for all seekers.
    SHARDS.iter().take(USED.load(Acquire)).filter_map(|slot| unsafe { slot.load(Acquire).as_ref() })
}

/// Memory of zeros for as long as the shard; `None` if there is none, or there would be too much.
pub(super) fn piece<T>() -> Option<*mut T> {
    // SAFETY: only called for types that are made of atomic numbers and pointers, for which zero is
    // a value.
    accounted(size_of::<T>(), || unsafe { Zeroed::<T>::reserve() }.map(Zeroed::into_raw))
}

/// Calls `make` for something of `size` bytes, unless all shards together would have too many bytes
/// then.
pub(super) fn accounted<T>(size: usize, make: impl FnOnce() -> Option<T>) -> Option<T> {
    let made = if MEMORY.fetch_add(size, Relaxed) + size > MOST_MEMORY { None } else { make() };
    if made.is_none() {
        MEMORY.fetch_sub(size, Relaxed);
        FULL_UNTIL.store(clock::monotonic() + ASK_AGAIN, Relaxed);
    }
    made
}

/// What stands in a slot; made if need be by the one thread that owns the shard.
#[inline]
pub(super) fn made<T>(slot: &AtomicPtr<T>) -> Option<&'static T> {
    made_by(slot, piece)
}

#[inline]
pub(super) fn made_by<T>(
    slot: &AtomicPtr<T>,
    make: impl FnOnce() -> Option<*mut T>,
) -> Option<&'static T> {
    let mut place = slot.load(Acquire);
    if place.is_null() {
        place = make()?;
        slot.store(place, Release);
    }
    // SAFETY: pieces stay as long as their shard.
    unsafe { place.as_ref() }
}

/// Gives a piece back.
///
/// # Safety
/// It is null or came from [`piece`], and nobody uses it any more.
pub(super) unsafe fn discard<T>(place: *mut T) {
    // SAFETY: the caller's word; pieces are made so.
    if unsafe { Zeroed::from_raw(place) }.is_some() {
        MEMORY.fetch_sub(size_of::<T>(), Relaxed);
    }
}

impl Block {
    /// Counts a timed call with its ticks; `false` if there is no room for it.
    #[inline(always)]
    pub(super) fn note(&self, shard: &Shard, taken: u64) -> bool {
        let timed = self.timed.load(Relaxed);
        let has_room = match (self.histogram(), self.first.get(timed as usize)) {
            (Some(histogram), _) => self.add(histogram, shard, taken),
            (None, Some(first)) => {
                first.store(taken, Relaxed);
                true
            }
            (None, None) => self
                .first_histogram(shard)
                .is_some_and(|histogram| self.add(histogram, shard, taken)),
        };
        if has_room {
            // Readers look there for as many as they find counted.
            self.timed.store(timed.wrapping_add(1), Release);
        }
        has_room
    }

    #[inline]
    pub(super) fn histogram(&self) -> Option<&'static Histogram> {
        // SAFETY: they stay as long as the shard.
        unsafe { self.histogram.load(Acquire).as_ref() }
    }

    #[inline(always)]
    pub(super) fn add(&self, histogram: &Histogram, shard: &Shard, ticks: u64) -> bool {
        let bucket = bucket_of(ticks);
        let (place, recent) = (bucket / PARTS, self.recent.load(Relaxed));
        let group = if recent % align_of::<Group>() == place && recent > place {
            // SAFETY: it was stored below, and they stay as long as the shard.
            unsafe { ((recent - place) as *const Group).as_ref() }
        } else {
            let group = histogram.group(shard, place);
            self.recent.store(group.map_or(0, |group| (&raw const *group).addr() + place), Relaxed);
            group
        };
        group.is_some_and(|group| group.add(bucket))
    }

    #[cold]
    pub(super) fn first_histogram(&self, shard: &Shard) -> Option<&'static Histogram> {
        let made = shard.more_histograms.take(&shard.reserved)?;
        // SAFETY: it is zeros, is nobody else's, and stays as long as the shard.
        let histogram = unsafe { made.as_ref()? };
        let are_in = self.first.iter().all(|ticks| self.add(histogram, shard, ticks.load(Relaxed)));
        are_in.then(|| self.histogram.store(made, Release))?;
        Some(histogram)
    }

    /// Buckets in which there is something; several parts of one may come.
    pub(super) fn buckets(&self, timed: u64, mut each: impl FnMut(usize, u32)) {
        let Some(histogram) = self.histogram() else {
            let first = self.first.iter().take(usize::try_from(timed).unwrap_or(FIRST));
            return first.for_each(|ticks| each(bucket_of(ticks.load(Relaxed)), 1));
        };
        for (place, group) in histogram.0.iter().enumerate() {
            // SAFETY: they stay as long as the shard.
            let Some(group) = (unsafe { group.load(Acquire).as_ref() }) else { continue };
            let counts = group.0.iter().map(|count| count.load(Relaxed)).enumerate();
            counts
                .filter(|(_, count)| *count > 0)
                .for_each(|(part, count)| each(place * PARTS + part, count));
        }
    }

    /// Replaces the least slow of the `told` slowest calls by a call of `taken` ticks; `false` for
    /// none.
    pub(super) fn note_slow(&self, taken: u64, told: usize) -> bool {
        let slowest = self.slowest.get(..told.min(SLOWEST)).unwrap_or_default();
        let least = slowest.iter().min_by_key(|ticks| ticks.load(Relaxed));
        if let Some(least) = least {
            least.store(taken, Relaxed);
        }
        // Without any, none is slow enough.
        self.slow.store(
            slowest.iter().map(|ticks| ticks.load(Relaxed)).min().unwrap_or(u64::MAX),
            Relaxed,
        );
        least.is_some()
    }

    /// Another thread may be noting one just now: then there is one more or one less.
    pub(super) fn forget_slowest(&self) {
        self.slow.store(0, Relaxed);
        self.slowest.iter().for_each(|ticks| ticks.store(0, Relaxed));
    }
}

impl Histogram {
    pub(super) fn group(&self, shard: &Shard, place: usize) -> Option<&'static Group> {
        made_by(self.0.get(place)?, || shard.more_groups.take(&shard.reserved))
    }
}

impl Group {
    #[inline]
    pub(super) fn add(&self, bucket: usize) -> bool {
        let Some(count) = self.0.get(bucket % PARTS) else { return false };
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        true
    }
}

impl<T> Supply<T> {
    /// Zeros for one more. As many are reserved at a time as fit into a page, and later a quarter
    /// of as many as there are: all of their pages at once cost far less than one by one. To be
    /// called by the one thread that owns the shard, for types of which zeros are a value.
    #[cold]
    pub(super) fn take(&self, list: &Reserved) -> Option<*mut T> {
        const { assert!(size_of::<T>() != 0 && size_of::<T>() <= LEAST_AT_A_TIME, "one fits") };
        let (taken, mut spare) = (self.taken.load(Relaxed), self.spare.load(Relaxed));
        if spare == 0 {
            // Each call of a method without a place comes here.
            if clock::monotonic() < FULL_UNTIL.load(Relaxed) {
                return None;
            }
            let size = size_of::<T>();
            spare = (taken / 4).min(MOST_AT_A_TIME / size).max(LEAST_AT_A_TIME / size);
            let reserved = list.add((spare * size).next_multiple_of(PAGE))?;
            self.next.store(reserved.as_ptr().cast(), Relaxed);
        }
        let next = self.next.load(Relaxed);
        self.next.store(next.wrapping_add(1), Relaxed);
        self.spare.store(spare - 1, Relaxed);
        self.taken.store(taken + 1, Relaxed);
        Some(next)
    }
}

impl Reserved {
    /// Reserves this many bytes, whole pages; `None` if there is no room.
    pub(super) fn add(&self, bytes: usize) -> Option<NonNull<u8>> {
        let place = self.0.iter().find(|place| place.load(Relaxed).is_null())?;
        let made = accounted(bytes, || map::pages(bytes))?;
        place.store(made.as_ptr().map_addr(|address| address | (bytes / PAGE)), Relaxed);
        Some(made)
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// Nobody uses it any more.
    unsafe fn discard(&self) {
        for place in &self.0 {
            let what = place.swap(null_mut(), Relaxed);
            let bytes = what.addr() % PAGE * PAGE;
            let Some(made) = NonNull::new(what.map_addr(|address| address & !(PAGE - 1))) else {
                return;
            };
            // SAFETY: `add` reserved this many bytes there, and by the caller's contract nobody
            // uses them.
            unsafe { map::give_back(made, bytes) };
            MEMORY.fetch_sub(bytes, Relaxed);
        }
    }
}

impl Shard {
    /// Gives a shard back, with everything in it.
    ///
    /// # Safety
    /// It came from [`piece`], and nobody uses it any more.
    pub(super) unsafe fn discard(shard: *mut Shard) {
        // SAFETY: the caller's word. What it points to is its own, and was made by `piece`, but for
        // what its supplies have reserved.
        unsafe {
            let Some(there) = shard.as_ref() else { return };
            there.reserved.discard();
            there.counts.iter().for_each(|counts| discard(counts.load(Acquire)));
            discard(there.calls.load(Acquire));
            discard(there.values.load(Acquire));
            discard(shard);
        }
    }

    #[inline]
    pub(super) fn count(&self, slot: u32) -> Option<&AtomicU64> {
        let slot = slot as usize;
        made(self.counts.get(slot / COUNTS)?)?.get(slot % COUNTS)
    }

    #[inline]
    pub(super) fn block(&self, slot: u32) -> Option<&Block> {
        let slot = slot as usize;
        made_by(self.blocks.get(slot / BLOCKS)?, || self.more_blocks.take(&self.reserved))?
            .get(slot % BLOCKS)
    }

    /// The same for a reader, who makes nothing.
    pub(super) fn count_there(&self, slot: usize) -> Option<u64> {
        // SAFETY: as in `made`.
        let piece = unsafe { self.counts.get(slot / COUNTS)?.load(Acquire).as_ref()? };
        piece.get(slot % COUNTS).map(|count| count.load(Relaxed))
    }

    pub(super) fn blocks_there(&self) -> impl Iterator<Item = &Block> {
        // SAFETY: as in `made`.
        self.blocks.iter().filter_map(|piece| unsafe { piece.load(Acquire).as_ref() }).flatten()
    }

    pub(super) fn block_there(&self, slot: usize) -> Option<&Block> {
        // SAFETY: as in `made`.
        let piece = unsafe { self.blocks.get(slot / BLOCKS)?.load(Acquire).as_ref()? };
        piece.get(slot % BLOCKS)
    }
}
