use session::{Nanos, ThreadState};

use crate::{STATES, state_index};

/// Most buckets of a timeline.
const MOST: usize = 1024;

/// Width of the first buckets as a power of two: 2^20 ns are about a millisecond.
const FIRST_SHIFT: u32 = 20;

/// Weight by time and state, in buckets of equal width. The width doubles as the recording grows,
/// so a timeline is small and needs no knowledge of the end.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: Nanos,
    shift: u32,
    buckets: Vec<[u64; STATES.len()]>,
}

impl Timeline {
    pub(crate) fn new(start: Nanos) -> Self {
        Self { start, shift: FIRST_SHIFT, buckets: Vec::new() }
    }

    pub(crate) fn add(&mut self, time: Nanos, state: ThreadState, weight: u64) {
        let since = time.saturating_sub(self.start);
        while since >> self.shift >= MOST as u64 {
            self.halve();
        }
        let bucket = (since >> self.shift) as usize;
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, [0; STATES.len()]);
        }
        let value = &mut self.buckets[bucket][state_index(state)];
        *value = value.saturating_add(weight);
    }

    fn halve(&mut self) {
        self.shift += 1;
        self.buckets = self
            .buckets
            .chunks(2)
            .map(|pair| {
                let mut sum = pair[0];
                for (left, right) in sum.iter_mut().zip(pair.get(1).into_iter().flatten()) {
                    *left = left.saturating_add(*right);
                }
                sum
            })
            .collect();
    }

    /// Where the first bucket begins.
    pub fn start(&self) -> Nanos {
        self.start
    }

    /// Width of a bucket.
    pub fn width(&self) -> Nanos {
        1 << self.shift
    }

    /// The buckets; each has the weight by state, in the order of [`STATES`].
    pub fn buckets(&self) -> &[[u64; STATES.len()]] {
        &self.buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_the_width_grows() {
        let mut timeline = Timeline::new(1000);
        for i in 0..5000_u64 {
            timeline.add(1000 + i * 7_000_000, STATES[i as usize % STATES.len()], i);
        }
        // A clock that runs backwards counts at the start, one far away does not exhaust memory.
        timeline.add(0, ThreadState::Running, 3);
        timeline.add(u64::MAX, ThreadState::Running, 4);
        assert!(timeline.buckets().len() <= MOST);
        let sum: u64 = timeline.buckets().iter().flatten().sum();
        assert_eq!(sum, (0..5000).sum::<u64>() + 7);
        assert!(timeline.width() >= u64::MAX / MOST as u64);
    }

    #[test]
    fn weight_is_where_its_time_is() {
        let mut timeline = Timeline::new(0);
        for i in 0..2000_u64 {
            timeline.add(i << FIRST_SHIFT, ThreadState::Gc, 1);
        }
        assert_eq!(timeline.width(), 2 << FIRST_SHIFT);
        assert!(timeline.buckets().iter().all(|bucket| bucket[state_index(ThreadState::Gc)] == 2));
    }
}
