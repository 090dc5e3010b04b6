use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use wire::{
    Code,
    call_site::{LONGEST_CALL, ends_in_call},
};

use crate::arch::ManagedRule;

/// More "not code" addresses than a process can reasonably have; over that they are forgotten and
/// asked again.
const MOST_NOT_CODE: usize = 1 << 20;
/// Entries of the lookup cache, a power of two.
const CACHE: usize = 4096;

/// What is known about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It lies in managed code.
    Code(CodeLocation),
    /// The runtime says that no managed code stands there: a stub, or something native.
    NotCode,
    /// Not known yet.
    Unknown,
}

/// A place in managed code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLocation {
    /// The method, as in [`wire::Code::method`].
    pub method: u32,
    /// Number of the code version: what [`CodeMap::insert`] returned.
    pub version: u32,
    /// Offset in the native code, as the IL map counts: the ranges of a method follow each other.
    pub offset: u32,
}

/// Managed code by address.
///
/// It is fed with what the agent says about addresses, and bounded by what the target has compiled.
#[derive(Debug, Default)]
pub struct CodeMap {
    /// By number; `None` once freed.
    versions: Vec<Option<Version>>,
    ranges: BTreeMap<u64, MappedRange>,
    not_code: HashSet<u64>,
    malformed: u64,
    cache: Cache,
}

#[derive(Debug)]
struct Version {
    method: u32,
    ranges: Vec<Range<u64>>,
    /// Bytes of the first range.
    bytes: Vec<u8>,
    /// Ascending by address.
    rules: Vec<ManagedRule>,
}

#[derive(Clone, Copy, Debug)]
struct MappedRange {
    end: u64,
    version: u32,
    /// Bytes of the ranges of the method before this one.
    before: u32,
}

/// Recently looked up addresses. An entry is valid while its generation is the current one.
#[derive(Debug)]
struct Cache {
    generation: u32,
    entries: Box<[Cell<CacheEntry>]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CacheEntry {
    address: u64,
    generation: u32,
    version: u32,
    offset: u32,
    /// Index in [`Version::rules`], or `u32::MAX`.
    rule: u32,
}

impl Default for Cache {
    fn default() -> Self {
        Self { generation: 1, entries: (0..CACHE).map(|_| Cell::default()).collect() }
    }
}

impl Cache {
    fn slot(&self, address: u64) -> Option<&Cell<CacheEntry>> {
        self.entries.get((address ^ address >> 12) as usize & (CACHE - 1))
    }

    fn forget(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            *self = Self::default();
        }
    }
}

/// A place in managed code, with all that unwinding needs.
pub(crate) struct Place<'a> {
    pub(crate) location: CodeLocation,
    pub(crate) rule: Option<&'a ManagedRule>,
    version: &'a Version,
}

impl<'a> Place<'a> {
    /// The bytes of code from an address on; empty where they are not known.
    pub(crate) fn code_from(&self, address: u64) -> &'a [u8] {
        let start = self.version.ranges.first().map_or(0, |range| range.start);
        let offset = address.checked_sub(start).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.version.bytes.get(offset..)).unwrap_or_default()
    }

    /// Whether the address is in the same method.
    pub(crate) fn same_method(&self, address: u64) -> bool {
        self.version.ranges.iter().any(|range| range.contains(&address))
    }
}

impl CodeMap {
    /// Adds code that the agent has described and returns its number. Numbers count up from 0 in
    /// the order of insertion. Whatever was known about these addresses before is replaced. `None`
    /// if the description has no usable range.
    pub fn insert(&mut self, code: &Code) -> Option<u32> {
        let mut ranges = Vec::with_capacity(code.ranges.len());
        for &(start, length) in &code.ranges {
            let end = start.checked_add(u64::from(length))?;
            if start < end {
                ranges.push(start..end);
            }
        }
        let first = ranges.first()?.clone();
        let number = u32::try_from(self.versions.len()).ok()?;

        let entries = code.unwind.iter().flat_map(|table| &table.entries);
        let known = entries.clone().count();
        let mut rules: Vec<ManagedRule> = entries.filter_map(ManagedRule::from_table).collect();
        self.malformed += (known - rules.len()) as u64;
        if rules.is_empty() {
            rules.extend(ManagedRule::learn(first.start, first.end, &code.bytes));
        }
        rules.sort_by_key(|rule| rule.begin);

        let mut before = 0u32;
        for range in &ranges {
            self.clear(range.clone());
            self.ranges
                .insert(range.start, MappedRange { end: range.end, version: number, before });
            before =
                before.saturating_add(u32::try_from(range.end - range.start).unwrap_or(u32::MAX));
        }
        let mut bytes = code.bytes.clone();
        bytes.truncate(usize::try_from(first.end - first.start).unwrap_or(usize::MAX));
        self.versions.push(Some(Version { method: code.method, ranges, bytes, rules }));
        self.cache.forget();
        Some(number)
    }

