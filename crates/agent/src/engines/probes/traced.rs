//! What rewritten methods call, and what is kept of their calls.
//!
//! Rewritten code calls [`count`], [`enter`] and [`leave`] as if they were managed: see
//! [`instrument::Probes`] for what that asks of them. They take no lock, wait for nobody and
//! allocate nothing, but for pages of a table of their own.
//!
//! Each thread writes a [`Shard`] of its own with a [`Block`] for each method that it has called,
//! and a [`Histogram`] for those that it calls more than a few times: everything in it is an atomic
//! number that is loaded and stored without order, which on a processor is a plain load or store.
//! Once its thread is gone, the shard is handed to the next new thread as it is: it is the sum over
//! all shards that counts, and during a session numbers only grow. After it the shards of threads
//! that are gone are given back. Those of others stay: what the runtime compiled to call these
//! functions may call them as long as the process lives.

use crate::engines::heap::pending_tasks::{Begun, Pending};
use crate::engines::hooks::{self, GUARDED, Tree, TreeKind, UNTIMED};
use crate::engines::probes::arguments::{TextLayout, Value, Values};
use crate::engines::probes::individual_calls::{Calls, SingleCall};
use crate::os::clock;
use crate::os::map::{self, PAGE, Zeroed};
use crate::os::threads::{current_tid, is_gone};
use corprof::info::StringLayout;
use instrument::{Manager, Probes};
use std::cell::Cell;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::thread;
use std::time::{Duration, Instant};
use wire::Nanos;

/// Most threads with a shard at a time.
const MOST_SHARDS: usize = 4096;
/// Most bytes of all shards together.
const MOST_MEMORY: usize = 128 << 20;
/// Methods in one piece of a shard: those that are counted, and those that are timed.
const COUNTS: usize = 512;
const BLOCKS: usize = 16;
const METHODS: usize = Manager::MOST as usize;
/// Fewest and most bytes that a thread reserves at a time.
const LEAST_AT_A_TIME: usize = PAGE;
const MOST_AT_A_TIME: usize = 512 << 10;
/// Pieces of memory that a thread may reserve in this way: more than fit into all that there may
/// be, and as many as the last page of a shard has room for.
const RESERVED: usize = 360;

/// Owner of a shard that is about to be given back.
const NOBODY_ANY_MORE: u32 = u32::MAX;
/// How long threads that are just looking for a shard are waited for.
const SEEK_LIMIT: Duration = Duration::from_millis(100);

/// Pause before the next attempt to allocate a shard, after one has failed: each traced call of a
/// thread without one would try.
const ASK_AGAIN: Nanos = 100_000_000;

/// Buckets within each doubling: a bucket is 6 % wide.
const PARTS_BITS: u32 = 4;
const PARTS: usize = 1 << PARTS_BITS;
/// From here on all times share the last bucket: 2⁴⁴ ticks are more than an hour.
const LONGEST_BITS: u32 = 44;
/// Buckets of a histogram.
const BUCKETS: usize = PARTS + (LONGEST_BITS - PARTS_BITS) as usize * PARTS;

/// How many of the slowest calls of a method each thread tells singly, at most.
const SLOWEST: usize = rules::Action::MAX_SLOWEST as usize;
/// Number of timed calls of a method on a thread that need no histogram. With this number a
/// [`Block`] is four cache lines. A program calls most of its methods no more often than that.
const FIRST: usize = 8;

/// Whether calls are counted. Looked at first of all.
static ON: AtomicBool = AtomicBool::new(false);
/// Of how many calls one is timed, by slot; 0 stands for 1.
static ONE_IN: [AtomicU32; METHODS] = [const { AtomicU32::new(0) }; METHODS];
/// One more than the number of slowest calls that are recorded individually, by slot; 0 as long as
/// that number is unknown: code may run before the agent has received the rule that asked for it.
static TOLD: [AtomicU16; METHODS] = [const { AtomicU16::new(0) }; METHODS];
/// Whether every timed call is recorded individually, not only the slowest.
static EACH: AtomicBool = AtomicBool::new(false);
/// Number of individual calls that are not reported, because there was no room for them.
static UNTOLD: AtomicU64 = AtomicU64::new(0);
/// Arguments of reported calls, for which there was no room: of a whole call, or one.
static UNSHOWN: AtomicU64 = AtomicU64::new(0);
/// Where strings have their length, and in the upper half where they have their text; 0 as long as
/// that is not known.
static TEXT_LAYOUT: AtomicU64 = AtomicU64::new(0);
/// The shards that there are.
static SHARDS: [AtomicPtr<Shard>; MOST_SHARDS] =
    [const { AtomicPtr::new(null_mut()) }; MOST_SHARDS];
