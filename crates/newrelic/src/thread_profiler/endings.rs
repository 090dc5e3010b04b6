//! Threads that end while a snapshot is taken.
//!
//! The runtime walks any address it is given as a thread, and frees a thread after
//! `ThreadDestroyed`. Threads are listed before the runtime is suspended, because listing
//! allocates. The list has no thread whose end was already reported (`ProfilerThreadEnum::Init`,
//! src/coreclr/vm/profilingenumerators.cpp). So a listed thread that is freed before the suspension
//! is reported in between, and is left out here. Threads that are reported later wait until the
//! walk is over.
//!
//! Only a walk makes them wait, never a suspension that is about to begin:
//! `Thread::CleanupDetachedThreads` (src/coreclr/vm/threads.cpp) reports ended native threads while
//! it holds the runtime's lock on the thread list, and a suspension needs that lock. During a walk
//! the suspending thread holds the lock, so no waiting thread blocks the walk.

use corprof::ids::ThreadId;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a waiting thread checks whether the walk is over. A walk takes microseconds per
/// thread.
const PAUSE: Duration = Duration::from_micros(50);

/// Threads that ended since the list was taken, and whether ending threads have to wait.
#[derive(Debug, Default)]
pub struct Endings {
    /// `None` while there is no snapshot.
    ended: Mutex<Option<Vec<ThreadId>>>,
    walking: AtomicBool,
}

impl Endings {
    /// Records threads that end. Call before listing threads, one snapshot at a time.
    pub fn watch(&self) -> Watch<'_> {
        *self.ended() = Some(Vec::new());
        Watch(self)
    }

    /// A thread ends: when this returns, it is not walked any more.
    pub fn thread_destroyed(&self, thread: ThreadId) {
        if let Some(ended) = self.ended().as_mut() {
            ended.push(thread);
        }
        while self.walking.load(SeqCst) {
            thread::sleep(PAUSE);
        }
    }

    fn ended(&self) -> MutexGuard<'_, Option<Vec<ThreadId>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records threads that end, until it is dropped.
#[derive(Debug)]
pub struct Watch<'a>(&'a Endings);

impl<'a> Watch<'a> {
    /// Makes ending threads wait from now on, and removes those that have ended from the list. Call
    /// while the runtime is suspended.
    ///
    /// The lock is never held for long: its owner runs native code in a callback, which a
    /// suspension does not stop.
    pub fn walk(&self, threads: &mut Vec<ThreadId>) -> Walk<'a> {
        self.0.walking.store(true, SeqCst);
        let walk = Walk(self.0);
        let ended = self.0.ended();
        threads.retain(|thread| !ended.iter().flatten().any(|ended| ended == thread));
        walk
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        *self.0.ended() = None;
    }
}

/// Makes ending threads wait, until it is dropped.
#[derive(Debug)]
pub struct Walk<'a>(&'a Endings);

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.0.walking.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_ended_are_removed() {
        let endings = Endings::default();
        endings.thread_destroyed(ThreadId(8));
        let watch = endings.watch();
        let mut threads = vec![ThreadId(8), ThreadId(16), ThreadId(24)];
        endings.thread_destroyed(ThreadId(16));
        let walk = watch.walk(&mut threads);
        assert_eq!(threads, [ThreadId(8), ThreadId(24)]);
        drop(walk);
        drop(watch);
        endings.thread_destroyed(ThreadId(24));
        assert_eq!(*endings.ended(), None);
    }

    #[test]
    fn ending_threads_wait_for_the_walk() {
        let endings = Endings::default();
        let watch = endings.watch();
        // Nothing waits before the walk: this thread may hold a lock that the suspension needs.
        endings.thread_destroyed(ThreadId(8));
        let walk = watch.walk(&mut Vec::new());
        thread::scope(|scope| {
            let ending = scope.spawn(|| endings.thread_destroyed(ThreadId(16)));
            while endings.ended().as_ref().is_some_and(|ended| ended.len() < 2) {
                thread::sleep(PAUSE);
            }
            thread::sleep(20 * PAUSE);
            assert!(!ending.is_finished());
            drop(walk);
        });
    }
}
