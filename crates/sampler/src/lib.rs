//! Takes registers and stacks of running threads, from outside of their process.
//!
//! * [`KernelRing`]: the kernel samples the threads itself and writes into a ring buffer that we
//!   read (`perf_event_open(2)`). Nothing of ours runs on the target's threads.
//! * [`SharedRing`]: the reading end of the ring that the agent's signal handlers fill, see
//!   [`wire::ring`].
//!
//! Both give [`ThreadSample`]s, which the `unwind` crate turns into stacks.
//!
//! This crate may use `unsafe`, for system calls and shared memory; each place says why it holds.

mod error;
mod event;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use other as platform;

pub use error::{OpenError, SharedRingError};
pub use event::{
    Binding, KernelTime, Nanos, Readiness, ReturnAddresses, RingCosts, RingCounters, RingEvent,
    RingOptions, SharedRingCounters, ThreadSample,
};
#[cfg(target_os = "linux")]
pub use platform::close_inherited;
pub use platform::{KernelRing, SharedRing, give_way, signal_cost};
pub use unwind::Registers;
