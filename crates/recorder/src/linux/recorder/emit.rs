//! Samples on their way to the session, in the order of their times.

use super::*;

impl Recorder {
    /// Writes the samples up to a time, in order.
    pub(super) fn emit(&mut self, until: u64) {
        // Samples that wait for the agent hold back those after them, so that all come in order.
        let until = self.waiting.first_cpu().map_or(until, |time| time.min(until));
        let until = self.blocked.first_tick().map_or(until, |time| time.min(until));
        let cpu = self.batch(until, |recorder| &mut recorder.cpu);
        let wall = self.batch(until, |recorder| &mut recorder.wall);
        let pool = self.batch(until, |recorder| &mut recorder.pool);
        self.running.forget(until);
        self.write_definitions();
        if let Some(batch) = cpu {
            self.write(&SessionRecord::CpuSamples(batch));
        }
        if let Some(batch) = wall {
            self.write(&SessionRecord::WallSamples(batch));
        }
        if let Some(batch) = pool {
            self.write(&SessionRecord::PoolSamples(batch));
        }
    }

    pub(super) fn batch(
        &mut self,
        until: u64,
        which: impl Fn(&mut Self) -> &mut Vec<PendingSample>,
    ) -> Option<SampleBatch> {
        let samples = which(self);
        samples.sort_by_key(|sample| sample.time);
        let due = samples.partition_point(|sample| sample.time < until);
        let due: Vec<PendingSample> = samples.drain(..due).collect();
        let start = due.first()?.time;
        let mut batch = SampleBatch { start, ..SampleBatch::default() };
        let mut last = start;
        for mut sample in due {
            // By now all CPU samples of the time around a tick have come.
            if sample.near > 0
                && let Some(running) = self.running.at(sample.thread, sample.time, sample.near)
            {
                let RunningStack { stack, truncated, runtime_leaf, .. } = running;
                sample = PendingSample { stack, truncated, runtime_leaf, ..sample };
            }
            let work =
                sample.runtime_leaf.then(|| self.work_at(sample.os_tid, sample.time)).flatten();
            let stack = match work {
                Some(kind) => {
                    self.frames.name_runtime_work(&mut self.definitions, sample.stack, kind)
                }
                None => sample.stack,
            };
            batch.time_delta.push(sample.time - last);
            last = sample.time;
            batch.thread.push(sample.thread);
            batch.stack.push(stack);
            batch.weight.push(sample.weight);
            batch.state.push(sample.state);
            batch.truncated.push(sample.truncated);
        }
        Some(batch)
    }

    /// What a thread did for the runtime at a time. A compilation inside a collection cannot be;
    /// the most recent interval that holds the time wins.
    pub(super) fn work_at(&self, os_tid: u32, time: u64) -> Option<RuntimeWorkKind> {
        let of_thread = self.work.get(&os_tid)?;
        let found = of_thread.iter().rev().find(|work| (work.start..=work.end).contains(&time))?;
        Some(found.kind)
    }
}
