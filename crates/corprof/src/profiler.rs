//! The life of a profiler: from the runtime's first question to the end.

use core::any::Any;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::io::Write;
use std::sync::{Arc, OnceLock};

use com::codes::META_E_BAD_SIGNATURE;
use com::hresult::{
    CLASS_E_CLASSNOTAVAILABLE, E_FAIL, E_NOINTERFACE, E_POINTER, E_UNEXPECTED, S_FALSE, S_OK,
};
use com::{ClassFactory, ComClass, ComObject, Guid, HResult, IUnknown, Interface, InterfaceRef};

use crate::abi::{
    ICorProfilerCallback2, ICorProfilerCallback3, ICorProfilerCallback4, ICorProfilerCallback5,
    ICorProfilerCallback6, ICorProfilerCallback7, ICorProfilerCallback8, ICorProfilerCallback9,
    ICorProfilerCallback10, ICorProfilerCallback11,
};
use crate::callback::{CallbackCx, ProfilerCallback};
use crate::events::EventMask;
use crate::info::{Error, ProfilerInfo};

/// A panic that was stopped before it reached the runtime.
#[derive(Clone, Copy, Debug)]
pub struct PanicReport<'a> {
    /// The callback in which it happened, `Interface::Method`.
    pub callback: &'a str,
    /// The panic's message, if it had one.
    pub message: Option<&'a str>,
    /// How many panics of this profiler there were, with this one. Callbacks that were already
    /// running when the profiler was switched off can panic as well.
    pub count: u32,
}

/// A profiler's beginning and end. What happens in between comes through [`ProfilerCallback`].
///
/// The runtime makes one instance of it (through [`export_profiler!`](crate::export_profiler)),
/// then calls either [`initialize`](Profiler::initialize), when the process starts with the
/// profiler, or [`initialize_for_attach`](Profiler::initialize_for_attach), when it is attached to
/// a running process. Both say which events they want.
///
/// A panic in any of the methods or callbacks goes no further: the program runs on, and
/// [`panicked`](Profiler::panicked) is called. From then on this instance is only told what ends:
/// threads, modules, classes and functions whose ids stand for nothing any more, suspensions,
/// collections and compilations, and itself ([`detach_succeeded`](Profiler::detach_succeeded),
/// [`shutdown`](Profiler::shutdown)). Threads of the profiler may still run, and must not take for
/// alive what is freed. (In the two `initialize` methods a panic makes the runtime unload the
/// profiler.)
#[allow(unused_variables)]
pub trait Profiler: ProfilerCallback {
    /// The newest callback interface that the runtime is given: 1 for `ICorProfilerCallback`, up
    /// to 11. Events of newer ones do not come, and the runtime saves the work of telling them.
    /// ReJIT takes 4.
    const NEWEST_CALLBACK: u8 = 11;

    /// The process is starting. No managed code has run. An error keeps the profiler from being
    /// loaded, and the process starts without it.
    ///
    /// `info` may be kept (it can be cloned) and used from any thread until
    /// [`detach_succeeded`](Profiler::detach_succeeded) or [`shutdown`](Profiler::shutdown).
    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult>;

    /// The profiler is being attached to a running process. `client_data` is what came with the
    /// request to attach. See [`EventMask::AFTER_ATTACH`] for what may be asked for.
    ///
    /// By default this refuses.
    fn initialize_for_attach(
        &self,
        info: &ProfilerInfo,
        client_data: &[u8],
    ) -> Result<EventMask, HResult> {
        Err(com::codes::CORPROF_E_PROFILER_NOT_ATTACHABLE)
    }

    /// `initialize` or `initialize_for_attach` has failed or panicked, or the runtime has refused
    /// the events that it returned: the runtime unloads the library as soon as this returns. No
    /// thread of the profiler may be left then.
    fn initialize_failed(&self) {}

    /// Whether to run as one of several notification-only profilers, which can be beside a main
    /// one. Asked before anything else, and only by .NET 6 and newer. See
    /// [`EventMask::NOTIFICATION_ONLY`] for what such a profiler may ask for.
    fn load_as_notification_only(&self) -> bool {
        false
    }

