use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by thread numbers of the operating system. Ticks look up each thread several times, and
/// the kernel gives the numbers out one after the other: they cannot be chosen so that they
/// collide.
pub type ThreadMap<V> = HashMap<u32, V, BuildHasherDefault<ThreadHasher>>;

/// The hash of a thread number.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadHasher(u64);

/// 2^64 divided by the golden ratio: it spreads numbers that follow each other over all bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for ThreadHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(SPREAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_that_follow_each_other_collide_nowhere() {
        let build = BuildHasherDefault::<ThreadHasher>::default();
        // The map takes its place from the lowest bits, and tells those in one place apart by the
        // seven highest.
        let hashes: Vec<u64> = (4000_u32..5000).map(|number| build.hash_one(number)).collect();
        let places: HashSet<u64> = hashes.iter().map(|hash| hash & 2047).collect();
        let marks: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert_eq!((places.len(), marks.len()), (1000, 128));
        let map: ThreadMap<u32> = (0..1000).map(|number| (number, 2 * number)).collect();
        assert!((0..1000).all(|number| map.get(&number) == Some(&(2 * number))));
    }
}
