//! A profiler that the fake runtime has loaded, and its callbacks.

use com::{ComObject, HResult, InterfaceRef};
use corprof::Profiler;
use corprof::abi::*;
use corprof::ids::*;
use corprof::profiler::Shim;

use crate::MockClr;

/// A loaded profiler. The methods are the runtime's callbacks in the form that tests want, without
/// the result, which the runtime ignores; [`Loaded::raw`] has all of them as they are.
///
/// Dropping it is no shutdown: call [`Loaded::shutdown`] or [`Loaded::detach`].
pub struct Loaded<P: Profiler> {
    clr: MockClr,
    shim: ComObject<Shim<P>>,
    callback: ICorProfilerCallback11,
}

/// Callbacks of one number each.
macro_rules! simple {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $ty:ty),*) = $raw:ident;)*) => {
        $(
            $(#[$meta])*
            pub fn $name(&self, $($arg: $ty),*) {
                // SAFETY: no pointers.
                ignore(unsafe { self.callback.$raw($($arg),*) });
            }
        )*
    };
}

/// The runtime does not care what most callbacks return.
fn ignore(_code: HResult) {}

/// A list's length as the runtime passes it. Tests have no longer lists.
fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

impl<P: Profiler> Loaded<P> {
    pub(crate) fn new(clr: MockClr, profiler: P) -> Loaded<P> {
        let shim = Shim::object(profiler);
        let callback = shim.to_interface();
        Loaded { clr, shim, callback }
    }

    /// The runtime that it is loaded into.
    pub fn clr(&self) -> &MockClr {
        &self.clr
    }

    /// The profiler.
    pub fn profiler(&self) -> &P {
        self.shim.profiler()
    }

    /// What stands between the runtime and the profiler.
    pub fn shim(&self) -> &Shim<P> {
        &self.shim
    }

    /// Every callback as the runtime has it.
    pub fn raw(&self) -> &ICorProfilerCallback11 {
        &self.callback
    }

    simple! {
        /// The process ends.
        shutdown() = Shutdown;
        /// A detach is done.
        detach() = ProfilerDetachSucceeded;
        /// A module has been loaded.
        module_loaded(module: ModuleId, status: HResult) = ModuleLoadFinished;
        /// A module is being unloaded.
        module_unloading(module: ModuleId) = ModuleUnloadStarted;
        /// A managed thread has been created.
        thread_created(thread: ThreadId) = ThreadCreated;
        /// A managed thread has ended.
        thread_destroyed(thread: ThreadId) = ThreadDestroyed;
        /// A managed thread runs on an operating system thread.
        thread_assigned(thread: ThreadId, os_thread: u32) = ThreadAssignedToOSThread;
        /// The runtime is being suspended.
        suspend_started(reason: COR_PRF_SUSPEND_REASON) = RuntimeSuspendStarted;
        /// The runtime is suspended.
        suspend_finished() = RuntimeSuspendFinished;
        /// The runtime is being resumed.
        resume_started() = RuntimeResumeStarted;
        /// The runtime runs again.
        resume_finished() = RuntimeResumeFinished;
        /// An object is being allocated.
        object_allocated(object: RawObjectId, class: ClassId) = ObjectAllocated;
        /// An exception has been thrown.
        exception_thrown(exception: RawObjectId) = ExceptionThrown;
        /// The function that will catch the exception has been found.
        exception_catcher_found(function: FunctionId) = ExceptionSearchCatcherFound;
        /// A catch block is about to run.
        exception_catcher_entered(function: FunctionId, exception: RawObjectId) = ExceptionCatcherEnter;
        /// A catch block has run.
        exception_catcher_left() = ExceptionCatcherLeave;
        /// A collection has ended.
        gc_finished() = GarbageCollectionFinished;
    }

    /// A function has been compiled: both callbacks of it, with `safe_to_block` true.
    pub fn compiled(&self, function: FunctionId, status: HResult) {
        // SAFETY: no pointers.
        unsafe {
            ignore(self.callback.JITCompilationStarted(function, 1));
            ignore(self.callback.JITCompilationFinished(function, status, 1));
        }
    }

    /// May `callee` be inlined into `caller`?
    pub fn may_inline(&self, caller: FunctionId, callee: FunctionId) -> bool {
        let mut answer = 1;
        // SAFETY: a place for the answer.
        ignore(unsafe { self.callback.JITInlining(caller, callee, &mut answer) });
        answer != 0
    }

    /// May the precompiled code of `function` be used?
    pub fn may_use_precompiled(&self, function: FunctionId) -> bool {
        let mut answer = 1;
        // SAFETY: a place for the answer.
        ignore(unsafe { self.callback.JITCachedFunctionSearchStarted(function, &mut answer) });
        answer != 0
    }

    /// A thread has got a name.
    pub fn thread_named(&self, thread: ThreadId, name: &str) {
        let units: Vec<u16> = name.encode_utf16().collect();
        // SAFETY: the name lives during the call.
        ignore(unsafe { self.callback.ThreadNameChanged(thread, len(&units), units.as_ptr()) });
    }

    /// A collection of the generations from 0 to `oldest` begins.
    pub fn gc_started(&self, oldest: u32, reason: COR_PRF_GC_REASON) {
        let collected: Vec<BOOL> =
            (0..5).map(|generation| BOOL::from(generation <= oldest)).collect();
        // SAFETY: the list lives during the call.
        ignore(unsafe { self.callback.GarbageCollectionStarted(5, collected.as_ptr(), reason) });
    }

    /// Ranges of objects have been moved: old start, new start, length in bytes.
    pub fn moved(&self, ranges: &[(RawObjectId, RawObjectId, usize)]) {
        let old: Vec<_> = ranges.iter().map(|range| range.0).collect();
        let new: Vec<_> = ranges.iter().map(|range| range.1).collect();
        let lengths: Vec<_> = ranges.iter().map(|range| range.2).collect();
        // SAFETY: the lists live during the call and are equally long.
        ignore(unsafe {
            self.callback.MovedReferences2(
                len(ranges),
                old.as_ptr(),
                new.as_ptr(),
                lengths.as_ptr(),
            )
        });
    }

    /// Ranges of objects have survived in place: start, length in bytes.
    pub fn survived(&self, ranges: &[(RawObjectId, usize)]) {
        let starts: Vec<_> = ranges.iter().map(|range| range.0).collect();
        let lengths: Vec<_> = ranges.iter().map(|range| range.1).collect();
        // SAFETY: the lists live during the call and are equally long.
        ignore(unsafe {
            self.callback.SurvivingReferences2(len(ranges), starts.as_ptr(), lengths.as_ptr())
        });
    }

    /// A method is being ReJITted; what the profiler does with `control` is recorded there.
    pub fn rejit_parameters(
        &self,
        module: ModuleId,
        method: mdMethodDef,
        control: Option<InterfaceRef<'_, ICorProfilerFunctionControl>>,
    ) {
        // SAFETY: the pointer is live during the call.
        ignore(unsafe { self.callback.GetReJITParameters(module, method, control) });
    }

    /// Would the profiler be loaded as a notification-only one? Asked before Initialize by a real
    /// runtime.
    pub fn is_notification_only(&self) -> bool {
        let mut answer = 0;
        // SAFETY: a place for the answer.
        ignore(unsafe { self.callback.LoadAsNotificationOnly(&mut answer) });
        answer != 0
    }
}
