//! Counts every object that is allocated, and its bytes, by class; writes the table when the
//! process ends.
//!
//! ```sh
//! cargo build -p corprof --example count_allocations
//! CORECLR_ENABLE_PROFILING=1 \
//! CORECLR_PROFILER={2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F02} \
//! CORECLR_PROFILER_PATH=$PWD/target/debug/examples/libcount_allocations.so \
//!     dotnet App.dll
//! ```
//!
//! To hear of every allocation makes every allocation slow. A profiler for production samples
//! instead.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use corprof::ids::ClassId;
use corprof::{
    CallbackCx, EventMask, HResult, NameResolver, ObjectId, Profiler, ProfilerCallback,
    ProfilerInfo, export_profiler, guid,
};

/// How many rows the table has.
const ROWS: usize = 20;

#[derive(Clone, Copy, Default)]
struct Allocated {
    objects: u64,
    bytes: u64,
}

#[derive(Default)]
struct CountAllocations {
    /// Callbacks come on many threads at once, hence the lock.
    classes: Mutex<HashMap<ClassId, Allocated>>,
}

impl ProfilerCallback for CountAllocations {
    fn object_allocated(&self, cx: &CallbackCx<'_>, object: ObjectId<'_>, class: ClassId) {
        let size = cx.info().object_size(object).unwrap_or(0);
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        let allocated = classes.entry(class).or_default();
        allocated.objects += 1;
        allocated.bytes += size as u64;
    }
}

impl Profiler for CountAllocations {
    fn initialize(&self, _: &ProfilerInfo) -> Result<EventMask, HResult> {
        Ok(EventMask::OBJECT_ALLOCATED | EventMask::ENABLE_OBJECT_ALLOCATED)
    }

    fn shutdown(&self, cx: &CallbackCx<'_>) {
        let names = NameResolver::new(cx.info().clone());
        let classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<(ClassId, Allocated)> =
            classes.iter().map(|(class, allocated)| (*class, *allocated)).collect();
        rows.sort_by_key(|(_, allocated)| std::cmp::Reverse(allocated.bytes));
        let objects: u64 = rows.iter().map(|(_, allocated)| allocated.objects).sum();
        let bytes: u64 = rows.iter().map(|(_, allocated)| allocated.bytes).sum();
        eprintln!("{:>12} {:>14}  class", "objects", "bytes");
        for (class, allocated) in rows.iter().take(ROWS) {
            let name = names
                .class(*class)
                .map_or_else(|error| format!("{class:?} ({error})"), |name| name.to_string());
            eprintln!("{:>12} {:>14}  {name}", allocated.objects, allocated.bytes);
        }
        eprintln!("{objects:>12} {bytes:>14}  all {} classes", rows.len());
    }
}

export_profiler! {
    guid!("2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F02") => |_clsid| CountAllocations::default(),
}
