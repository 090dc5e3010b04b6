//! The few ways in which the runtime's methods give lists and texts, once each.

use com::HResult;
use com::codes::CLDB_E_RECORD_NOTFOUND;
use com::hresult::{E_CHANGED_STATE, E_INSUFFICIENT_BUFFER, E_INVALIDARG};

use super::error::{Error, Result};

/// Calls a method of an interface pointer. Every pointer among the arguments is a reference that
/// coerces, or the start of a slice whose length is the argument beside it, or null where the
/// method's documentation allows that: whoever uses this macro passes nothing else.
macro_rules! raw {
    ($object:expr, $method:ident($($arg:expr),* $(,)?)) => {{
        let object = &$object;
        // SAFETY: the interface pointer holds a reference, so its object is alive. The arguments
        // keep to the rule that stands above: references and slices with their lengths, which are
        // valid for the whole call.
        unsafe { object.$method($($arg),*) }
    }};
}
pub(crate) use raw;

/// How often a size may grow between the question for it and the question for the content.
const ATTEMPTS: usize = 4;

/// Success as `Ok`; the several successes are not told apart.
pub(crate) fn check(call: &'static str, hresult: HResult) -> Result<()> {
    hresult.ok().map_err(|hresult| Error::Hr { call, hresult })
}

/// `Ok(true)` for `S_OK`, `Ok(false)` for another success.
pub(crate) fn check_s_ok(call: &'static str, hresult: HResult) -> Result<bool> {
    hresult.ok_is_s_ok().map_err(|hresult| Error::Hr { call, hresult })
}

/// Success as `Some`, "no such record" as `None`.
pub(crate) fn found<T>(call: &'static str, hresult: HResult, value: T) -> Result<Option<T>> {
    if hresult == CLDB_E_RECORD_NOTFOUND {
        return Ok(None);
    }
    check(call, hresult).map(|()| Some(value))
}

/// A zero-terminated text for the runtime.
///
/// # Errors
/// `E_INVALIDARG` if there is a zero inside.
pub(crate) fn wide(call: &'static str, text: &str) -> Result<Vec<u16>> {
    let mut units = Vec::with_capacity(text.len() + 1);
    units.extend(text.encode_utf16());
    if units.contains(&0) {
        return Err(Error::Hr { call, hresult: E_INVALIDARG });
    }
    units.push(0);
    Ok(units)
}

/// Text of the runtime: ill-formed UTF-16 is replaced, not refused. Nearly all names are ASCII,
/// which is copied.
pub(crate) fn push_utf16(out: &mut String, units: &[u16]) {
    if units.iter().all(|unit| *unit < 0x80) {
        out.extend(units.iter().map(|unit| *unit as u8 as char));
    } else {
        out.extend(
            char::decode_utf16(units.iter().copied())
                .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)),
        );
    }
}

/// As [`push_utf16`], into a new text.
pub(crate) fn utf16(units: &[u16]) -> String {
    let mut out = String::with_capacity(units.len());
    push_utf16(&mut out, units);
    out
}

/// Whether the answer says that the buffer was too small: an error, or a size over that of the
/// buffer.
fn too_small(hresult: HResult, needed: u32, length: u32) -> bool {
    needed > length && (hresult.is_ok() || hresult == E_INSUFFICIENT_BUFFER)
}

/// Asks for a text with a buffer on the stack, and again with a larger one only if it does not fit.
///
/// `ask` gets buffer, length in UTF-16 units and where to put the length needed, including the zero
/// at the end.
pub(crate) fn text_into(
    out: &mut String,
    call: &'static str,
    mut ask: impl FnMut(*mut u16, u32, *mut u32) -> HResult,
) -> Result<()> {
    let mut small = [0_u16; 200];
    let mut large = Vec::new();
    for _ in 0..ATTEMPTS {
        let buffer = if large.is_empty() { &mut small[..] } else { &mut large[..] };
        let length = buffer.len() as u32;
        let mut needed = 0;
        let hresult = ask(buffer.as_mut_ptr(), length, &mut needed);
        if too_small(hresult, needed, length) {
            large = vec![0; needed as usize];
            continue;
        }
        check(call, hresult)?;
        let units = buffer.get(..needed as usize).unwrap_or_default();
        push_utf16(out, units.strip_suffix(&[0]).unwrap_or(units));
        return Ok(());
    }
    Err(Error::Hr { call, hresult: E_CHANGED_STATE })
}

/// As [`text_into`], into a new text.
pub(crate) fn text(
    call: &'static str,
    ask: impl FnMut(*mut u16, u32, *mut u32) -> HResult,
) -> Result<String> {
    let mut out = String::new();
    text_into(&mut out, call, ask)?;
    Ok(out)
}

