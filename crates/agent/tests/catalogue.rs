//! The registry of profilers, as a program in another language reads it from the library.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a function of a library is called by its name")]

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;

#[test]
fn the_library_says_which_profilers_it_has() {
    let library = std::env::current_exe().unwrap().with_file_name("libclrscope_agent.so");
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path and the name end with a NUL; the function has no parameters and returns a
    // text that ends with a NUL and stays as long as the library is loaded, which is never unloaded.
    let (first, second) = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{} cannot be loaded", library.display());
        let found = libc::dlsym(handle, c"clrscope_catalogue".as_ptr());
        assert!(!found.is_null(), "the library does not export it");
        let catalogue: extern "C" fn() -> *const c_char = std::mem::transmute(found);
        (CStr::from_ptr(catalogue()), CStr::from_ptr(catalogue()))
    };
    assert_eq!(first.as_ptr(), second.as_ptr());
    assert_eq!(first.to_bytes_with_nul(), profilers::CATALOGUE);
    let list: serde_json::Value = serde_json::from_slice(first.to_bytes()).unwrap();
    let ids: Vec<_> =
        list.as_array().unwrap().iter().map(|own| own["id"].as_str().unwrap()).collect();
    let expected: Vec<_> = profilers::PROFILERS.iter().map(|spec| spec.id).collect();
    assert_eq!(ids, expected);
}
