//! What the runtime may not be asked for once the process ends.

use com::codes::CORPROF_E_PROFILER_DETACHING;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::ProfilerInfo;
use super::error::{Error, Result};

/// How long the end of the process waits for a request that is under way, and the pause before it
/// is looked for again.
const LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);

/// Whether the process ends, and how many requests are under way that must not outlast that.
#[derive(Debug, Default)]
pub(super) struct Ending {
    is_over: AtomicBool,
    asking: AtomicU32,
}

/// One request, until this is dropped.
struct Asking<'a>(&'a Ending);

impl<'a> Asking<'a> {
    /// `None` once the process ends.
    fn begin(ending: &'a Ending) -> Option<Self> {
        // First counted, then looked: whoever ends does it in the other order.
        ending.asking.fetch_add(1, SeqCst);
        let asking = Self(ending);
        (!ending.is_over.load(SeqCst)).then_some(asking)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, SeqCst);
    }
}

impl Ending {
    fn end(&self, limit: Duration) {
        self.is_over.store(true, SeqCst);
        let until = Instant::now() + limit;
        while self.asking.load(SeqCst) > 0 && Instant::now() < until {
            sleep(PAUSE);
        }
    }
}

impl ProfilerInfo {
    /// Asks for something in which the runtime looks at the profiler itself.
    ///
    /// After the callback `Shutdown` .NET Core 3.1 has deleted its side of the profiler, but lets
    /// other threads in again: it reads through a null pointer then
    /// (`ProfToEEInterfaceImpl::SetEventMask2` and `RequestReJIT`,
    /// src/vm/proftoeeinterfaceimpl.cpp; `ProfilingAPIUtility::TerminateProfiling`,
    /// src/vm/profilinghelper.cpp).
    pub(super) fn before_the_end<T>(
        &self,
        call: &'static str,
        ask: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match Asking::begin(&self.ending) {
            Some(_asking) => ask(),
            None => Err(Error::Hr { call, hresult: CORPROF_E_PROFILER_DETACHING }),
        }
    }

    /// The callback `Shutdown` returns now: waits for requests that are under way, though not for
    /// ever, and lets none begin.
    pub(crate) fn end(&self) {
        self.ending.end(LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_what_is_asked_and_nothing_begins_afterwards() {
        let ending = Ending::default();
        let asking = Asking::begin(&ending);
        assert!(asking.is_some());
        std::thread::scope(|scope| {
            let of_end = &ending;
            let end = scope.spawn(move || of_end.end(Duration::from_secs(60)));
            while !ending.is_over.load(SeqCst) {
                std::thread::yield_now();
            }
            assert!(Asking::begin(&ending).is_none());
            sleep(Duration::from_millis(50));
            assert!(!end.is_finished());
            drop(asking);
        });
        assert_eq!(ending.asking.load(SeqCst), 0);
    }

    #[test]
    fn a_request_that_does_not_come_back_is_not_waited_for_without_end() {
        let ending = Ending::default();
        let _asking = Asking::begin(&ending);
        let begun = Instant::now();
        ending.end(Duration::from_millis(30));
        assert!(begun.elapsed() >= Duration::from_millis(30));
    }
}
