//! A scripted fake CLR, for unit tests of profilers.
//!
//! [`MockClr`] stands on the runtime's side of the profiling API: it answers `ICorProfilerInfo` to
//! `ICorProfilerInfo15` from a [`Model`] that the test fills, and it loads a profiler and calls its
//! callbacks through the same tables that the real runtime uses. So everything between is under
//! test: vtables, lifting of arguments, lifetimes, panics.
//!
//! ```
//! use corprof::ids::{FunctionId, RawObjectId};
//! use corprof::{CallbackCx, EventMask, HResult, ObjectId, Profiler, ProfilerCallback, ProfilerInfo};
//! use corprof_mock::MockClr;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! #[derive(Default)]
//! struct Throws(AtomicUsize);
//! impl ProfilerCallback for Throws {
//!     fn exception_thrown(&self, _cx: &CallbackCx<'_>, _exception: ObjectId<'_>) {
//!         self.0.fetch_add(1, Ordering::Relaxed);
//!     }
//! }
//! impl Profiler for Throws {
//!     fn initialize(&self, _info: &ProfilerInfo) -> Result<EventMask, HResult> {
//!         Ok(EventMask::EXCEPTIONS)
//!     }
//! }
//!
//! let clr = MockClr::new();
//! let loaded = clr.launch(Throws::default()).unwrap();
//! loaded.exception_thrown(RawObjectId(0x1000));
//! assert_eq!(loaded.profiler().0.load(Ordering::Relaxed), 1);
//! assert_eq!(clr.model(|model| model.event_mask), EventMask::EXCEPTIONS);
//! ```
//!
//! Queries about functions, code, classes, modules, assemblies, domains, threads and their stacks,
//! objects and handles, heap ranges, suspension, ReJIT requests, detach and environment variables
//! are answered from the model. The others (statics, field layouts, enter/leave hooks, IL
//! allocators, EventPipe) answer `E_NOTIMPL`.
//!
//! What it is not: a runtime. It does not check that a call is allowed at this time (see
//! [`MockClr::fail`] for making calls fail), has no metadata of its own (see [`Module::metadata`]),
//! and its answers are only as true as the model.
#![allow(unsafe_code)]

mod enumerators;
mod info;
mod loaded;
mod model;
mod out;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use com::{ComObject, HResult, IUnknown, Interface};
use corprof::{Profiler, ProfilerInfo};

pub use loaded::Loaded;
pub use model::{
    AppDomain, Assembly, Class, CodeBody, Frame, Function, Model, Module, Object, Thread,
};

use info::Runtime;

/// The fake runtime. Clones are the same runtime.
#[derive(Clone)]
pub struct MockClr {
    runtime: ComObject<Runtime>,
}

/// What the runtime object and the tests share.
pub(crate) struct State {
    pub(crate) model: Mutex<Model>,
    pub(crate) script: Mutex<Script>,
    /// The newest ICorProfilerInfo that QueryInterface gives out.
    pub(crate) newest_info: u8,
}

/// What was called, and what is to fail.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) calls: Vec<&'static str>,
    pub(crate) failures: Vec<(String, HResult)>,
}

/// A test that panicked while it held the lock is no reason to panic again.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for MockClr {
    fn default() -> MockClr {
        MockClr::new()
    }
}

impl MockClr {
    /// The newest runtime: `ICorProfilerInfo15`.
    pub fn new() -> MockClr {
        MockClr::with_newest_info(15)
    }

    /// A runtime whose newest interface is `ICorProfilerInfo<version>`: 11 for .NET Core 3.1, 13
    /// for .NET 7, 14 for .NET 8, 15 for .NET 9.
    pub fn with_newest_info(version: u8) -> MockClr {
        let state = State {
            model: Mutex::new(Model::default()),
            script: Mutex::default(),
            newest_info: version,
        };
        MockClr { runtime: ComObject::new(Runtime { state: Arc::new(state) }) }
    }

    /// Looks at the model or changes it.
    pub fn model<R>(&self, with: impl FnOnce(&mut Model) -> R) -> R {
        with(&mut lock(&self.runtime.state.model))
    }

    /// From now on `method` (a name of the header, such as `GetFunctionInfo`) fails with `code`.
    pub fn fail(&self, method: &str, code: HResult) {
        let mut script = lock(&self.runtime.state.script);
        script.failures.retain(|(failing, _)| failing != method);
        script.failures.push((method.to_owned(), code));
    }

    /// Undoes [`MockClr::fail`].
    pub fn mend(&self, method: &str) {
        lock(&self.runtime.state.script).failures.retain(|(failing, _)| failing != method);
    }

    /// The methods that were called since the last time this was asked, in order.
    pub fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut lock(&self.runtime.state.script).calls)
    }

    /// The pointer that the runtime passes to `Initialize`.
    pub fn unknown(&self) -> IUnknown {
        self.runtime.to_interface().as_unknown().clone()
    }

    /// The runtime as a profiler sees it, without loading one.
    pub fn info(&self) -> Result<ProfilerInfo, HResult> {
        ProfilerInfo::new(&self.unknown())
    }

    /// Loads a profiler as a process does that starts with it (`Initialize`). The error is what
    /// `Initialize` returned; the profiler has been dropped then.
    pub fn launch<P: Profiler>(&self, profiler: P) -> Result<Loaded<P>, HResult> {
        let loaded = Loaded::new(self.clone(), profiler);
        let unknown = self.unknown();
        // SAFETY: the pointer is live during the call.
        unsafe { loaded.raw().Initialize(Some(unknown.to_ref())) }.ok()?;
        Ok(loaded)
    }

    /// Loads a profiler as the attach request does (`InitializeForAttach`, then
    /// `ProfilerAttachComplete`).
    pub fn attach<P: Profiler>(
        &self,
        profiler: P,
        client_data: &[u8],
    ) -> Result<Loaded<P>, HResult> {
        let loaded = Loaded::new(self.clone(), profiler);
        let unknown = self.unknown();
        let len = u32::try_from(client_data.len()).map_err(|_| com::hresult::E_INVALIDARG)?;
        let start = client_data.as_ptr().cast_mut().cast();
        // SAFETY: the pointer and the data are live during the call, and the data is only read.
        unsafe { loaded.raw().InitializeForAttach(Some(unknown.to_ref()), start, len) }.ok()?;
        // SAFETY: no pointers.
        unsafe { loaded.raw().ProfilerAttachComplete() }.ok()?;
        Ok(loaded)
    }
}
