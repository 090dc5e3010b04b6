//! Words on their way from the thread that writes them to the one that reads them, without a wait
//! on either side.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// A ring of `N` words. All zeros are one with nothing in it.
#[repr(C)]
pub struct Ring<const N: usize> {
    /// How many words were written, and read, since the beginning.
    written: AtomicU64,
    read: AtomicU64,
    /// How many were put behind those that are written: nobody reads them yet.
    put: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Ring<N> {
    /// Whether there is room for this many more words. Only one thread at a time may call this and
    /// the three methods that follow.
    pub fn has_room(&self, words: usize) -> bool {
        let end = self.written.load(Relaxed).wrapping_add(self.put.load(Relaxed));
        end.wrapping_sub(self.read.load(Acquire)) + words as u64 <= N as u64
    }

    /// Puts words behind those that are there, unread before [`Self::publish`]; `false` if there is
    /// no room for all.
    pub fn put(&self, words: &[u64]) -> bool {
        if !self.has_room(words.len()) {
            return false;
        }
        let put = self.put.load(Relaxed);
        let end = self.written.load(Relaxed).wrapping_add(put);
        for (at, &word) in (0..).zip(words) {
            self.set(end.wrapping_add(at), word);
        }
        self.put.store(put + words.len() as u64, Relaxed);
        true
    }

    /// Discards what was put and is not published.
    pub fn clear(&self) {
        self.put.store(0, Relaxed);
    }

    /// Lets the words be read that were put, the first of them as `first` makes it out of how many
    /// they are.
    pub fn publish(&self, first: impl FnOnce(u64) -> Option<u64>) {
        let (written, put) = (self.written.load(Relaxed), self.put.load(Relaxed));
        if let Some(first) = (put > 0).then(|| first(put)).flatten() {
            self.set(written, first);
        }
        self.put.store(0, Relaxed);
        self.written.store(written.wrapping_add(put), Release);
    }

    fn set(&self, at: u64, word: u64) {
        if let Some(place) = self.words.get(at as usize % N) {
            place.store(word, Relaxed);
        }
    }

    /// How many words there are to read. This and the two that follow are to be called by one
    /// thread at a time.
    pub fn waiting(&self) -> u64 {
        self.written.load(Acquire).wrapping_sub(self.read.load(Relaxed))
    }

    /// One of the words there are; 0 behind the last.
    pub fn word(&self, at: u64) -> u64 {
        let read = self.read.load(Relaxed);
        let place = (at < self.waiting())
            .then(|| self.words.get(read.wrapping_add(at) as usize % N))
            .flatten();
        place.map_or(0, |place| place.load(Relaxed))
    }

    /// Marks this many words as read.
    pub fn skip(&self, words: u64) {
        let words = words.min(self.waiting());
        self.read.store(self.read.load(Relaxed).wrapping_add(words), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::map::Zeroed;

    #[test]
    fn words_come_out_as_they_went_in_and_there_are_not_too_many() {
        // SAFETY: it is made of atomic numbers only.
        let ring = unsafe { Zeroed::<Ring<7>>::reserve() }.unwrap();
        for round in 0..20 {
            assert!(ring.put(&[round, 1, 2]) && ring.put(&[3, 4]));
            assert!(!ring.has_room(3) && !ring.put(&[5, 6, 7]) && ring.has_room(2));
            assert_eq!((ring.waiting(), ring.word(0)), (0, 0), "nobody sees them yet");
            ring.publish(|put| Some(round * 10 + put));
            assert_eq!(ring.waiting(), 5);
            assert_eq!([0, 1, 2, 3, 4, 5].map(|at| ring.word(at)), [round * 10 + 5, 1, 2, 3, 4, 0]);
            ring.skip(3);
            assert_eq!([0, 1, 2].map(|at| ring.word(at)), [3, 4, 0]);
            // Discarded words leave nothing behind, and publishing nothing changes nothing.
            assert!(ring.put(&[9]));
            ring.clear();
            ring.publish(|_| panic!("there is no first"));
            assert_eq!(ring.waiting(), 2);
            ring.skip(100);
            assert_eq!(ring.waiting(), 0);
        }
    }
}