    /// Notes that no managed code stands at this very address.
    pub fn insert_not_code(&mut self, address: u64) {
        if self.not_code.len() >= MOST_NOT_CODE {
            self.not_code.clear();
        }
        self.not_code.insert(address);
    }

    /// Forgets what [`Self::insert_not_code`] has noted. An address without code may get some
    /// later: the runtime tells what it frees, but we do not hear of what it compiles. So do this
    /// every few seconds.
    pub fn forget_not_code(&mut self) {
        self.not_code.clear();
    }

    /// Forgets the code that starts here, because it was freed. Returns its number, if it was
    /// known.
    pub fn remove(&mut self, start: u64) -> Option<u32> {
        let number = self.ranges.get(&start)?.version;
        self.drop_version(number);
        Some(number)
    }

    /// What is known about an address.
    pub fn lookup(&self, address: u64) -> Lookup {
        match self.place(address) {
            Some(place) => Lookup::Code(place.location),
            None if self.not_code.contains(&address) => Lookup::NotCode,
            None => Lookup::Unknown,
        }
    }

    /// How many unwind entries were turned down because they were malformed.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// How many code versions are known.
    pub fn len(&self) -> usize {
        self.versions.iter().flatten().count()
    }

    /// Whether no code is known.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn is_not_code(&self, address: u64) -> bool {
        self.not_code.contains(&address)
    }

    pub(crate) fn place(&self, address: u64) -> Option<Place<'_>> {
        let slot = self.cache.slot(address)?;
        let cached = slot.get();
        let entry = if cached.address == address && cached.generation == self.cache.generation {
            cached
        } else {
            let entry = self.search(address)?;
            slot.set(entry);
            entry
        };
        let version = self.versions.get(entry.version as usize)?.as_ref()?;
        Some(Place {
            location: CodeLocation {
                method: version.method,
                version: entry.version,
                offset: entry.offset,
            },
            rule: version.rules.get(entry.rule as usize),
            version,
        })
    }

    /// Whether a call can return to this address of known managed code. `None` if no code is known
    /// there, not even right before.
    pub(crate) fn is_return_address(&self, address: u64) -> Option<bool> {
        let place = self.place(address.checked_sub(1)?)?;
        let from = address.saturating_sub(LONGEST_CALL as u64);
        let start = place.version.ranges.first().map_or(0, |range| range.start);
        let known = usize::try_from(address - start.max(from).min(address)).unwrap_or_default();
        match place.code_from(start.max(from)).get(..known) {
            Some(code) if !code.is_empty() => Some(ends_in_call(code)),
            // The code is not known (over the limit of the agent, or a cold part): it may be.
            _ => Some(true),
        }
    }

    fn search(&self, address: u64) -> Option<CacheEntry> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some(())?;
        let version = self.versions.get(range.version as usize)?.as_ref()?;
        let behind = version.rules.partition_point(|rule| rule.begin <= address);
        let rule = behind
            .checked_sub(1)
            .filter(|&index| version.rules.get(index).is_some_and(|rule| address < rule.end));
        Some(CacheEntry {
            address,
            generation: self.cache.generation,
            version: range.version,
            offset: range.before.saturating_add(u32::try_from(address - start).unwrap_or(u32::MAX)),
            rule: rule.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX),
        })
    }

    /// Forgets all code and notes that overlap a range.
    fn clear(&mut self, range: Range<u64>) {
        let overlapping: Vec<u32> = self
            .ranges
            .range(..range.end)
            .rev()
            .take_while(|(_, old)| old.end > range.start)
            .map(|(_, old)| old.version)
            .collect();
        for number in overlapping {
            self.drop_version(number);
        }
        if !self.not_code.is_empty() {
            self.not_code.retain(|address| !range.contains(address));
        }
    }

    fn drop_version(&mut self, number: u32) {
        let Some(version) = self.versions.get_mut(number as usize).and_then(Option::take) else {
            return;
        };
        for range in &version.ranges {
            if self.ranges.get(&range.start).is_some_and(|mapped| mapped.version == number) {
                self.ranges.remove(&range.start);
            }
        }
        self.cache.forget();
    }
}