/// Behind all places that ever had a shard: readers look at all of them for each method.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Threads that look for a shard just now, and may look into any.
static SEEKERS: AtomicUsize = AtomicUsize::new(0);
/// Whether shards were made since those of threads that are gone were looked for.
static GROWN: AtomicBool = AtomicBool::new(false);
/// Time before which no further memory is allocated for shards.
static FULL_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Bytes of all shards, as reserved.
static MEMORY: AtomicUsize = AtomicUsize::new(0);
/// Calls that are not counted: in threads without a shard, and those for which there was no memory.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Asynchronous calls that have not ended.
static PENDING: Pending = Pending::new();

/// When an asynchronous call has begun that is not timed.
const LEFT_OUT: i64 = -1;

/// What a thread finds its own by. In one piece, because looking for it costs as much as all the
/// rest of counting.
struct Local {
    shard: Cell<*const Shard>,
    tree: Cell<*const Tree>,
    /// The asynchronous call that begins on this thread: slot + 1, and when, or [`LEFT_OUT`].
    begun: Cell<(u32, i64)>,
}

thread_local! {
    // Without a destructor: the library may be asked on threads of the target that are about to
    // end.
    static LOCAL: Local =
        const { Local { shard: Cell::new(null()), tree: Cell::new(null()), begun: Cell::new((0, 0)) } };
}

/// What this thread has of its own; `None` if it is about to end.
#[inline(always)]
fn local() -> Option<&'static Local> {
    let local = LOCAL.try_with(std::ptr::from_ref).ok()?;
    // SAFETY: it lives as long as its thread, has no destructor, and no other thread can get the
    // reference.
    Some(unsafe { &*local })
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
    /// Those of the least slow of the slowest ones.
    slow: AtomicU64,
    /// How many calls took how long, once there are others than the first ones.
    histogram: AtomicPtr<Histogram>,
    /// The group that a call was last counted in, and in the lowest bits, which are free, its
    /// place: on the same cache line as all that is not a time.
    recent: AtomicUsize,
    /// Ticks of the first calls.
    first: [AtomicU64; FIRST],
    /// Those of the slowest ones.
    slowest: [AtomicU64; SLOWEST],
}

const _: () = assert!(size_of::<Block>() == 4 * 64, "four cache lines");

/// How many calls took how long: buckets in groups, as most methods take about as long each time.
#[repr(C, align(64))]
struct Histogram([AtomicPtr<Group>; BUCKETS / PARTS]);

/// Counts that begin again behind the largest number: a cache line. Readers look at them each
/// second, and only at what was added since.
#[repr(C, align(64))]
struct Group([AtomicU32; PARTS]);

const _: () = assert!(BUCKETS / PARTS <= align_of::<Group>(), "its place fits below its address");

/// What one thread writes. All zeros are a shard that is nobody's.
#[repr(C)]
struct Shard {
    /// Thread that writes it; 0 for nobody.
    os_tid: AtomicU32,
    counts: [AtomicPtr<[AtomicU64; COUNTS]>; METHODS / COUNTS],
    blocks: [AtomicPtr<[Block; BLOCKS]>; METHODS / BLOCKS],
    calls: AtomicPtr<Calls>,
    values: AtomicPtr<Values>,
    more_blocks: Supply<[Block; BLOCKS]>,
    more_histograms: Supply<Histogram>,
    more_groups: Supply<Group>,
    reserved: Reserved,
}

const _: () =
    assert!(size_of::<Shard>() <= 9 * PAGE, "no page for the list of what is reserved alone");

/// What the supplies of a shard have reserved: addresses, in whose lowest bits, which are free, the
/// number of pages is. All zeros are nothing.
#[repr(C)]
struct Reserved([AtomicPtr<u8>; RESERVED]);

/// Memory for more of the same, of which a thread that has many will need more. All zeros are
/// nothing.
#[repr(C)]
struct Supply<T> {
    /// How many were taken so far, and are reserved beyond: how many, and where.
    taken: AtomicUsize,
    spare: AtomicUsize,
    next: AtomicPtr<T>,
}

/// The functions, for rewritten code.
pub fn probes() -> Probes {
    Probes {
        count: count as extern "C" fn(u32) as usize,
        enter: enter as extern "C" fn(u32) as usize,
        leave: leave as extern "C" fn(u32) as usize,
        fail: fail as extern "C" fn(u32) as usize,
        enter_unguarded: enter_unguarded as extern "C" fn(u32) as usize,
        depth: depth as extern "C" fn() -> i32 as usize,
        unwound: unwound as extern "C" fn(i32) as usize,
        begin_async: begin_async as extern "C" fn(u32) as usize,
        resume_async: resume_async as extern "C" fn(u32) -> i64 as usize,
        end_async: end_async as extern "C" fn(u32, i64, i32) as usize,
        pending: pending as extern "C" fn(u32, i64, u32) as usize,
        completed: completed as extern "C" fn(u32, u32, i32) as usize,
        leave_telling: leave_telling as extern "C" fn(u32) -> i32 as usize,
        fail_telling: fail_telling as extern "C" fn(u32) -> i32 as usize,
        end_async_telling: end_async_telling as extern "C" fn(u32, i64, i32) -> i32 as usize,
        pending_telling: pending_telling as extern "C" fn(u32, i64, u32) -> i32 as usize,
        completed_telling: completed_telling as extern "C" fn(u32, u32, i32) -> i32 as usize,
        show_number: show_number as extern "C" fn(u32, i64) as usize,
        show_float: show_float as extern "C" fn(u32, f64) as usize,
        show_text: show_text as unsafe extern "C" fn(u32, *const u8) as usize,
        show_object: show_object as unsafe extern "C" fn(u32, *const u8) as usize,
        shown: shown as extern "C" fn() as usize,
    }
}

