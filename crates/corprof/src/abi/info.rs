//! The interfaces that the runtime implements and a profiler calls (`corprof.idl`), row by row in
//! vtable order.

use core::ffi::c_void;

use com::hresult::E_NOTIMPL;
use com::{ComClass, Guid, HResult, IUnknown, com_interface};

use super::helpers::*;
use super::types::*;
use crate::ids::*;

com_interface! {
    /// Profiler to runtime: the queries of .NET Framework 1.0.
    interface ICorProfilerInfo(ICorProfilerInfoVtbl, ICorProfilerInfoImpl): IUnknown(ComClass)
        = "28B5557D-3F3F-48B4-90B2-5F9EEA2F6C48", default E_NOTIMPL;
    fn GetClassFromObject(object_id: RawObjectId, class_id: *mut ClassId) -> HResult;
    fn GetClassFromToken(module_id: ModuleId, type_def: mdTypeDef, class_id: *mut ClassId) -> HResult;
    fn GetCodeInfo(function_id: FunctionId, start: *mut *const u8, pc_size: *mut u32) -> HResult;
    fn GetEventMask(events: *mut u32) -> HResult;
    fn GetFunctionFromIP(ip: *const u8, function_id: *mut FunctionId) -> HResult;
    fn GetFunctionFromToken(module_id: ModuleId, token: mdToken, function_id: *mut FunctionId) -> HResult;
    fn GetHandleFromThread(thread_id: ThreadId, thread: *mut HANDLE) -> HResult;
    fn GetObjectSize(object_id: RawObjectId, pc_size: *mut u32) -> HResult;
    fn IsArrayClass(
        class_id: ClassId,
        base_elem_type: *mut CorElementType,
        base_class_id: *mut ClassId,
        pc_rank: *mut u32,
    ) -> HResult;
    fn GetThreadInfo(thread_id: ThreadId, win32_thread_id: *mut u32) -> HResult;
    fn GetCurrentThreadID(thread_id: *mut ThreadId) -> HResult;
    fn GetClassIDInfo(class_id: ClassId, module_id: *mut ModuleId, type_def_token: *mut mdTypeDef) -> HResult;
    fn GetFunctionInfo(
        function_id: FunctionId,
        class_id: *mut ClassId,
        module_id: *mut ModuleId,
        token: *mut mdToken,
    ) -> HResult;
    fn SetEventMask(events: u32) -> HResult;
    fn SetEnterLeaveFunctionHooks(
        func_enter: Option<FunctionEnter>,
        func_leave: Option<FunctionLeave>,
        func_tailcall: Option<FunctionTailcall>,
    ) -> HResult;
    fn SetFunctionIDMapper(func: Option<FunctionIDMapper>) -> HResult;
    fn GetTokenAndMetaDataFromFunction(
        function_id: FunctionId,
        iid: *const Guid,
        import: *mut Option<IUnknown>,
        token: *mut mdToken,
    ) -> HResult;
    fn GetModuleInfo(
        module_id: ModuleId,
        base_load_address: *mut *const u8,
        cch_name: u32,
        pcch_name: *mut u32,
        sz_name: *mut u16,
        assembly_id: *mut AssemblyId,
    ) -> HResult;
    fn GetModuleMetaData(module_id: ModuleId, open_flags: u32, iid: *const Guid, out: *mut Option<IUnknown>) -> HResult;
    fn GetILFunctionBody(
        module_id: ModuleId,
        method_id: mdMethodDef,
        method_header: *mut *const u8,
        pcb_method_size: *mut u32,
    ) -> HResult;
    fn GetILFunctionBodyAllocator(module_id: ModuleId, malloc: *mut Option<IMethodMalloc>) -> HResult;
    fn SetILFunctionBody(module_id: ModuleId, methodid: mdMethodDef, new_il_method_header: *const u8) -> HResult;
    fn GetAppDomainInfo(
        app_domain_id: AppDomainId,
        cch_name: u32,
        pcch_name: *mut u32,
        sz_name: *mut u16,
        process_id: *mut ProcessId,
    ) -> HResult;
    fn GetAssemblyInfo(
        assembly_id: AssemblyId,
        cch_name: u32,
        pcch_name: *mut u32,
        sz_name: *mut u16,
        app_domain_id: *mut AppDomainId,
        module_id: *mut ModuleId,
    ) -> HResult;
    fn SetFunctionReJIT(function_id: FunctionId) -> HResult;
    fn ForceGC() -> HResult;
    fn SetILInstrumentedCodeMap(
        function_id: FunctionId,
        start_jit: BOOL,
        c_il_map_entries: u32,
        rg_il_map_entries: *const COR_IL_MAP,
    ) -> HResult;
    fn GetInprocInspectionInterface(debugger: *mut Option<IUnknown>) -> HResult;
    fn GetInprocInspectionIThisThread(debugger: *mut Option<IUnknown>) -> HResult;
    fn GetThreadContext(thread_id: ThreadId, context_id: *mut ContextId) -> HResult;
    fn BeginInprocDebugging(this_thread_only: BOOL, profiler_context: *mut u32) -> HResult;
    fn EndInprocDebugging(profiler_context: u32) -> HResult;
    fn GetILToNativeMapping(
        function_id: FunctionId,
        c_map: u32,
        pc_map: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Framework 2.0: stack snapshots, generics, layouts, statics.
    interface ICorProfilerInfo2(ICorProfilerInfo2Vtbl, ICorProfilerInfo2Impl): ICorProfilerInfo(ICorProfilerInfoImpl)
        = "CC0935CD-A518-487D-B0BB-A93214E65478", default E_NOTIMPL;
    fn DoStackSnapshot(
        thread: ThreadId,
        callback: Option<StackSnapshotCallback>,
        info_flags: u32,
        client_data: *mut c_void,
        context: *const u8,
        context_size: u32,
    ) -> HResult;
    fn SetEnterLeaveFunctionHooks2(
        func_enter: Option<FunctionEnter2>,
        func_leave: Option<FunctionLeave2>,
        func_tailcall: Option<FunctionTailcall2>,
    ) -> HResult;
    fn GetFunctionInfo2(
        func_id: FunctionId,
        frame_info: COR_PRF_FRAME_INFO,
        class_id: *mut ClassId,
        module_id: *mut ModuleId,
        token: *mut mdToken,
        c_type_args: u32,
        pc_type_args: *mut u32,
        type_args: *mut ClassId,
    ) -> HResult;
    fn GetStringLayout(
        buffer_length_offset: *mut u32,
        string_length_offset: *mut u32,
        buffer_offset: *mut u32,
    ) -> HResult;
    fn GetClassLayout(
        class_id: ClassId,
        r_field_offset: *mut COR_FIELD_OFFSET,
        c_field_offset: u32,
        pc_field_offset: *mut u32,
        pul_class_size: *mut u32,
    ) -> HResult;
    fn GetClassIDInfo2(
        class_id: ClassId,
        module_id: *mut ModuleId,
        type_def_token: *mut mdTypeDef,
        parent_class_id: *mut ClassId,
        c_num_type_args: u32,
        pc_num_type_args: *mut u32,
        type_args: *mut ClassId,
    ) -> HResult;
    fn GetCodeInfo2(
        function_id: FunctionId,
        c_code_infos: u32,
        pc_code_infos: *mut u32,
        code_infos: *mut COR_PRF_CODE_INFO,
    ) -> HResult;
    fn GetClassFromTokenAndTypeArgs(
        module_id: ModuleId,
        type_def: mdTypeDef,
        c_type_args: u32,
        type_args: *const ClassId,
        class_id: *mut ClassId,
    ) -> HResult;
    fn GetFunctionFromTokenAndTypeArgs(
        module_id: ModuleId,
        func_def: mdMethodDef,
        class_id: ClassId,
        c_type_args: u32,
        type_args: *const ClassId,
        function_id: *mut FunctionId,
    ) -> HResult;
    fn EnumModuleFrozenObjects(module_id: ModuleId, enumerator: *mut Option<ICorProfilerObjectEnum>) -> HResult;
    fn GetArrayObjectInfo(
        object_id: RawObjectId,
        c_dimensions: u32,
        dimension_sizes: *mut u32,
        dimension_lower_bounds: *mut i32,
        data: *mut *mut u8,
    ) -> HResult;
    fn GetBoxClassLayout(class_id: ClassId, buffer_offset: *mut u32) -> HResult;
    fn GetThreadAppDomain(thread_id: ThreadId, app_domain_id: *mut AppDomainId) -> HResult;
    fn GetRVAStaticAddress(class_id: ClassId, field_token: mdFieldDef, address: *mut *mut c_void) -> HResult;
    fn GetAppDomainStaticAddress(
        class_id: ClassId,
        field_token: mdFieldDef,
        app_domain_id: AppDomainId,
        address: *mut *mut c_void,
    ) -> HResult;
    fn GetThreadStaticAddress(
        class_id: ClassId,
        field_token: mdFieldDef,
        thread_id: ThreadId,
        address: *mut *mut c_void,
    ) -> HResult;
    fn GetContextStaticAddress(
        class_id: ClassId,
        field_token: mdFieldDef,
        context_id: ContextId,
        address: *mut *mut c_void,
    ) -> HResult;
    fn GetStaticFieldInfo(class_id: ClassId, field_token: mdFieldDef, field_info: *mut COR_PRF_STATIC_TYPE) -> HResult;
    fn GetGenerationBounds(
        c_object_ranges: u32,
        pc_object_ranges: *mut u32,
        ranges: *mut COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult;
    fn GetObjectGeneration(object_id: RawObjectId, range: *mut COR_PRF_GC_GENERATION_RANGE) -> HResult;
    fn GetNotifiedExceptionClauseInfo(pinfo: *mut COR_PRF_EX_CLAUSE_INFO) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Framework 4: attach and detach, enumerations of what is
    /// loaded.
    interface ICorProfilerInfo3(ICorProfilerInfo3Vtbl, ICorProfilerInfo3Impl): ICorProfilerInfo2(ICorProfilerInfo2Impl)
        = "B555ED4F-452A-4E54-8B39-B5360BAD32A0", default E_NOTIMPL;
    fn EnumJITedFunctions(enumerator: *mut Option<ICorProfilerFunctionEnum>) -> HResult;
    fn RequestProfilerDetach(expected_completion_milliseconds: u32) -> HResult;
    fn SetFunctionIDMapper2(func: Option<FunctionIDMapper2>, client_data: *mut c_void) -> HResult;
    fn GetStringLayout2(string_length_offset: *mut u32, buffer_offset: *mut u32) -> HResult;
    fn SetEnterLeaveFunctionHooks3(
        func_enter3: Option<FunctionEnter3>,
        func_leave3: Option<FunctionLeave3>,
        func_tailcall3: Option<FunctionTailcall3>,
    ) -> HResult;
    fn SetEnterLeaveFunctionHooks3WithInfo(
        func_enter3_with_info: Option<FunctionEnter3WithInfo>,
        func_leave3_with_info: Option<FunctionLeave3WithInfo>,
        func_tailcall3_with_info: Option<FunctionTailcall3WithInfo>,
    ) -> HResult;
    fn GetFunctionEnter3Info(
        function_id: FunctionId,
        elt_info: COR_PRF_ELT_INFO,
        frame_info: *mut COR_PRF_FRAME_INFO,
        pcb_argument_info: *mut u32,
        argument_info: *mut COR_PRF_FUNCTION_ARGUMENT_INFO,
    ) -> HResult;
    fn GetFunctionLeave3Info(
        function_id: FunctionId,
        elt_info: COR_PRF_ELT_INFO,
        frame_info: *mut COR_PRF_FRAME_INFO,
        retval_range: *mut COR_PRF_FUNCTION_ARGUMENT_RANGE,
    ) -> HResult;
    fn GetFunctionTailcall3Info(
        function_id: FunctionId,
        elt_info: COR_PRF_ELT_INFO,
        frame_info: *mut COR_PRF_FRAME_INFO,
    ) -> HResult;
    fn EnumModules(enumerator: *mut Option<ICorProfilerModuleEnum>) -> HResult;
    fn GetRuntimeInformation(
        clr_instance_id: *mut u16,
        runtime_type: *mut COR_PRF_RUNTIME_TYPE,
        major_version: *mut u16,
        minor_version: *mut u16,
        build_number: *mut u16,
        qfe_version: *mut u16,
        cch_version_string: u32,
        pcch_version_string: *mut u32,
        sz_version_string: *mut u16,
    ) -> HResult;
    fn GetThreadStaticAddress2(
        class_id: ClassId,
        field_token: mdFieldDef,
        app_domain_id: AppDomainId,
        thread_id: ThreadId,
        address: *mut *mut c_void,
    ) -> HResult;
    fn GetAppDomainsContainingModule(
        module_id: ModuleId,
        c_app_domain_ids: u32,
        pc_app_domain_ids: *mut u32,
        app_domain_ids: *mut AppDomainId,
    ) -> HResult;
    fn GetModuleInfo2(
        module_id: ModuleId,
        base_load_address: *mut *const u8,
        cch_name: u32,
        pcch_name: *mut u32,
        sz_name: *mut u16,
        assembly_id: *mut AssemblyId,
        module_flags: *mut u32,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Framework 4.5: ReJIT, thread enumeration, 64-bit object
    /// sizes.
    interface ICorProfilerInfo4(ICorProfilerInfo4Vtbl, ICorProfilerInfo4Impl): ICorProfilerInfo3(ICorProfilerInfo3Impl)
        = "0D8FDCAA-6257-47BF-B1BF-94DAC88466EE", default E_NOTIMPL;
    fn EnumThreads(enumerator: *mut Option<ICorProfilerThreadEnum>) -> HResult;
    fn InitializeCurrentThread() -> HResult;
    fn RequestReJIT(c_functions: u32, module_ids: *const ModuleId, method_ids: *const mdMethodDef) -> HResult;
    fn RequestRevert(
        c_functions: u32,
        module_ids: *const ModuleId,
        method_ids: *const mdMethodDef,
        status: *mut HResult,
    ) -> HResult;
    fn GetCodeInfo3(
        function_id: FunctionId,
        re_jit_id: ReJitId,
        c_code_infos: u32,
        pc_code_infos: *mut u32,
        code_infos: *mut COR_PRF_CODE_INFO,
    ) -> HResult;
    fn GetFunctionFromIP2(ip: *const u8, function_id: *mut FunctionId, re_jit_id: *mut ReJitId) -> HResult;
    fn GetReJITIDs(
        function_id: FunctionId,
        c_re_jit_ids: u32,
        pc_re_jit_ids: *mut u32,
        re_jit_ids: *mut ReJitId,
    ) -> HResult;
    fn GetILToNativeMapping2(
        function_id: FunctionId,
        re_jit_id: ReJitId,
        c_map: u32,
        pc_map: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult;
    fn EnumJITedFunctions2(enumerator: *mut Option<ICorProfilerFunctionEnum>) -> HResult;
    fn GetObjectSize2(object_id: RawObjectId, pc_size: *mut usize) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Framework 4.5.2: the event mask's upper half.
    interface ICorProfilerInfo5(ICorProfilerInfo5Vtbl, ICorProfilerInfo5Impl): ICorProfilerInfo4(ICorProfilerInfo4Impl)
        = "07602928-CE38-4B83-81E7-74ADAF781214", default E_NOTIMPL;
    fn GetEventMask2(events_low: *mut u32, events_high: *mut u32) -> HResult;
    fn SetEventMask2(events_low: u32, events_high: u32) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Framework 4.6: who inlined a method.
    interface ICorProfilerInfo6(ICorProfilerInfo6Vtbl, ICorProfilerInfo6Impl): ICorProfilerInfo5(ICorProfilerInfo5Impl)
        = "F30A070D-BFFB-46A7-B1D8-8781EF7B698A", default E_NOTIMPL;
    fn EnumNgenModuleMethodsInliningThisMethod(
        inliners_module_id: ModuleId,
        inlinee_module_id: ModuleId,
        inlinee_method_id: mdMethodDef,
        incomplete_data: *mut BOOL,
        enumerator: *mut Option<ICorProfilerMethodEnum>,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Framework 4.6.1: added metadata, symbols of in-memory
    /// modules.
    interface ICorProfilerInfo7(ICorProfilerInfo7Vtbl, ICorProfilerInfo7Impl): ICorProfilerInfo6(ICorProfilerInfo6Impl)
        = "9AEECC0D-63E0-4187-8C00-E312F503F663", default E_NOTIMPL;
    fn ApplyMetaData(module_id: ModuleId) -> HResult;
    fn GetInMemorySymbolsLength(module_id: ModuleId, count_symbol_bytes: *mut u32) -> HResult;
    fn ReadInMemorySymbols(
        module_id: ModuleId,
        symbols_read_offset: u32,
        symbol_bytes: *mut u8,
        count_symbol_bytes: u32,
        count_symbol_bytes_read: *mut u32,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Core 2.0: dynamic methods.
    interface ICorProfilerInfo8(ICorProfilerInfo8Vtbl, ICorProfilerInfo8Impl): ICorProfilerInfo7(ICorProfilerInfo7Impl)
        = "C5AC80A6-782E-4716-8044-39598C60CFBF", default E_NOTIMPL;
    fn IsFunctionDynamic(function_id: FunctionId, is_dynamic: *mut BOOL) -> HResult;
    fn GetFunctionFromIP3(ip: *const u8, function_id: *mut FunctionId, re_jit_id: *mut ReJitId) -> HResult;
    fn GetDynamicFunctionInfo(
        function_id: FunctionId,
        module_id: *mut ModuleId,
        ppv_sig: *mut *const u8,
        sig: *mut u32,
        cch_name: u32,
        pcch_name: *mut u32,
        wsz_name: *mut u16,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Core 2.1: every native body of a method.
    interface ICorProfilerInfo9(ICorProfilerInfo9Vtbl, ICorProfilerInfo9Impl): ICorProfilerInfo8(ICorProfilerInfo8Impl)
        = "008170DB-F8CC-4796-9A51-DC8AA0B47012", default E_NOTIMPL;
    fn GetNativeCodeStartAddresses(
        function_id: FunctionId,
        re_jit_id: ReJitId,
        c_code_start_addresses: u32,
        pc_code_start_addresses: *mut u32,
        code_start_addresses: *mut usize,
    ) -> HResult;
    fn GetILToNativeMapping3(
        native_code_start_address: usize,
        c_map: u32,
        pc_map: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult;
    fn GetCodeInfo4(
        native_code_start_address: usize,
        c_code_infos: u32,
        pc_code_infos: *mut u32,
        code_infos: *mut COR_PRF_CODE_INFO,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Core 3.0: object references, suspension of the runtime.
    interface ICorProfilerInfo10(ICorProfilerInfo10Vtbl, ICorProfilerInfo10Impl): ICorProfilerInfo9(ICorProfilerInfo9Impl)
        = "2F1B5152-C869-40C9-AA5F-3ABE026BD720", default E_NOTIMPL;
    fn EnumerateObjectReferences(
        object_id: RawObjectId,
        callback: Option<ObjectReferenceCallback>,
        client_data: *mut c_void,
    ) -> HResult;
    fn IsFrozenObject(object_id: RawObjectId, frozen: *mut BOOL) -> HResult;
    fn GetLOHObjectSizeThreshold(threshold: *mut u32) -> HResult;
    fn RequestReJITWithInliners(
        rejit_flags: u32,
        c_functions: u32,
        module_ids: *const ModuleId,
        method_ids: *const mdMethodDef,
    ) -> HResult;
    fn SuspendRuntime() -> HResult;
    fn ResumeRuntime() -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET Core 3.1: the runtime's environment variables.
    interface ICorProfilerInfo11(ICorProfilerInfo11Vtbl, ICorProfilerInfo11Impl): ICorProfilerInfo10(ICorProfilerInfo10Impl)
        = "06398876-8987-4154-B621-40A00D6E4D04", default E_NOTIMPL;
    fn GetEnvironmentVariable(sz_name: *const u16, cch_value: u32, pcch_value: *mut u32, sz_value: *mut u16) -> HResult;
    fn SetEnvironmentVariable(sz_name: *const u16, sz_value: *const u16) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET 5: EventPipe sessions, providers and events.
    interface ICorProfilerInfo12(ICorProfilerInfo12Vtbl, ICorProfilerInfo12Impl): ICorProfilerInfo11(ICorProfilerInfo11Impl)
        = "27B24CCD-1CB1-47C5-96EE-98190DC30959", default E_NOTIMPL;
    fn EventPipeStartSession(
        c_provider_configs: u32,
        provider_configs: *const COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
        request_rundown: BOOL,
        session: *mut EVENTPIPE_SESSION,
    ) -> HResult;
    fn EventPipeAddProviderToSession(
        session: EVENTPIPE_SESSION,
        provider_config: COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
    ) -> HResult;
    fn EventPipeStopSession(session: EVENTPIPE_SESSION) -> HResult;
    fn EventPipeCreateProvider(provider_name: *const u16, provider: *mut EVENTPIPE_PROVIDER) -> HResult;
    fn EventPipeGetProviderInfo(
        provider: EVENTPIPE_PROVIDER,
        cch_name: u32,
        pcch_name: *mut u32,
        provider_name: *mut u16,
    ) -> HResult;
    fn EventPipeDefineEvent(
        provider: EVENTPIPE_PROVIDER,
        event_name: *const u16,
        event_id: u32,
        keywords: u64,
        event_version: u32,
        level: u32,
        opcode: u8,
        need_stack: BOOL,
        c_param_descs: u32,
        param_descs: *const COR_PRF_EVENTPIPE_PARAM_DESC,
        event: *mut EVENTPIPE_EVENT,
    ) -> HResult;
    fn EventPipeWriteEvent(
        event: EVENTPIPE_EVENT,
        c_data: u32,
        data: *const COR_PRF_EVENT_DATA,
        activity_id: *const Guid,
        related_activity_id: *const Guid,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET 7: handles to objects.
    interface ICorProfilerInfo13(ICorProfilerInfo13Vtbl, ICorProfilerInfo13Impl): ICorProfilerInfo12(ICorProfilerInfo12Impl)
        = "6E6C7EE2-0701-4EC2-9D29-2E8733B66934", default E_NOTIMPL;
    fn CreateHandle(object: RawObjectId, kind: COR_PRF_HANDLE_TYPE, handle: *mut ObjectHandleID) -> HResult;
    fn DestroyHandle(handle: ObjectHandleID) -> HResult;
    fn GetObjectIDFromHandle(handle: ObjectHandleID, object: *mut RawObjectId) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET 8: objects outside of the collected heap.
    interface ICorProfilerInfo14(ICorProfilerInfo14Vtbl, ICorProfilerInfo14Impl): ICorProfilerInfo13(ICorProfilerInfo13Impl)
        = "F460E352-D76D-4FE9-835F-F6AF9D6E862D", default E_NOTIMPL;
    fn EnumerateNonGCObjects(enumerator: *mut Option<ICorProfilerObjectEnum>) -> HResult;
    fn GetNonGCHeapBounds(
        c_object_ranges: u32,
        pc_object_ranges: *mut u32,
        ranges: *mut COR_PRF_NONGC_HEAP_RANGE,
    ) -> HResult;
    fn EventPipeCreateProvider2(
        provider_name: *const u16,
        callback: Option<EventPipeProviderCallback>,
        provider: *mut EVENTPIPE_PROVIDER,
    ) -> HResult;
}

com_interface! {
    /// Profiler to runtime, since .NET 9: enumeration of the collected heap.
    interface ICorProfilerInfo15(ICorProfilerInfo15Vtbl, ICorProfilerInfo15Impl): ICorProfilerInfo14(ICorProfilerInfo14Impl)
        = "B446462D-BD22-41DD-872D-DC714C49EB56", default E_NOTIMPL;
    fn EnumerateGCHeapObjects(callback: Option<ObjectCallback>, callback_state: *mut c_void) -> HResult;
}
