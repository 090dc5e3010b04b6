//! How long processes may be observed, and what that may cost them.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// What one call, and all calls together, may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Longest observation of one call.
    pub call: Duration,
    /// Observation time of all calls together.
    pub total: Duration,
    /// Largest cost of an observation, as a share of its time: CPU time that it takes in the
    /// process, and time for which the process is suspended. An observation that costs more is
    /// ended.
    pub overhead: f64,
    /// Resident memory of the largest process of which heap snapshots are taken, in bytes; each
    /// pauses the process for about as long as a full collection. 0 takes none.
    pub heap: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(60),
            total: Duration::from_secs(1800),
            overhead: 0.1,
            heap: 2 << 30,
        }
    }
}

/// Time from which on the cost of an observation is judged: attaching costs something once.
const SETTLED: Duration = Duration::from_secs(3);

impl Limits {
    /// Whether an observation costs more than it may.
    pub fn is_exceeded(&self, progress: &recorder::Progress) -> bool {
        let cost = progress.target_cpu + progress.target_stopped;
        progress.elapsed >= SETTLED
            && cost.as_secs_f64() > progress.elapsed.as_secs_f64() * self.overhead
    }
}

/// What is left of [`Limits::total`].
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    used: Mutex<Duration>,
}

impl Budget {
    /// Nothing of it is used.
    pub fn new(limits: Limits) -> Self {
        Self { limits, used: Mutex::default() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes time for a call.
    ///
    /// # Errors
    /// What to say if it is too long, or no time is left.
    pub fn take(&self, time: Duration) -> Result<Turn<'_>, String> {
        let Limits { call, total, .. } = self.limits;
        if time > call {
            return Err(format!(
                "{} s is longer than one call may take here, which is {} s (--max-seconds)",
                time.as_secs_f64(),
                call.as_secs_f64()
            ));
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let after = used.saturating_add(time);
        if after > total {
            return Err(format!(
                "this server may observe processes for {} s in total (--total-seconds), of which \
                 {:.0} s are left: the user can start it again",
                total.as_secs_f64(),
                total.saturating_sub(*used).as_secs_f64()
            ));
        }
        *used = after;
        Ok(Turn { budget: self, taken: time, used: Duration::ZERO })
    }
}

/// Time that a call has taken. What it did not use is free again when it ends.
#[derive(Debug)]
pub struct Turn<'a> {
    budget: &'a Budget,
    taken: Duration,
    used: Duration,
}

impl Turn<'_> {
    /// How much has been used: it may be more than was taken.
    pub fn used(&mut self, time: Duration) {
        self.used = time;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(self.taken).saturating_add(self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn time_is_taken_and_returned() {
        let limits = Limits { call: S(10), total: S(25), ..Limits::default() };
        let budget = Budget::new(limits);
        assert!(budget.take(S(11)).unwrap_err().contains("--max-seconds"));
        let mut first = budget.take(S(10)).unwrap();
        let second = budget.take(S(10)).unwrap();
        let refused = budget.take(S(10)).unwrap_err();
        assert!(refused.contains("--total-seconds") && refused.contains(" 5 s are left"));
        first.used(S(4));
        drop((first, second));
        let third = budget.take(S(10)).unwrap();
        assert!(budget.take(S(10)).is_ok());
        drop(third);
    }

    #[test]
    fn cost_is_judged_when_it_is_known() {
        let limits = Limits { overhead: 0.05, ..Limits::default() };
        let at = |elapsed, cpu, stopped| recorder::Progress {
            elapsed: S(elapsed),
            target_cpu: Duration::from_millis(cpu),
            target_stopped: Duration::from_millis(stopped),
            ..recorder::Progress::default()
        };
        assert!(!limits.is_exceeded(&at(1, 900, 0)));
        assert!(!limits.is_exceeded(&at(10, 300, 150)));
        assert!(limits.is_exceeded(&at(10, 300, 250)));
    }
}
