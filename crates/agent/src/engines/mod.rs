//! What collects in the target. Each engine has its own state, its callbacks, and its thread if it
//! needs one.
//!
//! An engine knows the [`Host`](crate::host::Host) and none of the others; only [`probes`] keep
//! calls in the trees of [`hooks`]. The session starts and
//! stops them ([`crate::session::writer`]) and hands the runtime's callbacks to them
//! ([`crate::session::entry`]).

pub mod compare;
pub mod cpu_signals;
pub mod exact_allocations;
pub mod exceptions;
pub mod heap;
pub mod hooks;
pub mod probes;
pub mod snapshots;
pub mod survivors;
pub mod ticks;
