//! Threads that start, switch and end event sessions.
//!
//! The runtime has one lock for all of its event sessions. It holds this lock while it ends a
//! session, which takes as long as the reader of that session does (`ep_disable`,
//! src/native/eventpipe/ep.c): so another tool whose reader is slow or stopped can keep a thread of
//! ours in the runtime for minutes. Such a thread is waited for only so long. Then it is late: the
//! library stays in the process until it has returned, because it would return into code that is
//! gone.

use crate::host::{Host, lock};
use crate::os::{clock, threads::OwnThread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wire::Nanos;

/// How often it is checked whether a thread has returned.
const PAUSE: Nanos = 200_000;
/// As how much of its limit a pause counts at most: a process that was stopped meanwhile has not
/// waited.
const LONGEST_PAUSE: Nanos = 100_000_000;

/// Threads that are late. There is one as a rule, and a second one where the first was started
/// for the session before.
static LATE: Mutex<Vec<Late>> = Mutex::new(Vec::new());

struct Late {
    thread: OwnThread,
    returned: Arc<AtomicBool>,
}

/// Whether the runtime still keeps a thread of ours: then the library must stay. Waits for threads
/// that have returned until they have ended.
pub fn any() -> bool {
    let mut late = lock(&LATE);
    let (returned, kept) =
        std::mem::take(&mut *late).into_iter().partition(|late| late.returned.load(SeqCst));
    *late = kept;
    let any = !late.is_empty();
    drop(late);
    let returned: Vec<Late> = returned;
    returned.into_iter().for_each(|late| late.thread.join());
    any
}

/// Runs something on a thread of its own and waits for it, but not longer than `limit`, and not in
/// a process that ends. `None` if it panicked, or is late now. If another thread is late already,
/// nothing is run.
///
/// # Errors
/// When the system gives no thread; nothing was run then.
pub fn run<R: Send + 'static>(
    host: &Host,
    limit: Nanos,
    body: impl FnOnce() -> R + Send + 'static,
) -> std::io::Result<Option<R>> {
    if any() {
        return Ok(None);
    }
    let returned = Arc::new(AtomicBool::new(false));
    let result = Arc::new(Mutex::new(None));
    let (returns, results) = (Arc::clone(&returned), Arc::clone(&result));
    let thread = OwnThread::spawn("clrscope-events", move || {
        let value = catch_unwind(AssertUnwindSafe(body)).ok();
        *lock(&results) = value;
        returns.store(true, SeqCst);
    })?;
    let (mut waited, mut last) = (0, clock::monotonic());
    while waited < limit && !host.is_shutdown() {
        if returned.load(SeqCst) {
            thread.join();
            return Ok(lock(&result).take());
        }
        clock::sleep_until(last + PAUSE);
        let now = clock::monotonic();
        waited += (now - last).min(LONGEST_PAUSE);
        last = now;
    }
    lock(&LATE).push(Late { thread, returned });
    Ok(None)
}
