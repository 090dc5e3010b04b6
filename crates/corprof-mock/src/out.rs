//! Writing through out pointers, as the runtime does it: null pointers are skipped.

use com::HResult;
use com::hresult::{E_INVALIDARG, S_OK};

/// Writes one value.
///
/// # Safety
///
/// Null, or a place for a `T`.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, so a place by this function's contract. What was there is not dropped:
        // it is not initialized.
        unsafe { place.write(value) };
    }
}

/// Writes as much of a list as there is room for, and how long it is.
///
/// # Safety
///
/// `needed` is null or a place, `places` is null or `room` places.
pub(crate) unsafe fn put_list<T: Copy>(
    room: u32,
    needed: *mut u32,
    places: *mut T,
    values: &[T],
) -> HResult {
    let Ok(len) = u32::try_from(values.len()) else { return E_INVALIDARG };
    // SAFETY: this function's contract.
    unsafe { put(needed, len) };
    if !places.is_null() {
        let fits = values.len().min(room as usize);
        // SAFETY: `places` has room for `fits` values, which are there to be read.
        unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), places, fits) };
    }
    S_OK
}

/// Writes as much of a text as there is room for, zero-terminated, and its length with the zero.
///
/// # Safety
///
/// As for [`put_list`].
pub(crate) unsafe fn put_text(
    room: u32,
    needed: *mut u32,
    places: *mut u16,
    text: &str,
) -> HResult {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    // SAFETY: this function's contract.
    let code = unsafe { put_list(room, needed, places, &units) };
    if !places.is_null() && room > 0 && units.len() > room as usize {
        // SAFETY: `places` has `room` places.
        unsafe { places.add(room as usize - 1).write(0) };
    }
    code
}

/// A zero-terminated text, `None` if the pointer is null.
///
/// # Safety
///
/// Null or zero-terminated.
pub(crate) unsafe fn text(start: *const u16) -> Option<String> {
    if start.is_null() {
        return None;
    }
    let mut units = Vec::new();
    // SAFETY: every unit up to the zero can be read.
    while let unit @ 1.. = unsafe { *start.add(units.len()) } {
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}