/// From now on calls are counted.
pub fn switch_on(each: bool) {
    PENDING.clear();
    for shard in shards() {
        shard.blocks_there().for_each(Block::forget_slowest);
    }
    EACH.store(each, Relaxed);
    ON.store(true, Relaxed);
}

/// From now on they are not.
pub fn switch_off() {
    ON.store(false, Relaxed);
}

/// How strings lie in memory.
pub fn set_text_layout(layout: StringLayout) {
    TEXT_LAYOUT
        .store(u64::from(layout.buffer_offset) << 32 | u64::from(layout.length_offset), Relaxed);
}

/// Sets the limits of a method: from now on 1 in `one_in` of its calls is timed, and the `slowest`
/// slowest of these are recorded individually.
pub fn set_limits(slot: u32, one_in: u32, slowest: u16) {
    if let (Some(timed), Some(told)) = (ONE_IN.get(slot as usize), TOLD.get(slot as usize)) {
        timed.store(one_in, Relaxed);
        told.store(slowest.saturating_add(1), Relaxed);
    }
}

/// See [`Probes::count`].
extern "C" fn count(slot: u32) {
    if !ON.load(Relaxed) {
        return;
    }
    match local().and_then(|local| local.shard()?.count(slot)) {
        Some(calls) => add(calls, 1),
        None => lost(),
    }
}

/// See [`Probes::enter`].
extern "C" fn enter(slot: u32) {
    if let Some(local) = local() {
        local.enters(slot, GUARDED);
    }
}

/// See [`Probes::enter_unguarded`].
extern "C" fn enter_unguarded(slot: u32) {
    let Some(local) = local() else { return };
    // Of this very function, always as much below that of the one that calls it.
    let sp = stack_pointer();
    if let Some(tree) = local.tree_there() {
        tree.leave_stale(slot, sp, hooks::ticks, &|slot, begun, now| local.fails(slot, begun, now));
    }
    local.enters(slot, sp);
}

/// See [`Probes::depth`].
extern "C" fn depth() -> i32 {
    local().and_then(Local::tree_there).map_or(0, Tree::depth).cast_signed()
}

/// See [`Probes::unwound`].
extern "C" fn unwound(depth: i32) {
    let Some(local) = local() else { return };
    let depth = depth.cast_unsigned();
    if let Some(tree) = local.tree_there().filter(|tree| tree.depth() > depth) {
        tree.leave_to(depth, hooks::ticks(), &|slot, begun, now| local.fails(slot, begun, now));
    }
}

/// That of the function that this is part of, in whose body it does not change.
#[inline(always)]
fn stack_pointer() -> u64 {
    let sp: u64;
    // SAFETY: it only copies a register.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags));
    }
    sp
}

/// See [`Probes::leave`].
extern "C" fn leave(slot: u32) {
    left(slot, false, false);
}

/// See [`Probes::fail`].
extern "C" fn fail(slot: u32) {
    left(slot, true, false);
}

/// See [`Probes::leave_telling`].
extern "C" fn leave_telling(slot: u32) -> i32 {
    left(slot, false, true).into()
}

/// See [`Probes::fail_telling`].
extern "C" fn fail_telling(slot: u32) -> i32 {
    left(slot, true, true).into()
}

/// A call ends. Whether its arguments are to be shown. Inlined, as all that follows for each call:
/// that is an eighth of what a call costs.
#[inline(always)]
fn left(slot: u32, failed: bool, shows: bool) -> bool {
    let Some(local) = local() else { return false };
    let left = |slot, begun, now| local.fails(slot, begun, now);
    // Also when nothing is counted any more.
    let ended = local.tree_there().and_then(|tree| tree.end(slot, hooks::ticks, left));
    let Some((begun, now)) = ended.filter(|_| ON.load(Relaxed)) else { return false };
    ends(local, Ended { slot, begun, now, failed, asynchronous: false, shows })
}

/// See [`Probes::show_number`].
extern "C" fn show_number(index: u32, value: i64) {
    show(|values| values.number(index, value));
}

/// See [`Probes::show_float`].
extern "C" fn show_float(index: u32, value: f64) {
    show(|values| values.float(index, value));
}

