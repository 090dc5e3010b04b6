//! Every slot of every table, against positions counted in the C vtables of the runtime's generated
//! header, which is another source than the one the tables were written from.

use core::mem::{align_of, offset_of, size_of};

use com::Interface;

use super::*;

const SLOT: usize = size_of::<usize>();

/// `Table, first own slot: methods in order;`
macro_rules! assert_slots {
    ($($table:ident, $first:literal: $($method:ident)*;)*) => {
        #[test]
        fn every_slot_is_in_its_place() {
            let mut checked = 0;
            $(
                let mut slot: usize = $first;
                $(
                    assert_eq!(
                        offset_of!($table, $method),
                        slot * SLOT,
                        concat!(stringify!($table), "::", stringify!($method))
                    );
                    slot += 1;
                    checked += 1;
                )*
                assert_eq!(size_of::<$table>(), slot * SLOT, stringify!($table));
            )*
            assert_eq!(checked, 237);
        }
    };
}

assert_slots! {
    ICorProfilerCallbackVtbl, 3: Initialize Shutdown AppDomainCreationStarted AppDomainCreationFinished AppDomainShutdownStarted AppDomainShutdownFinished AssemblyLoadStarted AssemblyLoadFinished AssemblyUnloadStarted AssemblyUnloadFinished ModuleLoadStarted ModuleLoadFinished ModuleUnloadStarted ModuleUnloadFinished ModuleAttachedToAssembly ClassLoadStarted ClassLoadFinished ClassUnloadStarted ClassUnloadFinished FunctionUnloadStarted JITCompilationStarted JITCompilationFinished JITCachedFunctionSearchStarted JITCachedFunctionSearchFinished JITFunctionPitched JITInlining ThreadCreated ThreadDestroyed ThreadAssignedToOSThread RemotingClientInvocationStarted RemotingClientSendingMessage RemotingClientReceivingReply RemotingClientInvocationFinished RemotingServerReceivingMessage RemotingServerInvocationStarted RemotingServerInvocationReturned RemotingServerSendingReply UnmanagedToManagedTransition ManagedToUnmanagedTransition RuntimeSuspendStarted RuntimeSuspendFinished RuntimeSuspendAborted RuntimeResumeStarted RuntimeResumeFinished RuntimeThreadSuspended RuntimeThreadResumed MovedReferences ObjectAllocated ObjectsAllocatedByClass ObjectReferences RootReferences ExceptionThrown ExceptionSearchFunctionEnter ExceptionSearchFunctionLeave ExceptionSearchFilterEnter ExceptionSearchFilterLeave ExceptionSearchCatcherFound ExceptionOSHandlerEnter ExceptionOSHandlerLeave ExceptionUnwindFunctionEnter ExceptionUnwindFunctionLeave ExceptionUnwindFinallyEnter ExceptionUnwindFinallyLeave ExceptionCatcherEnter ExceptionCatcherLeave COMClassicVTableCreated COMClassicVTableDestroyed ExceptionCLRCatcherFound ExceptionCLRCatcherExecute;
    ICorProfilerCallback2Vtbl, 72: ThreadNameChanged GarbageCollectionStarted SurvivingReferences GarbageCollectionFinished FinalizeableObjectQueued RootReferences2 HandleCreated HandleDestroyed;
    ICorProfilerCallback3Vtbl, 80: InitializeForAttach ProfilerAttachComplete ProfilerDetachSucceeded;
    ICorProfilerCallback4Vtbl, 83: ReJITCompilationStarted GetReJITParameters ReJITCompilationFinished ReJITError MovedReferences2 SurvivingReferences2;
    ICorProfilerCallback5Vtbl, 89: ConditionalWeakTableElementReferences;
    ICorProfilerCallback6Vtbl, 90: GetAssemblyReferences;
    ICorProfilerCallback7Vtbl, 91: ModuleInMemorySymbolsUpdated;
    ICorProfilerCallback8Vtbl, 92: DynamicMethodJITCompilationStarted DynamicMethodJITCompilationFinished;
    ICorProfilerCallback9Vtbl, 94: DynamicMethodUnloaded;
    ICorProfilerCallback10Vtbl, 95: EventPipeEventDelivered EventPipeProviderCreated;
    ICorProfilerCallback11Vtbl, 97: LoadAsNotificationOnly;
    ICorProfilerInfoVtbl, 3: GetClassFromObject GetClassFromToken GetCodeInfo GetEventMask GetFunctionFromIP GetFunctionFromToken GetHandleFromThread GetObjectSize IsArrayClass GetThreadInfo GetCurrentThreadID GetClassIDInfo GetFunctionInfo SetEventMask SetEnterLeaveFunctionHooks SetFunctionIDMapper GetTokenAndMetaDataFromFunction GetModuleInfo GetModuleMetaData GetILFunctionBody GetILFunctionBodyAllocator SetILFunctionBody GetAppDomainInfo GetAssemblyInfo SetFunctionReJIT ForceGC SetILInstrumentedCodeMap GetInprocInspectionInterface GetInprocInspectionIThisThread GetThreadContext BeginInprocDebugging EndInprocDebugging GetILToNativeMapping;
    ICorProfilerInfo2Vtbl, 36: DoStackSnapshot SetEnterLeaveFunctionHooks2 GetFunctionInfo2 GetStringLayout GetClassLayout GetClassIDInfo2 GetCodeInfo2 GetClassFromTokenAndTypeArgs GetFunctionFromTokenAndTypeArgs EnumModuleFrozenObjects GetArrayObjectInfo GetBoxClassLayout GetThreadAppDomain GetRVAStaticAddress GetAppDomainStaticAddress GetThreadStaticAddress GetContextStaticAddress GetStaticFieldInfo GetGenerationBounds GetObjectGeneration GetNotifiedExceptionClauseInfo;
    ICorProfilerInfo3Vtbl, 57: EnumJITedFunctions RequestProfilerDetach SetFunctionIDMapper2 GetStringLayout2 SetEnterLeaveFunctionHooks3 SetEnterLeaveFunctionHooks3WithInfo GetFunctionEnter3Info GetFunctionLeave3Info GetFunctionTailcall3Info EnumModules GetRuntimeInformation GetThreadStaticAddress2 GetAppDomainsContainingModule GetModuleInfo2;
    ICorProfilerObjectEnumVtbl, 3: Skip Reset Clone GetCount Next;
    ICorProfilerFunctionEnumVtbl, 3: Skip Reset Clone GetCount Next;
    ICorProfilerModuleEnumVtbl, 3: Skip Reset Clone GetCount Next;
    IMethodMallocVtbl, 3: Alloc;
    ICorProfilerFunctionControlVtbl, 3: SetCodegenFlags SetILFunctionBody SetILInstrumentedCodeMap;
    ICorProfilerInfo4Vtbl, 71: EnumThreads InitializeCurrentThread RequestReJIT RequestRevert GetCodeInfo3 GetFunctionFromIP2 GetReJITIDs GetILToNativeMapping2 EnumJITedFunctions2 GetObjectSize2;
    ICorProfilerInfo5Vtbl, 81: GetEventMask2 SetEventMask2;
    ICorProfilerInfo6Vtbl, 83: EnumNgenModuleMethodsInliningThisMethod;
    ICorProfilerInfo7Vtbl, 84: ApplyMetaData GetInMemorySymbolsLength ReadInMemorySymbols;
    ICorProfilerInfo8Vtbl, 87: IsFunctionDynamic GetFunctionFromIP3 GetDynamicFunctionInfo;
    ICorProfilerInfo9Vtbl, 90: GetNativeCodeStartAddresses GetILToNativeMapping3 GetCodeInfo4;
    ICorProfilerInfo10Vtbl, 93: EnumerateObjectReferences IsFrozenObject GetLOHObjectSizeThreshold RequestReJITWithInliners SuspendRuntime ResumeRuntime;
    ICorProfilerInfo11Vtbl, 99: GetEnvironmentVariable SetEnvironmentVariable;
    ICorProfilerInfo12Vtbl, 101: EventPipeStartSession EventPipeAddProviderToSession EventPipeStopSession EventPipeCreateProvider EventPipeGetProviderInfo EventPipeDefineEvent EventPipeWriteEvent;
    ICorProfilerInfo13Vtbl, 108: CreateHandle DestroyHandle GetObjectIDFromHandle;
    ICorProfilerInfo14Vtbl, 111: EnumerateNonGCObjects GetNonGCHeapBounds EventPipeCreateProvider2;
    ICorProfilerInfo15Vtbl, 114: EnumerateGCHeapObjects;
    ICorProfilerMethodEnumVtbl, 3: Skip Reset Clone GetCount Next;
    ICorProfilerThreadEnumVtbl, 3: Skip Reset Clone GetCount Next;
    ICorProfilerAssemblyReferenceProviderVtbl, 3: AddAssemblyReference;
}

