//! Dynamic methods that the runtime has freed.

use corprof::ids::FunctionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which dynamic methods were freed last, and when.
///
/// The id of a dynamic method is an address that the runtime frees when a collection has found the
/// method unused. Who keeps such an id beyond the callback that named it may ask about it only if
/// it is not among these.
#[derive(Debug, Default)]
pub struct Freed {
    /// How many were freed so far. The first has the number 1.
    count: AtomicU64,
    last: Mutex<Last>,
}

/// The number that each id was last freed with, in two parts: the older one is forgotten as a
/// whole.
#[derive(Debug, Default)]
struct Last {
    new: HashMap<FunctionId, u64>,
    old: HashMap<FunctionId, u64>,
    /// The last number before `new` began.
    before_new: u64,
    /// Up to this number, it is not known what was freed.
    forgotten: u64,
}

impl Freed {
    /// Number of ids in each part.
    const MOST: usize = 4096;

    /// A dynamic method is about to be freed.
    pub fn add(&self, function: FunctionId) {
        let mut last = self.last();
        let number = self.count.load(SeqCst) + 1;
        if last.new.len() >= Self::MOST {
            last.old = std::mem::take(&mut last.new);
            last.forgotten = std::mem::replace(&mut last.before_new, number - 1);
        }
        last.new.insert(function, number);
        self.count.store(number, SeqCst);
    }

    /// How many were freed so far.
    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Whether a method may have been freed since [`Self::count`] was `count`.
    pub fn since(&self, count: u64, function: FunctionId) -> bool {
        // Most programs have none.
        self.count() != count && self.last().since(count, function)
    }

    /// Keeps of a set only the ids that were not freed since [`Self::count`] was `count`.
    pub fn retain(&self, count: u64, ids: &mut std::collections::HashSet<u64>) {
        // The lock is taken for each: the runtime may wait for it in `add`, and a collection for
        // that.
        ids.retain(|&id| !self.since(count, FunctionId(id as usize)));
    }

    /// Bytes that this holds, about.
    pub fn memory(&self) -> usize {
        let last = self.last();
        (last.new.capacity() + last.old.capacity()) * (size_of::<(FunctionId, u64)>() + 1)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    fn since(&self, count: u64, function: FunctionId) -> bool {
        let number = self.new.get(&function).or_else(|| self.old.get(&function));
        count < self.forgotten || number.is_some_and(|&number| number > count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_since_a_moment_is_known_or_nothing_is() {
        let (freed, id) = (Freed::default(), |number: usize| FunctionId(number * 16));
        let start = freed.count();
        assert!(!freed.since(start, id(1)));
        freed.add(id(1));
        let later = freed.count();
        assert!(freed.since(start, id(1)) && !freed.since(start, id(2)));
        assert!(!freed.since(later, id(1)), "it was freed before, and came again");
        let mut sent = [16, 32].into();
        freed.retain(start, &mut sent);
        assert_eq!(sent, [32].into());

        (2..=Freed::MOST).for_each(|number| freed.add(id(number)));
        let full = freed.count();
        freed.add(id(1));
        assert!(freed.since(full, id(1)) && !freed.since(full, id(2)));
        assert!(freed.since(start, id(2)) && !freed.since(start, id(Freed::MOST + 9)));
        (0..Freed::MOST).for_each(|number| freed.add(id(Freed::MOST + 1 + number)));
        // The first part is forgotten: nothing of before may be asked about.
        assert!(freed.since(start, id(9 * Freed::MOST)) && freed.since(full - 1, id(1 << 40)));
        assert!(!freed.since(full, id(2)) && freed.since(full, id(1)));
        assert!(freed.memory() < 1 << 20, "{}", freed.memory());
    }
}
