//! The analysis model: a recording as interned tables and sums, ready to be asked.
//!
//! A [`ProfileBuilder`] takes the records of a session, live or saved, and makes a [`Profile`]:
//! tables of threads, functions, frames and stacks, and for each kind of samples a [`Series`] that
//! is summed while it streams in. Reports ask for a [`CallTree`], [`Profile::top_functions`],
//! [`Profile::exception_rows`] or [`Profile::gc_summary`]. What is an estimate comes as an
//! [`Estimate`] with its error bar.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod allocations;
mod arguments;
mod bounded;
mod builder;
mod call_sites;
mod counters;
mod exceptions;
mod feed;
mod filter;
pub mod format;
mod gc;
mod imported;
mod jit;
mod live;
mod loads;
mod locks;
mod mix;
mod names;
mod other_tables;
mod pool;
mod processors;
mod profile;
mod series;
mod size;
mod slices;
mod states;
mod stats;
mod survivors;
mod tables;
mod threads;
mod timeline;
mod traced;
mod tree;

pub use allocations::*;
pub use arguments::*;
pub use builder::*;
pub use call_sites::*;
pub use counters::*;
pub use exceptions::*;
pub use feed::Feed;
pub use filter::*;
pub use gc::*;
pub use imported::Imported;
pub use jit::*;
pub use live::*;
pub use loads::*;
pub use locks::*;
pub use names::*;
pub use other_tables::*;
pub use pool::*;
pub use processors::*;
pub use profile::*;
pub use series::*;
pub use slices::*;
/// Declares the modules that analyze the rows of whole profilers ([`Profile::rows`]). Their public
/// items are items of this crate.
macro_rules! analyses {
    ($($whole:ident),* $(,)?) => {
        $(mod $whole; pub use $whole::*;)*
    };
}

profilers::whole_profilers!(analyses);

// Reports speak of the same things as recordings do.
pub use profilers;
pub use rows;
pub use session;
pub use states::*;
pub use stats::*;
pub use survivors::*;
pub use tables::*;
pub use threads::*;
pub use timeline::*;
pub use traced::*;
pub use tree::*;
