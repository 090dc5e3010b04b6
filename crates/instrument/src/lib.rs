//! Live instrumentation: methods of a running process get code that counts or times their calls,
//! and lose it again.
//!
//! [`find()`] says which methods of a module [rules](rules::RuleSet) take, [`rewrite()`] makes the
//! new body of one and proves its structure, and a [`Manager`] has the runtime use it and use the
//! original again. What the new code calls are [`Probes`]: plain functions of the library that the
//! profiler lives in, called without any reference to another assembly.
//!
//! Each method is instrumented or refused with a [reason](Refusal); nothing in between. Nothing
//! here waits for anybody: the manager is asked by callbacks, and works on the thread of whoever
//! calls [`Manager::apply`].
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod arguments;
mod asynchronous;
mod find;
mod il;
mod manager;
mod probes;
mod refusal;
mod rewrite;
mod scope;

pub use arguments::{Arguments, Parameter, Shown};
pub use find::{Found, find};
pub use il::{Body, Rewritten};
pub use manager::{Change, Manager, Method, State, VerifyPolicy};
pub use probes::{ProbeFunctions, Probes};
pub use refusal::Refusal;
pub use rewrite::{ExceptionExit, Template, rewrite};
pub use scope::Scope;
