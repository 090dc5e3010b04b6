//! Every callback, from the runtime's side of the table to the profiler's method.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};

use com::hresult::{E_ACCESSDENIED, E_FAIL, E_NOINTERFACE, E_POINTER, E_UNEXPECTED, S_FALSE, S_OK};
use com::{ComClass, ComObject, IClassFactory, Interface};
use corprof::abi::*;
use corprof::callback::*;
use corprof::control::{
    AssemblyReference, AssemblyReferenceProvider, CodegenFlags, FunctionControl,
};
use corprof::ids::*;
use corprof::metadata::token::MethodDef;
use corprof::{
    CallbackCx, EventMask, Guid, HResult, PanicReport, Profiler, ProfilerCallback, ProfilerInfo,
    Utf16, export, guid,
};
use corprof_mock::{Loaded, MockClr, Object};

/// Notes every callback with its arguments as text.
#[derive(Default)]
struct Recorder {
    heard: Mutex<Vec<String>>,
    /// What `initialize` answers.
    mask: EventMask,
    refuses: Option<HResult>,
    notification_only: bool,
    says_no: bool,
    panics_on_exception: bool,
    client_data: OnceLock<Vec<u8>>,
    kept_info: OnceLock<ProfilerInfo>,
}

impl Recorder {
    fn note(&self, callback: &str, arguments: &[&dyn Debug]) {
        let arguments: Vec<String> =
            arguments.iter().map(|argument| format!("{argument:?}")).collect();
        self.heard.lock().unwrap().push(format!("{callback}({})", arguments.join(", ")));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

/// After this class the recorder wants to hear of no more objects.
const ENOUGH: ClassId = ClassId(0xe);

/// Methods that note their name and arguments.
macro_rules! notes {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {
        $(fn $name(&self, _cx: &CallbackCx<'_>, $($arg: $ty),*) {
            self.note(stringify!($name), &[$(&$arg),*]);
        })*
    };
}

impl ProfilerCallback for Recorder {
    notes! {
        app_domain_creation_started(domain: AppDomainId);
        app_domain_creation_finished(domain: AppDomainId, status: Result<(), HResult>);
        app_domain_shutdown_started(domain: AppDomainId);
        app_domain_shutdown_finished(domain: AppDomainId, status: Result<(), HResult>);
        assembly_load_started(assembly: AssemblyId);
        assembly_load_finished(assembly: AssemblyId, status: Result<(), HResult>);
        assembly_unload_started(assembly: AssemblyId);
        assembly_unload_finished(assembly: AssemblyId, status: Result<(), HResult>);
        module_load_started(module: ModuleId);
        module_load_finished(module: ModuleId, status: Result<(), HResult>);
        module_unload_started(module: ModuleId);
        module_unload_finished(module: ModuleId, status: Result<(), HResult>);
        module_attached_to_assembly(module: ModuleId, assembly: AssemblyId);
        class_load_started(class: ClassId);
        class_load_finished(class: ClassId, status: Result<(), HResult>);
        class_unload_started(class: ClassId);
        class_unload_finished(class: ClassId, status: Result<(), HResult>);
        function_unload_started(function: FunctionId);
        jit_compilation_started(function: FunctionId, safe_to_block: bool);
        jit_compilation_finished(function: FunctionId, status: Result<(), HResult>, safe_to_block: bool);
        jit_cached_function_search_finished(function: FunctionId, found: bool);
        jit_function_pitched(function: FunctionId);
        thread_created(thread: ThreadId);
        thread_destroyed(thread: ThreadId);
        thread_assigned_to_os_thread(thread: ThreadId, os_thread: u32);
        remoting_client_invocation_started();
        remoting_client_sending_message(cookie: Option<&Guid>, is_async: bool);
        remoting_client_receiving_reply(cookie: Option<&Guid>, is_async: bool);
        remoting_client_invocation_finished();
        remoting_server_receiving_message(cookie: Option<&Guid>, is_async: bool);
        remoting_server_invocation_started();
        remoting_server_invocation_returned();
        remoting_server_sending_reply(cookie: Option<&Guid>, is_async: bool);
        unmanaged_to_managed_transition(function: Option<FunctionId>, reason: TransitionReason);
        managed_to_unmanaged_transition(function: Option<FunctionId>, reason: TransitionReason);
        runtime_suspend_started(reason: SuspendReason);
        runtime_suspend_finished();
        runtime_suspend_aborted();
        runtime_resume_started();
        runtime_resume_finished();
        runtime_thread_suspended(thread: ThreadId);
        runtime_thread_resumed(thread: ThreadId);
        object_allocated(object: ObjectId<'_>, class: ClassId);
        root_references(objects: &[RawObjectId]);
        exception_search_function_enter(function: FunctionId);
        exception_search_function_leave();
        exception_search_filter_enter(function: FunctionId);
        exception_search_filter_leave();
        exception_search_catcher_found(function: FunctionId);
        exception_os_handler_enter();
        exception_os_handler_leave();
        exception_unwind_function_enter(function: FunctionId);
        exception_unwind_function_leave();
        exception_unwind_finally_enter(function: FunctionId);
        exception_unwind_finally_leave();
        exception_catcher_enter(function: FunctionId, exception: ObjectId<'_>);
        exception_catcher_leave();
        com_classic_vtable_created(class: ClassId, iid: Option<&Guid>, vtable: *mut std::ffi::c_void, slots: Option<u32>);
        com_classic_vtable_destroyed(class: ClassId, iid: Option<&Guid>, vtable: *mut std::ffi::c_void);
        exception_clr_catcher_found();
        exception_clr_catcher_execute();
        thread_name_changed(thread: ThreadId, name: Utf16<'_>);
        garbage_collection_finished();
        finalizeable_object_queued(flags: FinalizerFlags, object: RawObjectId);
        handle_created(handle: GcHandleId, object: Option<RawObjectId>);
        handle_destroyed(handle: GcHandleId);
        rejit_compilation_started(function: FunctionId, rejit: ReJitId, safe_to_block: bool);
        rejit_compilation_finished(function: FunctionId, rejit: ReJitId, status: Result<(), HResult>, safe_to_block: bool);
        rejit_error(module: ModuleId, method: MethodDef, function: Option<FunctionId>, status: HResult);
        module_in_memory_symbols_updated(module: ModuleId);
        dynamic_method_jit_compilation_started(function: FunctionId, safe_to_block: bool, il: &[u8]);
        dynamic_method_jit_compilation_finished(function: FunctionId, status: Result<(), HResult>, safe_to_block: bool);
        dynamic_method_unloaded(function: FunctionId);
        event_pipe_provider_created(provider: EventPipeProviderId);
    }

    fn exception_thrown(&self, cx: &CallbackCx<'_>, exception: ObjectId<'_>) {
        self.note("exception_thrown", &[&exception, &cx.info().class_of(exception).ok()]);
        assert!(!self.panics_on_exception, "a profiler's mistake");
    }

    fn object_references(
        &self,
        _: &CallbackCx<'_>,
        object: RawObjectId,
        class: ClassId,
        refs: &[RawObjectId],
    ) -> bool {
        self.note("object_references", &[&object, &class, &refs]);
        class != ENOUGH
    }

    fn moved_references(&self, _: &CallbackCx<'_>, ranges: MovedRanges<'_, u32>) {
        self.note("moved_references", &[&ranges.iter().collect::<Vec<_>>()]);
    }

    fn moved_references2(&self, _: &CallbackCx<'_>, ranges: MovedRanges<'_, usize>) {
        self.note("moved_references2", &[&ranges.iter().collect::<Vec<_>>()]);
    }

    fn surviving_references(&self, _: &CallbackCx<'_>, ranges: SurvivingRanges<'_, u32>) {
        self.note("surviving_references", &[&ranges.iter().collect::<Vec<_>>()]);
    }

    fn surviving_references2(&self, _: &CallbackCx<'_>, ranges: SurvivingRanges<'_, usize>) {
        self.note("surviving_references2", &[&ranges.iter().collect::<Vec<_>>()]);
    }

    fn objects_allocated_by_class(&self, _: &CallbackCx<'_>, counts: ClassCounts<'_>) {
        self.note("objects_allocated_by_class", &[&counts.iter().collect::<Vec<_>>()]);
    }

    fn garbage_collection_started(
        &self,
        _: &CallbackCx<'_>,
        generations: CollectedGenerations<'_>,
        reason: GcReason,
    ) {
        let collected: Vec<u32> = generations.iter().map(|generation| generation.0).collect();
        self.note("garbage_collection_started", &[&collected, &generations.oldest(), &reason]);
    }

    fn root_references2(&self, _: &CallbackCx<'_>, roots: Roots<'_>) {
        for root in roots.iter() {
            self.note(
                "root_references2",
                &[&root.object, &root.kind, &root.flags, &root.function(), &root.handle()],
            );
        }
    }

    fn conditional_weak_table_element_references(
        &self,
        _: &CallbackCx<'_>,
        references: DependentReferences<'_>,
    ) {
        self.note(
            "conditional_weak_table_element_references",
            &[&references.iter().collect::<Vec<_>>()],
        );
    }

    fn get_rejit_parameters(
        &self,
        _: &CallbackCx<'_>,
        module: ModuleId,
        method: MethodDef,
        control: Option<FunctionControl<'_>>,
    ) {
        let answers = control.map(|control| {
            [
                control.set_codegen_flags(CodegenFlags::DISABLE_INLINING),
                control.set_il_function_body(&[0x06, 0x2A]),
                control.set_il_instrumented_code_map(&[COR_IL_MAP {
                    old_offset: 1,
                    new_offset: 2,
                    accurate: 1,
                }]),
            ]
        });
        self.note("get_rejit_parameters", &[&module, &method, &answers]);
    }

    fn get_assembly_references(
        &self,
        _: &CallbackCx<'_>,
        path: Utf16<'_>,
        provider: Option<AssemblyReferenceProvider<'_>>,
    ) {
        let reference = AssemblyReference {
            name: "Helper",
            version: (1, 2, 3, 4),
            culture: "de",
            public_key_or_token: &[1, 2],
            flags: 8,
        };
        self.note(
            "get_assembly_references",
            &[&path, &provider.map(|provider| provider.add(&reference))],
        );
    }

    fn event_pipe_event_delivered(&self, _: &CallbackCx<'_>, event: DeliveredEvent<'_>) {
        self.note("event_pipe_event_delivered", &[&event]);
    }

    fn jit_cached_function_search_started(&self, _: &CallbackCx<'_>, function: FunctionId) -> bool {
        self.note("jit_cached_function_search_started", &[&function]);
        !self.says_no
    }

    fn jit_inlining(&self, _: &CallbackCx<'_>, caller: FunctionId, callee: FunctionId) -> bool {
        self.note("jit_inlining", &[&caller, &callee]);
        !self.says_no
    }
}

impl Profiler for Recorder {
    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        self.kept_info.get_or_init(|| info.clone());
        self.refuses.map_or(Ok(self.mask), Err)
    }

    fn initialize_for_attach(
        &self,
        info: &ProfilerInfo,
        client_data: &[u8],
    ) -> Result<EventMask, HResult> {
        self.client_data.get_or_init(|| client_data.to_vec());
        self.initialize(info)
    }

    fn load_as_notification_only(&self) -> bool {
        self.notification_only
    }

    fn attach_complete(&self, _: &CallbackCx<'_>) {
        self.note("attach_complete", &[]);
    }

    fn detach_succeeded(&self, _: &CallbackCx<'_>) {
        self.note("detach_succeeded", &[]);
    }

    fn shutdown(&self, _: &CallbackCx<'_>) {
        self.note("shutdown", &[]);
    }

    fn panicked(&self, report: PanicReport<'_>) {
        self.note("panicked", &[&report.callback, &report.message, &report.count]);
    }
}

fn launched() -> Loaded<Recorder> {
    MockClr::new().launch(Recorder::default()).unwrap()
}

const OBJECTS: [RawObjectId; 2] = [RawObjectId(0x10), RawObjectId(0x20)];
const F: FunctionId = FunctionId(0xF);
const COOKIE: Guid = guid!("00000000-0000-0000-0000-00000000000C");

/// Calls each callback of the table once and checks what the profiler heard. The rows are in vtable
/// order.
#[test]
fn every_callback_arrives_with_its_arguments() {
    let loaded = launched();
    let raw = loaded.raw();
    let heard = |call: &dyn Fn() -> HResult, expected: &str| {
        assert_eq!(call(), S_OK, "{expected}");
        assert_eq!(loaded.profiler().take(), [expected]);
    };
    macro_rules! rows {
        ($($raw:ident($($arg:expr),*) => $expected:literal;)*) => {
            // SAFETY: pointers are null, or to arrays of the length that is passed with them.
            $(heard(&|| unsafe { raw.$raw($($arg),*) }, $expected);)*
        };
    }
    let (d, a, m, c, t) =
        (AppDomainId(0xD), AssemblyId(0xA), ModuleId(0x3), ClassId(0xC), ThreadId(0x7));
    let classes = [c, ClassId(0xCC)];
    let counts = [3u32, 4];
    let lengths = [16usize, 32];
    let name: Vec<u16> = "wörker".encode_utf16().collect();
    let path: Vec<u16> = "/a/b.dll\0".encode_utf16().collect();
    let collected: [BOOL; 5] = [1, 1, 0, 0, 0];
    let kinds = [COR_PRF_GC_ROOT_KIND::STACK, COR_PRF_GC_ROOT_KIND::HANDLE];
    let flags = [COR_PRF_GC_ROOT_FLAGS(0), COR_PRF_GC_ROOT_FLAGS::WEAKREF];
    let handles = [GcHandleId(1), GcHandleId(2)];
    rows! {
        AppDomainCreationStarted(d) => "app_domain_creation_started(AppDomainId(0xd))";
        AppDomainCreationFinished(d, S_FALSE) => "app_domain_creation_finished(AppDomainId(0xd), \
            Ok(()))";
        AppDomainShutdownStarted(d) => "app_domain_shutdown_started(AppDomainId(0xd))";
        AppDomainShutdownFinished(d, E_FAIL) => "app_domain_shutdown_finished(AppDomainId(0xd), \
            Err(HResult(E_FAIL)))";
        AssemblyLoadStarted(a) => "assembly_load_started(AssemblyId(0xa))";
        AssemblyLoadFinished(a, S_OK) => "assembly_load_finished(AssemblyId(0xa), Ok(()))";
        AssemblyUnloadStarted(a) => "assembly_unload_started(AssemblyId(0xa))";
        AssemblyUnloadFinished(a, S_OK) => "assembly_unload_finished(AssemblyId(0xa), Ok(()))";
        ModuleLoadStarted(m) => "module_load_started(ModuleId(0x3))";
        ModuleLoadFinished(m, E_FAIL) => "module_load_finished(ModuleId(0x3), \
            Err(HResult(E_FAIL)))";
        ModuleUnloadStarted(m) => "module_unload_started(ModuleId(0x3))";
        ModuleUnloadFinished(m, S_OK) => "module_unload_finished(ModuleId(0x3), Ok(()))";
        ModuleAttachedToAssembly(m, a) => "module_attached_to_assembly(ModuleId(0x3), \
            AssemblyId(0xa))";
        ClassLoadStarted(c) => "class_load_started(ClassId(0xc))";
        ClassLoadFinished(c, S_OK) => "class_load_finished(ClassId(0xc), Ok(()))";
        ClassUnloadStarted(c) => "class_unload_started(ClassId(0xc))";
        ClassUnloadFinished(c, S_OK) => "class_unload_finished(ClassId(0xc), Ok(()))";
        FunctionUnloadStarted(F) => "function_unload_started(FunctionId(0xf))";
        JITCompilationStarted(F, 1) => "jit_compilation_started(FunctionId(0xf), true)";
        JITCompilationFinished(F, E_FAIL, 0) => "jit_compilation_finished(FunctionId(0xf), \
            Err(HResult(E_FAIL)), false)";
        JITCachedFunctionSearchStarted(F, std::ptr::null_mut()) => "jit_cached_function_search_started(FunctionId(0xf))";
        JITCachedFunctionSearchFinished(F, COR_PRF_JIT_CACHE::CACHED_FUNCTION_FOUND)
            => "jit_cached_function_search_finished(FunctionId(0xf), true)";
        JITCachedFunctionSearchFinished(F, COR_PRF_JIT_CACHE::CACHED_FUNCTION_NOT_FOUND)
            => "jit_cached_function_search_finished(FunctionId(0xf), false)";
        JITFunctionPitched(F) => "jit_function_pitched(FunctionId(0xf))";
        JITInlining(F, FunctionId(0xE), std::ptr::null_mut()) => "jit_inlining(FunctionId(0xf), \
            FunctionId(0xe))";
        ThreadCreated(t) => "thread_created(ThreadId(0x7))";
        ThreadDestroyed(t) => "thread_destroyed(ThreadId(0x7))";
        ThreadAssignedToOSThread(t, 42) => "thread_assigned_to_os_thread(ThreadId(0x7), 42)";
        RemotingClientInvocationStarted() => "remoting_client_invocation_started()";
        RemotingClientSendingMessage(&COOKIE, 1)
            => "remoting_client_sending_message(Some({00000000-0000-0000-0000-00000000000C}), \
                true)";
        RemotingClientReceivingReply(std::ptr::null(), 0) => "remoting_client_receiving_reply(None, \
            false)";
        RemotingClientInvocationFinished() => "remoting_client_invocation_finished()";
        RemotingServerReceivingMessage(std::ptr::null(), 1) => "remoting_server_receiving_message(None, \
            true)";
        RemotingServerInvocationStarted() => "remoting_server_invocation_started()";
        RemotingServerInvocationReturned() => "remoting_server_invocation_returned()";
        RemotingServerSendingReply(std::ptr::null(), 1) => "remoting_server_sending_reply(None, \
            true)";
        UnmanagedToManagedTransition(F, COR_PRF_TRANSITION_REASON::RETURN)
            => "unmanaged_to_managed_transition(Some(FunctionId(0xf)), \
                COR_PRF_TRANSITION_REASON(1))";
        ManagedToUnmanagedTransition(FunctionId::NULL, COR_PRF_TRANSITION_REASON::CALL)
            => "managed_to_unmanaged_transition(None, COR_PRF_TRANSITION_REASON(0))";
        RuntimeSuspendStarted(COR_PRF_SUSPEND_REASON::FOR_GC) => "runtime_suspend_started(COR_PRF_SUSPEND_REASON(1))";
        RuntimeSuspendFinished() => "runtime_suspend_finished()";
        RuntimeSuspendAborted() => "runtime_suspend_aborted()";
        RuntimeResumeStarted() => "runtime_resume_started()";
        RuntimeResumeFinished() => "runtime_resume_finished()";
        RuntimeThreadSuspended(t) => "runtime_thread_suspended(ThreadId(0x7))";
        RuntimeThreadResumed(t) => "runtime_thread_resumed(ThreadId(0x7))";
        MovedReferences(2, OBJECTS.as_ptr(), OBJECTS.as_ptr(), counts.as_ptr())
            => "moved_references([MovedRange { old: RawObjectId(0x10), new: RawObjectId(0x10), \
                length: 3 }, MovedRange { old: RawObjectId(0x20), new: RawObjectId(0x20), length: \
                4 }])";
        ObjectAllocated(OBJECTS[0], c) => "object_allocated(ObjectId(0x10), ClassId(0xc))";
        ObjectsAllocatedByClass(2, classes.as_ptr(), counts.as_ptr())
            => "objects_allocated_by_class([(ClassId(0xc), 3), (ClassId(0xcc), 4)])";
        ObjectReferences(OBJECTS[0], c, 2, OBJECTS.as_ptr())
            => "object_references(RawObjectId(0x10), ClassId(0xc), [RawObjectId(0x10), \
                RawObjectId(0x20)])";
        ObjectReferences(OBJECTS[0], c, 0, std::ptr::null()) => "object_references(RawObjectId(0x10), \
            ClassId(0xc), [])";
        RootReferences(1, OBJECTS.as_ptr()) => "root_references([RawObjectId(0x10)])";
        ExceptionThrown(OBJECTS[1]) => "exception_thrown(ObjectId(0x20), None)";
        ExceptionSearchFunctionEnter(F) => "exception_search_function_enter(FunctionId(0xf))";
        ExceptionSearchFunctionLeave() => "exception_search_function_leave()";
        ExceptionSearchFilterEnter(F) => "exception_search_filter_enter(FunctionId(0xf))";
        ExceptionSearchFilterLeave() => "exception_search_filter_leave()";
        ExceptionSearchCatcherFound(F) => "exception_search_catcher_found(FunctionId(0xf))";
        ExceptionOSHandlerEnter(0) => "exception_os_handler_enter()";
        ExceptionOSHandlerLeave(0) => "exception_os_handler_leave()";
        ExceptionUnwindFunctionEnter(F) => "exception_unwind_function_enter(FunctionId(0xf))";
        ExceptionUnwindFunctionLeave() => "exception_unwind_function_leave()";
        ExceptionUnwindFinallyEnter(F) => "exception_unwind_finally_enter(FunctionId(0xf))";
        ExceptionUnwindFinallyLeave() => "exception_unwind_finally_leave()";
        ExceptionCatcherEnter(F, OBJECTS[0]) => "exception_catcher_enter(FunctionId(0xf), \
            ObjectId(0x10))";
        ExceptionCatcherLeave() => "exception_catcher_leave()";
        COMClassicVTableCreated(c, &COOKIE, std::ptr::null_mut(), 5)
            => "com_classic_vtable_created(ClassId(0xc), \
                Some({00000000-0000-0000-0000-00000000000C}), 0x0, Some(5))";
        COMClassicVTableCreated(c, std::ptr::null(), std::ptr::null_mut(), u32::MAX)
            => "com_classic_vtable_created(ClassId(0xc), None, 0x0, None)";
        COMClassicVTableDestroyed(c, std::ptr::null(), std::ptr::null_mut())
            => "com_classic_vtable_destroyed(ClassId(0xc), None, 0x0)";
        ExceptionCLRCatcherFound() => "exception_clr_catcher_found()";
        ExceptionCLRCatcherExecute() => "exception_clr_catcher_execute()";

        ThreadNameChanged(t, 6, name.as_ptr()) => "thread_name_changed(ThreadId(0x7), \"wörker\")";
        ThreadNameChanged(t, 3, std::ptr::null()) => "thread_name_changed(ThreadId(0x7), \"\")";
        GarbageCollectionStarted(5, collected.as_ptr(), COR_PRF_GC_REASON::INDUCED)
            => "garbage_collection_started([0, 1], Some(COR_PRF_GC_GENERATION(1)), \
                COR_PRF_GC_REASON(1))";
        GarbageCollectionStarted(-1, collected.as_ptr(), COR_PRF_GC_REASON::OTHER)
            => "garbage_collection_started([], None, COR_PRF_GC_REASON(0))";
        SurvivingReferences(2, OBJECTS.as_ptr(), counts.as_ptr())
            => "surviving_references([(RawObjectId(0x10), 3), (RawObjectId(0x20), 4)])";
        GarbageCollectionFinished() => "garbage_collection_finished()";
        FinalizeableObjectQueued(1, OBJECTS[0])
            => "finalizeable_object_queued(COR_PRF_FINALIZER_FLAGS(1), RawObjectId(0x10))";
        HandleCreated(GcHandleId(9), RawObjectId::NULL) => "handle_created(GcHandleId(0x9), None)";
        HandleDestroyed(GcHandleId(9)) => "handle_destroyed(GcHandleId(0x9))";

        ProfilerAttachComplete() => "attach_complete()";

        ReJITCompilationStarted(F, ReJitId(2), 1) => "rejit_compilation_started(FunctionId(0xf), \
            ReJitId(0x2), true)";
        GetReJITParameters(m, MethodDef::from_rid(1), None)
            => "get_rejit_parameters(ModuleId(0x3), MethodDef(0x1), None)";
        ReJITCompilationFinished(F, ReJitId(2), S_OK, 0)
            => "rejit_compilation_finished(FunctionId(0xf), ReJitId(0x2), Ok(()), false)";
        ReJITError(m, MethodDef::from_rid(1), FunctionId::NULL, E_ACCESSDENIED)
            => "rejit_error(ModuleId(0x3), MethodDef(0x1), None, HResult(E_ACCESSDENIED))";
        MovedReferences2(1, OBJECTS.as_ptr(), OBJECTS.as_ptr().add(1), lengths.as_ptr())
            => "moved_references2([MovedRange { old: RawObjectId(0x10), new: RawObjectId(0x20), \
                length: 16 }])";
        SurvivingReferences2(2, OBJECTS.as_ptr(), lengths.as_ptr())
            => "surviving_references2([(RawObjectId(0x10), 16), (RawObjectId(0x20), 32)])";
        ConditionalWeakTableElementReferences(1, OBJECTS.as_ptr(), OBJECTS.as_ptr().add(1), handles.as_ptr())
            => "conditional_weak_table_element_references([DependentReference { key: \
                RawObjectId(0x10), value: RawObjectId(0x20), handle: GcHandleId(0x1) }])";
        GetAssemblyReferences(path.as_ptr(), None) => "get_assembly_references(\"/a/b.dll\", None)";
        GetAssemblyReferences(std::ptr::null(), None) => "get_assembly_references(\"\", None)";
        ModuleInMemorySymbolsUpdated(m) => "module_in_memory_symbols_updated(ModuleId(0x3))";
        DynamicMethodJITCompilationStarted(F, 1, [0x06u8, 0x2A].as_ptr(), 2)
            => "dynamic_method_jit_compilation_started(FunctionId(0xf), true, [6, 42])";
        DynamicMethodJITCompilationFinished(F, S_OK, 1)
            => "dynamic_method_jit_compilation_finished(FunctionId(0xf), Ok(()), true)";
        DynamicMethodUnloaded(F) => "dynamic_method_unloaded(FunctionId(0xf))";
        EventPipeEventDelivered(
            5, 6, 7, 2, [1u8, 2].as_ptr(), 1, [3u8].as_ptr(), &COOKIE, std::ptr::null(), ThreadId::NULL, 2, lengths.as_ptr()
        ) => "event_pipe_event_delivered(DeliveredEvent { provider: EventPipeProviderId(5), id: 6, \
            version: 7, metadata: [1, 2], data: [3], activity: \
            Some({00000000-0000-0000-0000-00000000000C}), related_activity: None, thread: None, \
            stack: [16, 32] })";
        EventPipeProviderCreated(5) => "event_pipe_provider_created(EventPipeProviderId(5))";
        ProfilerDetachSucceeded() => "detach_succeeded()";
        Shutdown() => "shutdown()";
    }

    // SAFETY: arrays of the length that is passed with them.
    let code = unsafe {
        raw.RootReferences2(2, OBJECTS.as_ptr(), kinds.as_ptr(), flags.as_ptr(), [0xF, 9].as_ptr())
    };
    assert_eq!(code, S_OK);
    assert_eq!(
        loaded.profiler().take(),
        [
            "root_references2(Some(RawObjectId(0x10)), COR_PRF_GC_ROOT_KIND(1), \
                COR_PRF_GC_ROOT_FLAGS(0), Some(FunctionId(0xf)), None)",
            "root_references2(Some(RawObjectId(0x20)), COR_PRF_GC_ROOT_KIND(3), \
                COR_PRF_GC_ROOT_FLAGS(2), None, Some(GcHandleId(0x9)))",
        ]
    );
}

#[test]
fn who_has_heard_enough_of_objects_hears_no_more() {
    let loaded = launched();
    // SAFETY: the array has the length that is passed with it.
    let code = unsafe { loaded.raw().ObjectReferences(OBJECTS[0], ENOUGH, 2, OBJECTS.as_ptr()) };
    assert_eq!(code, E_FAIL);
    assert_eq!(loaded.profiler().take().len(), 1);
}

#[test]
fn questions_are_answered() {
    let loaded = launched();
    assert!(
        loaded.may_inline(F, F) && loaded.may_use_precompiled(F) && !loaded.is_notification_only()
    );
    let recorder = Recorder { says_no: true, notification_only: true, ..Recorder::default() };
    let loaded = MockClr::new().launch(recorder).unwrap();
    assert!(
        !loaded.may_inline(F, F) && !loaded.may_use_precompiled(F) && loaded.is_notification_only()
    );
}

#[test]
fn the_mask_that_initialize_returns_is_set() {
    let clr = MockClr::new();
    let mask = EventMask::EXCEPTIONS | EventMask::BASIC_GC;
    let loaded = clr.launch(Recorder { mask, ..Recorder::default() }).unwrap();
    assert_eq!(clr.model(|model| model.event_mask), mask);
    // The info that a profiler keeps outlives the callback.
    assert_eq!(loaded.profiler().kept_info.get().unwrap().event_mask(), Ok(mask));

    // A runtime before ICorProfilerInfo5 knows the lower half only.
    let old = MockClr::with_newest_info(4);
    let loaded = old.launch(Recorder { mask: EventMask::EXCEPTIONS, ..Recorder::default() });
    assert!(loaded.is_ok());
    assert_eq!(old.model(|model| model.event_mask), EventMask::EXCEPTIONS);
    let refused = old.launch(Recorder { mask, ..Recorder::default() });
    assert_eq!(refused.err(), Some(E_NOINTERFACE));
}

#[test]
fn failures_of_initialize_reach_the_runtime() {
    let clr = MockClr::new();
    let refusing = |code| Recorder { refuses: Some(code), ..Recorder::default() };
    assert_eq!(clr.launch(refusing(E_ACCESSDENIED)).err(), Some(E_ACCESSDENIED));
    // A success code is no reason to refuse, but the refusal stands.
    assert_eq!(clr.launch(refusing(S_FALSE)).err(), Some(E_FAIL));

    clr.fail("SetEventMask", E_ACCESSDENIED);
    clr.fail("SetEventMask2", E_ACCESSDENIED);
    assert_eq!(clr.launch(Recorder::default()).err(), Some(E_ACCESSDENIED));
    clr.mend("SetEventMask");
    clr.mend("SetEventMask2");

    let loaded = clr.launch(Recorder::default()).unwrap();
    // SAFETY: null is answered with an error.
    assert_eq!(unsafe { loaded.raw().Initialize(None) }, E_POINTER);
    // SAFETY: the pointer is live during the call.
    let again = unsafe { loaded.raw().Initialize(Some(clr.unknown().to_ref())) };
    assert_eq!(again, E_UNEXPECTED);
}

#[test]
fn attach_passes_the_client_data() {
    let clr = MockClr::new();
    let loaded = clr.attach(Recorder::default(), b"hello").unwrap();
    assert_eq!(loaded.profiler().client_data.get().unwrap(), b"hello");
    assert_eq!(loaded.profiler().take(), ["attach_complete()"]);
    let loaded = clr.attach(Recorder::default(), b"").unwrap();
    assert_eq!(loaded.profiler().client_data.get().unwrap(), b"");
}

struct Plain;

impl ProfilerCallback for Plain {}

impl Profiler for Plain {
    fn initialize(&self, _: &ProfilerInfo) -> Result<EventMask, HResult> {
        Ok(EventMask::NONE)
    }
}

#[test]
fn attach_is_refused_unless_implemented() {
    let refused = MockClr::new().attach(Plain, b"");
    assert_eq!(refused.err(), Some(com::codes::CORPROF_E_PROFILER_NOT_ATTACHABLE));
}

#[test]
fn callbacks_before_initialize_are_not_told() {
    let shim = corprof::profiler::Shim::object(Recorder::default());
    // SAFETY: no pointers.
    assert_eq!(unsafe { shim.to_interface().ThreadCreated(ThreadId(1)) }, S_OK);
    assert!(shim.profiler().take().is_empty());
}

#[test]
fn a_panic_switches_the_profiler_off_and_is_reported() {
    let clr = MockClr::new();
    clr.model(|model| {
        model.objects.insert(OBJECTS[0], Object { class: ClassId(3), ..Object::default() })
    });
    let loaded = clr.launch(Recorder { panics_on_exception: true, ..Recorder::default() }).unwrap();
    assert!(!loaded.shim().is_off());
    // SAFETY: no pointers.
    assert_eq!(unsafe { loaded.raw().ExceptionThrown(OBJECTS[0]) }, E_UNEXPECTED);
    assert!(loaded.shim().is_off());
    assert_eq!(
        loaded.profiler().take(),
        [
            "exception_thrown(ObjectId(0x10), Some(ClassId(0x3)))",
            "panicked(\"ICorProfilerCallback::ExceptionThrown\", Some(\"a profiler's mistake\"), \
                1)",
        ]
    );
    // Nothing is heard any more, and nothing is vetoed, except what ends.
    // SAFETY: no pointers.
    assert_eq!(unsafe { loaded.raw().ExceptionThrown(OBJECTS[0]) }, S_OK);
    // SAFETY: no pointers.
    assert_eq!(unsafe { loaded.raw().ThreadCreated(ThreadId(1)) }, S_OK);
    assert!(loaded.may_inline(F, F));
    assert!(loaded.profiler().take().is_empty());
    // SAFETY: no pointers.
    assert_eq!(unsafe { loaded.raw().ThreadDestroyed(ThreadId(1)) }, S_OK);
    // SAFETY: no pointers.
    assert_eq!(unsafe { loaded.raw().ModuleUnloadStarted(ModuleId(7)) }, S_OK);
    let ends = loaded.profiler().take();
    assert!(
        ends.len() == 2
            && ends[0].starts_with("thread_destroyed(")
            && ends[1].starts_with("module_unload_started("),
        "{ends:?}"
    );
    assert_eq!(loaded.shim().panics(), 1);
    loaded.detach();
    loaded.shutdown();
    assert_eq!(loaded.profiler().take(), ["detach_succeeded()", "shutdown()"]);
}

/// Takes what the profiler says in GetReJITParameters.
#[derive(Default)]
struct Control {
    flags: Mutex<u32>,
    body: Mutex<Vec<u8>>,
    map: Mutex<Vec<(u32, u32)>>,
}

impl ComClass for Control {
    type Interface = ICorProfilerFunctionControl;
}

impl ICorProfilerFunctionControlImpl for Control {
    unsafe fn SetCodegenFlags(&self, flags: u32) -> HResult {
        *self.flags.lock().unwrap() = flags;
        S_OK
    }

    unsafe fn SetILFunctionBody(&self, len: u32, body: *const u8) -> HResult {
        // SAFETY: that many bytes.
        *self.body.lock().unwrap() =
            unsafe { std::slice::from_raw_parts(body, len as usize) }.to_vec();
        S_OK
    }

    unsafe fn SetILInstrumentedCodeMap(&self, len: u32, map: *const COR_IL_MAP) -> HResult {
        // SAFETY: that many entries.
        let map = unsafe { std::slice::from_raw_parts(map, len as usize) };
        *self.map.lock().unwrap() =
            map.iter().map(|entry| (entry.old_offset, entry.new_offset)).collect();
        S_OK
    }
}

#[test]
fn a_new_body_reaches_the_function_control() {
    let loaded = launched();
    let control = ComObject::new(Control::default());
    let pointer = control.to_interface();
    loaded.rejit_parameters(ModuleId(1), MethodDef::from_rid(2), Some(pointer.to_ref()));
    assert_eq!(
        loaded.profiler().take(),
        ["get_rejit_parameters(ModuleId(0x1), MethodDef(0x2), Some([Ok(()), Ok(()), Ok(())]))"]
    );
    assert_eq!(*control.flags.lock().unwrap(), 1);
    assert_eq!(*control.body.lock().unwrap(), [0x06, 0x2A]);
    assert_eq!(*control.map.lock().unwrap(), [(1, 2)]);
}

/// Takes what the profiler says in GetAssemblyReferences.
#[derive(Default)]
struct References {
    given: Mutex<Vec<String>>,
}

impl ComClass for References {
    type Interface = ICorProfilerAssemblyReferenceProvider;
}

impl ICorProfilerAssemblyReferenceProviderImpl for References {
    unsafe fn AddAssemblyReference(&self, info: *const COR_PRF_ASSEMBLY_REFERENCE_INFO) -> HResult {
        // SAFETY: the caller passes a reference with everything that it points to.
        let (info, metadata) = unsafe { (&*info, &*(*info).metadata) };
        // SAFETY: as above.
        let name = unsafe { std::slice::from_raw_parts(info.name, 7) };
        // SAFETY: as above.
        let culture =
            unsafe { std::slice::from_raw_parts(metadata.locale, metadata.locale_len as usize) };
        self.given.lock().unwrap().push(format!(
            "{} {}.{}.{}.{} {} key {} flags {}",
            Utf16::until_zero(name),
            metadata.major_version,
            metadata.minor_version,
            metadata.build_number,
            metadata.revision_number,
            Utf16::until_zero(culture),
            info.public_key_or_token_len,
            info.flags
        ));
        S_OK
    }
}

#[test]
fn an_assembly_reference_reaches_the_provider() {
    let loaded = launched();
    let references = ComObject::new(References::default());
    let pointer = references.to_interface();
    // SAFETY: the pointer is live during the call.
    unsafe { loaded.raw().GetAssemblyReferences(std::ptr::null(), Some(pointer.to_ref())) }
        .ok()
        .unwrap();
    assert_eq!(*references.given.lock().unwrap(), ["Helper 1.2.3.4 de key 2 flags 8"]);
}

#[test]
fn a_shared_profiler_hears_through_its_arc() {
    let recorder =
        Arc::new(Recorder { notification_only: true, says_no: true, ..Recorder::default() });
    let loaded = MockClr::new().attach(recorder.clone(), b"x").unwrap();
    loaded.thread_created(ThreadId(5));
    assert!(
        !loaded.may_inline(F, F) && !loaded.may_use_precompiled(F) && loaded.is_notification_only()
    );
    loaded.detach();
    assert_eq!(
        recorder.take(),
        [
            "attach_complete()",
            "thread_created(ThreadId(0x5))",
            "jit_inlining(FunctionId(0xf), FunctionId(0xf))",
            "jit_cached_function_search_started(FunctionId(0xf))",
            "detach_succeeded()",
        ]
    );
}

#[test]
fn the_class_factory_makes_one_profiler_for_each_class_id() {
    let first = guid!("00000000-0000-0000-0000-000000000001");
    let second = guid!("00000000-0000-0000-0000-000000000002");
    let made: Arc<Mutex<Vec<Guid>>> = Arc::default();
    let find = |clsid: Guid| {
        let made = made.clone();
        [first, second].contains(&clsid).then(|| {
            export::factory(clsid, move |clsid| {
                made.lock().unwrap().push(clsid);
                Plain
            })
        })
    };
    let get = |clsid: *const Guid, iid: *const Guid| {
        let mut out = std::ptr::null_mut();
        // SAFETY: pointers are null or valid.
        let code = unsafe { export::get_class_object(clsid, iid, &mut out, find) };
        // SAFETY: a class object is only asked for as IClassFactory here.
        code.ok().map(|()| unsafe { IClassFactory::from_nullable(out) }.unwrap())
    };
    let factory = get(&second, &IClassFactory::IID).unwrap();
    let mut out = std::ptr::null_mut();
    // SAFETY: valid pointers.
    let code = unsafe {
        factory.CreateInstance(std::ptr::null_mut(), &ICorProfilerCallback2::IID, &mut out)
    };
    assert_eq!(code, S_OK);
    // SAFETY: that is what was asked for.
    let callback = unsafe { ICorProfilerCallback2::from_nullable(out) }.unwrap();
    assert!(callback.cast::<ICorProfilerCallback11>().is_ok());
    assert_eq!(callback.cast::<ICorProfilerInfo>().err(), Some(E_NOINTERFACE));
    assert_eq!(*made.lock().unwrap(), [second]);

    assert_eq!(
        get(&Guid::NULL, &IClassFactory::IID).err(),
        Some(com::hresult::CLASS_E_CLASSNOTAVAILABLE)
    );
    assert_eq!(get(std::ptr::null(), &IClassFactory::IID).err(), Some(E_POINTER));
    assert_eq!(get(&first, std::ptr::null()).err(), Some(E_POINTER));
    assert_eq!(get(&first, &ICorProfilerInfo::IID).err(), Some(E_NOINTERFACE));
}
