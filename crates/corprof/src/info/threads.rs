//! Managed threads.

use com::codes::CORPROF_E_NOT_MANAGED_THREAD;
use com::hresult::S_OK;

use super::ProfilerInfo;
use super::call::{check, raw};
use super::enumerate::HandleEnum;
use super::error::Result;
use crate::abi::{HANDLE, ICorProfilerThreadEnum};
use crate::ids::{AppDomainId, ContextId, ThreadId};

/// A thread's id as the operating system gives it: on Linux, that of `gettid`.
pub type OsThreadId = u32;

impl ProfilerInfo {
    /// The managed thread that calls (`GetCurrentThreadID`); `None` on a thread that has never run
    /// managed code.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn current_thread(&self) -> Result<Option<ThreadId>> {
        let mut thread = ThreadId::NULL;
        let hresult = raw!(self.raw, GetCurrentThreadID(&mut thread));
        if hresult == CORPROF_E_NOT_MANAGED_THREAD {
            return Ok(None);
        }
        check("GetCurrentThreadID", hresult)?;
        Ok(thread.non_null())
    }

    /// The operating system's id of a managed thread (`GetThreadInfo`); `None` if it has not
    /// started or has ended.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn thread_os_id(&self, thread: ThreadId) -> Result<Option<OsThreadId>> {
        let mut id = 0;
        check("GetThreadInfo", raw!(self.raw, GetThreadInfo(thread, &mut id)))?;
        // The runtime holds all ones for a thread that the system does not know yet.
        Ok(Some(id).filter(|id| *id != 0 && *id != u32::MAX))
    }

    /// Windows handle of a managed thread (`GetHandleFromThread`), which stays the runtime's.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn thread_handle(&self, thread: ThreadId) -> Result<HANDLE> {
        let mut handle = core::ptr::null_mut();
        check("GetHandleFromThread", raw!(self.raw, GetHandleFromThread(thread, &mut handle)))?;
        Ok(handle)
    }

    /// The application domain that a thread runs in (`GetThreadAppDomain`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn thread_app_domain(&self, thread: ThreadId) -> Result<Option<AppDomainId>> {
        let mut app_domain = AppDomainId::NULL;
        let hresult = raw!(self.raw, GetThreadAppDomain(thread, &mut app_domain));
        check("GetThreadAppDomain", hresult)?;
        Ok(app_domain.non_null().filter(|_| hresult == S_OK))
    }

    /// The remoting context of a thread (`GetThreadContext`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn thread_context(&self, thread: ThreadId) -> Result<Option<ContextId>> {
        let mut context = ContextId::NULL;
        check("GetThreadContext", raw!(self.raw, GetThreadContext(thread, &mut context)))?;
        Ok(context.non_null())
    }

    /// All managed threads (`EnumThreads`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn threads(&self) -> Result<HandleEnum<ICorProfilerThreadEnum>> {
        let mut threads = None;
        check("EnumThreads", raw!(*self.info4()?, EnumThreads(&mut threads)))?;
        HandleEnum::new("EnumThreads", threads)
    }

    /// Prepares the calling native thread for calls into the runtime, so that a later one does not
    /// allocate (`InitializeCurrentThread`).
    ///
    /// # Errors
    /// `E_OUTOFMEMORY`.
    pub fn initialize_current_thread(&self) -> Result<()> {
        check("InitializeCurrentThread", raw!(*self.info4()?, InitializeCurrentThread()))
    }
}
