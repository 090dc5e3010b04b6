//! Systems without a ring of the kernel: nothing can be opened, so nothing can be read.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use wire::ring::Layout;

use crate::{
    KernelTime, Nanos, OpenError, Readiness, RingCosts, RingCounters, RingEvent, RingOptions,
    SharedRingCounters, SharedRingError, ThreadSample,
};

/// The kernel's ring: not on this system.
pub struct KernelRing(Infallible);

impl KernelRing {
    /// Opens nothing.
    ///
    /// # Errors
    ///
    /// Always [`OpenError::Unsupported`].
    pub fn open(_pid: u32, _options: &RingOptions) -> Result<Self, OpenError> {
        Err(OpenError::Unsupported)
    }

    /// What became of the time in the kernel.
    pub fn kernel_time(&self) -> KernelTime {
        match self.0 {}
    }

    /// In words for a reader: how samples are taken.
    pub fn description(&self) -> String {
        match self.0 {}
    }

    /// Waits for events.
    ///
    /// # Errors
    ///
    /// None.
    pub fn poll(&mut self, _timeout: Duration) -> io::Result<Readiness> {
        match self.0 {}
    }

    /// Hands out all events.
    pub fn drain(&mut self, _handle: impl FnMut(RingEvent<'_>)) {
        match self.0 {}
    }

    /// What was counted.
    pub fn counters(&self) -> RingCounters {
        match self.0 {}
    }

    /// Bytes that the rings hold.
    pub fn capacity(&self) -> usize {
        match self.0 {}
    }

    /// Measures what the ring costs.
    pub fn measure_costs(&self) -> impl FnOnce() -> RingCosts + Send + use<> {
        || RingCosts::default()
    }

    /// Nanoseconds between two samples.
    pub fn period(&self) -> u64 {
        match self.0 {}
    }

    /// Threads watched directly.
    pub fn threads(&self) -> usize {
        match self.0 {}
    }
}

/// The agent's ring: not on this system.
pub struct SharedRing(Infallible);

impl SharedRing {
    /// Maps nothing.
    ///
    /// # Errors
    ///
    /// Always [`SharedRingError::Unsupported`].
    pub fn open<F>(_file: F, _layout: Layout, _period: Nanos) -> Result<Self, SharedRingError> {
        Err(SharedRingError::Unsupported)
    }

    /// Hands out all samples.
    pub fn drain(&mut self, _handle: impl FnMut(ThreadSample<'_>)) {
        match self.0 {}
    }

    /// What was counted.
    pub fn counters(&self) -> SharedRingCounters {
        match self.0 {}
    }
}

/// What a signal costs: not measured on this system.
pub fn signal_cost() -> Option<u64> {
    None
}

/// Leaves the calling thread as it is: there is no such policy on this system.
///
/// # Errors
/// None here.
pub fn give_way() -> io::Result<()> {
    Ok(())
}
