//! What a recording says of itself every second.

use super::*;

impl Recorder {
    pub(super) fn every_second(&mut self) {
        self.update_observer();
        let observer = self.observer.clone();
        self.write(&SessionRecord::Observer(observer));
        if let Some(why) = self.sources.cpu.costs_too_much() {
            self.sources.cpu.give_up(&why);
            self.note(format!("{why}: samples are taken from inside the process from now on"));
            // A recording whose connection is gone ends soon.
            let _ = self.sources.link.send(&Control::SampleInside);
        }
        let pid = self.sources.target.pid;
        let lacks = || room::lacks_memory(pid).or_else(|| self.threads.lacks(pid));
        if let Some(why) = (!self.sources.stop.is_stopped()).then(lacks).flatten() {
            self.note(why);
            self.sources.stop.stop();
        }
        let resources = self.resources();
        if !resources.is_empty() {
            self.write(&SessionRecord::Resources(resources));
        }
        self.count_processors();
        if let Some(rate) = self.sampling_rate() {
            self.write(&SessionRecord::SamplingRate(rate));
        }
        let precompiled = std::mem::take(&mut self.precompiled);
        if precompiled != Lookups::default() {
            self.definitions.row(&Lookups { time: now(), ..precompiled });
        }
        let mut samples: Vec<(&'static str, u64)> =
            self.counts.iter().map(|(id, count)| (*id, *count)).collect();
        samples.sort_unstable();
        let dropped = self.observer.dropped.iter().map(|(_, count)| count).sum();
        let bytes = self.sources.out.0.as_ref().map_or(0, SessionWriter::bytes_written);
        let mut progress = self.progress();
        progress.samples = samples;
        progress.dropped = dropped;
        progress.bytes = bytes;
    }

    /// How often threads have been sampled so far; `None` where none of them is.
    pub(super) fn sampling_rate(&self) -> Option<SamplingRate> {
        let cpu = &self.sources.cpu;
        self.runs("cpu")
            .then(|| rate::sampling_rate(&self.rate, cpu.rate_hz(), cpu.limits(&self.agent_status)))
    }

    /// Begins to count how the process gets on with its processors, where something is recorded
    /// that shows it.
    pub(super) fn begin_census(&mut self) {
        if !self.runs("wall") && !self.runs("threadpool") {
            return;
        }
        let pid = self.sources.target.pid;
        if !processors::is_reported(pid) {
            self.note(processors::NOT_REPORTED.into());
        }
        (self.wall_sharing, self.pool_sharing) = (Sharing::new(pid), Sharing::new(pid));
        self.census = Census::begin(&self.sources.target, now());
    }

    pub(super) fn count_processors(&mut self) {
        // Nothing can be read of a process that has ended.
        if let Some(census) = self.census.as_mut().filter(|_| self.sources.target.is_alive()) {
            let used = census.advance(&self.sources.target, now());
            self.write(&SessionRecord::Processors(used));
        }
    }

    pub(super) fn agent_says(&mut self, status: wire::Status) {
        self.observer.target_stopped += status.stopped.saturating_sub(self.agent_status.stopped);
        self.agent_status = status;
    }

    pub(super) fn update_observer(&mut self) {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        self.observer.time = now();
        self.observer.own_cpu = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        self.observer.target_memory = self.agent_status.memory;
        let samples = self.sources.cpu.cost(&self.agent_status.counters);
        self.observer.target_cpu = self
            .agent_status
            .cpu
            .saturating_add(u64::try_from(samples.as_nanos()).unwrap_or(u64::MAX));
        let mut dropped: Vec<(String, u64)> =
            self.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        dropped.extend(self.agent_status.dropped.iter().filter(|(_, count)| *count > 0).cloned());
        dropped.sort();
        self.observer.dropped = dropped;
        let mut counters = self.agent_status.counters.clone();
        counters.extend(self.frames.counters());
        self.observer.counters = counters;
    }

    /// What the agent holds, and after its last record what it has left behind.
    pub(super) fn resources(&self) -> Vec<ResourceUse> {
        let uses = self.agent_status.resources.iter().map(|used| ResourceUse {
            name: used.resource.name().to_owned(),
            unit: used.resource.unit().to_owned(),
            highest: used.highest,
            budget: used.resource.budget(),
            refused: used.refused,
            left: if self.bye.is_some() { used.left() } else { None },
        });
        uses.collect()
    }
}
