//! Versions 2 and 3 of ICorProfilerInfo.

use core::ffi::c_void;

use com::HResult;
use com::codes::{
    CORPROF_E_CLASSID_IS_ARRAY, CORPROF_E_NOT_MANAGED_THREAD, CORPROF_E_STACKSNAPSHOT_ABORTED,
};
use com::hresult::{E_INVALIDARG, S_OK};
use corprof::abi::*;
use corprof::ids::*;

use super::Runtime;
use super::lookup::{known, slice};
use crate::enumerators::{Functions, Modules};
use crate::out::{put, put_list, put_text};

// SAFETY of every block below: the caller keeps the contract of the method, so out pointers are
// null or places, lists have the length that is passed with them, and texts end with a zero.

impl ICorProfilerInfo2Impl for Runtime {
    unsafe fn DoStackSnapshot(
        &self,
        thread: ThreadId,
        callback: Option<StackSnapshotCallback>,
        _flags: u32,
        client_data: *mut c_void,
        _context: *const u8,
        _context_size: u32,
    ) -> HResult {
        let mut stack = Vec::new();
        let code = self.answer("DoStackSnapshot", |model| {
            let thread =
                thread.non_null().or(model.current_thread).ok_or(CORPROF_E_NOT_MANAGED_THREAD)?;
            stack.clone_from(&known(model.threads.get(&thread))?.stack);
            Ok(S_OK)
        });
        if code.is_err() {
            return code;
        }
        let Some(callback) = callback else { return E_INVALIDARG };
        // The model is unlocked here, because the callback may ask it.
        for frame in stack {
            // SAFETY: the callback is called as the profiler asked for it.
            let go_on = unsafe {
                callback(frame.function, frame.ip, 0, 0, core::ptr::null_mut(), client_data)
            };
            if go_on != S_OK {
                return CORPROF_E_STACKSNAPSHOT_ABORTED;
            }
        }
        code
    }

    unsafe fn GetFunctionInfo2(
        &self,
        function: FunctionId,
        _frame: COR_PRF_FRAME_INFO,
        class: *mut ClassId,
        module: *mut ModuleId,
        token: *mut mdToken,
        room: u32,
        needed: *mut u32,
        type_arguments: *mut ClassId,
    ) -> HResult {
        self.answer("GetFunctionInfo2", |model| {
            let found = model.function(function)?;
            // SAFETY: see above.
            unsafe {
                put(class, found.class);
                put(module, found.module);
                put(token, found.token.into());
                Ok(put_list(room, needed, type_arguments, &found.type_arguments))
            }
        })
    }

    unsafe fn GetClassIDInfo2(
        &self,
        class: ClassId,
        module: *mut ModuleId,
        token: *mut mdTypeDef,
        parent: *mut ClassId,
        room: u32,
        needed: *mut u32,
        type_arguments: *mut ClassId,
    ) -> HResult {
        self.answer("GetClassIDInfo2", |model| {
            let found = model.class(class)?;
            if found.array.is_some() {
                return Err(CORPROF_E_CLASSID_IS_ARRAY);
            }
            // SAFETY: see above.
            unsafe {
                put(module, found.module);
                put(token, found.token);
                put(parent, found.parent);
                Ok(put_list(room, needed, type_arguments, &found.type_arguments))
            }
        })
    }

