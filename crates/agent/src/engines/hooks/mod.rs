//! Calls, exactly: of methods with enter and leave hooks, and between managed and native code.
//!
//! The runtime never takes hooks back, so what they use is never given back either and stands in
//! statics: whether they are on, which methods have some, and the trees. Each thread writes a tree
//! of its own ([`tree`]), which is made at its first call and given back when the thread is gone;
//! the agent's main thread reads them all ([`Reader`]).
//!
//! Hooks run in the middle of managed code: they take no lock, wait for nothing and allocate
//! nothing, but for the tree itself.

mod methods;
mod reader;
mod tree;

#[cfg(not(target_arch = "x86_64"))]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

pub use reader::Reader;

use crate::host::Host;
use crate::host::id_table::IdTable;
use crate::os::clock;
use crate::os::map::Zeroed;
use crate::os::threads::current_tid;
use corprof::abi::BOOL;
use corprof::ids::{FunctionId, ModuleId};
use corprof::info::ProfilerInfo;
use methods::Methods;
use profilers::calls::Filter;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
pub use tree::{GUARDED, Tree, TreeKind, UNTIMED};
use wire::{LogLevel, Nanos, SessionConfig};

/// Number of functions for which the table of ids has no room.
const WITHOUT_NUMBER: u32 = u32::MAX;
/// Most trees at a time.
const MOST_TREES: usize = 4096;
/// Pause before the next attempt to allocate a tree, after one has failed.
const ASK_AGAIN: Nanos = 100_000_000;

/// Whether hooks do something. They look at it first of all.
static HOOKS_ON: AtomicBool = AtomicBool::new(false);
/// Which methods have hooks.
static METHODS: OnceLock<Methods> = OnceLock::new();
/// The trees that there are, each until its thread is gone and it was read.
static TREES: [AtomicPtr<Tree>; MOST_TREES] = [const { AtomicPtr::new(null_mut()) }; MOST_TREES];
/// Number of the last tree.
static LAST_TREE: AtomicU32 = AtomicU32::new(0);
/// Time before which no further tree is allocated.
static FULL_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Calls in threads that have no tree, because there are too many or there is no memory.
static WITHOUT_TREE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Without destructors: those would keep the library mapped after a detach.
    static CROSSINGS: Cell<*const Tree> = const { Cell::new(null()) };
    /// The function that an exception is leaving.
    static UNWINDING: Cell<FunctionId> = const { Cell::new(FunctionId(0)) };
}

/// Sets the hooks, which do nothing yet. Only in `Initialize`, and once in a process.
///
/// # Errors
/// Why there are none.
pub fn set_hooks(info: &ProfilerInfo, config: &SessionConfig) -> Result<(), String> {
    let given = config.profiler(profilers::calls::SPEC.id);
    let filter =
        given.and_then(|given| given.params.iter().rev().find(|(name, _)| name == "filter"));
    let filter = Filter::parse(filter.map_or(Filter::DEFAULT, |(_, value)| value));
    if METHODS.set(Methods::new(info, filter)).is_err() {
        return Err("hooks were set before".to_owned());
    }
    // SAFETY: the function may be called on any thread, needs no data, and the library stays: see
    // `arch::set_hooks`.
    unsafe { info.set_function_id_mapper2(Some(map_function), null_mut()) }
        .map_err(|error| error.to_string())?;
    arch::set_hooks(info)
}

/// Lets hooks and transitions be counted from now on.
pub fn start(host: &Host) {
    if !arch::ticks_are_even() {
        let message = "this processor's clock does not tick evenly: times of calls may be wrong, \
            counts are not";
        host.log(LogLevel::Warning, message.to_owned());
    }
    HOOKS_ON.store(true, Release);
}

/// Nothing is counted any more, for ever.
pub fn stop() {
    HOOKS_ON.store(false, Release);
}

