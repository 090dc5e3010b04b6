//! Bugs: a panic anywhere restores the terminal, says what to report, and ends the program with a
//! documented code.

use std::sync::atomic::{AtomicBool, Ordering};

static HAPPENED: AtomicBool = AtomicBool::new(false);

/// Takes the place of the standard library's message.
pub fn install() {
    std::panic::set_hook(Box::new(|panic| {
        // Another thread may continue to draw for a moment; the first panic is the one to report.
        if HAPPENED.swap(true, Ordering::AcqRel) {
            return;
        }
        crate::top::terminal::restore();
        let what = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        crate::console::say(&format!(
            "error: clrscope has a bug: {what} ({place}, version {})\n\
             Please report it with this line and the command that you ran. The process that was \
             profiled is not harmed: it continues without clrscope.",
            env!("CARGO_PKG_VERSION")
        ));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            crate::console::say(&std::backtrace::Backtrace::force_capture().to_string());
        }
    }));
}

/// Whether any thread has panicked.
pub fn happened() -> bool {
    HAPPENED.load(Ordering::Acquire)
}
