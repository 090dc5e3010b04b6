//! Panics of this library say nothing to the process.
//!
//! The standard library would write them to standard error. That is the program's: it may be a pipe
//! that nobody reads, so that the panic waits there for ever, perhaps while the runtime is
//! suspended. It would also leave a thread-local destructor, which keeps the library mapped, and
//! with `RUST_BACKTRACE` in the environment it would map files. What has happened is reported to
//! clrscope.

use std::panic::set_hook;
use std::sync::{Mutex, Once, PoisonError};

/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

/// From now on panics write nothing.
pub fn keep_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_hook(Box::new(|panic| {
            // Nobody is waited for: another panic at the same time may have the place.
            if let (Some(location), Ok(mut place)) = (panic.location(), PLACE.try_lock()) {
                *place = format!("{}:{}", location.file(), location.line());
            }
        }));
    });
}

/// File and line of the last panic.
pub fn place() -> String {
    PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
