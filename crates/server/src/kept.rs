//! What was read for a viewer is kept in memory for its next question.

use crate::problem::Problem;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Whoever comes first reads it; the others wait for it.
type Slot<V> = Arc<Mutex<Option<Arc<V>>>>;

/// Things that were read, by what they were read from; the one that was asked for last first.
#[derive(Debug)]
pub struct Kept<K, V>(Mutex<VecDeque<(K, Slot<V>)>>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V> Kept<K, V> {
    /// Gives the one of this key, or reads it. Those that are not current any more are forgotten.
    pub fn open(
        &self,
        key: K,
        is_current: impl Fn(&K) -> bool,
        read: impl FnOnce() -> Result<V, Problem>,
    ) -> Result<Arc<V>, Problem> {
        let slot = self.slot(key, is_current);
        let mut kept = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*kept {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(read()?);
        *kept = Some(Arc::clone(&read));
        Ok(read)
    }

    fn slot(&self, key: K, is_current: impl Fn(&K) -> bool) -> Slot<V> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| is_current(known));
        let known = kept.iter().position(|(known, _)| *known == key);
        let entry = known.and_then(|at| kept.remove(at));
        let (key, slot) = entry.unwrap_or_else(|| (key, Slot::default()));
        kept.push_front((key, Arc::clone(&slot)));
        slot
    }

    /// Forgets what was not asked for lately: at most `count` are kept, which take at most so many
    /// bytes together. The latest is kept in any case.
    pub fn tidy(&self, bytes: usize, count: usize, size: impl Fn(&V) -> usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut all, mut number) = (0, 0);
        kept.retain(|(_, slot)| {
            // What is being read has its place.
            let own = slot.try_lock().ok().and_then(|slot| slot.as_ref().map(|own| size(own)));
            all += own.unwrap_or_default();
            number += 1;
            number == 1 || (all <= bytes && number <= count)
        });
    }

    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
