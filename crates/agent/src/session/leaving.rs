//! Whether and when the agent may leave the process.

use crate::host::Host;
use crate::os::clock;
use crate::os::neighbors::{Neighbors, neighbors};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Nanos;

/// Whether the runtime knows a profiler when it looks for whom to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The runtime could not be suspended to find out: something else holds it.
    Busy,
}

/// How long to try to find out whether callbacks come.
const HEAR_LIMIT: Nanos = 2_000_000_000;

/// How often that is tried before the agent leaves.
const LEAVE_TRIES: u32 = 5;
/// How long agents that the runtime is about to unload are waited for: it takes 300 ms as a rule.
const NEIGHBORS_LIMIT: Nanos = 1_000_000_000;
/// Pause between two checks which agents are present, and until the runtime has certainly counted.
const NEIGHBORS_PAUSE: Nanos = 20_000_000;

/// What was found out about leaving.
#[derive(Debug, Default)]
pub struct Leaving {
    may_leave: OnceLock<bool>,
    /// Whether other agents were in the process when that was found out.
    had_neighbors: AtomicBool,
}

/// Whether the runtime still calls this profiler.
///
/// The runtime counts notification-only profilers, and looks for none while the count is 0. But
/// it also decrements this count when the main profiler detaches
/// (`ProfControlBlock::DeRegisterProfilerInfo`, src/coreclr/inc/profilepriv.inl, seen in 8, 9
/// and 10). From then on the count is one too low: no callback comes, and a request to detach
/// reads through a null pointer. So before it relies on either, the agent checks whether the
/// runtime reports a suspension to it.
pub fn is_called(host: &Host) -> Called {
    if !host.notify_only {
        return Called::Yes;
    }
    let deadline = clock::monotonic() + HEAR_LIMIT;
    // Until then the runtime reports nothing to the agent in any case.
    while !host.attached.load(Ordering::Acquire)
        && !host.is_shutdown()
        && clock::monotonic() < deadline
    {
        clock::sleep_until(clock::monotonic() + 100_000);
    }
    while !host.is_shutdown() {
        let before = host.suspensions.load(Ordering::SeqCst);
        match host.runtime.suspend() {
            Ok(suspended) => {
                drop(suspended);
                let is_called = host.suspensions.load(Ordering::SeqCst) != before;
                return if is_called { Called::Yes } else { Called::No };
            }
            Err(_) if clock::monotonic() < deadline => {
                clock::sleep_until(clock::monotonic() + 10_000_000)
            }
            Err(_) => break,
        }
    }
    Called::Busy
}

impl Leaving {
    /// Whether the runtime can be asked to detach us: see [`is_called`]. Found out once, at
    /// the end. A runtime that cannot be suspended is asked again for a while: to stay is for ever.
    pub fn may_leave(&self, host: &Host) -> bool {
        *self.may_leave.get_or_init(|| {
            self.had_neighbors.store(neighbors() != Neighbors::default(), Ordering::SeqCst);
            is_called_for_certain(host)
        })
    }

    /// Whether a request to detach is safe now. The runtime counts one notification-only profiler
    /// too few from the moment when another agent leaves the main slot for which no idle instance
    /// compensates, and a request after that ends the process (see [`is_called`]). So where
    /// other agents are, those that the runtime is about to unload are waited for, and what was
    /// found out before does not count.
    pub fn is_safe_to_detach(&self, host: &Host) -> bool {
        let had_neighbors = self.had_neighbors.load(Ordering::SeqCst);
        if !host.notify_only || !had_neighbors && neighbors() == Neighbors::default() {
            return true;
        }
        let mut began = clock::monotonic();
        let deadline = began + NEIGHBORS_LIMIT;
        while neighbors().without_thread > 0 && !host.is_shutdown() && clock::monotonic() < deadline
        {
            // With thousands of threads a snapshot takes long: a tenth of the time at most.
            let now = clock::monotonic();
            clock::sleep_until((now + NEIGHBORS_PAUSE.max(10 * (now - began))).min(deadline));
            began = clock::monotonic();
        }
        // The runtime counts a moment after it has unmapped a library.
        clock::sleep_until(clock::monotonic() + NEIGHBORS_PAUSE);
        is_called_for_certain(host)
    }
}

fn is_called_for_certain(host: &Host) -> bool {
    (0..LEAVE_TRIES).map(|_| is_called(host)).find(|called| *called != Called::Busy)
        == Some(Called::Yes)
}
