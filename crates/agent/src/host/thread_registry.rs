//! Which managed threads live, known without a lock.
//!
//! Asking the runtime to walk a thread that it has freed is an access to freed memory. So the
//! callback that reports the end of a thread removes the thread from here, at once and without
//! waiting. The walker looks a thread up here while the runtime is suspended. A thread that is
//! found then cannot be freed before the runtime resumes: its end needs the runtime's list of
//! threads, which a suspension holds.

use crate::os::clock;
use corprof::ids::ThreadId;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Set in an id that ended while the threads were being listed.
const ENDED: usize = 1 << 1;

/// The set.
#[derive(Debug)]
pub struct LiveThreads {
    slots: Box<[AtomicUsize]>,
    listing: AtomicBool,
    /// How many ask about a thread just now.
    asking: AtomicUsize,
}

impl Default for LiveThreads {
    fn default() -> Self {
        Self {
            slots: (0..Self::SLOTS).map(|_| AtomicUsize::new(0)).collect(),
            listing: AtomicBool::new(false),
            asking: AtomicUsize::new(0),
        }
    }
}

impl LiveThreads {
    /// Slots, a power of two.
    const SLOTS: usize = 16_384;
    /// Number of slots in which an id can be. All of them are checked each time, so no search
    /// depends on what was there before, and a slot can be freed at any moment. With 8,000 live
    /// threads hardly any id finds no room.
    const WINDOW: usize = 64;

    /// A thread began. False if there is no room: it is not walked then.
    pub fn insert(&self, thread: ThreadId) -> bool {
        self.replace(thread.0 | ENDED, 0);
        self.put(thread.0)
    }

    /// Does something with a thread that lives until it is done; `None` if it does not. Only what
    /// takes no lock and no time.
    pub fn hold<R>(&self, thread: ThreadId, then: impl FnOnce() -> R) -> Option<R> {
        self.asking.fetch_add(1, SeqCst);
        let result = self.contains(thread).then(then);
        self.asking.fetch_sub(1, SeqCst);
        result
    }

    /// A thread ended. When this returns nobody asks about it any more.
    pub fn remove(&self, thread: ThreadId) {
        self.take_out(thread);
        // A question that is under way reads one word of the runtime's: it waits for nobody.
        while self.asking.load(SeqCst) != 0 {
            clock::sleep_until(clock::monotonic() + 20_000);
        }
    }

    fn take_out(&self, thread: ThreadId) {
        // While threads are being listed this one may be in the list, and must not be added from
        // there.
        let left = if self.listing.load(SeqCst) { thread.0 | ENDED } else { 0 };
        if !self.replace(thread.0, left) && left != 0 {
            self.put(left);
        }
    }

    /// Whether a thread lives.
    pub fn contains(&self, thread: ThreadId) -> bool {
        self.holds(thread.0)
    }

    /// Adds the threads that were there before us: `list` lists them. Threads that end meanwhile
    /// stay out.
    pub fn insert_listed(&self, list: impl FnOnce() -> Vec<ThreadId>) -> Vec<ThreadId> {
        self.listing.store(true, SeqCst);
        let mut threads = list();
        threads.retain(|thread| {
            let ended = thread.0 | ENDED;
            if thread.is_null() || self.holds(ended) || !self.put(thread.0) {
                return false;
            }
            // A thread that ended between the check and the addition left its mark; one that ends
            // later finds itself.
            !(self.holds(ended) && self.replace(thread.0, 0))
        });
        self.listing.store(false, SeqCst);
        for slot in &self.slots {
            let value = slot.load(SeqCst);
            if value & ENDED != 0 {
                let _ = slot.compare_exchange(value, 0, SeqCst, SeqCst);
            }
        }
        threads
    }

    fn holds(&self, value: usize) -> bool {
        self.window(value).any(|slot| slot.load(SeqCst) == value)
    }

    fn put(&self, value: usize) -> bool {
        self.holds(value)
            || self
                .window(value)
                .any(|slot| slot.compare_exchange(0, value, SeqCst, SeqCst).is_ok())
    }

    fn replace(&self, value: usize, by: usize) -> bool {
        self.window(value).any(|slot| slot.compare_exchange(value, by, SeqCst, SeqCst).is_ok())
    }

    /// The slots in which a value may stand.
    fn window(&self, value: usize) -> impl Iterator<Item = &AtomicUsize> {
        // Ids are addresses of objects that are hundreds of bytes large; the mark is not part of
        // the place.
        let start =
            ((value >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> 32) % Self::SLOTS;
        (start..start + Self::WINDOW).filter_map(|index| self.slots.get(index % Self::SLOTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ThreadId {
        ThreadId(0x7f00_0000_0000 + number * 0x400)
    }

    #[test]
    fn threads_come_and_go() {
        let live = LiveThreads::default();
        for round in 0..50 {
            for number in 0..1000 {
                assert!(live.insert(id(round * 1000 + number)));
            }
            assert!(live.contains(id(round * 1000)) && live.contains(id(round * 1000 + 999)));
            assert!(!live.contains(id(round * 1000 + 1000)));
            for number in 0..1000 {
                live.remove(id(round * 1000 + number));
            }
            assert!(!live.contains(id(round * 1000 + 7)));
        }
    }

    #[test]
    fn over_the_limit_is_said() {
        let live = LiveThreads::default();
        let count = LiveThreads::SLOTS + 10;
        let inserted: Vec<_> = (0..count).filter(|&number| live.insert(id(number))).collect();
        assert!((8000..count).contains(&inserted.len()), "{}", inserted.len());
        assert!((0..count).all(|number| live.contains(id(number)) == inserted.contains(&number)));
        live.remove(id(inserted[0]));
        assert!(!live.contains(id(inserted[0])));
        assert!(live.insert(id(inserted[0])));
    }

    #[test]
    fn threads_that_end_while_listed_stay_out() {
        let live = LiveThreads::default();
        assert!(live.insert(id(4)));
        let added = live.insert_listed(|| {
            live.remove(id(2));
            // Its address comes again at once, as another thread.
            live.remove(id(3));
            assert!(live.insert(id(3)));
            live.remove(id(4));
            vec![id(1), id(2), id(3), id(4)]
        });
        assert_eq!(added, [id(1), id(3)]);
        assert!(live.contains(id(1)) && live.contains(id(3)));
        assert!(!live.contains(id(2)) && !live.contains(id(4)));
        live.remove(id(1));
        assert!(!live.contains(id(1)));
        assert!(live.insert(id(2)) && live.contains(id(2)));
    }

    #[test]
    fn churn_from_many_threads_leaves_nothing() {
        let live = LiveThreads::default();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let live = &live;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        let thread = id(worker * 1_000_000 + number);
                        assert!(live.insert(thread) && live.contains(thread));
                        live.remove(thread);
                        assert!(!live.contains(thread));
                    }
                });
            }
        });
        assert!(live.slots.iter().all(|slot| slot.load(SeqCst) == 0));
    }
}
