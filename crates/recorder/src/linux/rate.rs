//! How often threads are sampled, measured: samples of a thread against the CPU time that the
//! kernel counts for it.
//!
//! What an engine says that a sample stands for is not asked: timers that do not fire, ticks that
//! are left out and samples that are lost would not show in it.

use super::clock::now;
use diagnostics::proc;
use rustix::time::{ClockId, clock_getres};
use session::SamplingRate;
use std::collections::HashMap;

/// Threads that are measured, at most: their CPU times are read each second, and a few busy ones
/// tell the rate.
const MOST_THREADS: usize = 64;

/// A thread's CPU time at a moment.
#[derive(Clone, Copy)]
struct Reading {
    time: u64,
    cpu: u64,
}

impl Reading {
    fn of(pid: u32, tid: u32) -> Option<Self> {
        let cpu = proc::thread_run(pid, tid).ok()?;
        Some(Self { time: now(), cpu })
    }
}

/// A thread that is measured, from its first sample on.
struct Measured {
    first: Reading,
    last: Reading,
    /// Samples between the two readings. Some of them come only after the last one.
    samples: u64,
    /// Samples after the last reading, which count once there is a later one.
    later: u64,
    /// Whether the thread has ended.
    ended: bool,
}

impl Measured {
    fn sample(&mut self, time: u64) {
        if time > self.last.time {
            self.later += 1;
        } else if time > self.first.time {
            self.samples += 1;
        }
    }

    fn read(&mut self, reading: Option<Reading>) {
        match reading {
            // Its number may be that of a new thread, which has used less.
            Some(reading) if !self.ended && reading.cpu >= self.last.cpu => {
                self.last = reading;
                self.samples += std::mem::take(&mut self.later);
            }
            _ => self.ended = true,
        }
    }
}

/// Measures how often threads are sampled.
#[derive(Default)]
pub(super) struct RateMeter {
    threads: HashMap<u32, Measured>,
}

impl RateMeter {
    /// A sample of a thread, by its id in our pid namespace, was taken at this time.
    pub fn sample(&mut self, pid: u32, tid: u32, time: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.sample(time);
        } else if self.threads.len() < MOST_THREADS
            && let Some(first) = Reading::of(pid, tid)
        {
            let thread = Measured { first, last: first, samples: 0, later: 0, ended: false };
            self.threads.insert(tid, thread);
        }
    }

    /// Reads the CPU times of all threads that are measured.
    pub fn read(&mut self, pid: u32) {
        for (tid, thread) in self.threads.iter_mut().filter(|(_, thread)| !thread.ended) {
            thread.read(Reading::of(pid, *tid));
        }
    }

    /// Samples and CPU time of threads that ran for long enough. Where the measurement of a thread
    /// begins has to do with its samples, so that one is missing in half of the cases: of few
    /// samples that would be much.
    pub fn total(&self, asked_hz: u32) -> (u64, u64) {
        const ENOUGH: u64 = 20;
        let least = ENOUGH * 1_000_000_000 / u64::from(asked_hz.max(1));
        let long = self
            .threads
            .values()
            .map(|thread| (thread.samples, thread.last.cpu - thread.first.cpu));
        long.filter(|(_, cpu)| *cpu >= least)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Ticks of the kernel's timer per second (`CONFIG_HZ`): timers on CPU time are looked at only
/// then. The kernel tells it as the resolution of its coarse clock, which is advanced at each tick;
/// `None` where that cannot be a tick.
pub(super) fn kernel_tick_hz() -> Option<u32> {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let nanos = u64::try_from(tick.tv_nsec).ok().filter(|_| tick.tv_sec == 0)?;
    // From 50 to 10,000 Hz: what is finer is no tick, but a system that has no such clock.
    (100_000..=20_000_000)
        .contains(&nanos)
        .then(|| (1_000_000_000 + nanos / 2) / nanos)
        .map(|hz| hz as u32)
}

/// The measured rate as it is recorded.
pub(super) fn sampling_rate(meter: &RateMeter, asked_hz: u32, limits: Limits) -> SamplingRate {
    let (samples, cpu) = meter.total(asked_hz);
    SamplingRate {
        profiler: "cpu".to_owned(),
        asked_hz,
        samples,
        cpu,
        tick_hz: limits.tick_hz,
        limit: limits.reason,
        threads_without_timer: limits.threads_without_timer,
    }
}

/// What keeps an engine from the rate that was asked for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limits {
    pub tick_hz: Option<u32>,
    pub reason: Option<String>,
    pub threads_without_timer: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn measured(first: Reading) -> Measured {
        Measured { first, last: first, samples: 0, later: 0, ended: false }
    }

    #[test]
    fn samples_count_between_readings_whenever_they_come() {
        let mut thread = measured(Reading { time: 100, cpu: 1000 });
        [90, 100, 110].into_iter().for_each(|time| thread.sample(time));
        thread.read(Some(Reading { time: 200, cpu: 1100 }));
        // One of before the reading comes late, one is of after it.
        [150, 250].into_iter().for_each(|time| thread.sample(time));
        assert_eq!((thread.samples, thread.later, thread.last.cpu), (2, 1, 1100));
        thread.read(None);
        thread.read(Some(Reading { time: 300, cpu: 1200 }));
        assert_eq!((thread.samples, thread.last.cpu), (2, 1100), "it has ended");
    }

    #[test]
    fn a_new_thread_under_an_old_number_does_not_count() {
        let mut thread = measured(Reading { time: 100, cpu: 1000 });
        thread.read(Some(Reading { time: 200, cpu: 10 }));
        assert!(thread.ended);
    }

    #[test]
    fn threads_that_ran_for_a_moment_are_left_out() {
        let mut meter = RateMeter::default();
        for (tid, cpu, samples) in [(1, 1000, 250), (2, 39, 1)] {
            let mut thread = measured(Reading { time: 0, cpu: 0 });
            (thread.samples, thread.last.cpu) = (samples, cpu * MILLI);
            meter.threads.insert(tid, thread);
        }
        assert_eq!(meter.total(500), (250, 1000 * MILLI));
        let limits =
            Limits { tick_hz: Some(250), reason: Some("ticks".into()), threads_without_timer: 2 };
        let rate = sampling_rate(&meter, 500, limits);
        assert_eq!((rate.achieved_hz(), rate.differs()), (Some(250.0), true));
    }

    #[test]
    fn the_tick_of_the_kernel_is_known() {
        let hz = kernel_tick_hz().unwrap();
        assert!([100, 250, 300, 1000].contains(&hz), "{hz}");
    }

    #[test]
    fn a_thread_of_ours_is_measured() {
        let (pid, tid) =
            (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        let mut meter = RateMeter::default();
        meter.sample(pid, tid, now());
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(300) {
            meter.sample(pid, tid, now());
        }
        meter.read(pid);
        let (samples, cpu) = meter.total(1000);
        assert!(samples > 100 && cpu > 0, "{samples} samples in {cpu} ns");
    }
}