/// Asks for a list with room for `guess` items, and again with more room only if they do not fit.
///
/// `ask` gets the room, where to put the number there are, and the buffer (null if there is no
/// room).
pub(crate) fn list<T: Copy + Default>(
    call: &'static str,
    guess: usize,
    mut ask: impl FnMut(u32, *mut u32, *mut T) -> HResult,
) -> Result<Vec<T>> {
    let mut items = vec![T::default(); guess];
    for _ in 0..ATTEMPTS {
        let room = items.len() as u32;
        let mut needed = 0;
        let buffer = if room == 0 { core::ptr::null_mut() } else { items.as_mut_ptr() };
        let hresult = ask(room, &mut needed, buffer);
        if too_small(hresult, needed, room) {
            items = vec![T::default(); needed as usize];
            continue;
        }
        check(call, hresult)?;
        items.truncate(needed as usize);
        return Ok(items);
    }
    Err(Error::Hr { call, hresult: E_CHANGED_STATE })
}

/// A blob of the runtime.
///
/// # Safety
/// `start` is null or points to `length` bytes that neither change nor go away during `'a`.
pub(crate) unsafe fn blob<'a>(start: *const u8, length: u32) -> &'a [u8] {
    if start.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: not null here; the rest is this function's contract.
    unsafe { core::slice::from_raw_parts(start, length as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use com::hresult::{E_FAIL, S_OK};

    /// What a well-behaved method does: copies what fits, says how much there is.
    fn give<T: Copy>(from: &[T], buffer: *mut T, room: u32, needed: *mut u32) -> HResult {
        // SAFETY: the tests pass buffers of that room.
        unsafe {
            *needed = from.len() as u32;
            core::ptr::copy_nonoverlapping(from.as_ptr(), buffer, from.len().min(room as usize));
        }
        S_OK
    }

    #[test]
    fn texts_of_any_length() {
        for length in [0, 1, 198, 199, 200, 201, 5000] {
            let expected = "x".repeat(length);
            let mut units = expected.encode_utf16().collect::<Vec<_>>();
            units.push(0);
            let mut calls = 0;
            let got = text("T", |buffer, room, needed| {
                calls += 1;
                give(&units, buffer, room, needed)
            });
            assert_eq!(got, Ok(expected));
            assert_eq!(calls, if length < 200 { 1 } else { 2 });
        }
    }

    #[test]
    fn a_text_that_does_not_fit_may_be_an_error_first() {
        let units = vec![u16::from(b'a'); 400];
        let got = text("T", |buffer, room, needed| {
            let _ = give(&units, buffer, room, needed);
            if (room as usize) < units.len() { E_INSUFFICIENT_BUFFER } else { S_OK }
        });
        assert_eq!(got.map(|text| text.len()), Ok(400));
    }

    #[test]
    fn what_grows_for_ever_is_an_error() {
        let got = text("T", |_, room, needed| {
            // SAFETY: `needed` is the local of `text`.
            unsafe { *needed = room + 1 };
            S_OK
        });
        assert_eq!(got, Err(Error::Hr { call: "T", hresult: E_CHANGED_STATE }));
    }

    #[test]
    fn lists() {
        for (guess, calls_expected) in [(0, 2), (2, 2), (3, 1), (9, 1)] {
            let mut calls = 0;
            let got = list("L", guess, |room, needed, buffer| {
                calls += 1;
                give(&[7_u32, 8, 9], buffer, room, needed)
            });
            assert_eq!((got, calls), (Ok(vec![7, 8, 9]), calls_expected));
        }
        assert_eq!(
            list::<u32>("L", 1, |_, _, _| E_FAIL),
            Err(Error::Hr { call: "L", hresult: E_FAIL })
        );
    }

    #[test]
    fn utf16_is_read_and_written() {
        assert_eq!(utf16(&"Größe\u{1F600}".encode_utf16().collect::<Vec<_>>()), "Größe\u{1F600}");
        assert_eq!(utf16(&[0x61, 0xd800, 0x62]), "a\u{fffd}b");
        assert_eq!(wide("W", "ab"), Ok(vec![0x61, 0x62, 0]));
        assert_eq!(wide("W", "a\0b"), Err(Error::Hr { call: "W", hresult: E_INVALIDARG }));
    }

    #[test]
    fn not_found_is_none() {
        assert_eq!(found("F", CLDB_E_RECORD_NOTFOUND, 1), Ok(None));
        assert_eq!(found("F", S_OK, 1), Ok(Some(1)));
        assert!(found("F", E_FAIL, 1).is_err());
    }
}
