//! The time that a recording says it is of: what lies outside of it does not count.

use std::collections::HashMap;

/// From when to when, and whether sums that come from the agent are of that time.
#[derive(Debug)]
pub(super) struct Window {
    /// Clock of the recording, nanoseconds.
    pub start: u64,
    /// Not known while the recording runs.
    end: Option<u64>,
    sums: Sums,
    /// Exceptions of each class that were thrown before, and for which no sample stands yet.
    before: HashMap<u32, u64>,
}

/// Of which time the sums are that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sums {
    Before,
    Inside,
    After,
}

impl Window {
    /// Begins now.
    pub fn new(start: u64) -> Self {
        Self { start, end: None, sums: Sums::Inside, before: HashMap::new() }
    }

    /// The agent has collected for a while: sums that come before [`Self::flushed`] do not count.
    pub fn wait_for_flush(&mut self) {
        self.sums = Sums::Before;
    }

    /// The agent has written all that it had.
    pub fn flushed(&mut self) {
        if self.sums == Sums::Before {
            self.sums = Sums::Inside;
        }
    }

    /// Ends it. Unless sums that are of it follow, those that come do not count any more.
    pub fn close(&mut self, end: u64, sums_follow: bool) {
        self.end = Some(end.max(self.start));
        if !sums_follow {
            self.sums = Sums::After;
        }
    }

    /// When it ended; `start` while it runs.
    pub fn end(&self) -> u64 {
        self.end.unwrap_or(self.start)
    }

    /// Whether it was then.
    pub fn holds(&self, time: u64) -> bool {
        time >= self.start && !self.is_over(time)
    }

    /// Whether it had ended by then.
    pub fn is_over(&self, time: u64) -> bool {
        self.end.is_some_and(|end| time > end)
    }

    /// The part of an interval that lies in it.
    pub fn part(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let end = self.end.unwrap_or(u64::MAX);
        (from <= end && to >= self.start).then(|| (self.clamp(from), self.clamp(to)))
    }

    /// A time, or the end of the window that is nearer.
    pub fn clamp(&self, time: u64) -> u64 {
        time.clamp(self.start, self.end.unwrap_or(u64::MAX))
    }

    /// What a sample of one thread stands for: no more CPU time than has passed. `None` for one
    /// that does not count.
    pub fn weight(&self, time: u64, weight: u64) -> Option<u64> {
        self.holds(time).then(|| weight.min(time - self.start))
    }

    /// Whether numbers of exceptions count that were thrown since those before.
    pub fn exceptions(&mut self, counts: &[(u32, u64)]) -> bool {
        if self.sums == Sums::Before {
            for (class, count) in counts {
                *self.before.entry(*class).or_default() += count;
            }
        }
        self.sums == Sums::Inside
    }

    /// How many exceptions a sample stands for, which are those since the one before it. `None` for
    /// one that does not count.
    pub fn exception(&mut self, class: u32, time: u64, weight: u64) -> Option<u64> {
        if time < self.start {
            let before = self.before.entry(class).or_default();
            *before = before.saturating_sub(weight);
            return None;
        }
        self.holds(time)
            .then(|| weight.saturating_sub(self.before.remove(&class).unwrap_or(0)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_do_not_count() {
        let mut window = Window::new(100);
        assert!(!window.holds(99) && window.holds(100) && window.holds(u64::MAX));
        assert_eq!(
            (window.weight(99, 5), window.weight(103, 5), window.weight(110, 5)),
            (None, Some(3), Some(5))
        );
        assert_eq!((window.part(50, 99), window.part(50, 120)), (None, Some((100, 120))));
        window.close(200, false);
        assert!(window.holds(200) && !window.holds(201));
        assert_eq!((window.part(150, 300), window.part(201, 300)), (Some((150, 200)), None));
        assert_eq!(window.end(), 200);
        let mut never = Window::new(100);
        never.close(50, false);
        assert_eq!(never.end(), 100);
    }

    #[test]
    fn sums_count_between_two_flushes() {
        let mut window = Window::new(100);
        window.wait_for_flush();
        assert!(!window.exceptions(&[(1, 10), (2, 1)]));
        assert_eq!(window.exception(1, 90, 7), None);
        window.flushed();
        assert!(window.exceptions(&[(1, 5)]));
        // Three of those eight were thrown before.
        assert_eq!(window.exception(1, 101, 8), Some(5));
        assert_eq!(window.exception(1, 102, 8), Some(8));
        assert_eq!(window.exception(2, 102, 1), Some(1));
        window.close(200, true);
        assert!(window.exceptions(&[(1, 5)]), "the process has ended");
        assert_eq!(window.exception(1, 201, 1), None);
        window.close(200, false);
        assert!(!window.exceptions(&[(1, 5)]));
    }
}
