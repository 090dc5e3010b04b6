//! The library inside the target process.
//!
//! The runtime loads it, by attach or at start, and makes an [`entry::Entry`]. That starts one
//! thread that talks to clrscope ([`writer`]). Where a profiler needs it, it also starts a thread
//! that suspends and walks ([`ticks`]), and a thread that takes snapshots of the heap ([`heap`]) or
//! of collections ([`survivors`]). When clrscope says so, or is gone, everything is stopped and the
//! runtime is asked to detach the agent; it then unloads the library.
//!
//! Linux only: on other systems this crate is empty.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod agent;
pub mod allocated;
pub mod arguments;
pub mod async_state_machines;
pub mod budget;
pub mod calls;
pub mod code_map;
pub mod code_regions;
pub mod collectors;
pub mod compare;
pub mod context;
pub mod counters;
pub mod entry;
pub mod exception_events;
pub mod exception_layout;
#[cfg(feature = "fault-injection")]
pub mod faults;
pub mod heap;
pub mod heap_memory;
pub mod id_table;
pub mod individual_calls;
pub mod instrumentation;
pub mod jit_activity;
pub mod ledger;
pub mod memory;
pub mod object_fields;
pub mod os;
pub mod panics;
pub mod pending_tasks;
pub mod queue;
pub mod quiescence;
pub mod reattach;
pub mod resolver;
pub mod ring;
pub mod runtime;
pub mod sessions;
pub mod snapshots;
pub mod stacks;
pub mod static_fields;
pub mod survivors;
pub mod thread_registry;
pub mod threads;
pub mod ticks;
pub mod traced;
pub mod traced_reader;
pub mod unwind_table;
pub mod writer;

use corprof::Guid;
use entry::Entry;

#[global_allocator]
static HEAP: heap_memory::Heap = heap_memory::Heap;

corprof::export_profiler! {
    Guid::from_le_bytes(wire::CLSID_MAIN) => |_clsid| entry(false),
    Guid::from_le_bytes(wire::CLSID_NOTIFY_ONLY) => |_clsid| entry(true),
}

fn entry(notify_only: bool) -> Entry {
    panics::keep_quiet();
    Entry::new(notify_only)
}
