//! What stands in for the hooks where there are none: everywhere but on x86-64.

use super::tree::Tree;
use crate::os::clock;
use corprof::info::ProfilerInfo;
use std::cell::Cell;
use std::ptr::null;

thread_local! {
    static TREE: Cell<*const Tree> = const { Cell::new(null()) };
}

/// The place that holds this thread's tree.
pub fn place_of_tree() -> *mut *const Tree {
    TREE.with(Cell::as_ptr)
}

/// Sets the hooks.
///
/// # Errors
/// There are none.
pub fn set_hooks(_info: &ProfilerInfo) -> Result<(), String> {
    Err("enter and leave hooks exist on x86-64 only".to_owned())
}

/// Now, in ticks.
pub fn ticks() -> u64 {
    clock::monotonic()
}

/// Whether ticks come evenly, whatever a processor does.
pub fn ticks_are_even() -> bool {
    true
}
