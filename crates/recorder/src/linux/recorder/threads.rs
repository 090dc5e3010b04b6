//! Thread snapshots.

use super::*;

impl Recorder {
    /// Puts the agent's snapshot of managed threads and the kernel's figures of all threads
    /// together.
    pub(super) fn thread_snapshot(&mut self, snapshot: WallTick) {
        // One from before the start says what the first threads had used up by then.
        if self.window.is_over(snapshot.time) {
            return;
        }
        let (all, gone) = self.snapshots.snapshot(&self.sources.target);
        for os_tid in gone {
            // Of managed threads the agent tells, exactly.
            let (managed, _) = self.definitions.thread_facts(os_tid);
            if !managed {
                self.definitions.end_thread(os_tid, snapshot.time);
            }
        }
        let (purpose, previous, splits) = (Purpose::Snapshot(all), None, HashMap::new());
        self.blocked.tick(PendingTick { purpose, tick: snapshot, previous, splits });
        self.resolve(false);
        self.settle_ticks();
    }

    pub(super) fn thread_look_settled(&mut self, snapshot: &WallTick, all: Vec<OsThread>) {
        let target = &self.sources.target;
        let walked: HashMap<u32, &WallSample> = snapshot
            .threads
            .iter()
            .map(|sample| (target.host_tid(sample.os_tid), sample))
            .collect();
        let mut threads = Vec::with_capacity(all.len());
        for seen in all {
            // One that has ended since, as the kernel says, while the stacks of the others were
            // asked about.
            if self.definitions.has_gone(seen.tid, snapshot.time) {
                continue;
            }
            let target = &self.sources.target;
            if let Ok(born) = u64::try_from(seen.born) {
                self.definitions.thread_begins(seen.tid, born);
            }
            let thread = self.definitions.thread(seen.tid, || target.thread_name(seen.tid));
            let name = self.definitions.thread_name(seen.tid);
            let (_, ended) = self.definitions.thread_facts(seen.tid);
            // A managed thread may have ended while the kernel's is on its way out.
            if ended || name.is_some_and(|name| name.starts_with(OWN_THREADS)) {
                continue;
            }
            if let Some(born) =
                u64::try_from(seen.born).ok().filter(|born| *born >= self.window.start)
            {
                self.definitions.update_thread(seen.tid, |thread| {
                    thread.started = thread.started.or(Some(born))
                });
            }
            let sample = walked.get(&seen.tid).copied();
            let (mut stack, _) =
                self.frames.walked(&mut self.definitions, sample.and_then(|sample| sample.stack));
            if self.reads_blocked
                && sample.is_some_and(|sample| sample.state == b'R')
                && let Some(running) = self.running.at(thread, snapshot.time, near(u64::MAX, HOLD))
            {
                stack = running.stack;
            }
            let state = match sample {
                Some(sample) => self.state_of(seen.tid, sample, stack),
                None if seen.state == b'R' => ThreadState::Running,
                None => waits::classify_unmanaged(seen.call),
            };
            let (cpu, os_state) =
                sample.map_or((seen.run, seen.state), |sample| (sample.cpu, sample.state));
            let (born, call, limited) = (seen.born, seen.call, seen.limited);
            threads.push(ThreadSeen { thread, stack, state, os_state, cpu, born, call, limited });
        }
        self.count("threads", threads.len() as u64);
        self.write_definitions();
        self.write(&SessionRecord::ThreadSnapshot(ThreadSnapshot { time: snapshot.time, threads }));
    }
}
