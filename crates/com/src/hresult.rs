//! The 32-bit result every COM method returns.

use core::fmt;

/// A COM result: negative is failure, everything else success (there are several successes;
/// `S_FALSE` is one).
#[must_use = "a failing HRESULT is the only sign that the call did nothing"]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HResult(pub i32);

impl HResult {
    /// From the usual unsigned notation.
    pub const fn from_bits(bits: u32) -> HResult {
        HResult(bits as i32)
    }

    /// The usual unsigned notation.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// The HRESULT that carries a Win32 error code (facility 7), as `HRESULT_FROM_WIN32` makes it.
    pub const fn from_win32(code: u16) -> HResult {
        HResult::from_bits(0x8007_0000 | code as u32)
    }

    /// Whether the call did what it was asked for.
    pub const fn is_ok(self) -> bool {
        self.0 >= 0
    }

    /// Whether the call failed.
    pub const fn is_err(self) -> bool {
        self.0 < 0
    }

    /// Success as `Ok`, with the several successes told apart no longer.
    pub const fn ok(self) -> Result<(), HResult> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }

    /// Success as `Ok(true)` for `S_OK` and `Ok(false)` for any other success, such as `S_FALSE`.
    pub const fn ok_is_s_ok(self) -> Result<bool, HResult> {
        if self.is_ok() { Ok(self.0 == 0) } else { Err(self) }
    }

    /// The symbol that headers use for this code.
    pub fn name(self) -> Option<&'static str> {
        Some(self.known()?.1)
    }

    /// What the code means, in a few words.
    pub fn meaning(self) -> Option<&'static str> {
        Some(self.known()?.2)
    }

    fn known(self) -> Option<&'static (HResult, &'static str, &'static str)> {
        BASE.iter().chain(crate::codes::KNOWN).find(|known| known.0 == self)
    }
}

impl fmt::Display for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((_, name, meaning)) => write!(f, "{meaning} ({name}, {:#010X})", self.bits()),
            None => write!(f, "HRESULT {:#010X}", self.bits()),
        }
    }
}

impl fmt::Debug for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "HResult({name})"),
            None => write!(f, "HResult({:#010X})", self.bits()),
        }
    }
}

impl core::error::Error for HResult {}

impl From<Result<(), HResult>> for HResult {
    fn from(result: Result<(), HResult>) -> HResult {
        match result {
            Ok(()) => S_OK,
            Err(code) => code,
        }
    }
}

/// States result codes once: a constant with its meaning as documentation, and a row of a table for
/// `Display`.
macro_rules! codes {
    ($(#[$meta:meta])* $table:ident: $($name:ident = $bits:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: $crate::HResult = $crate::HResult::from_bits($bits);
        )*
        $(#[$meta])*
        pub(crate) const $table: &[($crate::HResult, &str, &str)] = &[$(($name, stringify!($name), $meaning),)*];
    };
}
pub(crate) use codes;

codes! {
    /// The codes that belong to COM itself (winerror.h).
    BASE:
    S_OK = 0x0000_0000, "success";
    S_FALSE = 0x0000_0001, "success, with a negative or partial answer";
    E_NOTIMPL = 0x8000_4001, "not implemented";
    E_NOINTERFACE = 0x8000_4002, "the object has no such interface";
    E_POINTER = 0x8000_4003, "null or invalid pointer";
    E_ABORT = 0x8000_4004, "operation aborted";
    E_FAIL = 0x8000_4005, "unspecified failure";
    E_UNEXPECTED = 0x8000_FFFF, "unexpected failure";
    E_ACCESSDENIED = 0x8007_0005, "access denied";
    E_HANDLE = 0x8007_0006, "invalid handle";
    E_OUTOFMEMORY = 0x8007_000E, "out of memory";
    E_INVALIDARG = 0x8007_0057, "invalid argument";
    E_INSUFFICIENT_BUFFER = 0x8007_007A, "the buffer is too small";
    E_NOT_SUFFICIENT_PRIVILEGE = 0x8007_0522, "a privilege is missing";
    E_BOUNDS = 0x8000_000B, "index out of range";
    E_CHANGED_STATE = 0x8000_000C, "the object changed during the call";
    E_ILLEGAL_METHOD_CALL = 0x8000_000E, "the method may not be called now";
    CLASS_E_NOAGGREGATION = 0x8004_0110, "the class cannot be part of an aggregate";
    CLASS_E_CLASSNOTAVAILABLE = 0x8004_0111, "the library has no such class";
    REGDB_E_CLASSNOTREG = 0x8004_0154, "the class is not registered";
    CO_E_NOTINITIALIZED = 0x8004_01F0, "COM is not initialised";
    RPC_E_CHANGED_MODE = 0x8001_0106, "the thread's COM mode was set differently before";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_non_negative_code_is_success() {
        assert!(S_OK.is_ok() && S_FALSE.is_ok() && HResult(0x0013_1106).is_ok());
        assert_eq!(S_FALSE.ok(), Ok(()));
        assert_eq!((S_OK.ok_is_s_ok(), S_FALSE.ok_is_s_ok()), (Ok(true), Ok(false)));
        assert_eq!(E_FAIL.ok(), Err(E_FAIL));
        assert_eq!(E_FAIL.ok_is_s_ok(), Err(E_FAIL));
    }

    #[test]
    fn known_codes_are_named() {
        assert_eq!(E_NOTIMPL.to_string(), "not implemented (E_NOTIMPL, 0x80004001)");
        assert_eq!(format!("{E_NOTIMPL:?}"), "HResult(E_NOTIMPL)");
        assert_eq!(HResult::from_bits(0x8123_4567).to_string(), "HRESULT 0x81234567");
        assert_eq!(HResult::from_win32(5), E_ACCESSDENIED);
    }

    #[test]
    fn no_code_is_listed_twice() {
        let mut all: Vec<_> = BASE.iter().chain(crate::codes::KNOWN).map(|known| known.0).collect();
        let stated = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), stated);
    }
}