/// See [`Probes::show_text`].
///
/// # Safety
/// It is null, or a string that stays where it is.
unsafe extern "C" fn show_text(index: u32, text: *const u8) {
    let layout = TEXT_LAYOUT.load(Relaxed);
    let layout = TextLayout { length: layout as u32, units: (layout >> 32) as u32 };
    // SAFETY: the caller's word.
    show(|values| layout.units != 0 && unsafe { values.text(index, text, layout) });
}

/// See [`Probes::show_object`].
///
/// # Safety
/// It is null, or an object that stays where it is.
unsafe extern "C" fn show_object(index: u32, object: *const u8) {
    // SAFETY: the caller's word.
    show(|values| unsafe { values.object(index, object) });
}

fn show(show: impl FnOnce(&Values) -> bool) {
    if !local().and_then(|local| made(&local.shard()?.values)).is_some_and(show) {
        UNSHOWN.fetch_add(1, Relaxed);
    }
}

/// See [`Probes::shown`].
extern "C" fn shown() {
    let Some(shard) = local().and_then(Local::shard) else { return };
    if let (Some(values), Some(calls)) = (made(&shard.values), made(&shard.calls)) {
        values.end();
        calls.publish();
    }
}

/// See [`Probes::begin_async`].
extern "C" fn begin_async(slot: u32) {
    let Some(local) = local() else { return };
    let is_timed = ON.load(Relaxed)
        && match local.shard() {
            Some(shard) => begins(shard, slot),
            None => {
                lost();
                false
            }
        };
    let begun = if is_timed { hooks::ticks().cast_signed() } else { LEFT_OUT };
    local.begun.set((slot.wrapping_add(1), begun));
}

/// See [`Probes::resume_async`].
extern "C" fn resume_async(slot: u32) -> i64 {
    let Some(local) = local() else { return 0 };
    match local.begun.get() {
        (of, time) if of == slot.wrapping_add(1) => {
            local.begun.set((0, 0));
            time
        }
        _ => 0,
    }
}

/// See [`Probes::end_async`].
extern "C" fn end_async(slot: u32, begun: i64, failed: i32) {
    ended_at_once(slot, begun, failed, false);
}

/// See [`Probes::end_async_telling`].
extern "C" fn end_async_telling(slot: u32, begun: i64, failed: i32) -> i32 {
    ended_at_once(slot, begun, failed, true).into()
}

fn ended_at_once(slot: u32, begun: i64, failed: i32, shows: bool) -> bool {
    ON.load(Relaxed)
        && begun != LEFT_OUT
        && end_of_task(slot, begun.cast_unsigned(), hooks::ticks(), failed != 0, shows)
}

/// See [`Probes::pending`].
extern "C" fn pending(slot: u32, begun: i64, task: u32) {
    waits(slot, begun, task, false);
}

/// See [`Probes::pending_telling`].
extern "C" fn pending_telling(slot: u32, begun: i64, task: u32) -> i32 {
    waits(slot, begun, task, true).into()
}

fn waits(slot: u32, begun: i64, task: u32, shows: bool) -> bool {
    if !ON.load(Relaxed) {
        return false;
    }
    let begun = begun.cast_unsigned();
    match PENDING.begin(slot, task, begun) {
        Begun::Waits => false,
        Begun::IsOver { time, failed } => end_of_task(slot, begun, time, failed, shows),
        Begun::NoRoom => {
            lost();
            false
        }
    }
}

/// See [`Probes::completed`].
extern "C" fn completed(slot: u32, task: u32, failed: i32) {
    ended_later(slot, task, failed, false);
}

/// See [`Probes::completed_telling`].
extern "C" fn completed_telling(slot: u32, task: u32, failed: i32) -> i32 {
    ended_later(slot, task, failed, true).into()
}

fn ended_later(slot: u32, task: u32, failed: i32, shows: bool) -> bool {
    if !ON.load(Relaxed) {
        return false;
    }
    let now = hooks::ticks();
    let begun = PENDING.end(slot, task, now, failed != 0);
    begun.is_some_and(|begun| end_of_task(slot, begun, now, failed != 0, shows))
}

/// An asynchronous call ends. Whether its arguments are to be shown.
fn end_of_task(slot: u32, begun: u64, now: u64, failed: bool, shows: bool) -> bool {
    local().is_some_and(|local| {
        ends(local, Ended { slot, begun, now, failed, asynchronous: true, shows })
    })
}

/// Counts a call. Whether it is timed.
#[inline(always)]
fn begins(shard: &Shard, slot: u32) -> bool {
    let Some(block) = shard.block(slot) else {
        lost();
        return false;
    };
    let calls = block.calls.load(Relaxed);
    block.calls.store(calls.wrapping_add(1), Relaxed);
    let one_in = ONE_IN.get(slot as usize).map_or(0, |place| place.load(Relaxed));
    one_in <= 1 || calls.is_multiple_of(u64::from(one_in))
}

