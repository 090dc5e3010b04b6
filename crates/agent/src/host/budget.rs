//! How much of the target's time the agent may take.

use wire::Nanos;

/// Time that something may take: a share of the time that passes. What is not used is kept for
/// [`Self::KEPT`] only, so that a long quiet time pays for no long work.
/// By default nothing is allowed.
#[derive(Debug, Default)]
pub struct Budget {
    share: u64,
    /// Nanoseconds in hand, times a thousand; below zero when the last work took more than there
    /// was.
    credit: i64,
    told: Nanos,
}

impl Budget {
    /// Time whose share is kept at most.
    const KEPT: Nanos = 2_000_000_000;

    /// A share in thousandths, from a moment on; nothing is in hand yet.
    pub fn new(share: u64, now: Nanos) -> Self {
        Self { share, credit: 1, told: now }
    }

    /// One that has in hand what is kept at most, for the work that comes at the beginning.
    pub fn full(share: u64, now: Nanos) -> Self {
        Self {
            share,
            credit: i64::try_from(Self::KEPT.saturating_mul(share)).unwrap_or(i64::MAX),
            told: now,
        }
    }

    /// Whether anything is in hand.
    pub fn allows(&mut self, now: Nanos) -> bool {
        let passed = now.saturating_sub(self.told);
        self.told = now;
        let kept = Self::KEPT.saturating_mul(self.share);
        let earned = passed.saturating_mul(self.share);
        self.credit = self
            .credit
            .saturating_add_unsigned(earned)
            .min(i64::try_from(kept).unwrap_or(i64::MAX));
        self.credit > 0
    }

    /// So much was taken, also where it was more than allowed.
    pub fn spend(&mut self, time: Nanos) {
        self.credit = self.credit.saturating_sub_unsigned(time.saturating_mul(1000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Nanos = 1_000_000;

    /// Stops of this length at 20 Hz for 100 s: how many come, and their sum in nanoseconds.
    fn hundred_seconds(share: u64, length: Nanos) -> (u64, Nanos) {
        let mut budget = Budget::new(share, 0);
        let mut ticks = 0;
        for tick in 0..2000 {
            if budget.allows(tick * 50 * MILLI) {
                budget.spend(length);
                ticks += 1;
            }
        }
        (ticks, ticks * length)
    }

    #[test]
    fn nothing_takes_more_than_its_share() {
        assert_eq!(hundred_seconds(10, MILLI / 2).0, 2000, "within the share all ticks come");
        let (ticks, stopped) = hundred_seconds(10, MILLI);
        assert!((995..=1001).contains(&ticks), "{ticks}");
        assert!(stopped <= 1001 * MILLI);
        let (ticks, stopped) = hundred_seconds(10, 300 * MILLI);
        assert!(stopped <= 1300 * MILLI, "{ticks} ticks");
        assert_eq!(hundred_seconds(0, MILLI).0, 0, "without a share none comes");
    }

    #[test]
    fn the_first_tick_may_take_what_is_kept() {
        let mut budget = Budget::full(25, 0);
        assert!(budget.allows(0));
        budget.spend(49 * MILLI);
        assert!(budget.allows(0));
        budget.spend(2 * MILLI);
        assert!(!budget.allows(0) && budget.allows(50 * MILLI));
    }

    #[test]
    fn a_quiet_time_pays_for_no_long_stop() {
        let mut budget = Budget::new(10, 0);
        assert!(budget.allows(3_600_000 * MILLI));
        budget.spend(25 * MILLI);
        assert!(!budget.allows(3_600_000 * MILLI + 450 * MILLI));
        assert!(budget.allows(3_600_000 * MILLI + 550 * MILLI));
    }
}
