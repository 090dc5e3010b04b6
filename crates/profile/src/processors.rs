use session::{Nanos, ProcessorUse};

use crate::Profile;

/// How much of the processors the process had and lacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorSummary {
    /// The time of which this is known, nanoseconds.
    pub elapsed: Nanos,
    /// Processors that the process may use.
    pub processors: u32,
    /// Time of its threads on a processor.
    pub ran: Nanos,
    /// Time in which its threads were ready to run and had no processor.
    pub waited: Nanos,
    /// Time in which these processors were busy with whatever runs on the machine.
    pub busy: Nanos,
    /// The smallest CPU quota of its control groups: CPU time in each period, and the period.
    pub quota: Option<(Nanos, Nanos)>,
    /// Periods of the quota in which there was something to run.
    pub periods: u64,
    /// Those in which the quota was used up.
    pub throttled_periods: u64,
    /// Time in which processors were kept from running the process because of that.
    pub throttled: Nanos,
}

impl ProcessorSummary {
    /// How much a time is in processors or threads, on average.
    #[must_use]
    pub fn average(&self, time: Nanos) -> f64 {
        time as f64 / self.elapsed.max(1) as f64
    }

    /// Share of the time in which its threads were ready to run that they spent without a
    /// processor, 0 to 1.
    #[must_use]
    pub fn delayed(&self) -> f64 {
        self.waited as f64 / self.ran.saturating_add(self.waited).max(1) as f64
    }

    /// Share of the processors that others used, 0 to 1.
    #[must_use]
    pub fn used_by_others(&self) -> f64 {
        (self.average(self.busy.saturating_sub(self.ran)) / f64::from(self.processors.max(1)))
            .min(1.0)
    }

    /// Share of the processors that were idle, 0 to 1.
    #[must_use]
    pub fn idle(&self) -> f64 {
        (1.0 - self.average(self.busy) / f64::from(self.processors.max(1))).clamp(0.0, 1.0)
    }

    /// Share of the quota's periods in which it was used up, 0 to 1.
    #[must_use]
    pub fn throttled_share(&self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }
}

impl Profile {
    /// How much of the processors the process had and lacked; `None` where that was not recorded.
    #[must_use]
    pub fn processor_summary(&self) -> Option<ProcessorSummary> {
        let last = self.processors.last()?;
        let sum = |of: fn(&ProcessorUse) -> u64| {
            self.processors.iter().fold(0_u64, |sum, used| sum.saturating_add(of(used)))
        };
        Some(ProcessorSummary {
            elapsed: sum(|used| used.elapsed),
            processors: last.processors,
            ran: sum(|used| used.ran),
            waited: sum(|used| used.waited),
            busy: sum(|used| used.busy),
            quota: last.quota,
            periods: sum(|used| used.periods),
            throttled_periods: sum(|used| used.throttled_periods),
            throttled: sum(|used| used.throttled),
        })
    }
}