#[test]
fn the_newest_tables_have_every_method() {
    assert_eq!(size_of::<ICorProfilerCallback11Vtbl>(), (3 + 95) * SLOT);
    assert_eq!(size_of::<ICorProfilerInfo15Vtbl>(), (3 + 112) * SLOT);
}

#[test]
fn an_interface_answers_to_its_bases() {
    for iid in [
        ICorProfilerInfo15::IID,
        ICorProfilerInfo10::IID,
        ICorProfilerInfo2::IID,
        ICorProfilerInfo::IID,
        com::IUnknown::IID,
    ] {
        assert!(ICorProfilerInfo15::implements(&iid), "{iid}");
    }
    assert!(!ICorProfilerInfo14::implements(&ICorProfilerInfo15::IID));
    assert!(!ICorProfilerInfo15::implements(&ICorProfilerCallback::IID));
}

#[test]
#[cfg(target_pointer_width = "64")]
fn structures_have_the_layout_of_the_header() {
    assert_eq!(size_of::<COR_IL_MAP>(), 12);
    assert_eq!(size_of::<COR_DEBUG_IL_TO_NATIVE_MAP>(), 12);
    assert_eq!(offset_of!(COR_DEBUG_IL_TO_NATIVE_MAP, native_end_offset), 8);
    assert_eq!(size_of::<COR_PRF_FUNCTION_ARGUMENT_RANGE>(), 16);
    assert_eq!(size_of::<COR_PRF_FUNCTION_ARGUMENT_INFO>(), 24);
    assert_eq!(offset_of!(COR_PRF_FUNCTION_ARGUMENT_INFO, ranges), 8);
    assert_eq!(size_of::<COR_PRF_CODE_INFO>(), 16);
    assert_eq!(size_of::<COR_PRF_FUNCTION>(), 16);
    assert_eq!((size_of::<COR_PRF_METHOD>(), offset_of!(COR_PRF_METHOD, method_id)), (16, 8));
    assert_eq!(size_of::<COR_PRF_ASSEMBLY_REFERENCE_INFO>(), 48);
    assert_eq!(offset_of!(COR_PRF_ASSEMBLY_REFERENCE_INFO, name), 16);
    assert_eq!(offset_of!(COR_PRF_ASSEMBLY_REFERENCE_INFO, flags), 44);
    assert_eq!(size_of::<COR_PRF_GC_GENERATION_RANGE>(), 32);
    assert_eq!(offset_of!(COR_PRF_GC_GENERATION_RANGE, range_start), 8);
    assert_eq!(size_of::<COR_PRF_NONGC_HEAP_RANGE>(), 24);
    assert_eq!(size_of::<COR_PRF_EX_CLAUSE_INFO>(), 32);
    assert_eq!(size_of::<COR_PRF_EVENTPIPE_PROVIDER_CONFIG>(), 32);
    assert_eq!(offset_of!(COR_PRF_EVENTPIPE_PROVIDER_CONFIG, filter_data), 24);
    assert_eq!(size_of::<COR_PRF_EVENTPIPE_PARAM_DESC>(), 16);
    assert_eq!(size_of::<COR_PRF_EVENT_DATA>(), 16);
    assert_eq!(size_of::<COR_PRF_FILTER_DATA>(), 16);
    assert_eq!((size_of::<FunctionIDOrClientID>(), align_of::<FunctionIDOrClientID>()), (8, 8));
}
