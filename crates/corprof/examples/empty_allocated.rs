//! Requests a callback for every allocated object and does nothing in it: what that alone costs.
//!
//! A profiler that counts can be compared with it; `cargo xtask bench illness` does. It is used as
//! `count_allocations`.

use corprof::ids::ClassId;
use corprof::{
    CallbackCx, EventMask, HResult, ObjectId, Profiler, ProfilerCallback, ProfilerInfo,
    export_profiler, guid,
};

struct EmptyAllocated;

impl ProfilerCallback for EmptyAllocated {
    fn object_allocated(&self, _: &CallbackCx<'_>, _: ObjectId<'_>, _: ClassId) {}
}

impl Profiler for EmptyAllocated {
    fn initialize(&self, _: &ProfilerInfo) -> Result<EventMask, HResult> {
        Ok(EventMask::OBJECT_ALLOCATED | EventMask::ENABLE_OBJECT_ALLOCATED)
    }
}

export_profiler! {
    guid!("2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F04") => |_clsid| EmptyAllocated,
}
