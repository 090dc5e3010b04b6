//! Messages while something is waited for before a recording begins.

use std::sync::OnceLock;

static TELLS: OnceLock<fn(&str)> = OnceLock::new();

/// Sets who tells the user why a recording does not begin yet: one line, at most a few times. The
/// first one stays.
pub fn on_wait(tells: fn(&str)) {
    let _ = TELLS.set(tells);
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "recording exists on Linux"))]
pub(crate) fn tell(what: &str) {
    if let Some(tells) = TELLS.get() {
        tells(what);
    }
}