/// A timed call that has ended.
struct Ended {
    slot: u32,
    begun: u64,
    now: u64,
    failed: bool,
    asynchronous: bool,
    /// Whether its arguments can be shown.
    shows: bool,
}

/// Counts it. Whether its arguments are to be shown.
#[inline(always)]
fn ends(local: &Local, call: Ended) -> bool {
    let there = local.shard().and_then(|shard| Some((shard, shard.block(call.slot)?)));
    let Some((shard, block)) = there else {
        lost();
        return false;
    };
    let taken = call.now.saturating_sub(call.begun);
    if !block.note(shard, taken) {
        lost();
        return false;
    }
    if call.failed {
        add(&block.failed, 1);
    }
    add(&block.ticks, taken);
    if taken > block.longest.load(Relaxed) {
        block.longest.store(taken, Relaxed);
    }
    (taken > block.slow.load(Relaxed) || EACH.load(Relaxed)) && tell(shard, block, &call, taken)
}

/// Records an individual call: one of the slowest, or any. Returns whether its arguments are to be
/// shown; then the call is published only after them.
#[cold]
fn tell(shard: &Shard, block: &Block, call: &Ended, taken: u64) -> bool {
    let is_slow = taken > block.slow.load(Relaxed)
        && slow_call_limit(call.slot).is_some_and(|told| block.note_slow(taken, told));
    if !is_slow && !EACH.load(Relaxed) {
        return false;
    }
    let os_tid = shard.os_tid.load(Relaxed);
    let Ended { slot, begun, failed, asynchronous, shows, .. } = *call;
    let arguments = shows && made(&shard.values).is_some_and(Values::begin);
    let call = SingleCall { slot, os_tid, begun, taken, failed, asynchronous, arguments };
    let Some(ring) = made(&shard.calls).filter(|ring| ring.put_down(call)) else {
        UNTOLD.fetch_add(1, Relaxed);
        return false;
    };
    if !arguments {
        ring.publish();
        UNSHOWN.fetch_add(shows.into(), Relaxed);
    }
    arguments
}

/// Adds to a number that nobody else writes.
#[inline]
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
}

#[cold]
fn lost() {
    LOST.fetch_add(1, Relaxed);
}

/// The bucket of a time in ticks: one each below 16, then 16 for each doubling.
fn bucket_of(ticks: u64) -> usize {
    let Some(bits) = ticks.checked_ilog2().filter(|bits| *bits >= PARTS_BITS) else {
        return ticks as usize;
    };
    if bits >= LONGEST_BITS {
        return BUCKETS - 1;
    }
    let part = (ticks >> (bits - PARTS_BITS)) as usize & (PARTS - 1);
    PARTS + (bits - PARTS_BITS) as usize * PARTS + part
}

impl Local {
    /// A timed method is called.
    #[inline(always)]
    fn enters(&self, slot: u32, sp: u64) {
        if !ON.load(Relaxed) {
            return self.tree_there().into_iter().for_each(|tree| tree.begin_uncounted(slot, sp));
        }
        let Some(shard) = self.shard() else { return lost() };
        let begun = if begins(shard, slot) { hooks::ticks() } else { UNTIMED };
        if let Some(tree) = self.tree() {
            tree.begin(slot, sp, begun);
        }
    }

    /// Records a timed call that was left by an exception, which the method itself has not
    /// reported.
    #[cold]
    fn fails(&self, slot: u32, begun: u64, now: u64) {
        if ON.load(Relaxed) {
            ends(self, Ended { slot, begun, now, failed: true, asynchronous: false, shows: false });
        }
    }

    /// This thread's shard, if it has one.
    #[inline]
    fn shard_there(&self) -> Option<&'static Shard> {
        // SAFETY: shards are given back only when their threads are gone.
        unsafe { self.shard.get().as_ref() }
    }

    /// This thread's shard, which it gets if need be.
    #[inline]
    fn shard(&self) -> Option<&'static Shard> {
        self.shard_there().or_else(|| self.first_shard())
    }

    #[cold]
    fn first_shard(&self) -> Option<&'static Shard> {
        if clock::monotonic() < FULL_UNTIL.load(Relaxed) {
            return None;
        }
        let os_tid = current_tid();
        // Said before the first is looked at: from then on none is given back that can be seen
        // here.
        SEEKERS.fetch_add(1, SeqCst);
        fence(SeqCst);
        let take = |shard: &&Shard| {
            shard.os_tid.load(Relaxed) == 0
                && shard.os_tid.compare_exchange(0, os_tid, AcqRel, Relaxed).is_ok()
        };
        let shard = shards().find(take);
        SEEKERS.fetch_sub(1, SeqCst);
        let Some(shard) = shard.or_else(|| new_shard(os_tid)) else {
            FULL_UNTIL.store(clock::monotonic() + ASK_AGAIN, Relaxed);
            return None;
        };
        self.shard.set(shard);
        Some(shard)
    }

    /// This thread's tree, if it has one.
    #[inline]
    fn tree_there(&self) -> Option<&'static Tree> {
        // SAFETY: trees are given back only when their threads are gone.
        unsafe { self.tree.get().as_ref() }
    }

    /// This thread's tree, which it gets if need be.
    #[inline]
    fn tree(&self) -> Option<&'static Tree> {
        // SAFETY: a cell is in one thread only, and this one is for nothing else.
        unsafe { hooks::tree_at(self.tree.as_ptr(), TreeKind::Traced) }
    }
}

