//! Versions 10 to 15 of ICorProfilerInfo.

use core::ffi::c_void;

use com::HResult;
use com::codes::CORPROF_E_SUSPENSION_IN_PROGRESS;
use com::hresult::{E_INVALIDARG, S_FALSE, S_OK};
use corprof::abi::*;
use corprof::ids::*;

use super::Runtime;
use super::lookup::{known, slice};
use crate::enumerators::Objects;
use crate::out::{put, put_list, put_text, text};

// SAFETY of every block below: the caller keeps the contract of the method, so out pointers are
// null or places, lists have the length that is passed with them, and texts end with a zero.

impl ICorProfilerInfo10Impl for Runtime {
    unsafe fn EnumerateObjectReferences(
        &self,
        object: RawObjectId,
        callback: Option<ObjectReferenceCallback>,
        client_data: *mut c_void,
    ) -> HResult {
        let mut references = Vec::new();
        let code = self.answer("EnumerateObjectReferences", |model| {
            references.clone_from(&known(model.objects.get(&object))?.references);
            Ok(if references.is_empty() { S_FALSE } else { S_OK })
        });
        let Some(callback) = callback else { return E_INVALIDARG };
        for mut reference in references {
            // SAFETY: the callback is called as the profiler asked for it.
            if unsafe { callback(object, &mut reference, client_data) } == 0 {
                break;
            }
        }
        code
    }

    unsafe fn IsFrozenObject(&self, object: RawObjectId, frozen: *mut BOOL) -> HResult {
        self.answer("IsFrozenObject", |model| {
            let found = known(model.objects.get(&object))?.frozen;
            // SAFETY: see above.
            unsafe { put(frozen, BOOL::from(found)) };
            Ok(S_OK)
        })
    }

    unsafe fn GetLOHObjectSizeThreshold(&self, threshold: *mut u32) -> HResult {
        self.answer("GetLOHObjectSizeThreshold", |model| {
            // SAFETY: see above.
            unsafe { put(threshold, model.large_object_threshold) };
            Ok(S_OK)
        })
    }

    unsafe fn RequestReJITWithInliners(
        &self,
        _flags: u32,
        len: u32,
        modules: *const ModuleId,
        methods: *const mdMethodDef,
    ) -> HResult {
        self.answer("RequestReJITWithInliners", |model| {
            // SAFETY: see above.
            let (modules, methods) = unsafe { (slice(modules, len), slice(methods, len)) };
            model.rejitted.extend(modules.iter().copied().zip(methods.iter().copied()));
            Ok(S_OK)
        })
    }

    unsafe fn SuspendRuntime(&self) -> HResult {
        self.answer("SuspendRuntime", |model| {
            if model.suspended {
                return Err(CORPROF_E_SUSPENSION_IN_PROGRESS);
            }
            model.suspended = true;
            Ok(S_OK)
        })
    }

    unsafe fn ResumeRuntime(&self) -> HResult {
        self.answer("ResumeRuntime", |model| {
            if !model.suspended {
                return Err(com::codes::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
            }
            model.suspended = false;
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo11Impl for Runtime {
    unsafe fn GetEnvironmentVariable(
        &self,
        name: *const u16,
        room: u32,
        needed: *mut u32,
        value: *mut u16,
    ) -> HResult {
        self.answer("GetEnvironmentVariable", |model| {
            // SAFETY: see above.
            let name = known(unsafe { text(name) })?;
            let found = model.environment.get(&name).ok_or(HResult::from_win32(203))?;
            // SAFETY: see above.
            Ok(unsafe { put_text(room, needed, value, found) })
        })
    }

    unsafe fn SetEnvironmentVariable(&self, name: *const u16, value: *const u16) -> HResult {
        self.answer("SetEnvironmentVariable", |model| {
            // SAFETY: see above.
            let name = known(unsafe { text(name) })?;
            // SAFETY: see above.
            match unsafe { text(value) } {
                Some(value) => model.environment.insert(name, value),
                None => model.environment.remove(&name),
            };
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo12Impl for Runtime {}

impl ICorProfilerInfo13Impl for Runtime {
    unsafe fn CreateHandle(
        &self,
        object: RawObjectId,
        _kind: COR_PRF_HANDLE_TYPE,
        handle: *mut ObjectHandleID,
    ) -> HResult {
        self.answer("CreateHandle", |model| {
            known(model.objects.get(&object))?;
            let token = model.handles.keys().next_back().map_or(0x10, |last| last + 0x10);
            model.handles.insert(token, object);
            // SAFETY: see above.
            unsafe { put(handle, core::ptr::without_provenance_mut(token)) };
            Ok(S_OK)
        })
    }

    unsafe fn DestroyHandle(&self, handle: ObjectHandleID) -> HResult {
        self.answer("DestroyHandle", |model| {
            known(model.handles.remove(&handle.addr())).map(|_| S_OK)
        })
    }

    unsafe fn GetObjectIDFromHandle(
        &self,
        handle: ObjectHandleID,
        object: *mut RawObjectId,
    ) -> HResult {
        self.answer("GetObjectIDFromHandle", |model| {
            let found = *known(model.handles.get(&handle.addr()))?;
            let alive = model.objects.contains_key(&found);
            // SAFETY: see above.
            unsafe { put(object, if alive { found } else { RawObjectId::NULL }) };
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo14Impl for Runtime {
    unsafe fn EnumerateNonGCObjects(
        &self,
        enumerator: *mut Option<ICorProfilerObjectEnum>,
    ) -> HResult {
        self.answer("EnumerateNonGCObjects", |model| {
            // SAFETY: see above.
            unsafe { put(enumerator, Some(Objects::over(model.non_gc_objects.clone()))) };
            Ok(S_OK)
        })
    }

    unsafe fn GetNonGCHeapBounds(
        &self,
        room: u32,
        needed: *mut u32,
        ranges: *mut COR_PRF_NONGC_HEAP_RANGE,
    ) -> HResult {
        self.answer("GetNonGCHeapBounds", |model| {
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, ranges, &model.non_gc_heap) })
        })
    }
}

impl ICorProfilerInfo15Impl for Runtime {
    unsafe fn EnumerateGCHeapObjects(
        &self,
        callback: Option<ObjectCallback>,
        client_data: *mut c_void,
    ) -> HResult {
        let mut objects: Vec<RawObjectId> = Vec::new();
        let code = self.answer("EnumerateGCHeapObjects", |model| {
            objects.extend(
                model.objects.iter().filter(|(_, object)| !object.frozen).map(|(id, _)| *id),
            );
            Ok(S_OK)
        });
        let Some(callback) = callback else { return E_INVALIDARG };
        for object in objects {
            // SAFETY: the callback is called as the profiler asked for it.
            if unsafe { callback(object, client_data) } == 0 {
                break;
            }
        }
        code
    }
}
