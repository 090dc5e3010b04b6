//! Runtime to profiler: every callback of ICorProfilerCallback to ICorProfilerCallback11, with its
//! arguments lifted.
//!
//! Each callback is stated once below: its raw form, its safe form, and how one becomes the other.
//! From that come the methods of [`ProfilerCallback`] and the shim that the runtime calls.
//!
//! Over 600 lines: a table of the callbacks.

mod arguments;
mod ends;

pub use crate::abi::{
    COR_PRF_FINALIZER_FLAGS as FinalizerFlags, COR_PRF_GC_GENERATION as GcGeneration,
    COR_PRF_GC_REASON as GcReason, COR_PRF_GC_ROOT_FLAGS as GcRootFlags,
    COR_PRF_GC_ROOT_KIND as GcRootKind, COR_PRF_SUSPEND_REASON as SuspendReason,
    COR_PRF_TRANSITION_REASON as TransitionReason,
};
pub(crate) use arguments::slice;
pub use arguments::{
    ClassCounts, CollectedGenerations, DeliveredEvent, DependentReference, DependentReferences,
    EventPipeProviderId, MovedRange, MovedRanges, Root, Roots, SurvivingRanges,
};

use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;

use com::hresult::E_FAIL;
use com::{Guid, HResult, IUnknown, InterfaceRef};

use crate::abi::*;
use crate::control::{AssemblyReferenceProvider, FunctionControl};
use crate::ids::*;
use crate::info::ProfilerInfo;
use crate::profiler::{Profiler, Shim};
use crate::text::Utf16;
use arguments::utf16_z;
use ends::tells_an_end;

/// Proof that a callback is running on this thread, and the way to what may be asked in it.
///
/// Objects that a callback is given ([`ObjectId`]) are good as long as it runs. Do not block in a
/// callback for something that managed code does, and do not wait for another thread that might be
/// in one.
pub struct CallbackCx<'a> {
    info: &'a ProfilerInfo,
    /// Callbacks belong to their thread.
    thread: PhantomData<*const ()>,
}

impl<'a> CallbackCx<'a> {
    pub(crate) fn new(info: &'a ProfilerInfo) -> CallbackCx<'a> {
        CallbackCx { info, thread: PhantomData }
    }

    /// The runtime, to be asked. What is allowed depends on the callback; the runtime answers with
    /// an error otherwise.
    pub fn info(&self) -> &'a ProfilerInfo {
        self.info
    }
}

impl fmt::Debug for CallbackCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackCx")
    }
}

