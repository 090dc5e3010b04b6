//! What is in the memory of a target, where its mappings alone do not say whose they are.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;
const WORD: usize = 8;

/// Blocks from this size on `malloc` always maps one by one (`M_MMAP_THRESHOLD` of glibc, at its
/// least).
const MALLOC_MAPS: u64 = 128 << 10;
/// Flag of a block that `malloc` has mapped by itself (`IS_MMAPPED` of glibc).
const MAPPED: u64 = 2;

/// The tables of a thread in traced methods: words of `Shard` in
/// `crates/agent/src/engines/probes/traced/shards.rs`. Where they lie otherwise, none is found, and
/// they count as left over again.
const SHARD_WORDS: usize = 4596;
/// Places of pointers to pages with counts, and with blocks.
const COUNTS: Range<usize> = 1..129;
const BLOCKS: Range<usize> = 129..4225;
/// Places of what its supplies have reserved: addresses, and the number of pages in the lowest
/// bits.
const RESERVED: Range<usize> = 4236..4596;

/// Larger mappings are not searched for tables: they are heaps. What a thread reserves lies beside
/// what others do, and the kernel makes one mapping of it.
const SEARCHED: u64 = 1 << 30;

/// Flags of a page that is in memory or in swap (pagemap.rst of the kernel): the others were never
/// written.
const WRITTEN: u64 = 3 << 62;

/// Memory, and the threads that live in it.
pub struct Memory<M> {
    memory: M,
    /// A word for each page; without it all pages are searched.
    pages: Option<M>,
    threads: BTreeSet<u64>,
}

impl Memory<File> {
    /// That of a process; `None` if it is gone or not ours to read.
    pub fn of(pid: u32) -> Option<Memory<File>> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        // As they number themselves: they may have a namespace of their own.
        let threads = tasks.filter_map(|task| {
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            status
                .lines()
                .find_map(|line| line.strip_prefix("NSpid:"))?
                .split_whitespace()
                .last()?
                .parse()
                .ok()
        });
        let file = |name: &str| File::open(format!("/proc/{pid}/{name}")).ok();
        Some(Memory { threads: threads.collect(), memory: file("mem")?, pages: file("pagemap") })
    }
}

impl<M: FileExt> Memory<M> {
    fn words(&self, at: u64, count: usize) -> Option<Vec<u64>> {
        words(&self.memory, at, count)
    }

    /// The pages of a mapping that were written.
    fn written(&self, range: &Range<u64>) -> Vec<u64> {
        let count = ((range.end - range.start) / PAGE) as usize;
        let flags = self
            .pages
            .as_ref()
            .and_then(|file| words(file, range.start / PAGE * WORD as u64, count));
        match flags {
            Some(flags) => pages(range)
                .zip(flags)
                .filter(|(_, flags)| flags & WRITTEN != 0)
                .map(|(page, _)| page)
                .collect(),
            None => pages(range).collect(),
        }
    }

    /// Whether a mapping is nothing but small blocks of `malloc`. It maps each of these by itself
    /// for a thread that has no arena, because there were not enough addresses for one when the
    /// thread began. They are the heap, whosever they are.
    pub fn is_malloc(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let Some(&[0, head]) = self.words(at, 2).as_deref() else { return false };
            let size = head & !7;
            if head & 7 != MAPPED || size == 0 || !size.is_multiple_of(PAGE) || size >= MALLOC_MAPS
            {
                return false;
            }
            at += size;
        }
        at == range.end
    }

    /// Pages of the tables that living threads have of traced methods, one table for each: these
    /// stay by design, because code that was compiled to write them may run as long as the process
    /// lives.
    pub fn tables(&self, mappings: &[Range<u64>]) -> BTreeSet<u64> {
        let (mut found, mut had) = (BTreeSet::new(), BTreeSet::new());
        for range in
            mappings.iter().filter(|range| range.end.saturating_sub(range.start) <= SEARCHED)
        {
            for page in self.written(range) {
                let Some(&[owner]) = self.words(page, 1).as_deref() else { continue };
                if self.threads.contains(&owner)
                    && !had.contains(&owner)
                    && let Some(table) = self.table(page)
                {
                    had.insert(owner);
                    found.extend(table);
                }
            }
        }
        found
    }

    /// Pages of the table that begins here, if there is one.
    fn table(&self, at: u64) -> Option<Vec<u64>> {
        let words = self.words(at, SHARD_WORDS)?;
        let (counts, blocks, reserved) =
            (words.get(COUNTS)?, words.get(BLOCKS)?, words.get(RESERVED)?);
        let is_page = |word: &u64| word.is_multiple_of(PAGE);
        let is_table = counts.iter().chain(blocks).all(is_page)
            && counts.iter().chain(blocks).any(|word| *word != 0);
        let bytes = (SHARD_WORDS * WORD) as u64;
        let mut all: Vec<u64> = pages(&(at..at + bytes)).collect();
        all.extend(counts.iter().filter(|word| **word != 0));
        for word in reserved.iter().filter(|word| **word != 0) {
            let begin = word & !(PAGE - 1);
            all.extend(pages(&(begin..begin.checked_add(word % PAGE * PAGE)?)));
        }
        is_table.then_some(all)
    }
}

