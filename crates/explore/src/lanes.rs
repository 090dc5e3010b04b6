use std::{collections::BTreeMap, ops::Range};

use profile::{STATES, state_index};
use session::{Nanos, SampleBatch, ThreadId, ThreadState};

/// Most sums of all lanes together; beyond that they are over longer times.
const MOST: usize = if cfg!(test) { 1 << 10 } else { 1 << 21 };

/// Width of the first sums as a power of two: 2^20 ns are about a millisecond.
const FIRST_SHIFT: u32 = 20;

/// Sums are never over longer times than 2^50 ns, which are 13 days.
const LAST_SHIFT: u32 = 50;

/// What each thread did over time: weights by state, over times of equal length.
///
/// The times double as the recording grows, so that lanes need no knowledge of the end, and no more
/// than 32 MB of memory unless there are very many threads.
#[derive(Clone, Debug)]
pub struct Lanes {
    start: Nanos,
    shift: u32,
    lanes: BTreeMap<ThreadId, Lane>,
    sums: usize,
}

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    sums: Vec<Sum>,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    bucket: u32,
    state: u8,
    weight: u64,
}

impl Lane {
    /// Adds a weight. Tells whether a new sum was needed.
    fn add(&mut self, sum: Sum) -> bool {
        let mut of_bucket =
            self.sums.iter_mut().rev().take_while(|known| known.bucket == sum.bucket);
        match of_bucket.find(|known| known.state == sum.state) {
            Some(known) => known.weight = known.weight.saturating_add(sum.weight),
            None => {
                self.sums.push(sum);
                return true;
            }
        }
        false
    }

    fn halve(&mut self) {
        let mut halved = Lane::default();
        for sum in &self.sums {
            halved.add(Sum { bucket: sum.bucket >> 1, ..*sum });
        }
        *self = halved;
    }
}

/// What a thread did, by pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    /// What it did most, as an index into [`STATES`]; 255 where nothing is known.
    pub state: Vec<u8>,
    /// The share of the time for which samples stand, 0 to 1.
    pub share: Vec<f32>,
}

impl Lanes {
    /// Lanes that begin at a time.
    pub fn new(start: Nanos) -> Self {
        Self { start, shift: FIRST_SHIFT, lanes: BTreeMap::new(), sums: 0 }
    }

    /// Takes samples of which the times are wanted.
    pub fn add_batch(&mut self, batch: &SampleBatch, wanted: impl Fn(Nanos) -> bool) {
        let mut time = batch.start;
        let rows = batch.time_delta.iter().zip(&batch.thread).zip(&batch.state).zip(&batch.weight);
        for (((delta, thread), state), weight) in rows {
            time = time.wrapping_add(*delta);
            if wanted(time) {
                self.add(time, *thread, *state, *weight);
            }
        }
    }

    /// Takes a sample.
    pub fn add(&mut self, time: Nanos, thread: ThreadId, state: ThreadState, weight: u64) {
        let since = time.saturating_sub(self.start);
        while (since >> self.shift) > u64::from(u32::MAX) {
            self.halve();
        }
        let bucket = (since >> self.shift) as u32;
        let sum = Sum { bucket, state: state_index(state) as u8, weight };
        self.sums += usize::from(self.lanes.entry(thread).or_default().add(sum));
        while self.sums > MOST && self.shift < LAST_SHIFT {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.shift += 1;
        self.lanes.values_mut().for_each(Lane::halve);
        self.sums = self.lanes.values().map(|lane| lane.sums.len()).sum();
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Threads that have a lane.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.lanes.keys().copied()
    }

    /// Bytes of memory that they take, about.
    pub fn size(&self) -> usize {
        self.sums * size_of::<Sum>() * 2 + self.lanes.len() * 64
    }

    /// What a thread did in a time, by pixels. A sum counts for all of its time alike.
    pub fn strip(&self, thread: ThreadId, time: Range<Nanos>, pixels: usize) -> Strip {
        let mut weights = vec![[0.0_f64; STATES.len()]; pixels];
        let length = time.end.saturating_sub(time.start).max(1) as f64;
        let pixel = length / pixels.max(1) as f64;
        let width = (1_u64 << self.shift) as f64;
        let offset = self.start as f64 - time.start as f64;
        for sum in self.lanes.get(&thread).map(|lane| lane.sums.as_slice()).unwrap_or_default() {
            let from = (offset + f64::from(sum.bucket) * width) / pixel;
            let to = from + width / pixel;
            let per_pixel = sum.weight as f64 / (to - from);
            // Casts of floats stop at the ends of the range.
            let (first, last) = (from.max(0.0) as usize, (to.ceil().max(0.0) as usize).min(pixels));
            for (at, weights) in weights.iter_mut().enumerate().take(last).skip(first) {
                let overlap = to.min(at as f64 + 1.0) - from.max(at as f64);
                weights[usize::from(sum.state)] += per_pixel * overlap.max(0.0);
            }
        }
        let mut strip = Strip::default();
        for weights in weights {
            let all: f64 = weights.iter().sum();
            let most = (0..weights.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
            strip.state.push(if all > 0.0 { most.unwrap_or_default() as u8 } else { u8::MAX });
            strip.share.push((all / pixel).min(1.0) as f32);
        }
        strip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_is_where_it_was() {
        let mut lanes = Lanes::new(1000);
        for tick in 0..100 {
            let state = if tick < 50 { ThreadState::Running } else { ThreadState::Lock };
            lanes.add(1000 + tick * 10 * MS, ThreadId(3), state, 10 * MS);
        }
        let strip = lanes.strip(ThreadId(3), 1000..1000 + 1000 * MS, 10);
        let (running, lock) = (state_index(ThreadState::Running), state_index(ThreadState::Lock));
        assert_eq!(strip.state[..5], [running as u8; 5]);
        assert_eq!(strip.state[6..], [lock as u8; 4]);
        assert!(strip.share.iter().all(|share| (share - 1.0).abs() < 0.15), "{strip:?}");
        let nothing = lanes.strip(ThreadId(4), 1000..1000 + 1000 * MS, 10);
        assert_eq!(nothing.state, [u8::MAX; 10]);
        // A part of it, on more pixels than there are sums.
        let part = lanes.strip(ThreadId(3), 1000..1000 + 20 * MS, 200);
        assert_eq!(part.state.len(), 200);
        assert!(part.state.contains(&(running as u8)));
    }

    #[test]
    fn lanes_stay_small_and_lose_nothing() {
        let mut lanes = Lanes::new(0);
        let mut weight = 0;
        for tick in 0..50_000_u64 {
            let state = STATES[tick as usize % STATES.len()];
            lanes.add(tick * 7 * MS, ThreadId((tick % 7) as u32), state, tick);
            weight += tick;
        }
        // A clock that runs backwards, and one that is far away.
        lanes.add(0, ThreadId(0), ThreadState::Gc, 5);
        lanes.add(u64::MAX, ThreadId(0), ThreadState::Gc, 6);
        assert!(lanes.sums <= MOST, "{}", lanes.sums);
        let sums = lanes.lanes.values().flat_map(|lane| &lane.sums);
        assert_eq!(sums.map(|sum| sum.weight).sum::<u64>(), weight + 11);
        assert_eq!(lanes.threads().count(), 7);
    }
}
