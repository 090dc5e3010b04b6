//! The fake runtime's side of ICorProfilerInfo.

use core::ffi::c_void;
use std::sync::Arc;

use com::codes::{
    CORPROF_E_CLASSID_IS_ARRAY, CORPROF_E_FUNCTION_NOT_COMPILED, CORPROF_E_FUNCTION_NOT_IL,
    CORPROF_E_NOT_MANAGED_THREAD, CORPROF_E_STACKSNAPSHOT_ABORTED,
    CORPROF_E_SUSPENSION_IN_PROGRESS,
};
use com::hresult::{E_INVALIDARG, S_FALSE, S_OK};
use com::{ComClass, Guid, HResult, IUnknown, Interface};
use corprof::EventMask;
use corprof::abi::*;
use corprof::ids::*;

use crate::enumerators::{Functions, Modules, Objects, Threads};
use crate::model::{Class, CodeBody, Function, Model};
use crate::out::{put, put_list, put_text, text};
use crate::{State, lock};

/// The runtime object.
pub(crate) struct Runtime {
    pub(crate) state: Arc<State>,
}

/// The interfaces of the chain, by version.
const INFO_IIDS: [(u8, Guid); 15] = [
    (1, ICorProfilerInfo::IID),
    (2, ICorProfilerInfo2::IID),
    (3, ICorProfilerInfo3::IID),
    (4, ICorProfilerInfo4::IID),
    (5, ICorProfilerInfo5::IID),
    (6, ICorProfilerInfo6::IID),
    (7, ICorProfilerInfo7::IID),
    (8, ICorProfilerInfo8::IID),
    (9, ICorProfilerInfo9::IID),
    (10, ICorProfilerInfo10::IID),
    (11, ICorProfilerInfo11::IID),
    (12, ICorProfilerInfo12::IID),
    (13, ICorProfilerInfo13::IID),
    (14, ICorProfilerInfo14::IID),
    (15, ICorProfilerInfo15::IID),
];

impl ComClass for Runtime {
    type Interface = ICorProfilerInfo15;

    fn refuses(&self, iid: &Guid) -> bool {
        INFO_IIDS.iter().any(|(version, info)| info == iid && *version > self.state.newest_info)
    }
}

impl Runtime {
    /// Notes the call, and answers it from the model unless it is to fail.
    fn answer(
        &self,
        method: &'static str,
        answer: impl FnOnce(&mut Model) -> Result<HResult, HResult>,
    ) -> HResult {
        let failure = {
            let mut script = lock(&self.state.script);
            script.calls.push(method);
            script.failures.iter().find(|(failing, _)| failing == method).map(|(_, code)| *code)
        };
        match failure {
            Some(code) => code,
            None => answer(&mut lock(&self.state.model)).unwrap_or_else(|code| code),
        }
    }
}

fn known<T>(value: Option<T>) -> Result<T, HResult> {
    value.ok_or(E_INVALIDARG)
}

impl Model {
    fn function(&self, id: FunctionId) -> Result<&Function, HResult> {
        known(self.functions.get(&id))
    }

    fn class(&self, id: ClassId) -> Result<&Class, HResult> {
        known(self.classes.get(&id))
    }

    fn function_at(&self, ip: usize) -> Result<(FunctionId, ReJitId), HResult> {
        let mut bodies = self
            .functions
            .iter()
            .flat_map(|(id, function)| function.bodies.iter().map(move |body| (id, body)));
        let found = bodies.find(|(_, body)| body.contains(ip)).map(|(id, body)| (*id, body.rejit));
        found.ok_or(com::hresult::E_FAIL)
    }

    fn body(&self, id: FunctionId, rejit: ReJitId) -> Result<&CodeBody, HResult> {
        let mut bodies = self.function(id)?.bodies.iter();
        bodies.find(|body| body.rejit == rejit).ok_or(CORPROF_E_FUNCTION_NOT_COMPILED)
    }

    fn body_at_start(&self, start: usize) -> Result<&CodeBody, HResult> {
        let mut bodies = self.functions.values().flat_map(|function| &function.bodies);
        known(
            bodies
                .find(|body| body.pieces.first().is_some_and(|piece| piece.start_address == start)),
        )
    }

    fn function_by_token(
        &self,
        module: ModuleId,
        token: mdToken,
        type_arguments: &[ClassId],
    ) -> Result<FunctionId, HResult> {
        let mut functions = self.functions.iter();
        let found = functions.find(|(_, function)| {
            function.module == module
                && function.token.raw() == token.0
                && function.dynamic_name.is_none()
                && function.type_arguments == type_arguments
        });
        known(found.map(|(id, _)| *id))
    }

