//! The thread profiler's functions.

use super::with;
use crate::instance::Instance;
use crate::live::S_OK;
use crate::thread_profiler::{FunctionName, Refusal, ThreadProfile};
use core::ffi::c_void;
use core::ptr::{null_mut, with_exposed_provenance_mut};

/// `E_UNEXPECTED` (winerror.h): there is no profiler.
const E_UNEXPECTED: i32 = 0x8000_FFFF_u32.cast_signed();

/// Logs why a function fails, and gives its result.
fn refuse(instance: &Instance, function: &str, refusal: &Refusal) -> i32 {
    instance.log(refusal.level(), &format!("{function}: {refusal}."));
    refusal.hresult().0
}

/// Takes the stacks of all managed threads: `count` structures [`ThreadProfile`] at `*data`, until
/// [`ReleaseProfile`].
///
/// Gives `S_OK`; `E_INVALIDARG` for a null argument; `E_FAIL` if the last profile was not released;
/// `E_ABORT` with null and 0 if the thread profiler is shut down during the call; `E_UNEXPECTED`
/// without a profiler, or where the runtime cannot be suspended.
///
/// # Safety
/// Each is null or a place to write to.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RequestProfile(data: *mut *mut c_void, count: *mut i32) -> i32 {
    with("RequestProfile", E_UNEXPECTED, |instance| {
        if data.is_null() || count.is_null() {
            return refuse(instance, "RequestProfile", &Refusal::InvalidArgument);
        }
        let (result, given) = match instance.threads().request_profile() {
            Ok((threads, count)) => {
                (S_OK, Some((with_exposed_provenance_mut::<ThreadProfile>(threads), count)))
            }
            // The caller may pass the places that still hold the last profile.
            Err(Refusal::NotReleased) => {
                return refuse(instance, "RequestProfile", &Refusal::NotReleased);
            }
            Err(refusal) => (refuse(instance, "RequestProfile", &refusal), None),
        };
        let (threads, number) = given.unwrap_or((null_mut(), 0));
        // SAFETY: not null, and places to write to by this function's contract.
        unsafe {
            data.write(threads.cast());
            count.write(number);
        }
        result
    })
}

/// Releases the last profile.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn ReleaseProfile() {
    with("ReleaseProfile", (), |instance| instance.threads().release_profile());
}

/// The names of `count` functions: as many structures [`FunctionName`] at `*names`, until the next
/// call or [`ShutdownThreadProfiler`].
///
/// Gives `S_OK`; `E_INVALIDARG` for a null argument or no functions; `E_UNEXPECTED` without a
/// profiler.
///
/// # Safety
/// `functions` is null or that many ids; `names` is null or a place to write to.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RequestFunctionNames(
    functions: *const usize,
    count: i32,
    names: *mut *mut c_void,
) -> i32 {
    with("RequestFunctionNames", E_UNEXPECTED, |instance| {
        let count = usize::try_from(count).unwrap_or_default();
        if functions.is_null() || names.is_null() || count == 0 {
            return refuse(instance, "RequestFunctionNames", &Refusal::InvalidArgument);
        }
        // SAFETY: not null, and that many ids by this function's contract.
        let functions = unsafe { core::slice::from_raw_parts(functions, count) };
        match instance.threads().request_function_names(functions) {
            Ok(entries) => {
                // SAFETY: not null, and a place to write to by this function's contract.
                unsafe { names.write(with_exposed_provenance_mut::<FunctionName>(entries).cast()) };
                S_OK
            }
            Err(refusal) => refuse(instance, "RequestFunctionNames", &refusal),
        }
    })
}

/// Ends the thread profiler's thread and discards profile and names. The next [`RequestProfile`]
/// starts a new one.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn ShutdownThreadProfiler() {
    with("ShutdownThreadProfiler", (), |instance| instance.threads().shutdown());
}

/// The runtime's id of the calling thread; 0 without a profiler, or on a thread that has never run
/// managed code.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn GetCurrentExecutionEngineThreadId() -> usize {
    with("GetCurrentExecutionEngineThreadId", 0, |instance| instance.threads().current_thread())
}