/// The compiler asks whether a function has hooks, and by which number they shall know it.
unsafe extern "system" fn map_function(
    function: FunctionId,
    _data: *mut c_void,
    hook: *mut BOOL,
) -> usize {
    // Once they do nothing any more, no further method needs hooks. A panic must not reach the
    // runtime.
    let wanted = HOOKS_ON
        .load(Relaxed)
        .then(|| std::panic::catch_unwind(|| METHODS.get()?.number(function)));
    let number = wanted.and_then(Result::ok).flatten();
    if !hook.is_null() {
        // SAFETY: not null, so it is the compiler's place for the answer.
        unsafe { *hook = BOOL::from(number.is_some()) };
    }
    number.map_or(function.0, |number| key_of(number) as usize)
}

/// What the hooks know a method by: its number, with room below for the place where a parent
/// remembers it.
fn key_of(number: u32) -> u64 {
    u64::from(number) << 2
}

/// Whether a function has hooks, or will have when it is compiled.
pub fn is_hooked(function: FunctionId) -> bool {
    METHODS.get().is_some_and(|methods| methods.number(function).is_some())
}

/// A module was unloaded.
pub fn unloaded(module: ModuleId) {
    if let Some(methods) = METHODS.get() {
        methods.unloaded(module);
    }
}

/// Enter hook, where its fast part does not know what to do.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
extern "C" fn enter(key: u64, sp: u64) {
    // SAFETY: it is this thread's own place.
    if let Some(tree) = unsafe { tree_at(arch::place_of_tree(), TreeKind::Hooked) } {
        tree.enter(key, sp, arch::ticks());
    }
}

/// Leave and tailcall hook, likewise.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
extern "C" fn leave(_key: u64, sp: u64) {
    // SAFETY: it is this thread's own place.
    if let Some(tree) = unsafe { tree_at(arch::place_of_tree(), TreeKind::Hooked) } {
        tree.leave(sp, arch::ticks());
    }
}

/// An exception begins to leave a function on this thread.
pub fn unwinding(function: FunctionId) {
    if HOOKS_ON.load(Relaxed) {
        let _ = UNWINDING.try_with(|unwinding| unwinding.set(function));
    }
}

/// It has left.
pub fn unwound() {
    let Ok(function) = UNWINDING.try_with(|unwinding| unwinding.replace(FunctionId(0))) else {
        return;
    };
    let number = METHODS.get().and_then(|methods| methods.hooked(function.non_null()?));
    let Some(number) = number.filter(|_| HOOKS_ON.load(Relaxed)) else { return };
    // SAFETY: it is this thread's own place.
    if let Some(tree) = unsafe { tree_at(arch::place_of_tree(), TreeKind::Hooked) } {
        tree.unwind_key(key_of(number), arch::ticks());
    }
}

/// Managed and native code call each other on this thread, or return. `to_managed` says where to,
/// `calls` which of the two it is.
#[inline(never)]
pub fn crossed(ids: &IdTable, function: Option<FunctionId>, to_managed: bool, calls: bool) {
    let now = arch::ticks();
    let here = 0_u8;
    let place = CROSSINGS.try_with(Cell::as_ptr).unwrap_or(null_mut());
    // SAFETY: it is this thread's own place, or null.
    let Some(tree) = (unsafe { tree_at(place, TreeKind::Crossings) }) else { return };
    // What is called lies on the side that is gone to; what is returned from on the other.
    let key = key_of_crossed(function, to_managed == calls);
    if calls {
        // An exception can leave a call of native code before it has begun. Such a one does not
        // stand above the next. Where we are on the stack can be compared only if the runtime has
        // come the same way, so not with calls from native code.
        let is_from_native = |key: u64| crossed_of_key(key).1;
        tree.cross(key, (&raw const here).addr() as u64, now, |left| {
            !is_from_native(key) && !is_from_native(left)
        });
        if let Some(function) = function {
            // It is being called, so it is loaded.
            tree.number_top(key, || ids.function(function).unwrap_or(WITHOUT_NUMBER));
        }
    } else {
        tree.leave_key(key, now);
    }
}