fn new_shard(os_tid: u32) -> Option<&'static Shard> {
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

/// For the one thread that gives them back, and those that are [`SEEKERS`].
fn shards() -> impl Iterator<Item = &'static Shard> {
    // SAFETY: what stands there was made by `new_shard`. Whoever gives it back takes it away here
    // first and then waits for all seekers.
    SHARDS.iter().take(USED.load(Acquire)).filter_map(|slot| unsafe { slot.load(Acquire).as_ref() })
}

/// Memory of zeros for as long as the shard; `None` if there is none, or there would be too much.
fn piece<T>() -> Option<*mut T> {
    // SAFETY: only called for types that are made of atomic numbers and pointers, for which zero is
    // a value.
    accounted(size_of::<T>(), || unsafe { Zeroed::<T>::reserve() }.map(Zeroed::into_raw))
}

/// Calls `make` for something of `size` bytes, unless all shards together would have too many bytes
/// then.
fn accounted<T>(size: usize, make: impl FnOnce() -> Option<T>) -> Option<T> {
    let made = if MEMORY.fetch_add(size, Relaxed) + size > MOST_MEMORY { None } else { make() };
    if made.is_none() {
        MEMORY.fetch_sub(size, Relaxed);
        FULL_UNTIL.store(clock::monotonic() + ASK_AGAIN, Relaxed);
    }
    made
}

/// What stands in a slot; made if need be by the one thread that owns the shard.
#[inline]
fn made<T>(slot: &AtomicPtr<T>) -> Option<&'static T> {
    made_by(slot, piece)
}

#[inline]
fn made_by<T>(slot: &AtomicPtr<T>, make: impl FnOnce() -> Option<*mut T>) -> Option<&'static T> {
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
unsafe fn discard<T>(place: *mut T) {
    // SAFETY: the caller's word; pieces are made so.
    if unsafe { Zeroed::from_raw(place) }.is_some() {
        MEMORY.fetch_sub(size_of::<T>(), Relaxed);
    }
}

fn slow_call_limit(slot: u32) -> Option<usize> {
    TOLD.get(slot as usize)?.load(Relaxed).checked_sub(1).map(usize::from)
}

impl Block {
    /// Counts a timed call with its ticks; `false` if there is no room for it.
    #[inline(always)]
    fn note(&self, shard: &Shard, taken: u64) -> bool {
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
    fn histogram(&self) -> Option<&'static Histogram> {
        // SAFETY: they stay as long as the shard.
        unsafe { self.histogram.load(Acquire).as_ref() }
    }

    #[inline(always)]
    fn add(&self, histogram: &Histogram, shard: &Shard, ticks: u64) -> bool {
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
    fn first_histogram(&self, shard: &Shard) -> Option<&'static Histogram> {
        let made = shard.more_histograms.take(&shard.reserved)?;
        // SAFETY: it is zeros, is nobody else's, and stays as long as the shard.
        let histogram = unsafe { made.as_ref()? };
        let are_in = self.first.iter().all(|ticks| self.add(histogram, shard, ticks.load(Relaxed)));
        are_in.then(|| self.histogram.store(made, Release))?;
        Some(histogram)
    }

