//! `clrscope newrelic check`: what a New Relic .NET agent would do in a process, without running
//! anything.
//!
//! What the native profiler decides by itself is asked of `newrelic-compat`. Files of a process are
//! opened as that process sees them, read-only and with bounds, since their owner decides what lies
//! there.

mod assembly;
mod dry_run;
mod environment;
mod home;
mod library;
mod location;
mod modules;
mod process;
mod report;
mod runtime;
mod verdict;
mod view;

pub use report::{Report, Subject};
