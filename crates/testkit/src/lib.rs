//! Real .NET runtimes and real programs for end-to-end tests.
//!
//! No test of clrscope that claims to work end to end runs against a mock. This crate knows where
//! `cargo xtask setup` put the runtimes ([`Runtime`]), compiles the programs under `samples/`
//! ([`Sample`]), and starts them as processes that die with the test ([`TargetProcess`]).
//!
//! ```no_run
//! use std::time::Duration;
//! use testkit::{Sample, sample_runtimes};
//!
//! for runtime in sample_runtimes() {
//!     let mut burn = Sample::named("burn").start(runtime, &["--seconds", "5"]);
//!     burn.wait_for_ready();
//!     println!("{runtime}: attach to {}", burn.pid());
//!     let truth = burn.truth(Duration::from_secs(20));
//!     assert!(truth["methods"]["slow"].as_f64().is_some());
//! }
//! ```
//!
//! A runtime that is missing is a failure that names the command to run, never a skipped test.

#![forbid(unsafe_code)]

mod azmcp;
mod cache;
mod compile;
mod control_group;
mod http;
mod kept;
mod kiosk;
mod process;
mod runtime;
mod sample;
mod schema;

pub use cache::{Cache, source_root};
pub use compile::{CompileError, Compiler, Extras};
pub use control_group::ControlGroup;
pub use http::{Answer, Client};
pub use kept::check_kept;
pub use kiosk::{Kiosk, Load};
pub use process::{Launch, Stream, TargetProcess};
pub use runtime::{Host, Runtime, on_sample_runtimes_at_once, runtimes, sample_runtimes};
pub use sample::{Sample, samples};
pub use schema::JsonSchema;
