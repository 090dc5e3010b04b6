//! The interfaces that a profiler implements and the runtime calls (`corprof.idl`), row by row in
//! vtable order.

use core::ffi::c_void;

use com::hresult::S_OK;
use com::{ComClass, Guid, HResult, IUnknown, InterfaceRef, com_interface};

use super::helpers::{ICorProfilerAssemblyReferenceProvider, ICorProfilerFunctionControl};
use super::types::*;
use crate::ids::*;

com_interface! {
    /// Runtime to profiler: the events of .NET Framework 1.0.
    interface ICorProfilerCallback(ICorProfilerCallbackVtbl, ICorProfilerCallbackImpl): IUnknown(ComClass)
        = "176FBED1-A55C-4796-98CA-A9DA0EF883E7", default S_OK;
    fn Initialize(i_cor_profiler_info_unk: Option<InterfaceRef<'_, IUnknown>>) -> HResult;
    fn Shutdown() -> HResult;
    fn AppDomainCreationStarted(app_domain_id: AppDomainId) -> HResult;
    fn AppDomainCreationFinished(app_domain_id: AppDomainId, hr_status: HResult) -> HResult;
    fn AppDomainShutdownStarted(app_domain_id: AppDomainId) -> HResult;
    fn AppDomainShutdownFinished(app_domain_id: AppDomainId, hr_status: HResult) -> HResult;
    fn AssemblyLoadStarted(assembly_id: AssemblyId) -> HResult;
    fn AssemblyLoadFinished(assembly_id: AssemblyId, hr_status: HResult) -> HResult;
    fn AssemblyUnloadStarted(assembly_id: AssemblyId) -> HResult;
    fn AssemblyUnloadFinished(assembly_id: AssemblyId, hr_status: HResult) -> HResult;
    fn ModuleLoadStarted(module_id: ModuleId) -> HResult;
    fn ModuleLoadFinished(module_id: ModuleId, hr_status: HResult) -> HResult;
    fn ModuleUnloadStarted(module_id: ModuleId) -> HResult;
    fn ModuleUnloadFinished(module_id: ModuleId, hr_status: HResult) -> HResult;
    fn ModuleAttachedToAssembly(module_id: ModuleId, assembly_id: AssemblyId) -> HResult;
    fn ClassLoadStarted(class_id: ClassId) -> HResult;
    fn ClassLoadFinished(class_id: ClassId, hr_status: HResult) -> HResult;
    fn ClassUnloadStarted(class_id: ClassId) -> HResult;
    fn ClassUnloadFinished(class_id: ClassId, hr_status: HResult) -> HResult;
    fn FunctionUnloadStarted(function_id: FunctionId) -> HResult;
    fn JITCompilationStarted(function_id: FunctionId, is_safe_to_block: BOOL) -> HResult;
    fn JITCompilationFinished(function_id: FunctionId, hr_status: HResult, is_safe_to_block: BOOL) -> HResult;
    fn JITCachedFunctionSearchStarted(function_id: FunctionId, use_cached_function: *mut BOOL) -> HResult;
    fn JITCachedFunctionSearchFinished(function_id: FunctionId, result: COR_PRF_JIT_CACHE) -> HResult;
    fn JITFunctionPitched(function_id: FunctionId) -> HResult;
    fn JITInlining(caller_id: FunctionId, callee_id: FunctionId, should_inline: *mut BOOL) -> HResult;
    fn ThreadCreated(thread_id: ThreadId) -> HResult;
    fn ThreadDestroyed(thread_id: ThreadId) -> HResult;
    fn ThreadAssignedToOSThread(managed_thread_id: ThreadId, os_thread_id: u32) -> HResult;
    fn RemotingClientInvocationStarted() -> HResult;
    fn RemotingClientSendingMessage(cookie: *const Guid, is_async: BOOL) -> HResult;
    fn RemotingClientReceivingReply(cookie: *const Guid, is_async: BOOL) -> HResult;
    fn RemotingClientInvocationFinished() -> HResult;
    fn RemotingServerReceivingMessage(cookie: *const Guid, is_async: BOOL) -> HResult;
    fn RemotingServerInvocationStarted() -> HResult;
    fn RemotingServerInvocationReturned() -> HResult;
    fn RemotingServerSendingReply(cookie: *const Guid, is_async: BOOL) -> HResult;
    fn UnmanagedToManagedTransition(function_id: FunctionId, reason: COR_PRF_TRANSITION_REASON) -> HResult;
    fn ManagedToUnmanagedTransition(function_id: FunctionId, reason: COR_PRF_TRANSITION_REASON) -> HResult;
    fn RuntimeSuspendStarted(suspend_reason: COR_PRF_SUSPEND_REASON) -> HResult;
    fn RuntimeSuspendFinished() -> HResult;
    fn RuntimeSuspendAborted() -> HResult;
    fn RuntimeResumeStarted() -> HResult;
    fn RuntimeResumeFinished() -> HResult;
    fn RuntimeThreadSuspended(thread_id: ThreadId) -> HResult;
    fn RuntimeThreadResumed(thread_id: ThreadId) -> HResult;
    fn MovedReferences(
        c_moved_object_id_ranges: u32,
        old_object_id_range_start: *const RawObjectId,
        new_object_id_range_start: *const RawObjectId,
        c_object_id_range_length: *const u32,
    ) -> HResult;
    fn ObjectAllocated(object_id: RawObjectId, class_id: ClassId) -> HResult;
    fn ObjectsAllocatedByClass(c_class_count: u32, class_ids: *const ClassId, c_objects: *const u32) -> HResult;
    fn ObjectReferences(
        object_id: RawObjectId,
        class_id: ClassId,
        c_object_refs: u32,
        object_ref_ids: *const RawObjectId,
    ) -> HResult;
    fn RootReferences(c_root_refs: u32, root_ref_ids: *const RawObjectId) -> HResult;
    fn ExceptionThrown(thrown_object_id: RawObjectId) -> HResult;
    fn ExceptionSearchFunctionEnter(function_id: FunctionId) -> HResult;
    fn ExceptionSearchFunctionLeave() -> HResult;
    fn ExceptionSearchFilterEnter(function_id: FunctionId) -> HResult;
    fn ExceptionSearchFilterLeave() -> HResult;
    fn ExceptionSearchCatcherFound(function_id: FunctionId) -> HResult;
    fn ExceptionOSHandlerEnter(unused: usize) -> HResult;
    fn ExceptionOSHandlerLeave(unused: usize) -> HResult;
    fn ExceptionUnwindFunctionEnter(function_id: FunctionId) -> HResult;
    fn ExceptionUnwindFunctionLeave() -> HResult;
    fn ExceptionUnwindFinallyEnter(function_id: FunctionId) -> HResult;
    fn ExceptionUnwindFinallyLeave() -> HResult;
    fn ExceptionCatcherEnter(function_id: FunctionId, object_id: RawObjectId) -> HResult;
    fn ExceptionCatcherLeave() -> HResult;
    fn COMClassicVTableCreated(
        wrapped_class_id: ClassId,
        implemented_iid: *const Guid,
        v_table: *mut c_void,
        c_slots: u32,
    ) -> HResult;
    fn COMClassicVTableDestroyed(
        wrapped_class_id: ClassId,
        implemented_iid: *const Guid,
        v_table: *mut c_void,
    ) -> HResult;
    fn ExceptionCLRCatcherFound() -> HResult;
    fn ExceptionCLRCatcherExecute() -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Framework 2.0: collections, survivors, root kinds, handles,
    /// thread names.
    interface ICorProfilerCallback2(ICorProfilerCallback2Vtbl, ICorProfilerCallback2Impl): ICorProfilerCallback(ICorProfilerCallbackImpl)
        = "8A8CC829-CCF2-49FE-BBAE-0F022228071A", default S_OK;
    fn ThreadNameChanged(thread_id: ThreadId, cch_name: u32, name: *const u16) -> HResult;
    fn GarbageCollectionStarted(
        c_generations: i32,
        generation_collected: *const BOOL,
        reason: COR_PRF_GC_REASON,
    ) -> HResult;
    fn SurvivingReferences(
        c_surviving_object_id_ranges: u32,
        object_id_range_start: *const RawObjectId,
        c_object_id_range_length: *const u32,
    ) -> HResult;
    fn GarbageCollectionFinished() -> HResult;
    fn FinalizeableObjectQueued(finalizer_flags: u32, object_id: RawObjectId) -> HResult;
    fn RootReferences2(
        c_root_refs: u32,
        root_ref_ids: *const RawObjectId,
        root_kinds: *const COR_PRF_GC_ROOT_KIND,
        root_flags: *const COR_PRF_GC_ROOT_FLAGS,
        root_ids: *const usize,
    ) -> HResult;
    fn HandleCreated(handle_id: GcHandleId, initial_object_id: RawObjectId) -> HResult;
    fn HandleDestroyed(handle_id: GcHandleId) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Framework 4: attach and detach.
    interface ICorProfilerCallback3(ICorProfilerCallback3Vtbl, ICorProfilerCallback3Impl): ICorProfilerCallback2(ICorProfilerCallback2Impl)
        = "4FD2ED52-7731-4B8D-9469-03D2CC3086C5", default S_OK;
    fn InitializeForAttach(
        cor_profiler_info_unk: Option<InterfaceRef<'_, IUnknown>>,
        pv_client_data: *mut c_void,
        cb_client_data: u32,
    ) -> HResult;
    fn ProfilerAttachComplete() -> HResult;
    fn ProfilerDetachSucceeded() -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Framework 4.5: ReJIT, object ranges with 64-bit lengths.
    interface ICorProfilerCallback4(ICorProfilerCallback4Vtbl, ICorProfilerCallback4Impl): ICorProfilerCallback3(ICorProfilerCallback3Impl)
        = "7B63B2E3-107D-4D48-B2F6-F61E229470D2", default S_OK;
    fn ReJITCompilationStarted(function_id: FunctionId, rejit_id: ReJitId, is_safe_to_block: BOOL) -> HResult;
    fn GetReJITParameters(
        module_id: ModuleId,
        method_id: mdMethodDef,
        function_control: Option<InterfaceRef<'_, ICorProfilerFunctionControl>>,
    ) -> HResult;
    fn ReJITCompilationFinished(
        function_id: FunctionId,
        rejit_id: ReJitId,
        hr_status: HResult,
        is_safe_to_block: BOOL,
    ) -> HResult;
    fn ReJITError(module_id: ModuleId, method_id: mdMethodDef, function_id: FunctionId, hr_status: HResult) -> HResult;
    fn MovedReferences2(
        c_moved_object_id_ranges: u32,
        old_object_id_range_start: *const RawObjectId,
        new_object_id_range_start: *const RawObjectId,
        c_object_id_range_length: *const usize,
    ) -> HResult;
    fn SurvivingReferences2(
        c_surviving_object_id_ranges: u32,
        object_id_range_start: *const RawObjectId,
        c_object_id_range_length: *const usize,
    ) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Framework 4.5: dependent handles.
    interface ICorProfilerCallback5(ICorProfilerCallback5Vtbl, ICorProfilerCallback5Impl): ICorProfilerCallback4(ICorProfilerCallback4Impl)
        = "8DFBA405-8C9F-45F8-BFFA-83B14CEF78B5", default S_OK;
    fn ConditionalWeakTableElementReferences(
        c_root_refs: u32,
        key_ref_ids: *const RawObjectId,
        value_ref_ids: *const RawObjectId,
        root_ids: *const GcHandleId,
    ) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Framework 4.5.2: assembly references to be declared.
    interface ICorProfilerCallback6(ICorProfilerCallback6Vtbl, ICorProfilerCallback6Impl): ICorProfilerCallback5(ICorProfilerCallback5Impl)
        = "FC13DF4B-4448-4F4F-950C-BA8D19D00C36", default S_OK;
    fn GetAssemblyReferences(
        wsz_assembly_path: *const u16,
        asm_ref_provider: Option<InterfaceRef<'_, ICorProfilerAssemblyReferenceProvider>>,
    ) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Framework 4.6.1: symbols of in-memory modules.
    interface ICorProfilerCallback7(ICorProfilerCallback7Vtbl, ICorProfilerCallback7Impl): ICorProfilerCallback6(ICorProfilerCallback6Impl)
        = "F76A2DBA-1D52-4539-866C-2AA518F9EFC3", default S_OK;
    fn ModuleInMemorySymbolsUpdated(module_id: ModuleId) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Core 2.0: dynamic methods.
    interface ICorProfilerCallback8(ICorProfilerCallback8Vtbl, ICorProfilerCallback8Impl): ICorProfilerCallback7(ICorProfilerCallback7Impl)
        = "5BED9B15-C079-4D47-BFE2-215A140C07E0", default S_OK;
    fn DynamicMethodJITCompilationStarted(
        function_id: FunctionId,
        is_safe_to_block: BOOL,
        il_header: *const u8,
        cb_il_header: u32,
    ) -> HResult;
    fn DynamicMethodJITCompilationFinished(
        function_id: FunctionId,
        hr_status: HResult,
        is_safe_to_block: BOOL,
    ) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET Core 2.1: unloading of dynamic methods.
    interface ICorProfilerCallback9(ICorProfilerCallback9Vtbl, ICorProfilerCallback9Impl): ICorProfilerCallback8(ICorProfilerCallback8Impl)
        = "27583EC3-C8F5-482F-8052-194B8CE4705A", default S_OK;
    fn DynamicMethodUnloaded(function_id: FunctionId) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET 5: EventPipe events.
    interface ICorProfilerCallback10(ICorProfilerCallback10Vtbl, ICorProfilerCallback10Impl): ICorProfilerCallback9(ICorProfilerCallback9Impl)
        = "CEC5B60E-C69C-495F-87F6-84D28EE16FFB", default S_OK;
    fn EventPipeEventDelivered(
        provider: EVENTPIPE_PROVIDER,
        event_id: u32,
        event_version: u32,
        cb_metadata_blob: u32,
        metadata_blob: *const u8,
        cb_event_data: u32,
        event_data: *const u8,
        activity_id: *const Guid,
        related_activity_id: *const Guid,
        event_thread: ThreadId,
        num_stack_frames: u32,
        stack_frames: *const usize,
    ) -> HResult;
    fn EventPipeProviderCreated(provider: EVENTPIPE_PROVIDER) -> HResult;
}

com_interface! {
    /// Runtime to profiler, since .NET 6: notification-only profilers.
    interface ICorProfilerCallback11(ICorProfilerCallback11Vtbl, ICorProfilerCallback11Impl): ICorProfilerCallback10(ICorProfilerCallback10Impl)
        = "42350846-AAED-47F7-B128-FD0C98881CDE", default S_OK;
    fn LoadAsNotificationOnly(notification_only: *mut BOOL) -> HResult;
}
