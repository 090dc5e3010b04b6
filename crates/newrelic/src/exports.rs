//! Functions that the managed agent calls by name, besides the two of COM.
//!
//! Each is a line of a table: name, result without a profiler, what it does. None lets a panic
//! through.

mod threads;

use crate::instance::{Instance, current};
use crate::live::{self, E_FAIL};
use core::ffi::{CStr, c_char};
use newrelic_compat::log::Level;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs one of the functions for the profiler of this process. Without one, or after a panic, gives
/// `otherwise`.
fn with<T: Copy>(name: &str, otherwise: T, run: impl FnOnce(&Arc<Instance>) -> T) -> T {
    let guarded = catch_unwind(AssertUnwindSafe(|| {
        let instance = current()?;
        let result = catch_unwind(AssertUnwindSafe(|| run(&instance)));
        if result.is_err() {
            instance
                .log(Level::Error, &format!("{name} failed because of a fault of the profiler."));
        }
        result.ok()
    }));
    guarded.ok().flatten().unwrap_or(otherwise)
}

/// Text that the managed agent passes: UTF-8 on Linux; on Windows each byte is a character.
fn text(bytes: &[u8]) -> String {
    if cfg!(windows) {
        bytes.iter().map(|byte| char::from(*byte)).collect()
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Reads the instrumentation files again, and changes what is instrumented.
///
/// Gives `S_OK`, `S_FALSE` if a file is invalid and everything stays, `E_FAIL` without a profiler.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn InstrumentationRefresh() -> i32 {
    with("InstrumentationRefresh", E_FAIL, live::refresh_instrumentation)
}

/// Reads the configuration again, then as [`InstrumentationRefresh`]. The log stays where it is.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn ReloadConfiguration() -> i32 {
    with("ReloadConfiguration", E_FAIL, live::reload_configuration)
}

/// Keeps an instrumentation file with a name, until [`ApplyCustomInstrumentation`].
///
/// Gives `S_OK`, or `E_FAIL` without a profiler or without one of the texts.
///
/// # Safety
/// Both are null or end with a zero byte.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AddCustomInstrumentation(name: *const c_char, xml: *const c_char) -> i32 {
    let read = |pointer: *const c_char| {
        if pointer.is_null() {
            return None;
        }
        // SAFETY: not null, and a text with a zero at its end by this function's contract.
        Some(text(unsafe { CStr::from_ptr(pointer) }.to_bytes()))
    };
    with("AddCustomInstrumentation", E_FAIL, |instance| match (read(name), read(xml)) {
        (Some(name), Some(xml)) => live::add_custom_instrumentation(instance, name, xml),
        _ => E_FAIL,
    })
}

/// What was added since the last time takes the place of what was added before.
///
/// Gives what [`InstrumentationRefresh`] does, or `S_OK` where there was nothing and is nothing.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub extern "C" fn ApplyCustomInstrumentation() -> i32 {
    with("ApplyCustomInstrumentation", E_FAIL, |instance| {
        live::apply_custom_instrumentation(instance)
    })
}
