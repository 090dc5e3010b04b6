//! What rewritten methods call, and what is kept of their calls.
//!
//! Rewritten code calls [`count`], [`enter`] and [`leave`] as if they were managed: see
//! [`instrument::Probes`] for what that asks of them. They take no lock, wait for nobody and
//! allocate nothing, but for pages of a table of their own.
//!
//! Each thread writes a [`Shard`] of its own with a [`Block`] for each method that it has called,
//! and a [`Histogram`](shards::Histogram) for those that it calls more than a few times: everything
//! in it is an atomic number that is loaded and stored without order, which on a processor is a
//! plain load or store. Once its thread is gone, the shard is handed to the next new thread as it
//! is: it is the sum over all shards that counts, and during a session numbers only grow. After it
//! the shards of threads that are gone are given back. Those of others stay: what the runtime
//! compiled to call these functions may call them as long as the process lives.

mod shards;
mod totals;

pub use shards::Block;
use shards::{Shard, made, new_shard, shards};
pub use totals::{
    Totals, counted, free_shards, free_shards_if_grown, give_back, lost_calls, memory,
    take_single_calls, totals, unshown_arguments, untold_calls,
};

use crate::engines::heap::pending_tasks::{Begun, Pending};
use crate::engines::hooks::{self, GUARDED, Tree, TreeKind, UNTIMED};
use crate::engines::probes::arguments::{TextLayout, Values};
use crate::engines::probes::individual_calls::SingleCall;
use crate::os::clock;
use crate::os::threads::current_tid;
use corprof::info::StringLayout;
use instrument::{Manager, ProbeFunctions, Probes};
use std::cell::Cell;
use std::ptr::null;
use std::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Relaxed, SeqCst},
    fence,
};
use wire::Nanos;

const METHODS: usize = Manager::MOST as usize;
/// Pause before the next attempt to allocate a shard, after one has failed: each traced call of a
/// thread without one would try.
const ASK_AGAIN: Nanos = 100_000_000;

/// How many of the slowest calls of a method each thread tells singly, at most.
const SLOWEST: usize = rules::Action::MAX_SLOWEST as usize;
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
/// Threads that look for a shard just now, and may look into any.
static SEEKERS: AtomicUsize = AtomicUsize::new(0);
/// Time before which no further memory is allocated for shards.
static FULL_UNTIL: AtomicU64 = AtomicU64::new(0);
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

/// The functions, for rewritten code.
pub fn probes() -> Probes {
    let functions = ProbeFunctions {
        count,
        enter,
        leave,
        fail,
        enter_unguarded,
        depth,
        unwound,
        begin_async,
        resume_async,
        end_async,
        pending,
        completed,
        leave_telling,
        fail_telling,
        end_async_telling,
        pending_telling,
        completed_telling,
        show_number,
        show_float,
        show_text,
        show_object,
        shown,
    };
    functions.into()
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

fn slow_call_limit(slot: u32) -> Option<usize> {
    TOLD.get(slot as usize)?.load(Relaxed).checked_sub(1).map(usize::from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::shards::*;
    use super::totals::*;
    use super::*;
    use crate::engines::probes::arguments::Value;
    use crate::ledger;
    use crate::os::map::PAGE;
    use crate::os::threads::is_gone;
    use std::thread;
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
            let rounds = 50;
            for round in 1..=rounds {
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
                // What the last ones leave is looked at below.
                if round < rounds {
                    give_back();
                }
                let tids: Vec<u32> =
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                while tids.iter().any(|tid| !is_gone(*tid)) {
                    thread::yield_now();
                }
            }
            let left = (totals(slot).calls, memory());
            give_back();
            let own = size_of::<Shard>() + PAGE;
            let held = (shards().count(), memory());
            let calls = (totals(slot).calls, totals(slot - 200).timed);
            let lives_on = totals(slot - 1).calls > 0;
            // Before anything can fail: the thread that lives on would be waited for.
            stop.store(true, Relaxed);
            assert!(left.0 >= 400 && left.1 > memory_before + own, "{left:?}");
            assert_eq!(held, (shards_before + 1, memory_before + own));
            assert_eq!(calls, (0, 0));
            assert!(lives_on);
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
