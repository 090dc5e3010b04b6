//! What was read for a viewer is kept in memory for its next question.

use crate::{Workspace, problem::Problem};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// How long a request waits for what another one reads.
const WAIT: Duration = Duration::from_secs(60);

/// Whoever comes first reads it; the others wait for it.
type Slot<V> = Arc<tokio::sync::Mutex<Option<Arc<V>>>>;

/// Things that were read, by what they were read from; the one that was asked for last first.
#[derive(Debug)]
pub struct Kept<K, V>(Mutex<VecDeque<(K, Slot<V>)>>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + PartialEq, V: Send + Sync + 'static> Kept<K, V> {
    /// Gives the one of this key, or reads it. Those that are not current any more are forgotten.
    /// Only who reads takes a turn of `work`; those who wait for it leave the turns to others.
    pub async fn open(
        &self,
        work: &Arc<Workspace>,
        key: K,
        is_current: impl Fn(&K) -> bool,
        read: impl FnOnce(&Workspace) -> Result<V, Problem> + Send + 'static,
    ) -> Result<Arc<V>, Problem> {
        let slot = self.slot(key.clone(), is_current);
        let waiting = timeout(WAIT, slot.lock_owned()).await;
        let mut kept = waiting.map_err(|_| Problem::busy("the session is still being read"))?;
        if let Some(known) = &*kept {
            return Ok(Arc::clone(known));
        }
        // It keeps the slot until it has been read, also if no request waits for it any more.
        let opened = work.heavy(move |work| Ok(Arc::clone(kept.insert(Arc::new(read(work)?)))));
        let opened = opened.await;
        if opened.is_err() {
            self.forget(&key);
        }
        opened
    }

    /// Forgets what could not be read.
    fn forget(&self, key: &K) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| known != key);
    }

    /// The place of what has this key.
    pub(crate) fn slot(&self, key: K, is_current: impl Fn(&K) -> bool) -> Slot<V> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| is_current(known));
        let known = kept.iter().position(|(known, _)| *known == key);
        let entry = known.and_then(|at| kept.remove(at));
        let (key, slot) = entry.unwrap_or_else(|| (key, Slot::default()));
        kept.push_front((key, Arc::clone(&slot)));
        slot
    }

    /// Forgets what was not asked for lately: at most `count` are kept, which take at most `bytes`
    /// together. The latest is kept in any case.
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
