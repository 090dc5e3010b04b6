//! The native profiler of the New Relic .NET agent, in Rust: the library that the runtime loads,
//! and that the managed agent calls.
//!
//! What it decides and how it rewrites methods is in `newrelic_compat`; here are its life in a
//! process ([`profiler`]), its functions for the managed agent ([`exports`]) and its thread
//! profiler ([`thread_profiler`]).
#![allow(non_snake_case, reason = "the name of the library is given")]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod events;
mod exports;
mod find;
mod instance;
mod live;
mod log;
mod mode;
mod modules;
mod process;
mod profiler;
mod refresh;
mod resolve;
mod rewriting;
mod start;
mod suspension;
mod thread_profiler;

corprof::export_profiler! {
    _ => |_clsid| profiler::DropIn::default(),
}
