//! A library with one class, whose method panics: loaded and unloaded by the test `unload`.
#![allow(unsafe_code, non_snake_case)]

use core::ffi::c_void;

use com::hresult::{CLASS_E_CLASSNOTAVAILABLE, E_NOTIMPL, E_POINTER, S_FALSE, S_OK};
use com::{ClassFactory, ComClass, ComObject, Guid, HResult, IUnknown, Interface, com_interface};

com_interface! {
    /// Panics on request.
    interface IPanicking(IPanickingVtbl, IPanickingImpl): IUnknown(ComClass)
        = "6B1D2E5C-74A8-4B0F-9C0A-0E3F7B6C1D01", default E_NOTIMPL;
    fn Panic() -> HResult;
    fn Work(sum: *mut u32) -> HResult;
}

struct Panicking;

impl ComClass for Panicking {
    type Interface = IPanicking;
}

impl IPanickingImpl for Panicking {
    unsafe fn Panic(&self) -> HResult {
        panic!("on purpose")
    }

    unsafe fn Work(&self, sum: *mut u32) -> HResult {
        // SAFETY: a valid out pointer, by the method's contract.
        unsafe { *sum = [1, 2, 3].iter().sum() };
        S_OK
    }
}

/// Entry point.
///
/// # Safety
///
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DllGetClassObject(
    clsid: *const Guid,
    iid: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    if clsid.is_null() {
        return E_POINTER;
    }
    // SAFETY: not null, hence valid.
    if unsafe { *clsid } != IPanicking::IID {
        return CLASS_E_CLASSNOTAVAILABLE;
    }
    let factory =
        ClassFactory::new(|| Ok(ComObject::new(Panicking).into_interface().as_unknown().clone()));
    // SAFETY: the caller's contract.
    unsafe { com::get_class_object(&factory.into_interface(), iid, out) }
}

/// Entry point.
#[unsafe(no_mangle)]
pub extern "system" fn DllCanUnloadNow() -> HResult {
    if com::can_unload_now() { S_OK } else { S_FALSE }
}
