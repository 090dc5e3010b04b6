/// Bytes of address space in a chunk, as a power of two.
const CHUNK: u32 = 22;
/// Objects begin at multiples of this, on 64-bit runtimes.
const GRANULE: u64 = 8;
/// Places of a block.
const PLACES: u64 = 7 * 64;
/// Blocks of a chunk.
const BLOCKS: usize = ((1u64 << CHUNK) / GRANULE).div_ceil(PLACES) as usize;
const NO_CHUNK: u32 = u32::MAX;

/// From the address of an object to its place among all of them.
///
/// A heap has two or three references for each object, so this is asked some fifty million times
/// for a large one. A binary search takes 25 steps through memory; a bit for each eight bytes of
/// the heap, with the number of bits before it in the same cache line, takes one.
#[derive(Debug)]
pub(crate) enum AddressIndex {
    Bits(Bits),
    /// For addresses that are far apart or at odd places: 32-bit heaps, made-up ones.
    Search,
}

#[derive(Debug)]
pub(crate) struct Bits {
    first_chunk: u64,
    /// Which blocks belong to a chunk of address space.
    chunks: Vec<u32>,
    blocks: Vec<Block>,
}

/// One cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Block {
    /// Objects before this block, in all blocks.
    before: u32,
    words: [u64; 7],
}

impl AddressIndex {
    /// For addresses in strictly ascending order, fewer than `u32::MAX`.
    pub fn new(addresses: &[u64]) -> Self {
        let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else {
            return Self::Search;
        };
        let (first_chunk, last_chunk) = (first >> CHUNK, last >> CHUNK);
        let span = last_chunk - first_chunk + 1;
        if span > 1 << 22 || addresses.iter().any(|address| address % GRANULE != 0) {
            return Self::Search;
        }
        let mut chunks = vec![NO_CHUNK; span as usize];
        let mut used = 0;
        for address in addresses {
            let chunk = &mut chunks[((address >> CHUNK) - first_chunk) as usize];
            if *chunk == NO_CHUNK {
                *chunk = used;
                used += 1;
            }
        }
        // No more than for a heap whose objects are 512 bytes long, with some room for small ones.
        let bytes = u64::from(used) * BLOCKS as u64 * 64;
        if bytes > (64 << 20) + addresses.len() as u64 * 8 {
            return Self::Search;
        }
        let mut blocks = vec![Block::default(); used as usize * BLOCKS];
        for address in addresses {
            let chunk = chunks[((address >> CHUNK) - first_chunk) as usize] as usize;
            let place = (address & ((1 << CHUNK) - 1)) / GRANULE;
            let block = &mut blocks[chunk * BLOCKS + (place / PLACES) as usize];
            block.words[(place % PLACES / 64) as usize] |= 1 << (place % 64);
        }
        // Chunks were numbered in the order of addresses, so blocks are in that order too.
        let mut before = 0;
        for block in &mut blocks {
            block.before = before;
            before += block.words.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        Self::Bits(Bits { first_chunk, chunks, blocks })
    }

    /// Where an address stands among those that the index was made from.
    pub fn find(&self, addresses: &[u64], address: u64) -> Option<u32> {
        match self {
            Self::Bits(bits) => bits.find(address),
            Self::Search => addresses.binary_search(&address).ok().map(|at| at as u32),
        }
    }
}

impl Bits {
    fn find(&self, address: u64) -> Option<u32> {
        let chunk = (address >> CHUNK).checked_sub(self.first_chunk)?;
        let chunk = *self.chunks.get(usize::try_from(chunk).ok()?)?;
        if chunk == NO_CHUNK || !address.is_multiple_of(GRANULE) {
            return None;
        }
        let place = (address & ((1 << CHUNK) - 1)) / GRANULE;
        let block = self.blocks.get(chunk as usize * BLOCKS + (place / PLACES) as usize)?;
        let within = place % PLACES;
        let (word, bit) = ((within / 64) as usize, 1u64 << (within % 64));
        if block.words[word] & bit == 0 {
            return None;
        }
        let full: u32 = block.words[..word].iter().map(|word| word.count_ones()).sum();
        Some(block.before + full + (block.words[word] & (bit - 1)).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(addresses: &BTreeSet<u64>, also: &[u64], bits: bool) {
        let sorted: Vec<u64> = addresses.iter().copied().collect();
        let index = AddressIndex::new(&sorted);
        assert_eq!(matches!(index, AddressIndex::Bits(_)), bits);
        for address in sorted
            .iter()
            .chain(also)
            .flat_map(|at| [at.wrapping_sub(8), at.wrapping_sub(1), *at, at ^ 8])
        {
            let expected = sorted.binary_search(&address).ok().map(|at| at as u32);
            assert_eq!(index.find(&sorted, address), expected, "{address:#x}");
        }
    }

    proptest! {
        #[test]
        fn heaps_in_several_places(
            near in prop::collection::btree_set(0u64..3 << 19, 1..400),
            far in prop::collection::btree_set(0u64..3 << 19, 0..400),
            also in prop::collection::vec(any::<u64>(), 20),
        ) {
            let near = near.into_iter().map(|place| 0x7f00_0000_0000 + place * 8);
            let far = far.into_iter().map(|place| 0x7f80_1230_0000 + place * 8);
            check(&near.chain(far).collect(), &also, true);
        }

        #[test]
        fn any_addresses(addresses in prop::collection::btree_set(any::<u64>(), 2..200)) {
            let first = *addresses.first().unwrap();
            let spread = addresses.iter().any(|address| (address >> CHUNK) - (first >> CHUNK) >= 1 << 22);
            prop_assume!(spread);
            check(&addresses, &[], false);
        }
    }

    #[test]
    fn objects_that_are_all_far_apart_are_searched_for() {
        let addresses: BTreeSet<u64> = (0..3000u64).map(|at| at << CHUNK).collect();
        check(&addresses, &[], false);
        assert!(matches!(AddressIndex::new(&[]), AddressIndex::Search));
    }
}
