//! The library inside the target process.
//!
//! The runtime loads it, by attach or at start, and makes an [`entry::Entry`]. That starts one
//! thread which talks to clrscope ([`writer`]) and, where a profiler needs it, one that suspends
//! and walks ([`ticks`]) and one that looks at the heap ([`heap`]) or at collections
//! ([`survivors`]). When clrscope says so, or is gone, everything is stopped and the runtime is
//! asked to let go; it then unloads the library.
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
pub mod calls;
pub mod collectors;
pub mod compare;
pub mod compiling;
pub mod context;
pub mod counters;
pub mod door;
pub mod entry;
pub mod exception_events;
pub mod exception_layout;
#[cfg(feature = "fault-injection")]
pub mod faults;
pub mod grounds;
pub mod heap;
pub mod heap_memory;
pub mod id_table;
pub mod instrumentation;
pub mod ledger;
pub mod live_threads;
pub mod looks;
pub mod machines;
pub mod memory;
pub mod os;
pub mod panics;
pub mod pending;
pub mod queue;
pub mod resolver;
pub mod ring;
pub mod runtime;
pub mod sessions;
pub mod single_calls;
pub mod stacks;
pub mod stillness;
pub mod survivors;
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
