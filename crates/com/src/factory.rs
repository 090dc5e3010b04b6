//! Class factories: how a library hands out its first object.

use core::ffi::c_void;

use crate::hresult::E_NOTIMPL;
use crate::hresult::{CLASS_E_NOAGGREGATION, E_POINTER, S_OK};
use crate::{ComClass, ComObject, Guid, HResult, IUnknown, Interface, com_interface};

com_interface! {
    /// Makes objects of one class.
    interface IClassFactory(IClassFactoryVtbl, IClassFactoryImpl): IUnknown(ComClass)
        = "00000001-0000-0000-C000-000000000046", default E_NOTIMPL;
    fn CreateInstance(outer: *mut c_void, iid: *const Guid, object: *mut *mut c_void) -> HResult;
    fn LockServer(lock: i32) -> HResult;
}

/// A class factory around a closure that makes the object.
pub struct ClassFactory<F> {
    create: F,
}

impl<F> ClassFactory<F>
where
    F: Fn() -> Result<IUnknown, HResult> + Send + Sync + 'static,
{
    /// The factory as a COM object. `create` is called once for each object asked for.
    pub fn new(create: F) -> ComObject<ClassFactory<F>> {
        ComObject::new(ClassFactory { create })
    }
}

impl<F> ComClass for ClassFactory<F>
where
    F: Fn() -> Result<IUnknown, HResult> + Send + Sync + 'static,
{
    type Interface = IClassFactory;
}

impl<F> IClassFactoryImpl for ClassFactory<F>
where
    F: Fn() -> Result<IUnknown, HResult> + Send + Sync + 'static,
{
    unsafe fn CreateInstance(
        &self,
        outer: *mut c_void,
        iid: *const Guid,
        object: *mut *mut c_void,
    ) -> HResult {
        if iid.is_null() || object.is_null() {
            return E_POINTER;
        }
        // SAFETY: not null, and a valid out pointer by the method's contract.
        unsafe { *object = core::ptr::null_mut() };
        if !outer.is_null() {
            return CLASS_E_NOAGGREGATION;
        }
        match (self.create)() {
            // SAFETY: both pointers are valid by the method's contract. The interface asked for
            // decides the pointer's type; if the object has none such, the object goes with
            // `created`.
            Ok(created) => unsafe {
                (created.vtable().QueryInterface)(created.as_raw(), iid, object)
            },
            Err(code) => code,
        }
    }

    unsafe fn LockServer(&self, lock: i32) -> HResult {
        crate::object::lock_server(lock != 0);
        S_OK
    }
}

/// Answers `DllGetClassObject`: `factory` is the class factory of the class asked for.
///
/// # Safety
///
/// `iid` and `out` are null or valid, as COM passes them.
pub unsafe fn get_class_object(
    factory: &impl Interface,
    iid: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    if iid.is_null() || out.is_null() {
        return E_POINTER;
    }
    let factory = factory.as_unknown();
    // SAFETY: `factory` is live, the pointers are valid by this function's contract.
    unsafe { (factory.vtable().QueryInterface)(factory.as_raw(), iid, out) }
}
