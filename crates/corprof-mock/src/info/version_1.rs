//! Version 1 of ICorProfilerInfo.

use com::codes::{
    CORPROF_E_FUNCTION_NOT_COMPILED, CORPROF_E_FUNCTION_NOT_IL, CORPROF_E_NOT_MANAGED_THREAD,
};
use com::hresult::{S_FALSE, S_OK};
use com::{Guid, HResult, IUnknown, Interface};
use corprof::EventMask;
use corprof::abi::*;
use corprof::ids::*;

use super::Runtime;
use super::lookup::known;
use crate::out::{put, put_list, put_text};

// SAFETY of every block below: the caller keeps the contract of the method, so out pointers are
// null or places, lists have the length that is passed with them, and texts end with a zero.

impl ICorProfilerInfoImpl for Runtime {
    unsafe fn GetClassFromObject(&self, object: RawObjectId, class: *mut ClassId) -> HResult {
        self.answer("GetClassFromObject", |model| {
            let found = known(model.objects.get(&object))?.class;
            // SAFETY: see above.
            unsafe { put(class, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetClassFromToken(
        &self,
        module: ModuleId,
        token: mdTypeDef,
        class: *mut ClassId,
    ) -> HResult {
        self.answer("GetClassFromToken", |model| {
            let found = model.class_by_token(module, token, &[])?;
            // SAFETY: see above.
            unsafe { put(class, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetCodeInfo(
        &self,
        function: FunctionId,
        start: *mut *const u8,
        size: *mut u32,
    ) -> HResult {
        self.answer("GetCodeInfo", |model| {
            let body = model.body(function, ReJitId::NULL)?;
            let piece = body.pieces.first().ok_or(CORPROF_E_FUNCTION_NOT_COMPILED)?;
            // SAFETY: see above.
            unsafe {
                put(start, core::ptr::without_provenance(piece.start_address));
                put(size, u32::try_from(piece.size).unwrap_or(u32::MAX));
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetEventMask(&self, events: *mut u32) -> HResult {
        self.answer("GetEventMask", |model| {
            // SAFETY: see above.
            unsafe { put(events, model.event_mask.low()) };
            Ok(S_OK)
        })
    }

    unsafe fn GetFunctionFromIP(&self, ip: *const u8, function: *mut FunctionId) -> HResult {
        self.answer("GetFunctionFromIP", |model| {
            let (found, _) = model.function_at(ip.addr())?;
            // SAFETY: see above.
            unsafe { put(function, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetFunctionFromToken(
        &self,
        module: ModuleId,
        token: mdToken,
        function: *mut FunctionId,
    ) -> HResult {
        self.answer("GetFunctionFromToken", |model| {
            let found = model.function_by_token(module, token, &[])?;
            // SAFETY: see above.
            unsafe { put(function, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetObjectSize(&self, object: RawObjectId, size: *mut u32) -> HResult {
        self.answer("GetObjectSize", |model| {
            let found = known(model.objects.get(&object))?.size;
            // SAFETY: see above.
            unsafe { put(size, u32::try_from(found).unwrap_or(u32::MAX)) };
            Ok(S_OK)
        })
    }

    unsafe fn IsArrayClass(
        &self,
        class: ClassId,
        element_type: *mut CorElementType,
        element_class: *mut ClassId,
        rank: *mut u32,
    ) -> HResult {
        self.answer("IsArrayClass", |model| {
            let Some((found_type, found_class, found_rank)) = model.class(class)?.array else {
                return Ok(S_FALSE);
            };
            // SAFETY: see above.
            unsafe {
                put(element_type, found_type);
                put(element_class, found_class);
                put(rank, found_rank);
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetThreadInfo(&self, thread: ThreadId, os_id: *mut u32) -> HResult {
        self.answer("GetThreadInfo", |model| {
            let found = known(model.threads.get(&thread))?.os_id;
            // SAFETY: see above.
            unsafe { put(os_id, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetCurrentThreadID(&self, thread: *mut ThreadId) -> HResult {
        self.answer("GetCurrentThreadID", |model| {
            let current = model.current_thread.ok_or(CORPROF_E_NOT_MANAGED_THREAD)?;
            // SAFETY: see above.
            unsafe { put(thread, current) };
            Ok(S_OK)
        })
    }

    unsafe fn GetClassIDInfo(
        &self,
        class: ClassId,
        module: *mut ModuleId,
        token: *mut mdTypeDef,
    ) -> HResult {
        self.answer("GetClassIDInfo", |model| {
            let found = model.class(class)?;
            let (found_module, found_token) = if found.array.is_some() {
                (ModuleId::NULL, mdTypeDef::NIL)
            } else {
                (found.module, found.token)
            };
            // SAFETY: see above.
            unsafe {
                put(module, found_module);
                put(token, found_token);
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetFunctionInfo(
        &self,
        function: FunctionId,
        class: *mut ClassId,
        module: *mut ModuleId,
        token: *mut mdToken,
    ) -> HResult {
        self.answer("GetFunctionInfo", |model| {
            let found = model.function(function)?;
            // SAFETY: see above.
            unsafe {
                put(class, found.class);
                put(module, found.module);
                put(token, found.token.into());
            }
            Ok(S_OK)
        })
    }

    unsafe fn SetEventMask(&self, events: u32) -> HResult {
        self.answer("SetEventMask", |model| {
            model.event_mask = EventMask::from_words(events, 0);
            Ok(S_OK)
        })
    }

    unsafe fn GetTokenAndMetaDataFromFunction(
        &self,
        function: FunctionId,
        _iid: *const Guid,
        import: *mut Option<IUnknown>,
        token: *mut mdToken,
    ) -> HResult {
        self.answer("GetTokenAndMetaDataFromFunction", |model| {
            let found = model.function(function)?;
            let metadata =
                model.modules.get(&found.module).and_then(|module| module.metadata.clone());
            // SAFETY: see above.
            unsafe {
                put(import, metadata);
                put(token, found.token.into());
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetModuleInfo(
        &self,
        module: ModuleId,
        base: *mut *const u8,
        room: u32,
        needed: *mut u32,
        name: *mut u16,
        assembly: *mut AssemblyId,
    ) -> HResult {
        self.answer("GetModuleInfo", |model| {
            let found = known(model.modules.get(&module))?;
            // SAFETY: see above.
            unsafe {
                put(base, core::ptr::without_provenance(found.base));
                put(assembly, found.assembly);
                Ok(put_text(room, needed, name, &found.path))
            }
        })
    }

    unsafe fn GetModuleMetaData(
        &self,
        module: ModuleId,
        _open_flags: u32,
        iid: *const Guid,
        out: *mut Option<IUnknown>,
    ) -> HResult {
        self.answer("GetModuleMetaData", |model| {
            let Some(metadata) = known(model.modules.get(&module))?.metadata.clone() else {
                // SAFETY: see above.
                unsafe { put(out, None) };
                return Ok(S_FALSE);
            };
            // SAFETY: see above; an owned interface pointer is a pointer.
            Ok(unsafe { (metadata.vtable().QueryInterface)(metadata.as_raw(), iid, out.cast()) })
        })
    }

    unsafe fn GetILFunctionBody(
        &self,
        module: ModuleId,
        method: mdMethodDef,
        header: *mut *const u8,
        size: *mut u32,
    ) -> HResult {
        self.answer("GetILFunctionBody", |model| {
            let function = model
                .functions
                .values()
                .find(|function| function.module == module && function.token == method);
            let il = known(function)?.il;
            if il.is_empty() {
                return Err(CORPROF_E_FUNCTION_NOT_IL);
            }
            // SAFETY: see above.
            unsafe {
                put(header, il.as_ptr());
                put(size, u32::try_from(il.len()).unwrap_or(u32::MAX));
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetAppDomainInfo(
        &self,
        domain: AppDomainId,
        room: u32,
        needed: *mut u32,
        name: *mut u16,
        process: *mut ProcessId,
    ) -> HResult {
        self.answer("GetAppDomainInfo", |model| {
            let found = known(model.app_domains.get(&domain))?;
            // SAFETY: see above.
            unsafe {
                put(process, found.process);
                Ok(put_text(room, needed, name, &found.name))
            }
        })
    }

    unsafe fn GetAssemblyInfo(
        &self,
        assembly: AssemblyId,
        room: u32,
        needed: *mut u32,
        name: *mut u16,
        domain: *mut AppDomainId,
        module: *mut ModuleId,
    ) -> HResult {
        self.answer("GetAssemblyInfo", |model| {
            let found = known(model.assemblies.get(&assembly))?;
            // SAFETY: see above.
            unsafe {
                put(domain, found.app_domain);
                put(module, found.module);
                Ok(put_text(room, needed, name, &found.name))
            }
        })
    }

    unsafe fn ForceGC(&self) -> HResult {
        self.answer("ForceGC", |model| {
            model.forced_collections += 1;
            Ok(S_OK)
        })
    }

    unsafe fn GetILToNativeMapping(
        &self,
        function: FunctionId,
        room: u32,
        needed: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        self.answer("GetILToNativeMapping", |model| {
            let body = model.body(function, ReJitId::NULL)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, map, &body.map) })
        })
    }
}
