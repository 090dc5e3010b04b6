//! Faults that tests ask for, by parameters of a profiler that clrscope never sends. There are none
//! in release builds.

use crate::host::Host;

/// Whether a fault is asked for.
pub fn is_asked_for(host: &Host, name: &str) -> bool {
    cfg!(debug_assertions)
        && host
            .config
            .profilers
            .iter()
            .flat_map(|profiler| &profiler.params)
            .any(|(param, _)| param == name)
}

/// Panics, if that is asked for.
pub fn panic_if_asked(host: &Host, name: &str) {
    #[expect(clippy::panic, reason = "for tests only")]
    if is_asked_for(host, name) {
        panic!("a test has asked for it");
    }
}