    /// After `initialize_for_attach`, from now on callbacks come.
    fn attach_complete(&self, cx: &CallbackCx<'_>) {}

    /// The detach that was requested is done: no callback runs or will come, and the library is
    /// about to be unloaded. No thread of the profiler may be left.
    fn detach_succeeded(&self, cx: &CallbackCx<'_>) {}

    /// The process is ending. Other threads may still be running, even in callbacks; and a process
    /// that is killed never comes here.
    fn shutdown(&self, cx: &CallbackCx<'_>) {}

    /// A panic was stopped. By default this writes one line to standard error.
    fn panicked(&self, report: PanicReport<'_>) {
        let message = report.message.unwrap_or("no message");
        // There is nobody to tell if standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "profiler switched off: panic in {}: {message}",
            report.callback
        );
    }
}

impl<P: Profiler> Profiler for Arc<P> {
    const NEWEST_CALLBACK: u8 = P::NEWEST_CALLBACK;

    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        (**self).initialize(info)
    }

    fn initialize_for_attach(
        &self,
        info: &ProfilerInfo,
        client_data: &[u8],
    ) -> Result<EventMask, HResult> {
        (**self).initialize_for_attach(info, client_data)
    }

    fn initialize_failed(&self) {
        (**self).initialize_failed();
    }

    fn load_as_notification_only(&self) -> bool {
        (**self).load_as_notification_only()
    }

    fn attach_complete(&self, cx: &CallbackCx<'_>) {
        (**self).attach_complete(cx);
    }

    fn detach_succeeded(&self, cx: &CallbackCx<'_>) {
        (**self).detach_succeeded(cx);
    }

    fn shutdown(&self, cx: &CallbackCx<'_>) {
        (**self).shutdown(cx);
    }

    fn panicked(&self, report: PanicReport<'_>) {
        (**self).panicked(report);
    }
}

/// So that `?` works on the runtime's answers in [`Profiler::initialize`].
impl From<Error> for HResult {
    fn from(error: Error) -> HResult {
        match error {
            Error::Hr { hresult, .. } => hresult,
            Error::NeedsRuntime { .. } => E_NOINTERFACE,
            Error::Nothing { .. } => E_UNEXPECTED,
            Error::Signature(_) => META_E_BAD_SIGNATURE,
        }
    }
}

/// The COM object that stands between the runtime and a [`Profiler`].
///
/// [`export_profiler!`](crate::export_profiler) makes it where the runtime asks for it; tests make
/// it themselves, with [`Shim::object`].
pub struct Shim<P> {
    profiler: P,
    /// Set by whichever `initialize` comes.
    info: OnceLock<ProfilerInfo>,
    /// A panic happened: no more callbacks.
    off: AtomicBool,
    panics: AtomicU32,
}

impl<P: Profiler> Shim<P> {
    /// Wraps a profiler as the object that the runtime expects.
    pub fn object(profiler: P) -> ComObject<Shim<P>> {
        ComObject::new(Shim {
            profiler,
            info: OnceLock::new(),
            off: AtomicBool::new(false),
            panics: AtomicU32::new(0),
        })
    }

    /// The profiler.
    pub fn profiler(&self) -> &P {
        &self.profiler
    }

    /// Whether a panic has switched the profiler off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }

    /// How many panics have been stopped.
    pub fn panics(&self) -> u32 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Runs a callback, unless the profiler is switched off or was never initialized.
    pub(crate) fn tell(&self, callback: impl FnOnce(&P, &CallbackCx<'_>)) -> HResult {
        self.tell_if(false, callback)
    }

    /// The same, also when it is switched off where `even_if_off` says so.
    pub(crate) fn tell_if(
        &self,
        even_if_off: bool,
        callback: impl FnOnce(&P, &CallbackCx<'_>),
    ) -> HResult {
        if self.is_off() && !even_if_off { S_OK } else { self.tell_even_if_off(callback) }
    }

    /// Runs one of the callbacks that end a profiler's life. Those come even after a panic: threads
    /// that the profiler started have to be ended before the library is unloaded.
    pub(crate) fn tell_even_if_off(&self, callback: impl FnOnce(&P, &CallbackCx<'_>)) -> HResult {
        if let Some(info) = self.info.get() {
            callback(&self.profiler, &CallbackCx::new(info));
        }
        S_OK
    }

    /// Both ways of initializing.
    pub(crate) fn initialize(
        &self,
        unknown: Option<InterfaceRef<'_, IUnknown>>,
        initialize: impl FnOnce(&P, &ProfilerInfo) -> Result<EventMask, HResult>,
    ) -> HResult {
        let Some(unknown) = unknown else { return E_POINTER };
        let started = (|| {
            let info = ProfilerInfo::new(&unknown)?;
            if self.info.set(info).is_err() {
                // A second initialization of one instance is no part of the protocol.
                return Err(E_UNEXPECTED);
            }
            let info = self.info.get().ok_or(E_UNEXPECTED)?;
            // Also when it panics.
            let failed = Failed(&self.profiler);
            let mask = initialize(&self.profiler, info)?;
            info.set_event_mask(mask).map_err(HResult::from)?;
            core::mem::forget(failed);
            Ok(())
        })();
        match started {
            Ok(()) => S_OK,
            // An error must not look like a success to the runtime.
            Err(code) if code.is_ok() => E_FAIL,
            Err(code) => code,
        }
    }
}

/// Tells a profiler that it was not initialized, unless that is forgotten.
struct Failed<'a, P: Profiler>(&'a P);

impl<P: Profiler> Drop for Failed<'_, P> {
    fn drop(&mut self) {
        self.0.initialize_failed();
    }
}

impl<P: Profiler> ComClass for Shim<P> {
    type Interface = ICorProfilerCallback11;

    fn refuses(&self, iid: &Guid) -> bool {
        let newer = CALLBACKS.iter().skip(usize::from(P::NEWEST_CALLBACK).saturating_sub(1));
        newer.into_iter().any(|callback| callback == iid)
    }

