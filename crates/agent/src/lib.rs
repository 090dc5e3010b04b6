//! The library inside the target process.
//!
//! The runtime loads it, by attach or at start, and makes an [`Entry`]. That
//! starts one thread that talks to clrscope ([`session::writer`]). What is collected comes from
//! [`engines`], each with its own state and, where it needs one, its own thread. They know the
//! [`host`], which is what they all share of a session and of the runtime, and no session. When
//! clrscope says so, or is gone, everything is stopped and the runtime is asked to detach the
//! agent; it then unloads the library.
//!
//! Linux only: on other systems this crate is empty.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod engines;
#[cfg(feature = "fault-injection")]
pub mod faults;
pub mod heap_memory;
pub mod host;
pub mod ledger;
pub mod os;
pub mod panics;
pub mod ring;
pub mod session;

use corprof::Guid;
use session::entry::Entry;

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

/// The profilers of this library, with their parameters: a list in JSON that ends with a NUL, as
/// `clrscope profilers --json` prints it. It is constant, may be called at any time and on any
/// thread, and stays where it is while the library is loaded. Nothing is allocated or started, so
/// that a program in another language can load the library only to ask.
#[unsafe(no_mangle)]
pub extern "C" fn clrscope_catalogue() -> *const core::ffi::c_char {
    profilers::CATALOGUE.as_ptr().cast()
}
