//! Linux: `perf_event_open(2)` and shared memory files.

mod descriptors;
mod kernel_ring;
mod scheduling;
mod shared_ring;
mod signal_cost;

pub use descriptors::close_inherited;
pub use kernel_ring::KernelRing;
pub use scheduling::give_way;
pub use shared_ring::SharedRing;
pub use signal_cost::signal_cost;
