//! The session that callbacks work for, and how another session replaces it.
//!
//! An agent that can detach has one session and is unloaded with it. An agent that the runtime
//! never detaches ([`crate::session::reattach`]) may serve several sessions, one after the other.
//! Callbacks come on all threads of the target at any time, so whoever uses a session holds it by a
//! [`Held`]. That costs two atomic additions to a number that few other threads use. A session that
//! is replaced is given back once nobody can hold it any more.

use crate::heap_memory;
use crate::host::Phase;
use crate::os::clock;
use crate::session::agent::Agent;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use wire::Nanos;

/// How long a session that is replaced is waited for at most; one that is still held then stays for
/// ever.
const RELEASE_LIMIT: Nanos = 5_000_000_000;
/// Counters of holders: threads are spread over them.
const STRIPES: usize = 16;

/// A number on a cache line of its own.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe(AtomicUsize);

/// The current session, if there is one.
#[derive(Debug, Default)]
pub struct Sessions {
    /// From `Arc::into_raw`; null for none.
    current: AtomicPtr<Agent>,
    holders: [Stripe; STRIPES],
}

/// A session that stays as long as this does.
pub struct Held<'a> {
    agent: &'a Agent,
    holders: &'a AtomicUsize,
}

impl Deref for Held<'_> {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        self.agent
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.holders.fetch_sub(1, SeqCst);
    }
}

impl Sessions {
    /// The current session.
    pub fn get(&self) -> Option<Held<'_>> {
        let here = 0_u8;
        // Stacks of threads lie apart from each other.
        let stripe = (&raw const here).addr() >> 14;
        let Stripe(holders) = self.holders.get(stripe % STRIPES)?;
        holders.fetch_add(1, SeqCst);
        // SAFETY: it is null or came from `Arc::into_raw`, and whoever replaces it waits until all
        // counters were 0 after that.
        match unsafe { self.current.load(SeqCst).as_ref() } {
            Some(agent) => Some(Held { agent, holders }),
            None => {
                holders.fetch_sub(1, SeqCst);
                None
            }
        }
    }

    /// The same while it collects.
    pub fn running(&self) -> Option<Held<'_>> {
        self.get().filter(|agent| agent.phase() != Phase::Stopping && !heap_memory::is_exhausted())
    }

    /// Puts another session in the place of the current one, which is given back once nobody holds
    /// it.
    pub fn replace(&self, next: Option<Arc<Agent>>) {
        let next = next.map_or(null_mut(), |next| Arc::into_raw(next).cast_mut());
        let before = self.current.swap(next, SeqCst);
        if before.is_null() {
            return;
        }
        let deadline = clock::monotonic() + RELEASE_LIMIT;
        // Each was 0 once after the swap: who counts up later finds the next session.
        for Stripe(holders) in &self.holders {
            while holders.load(SeqCst) != 0 {
                if clock::monotonic() > deadline {
                    return;
                }
                clock::sleep_until(clock::monotonic() + 100_000);
            }
        }
        // SAFETY: it came from `Arc::into_raw` in an earlier call, and nobody uses it any more.
        drop(unsafe { Arc::from_raw(before) });
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.replace(None);
    }
}
