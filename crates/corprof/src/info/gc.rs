//! The collected heap as a whole: generations, enumeration, induced collections.

use core::ffi::c_void;

use com::codes::CORPROF_E_SUSPENSION_IN_PROGRESS;

use super::ProfilerInfo;
use super::call::{check, list, raw};
use super::enumerate::HandleEnum;
use super::error::Result;
use super::stacks::Visitor;
use crate::abi::{
    BOOL, COR_PRF_GC_GENERATION, COR_PRF_GC_GENERATION_RANGE, COR_PRF_NONGC_HEAP_RANGE,
    ICorProfilerObjectEnum,
};
use crate::ids::{ObjectId, RawObjectId};

/// A stretch of the collected heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationRange {
    /// Which generation it belongs to.
    pub generation: COR_PRF_GC_GENERATION,
    /// First address.
    pub start: usize,
    /// Bytes in use; exact only inside the callbacks of a collection's start and end.
    pub used: usize,
    /// Bytes reserved, including those in use.
    pub reserved: usize,
}

impl GenerationRange {
    const fn lift(raw: COR_PRF_GC_GENERATION_RANGE) -> Self {
        Self {
            generation: raw.generation,
            start: raw.range_start.0,
            used: raw.range_length,
            reserved: raw.range_length_reserved,
        }
    }
}

/// A stretch of the heap of objects that are never collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonGcRange {
    /// First address.
    pub start: usize,
    /// Bytes in use.
    pub used: usize,
    /// Bytes reserved, including those in use.
    pub reserved: usize,
}

impl ProfilerInfo {
    /// Runs a full blocking collection and waits for it (`ForceGC`). Never call it from a callback
    /// or from a thread that has run managed code.
    ///
    /// # Errors
    /// `CORPROF_E_UNSUPPORTED_CALL_SEQUENCE` on such a thread, `CORPROF_E_RUNTIME_UNINITIALIZED`
    /// too early.
    pub fn force_gc(&self) -> Result<()> {
        check("ForceGC", raw!(self.raw, ForceGC()))
    }

    /// The stretches of the collected heap (`GetGenerationBounds`).
    ///
    /// # Errors
    /// `CORPROF_E_NOT_YET_AVAILABLE` before the heap exists.
    pub fn generation_bounds(&self) -> Result<Vec<GenerationRange>> {
        list::<COR_PRF_GC_GENERATION_RANGE>("GetGenerationBounds", 64, |room, needed, ranges| {
            raw!(self.raw, GetGenerationBounds(room, needed, ranges))
        })
        .map(|ranges| ranges.into_iter().map(GenerationRange::lift).collect())
    }

    /// The stretch of the heap that an object lies in (`GetObjectGeneration`).
    ///
    /// # Errors
    /// `CORPROF_E_NOT_GC_OBJECT` for a frozen object.
    pub fn object_generation(&self, object: ObjectId<'_>) -> Result<GenerationRange> {
        let mut range = COR_PRF_GC_GENERATION_RANGE::default();
        check(
            "GetObjectGeneration",
            raw!(self.raw, GetObjectGeneration(object.raw(), &mut range)),
        )?;
        Ok(GenerationRange::lift(range))
    }

    /// From which size in bytes an object goes to the large object heap
    /// (`GetLOHObjectSizeThreshold`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET Core 3.0.
    pub fn large_object_threshold(&self) -> Result<u32> {
        let mut threshold = 0;
        check(
            "GetLOHObjectSizeThreshold",
            raw!(*self.info10()?, GetLOHObjectSizeThreshold(&mut threshold)),
        )?;
        Ok(threshold)
    }

    /// Objects outside of the collected heap, such as string literals (`EnumerateNonGCObjects`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 8.
    pub fn non_gc_objects(&self) -> Result<HandleEnum<ICorProfilerObjectEnum>> {
        let mut objects = None;
        check("EnumerateNonGCObjects", raw!(*self.info14()?, EnumerateNonGCObjects(&mut objects)))?;
        HandleEnum::new("EnumerateNonGCObjects", objects)
    }

    /// The stretches of the heap that is never collected (`GetNonGCHeapBounds`).
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 8.
    pub fn non_gc_heap_bounds(&self) -> Result<Vec<NonGcRange>> {
        let info = self.info14()?;
        list::<COR_PRF_NONGC_HEAP_RANGE>("GetNonGCHeapBounds", 4, |room, needed, ranges| {
            raw!(*info, GetNonGCHeapBounds(room, needed, ranges))
        })
        .map(|ranges| {
            ranges
                .into_iter()
                .map(|raw| NonGcRange {
                    start: raw.range_start.0,
                    used: raw.range_length,
                    reserved: raw.range_length_reserved,
                })
                .collect()
        })
    }

    /// Calls `visit` with every object of the collected heap (`EnumerateGCHeapObjects`). The
    /// runtime is suspended meanwhile, so `visit` must not wait for managed code. `false` ends the
    /// enumeration. A panic of `visit` ends it too and continues from here.
    ///
    /// The runtime is meant to suspend itself for this. .NET 9 and 10 often answer instead that it
    /// is suspended already. Then this method suspends it, as [`Self::suspend_runtime`] does, and
    /// asks again.
    ///
    /// # Errors
    /// `CORPROF_E_SUSPENSION_IN_PROGRESS` if somebody else is suspending: try again;
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET 9.
    pub fn gc_heap_objects(&self, visit: impl FnMut(ObjectId<'_>) -> bool) -> Result<()> {
        unsafe extern "system" fn each<F: FnMut(ObjectId<'_>) -> bool>(
            object: RawObjectId,
            visitor: *mut c_void,
        ) -> BOOL {
            // SAFETY: the runtime passes back what we gave it, and calls from the calling thread
            // only.
            let visitor = unsafe { &mut *visitor.cast::<Visitor<F>>() };
            // SAFETY: the runtime is suspended while it enumerates, and the closure cannot keep the
            // object longer.
            let object = unsafe { ObjectId::from_raw(object) };
            BOOL::from(visitor.call(|visit| visit(object)).unwrap_or(false))
        }
        fn callback_of<F: FnMut(ObjectId<'_>) -> bool>(
            _: &Visitor<F>,
        ) -> crate::abi::ObjectCallback {
            each::<F>
        }
        let info = self.info15()?;
        let mut visitor = Visitor::new(visit);
        let callback = callback_of(&visitor);
        let mut hresult =
            raw!(*info, EnumerateGCHeapObjects(Some(callback), (&raw mut visitor).cast()));
        if hresult == CORPROF_E_SUSPENSION_IN_PROGRESS {
            let _suspended = self.suspend_runtime()?;
            hresult =
                raw!(*info, EnumerateGCHeapObjects(Some(callback), (&raw mut visitor).cast()));
        }
        visitor.finish();
        check("EnumerateGCHeapObjects", hresult)
    }
}