#[cfg(test)]
mod tests {
    use wire::{UnwindEntry, UnwindTable};

    use super::*;

    fn code(method: u32, ranges: &[(u64, u32)]) -> Code {
        Code {
            method,
            rejit: 0,
            ranges: ranges.to_vec(),
            unwind: None,
            bytes: vec![0x90; 16],
            il_map: Vec::new(),
        }
    }

    fn method_at(map: &CodeMap, address: u64) -> Option<(u32, u32)> {
        match map.lookup(address) {
            Lookup::Code(location) => Some((location.method, location.offset)),
            _ => None,
        }
    }

    #[test]
    fn finds_hot_and_cold_parts_with_the_offsets_of_the_il_map() {
        let mut map = CodeMap::default();
        assert_eq!(map.insert(&code(7, &[(0x1000, 0x40), (0x9000, 0x10)])), Some(0));
        assert_eq!(map.insert(&code(8, &[(0x1040, 0x10)])), Some(1));
        assert_eq!(method_at(&map, 0x1000), Some((7, 0)));
        assert_eq!(method_at(&map, 0x103f), Some((7, 0x3f)));
        assert_eq!(method_at(&map, 0x1040), Some((8, 0)));
        assert_eq!(method_at(&map, 0x9004), Some((7, 0x44)));
        for nothing in [0, 0xfff, 0x1050, 0x9010, u64::MAX] {
            assert_eq!(map.lookup(nothing), Lookup::Unknown);
        }
    }

    #[test]
    fn freed_and_reused_addresses_change_their_meaning() {
        let mut map = CodeMap::default();
        map.insert(&code(1, &[(0x1000, 0x40), (0x9000, 0x10)]));
        assert_eq!(method_at(&map, 0x1010), Some((1, 0x10)));
        assert_eq!(map.remove(0x1000), Some(0));
        assert_eq!(map.lookup(0x1010), Lookup::Unknown);
        assert_eq!(map.lookup(0x9000), Lookup::Unknown);
        assert_eq!(map.remove(0x1000), None);

        map.insert_not_code(0x1010);
        assert_eq!(map.lookup(0x1010), Lookup::NotCode);
        map.insert(&code(2, &[(0x1000, 0x40)]));
        assert_eq!(method_at(&map, 0x1010), Some((2, 0x10)));
        // Replaced without a word about the old one.
        map.insert(&code(3, &[(0x1020, 0x100)]));
        assert_eq!(method_at(&map, 0x1020), Some((3, 0)));
        assert_eq!(map.lookup(0x1010), Lookup::Unknown);
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn turns_down_nonsense_and_counts_it() {
        let mut map = CodeMap::default();
        assert_eq!(map.insert(&code(1, &[])), None);
        assert_eq!(map.insert(&code(1, &[(0x1000, 0)])), None);
        assert_eq!(map.insert(&code(1, &[(u64::MAX, 10)])), None);
        let entry =
            |info: &[u8]| UnwindEntry { begin: 0x1000, end: 0x1040, info: vec![info.to_vec()] };
        let table = UnwindTable { entries: vec![entry(&[7, 0, 0, 0]), entry(&[1, 0, 9, 0])] };
        map.insert(&Code { unwind: Some(table), ..code(1, &[(0x1000, 0x40)]) });
        assert_eq!(map.malformed(), if cfg!(target_arch = "x86_64") { 2 } else { 0 });
        assert!(map.place(0x1000).unwrap().rule.is_some_and(|rule| !rule.exact), "learned instead");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn return_addresses_stand_behind_calls() {
        let mut map = CodeMap::default();
        let mut bytes = vec![0x90; 0x20];
        bytes[..5].copy_from_slice(&[0xe8, 0, 0, 0, 0]);
        bytes[0x1e..].copy_from_slice(&[0xff, 0xd0]);
        map.insert(&Code { bytes, ..code(1, &[(0x1000, 0x20), (0x5000, 0x10)]) });
        assert_eq!(map.is_return_address(0x1005), Some(true));
        assert_eq!(map.is_return_address(0x1006), Some(false));
        assert_eq!(map.is_return_address(0x1020), Some(true), "right behind the method");
        assert_eq!(map.is_return_address(0x1000), None);
        assert_eq!(map.is_return_address(0x5008), Some(true), "no bytes of the cold part");
        assert_eq!(map.is_return_address(0), None);
    }
}
