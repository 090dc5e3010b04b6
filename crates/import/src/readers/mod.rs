//! One file for each format.

pub mod collapsed;
pub mod firefox;
pub mod gcdump;
pub mod json;
pub mod list;
pub mod nettrace;
pub mod pprof;
pub mod speedscope;

use session::{FunctionKind, ThreadState};

/// The state of a thread that exporters of clrscope call so.
pub fn state(word: &str) -> Option<ThreadState> {
    profile::STATES.into_iter().find(|state| profile::state_id(*state) == word)
}

/// The kind of functions that they call so.
pub fn kind(word: &str) -> Option<FunctionKind> {
    let kinds = [
        FunctionKind::Managed,
        FunctionKind::Dynamic,
        FunctionKind::Stub,
        FunctionKind::Native,
        FunctionKind::Runtime,
        FunctionKind::Gc,
        FunctionKind::Jit,
        FunctionKind::Kernel,
        FunctionKind::Unknown,
    ];
    kinds.into_iter().find(|kind| profile::kind_id(*kind) == word)
}

/// What a file says of its process: `shop (pid 12)`, or any text.
pub fn named_process(text: &str, info: &mut session::SessionInfo) {
    let pid = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (pid "));
    match pid.and_then(|(name, pid)| Some((name, pid.parse().ok()?))) {
        Some((name, pid)) => (info.process_name, info.pid) = (name.to_owned(), pid),
        None if !text.is_empty() => info.process_name = text.to_owned(),
        None => {}
    }
}
