//! Safe CLR Profiling API: write a .NET profiler in safe Rust.
//!
//! A .NET profiler is a native library that the runtime loads into the process: it hears what
//! happens (`ICorProfilerCallback` to `ICorProfilerCallback11`), and may ask and command
//! (`ICorProfilerInfo` to `ICorProfilerInfo15`, and the metadata interfaces). This crate is all of
//! these interfaces, twice:
//!
//! * **safe**: [`ProfilerCallback`] with a method for each callback, its arguments lifted to
//!   slices, options, results and texts; [`ProfilerInfo`] with a method for each query, lists and
//!   texts whole, what may be missing an `Option`; [`metadata`] and [`signature`] for what a module
//!   says of its types and methods; [`NameResolver`] for names as a C# programmer knows them;
//! * **raw**: [`abi`], the tables of the header, each interface stated once and used by callers and
//!   implementers alike.
//!
//! A profiler is a type that implements [`ProfilerCallback`] and [`Profiler`], in a `cdylib` that
//! exports it:
//!
//! ```
//! use corprof::ids::FunctionId;
//! use corprof::{CallbackCx, EventMask, HResult, Profiler, ProfilerCallback, ProfilerInfo, export_profiler, guid};
//!
//! struct Compiled;
//!
//! impl ProfilerCallback for Compiled {
//!     fn jit_compilation_finished(&self, cx: &CallbackCx<'_>, function: FunctionId, status: Result<(), HResult>, _: bool) {
//!         if let (Ok(()), Ok(info)) = (status, cx.info().function_info(function)) {
//!             eprintln!("compiled {:?} of {:?}", info.token, info.module);
//!         }
//!     }
//! }
//!
//! impl Profiler for Compiled {
//!     fn initialize(&self, _info: &ProfilerInfo) -> Result<EventMask, HResult> {
//!         Ok(EventMask::JIT_COMPILATION)
//!     }
//! }
//!
//! export_profiler! {
//!     guid!("E1B7D1C4-2B0C-4B6B-9C68-3A1E5F0D7701") => |_clsid| Compiled,
//! }
//! # fn main() {}
//! ```
//!
//! The page `docs/writing-a-profiler.md` of this project goes through it step by step;
//! `corprof-mock` is a fake runtime for the tests of a profiler.
//!
//! # What is yours to keep in mind
//!
//! * Callbacks come on the program's threads, many at once, and the program waits for them.
//! * An [`ObjectId`] is good only inside the callback that brought it: the garbage collector moves
//!   objects.
//! * Some questions are forbidden in some callbacks. The runtime answers
//!   `CORPROF_E_UNSUPPORTED_CALL_SEQUENCE` then; asking is safe.
//! * A panic ends at the runtime's border and switches the profiler off. The library must be built
//!   with `panic = "unwind"`.
//! * To be unloaded on detach, leave no thread and no thread-local variable with a destructor
//!   behind.
//!
//! # What it is not for
//!
//! Enter/leave hooks ([`abi::FunctionEnter3`]) are called with every register live; they have to be
//! written in assembly, so there is no safe form of them. .NET Framework has the same interfaces,
//! but nothing here is tested on it.
#![allow(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod abi;
pub mod callback;
pub mod control;
mod events;
pub mod ids;
pub mod info;
pub mod metadata;
pub mod names;
pub mod profiler;
pub mod signature;
mod text;

pub use callback::{CallbackCx, ProfilerCallback};
pub use com::{Guid, HResult, guid};
pub use events::EventMask;
pub use ids::ObjectId;
pub use info::{Error, ProfilerInfo, Result};
pub use names::{FunctionKind, MethodName, ModuleName, NameResolver};
pub use profiler::{PanicReport, Profiler, export};
pub use text::Utf16;
