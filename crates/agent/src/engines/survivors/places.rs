//! Where objects were before a collection: what it moves, and what it leaves in place.

use corprof::callback::MovedRanges;
use corprof::ids::RawObjectId;

use super::{MOST_MOVED, YOUNG};

/// A stretch of the heap, and the generation that what lies in it was in before the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) generation: u8,
}

/// Finds the stretch of an address among ascending ones.
pub(super) fn find(stretches: &[Stretch], address: usize) -> Option<u8> {
    let after = stretches.partition_point(|stretch| stretch.start <= address);
    let stretch = stretches.get(after.checked_sub(1)?)?;
    (address < stretch.end).then_some(stretch.generation)
}

/// Where survivors lie, and where they were.
pub(super) struct Places {
    /// What was collected, ascending. A survivor that was not moved still lies there.
    pub(super) collected: Vec<Stretch>,
    /// Where moved survivors are now; ascending once it is settled.
    pub(super) moved: Vec<Stretch>,
    /// From the first address of all that to the last.
    pub(super) span: (usize, usize),
    pub(super) bytes_moved: u64,
    /// Bytes of ranges for which there was no room.
    pub(super) lost: u64,
}

impl Places {
    pub(super) fn new() -> Self {
        let (collected, moved) = (Vec::with_capacity(1024), Vec::with_capacity(MOST_MOVED));
        Self { collected, moved, span: (0, 0), bytes_moved: 0, lost: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.collected.clear();
        self.moved.clear();
        (self.span, self.bytes_moved, self.lost) = ((0, 0), 0, 0);
    }

    pub(super) fn memory(&self) -> usize {
        (self.collected.capacity() + self.moved.capacity()) * size_of::<Stretch>()
    }

    pub(super) fn moved(&mut self, ranges: MovedRanges<'_, usize>) {
        for range in ranges.iter() {
            if range.old != range.new {
                self.one_moved(range.old.0, range.new.0, range.length);
            }
        }
    }

    pub(super) fn one_moved(&mut self, old: usize, new: usize, length: usize) {
        self.bytes_moved += length as u64;
        // What was not collected is not moved; should it be, it is no survivor of this collection.
        let Some(generation) = find(&self.collected, old) else { return };
        let stretch = Stretch { start: new, end: new.saturating_add(length), generation };
        let has_room = self.moved.len() < MOST_MOVED;
        match self.moved.last_mut() {
            Some(last) if last.end == stretch.start && last.generation == generation => {
                last.end = stretch.end
            }
            _ if has_room => self.moved.push(stretch),
            _ => self.lost += length as u64,
        }
    }

    /// All ranges are known.
    pub(super) fn settle(&mut self) {
        self.moved.sort_unstable_by_key(|stretch| stretch.start);
        let all = || self.moved.iter().chain(&self.collected);
        let start = all().map(|stretch| stretch.start).min().unwrap_or(0);
        self.span = (start, all().map(|stretch| stretch.end).max().unwrap_or(0));
    }

    /// The generation in which an object was before the collection; `None` for one that was not
    /// collected.
    pub(super) fn origin(&self, object: RawObjectId) -> Option<u8> {
        let address = object.0;
        if address < self.span.0 || address >= self.span.1 {
            return None;
        }
        // What was moved here counts before what had been here.
        find(&self.moved, address).or_else(|| find(&self.collected, address))
    }

    pub(super) fn is_young(&self, object: RawObjectId) -> bool {
        self.origin(object).is_some_and(|generation| generation <= YOUNG)
    }
}
