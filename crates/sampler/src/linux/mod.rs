//! Linux: `perf_event_open(2)` and shared memory files.

mod kernel_ring;
mod shared_ring;

pub use kernel_ring::KernelRing;
pub use shared_ring::SharedRing;