fn words<M: FileExt>(file: &M, at: u64, count: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; count * WORD];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(
        bytes
            .chunks_exact(WORD)
            .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
            .collect(),
    )
}

/// Addresses of the pages in a range.
pub fn pages(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    (range.start..range.end).step_by(PAGE as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// Words from address zero on.
    struct Fake(Vec<u64>);

    impl FileExt for Fake {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let there =
                bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            let length = there.len().min(buffer.len());
            buffer[..length].copy_from_slice(&there[..length]);
            Ok(length)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn memory(pages: usize, words: &[(u64, u64)]) -> Memory<Fake> {
        let mut all = vec![0; pages * PAGE as usize / WORD];
        for (address, word) in words {
            all[*address as usize / WORD] = *word;
        }
        Memory { memory: Fake(all), pages: None, threads: BTreeSet::from([77]) }
    }

    #[test]
    fn blocks_of_malloc_are_known_by_their_heads() {
        let memory = memory(8, &[(0x1008, 0x1002), (0x2008, 0x2002), (0x5008, 0x1001)]);
        assert!(memory.is_malloc(&(0x1000..0x2000)) && memory.is_malloc(&(0x1000..0x4000)));
        // A part of one, one of an arena, and nothing.
        assert!(!memory.is_malloc(&(0x2000..0x3000)) && !memory.is_malloc(&(0x5000..0x6000)));
        assert!(!memory.is_malloc(&(0x1000..0x5000)) && !memory.is_malloc(&(0x7000..0x9000)));
    }

    #[test]
    fn tables_are_those_of_living_threads() {
        let table = |at: u64, owner: u64| {
            let place = |index: usize| at + (index * WORD) as u64;
            [(at, owner), (place(COUNTS.start), 0x1000), (place(RESERVED.start), 0x2000 | 2)]
        };
        let found = |words: &[(u64, u64)]| {
            memory(40, words).tables(std::slice::from_ref(&(0x4000..0x28000)))
        };
        let of_one = BTreeSet::from_iter(
            [0x1000, 0x2000, 0x3000].into_iter().chain(pages(&(0x5000..0xe000))),
        );
        assert_eq!(found(&table(0x5000, 77)), of_one);
        assert_eq!(found(&table(0x5000, 78)), BTreeSet::new());
        // A second one of the same thread is not by design.
        assert_eq!(found(&[table(0x5000, 77), table(0x10000, 77)].concat()), of_one);
        // What was never written is not read.
        let of_pages = |flags: u64| {
            let mut memory = memory(40, &table(0x5000, 77));
            memory.pages = Some(Fake(vec![flags; 40]));
            memory.tables(std::slice::from_ref(&(0x4000..0x28000)))
        };
        assert_eq!((of_pages(0), of_pages(1 << 63)), (BTreeSet::new(), of_one.clone()));
        // Pointers to anything but pages are of something else.
        assert_eq!(found(&[(0x5000, 77), (0x5008, 0x1008)]), BTreeSet::new());
    }
}