/// Now, in the ticks that trees count.
#[inline]
pub fn ticks() -> u64 {
    arch::ticks()
}

/// What trees know a rewritten method by.
#[inline]
fn key_of_slot(slot: u32) -> u64 {
    key_of(slot.saturating_add(1))
}

/// A function, and whether native code has called it. Ids are addresses of structures, so their
/// lowest bits are free.
fn key_of_crossed(function: Option<FunctionId>, from_native: bool) -> u64 {
    let id = function.map_or(0, |function| function.0 as u64);
    id & !3 | 2 | u64::from(from_native)
}

/// What [`key_of_crossed`] was made of.
fn crossed_of_key(key: u64) -> (Option<FunctionId>, bool) {
    (FunctionId((key & !3) as usize).non_null(), key & 1 != 0)
}

/// The tree of this thread, which is made if need be: not in code that may hold a lock.
///
/// # Safety
/// The place is null, or this thread's own one for trees of this kind.
#[inline]
pub unsafe fn tree_at(place: *mut *const Tree, kind: TreeKind) -> Option<&'static Tree> {
    if place.is_null() {
        return None;
    }
    // SAFETY: not null, so it can be read, and nobody else writes it.
    let mut tree = unsafe { *place };
    if tree.is_null() {
        tree = new_tree(kind);
        // SAFETY: as above.
        unsafe { *place = tree };
    }
    // SAFETY: trees are given back only when their threads are gone.
    unsafe { tree.as_ref() }
}

#[cold]
fn new_tree(kind: TreeKind) -> *const Tree {
    // Each call of a thread without a tree comes here.
    if clock::monotonic() < FULL_UNTIL.load(Relaxed) {
        WITHOUT_TREE.fetch_add(1, Relaxed);
        return null();
    }
    let free = |slot: &&AtomicPtr<Tree>| slot.load(Relaxed).is_null();
    // There are more slots than threads of most programs: no use in making one that has no place.
    let reserved = TREES.iter().any(|slot| free(&slot)).then(Tree::reserve).flatten();
    let Some(tree) = reserved else {
        FULL_UNTIL.store(clock::monotonic() + ASK_AGAIN, Relaxed);
        WITHOUT_TREE.fetch_add(1, Relaxed);
        return null();
    };
    tree.init(kind, current_tid(), LAST_TREE.fetch_add(1, Relaxed).wrapping_add(1), arch::ticks());
    let raw = tree.into_raw();
    for slot in TREES.iter().filter(free) {
        if slot.compare_exchange(null_mut(), raw, AcqRel, Relaxed).is_ok() {
            return raw;
        }
    }
    WITHOUT_TREE.fetch_add(1, Relaxed);
    // SAFETY: it came from `into_raw`, and nobody else has seen it.
    drop(unsafe { Zeroed::from_raw(raw) });
    null()
}

/// The first tree at a place or behind it, with its place. For the one thread that gives them back.
fn next_tree(place: usize) -> Option<(usize, &'static AtomicPtr<Tree>, &'static Tree)> {
    TREES.iter().enumerate().skip(place).find_map(|(place, slot)| {
        // SAFETY: a tree stays until `give_back`, which is called by the same thread.
        let tree = unsafe { slot.load(Acquire).as_ref()? };
        Some((place, slot, tree))
    })
}

/// Gives the memory of a tree back.
///
/// # Safety
/// Its thread is gone, and the caller is the only reader and does not use it any more.
unsafe fn give_back(slot: &AtomicPtr<Tree>) {
    // SAFETY: what stands in a slot came from `into_raw`, and is used by nobody.
    if let Some(tree) = unsafe { Zeroed::from_raw(slot.swap(null_mut(), AcqRel)) } {
        tree.forget();
    }
}