    fn class_by_token(
        &self,
        module: ModuleId,
        token: mdTypeDef,
        type_arguments: &[ClassId],
    ) -> Result<ClassId, HResult> {
        let mut classes = self.classes.iter();
        let found = classes.find(|(_, class)| {
            class.module == module
                && class.token == token
                && class.array.is_none()
                && class.type_arguments == type_arguments
        });
        known(found.map(|(id, _)| *id))
    }

    fn compiled(&self) -> Vec<COR_PRF_FUNCTION> {
        let functions = self.functions.iter();
        functions
            .flat_map(|(id, function)| {
                function
                    .bodies
                    .iter()
                    .map(|body| COR_PRF_FUNCTION { function_id: *id, rejit_id: body.rejit })
            })
            .collect()
    }
}

/// # Safety
///
/// Null, or `len` values.
unsafe fn slice<'a, T>(start: *const T, len: u32) -> &'a [T] {
    // SAFETY: this function's contract.
    if start.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(start, len as usize) } }
}

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

impl ICorProfilerInfo4Impl for Runtime {
    unsafe fn EnumThreads(&self, enumerator: *mut Option<ICorProfilerThreadEnum>) -> HResult {
        self.answer("EnumThreads", |model| {
            // SAFETY: see above.
            unsafe {
                put(enumerator, Some(Threads::over(model.threads.keys().copied().collect())))
            };
            Ok(S_OK)
        })
    }

    unsafe fn InitializeCurrentThread(&self) -> HResult {
        self.answer("InitializeCurrentThread", |_| Ok(S_OK))
    }

    unsafe fn RequestReJIT(
        &self,
        len: u32,
        modules: *const ModuleId,
        methods: *const mdMethodDef,
    ) -> HResult {
        self.answer("RequestReJIT", |model| {
            // SAFETY: see above.
            let (modules, methods) = unsafe { (slice(modules, len), slice(methods, len)) };
            model.rejitted.extend(modules.iter().copied().zip(methods.iter().copied()));
            Ok(S_OK)
        })
    }

    unsafe fn RequestRevert(
        &self,
        len: u32,
        modules: *const ModuleId,
        methods: *const mdMethodDef,
        status: *mut HResult,
    ) -> HResult {
        self.answer("RequestRevert", |model| {
            // SAFETY: see above.
            let (modules, methods) = unsafe { (slice(modules, len), slice(methods, len)) };
            let pairs: Vec<_> = modules.iter().copied().zip(methods.iter().copied()).collect();
            let codes: Vec<HResult> = pairs
                .iter()
                .map(|pair| if model.rejitted.contains(pair) { S_OK } else { E_INVALIDARG })
                .collect();
            model.rejitted.retain(|pair| !pairs.contains(pair));
            // SAFETY: see above.
            Ok(unsafe { put_list(len, core::ptr::null_mut(), status, &codes) })
        })
    }

