//! What the native profiler of the New Relic .NET agent does, as a library: it decides which
//! processes and methods are instrumented, and makes their new bodies.
//!
//! [`Environment`](environment::Environment) and the files of the agent come in; a
//! [`Decision`](decision::Decision), [instrumentation points](points::Points) and [method
//! bodies](rewrite::instrument) go out. What a module's metadata contain is asked through
//! [`rewrite::ModuleMetadata`]. Only [`loaded`] talks to the runtime: it has the answers for
//! modules of a running process.
//!
//! The behavior is that of the agent's own native profiler, byte by byte for method bodies, and so
//! are its oddities where users may depend on them. Where its bodies crash a program, ours do not;
//! each such place says so.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod attributes;
pub mod configuration;
pub mod decision;
pub mod environment;
pub mod event_log;
pub mod files;
pub mod loaded;
pub mod log;
pub mod plan;
pub mod points;
pub mod rewrite;
pub mod shape;
pub mod signature_text;
pub mod strategy;
pub mod version;
pub mod xml;

/// The two families of .NET runtimes. They differ in file names, in the process decision and in
/// method bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// .NET Core 3.1 and later.
    Core,
    /// .NET Framework.
    Framework,
}
