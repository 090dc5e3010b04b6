use std::collections::HashMap;

use profilers::locks::Wait;
use session::{Nanos, StackId, ThreadId, ThreadState};

use crate::{
    CallSite, Profile, Series, SeriesKind,
    exceptions::heaviest,
    series::{Keep, Row},
};

/// Waits for locks.
#[derive(Clone, Debug)]
pub struct Locks {
    /// Where threads waited; weights are nanoseconds.
    pub series: Series,
    /// Single waits.
    pub waits: Vec<Wait>,
}

impl Locks {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        Self { series: Series::new(SeriesKind::Locks, start, keep), waits: Vec::new() }
    }

    pub(crate) fn add(&mut self, wait: Wait) {
        let row = Row {
            time: wait.time,
            thread: wait.thread,
            stack: wait.stack,
            state: ThreadState::Lock,
            truncated: wait.truncated,
            weight: wait.duration,
        };
        self.series.add(row, 1);
        self.waits.push(wait);
    }

    /// How long all waits were.
    pub fn durations(&self) -> WaitTimes {
        WaitTimes::of(self.waits.iter().map(|wait| wait.duration))
    }
}

/// How long waits were, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitTimes {
    /// How many.
    pub count: u64,
    /// Sum.
    pub total: u64,
    /// Half are no longer than this.
    pub p50: u64,
    /// 90 % are no longer than this.
    pub p90: u64,
    /// 99 % are no longer than this.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// Numbers of waits by length: each from a power of two (0 for the first) up to the next; only
    /// those that are not empty, shortest first.
    pub histogram: Vec<(u64, u64)>,
}

impl WaitTimes {
    /// Of these durations (nearest rank: a quantile is a value that occurred).
    pub fn of(durations: impl IntoIterator<Item = u64>) -> Self {
        let mut durations: Vec<u64> = durations.into_iter().collect();
        durations.sort_unstable();
        let rank = |quantile: f64| {
            let rank = (quantile * durations.len() as f64).ceil() as usize;
            durations.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        let mut histogram: Vec<(u64, u64)> = Vec::new();
        for duration in &durations {
            let from = duration.checked_ilog2().map_or(0, |power| 1 << power);
            match histogram.last_mut() {
                Some((last, count)) if *last == from => *count += 1,
                _ => histogram.push((from, 1)),
            }
        }
        Self {
            count: durations.len() as u64,
            total: durations.iter().fold(0, |sum, duration| sum.saturating_add(*duration)),
            p50: rank(0.5),
            p90: rank(0.9),
            p99: rank(0.99),
            max: durations.last().copied().unwrap_or_default(),
            histogram,
        }
    }
}

/// All waits for one lock; where the runtime does not number locks, all waits at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct LockRow {
    /// The lock as the runtime numbers it.
    pub lock: Option<u64>,
    /// How long the waits were.
    pub waits: WaitTimes,
    /// Share in the time of all waits, 0 to 1.
    pub share: f64,
    /// Where most of the time was waited: the innermost method that is not the lock's own.
    pub waited_at: CallSite,
    /// Places where threads waited.
    pub places: u64,
    /// Threads that waited.
    pub threads: u64,
    /// Who held it during most of the waited time, where known.
    pub owner: Option<ThreadId>,
}

impl Profile {
    /// Locks by the time that was waited for them, longest first.
    pub fn lock_rows(&self) -> Vec<LockRow> {
        /// The lock; its place, where locks are not known.
        type Key = (Option<u64>, Option<CallSite>);
        let mut places: HashMap<StackId, CallSite> = HashMap::new();
        let mut by_lock: HashMap<Key, Vec<(&Wait, CallSite)>> = HashMap::new();
        for wait in &self.locks.waits {
            let place =
                *places.entry(wait.stack).or_insert_with(|| self.tables.waiting_place(wait.stack));
            let key = (wait.lock, wait.lock.is_none().then_some(place));
            by_lock.entry(key).or_default().push((wait, place));
        }
        let all = self.locks.series.totals.weight.max(1) as f64;
        let mut rows: Vec<LockRow> = by_lock
            .into_iter()
            .filter_map(|((lock, _), waits)| {
                let (mut places, mut owners, mut threads) =
                    (HashMap::new(), HashMap::new(), HashMap::new());
                for (wait, place) in &waits {
                    *places.entry(*place).or_insert(0_u64) += wait.duration;
                    *threads.entry(wait.thread).or_insert(0_u64) += wait.duration;
                    if let Some(owner) = wait.owner {
                        *owners.entry(owner).or_insert(0_u64) += wait.duration;
                    }
                }
                let times = WaitTimes::of(waits.iter().map(|(wait, _)| wait.duration));
                Some(LockRow {
                    lock,
                    share: times.total as f64 / all,
                    waits: times,
                    places: places.len() as u64,
                    threads: threads.len() as u64,
                    waited_at: heaviest(places)?,
                    owner: heaviest(owners),
                })
            })
            .collect();
        order::sort_by(&mut rows, |a, b| {
            b.waits
                .total
                .cmp(&a.waits.total)
                .then((a.lock, a.waited_at).cmp(&(b.lock, b.waited_at)))
        });
        rows
    }

    /// The waits that a row is about.
    pub fn waits_of<'p>(&'p self, row: &LockRow) -> impl Iterator<Item = &'p Wait> {
        let (lock, at) = (row.lock, row.waited_at);
        let is_there = move |wait: &Wait| self.tables.waiting_place(wait.stack) == at;
        let is_of_row = move |wait: &&Wait| wait.lock == lock && (lock.is_some() || is_there(wait));
        self.locks.waits.iter().filter(is_of_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_by_rank_and_by_power_of_two() {
        let times = WaitTimes::of((1..=100).rev());
        assert_eq!(
            (times.count, times.total, times.p50, times.p90, times.p99, times.max),
            (100, 5050, 50, 90, 99, 100)
        );
        let expected = [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (64, 37)];
        assert_eq!(times.histogram, expected);
        assert_eq!(WaitTimes::of([0, u64::MAX]).histogram, [(0, 1), (1 << 63, 1)]);
        assert_eq!(WaitTimes::of([]), WaitTimes::default());
    }
}
