//! A library made with this crate can be unloaded from a thread that ran its code and saw it panic:
//! nothing was registered on the thread that would pin the library.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CString, c_void};
use std::path::PathBuf;

use com::hresult::{CLASS_E_CLASSNOTAVAILABLE, E_NOTIMPL, E_UNEXPECTED, S_FALSE, S_OK};
use com::{ComClass, Guid, HResult, IClassFactory, IUnknown, Interface, com_interface};

com_interface! {
    /// The interface as `examples/panicking.rs` has it.
    interface IPanicking(IPanickingVtbl, IPanickingImpl): IUnknown(ComClass)
        = "6B1D2E5C-74A8-4B0F-9C0A-0E3F7B6C1D01", default E_NOTIMPL;
    fn Panic() -> HResult;
    fn Work(sum: *mut u32) -> HResult;
}

fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    profile.join("examples").join("libpanicking.so")
}

/// Whether the library's code is in memory. A mere copy of the file does not count: a printed
/// backtrace leaves one.
fn mapped(path: &str) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        line.contains(path) && line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'))
    })
}

type GetClassObject =
    unsafe extern "system" fn(*const Guid, *const Guid, *mut *mut c_void) -> HResult;
type CanUnloadNow = extern "system" fn() -> HResult;

#[test]
fn a_library_that_panicked_can_be_unloaded_by_the_thread_that_saw_it() {
    let path = library();
    let text = path.to_str().unwrap();
    let c_path = CString::new(text).unwrap();
    // SAFETY: a library of this crate, whose entry points have the types above; every pointer from
    // it is dropped before it is unloaded.
    unsafe {
        let handle = libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(
            !handle.is_null(),
            "{text} is missing: run through `cargo test`, which builds the example"
        );
        let get: GetClassObject =
            std::mem::transmute(libc::dlsym(handle, c"DllGetClassObject".as_ptr()));
        let can_unload: CanUnloadNow =
            std::mem::transmute(libc::dlsym(handle, c"DllCanUnloadNow".as_ptr()));
        assert_eq!(can_unload(), S_OK);

        let mut out = std::ptr::null_mut();
        assert_eq!(get(&Guid::NULL, &IClassFactory::IID, &mut out), CLASS_E_CLASSNOTAVAILABLE);
        assert_eq!(get(&IPanicking::IID, &IClassFactory::IID, &mut out), S_OK);
        let factory = IClassFactory::from_nullable(out).unwrap();
        assert_eq!(can_unload(), S_FALSE);
        assert_eq!(factory.CreateInstance(std::ptr::null_mut(), &IPanicking::IID, &mut out), S_OK);
        let object = IPanicking::from_nullable(out).unwrap();
        drop(factory);

        let mut sum = 0;
        assert_eq!(object.Work(&mut sum), S_OK);
        assert_eq!(sum, 6);
        assert_eq!(object.Panic(), E_UNEXPECTED);
        drop(object);
        assert_eq!(can_unload(), S_OK);

        assert!(mapped(text));
        assert_eq!(libc::dlclose(handle), 0);
    }
    assert!(!mapped(text), "something keeps the library loaded");
}
