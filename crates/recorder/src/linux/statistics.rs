//! What a recording says of itself: what it counted, lost and cost.

use super::clock::now;
use crate::Timings;
use rustix::time::{ClockId, clock_gettime};
use session::{ObserverStatus, ResourceUse};
use std::{collections::HashMap, time::Duration};

/// What is counted while a recording runs.
#[derive(Default)]
pub(super) struct Statistics {
    /// Samples and rows of each profiler.
    counts: HashMap<&'static str, u64>,
    /// What was lost, by reason.
    dropped: HashMap<&'static str, u64>,
    /// What the agent last said of itself.
    agent: wire::Status,
    observer: ObserverStatus,
    pub timings: Timings,
}

impl Statistics {
    pub fn new(timings: Timings) -> Self {
        Self { timings, ..Self::default() }
    }

    /// A profiler has got so much more.
    pub fn count(&mut self, profiler: &'static str, more: u64) {
        *self.counts.entry(profiler).or_default() += more;
    }

    /// A profiler has got so much in all.
    pub fn set_count(&mut self, profiler: &'static str, all: u64) {
        self.counts.insert(profiler, all);
    }

    /// What each profiler has got, by their ids.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts: Vec<_> = self.counts.iter().map(|(id, count)| (*id, *count)).collect();
        order::sort_by(&mut counts, Ord::cmp);
        counts
    }

    /// So much was lost for a reason.
    pub fn dropped(&mut self, reason: &'static str, more: u64) {
        if more > 0 {
            *self.dropped.entry(reason).or_default() += more;
        }
    }

    /// The target was stopped for some more nanoseconds.
    pub fn target_stopped(&mut self, nanos: u64) {
        self.observer.target_stopped += nanos;
    }

    /// The agent says how it is.
    pub fn agent_says(&mut self, status: wire::Status) {
        self.target_stopped(status.stopped.saturating_sub(self.agent.stopped));
        self.agent = status;
    }

    /// What the agent last said.
    pub fn agent(&self) -> &wire::Status {
        &self.agent
    }

    /// What the recording costs so far. `samples` is what CPU samples cost the target beside the
    /// agent, `counters` are those of the recorder.
    pub fn observe(&mut self, samples: Duration, counters: Vec<(String, u64)>) -> &ObserverStatus {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let (observer, agent) = (&mut self.observer, &self.agent);
        observer.time = now();
        observer.own_cpu = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        observer.target_memory = agent.memory;
        let samples = u64::try_from(samples.as_nanos()).unwrap_or(u64::MAX);
        observer.target_cpu = agent.cpu.saturating_add(samples);
        let mut dropped: Vec<(String, u64)> =
            self.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        dropped.extend(agent.dropped.iter().filter(|(_, count)| *count > 0).cloned());
        order::sort_by(&mut dropped, Ord::cmp);
        observer.dropped = dropped;
        observer.counters = agent.counters.clone();
        observer.counters.extend(counters);
        observer
    }

    /// What it cost when that was last looked at.
    pub fn observer(&self) -> &ObserverStatus {
        &self.observer
    }

    /// What the agent holds, and after its last record what it has left behind.
    pub fn resources(&self, after_last: bool) -> Vec<ResourceUse> {
        let uses = self.agent.resources.iter().map(|used| ResourceUse {
            name: used.resource.name().to_owned(),
            unit: used.resource.unit().to_owned(),
            highest: used.highest,
            budget: used.resource.budget(),
            refused: used.refused,
            left: if after_last { used.left() } else { None },
        });
        uses.collect()
    }
}
