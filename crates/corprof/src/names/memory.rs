//! Remembers values by handles of the runtime and by tokens of metadata.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Handles and tokens are spread by a multiplication; they are no one's to choose.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Golden ratio; the table takes its index from the low bits and a tag from the high ones,
        // so both must vary.
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// Values that are remembered by handle or token. The lock is held only for a lookup.
pub(super) struct Memory<K, V>(RwLock<HashMap<K, Arc<V>, BuildHasherDefault<IdHasher>>>);

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Copy + Eq + core::hash::Hash, V> Memory<K, V> {
    pub(super) fn get(&self, key: K) -> Option<Arc<V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    pub(super) fn put(&self, key: K, value: V) -> Arc<V> {
        let value = Arc::new(value);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&value));
        value
    }

    pub(super) fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|key, value| keep(key, value));
    }

    pub(super) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