/// States each callback once: raw name and arguments, safe name and arguments, each of these with
/// the expression that makes it.
macro_rules! callbacks {
    (
        $(
            $Impl:ident {
                $(
                    $(#[$meta:meta])*
                    fn $raw:ident($($raw_arg:ident: $raw_ty:ty),* $(,)?)
                        => $safe:ident($($arg:ident: $ty:ty = $lift:expr),* $(,)?);
                )*
            } and { $($by_hand:item)* }
        )*
    ) => {
        /// What a profiler wants to hear. Every method does nothing by default.
        ///
        /// Which callbacks come is decided by the [`EventMask`](crate::EventMask); those that carry
        /// no flag in their description come with the flag of their group. Callbacks come on the
        /// thread on which the event happens, on many threads at once; hence `&self`. The program
        /// waits for them to return, so be quick.
        ///
        /// [`RawObjectId`]s among the arguments must only be compared and remembered: while a
        /// collection is running, an object may be at neither its old nor its new place.
        #[allow(unused_variables)]
        pub trait ProfilerCallback: Send + Sync + 'static {
            $($(
                $(#[$meta])*
                #[doc = concat!("\n\nHeader: `", stringify!($raw), "`")]
                fn $safe(&self, cx: &CallbackCx<'_>, $($arg: $ty),*) {}
            )*)*

            /// The runtime has found precompiled code of a function and asks whether it may use it.
            /// `false` has the function compiled anew. (CACHE_SEARCHES)
            #[doc(alias = "JITCachedFunctionSearchStarted")]
            fn jit_cached_function_search_started(&self, cx: &CallbackCx<'_>, function: FunctionId) -> bool {
                true
            }

            /// The compiler wants to inline `callee` into `caller`. `false` forbids it.
            /// (JIT_COMPILATION)
            #[doc(alias = "JITInlining")]
            fn jit_inlining(&self, cx: &CallbackCx<'_>, caller: FunctionId, callee: FunctionId) -> bool {
                true
            }

            /// An object that survives and what its fields refer to. `false` ends the telling of
            /// objects for this collection. (GC)
            #[doc(alias = "ObjectReferences")]
            fn object_references(
                &self,
                cx: &CallbackCx<'_>,
                object: RawObjectId,
                class: ClassId,
                references: &[RawObjectId],
            ) -> bool {
                true
            }
        }

        impl<P: ProfilerCallback + ?Sized> ProfilerCallback for std::sync::Arc<P> {
            $($(
                fn $safe(&self, cx: &CallbackCx<'_>, $($arg: $ty),*) {
                    (**self).$safe(cx, $($arg),*);
                }
            )*)*

            fn jit_cached_function_search_started(&self, cx: &CallbackCx<'_>, function: FunctionId) -> bool {
                (**self).jit_cached_function_search_started(cx, function)
            }

            fn jit_inlining(&self, cx: &CallbackCx<'_>, caller: FunctionId, callee: FunctionId) -> bool {
                (**self).jit_inlining(cx, caller, callee)
            }

            fn object_references(
                &self,
                cx: &CallbackCx<'_>,
                object: RawObjectId,
                class: ClassId,
                references: &[RawObjectId],
            ) -> bool {
                (**self).object_references(cx, object, class, references)
            }
        }

        $(
            impl<P: Profiler> $Impl for Shim<P> {
                $(
                    unsafe fn $raw(&self, $($raw_arg: $raw_ty),*) -> HResult {
                        self.tell_if(const { tells_an_end(stringify!($raw)) }, |profiler, cx| {
                            // SAFETY: what the runtime passes to a callback is valid until the
                            // callback returns: arrays have the length passed with them, objects do
                            // not move, pointers may be null.
                            #[allow(unused_unsafe)]
                            unsafe { profiler.$safe(cx, $($lift),*) }
                        })
                    }
                )*
                $($by_hand)*
            }
        )*
    };
}

callbacks! {
    ICorProfilerCallbackImpl {
        /// An application domain is being created.
        fn AppDomainCreationStarted(domain: AppDomainId) => app_domain_creation_started(domain: AppDomainId = domain);
        /// An application domain has been created, or could not be. (APPDOMAIN_LOADS)
        fn AppDomainCreationFinished(domain: AppDomainId, status: HResult)
            => app_domain_creation_finished(domain: AppDomainId = domain, status: Result<(), HResult> = status.ok());
        /// An application domain is being ended.
        fn AppDomainShutdownStarted(domain: AppDomainId) => app_domain_shutdown_started(domain: AppDomainId = domain);
        /// An application domain has been ended.
        fn AppDomainShutdownFinished(domain: AppDomainId, status: HResult)
            => app_domain_shutdown_finished(domain: AppDomainId = domain, status: Result<(), HResult> = status.ok());
        /// An assembly is being loaded; nothing can be asked about it yet.
        fn AssemblyLoadStarted(assembly: AssemblyId) => assembly_load_started(assembly: AssemblyId = assembly);
        /// An assembly has been loaded, or could not be. (ASSEMBLY_LOADS)
        fn AssemblyLoadFinished(assembly: AssemblyId, status: HResult)
            => assembly_load_finished(assembly: AssemblyId = assembly, status: Result<(), HResult> = status.ok());
        /// An assembly is being unloaded; the last chance to ask about it.
        fn AssemblyUnloadStarted(assembly: AssemblyId) => assembly_unload_started(assembly: AssemblyId = assembly);
        /// An assembly has been unloaded.
        fn AssemblyUnloadFinished(assembly: AssemblyId, status: HResult)
            => assembly_unload_finished(assembly: AssemblyId = assembly, status: Result<(), HResult> = status.ok());
        /// A module is being loaded; nothing can be asked about it yet.
        fn ModuleLoadStarted(module: ModuleId) => module_load_started(module: ModuleId = module);
        /// A module has been loaded, or could not be. The time to change its metadata.
        /// (MODULE_LOADS)
        fn ModuleLoadFinished(module: ModuleId, status: HResult)
            => module_load_finished(module: ModuleId = module, status: Result<(), HResult> = status.ok());
        /// A module is being unloaded; the last chance to ask about it, its classes and its
        /// functions.
        fn ModuleUnloadStarted(module: ModuleId) => module_unload_started(module: ModuleId = module);
        /// A module has been unloaded.
        fn ModuleUnloadFinished(module: ModuleId, status: HResult)
            => module_unload_finished(module: ModuleId = module, status: Result<(), HResult> = status.ok());
        /// A module has become part of its assembly.
        fn ModuleAttachedToAssembly(module: ModuleId, assembly: AssemblyId)
            => module_attached_to_assembly(module: ModuleId = module, assembly: AssemblyId = assembly);
        /// A class is being loaded.
        fn ClassLoadStarted(class: ClassId) => class_load_started(class: ClassId = class);
        /// A class has been loaded, or could not be. (CLASS_LOADS)
        fn ClassLoadFinished(class: ClassId, status: HResult)
            => class_load_finished(class: ClassId = class, status: Result<(), HResult> = status.ok());
        /// A class is being unloaded.
        fn ClassUnloadStarted(class: ClassId) => class_unload_started(class: ClassId = class);
        /// A class has been unloaded.
        fn ClassUnloadFinished(class: ClassId, status: HResult)
            => class_unload_finished(class: ClassId = class, status: Result<(), HResult> = status.ok());
        /// A function is being unloaded. (FUNCTION_UNLOADS)
        fn FunctionUnloadStarted(function: FunctionId) => function_unload_started(function: FunctionId = function);
        /// A function is being compiled. With `safe_to_block` false, doing anything that takes
        /// long, or that runs managed code, can deadlock. (JIT_COMPILATION)
        fn JITCompilationStarted(function: FunctionId, safe_to_block: BOOL)
            => jit_compilation_started(function: FunctionId = function, safe_to_block: bool = safe_to_block != 0);
        /// A function has been compiled, or could not be. (JIT_COMPILATION)
        fn JITCompilationFinished(function: FunctionId, status: HResult, safe_to_block: BOOL)
            => jit_compilation_finished(
                function: FunctionId = function,
                status: Result<(), HResult> = status.ok(),
                safe_to_block: bool = safe_to_block != 0,
            );
        /// The search for precompiled code has ended. (CACHE_SEARCHES)
        fn JITCachedFunctionSearchFinished(function: FunctionId, result: COR_PRF_JIT_CACHE)
            => jit_cached_function_search_finished(
                function: FunctionId = function,
                found: bool = result == COR_PRF_JIT_CACHE::CACHED_FUNCTION_FOUND,
            );
        /// Compiled code has been thrown away.
        fn JITFunctionPitched(function: FunctionId) => jit_function_pitched(function: FunctionId = function);
        /// A managed thread has been created. (THREADS)
        fn ThreadCreated(thread: ThreadId) => thread_created(thread: ThreadId = thread);
        /// A managed thread has ended; its id means nothing any more. (THREADS)
        fn ThreadDestroyed(thread: ThreadId) => thread_destroyed(thread: ThreadId = thread);
        /// A managed thread runs on an operating system thread. (THREADS)
        fn ThreadAssignedToOSThread(thread: ThreadId, os_thread: u32)
            => thread_assigned_to_os_thread(thread: ThreadId = thread, os_thread: u32 = os_thread);
        /// A remoting call begins. (REMOTING; .NET Framework only, like all of the group)
        fn RemotingClientInvocationStarted() => remoting_client_invocation_started();
        /// A remoting call is being sent.
        fn RemotingClientSendingMessage(cookie: *const Guid, is_async: BOOL)
            => remoting_client_sending_message(cookie: Option<&Guid> = cookie.as_ref(), is_async: bool = is_async != 0);
        /// The answer to a remoting call has come.
        fn RemotingClientReceivingReply(cookie: *const Guid, is_async: BOOL)
            => remoting_client_receiving_reply(cookie: Option<&Guid> = cookie.as_ref(), is_async: bool = is_async != 0);
        /// A remoting call has ended.
        fn RemotingClientInvocationFinished() => remoting_client_invocation_finished();
        /// A remoting call has come.
        fn RemotingServerReceivingMessage(cookie: *const Guid, is_async: BOOL)
            => remoting_server_receiving_message(cookie: Option<&Guid> = cookie.as_ref(), is_async: bool = is_async != 0);
        /// The method that a remoting call is for is being called.
        fn RemotingServerInvocationStarted() => remoting_server_invocation_started();
        /// That method has returned.
        fn RemotingServerInvocationReturned() => remoting_server_invocation_returned();
        /// The answer to a remoting call is being sent.
        fn RemotingServerSendingReply(cookie: *const Guid, is_async: BOOL)
            => remoting_server_sending_reply(cookie: Option<&Guid> = cookie.as_ref(), is_async: bool = is_async != 0);
        /// Native code has called managed code, or a call from managed code returns to it.
        /// (CODE_TRANSITIONS)
        fn UnmanagedToManagedTransition(function: FunctionId, reason: COR_PRF_TRANSITION_REASON)
            => unmanaged_to_managed_transition(
                function: Option<FunctionId> = function.non_null(),
                reason: TransitionReason = reason,
            );
        /// Managed code has called native code, or a call from native code returns to it.
        /// (CODE_TRANSITIONS)
        fn ManagedToUnmanagedTransition(function: FunctionId, reason: COR_PRF_TRANSITION_REASON)
            => managed_to_unmanaged_transition(
                function: Option<FunctionId> = function.non_null(),
                reason: TransitionReason = reason,
            );
        /// Managed threads are being stopped. (SUSPENDS)
        fn RuntimeSuspendStarted(reason: COR_PRF_SUSPEND_REASON)
            => runtime_suspend_started(reason: SuspendReason = reason);
        /// Managed threads are stopped. (SUSPENDS)
        fn RuntimeSuspendFinished() => runtime_suspend_finished();
        /// Managed threads could not be stopped. (SUSPENDS)
        fn RuntimeSuspendAborted() => runtime_suspend_aborted();
        /// Managed threads are being resumed. (SUSPENDS)
        fn RuntimeResumeStarted() => runtime_resume_started();
        /// Managed threads run again. (SUSPENDS)
        fn RuntimeResumeFinished() => runtime_resume_finished();
        /// A thread has been stopped. (SUSPENDS)
        fn RuntimeThreadSuspended(thread: ThreadId) => runtime_thread_suspended(thread: ThreadId = thread);
        /// A thread has been resumed. (SUSPENDS)
        fn RuntimeThreadResumed(thread: ThreadId) => runtime_thread_resumed(thread: ThreadId = thread);
        /// Objects have been moved. Obsolete: lengths end at 4 GiB; see `moved_references2`.
        fn MovedReferences(
            count: u32,
            old: *const RawObjectId,
            new: *const RawObjectId,
            lengths: *const u32,
        ) => moved_references(ranges: MovedRanges<'_, u32> = MovedRanges {
            old: slice(old, count),
            new: slice(new, count),
            lengths: slice(lengths, count),
        });
        /// An object is being allocated. Its fields are not initialized yet. (OBJECT_ALLOCATED with
        /// ENABLE_OBJECT_ALLOCATED; LARGE_OBJECT_ALLOCATED; PINNED_OBJECT_ALLOCATED)
        fn ObjectAllocated(object: RawObjectId, class: ClassId)
            => object_allocated(object: ObjectId<'_> = ObjectId::from_raw(object), class: ClassId = class);
        /// How many objects of each class were allocated since the last collection; not those on
        /// the large object heap. (GC)
        fn ObjectsAllocatedByClass(count: u32, classes: *const ClassId, counts: *const u32)
            => objects_allocated_by_class(counts: ClassCounts<'_> = ClassCounts {
                classes: slice(classes, count),
                counts: slice(counts, count),
            });
        /// Roots, without anything about them. `root_references2` says more.
        fn RootReferences(count: u32, objects: *const RawObjectId)
            => root_references(objects: &[RawObjectId] = slice(objects, count));
        /// An exception has been thrown. (EXCEPTIONS)
        fn ExceptionThrown(exception: RawObjectId)
            => exception_thrown(exception: ObjectId<'_> = ObjectId::from_raw(exception));
        /// The search for a handler looks at a function. (EXCEPTIONS)
        fn ExceptionSearchFunctionEnter(function: FunctionId)
            => exception_search_function_enter(function: FunctionId = function);
        /// The search for a handler is done with a function.
        fn ExceptionSearchFunctionLeave() => exception_search_function_leave();
        /// A filter is about to run.
        fn ExceptionSearchFilterEnter(function: FunctionId)
            => exception_search_filter_enter(function: FunctionId = function);
        /// A filter has run.
        fn ExceptionSearchFilterLeave() => exception_search_filter_leave();
        /// The function that will catch the exception has been found.
        fn ExceptionSearchCatcherFound(function: FunctionId)
            => exception_search_catcher_found(function: FunctionId = function);
        /// Does not come any more.
        fn ExceptionOSHandlerEnter(_unused: usize) => exception_os_handler_enter();
        /// Does not come any more.
        fn ExceptionOSHandlerLeave(_unused: usize) => exception_os_handler_leave();
        /// A function's frame is being removed.
        fn ExceptionUnwindFunctionEnter(function: FunctionId)
            => exception_unwind_function_enter(function: FunctionId = function);
        /// A function's frame has been removed.
        fn ExceptionUnwindFunctionLeave() => exception_unwind_function_leave();
        /// A finally or fault block is about to run.
        fn ExceptionUnwindFinallyEnter(function: FunctionId)
            => exception_unwind_finally_enter(function: FunctionId = function);
        /// A finally or fault block has run.
        fn ExceptionUnwindFinallyLeave() => exception_unwind_finally_leave();
        /// A catch block is about to run.
        fn ExceptionCatcherEnter(function: FunctionId, exception: RawObjectId)
            => exception_catcher_enter(
                function: FunctionId = function,
                exception: ObjectId<'_> = ObjectId::from_raw(exception),
            );
        /// A catch block has run.
        fn ExceptionCatcherLeave() => exception_catcher_leave();
        /// A COM callable wrapper's vtable has been made; `slots` is its length if known. (CCW)
        fn COMClassicVTableCreated(class: ClassId, iid: *const Guid, vtable: *mut c_void, slots: u32)
            => com_classic_vtable_created(
                class: ClassId = class,
                iid: Option<&Guid> = iid.as_ref(),
                vtable: *mut c_void = vtable,
                slots: Option<u32> = (slots != u32::MAX).then_some(slots),
            );
        /// A COM callable wrapper's vtable is gone. (CCW)
        fn COMClassicVTableDestroyed(class: ClassId, iid: *const Guid, vtable: *mut c_void)
            => com_classic_vtable_destroyed(
                class: ClassId = class,
                iid: Option<&Guid> = iid.as_ref(),
                vtable: *mut c_void = vtable,
            );
        /// The runtime itself will catch the exception. (CLR_EXCEPTIONS)
        fn ExceptionCLRCatcherFound() => exception_clr_catcher_found();
        /// The runtime itself catches the exception. (CLR_EXCEPTIONS)
        fn ExceptionCLRCatcherExecute() => exception_clr_catcher_execute();
    } and {
        unsafe fn Initialize(&self, info: Option<InterfaceRef<'_, IUnknown>>) -> HResult {
            self.initialize(info, |profiler, info| profiler.initialize(info))
        }

        unsafe fn Shutdown(&self) -> HResult {
            self.tell_even_if_off(|profiler, cx| {
                profiler.shutdown(cx);
                cx.info().end();
            })
        }

        unsafe fn JITCachedFunctionSearchStarted(&self, function: FunctionId, use_cached: *mut BOOL) -> HResult {
            self.tell(|profiler, cx| {
                let answer = profiler.jit_cached_function_search_started(cx, function);
                // SAFETY: null or a place for the answer.
                if let Some(use_cached) = unsafe { use_cached.as_mut() } {
                    *use_cached = BOOL::from(answer);
                }
            })
        }

        unsafe fn JITInlining(&self, caller: FunctionId, callee: FunctionId, should_inline: *mut BOOL) -> HResult {
            self.tell(|profiler, cx| {
                let answer = profiler.jit_inlining(cx, caller, callee);
                // SAFETY: null or a place for the answer.
                if let Some(should_inline) = unsafe { should_inline.as_mut() } {
                    *should_inline = BOOL::from(answer);
                }
            })
        }

        unsafe fn ObjectReferences(
            &self,
            object: RawObjectId,
            class: ClassId,
            count: u32,
            references: *const RawObjectId,
        ) -> HResult {
            // SAFETY: null or that many references, which stay what they are during the call.
            let references = unsafe { slice(references, count) };
            let mut goes_on = true;
            let code = self.tell(|profiler, cx| goes_on = profiler.object_references(cx, object, class, references));
            if goes_on { code } else { E_FAIL }
        }
    }

    ICorProfilerCallback2Impl {
        /// A managed thread has got a name, possibly an empty one. (THREADS)
        fn ThreadNameChanged(thread: ThreadId, len: u32, name: *const u16)
            => thread_name_changed(thread: ThreadId = thread, name: Utf16<'_> = Utf16(slice(name, len)));
        /// A collection begins; objects are still where they were. (GC, BASIC_GC)
        fn GarbageCollectionStarted(count: i32, collected: *const BOOL, reason: COR_PRF_GC_REASON)
            => garbage_collection_started(
                generations: CollectedGenerations<'_>
                    = CollectedGenerations(slice(collected, u32::try_from(count).unwrap_or(0))),
                reason: GcReason = reason,
            );
        /// Objects have survived in place. Obsolete: lengths end at 4 GiB; see
        /// `surviving_references2`.
        fn SurvivingReferences(count: u32, starts: *const RawObjectId, lengths: *const u32)
            => surviving_references(ranges: SurvivingRanges<'_, u32> = SurvivingRanges {
                starts: slice(starts, count),
                lengths: slice(lengths, count),
            });
        /// A collection has ended; objects are where they will stay. (GC, BASIC_GC)
        fn GarbageCollectionFinished() => garbage_collection_finished();
        /// An object's finalizer is going to run. (GC)
        fn FinalizeableObjectQueued(flags: u32, object: RawObjectId)
            => finalizeable_object_queued(flags: FinalizerFlags = COR_PRF_FINALIZER_FLAGS(flags), object: RawObjectId = object);
        /// Roots. (GC)
        fn RootReferences2(
            count: u32,
            objects: *const RawObjectId,
            kinds: *const COR_PRF_GC_ROOT_KIND,
            flags: *const COR_PRF_GC_ROOT_FLAGS,
            ids: *const usize,
        ) => root_references2(roots: Roots<'_> = Roots {
            objects: slice(objects, count),
            kinds: slice(kinds, count),
            flags: slice(flags, count),
            ids: slice(ids, count),
        });
        /// A GC handle has been made. (GC)
        fn HandleCreated(handle: GcHandleId, object: RawObjectId)
            => handle_created(handle: GcHandleId = handle, object: Option<RawObjectId> = object.non_null());
        /// A GC handle is gone. (GC)
        fn HandleDestroyed(handle: GcHandleId) => handle_destroyed(handle: GcHandleId = handle);
    } and {}

    ICorProfilerCallback3Impl {
    } and {
        unsafe fn InitializeForAttach(
            &self,
            info: Option<InterfaceRef<'_, IUnknown>>,
            client_data: *mut c_void,
            client_data_len: u32,
        ) -> HResult {
            // SAFETY: null or that many bytes, valid during the call.
            let client_data = unsafe { slice(client_data.cast::<u8>(), client_data_len) };
            self.initialize(info, |profiler, info| profiler.initialize_for_attach(info, client_data))
        }

        unsafe fn ProfilerAttachComplete(&self) -> HResult {
            self.tell(|profiler, cx| profiler.attach_complete(cx))
        }

        unsafe fn ProfilerDetachSucceeded(&self) -> HResult {
            self.tell_even_if_off(|profiler, cx| profiler.detach_succeeded(cx))
        }
    }

    ICorProfilerCallback4Impl {
        /// A function is being compiled with a body that ReJIT made. (ENABLE_REJIT,
        /// JIT_COMPILATION)
        fn ReJITCompilationStarted(function: FunctionId, rejit: ReJitId, safe_to_block: BOOL)
            => rejit_compilation_started(
                function: FunctionId = function,
                rejit: ReJitId = rejit,
                safe_to_block: bool = safe_to_block != 0,
            );
        /// A function has been compiled with a body that ReJIT made, or could not be.
        fn ReJITCompilationFinished(function: FunctionId, rejit: ReJitId, status: HResult, safe_to_block: BOOL)
            => rejit_compilation_finished(
                function: FunctionId = function,
                rejit: ReJitId = rejit,
                status: Result<(), HResult> = status.ok(),
                safe_to_block: bool = safe_to_block != 0,
            );
        /// ReJIT of a method failed. The function is null if the failure concerns all of the
        /// method's instantiations.
        fn ReJITError(module: ModuleId, method: mdMethodDef, function: FunctionId, status: HResult)
            => rejit_error(
                module: ModuleId = module,
                method: mdMethodDef = method,
                function: Option<FunctionId> = function.non_null(),
                status: HResult = status,
            );
        /// A method is being ReJITted: give its new body to `control`.
        fn GetReJITParameters(
            module: ModuleId,
            method: mdMethodDef,
            control: Option<InterfaceRef<'_, ICorProfilerFunctionControl>>,
        ) => get_rejit_parameters(
            module: ModuleId = module,
            method: mdMethodDef = method,
            control: Option<FunctionControl<'_>> = control.map(FunctionControl::new),
        );
        /// Objects have been moved. (GC, GC_MOVED_OBJECTS)
        fn MovedReferences2(
            count: u32,
            old: *const RawObjectId,
            new: *const RawObjectId,
            lengths: *const usize,
        ) => moved_references2(ranges: MovedRanges<'_, usize> = MovedRanges {
            old: slice(old, count),
            new: slice(new, count),
            lengths: slice(lengths, count),
        });
        /// Objects have survived in place. (GC)
        fn SurvivingReferences2(count: u32, starts: *const RawObjectId, lengths: *const usize)
            => surviving_references2(ranges: SurvivingRanges<'_, usize> = SurvivingRanges {
                starts: slice(starts, count),
                lengths: slice(lengths, count),
            });
    } and {}

    ICorProfilerCallback5Impl {
        /// Entries of ConditionalWeakTables. (GC)
        fn ConditionalWeakTableElementReferences(
            count: u32,
            keys: *const RawObjectId,
            values: *const RawObjectId,
            handles: *const GcHandleId,
        ) => conditional_weak_table_element_references(references: DependentReferences<'_> = DependentReferences {
            keys: slice(keys, count),
            values: slice(values, count),
            handles: slice(handles, count),
        });
    } and {}

    ICorProfilerCallback6Impl {
        /// Which references will the profiler add to this assembly? (ADD_ASSEMBLY_REFERENCES; .NET
        /// Framework only)
        fn GetAssemblyReferences(
            path: *const u16,
            provider: Option<InterfaceRef<'_, ICorProfilerAssemblyReferenceProvider>>,
        ) => get_assembly_references(
            path: Utf16<'_> = utf16_z(path),
            provider: Option<AssemblyReferenceProvider<'_>> = provider.map(AssemblyReferenceProvider::new),
        );
    } and {}

    ICorProfilerCallback7Impl {
        /// The symbols of an in-memory module have changed. (IN_MEMORY_SYMBOLS_UPDATED)
        fn ModuleInMemorySymbolsUpdated(module: ModuleId)
            => module_in_memory_symbols_updated(module: ModuleId = module);
    } and {}

    ICorProfilerCallback8Impl {
        /// A dynamic method or a stub is being compiled; `il` is its body. (JIT_COMPILATION)
        fn DynamicMethodJITCompilationStarted(
            function: FunctionId,
            safe_to_block: BOOL,
            il: *const u8,
            il_len: u32,
        ) => dynamic_method_jit_compilation_started(
            function: FunctionId = function,
            safe_to_block: bool = safe_to_block != 0,
            il: &[u8] = slice(il, il_len),
        );
        /// A dynamic method or a stub has been compiled, or could not be. (JIT_COMPILATION)
        fn DynamicMethodJITCompilationFinished(function: FunctionId, status: HResult, safe_to_block: BOOL)
            => dynamic_method_jit_compilation_finished(
                function: FunctionId = function,
                status: Result<(), HResult> = status.ok(),
                safe_to_block: bool = safe_to_block != 0,
            );
    } and {}

    ICorProfilerCallback9Impl {
        /// A dynamic method has been collected. (DYNAMIC_FUNCTION_UNLOADS)
        fn DynamicMethodUnloaded(function: FunctionId) => dynamic_method_unloaded(function: FunctionId = function);
    } and {}

    ICorProfilerCallback10Impl {
        /// An event of an EventPipe session of ours. (EVENT_PIPE)
        fn EventPipeEventDelivered(
            provider: EVENTPIPE_PROVIDER,
            id: u32,
            version: u32,
            metadata_len: u32,
            metadata: *const u8,
            data_len: u32,
            data: *const u8,
            activity: *const Guid,
            related_activity: *const Guid,
            thread: ThreadId,
            frames: u32,
            stack: *const usize,
        ) => event_pipe_event_delivered(event: DeliveredEvent<'_> = DeliveredEvent {
            provider: EventPipeProviderId(provider),
            id,
            version,
            metadata: slice(metadata, metadata_len),
            data: slice(data, data_len),
            activity: activity.as_ref(),
            related_activity: related_activity.as_ref(),
            thread: thread.non_null(),
            stack: slice(stack, frames),
        });
        /// An EventPipe provider has been made. (EVENT_PIPE)
        fn EventPipeProviderCreated(provider: EVENTPIPE_PROVIDER)
            => event_pipe_provider_created(provider: EventPipeProviderId = EventPipeProviderId(provider));
    } and {}

    ICorProfilerCallback11Impl {
    } and {
        unsafe fn LoadAsNotificationOnly(&self, notification_only: *mut BOOL) -> HResult {
            let answer = self.profiler().load_as_notification_only();
            // SAFETY: null or a place for the answer.
            if let Some(notification_only) = unsafe { notification_only.as_mut() } {
                *notification_only = BOOL::from(answer);
            }
            com::hresult::S_OK
        }
    }
}
