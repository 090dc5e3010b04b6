use std::{collections::HashMap, hash::BuildHasherDefault};

use session::{Nanos, StackId, ThreadId, ThreadState};

use crate::{mix::Mix, series::Row};

/// Most slices of a recording.
const MOST: u64 = 32;

/// Width of the first slices as a power of two: 2^28 ns are about 268 ms, some ticks of every
/// profiler that samples.
const FIRST_SHIFT: u32 = 28;

/// Samples of a series by time, in at most 32 slices of equal width: by how much their sums differ
/// says how far the program's own ups and downs make a mean uncertain. The width doubles as the
/// recording grows, so a recording of more than 8.6 s has 17 to 32 slices, and a shorter one has
/// fewer.
#[derive(Clone, Debug)]
pub struct Slices {
    start: Nanos,
    shift: u32,
    cells: HashMap<SliceKey, SliceSums, BuildHasherDefault<Mix>>,
}

/// Which samples of a slice are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceKey {
    /// The slice, from 0.
    pub slice: u32,
    /// The stack.
    pub stack: StackId,
    /// The thread.
    pub thread: ThreadId,
    /// What the thread was doing.
    pub state: ThreadState,
}

/// Sums of these samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SliceSums {
    /// What they stand for, in the unit of the series.
    pub weight: f64,
    /// Sum of the squares of the weights.
    pub squares: f64,
}

impl SliceSums {
    fn add(&mut self, more: Self) {
        self.weight += more.weight;
        self.squares += more.squares;
    }
}

impl Slices {
    /// The least width of a slice, nanoseconds.
    pub const LEAST_WIDTH: Nanos = 1 << FIRST_SHIFT;
    /// The most slices that there are.
    pub const MOST: u64 = MOST;

    pub(crate) fn new(start: Nanos) -> Self {
        Self { start, shift: FIRST_SHIFT, cells: HashMap::default() }
    }

    pub(crate) fn add(&mut self, row: &Row, samples: u64) {
        let since = row.time.saturating_sub(self.start);
        while since >> self.shift >= MOST {
            self.halve();
        }
        let key = SliceKey {
            slice: (since >> self.shift) as u32,
            stack: row.stack,
            thread: row.thread,
            state: row.state,
        };
        let weight = row.weight as f64;
        // As for the whole series: several samples share their weight.
        let squares = weight.powi(2) / samples.max(1) as f64;
        self.cells.entry(key).or_default().add(SliceSums { weight, squares });
    }

    fn halve(&mut self) {
        self.shift += 1;
        for (key, sums) in std::mem::take(&mut self.cells) {
            let key = SliceKey { slice: key.slice / 2, ..key };
            self.cells.entry(key).or_default().add(sums);
        }
    }

    /// Those of which the keys are wanted.
    pub(crate) fn filtered(&self, is_wanted: impl Fn(SliceKey) -> bool) -> Self {
        let cells = self.cells.iter().filter(|(key, _)| is_wanted(**key));
        Self { cells: cells.map(|(key, sums)| (*key, *sums)).collect(), ..*self }
    }

    /// How many different keys there are.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Width of a slice, nanoseconds: a power of two, at least [`Self::LEAST_WIDTH`]. The last one
    /// may be cut by the end of the recording.
    pub fn width(&self) -> Nanos {
        1 << self.shift
    }

    /// The sums in slices that are wider by this power of two, in no order. Several can have the
    /// same key.
    pub fn cells(&self, wider: u32) -> impl Iterator<Item = (SliceKey, SliceSums)> {
        let slice = move |key: &SliceKey| key.slice.checked_shr(wider).unwrap_or(0);
        self.cells.iter().map(move |(key, sums)| (SliceKey { slice: slice(key), ..*key }, *sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: Nanos, stack: u32, weight: u64) -> Row {
        let (thread, stack) = (ThreadId(0), StackId(stack));
        Row { time, thread, stack, state: ThreadState::Running, truncated: false, weight }
    }

    #[test]
    fn nothing_is_lost_when_slices_grow() {
        let mut slices = Slices::new(1000);
        for i in 0..1000_u64 {
            slices.add(&row(1000 + i * 40_000_000, i as u32 % 3, 2), 1);
        }
        assert_eq!(slices.width(), 1 << (FIRST_SHIFT + 3));
        let mut sums = [0.0; MOST as usize];
        slices.cells(0).for_each(|(key, cell)| sums[key.slice as usize] += cell.weight);
        // 40 s are 18.6 slices of 2.15 s: the last one that has any is cut.
        assert_eq!(sums.iter().sum::<f64>(), 2000.0);
        assert!(sums[..18].iter().all(|sum| (106.0..=108.0).contains(sum)), "{sums:?}");
        assert!(sums[18] > 0.0 && sums[19..].iter().all(|sum| *sum == 0.0), "{sums:?}");
        let squares: f64 = slices.cells(0).map(|(_, cell)| cell.squares).sum();
        assert_eq!(squares, 4000.0);
        let some = slices.filtered(|key| key.stack == StackId(1));
        assert_eq!(some.cells(0).map(|(_, cell)| cell.weight).sum::<f64>(), 666.0);
        slices.add(&row(u64::MAX, 0, 1), 1);
        assert!(slices.cells(0).all(|(key, _)| u64::from(key.slice) < MOST));
    }
}