    fn panicked(&self, method: &'static str, payload: &(dyn Any + Send)) {
        self.off.store(true, Ordering::Relaxed);
        let count = self.panics.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let message = payload.downcast_ref::<&'static str>().copied();
        let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        self.profiler.panicked(PanicReport { callback: method, message, count });
    }
}

/// The callback interfaces from the second on.
const CALLBACKS: [Guid; 10] = [
    ICorProfilerCallback2::IID,
    ICorProfilerCallback3::IID,
    ICorProfilerCallback4::IID,
    ICorProfilerCallback5::IID,
    ICorProfilerCallback6::IID,
    ICorProfilerCallback7::IID,
    ICorProfilerCallback8::IID,
    ICorProfilerCallback9::IID,
    ICorProfilerCallback10::IID,
    ICorProfilerCallback11::IID,
];

/// Defines what the runtime looks for in a profiler's library: `DllGetClassObject` and
/// `DllCanUnloadNow`.
///
/// Each row is a class id (the value of `CORECLR_PROFILER`) and what makes the profiler: a function
/// or closure that gets the class id and returns a [`Profiler`]. One library can hold several. A
/// row with `_` in place of the class id takes every class id, and has to be the only one.
///
/// ```
/// # use corprof::{EventMask, Profiler, ProfilerCallback, ProfilerInfo, export_profiler, guid};
/// # struct Quiet;
/// # impl ProfilerCallback for Quiet {}
/// # impl Profiler for Quiet {
/// #     fn initialize(&self, _: &ProfilerInfo) -> Result<EventMask, corprof::HResult> { Ok(EventMask::NONE) }
/// # }
/// export_profiler! {
///     guid!("8D2E8B5C-1C4A-4B52-9E37-2C5D6E0F7A10") => |_clsid| Quiet,
/// }
/// # fn main() {}
/// ```
///
/// The library must be a `cdylib`. The macro's code is the only `unsafe` code in it; it stands in
/// the crate of the caller, so that crate can `deny` unsafe code but not `forbid` it.
#[macro_export]
macro_rules! export_profiler {
    (_ => $make:expr $(,)?) => {
        $crate::export_profiler!(@find |clsid| Some($crate::export::factory(clsid, $make)));
    };
    ($($clsid:expr => $make:expr),+ $(,)?) => {
        $crate::export_profiler!(@find |clsid| {
            $(
                if clsid == const { $clsid } {
                    return Some($crate::export::factory(clsid, $make));
                }
            )+
            None
        });
    };
    (@find |$id:ident| $find:expr) => {
        /// Entry point: gives out the class factory of a profiler in this library.
        ///
        /// # Safety
        ///
        /// Called by the runtime with pointers that are null or valid.
        #[allow(unsafe_code, non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn DllGetClassObject(
            clsid: *const $crate::Guid,
            iid: *const $crate::Guid,
            object: *mut *mut ::core::ffi::c_void,
        ) -> $crate::HResult {
            // SAFETY: the caller's contract.
            unsafe {
                $crate::export::get_class_object(clsid, iid, object, |$id| $find)
            }
        }

        /// Entry point: whether nothing of this library is in use.
        #[allow(unsafe_code, non_snake_case)]
        #[unsafe(no_mangle)]
        pub extern "system" fn DllCanUnloadNow() -> $crate::HResult {
            $crate::export::can_unload_now()
        }
    };
}

/// What [`export_profiler!`](crate::export_profiler) expands to. Not to be called by hand.
#[doc(hidden)]
pub mod export {
    use super::*;

    /// A class factory that makes profilers.
    pub fn factory<P: Profiler>(
        clsid: Guid,
        make: impl Fn(Guid) -> P + Send + Sync + 'static,
    ) -> IUnknown {
        let factory = ClassFactory::new(move || {
            Ok(Shim::object(make(clsid)).into_interface().as_unknown().clone())
        });
        factory.into_interface().as_unknown().clone()
    }

    /// Answers `DllGetClassObject`.
    ///
    /// # Safety
    ///
    /// The pointers are null or valid.
    pub unsafe fn get_class_object(
        clsid: *const Guid,
        iid: *const Guid,
        object: *mut *mut c_void,
        find: impl FnOnce(Guid) -> Option<IUnknown>,
    ) -> HResult {
        if clsid.is_null() || object.is_null() {
            return E_POINTER;
        }
        // SAFETY: not null, and a place for the answer by this function's contract.
        unsafe { *object = core::ptr::null_mut() };
        // SAFETY: not null, and valid by this function's contract.
        let clsid = unsafe { *clsid };
        match find(clsid) {
            // SAFETY: this function's contract.
            Some(factory) => unsafe { com::get_class_object(&factory, iid, object) },
            None => CLASS_E_CLASSNOTAVAILABLE,
        }
    }

    /// Answers `DllCanUnloadNow`.
    pub fn can_unload_now() -> HResult {
        if com::can_unload_now() { S_OK } else { S_FALSE }
    }
}