    /// Buckets in which there is something; several parts of one may come.
    fn buckets(&self, timed: u64, mut each: impl FnMut(usize, u32)) {
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
    fn note_slow(&self, taken: u64, told: usize) -> bool {
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
    fn forget_slowest(&self) {
        self.slow.store(0, Relaxed);
        self.slowest.iter().for_each(|ticks| ticks.store(0, Relaxed));
    }
}

impl Histogram {
    fn group(&self, shard: &Shard, place: usize) -> Option<&'static Group> {
        made_by(self.0.get(place)?, || shard.more_groups.take(&shard.reserved))
    }
}

impl Group {
    #[inline]
    fn add(&self, bucket: usize) -> bool {
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
    fn take(&self, list: &Reserved) -> Option<*mut T> {
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
    fn add(&self, bytes: usize) -> Option<NonNull<u8>> {
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
    unsafe fn discard(shard: *mut Shard) {
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
    fn count(&self, slot: u32) -> Option<&AtomicU64> {
        let slot = slot as usize;
        made(self.counts.get(slot / COUNTS)?)?.get(slot % COUNTS)
    }

    #[inline]
    fn block(&self, slot: u32) -> Option<&Block> {
        let slot = slot as usize;
        made_by(self.blocks.get(slot / BLOCKS)?, || self.more_blocks.take(&self.reserved))?
            .get(slot % BLOCKS)
    }

    /// The same for a reader, who makes nothing.
    fn count_there(&self, slot: usize) -> Option<u64> {
        // SAFETY: as in `made`.
        let piece = unsafe { self.counts.get(slot / COUNTS)?.load(Acquire).as_ref()? };
        piece.get(slot % COUNTS).map(|count| count.load(Relaxed))
    }

    fn blocks_there(&self) -> impl Iterator<Item = &Block> {
        // SAFETY: as in `made`.
        self.blocks.iter().filter_map(|piece| unsafe { piece.load(Acquire).as_ref() }).flatten()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;
    use crate::ledger;
    use wire::Resource;

    /// Switching on and taking single calls concerns all methods.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        let _alone = alone();
        let slot = Manager::MOST - 1;
        switch_on(false);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    for call in 0..1000 {
                        enter(slot);
                        if call % 10 == 0 {
                            fail(slot)
                        } else {
                            leave(slot)
                        }
                        count(slot - 1);
                    }
                    current_tid()
                })
            })
            .collect();
        let tids: Vec<u32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let found = totals(slot);
        assert_eq!((found.calls, found.timed, found.failed), (4000, 4000, 400));
        assert_eq!(found.buckets.iter().map(|(_, count)| count).sum::<u32>(), 4000);
        assert!(found.longest > 0 && found.ticks >= found.longest);
        assert_eq!(totals(slot).longest, 0, "since the last time");
        assert_eq!(totals(slot - 1).calls, 4000);
        assert_eq!(
            (counted(slot), counted(slot - 1), counted(slot - 2)),
            ((4000, 4000), (4000, 0), (0, 0))
        );
        while tids.iter().any(|tid| !is_gone(*tid)) {
            thread::yield_now();
        }
        free_shards();
        let before = shards().count();
        thread::spawn(move || count(slot - 1)).join().unwrap();
        assert_eq!((shards().count(), totals(slot - 1).calls), (before, 4001));
        switch_off();
        enter(slot);
        leave(slot);
        assert_eq!(totals(slot).calls, 4000);
    }