    unsafe fn GetCodeInfo2(
        &self,
        function: FunctionId,
        room: u32,
        needed: *mut u32,
        pieces: *mut COR_PRF_CODE_INFO,
    ) -> HResult {
        self.answer("GetCodeInfo2", |model| {
            let body = model.body(function, ReJitId::NULL)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, pieces, &body.pieces) })
        })
    }

    unsafe fn GetClassFromTokenAndTypeArgs(
        &self,
        module: ModuleId,
        token: mdTypeDef,
        len: u32,
        type_arguments: *const ClassId,
        class: *mut ClassId,
    ) -> HResult {
        self.answer("GetClassFromTokenAndTypeArgs", |model| {
            // SAFETY: see above.
            let found =
                model.class_by_token(module, token, unsafe { slice(type_arguments, len) })?;
            // SAFETY: see above.
            unsafe { put(class, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetFunctionFromTokenAndTypeArgs(
        &self,
        module: ModuleId,
        token: mdMethodDef,
        _class: ClassId,
        len: u32,
        type_arguments: *const ClassId,
        function: *mut FunctionId,
    ) -> HResult {
        self.answer("GetFunctionFromTokenAndTypeArgs", |model| {
            // SAFETY: see above.
            let found = model
                .function_by_token(module, token.into(), unsafe { slice(type_arguments, len) })?;
            // SAFETY: see above.
            unsafe { put(function, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetThreadAppDomain(&self, thread: ThreadId, domain: *mut AppDomainId) -> HResult {
        self.answer("GetThreadAppDomain", |model| {
            let found = known(model.threads.get(&thread))?.app_domain;
            // SAFETY: see above.
            unsafe { put(domain, found) };
            Ok(S_OK)
        })
    }

    unsafe fn GetGenerationBounds(
        &self,
        room: u32,
        needed: *mut u32,
        ranges: *mut COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult {
        self.answer("GetGenerationBounds", |model| {
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, ranges, &model.generations) })
        })
    }

    unsafe fn GetObjectGeneration(
        &self,
        object: RawObjectId,
        range: *mut COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult {
        self.answer("GetObjectGeneration", |model| {
            let generation = COR_PRF_GC_GENERATION(known(model.objects.get(&object))?.generation);
            let found = model.generations.iter().find(|range| range.generation == generation);
            // SAFETY: see above.
            unsafe { put(range, *known(found)?) };
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo3Impl for Runtime {
    unsafe fn EnumJITedFunctions(
        &self,
        enumerator: *mut Option<ICorProfilerFunctionEnum>,
    ) -> HResult {
        self.answer("EnumJITedFunctions", |model| {
            let functions = model
                .compiled()
                .into_iter()
                .filter(|function| function.rejit_id.is_null())
                .collect();
            // SAFETY: see above.
            unsafe { put(enumerator, Some(Functions::over(functions))) };
            Ok(S_OK)
        })
    }

    unsafe fn RequestProfilerDetach(&self, milliseconds: u32) -> HResult {
        self.answer("RequestProfilerDetach", |model| {
            model.detach_requested = Some(milliseconds);
            Ok(S_OK)
        })
    }

    unsafe fn GetStringLayout2(&self, length_offset: *mut u32, buffer_offset: *mut u32) -> HResult {
        self.answer("GetStringLayout2", |_| {
            // SAFETY: see above. The layout is that of 64-bit runtimes: method table, length,
            // characters.
            unsafe {
                put(length_offset, 8);
                put(buffer_offset, 12);
            }
            Ok(S_OK)
        })
    }

    unsafe fn EnumModules(&self, enumerator: *mut Option<ICorProfilerModuleEnum>) -> HResult {
        self.answer("EnumModules", |model| {
            // SAFETY: see above.
            unsafe {
                put(enumerator, Some(Modules::over(model.modules.keys().copied().collect())))
            };
            Ok(S_OK)
        })
    }

    unsafe fn GetRuntimeInformation(
        &self,
        instance: *mut u16,
        kind: *mut COR_PRF_RUNTIME_TYPE,
        major: *mut u16,
        minor: *mut u16,
        build: *mut u16,
        fix: *mut u16,
        room: u32,
        needed: *mut u32,
        version: *mut u16,
    ) -> HResult {
        self.answer("GetRuntimeInformation", |model| {
            // SAFETY: see above.
            unsafe {
                put(instance, 9);
                put(kind, COR_PRF_RUNTIME_TYPE::CORE_CLR);
                put(major, model.version.0);
                put(minor, model.version.1);
                put(build, model.version.2);
                put(fix, model.version.3);
                Ok(put_text(room, needed, version, &model.version_text))
            }
        })
    }

    unsafe fn GetAppDomainsContainingModule(
        &self,
        module: ModuleId,
        room: u32,
        needed: *mut u32,
        domains: *mut AppDomainId,
    ) -> HResult {
        self.answer("GetAppDomainsContainingModule", |model| {
            let assembly = known(model.modules.get(&module))?.assembly;
            let domain = known(model.assemblies.get(&assembly))?.app_domain;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, domains, &[domain]) })
        })
    }

    unsafe fn GetModuleInfo2(
        &self,
        module: ModuleId,
        base: *mut *const u8,
        room: u32,
        needed: *mut u32,
        name: *mut u16,
        assembly: *mut AssemblyId,
        flags: *mut u32,
    ) -> HResult {
        self.answer("GetModuleInfo2", |model| {
            let found = known(model.modules.get(&module))?;
            // SAFETY: see above.
            unsafe {
                put(base, core::ptr::without_provenance(found.base));
                put(assembly, found.assembly);
                put(flags, found.flags);
                Ok(put_text(room, needed, name, &found.path))
            }
        })
    }
}
