//! What the observation cost and lost, and what the process had of its processors.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::Nanos;

/// What the observation cost and lost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserverStatus {
    /// When.
    pub time: Nanos,
    /// Bytes our library holds in the target.
    pub target_memory: u64,
    /// CPU time of our threads in the target, and an estimate of what the samples cost its own
    /// threads: signal handlers, and what the kernel does at each sample and at each switch from
    /// thread to thread.
    pub target_cpu: Nanos,
    /// How long the runtime was suspended for us.
    pub target_stopped: Nanos,
    /// CPU time of clrscope itself.
    pub own_cpu: Nanos,
    /// What was dropped since the start, by reason.
    pub dropped: Vec<(String, u64)>,
    /// What was counted since the start, by name.
    pub counters: Vec<(String, u64)>,
}

/// How much of a resource of the target the agent held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Its name, plural: `file descriptors`.
    pub name: String,
    /// Its unit: `bytes`, or empty for things that are counted.
    pub unit: String,
    /// The most that was held at a time.
    pub highest: u64,
    /// The most that the agent allows itself.
    pub budget: u64,
    /// How often more was refused.
    pub refused: u64,
    /// What is left after the recording; `None` where that is not known, such as while it runs.
    pub left: Option<u64>,
}

/// How much of the processors the process had and lacked since the record before, or since the
/// recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorUse {
    /// When it was counted.
    pub time: Nanos,
    /// How long that is, nanoseconds.
    pub elapsed: u64,
    /// Processors that the process may use.
    pub processors: u32,
    /// Time of its threads on a processor, nanoseconds.
    pub ran: u64,
    /// Time in which its threads were ready to run and had no processor, nanoseconds.
    pub waited: u64,
    /// Time in which these processors were busy with whatever runs on the machine, the sum over
    /// all, nanoseconds.
    pub busy: u64,
    /// The smallest CPU quota of its control groups: CPU time in each period, and the period,
    /// nanoseconds.
    pub quota: Option<(u64, u64)>,
    /// Periods of the quota in which there was something to run.
    pub periods: u64,
    /// Those in which the quota was used up.
    pub throttled_periods: u64,
    /// Time in which processors were kept from running the process because of that, nanoseconds.
    pub throttled: u64,
}

/// How often threads were sampled, measured: samples of threads, and the CPU time of these threads
/// in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingRate {
    /// Id of the profiler.
    pub profiler: String,
    /// Samples that were asked for per second of a thread's CPU time.
    pub asked_hz: u32,
    /// Samples of the threads that were measured.
    pub samples: u64,
    /// CPU time that these threads used meanwhile, by the kernel's own account.
    pub cpu: Nanos,
    /// Ticks of the kernel per second, where no timer of the engine can fire more often.
    pub tick_hz: Option<u32>,
    /// What keeps the rate below the one that was asked for, in words for a reader, where that is
    /// known.
    pub limit: Option<String>,
    /// Threads that have no timer and therefore no samples.
    pub threads_without_timer: u64,
}

impl SamplingRate {
    /// Samples that must be expected before a difference means anything.
    const ENOUGH: f64 = 50.0;
    /// The smallest difference that is worth a word, as a share of what was asked for.
    const NOTICEABLE: f64 = 0.05;
    /// Standard deviations below which a difference does not count. Where ticks hit threads
    /// randomly, the standard deviation of the number of samples is its square root.
    const SPREAD: f64 = 3.0;

    /// Samples per second of CPU time that were achieved; `None` where too little was measured.
    pub fn achieved_hz(&self) -> Option<f64> {
        let seconds = self.cpu as f64 / 1e9;
        (self.expected() >= Self::ENOUGH).then(|| self.samples as f64 / seconds)
    }

    /// Whether that differs noticeably from the rate that was asked for: by more than 5 %, and by
    /// more than chance explains.
    pub fn differs(&self) -> bool {
        let expected = self.expected();
        let distance = (self.samples as f64 - expected).abs();
        expected >= Self::ENOUGH
            && distance > (Self::NOTICEABLE * expected).max(Self::SPREAD * expected.sqrt())
    }

    fn expected(&self) -> f64 {
        self.cpu as f64 / 1e9 * f64::from(self.asked_hz)
    }
}

impl fmt::Display for SamplingRate {
    /// For the header of a report; empty where all is as it was asked for.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let achieved = self.achieved_hz().filter(|_| self.differs());
        if let Some(achieved) = achieved {
            write!(out, "achieved {achieved:.0} Hz instead of {} Hz", self.asked_hz)?;
            if let Some(limit) = &self.limit {
                write!(out, ": {limit}")?;
            }
        }
        if self.threads_without_timer > 0 {
            let between = if achieved.is_some() { "; " } else { "" };
            let (count, s) = (
                self.threads_without_timer,
                if self.threads_without_timer == 1 { "" } else { "s" },
            );
            write!(
                out,
                "{between}no samples of {count} thread{s} without a timer (see what was dropped)"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(asked_hz: u32, samples: u64, seconds: u64) -> SamplingRate {
        SamplingRate { asked_hz, samples, cpu: seconds * 1_000_000_000, ..SamplingRate::default() }
    }

    #[test]
    fn a_rate_differs_by_more_than_chance_and_five_percent() {
        // The ring of processors has a period that is longer by one part in 61.
        for (samples, differs) in
            [(984, false), (1049, false), (920, false), (900, true), (1100, true), (0, true)]
        {
            assert_eq!(rate(100, samples, 10).differs(), differs, "{samples}");
        }
        assert_eq!(rate(100, 0, 0).achieved_hz(), None);
        assert!(!rate(100, 5, 0).differs(), "too little was measured");
        assert_eq!(rate(999, 2500, 10).achieved_hz(), Some(250.0));
    }

    #[test]
    fn a_rate_is_said_with_its_cause() {
        let limit = Some("the kernel ticks at 250 Hz".to_owned());
        let slow = SamplingRate { limit, ..rate(999, 2500, 10) };
        assert_eq!(
            slow.to_string(),
            "achieved 250 Hz instead of 999 Hz: the kernel ticks at 250 Hz"
        );
        assert_eq!(SamplingRate { samples: 9990, ..slow.clone() }.to_string(), "");
        let one = SamplingRate { threads_without_timer: 1, ..rate(100, 1000, 10) };
        assert_eq!(
            one.to_string(),
            "no samples of 1 thread without a timer (see what was dropped)"
        );
        let both = SamplingRate { threads_without_timer: 3, limit: None, ..slow };
        assert!(
            both.to_string().ends_with(
                "999 Hz; no samples of 3 threads without a timer (see what was dropped)"
            )
        );
    }
}