    #[test]
    fn shards_of_threads_that_are_gone_are_given_back_with_all_that_is_in_them() {
        let _alone = alone();
        let slot = Manager::MOST - 11;
        switch_on(true);
        give_back();
        let (memory_before, shards_before, held_before) =
            (memory(), shards().count(), ledger::held(Resource::MappedBytes));
        // One thread lives on, and keeps its own; others come and go while shards are given back.
        let (stop, lives) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    count(slot - 1);
                    lives.store(true, Relaxed);
                }
            });
            while !lives.load(Relaxed) {
                thread::yield_now();
            }
            for round in 0..50 {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(move || {
                            for call in 0..100_u64 {
                                enter(slot);
                                // Several blocks, and several groups of buckets.
                                begin(slot - 200, hooks::ticks() - (1 << (call % 40)));
                                leave(slot - 200);
                                leave(slot);
                            }
                            current_tid()
                        })
                    })
                    .collect();
                give_back();
                let tids: Vec<u32> =
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                if round % 10 == 0 {
                    assert!(memory() > memory_before);
                }
                while tids.iter().any(|tid| !is_gone(*tid)) {
                    thread::yield_now();
                }
            }
            assert!(totals(slot).calls >= 400);
            give_back();
            let own = size_of::<Shard>() + PAGE;
            assert_eq!((shards().count(), memory()), (shards_before + 1, memory_before + own));
            assert_eq!((totals(slot).calls, totals(slot - 200).timed), (0, 0));
            assert!(totals(slot - 1).calls > 0);
            stop.store(true, Relaxed);
        });
        switch_off();
        // Call trees are given back by who reads them.
        let trees = 200 * size_of::<Tree>();
        assert_eq!(
            ledger::held(Resource::MappedBytes) - held_before,
            (trees + size_of::<Shard>() + PAGE) as u64
        );
    }

    /// A call that has begun then.
    fn begin(slot: u32, begun: u64) {
        LOCAL.with(|local| local.tree().unwrap().begin(slot, GUARDED, begun));
    }

    #[test]
    fn the_first_calls_and_all_others_are_in_the_same_buckets() {
        let _alone = alone();
        let slot = Manager::MOST - 9;
        thread::spawn(move || {
            let mut expected = BTreeMap::new();
            for calls in 1..FIRST as u64 * 3 {
                let taken = 1 << (calls % 5 * 4);
                LOCAL.with(|local| {
                    let shard = local.shard().unwrap();
                    assert!(shard.block(slot).unwrap().note(shard, taken));
                });
                *expected.entry(bucket_of(taken) as u16).or_default() += 1;
                let found = totals(slot);
                assert_eq!(
                    (found.timed, found.buckets),
                    (calls, expected.clone().into_iter().collect())
                );
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn one_of_several_calls_is_timed_and_all_are_counted() {
        let _alone = alone();
        let slot = Manager::MOST - 3;
        switch_on(false);
        set_limits(slot, 10, 0);
        for _ in 0..1000 {
            enter(slot);
            leave(slot);
        }
        let found = totals(slot);
        assert_eq!((found.calls, found.timed), (1000, 100));
    }

    #[test]
    fn first_runs_of_asynchronous_calls_are_told_from_later_ones_also_if_the_call_is_left_out() {
        let _alone = alone();
        let slot = Manager::MOST - 7;
        switch_on(false);
        set_limits(slot, 2, 0);
        for call in 0..10 {
            begin_async(slot);
            let begun = resume_async(slot);
            assert_eq!((begun > 0, begun < 0), (call % 2 == 0, call % 2 == 1));
            assert_eq!(resume_async(slot), 0);
            end_async(slot, begun, 0);
        }
        let found = totals(slot);
        assert_eq!((found.calls, found.timed), (10, 5));
    }

    #[test]
    fn the_slowest_calls_are_told_singly_or_all_are() {
        let _alone = alone();
        let slot = Manager::MOST - 5;
        let mut told = Vec::new();
        thread::spawn(move || {
            let _ = LOCAL.try_with(|local| {
                // Before the number of reported calls is set, none is reported, and nothing is
                // decided.
                let ended = |taken: u64| Ended {
                    slot,
                    begun: 7,
                    now: 7 + taken,
                    failed: taken == 2000,
                    asynchronous: false,
                    shows: false,
                };
                ends(local, ended(9992));
                set_limits(slot, 1, 4);
                for taken in (1..1001).chain([5, 2000, 6]) {
                    ends(local, ended(taken));
                }
            });
        })
        .join()
        .unwrap();
        take_single_calls(|call, _| told.extend((call.slot == slot).then_some(call)));
        // Each is slower than those before, but for the last three.
        assert_eq!(told.len(), 1001);
        assert_eq!((told[1000].taken, told[1000].failed, told[1000].begun), (2000, true, 7));
        assert_eq!(untold_calls(), 0);
    }

    #[test]
    fn arguments_are_shown_of_calls_that_are_told() {
        let _alone = alone();
        let (slot, mut told) = (Manager::MOST - 7, Vec::new());
        switch_on(false);
        set_limits(slot, 1, 1);
        let shown_by = thread::spawn(move || {
            let mut shown_times = Vec::new();
            for taken in [5_000_u64, 1, 900_000_000] {
                // As if it had begun then.
                begin(slot, hooks::ticks() - taken);
                if leave_telling(slot) != 0 {
                    show_number(0, taken.cast_signed());
                    show_float(2, 0.5);
                    shown();
                    shown_times.push(taken);
                }
            }
            shown_times
        });
        assert_eq!(shown_by.join().unwrap(), [5_000, 900_000_000]);
        take_single_calls(|call, values| {
            told.extend((call.slot == slot).then_some((call.arguments, values)))
        });
        let expected = |taken: i64| (true, vec![(0, Value::Number(taken)), (2, Value::Float(0.5))]);
        assert_eq!(told, [expected(5_000), expected(900_000_000)]);
        assert_eq!(unshown_arguments(), 0);
        switch_off();
    }

    #[test]
    fn arguments_of_asynchronous_calls_are_shown_where_they_end() {
        let _alone = alone();
        let (slot, mut told) = (Manager::MOST - 8, Vec::new());
        switch_on(true);
        set_limits(slot, 1, 1);
        let asked = thread::spawn(move || {
            let show = |asks: i32, value| {
                if asks != 0 {
                    show_number(0, value);
                    shown();
                }
                asks
            };
            let begin = || {
                begin_async(slot);
                resume_async(slot)
            };
            let at_once = show(end_async_telling(slot, begin(), 0), 1);
            let waits = pending_telling(slot, begin(), 71);
            let later = show(completed_telling(slot, 71, 1), 2);
            // Another thread was faster than the one on which the call began.
            let begun = begin();
            let unknown = completed_telling(slot, 72, 0);
            let overtaken = show(pending_telling(slot, begun, 72), 3);
            // This one is not timed.
            [at_once, waits, later, unknown, overtaken, end_async_telling(slot, LEFT_OUT, 0)]
        });
        assert_eq!(asked.join().unwrap(), [1, 0, 1, 0, 1, 0]);
        take_single_calls(|call, values| {
            told.extend((call.slot == slot).then_some((call.failed, values)))
        });
        let expected = [(false, 1), (true, 2), (false, 3)]
            .map(|(failed, n)| (failed, vec![(0, Value::Number(n))]));
        assert_eq!(told, expected);
        assert_eq!(unshown_arguments(), 0);
        switch_off();
    }
}