    unsafe fn GetCodeInfo3(
        &self,
        function: FunctionId,
        rejit: ReJitId,
        room: u32,
        needed: *mut u32,
        pieces: *mut COR_PRF_CODE_INFO,
    ) -> HResult {
        self.answer("GetCodeInfo3", |model| {
            let body = model.body(function, rejit)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, pieces, &body.pieces) })
        })
    }

    unsafe fn GetFunctionFromIP2(
        &self,
        ip: *const u8,
        function: *mut FunctionId,
        rejit: *mut ReJitId,
    ) -> HResult {
        self.answer("GetFunctionFromIP2", |model| {
            let (found, found_rejit) = model.function_at(ip.addr())?;
            // SAFETY: see above.
            unsafe {
                put(function, found);
                put(rejit, found_rejit);
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetReJITIDs(
        &self,
        function: FunctionId,
        room: u32,
        needed: *mut u32,
        rejits: *mut ReJitId,
    ) -> HResult {
        self.answer("GetReJITIDs", |model| {
            let found: Vec<ReJitId> = model
                .function(function)?
                .bodies
                .iter()
                .filter_map(|body| body.rejit.non_null())
                .collect();
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, rejits, &found) })
        })
    }

    unsafe fn GetILToNativeMapping2(
        &self,
        function: FunctionId,
        rejit: ReJitId,
        room: u32,
        needed: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        self.answer("GetILToNativeMapping2", |model| {
            let body = model.body(function, rejit)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, map, &body.map) })
        })
    }

    unsafe fn EnumJITedFunctions2(
        &self,
        enumerator: *mut Option<ICorProfilerFunctionEnum>,
    ) -> HResult {
        self.answer("EnumJITedFunctions2", |model| {
            // SAFETY: see above.
            unsafe { put(enumerator, Some(Functions::over(model.compiled()))) };
            Ok(S_OK)
        })
    }

    unsafe fn GetObjectSize2(&self, object: RawObjectId, size: *mut usize) -> HResult {
        self.answer("GetObjectSize2", |model| {
            let found = known(model.objects.get(&object))?.size;
            // SAFETY: see above.
            unsafe { put(size, found) };
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo5Impl for Runtime {
    unsafe fn GetEventMask2(&self, low: *mut u32, high: *mut u32) -> HResult {
        self.answer("GetEventMask2", |model| {
            // SAFETY: see above.
            unsafe {
                put(low, model.event_mask.low());
                put(high, model.event_mask.high());
            }
            Ok(S_OK)
        })
    }

    unsafe fn SetEventMask2(&self, low: u32, high: u32) -> HResult {
        self.answer("SetEventMask2", |model| {
            model.event_mask = EventMask::from_words(low, high);
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo6Impl for Runtime {}

impl ICorProfilerInfo7Impl for Runtime {
    unsafe fn ApplyMetaData(&self, module: ModuleId) -> HResult {
        self.answer("ApplyMetaData", |model| known(model.modules.get(&module)).map(|_| S_OK))
    }

    unsafe fn GetInMemorySymbolsLength(&self, module: ModuleId, len: *mut u32) -> HResult {
        self.answer("GetInMemorySymbolsLength", |model| {
            let found = known(model.modules.get(&module))?.symbols.len();
            // SAFETY: see above.
            unsafe { put(len, u32::try_from(found).unwrap_or(u32::MAX)) };
            Ok(S_OK)
        })
    }

    unsafe fn ReadInMemorySymbols(
        &self,
        module: ModuleId,
        offset: u32,
        bytes: *mut u8,
        room: u32,
        read: *mut u32,
    ) -> HResult {
        self.answer("ReadInMemorySymbols", |model| {
            let symbols = &known(model.modules.get(&module))?.symbols;
            let rest = known(symbols.get(offset as usize..))?;
            let part = rest.get(..room as usize).unwrap_or(rest);
            // SAFETY: see above.
            Ok(unsafe { put_list(room, read, bytes, part) })
        })
    }
}

impl ICorProfilerInfo8Impl for Runtime {
    unsafe fn IsFunctionDynamic(&self, function: FunctionId, dynamic: *mut BOOL) -> HResult {
        self.answer("IsFunctionDynamic", |model| {
            let found = model.function(function)?.dynamic_name.is_some();
            // SAFETY: see above.
            unsafe { put(dynamic, BOOL::from(found)) };
            Ok(S_OK)
        })
    }

    unsafe fn GetFunctionFromIP3(
        &self,
        ip: *const u8,
        function: *mut FunctionId,
        rejit: *mut ReJitId,
    ) -> HResult {
        self.answer("GetFunctionFromIP3", |model| {
            let (found, found_rejit) = model.function_at(ip.addr())?;
            // SAFETY: see above.
            unsafe {
                put(function, found);
                put(rejit, found_rejit);
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetDynamicFunctionInfo(
        &self,
        function: FunctionId,
        module: *mut ModuleId,
        signature: *mut *const u8,
        signature_len: *mut u32,
        room: u32,
        needed: *mut u32,
        name: *mut u16,
    ) -> HResult {
        self.answer("GetDynamicFunctionInfo", |model| {
            let found = model.function(function)?;
            let found_name = known(found.dynamic_name.as_deref())?;
            // SAFETY: see above.
            unsafe {
                put(module, found.module);
                put(signature, core::ptr::null());
                put(signature_len, 0);
                Ok(put_text(room, needed, name, found_name))
            }
        })
    }
}

impl ICorProfilerInfo9Impl for Runtime {
    unsafe fn GetNativeCodeStartAddresses(
        &self,
        function: FunctionId,
        rejit: ReJitId,
        room: u32,
        needed: *mut u32,
        starts: *mut usize,
    ) -> HResult {
        self.answer("GetNativeCodeStartAddresses", |model| {
            let bodies = model.function(function)?.bodies.iter().filter(|body| body.rejit == rejit);
            let found: Vec<usize> =
                bodies.filter_map(|body| Some(body.pieces.first()?.start_address)).collect();
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, starts, &found) })
        })
    }

    unsafe fn GetILToNativeMapping3(
        &self,
        start: usize,
        room: u32,
        needed: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        self.answer("GetILToNativeMapping3", |model| {
            let body = model.body_at_start(start)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, map, &body.map) })
        })
    }

    unsafe fn GetCodeInfo4(
        &self,
        start: usize,
        room: u32,
        needed: *mut u32,
        pieces: *mut COR_PRF_CODE_INFO,
    ) -> HResult {
        self.answer("GetCodeInfo4", |model| {
            let body = model.body_at_start(start)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, pieces, &body.pieces) })
        })
    }
}

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
