//! How much of the time allocations are followed.

use std::collections::VecDeque;

/// Length of a part of a slot, in nanoseconds. A session checks every 100 ms whether it is to stop,
/// counted from its start: one that is stopped a little before that is stopped soon, one that is
/// stopped after half of it runs on for the other half.
pub(super) const PART: u64 = 90_000_000;

/// For how many seconds' worth of the bound everything is followed at first: short bursts are seen
/// whole.
const BURST: f64 = 2.0;

/// Most parts of a slot: a slot of them takes nine seconds.
const MAX_PARTS: u64 = 100;

/// Parts over which the rate is reckoned while all is followed: the runtime hands its events over
/// ten times per second.
const RATE_PARTS: usize = 3;

/// Decides how much of the time is followed, by how many samples come.
#[derive(Debug)]
pub(super) struct Pace {
    /// Most samples per second, on the average.
    most: f64,
    /// Samples that may come before all is too much.
    left: f64,
    /// Time and number of samples at the last snapshot,
    looked: (u64, u64),
    /// and at the last snapshots since all has been followed.
    snapshots: VecDeque<(u64, u64)>,
    /// Into how many parts a slot is divided; 1 while all is followed.
    pub parts: u64,
}

impl Pace {
    pub fn new(most: u64, now: u64) -> Self {
        let most = most.max(1) as f64;
        Self { most, left: most * BURST, looked: (now, 0), snapshots: VecDeque::new(), parts: 1 }
    }

    /// Call this while all of the time is recorded: `arrived` samples have come from the beginning
    /// until now. Returns into how many parts to divide a slot from now on.
    pub fn all_followed(&mut self, now: u64, arrived: u64) -> u64 {
        let (at, before) = std::mem::replace(&mut self.looked, (now, arrived));
        let may = self.most * now.saturating_sub(at) as f64 / 1e9;
        let room = self.most * BURST;
        self.left = (self.left + may - arrived.saturating_sub(before) as f64).clamp(-room, room);
        self.snapshots.push_back((now, arrived));
        if self.snapshots.len() > RATE_PARTS + 1 {
            self.snapshots.pop_front();
        }
        if let Some((from, before)) = self.snapshots.front().copied()
            && self.left < 0.0
            && self.snapshots.len() > RATE_PARTS
        {
            self.rate(arrived.saturating_sub(before), now.saturating_sub(from));
        }
        if self.parts > 1 {
            self.snapshots.clear();
        }
        self.parts
    }

    /// Call this after a part of a slot, which has given `count` samples in `nanos` nanoseconds.
    pub fn part_followed(&mut self, count: u64, nanos: u64) {
        self.rate(count, nanos);
    }

    fn rate(&mut self, count: u64, nanos: u64) {
        let rate = count as f64 * 1e9 / nanos.max(1) as f64;
        self.parts = ((rate / self.most).ceil() as u64).clamp(1, MAX_PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples per second that are taken of `rate` samples per second, over a minute, and the share
    /// of the time that is recorded.
    fn taken(rate: f64) -> (f64, f64) {
        let (mut pace, mut now, mut followed) = (Pace::new(5_000, 0), 0, 0);
        let samples = |nanos: u64| (rate * nanos as f64 / 1e9) as u64;
        while now < 60_000_000_000 {
            followed += PART;
            now += PART * pace.parts;
            if pace.parts == 1 {
                pace.all_followed(now, samples(followed));
            } else {
                pace.part_followed(samples(PART), PART);
            }
        }
        (samples(followed) as f64 * 1e9 / now as f64, followed as f64 / now as f64)
    }

    #[test]
    fn all_is_followed_of_what_comes_slowly() {
        for rate in [0.0, 100.0, 4_990.0] {
            let (samples, share) = taken(rate);
            assert!(
                (samples - rate).abs() <= rate * 0.01 && share > 0.999,
                "{rate}: {samples}, {share}"
            );
        }
    }

    #[test]
    fn storms_are_bounded_on_the_average() {
        for rate in [5_500.0, 8_000.0, 25_000.0, 200_000.0, 450_000.0] {
            let (samples, share) = taken(rate);
            // Two seconds' worth at first, and what comes until that is noticed.
            assert!((2_000.0..5_400.0 + rate * 0.01).contains(&samples), "{rate}: {samples}");
            assert!(share < 0.95, "{rate}: {share}");
        }
    }

    #[test]
    fn short_bursts_are_followed_as_a_whole() {
        let mut pace = Pace::new(5_000, 0);
        for snapshot in 1..=5 {
            assert_eq!(
                pace.all_followed(snapshot * PART, snapshot * 2_000),
                1,
                "22,000 per second for 0.45 s"
            );
        }
        for snapshot in 6..=200 {
            assert_eq!(pace.all_followed(snapshot * PART, 10_000), 1);
        }
        // The room is there again.
        assert_eq!(pace.left, 10_000.0);
    }

    #[test]
    fn a_storm_that_ends_is_followed_as_a_whole_again() {
        let mut pace = Pace::new(5_000, 0);
        let parts = (1..40)
            .map(|snapshot| pace.all_followed(snapshot * PART, snapshot * 4_500))
            .find(|parts| *parts > 1);
        assert_eq!(parts, Some(10));
        pace.part_followed(4_600, PART);
        assert_eq!(pace.parts, 11);
        pace.part_followed(10, PART);
        assert_eq!(pace.parts, 1);
        pace.part_followed(u64::MAX, 1);
        assert_eq!(pace.parts, MAX_PARTS);
    }
}
