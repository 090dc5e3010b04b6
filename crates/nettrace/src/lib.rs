//! Reader of nettrace, the format that EventPipe streams: versions 4 and 5, which every runtime
//! from .NET Core 3.0 to .NET 10 writes.
//!
//! - [`Reader`]: events in the order of their times, while the stream still runs, in bounded
//!   memory.
//! - [`runtime`]: the runtime's garbage collection events, which come without a usable description
//!   of their fields.
//! - [`gc::Collector`]: collections and pauses out of such events.
//! - [`allocations`]: sampled allocations.
//! - [`locks::Collector`]: waits for locks.
//! - [`threads::Collector`]: threads as they are created.
//! - [`thread_pool`]: what the thread pool does with its workers.
//! - [`jit::Collector`]: compiled methods.
//! - [`loads::Collector`]: loaded assemblies, modules and types.
//! - [`names`]: names in events, as clrscope writes them.
//! - [`Fields`]: the fields of any other event.
//!
//! What these collect are the rows of profilers, of which threads, stacks and types have no ids of
//! a session yet ([`Located`]).
//!
//! Hostile or damaged input gives an [`Error`]: never a panic, never memory beyond the stated
//! limits.
//!
//! Source of the format: `NetTraceFormat_v5.md` of microsoft/perfview.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod allocations;
mod block;
mod collect;
pub mod counters;
mod cursor;
mod error;
mod field;
pub mod gc;
pub mod jit;
pub mod loads;
mod located;
pub mod locks;
pub mod names;
mod reader;
pub mod runtime;
pub mod thread_pool;
pub mod threads;

pub use collect::Collect;
pub use cursor::Cursor as Fields;
pub use error::Error;
pub use field::{Field, FieldType, Value};
pub use located::Located;
pub(crate) use located::thread_id;
pub use reader::{Event, EventType, Reader, Statistics, TraceInfo};
