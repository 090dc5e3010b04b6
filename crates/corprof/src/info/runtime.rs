//! The runtime itself: its version, suspending it, detaching from it.

use core::fmt;
use core::marker::PhantomData;

use com::IUnknown;

use super::ProfilerInfo;
use super::call::{check, raw, text};
use super::error::Result;
use crate::abi::COR_PRF_RUNTIME_TYPE;
use crate::ids::{ObjectId, RawObjectId};

/// Which runtime this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Number of the runtime in its process; other than 0 only where several are loaded.
    pub instance: u16,
    /// .NET Framework or .NET (Core).
    pub kind: COR_PRF_RUNTIME_TYPE,
    /// Major, minor, build and fix number. .NET Core 3.1 and older all say 4.0.30319.0; their real
    /// version has to be taken from the path of the core library.
    pub version: [u16; 4],
    /// Version as a text.
    pub version_text: String,
}

/// A suspension of the runtime, which lasts until this is dropped: managed threads do not run,
/// objects do not move.
///
/// The holder must not wait for managed code. It stays on its thread, since some runtimes require
/// that the thread that suspended also resumes.
pub struct SuspendedRuntime<'a> {
    info: &'a ProfilerInfo,
    not_send: PhantomData<*mut ()>,
}

impl fmt::Debug for SuspendedRuntime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SuspendedRuntime")
    }
}

impl SuspendedRuntime<'_> {
    /// The runtime that is suspended.
    #[must_use]
    pub const fn info(&self) -> &ProfilerInfo {
        self.info
    }

    /// An object, for as long as the runtime is suspended.
    ///
    /// # Safety
    /// `object` is the address of an object at this time: it was obtained after the suspension
    /// began.
    #[must_use]
    pub unsafe fn object(&self, object: RawObjectId) -> ObjectId<'_> {
        // SAFETY: nothing moves or dies while the runtime is suspended; the rest is this function's
        // contract.
        unsafe { ObjectId::from_raw(object) }
    }

    /// Resumes the runtime, and returns whether that worked. Dropping does the same but reports no
    /// failure.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn resume(self) -> Result<()> {
        let info = self.info;
        core::mem::forget(self);
        info.resume()
    }
}

impl Drop for SuspendedRuntime<'_> {
    fn drop(&mut self) {
        // There is no one to tell, and nothing else to try.
        let _ = self.info.resume();
    }
}

impl ProfilerInfo {
    /// Which runtime this is (`GetRuntimeInformation`).
    ///
    /// # Errors
    /// None on any known runtime.
    pub fn runtime_information(&self) -> Result<RuntimeInfo> {
        let (mut instance, mut kind, mut version) = (0, COR_PRF_RUNTIME_TYPE::default(), [0; 4]);
        let [major, minor, build, fix] = &mut version;
        let version_text = text("GetRuntimeInformation", |buffer, room, needed| {
            raw!(
                self.raw,
                GetRuntimeInformation(
                    &mut instance,
                    &mut kind,
                    &mut *major,
                    &mut *minor,
                    &mut *build,
                    &mut *fix,
                    room,
                    needed,
                    buffer,
                )
            )
        })?;
        Ok(RuntimeInfo { instance, kind, version, version_text })
    }

    /// Suspends all managed threads (`SuspendRuntime`) until the guard is dropped. Call this on a
    /// thread of the profiler's own, not inside a callback.
    ///
    /// The runtime keeps one flag for all profilers of a process and sets it before it waits for
    /// its turn. If two threads or two profilers ask at the same moment, **the second cannot
    /// resume, and the process hangs forever** (`SuspendRuntime` and `ResumeRuntime`,
    /// src/coreclr/vm/proftoeeinterfaceimpl.cpp). Make sure that they do not.
    ///
    /// # Errors
    /// `CORPROF_E_SUSPENSION_IN_PROGRESS` while a collection suspends: try again;
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET Core 3.0.
    pub fn suspend_runtime(&self) -> Result<SuspendedRuntime<'_>> {
        check("SuspendRuntime", raw!(*self.info10()?, SuspendRuntime()))?;
        Ok(SuspendedRuntime { info: self, not_send: PhantomData })
    }

    fn resume(&self) -> Result<()> {
        check("ResumeRuntime", raw!(*self.info10()?, ResumeRuntime()))
    }

    /// Requests a detach (`RequestProfilerDetach`). The runtime waits about `expected_ms` for its
    /// threads to leave the profiler's code, then checks again every now and then, and calls
    /// `ProfilerDetachSucceeded` at the end. The profiler's own threads, timers and sessions must
    /// be gone by then. 300 is a good number: 0 means seconds, and smaller ones sometimes do.
    ///
    /// From .NET 6 on the runtime counts notification-only profilers. It also decrements this count
    /// when the main profiler detaches (src/coreclr/inc/profilepriv.inl, `DeRegisterProfilerInfo`).
    /// From then on a notification-only profiler that is attached gets no callbacks, and **this
    /// call ends the process**. A profiler that gets no callback about a [`Self::suspend_runtime`]
    /// of its own, although it requested [`SUSPENDS`](crate::EventMask::SUSPENDS), must not detach.
    ///
    /// # Errors
    /// `CORPROF_E_IMMUTABLE_FLAGS_SET` and `CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT` after
    /// what cannot be reverted: hooks, new bodies, or the mere flag for ReJIT.
    pub fn request_detach(&self, expected_ms: u32) -> Result<()> {
        check("RequestProfilerDetach", raw!(self.raw, RequestProfilerDetach(expected_ms)))
    }

    /// Debugger of .NET Framework 1.0 inside the process (`GetInprocInspectionInterface`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on every later runtime.
    pub fn inproc_inspection_interface(&self) -> Result<Option<IUnknown>> {
        let mut debugger = None;
        check(
            "GetInprocInspectionInterface",
            raw!(self.raw, GetInprocInspectionInterface(&mut debugger)),
        )?;
        Ok(debugger)
    }

    /// The same for the calling thread (`GetInprocInspectionIThisThread`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on every later runtime.
    pub fn inproc_inspection_of_this_thread(&self) -> Result<Option<IUnknown>> {
        let mut debugger = None;
        check(
            "GetInprocInspectionIThisThread",
            raw!(self.raw, GetInprocInspectionIThisThread(&mut debugger)),
        )?;
        Ok(debugger)
    }

    /// Begins debugging inside the process (`BeginInprocDebugging`); the number goes to
    /// [`Self::end_inproc_debugging`].
    ///
    /// # Errors
    /// `E_NOTIMPL` on every later runtime.
    pub fn begin_inproc_debugging(&self, this_thread_only: bool) -> Result<u32> {
        let mut context = 0;
        check(
            "BeginInprocDebugging",
            raw!(self.raw, BeginInprocDebugging(i32::from(this_thread_only), &mut context)),
        )?;
        Ok(context)
    }

    /// Ends it (`EndInprocDebugging`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on every later runtime.
    pub fn end_inproc_debugging(&self, context: u32) -> Result<()> {
        check("EndInprocDebugging", raw!(self.raw, EndInprocDebugging(context)))
    }
}
