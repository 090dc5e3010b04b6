//! Heap snapshots, and survivors of collections.

use super::*;

/// How long a process may be stopped by a signal while a snapshot of its heap is waited for. That
/// wait has no other limit.
const STOPPED_LIMIT: Duration = Duration::from_secs(5);

/// Why such a snapshot is given up.
pub(super) const STAYS_STOPPED: &str = "the process was stopped and does not continue: resume it (kill \
    -CONT), then take the snapshot again";

impl Recorder {
    pub(super) fn survivors_end(&mut self, end: wire::SurvivorsEnd) {
        let telling = end.telling;
        let snapshot = self.survivors.end(&mut self.definitions, end);
        let lost = self.survivors.take_lost();
        self.drop_sample("survivors beyond what one snapshot keeps", lost);
        let Some(snapshot) = snapshot else { return };
        self.observer.target_stopped += telling;
        self.count("survivors", snapshot.counts.iter().map(|count| count.objects).sum());
        self.write_definitions();
        self.write(&SessionRecord::Survivors(snapshot));
    }

    pub(super) fn heap_chunk(&mut self, objects: u64, bytes: Vec<u8>) {
        if self.survivors.is_under_way() {
            if !self.survivors.chunk(&bytes) {
                self.drop_sample("damaged parts of snapshots of collections", 1);
            }
            return;
        }
        // The agent is not believed: what does not fit is left out.
        if bytes.len() > session::MAX_HEAP_CHUNK {
            self.drop_sample("parts of a heap snapshot that are too large", 1);
            return;
        }
        self.in_snapshot(|snapshot| SessionRecord::HeapChunk { snapshot, bytes });
        if let Some(seen) = &mut self.heap_snapshots.under_way {
            *seen = objects;
            self.counts.insert("heap", objects);
            self.stage(&format!("taking a heap snapshot: {objects} objects so far"));
        }
    }

    pub(super) fn heap_classes(&mut self, classes: Vec<(u64, String, String)>) {
        if self.survivors.is_under_way() {
            self.survivors.classes(classes);
        } else {
            self.in_snapshot(|snapshot| SessionRecord::HeapClasses { snapshot, classes });
        }
    }

    pub(super) fn heap_methods(&mut self, methods: Vec<(u64, String)>) {
        if self.survivors.is_under_way() {
            self.survivors.methods(methods);
        } else {
            self.in_snapshot(|snapshot| SessionRecord::HeapMethods { snapshot, methods });
        }
    }

    pub(super) fn heap_statics(&mut self, fields: Vec<wire::StaticField>) {
        let fields = fields.into_iter().map(heap_fields::static_field).collect();
        self.in_snapshot(|snapshot| SessionRecord::HeapStatics { snapshot, fields });
    }

    pub(super) fn heap_fields(&mut self, classes: Vec<wire::ClassFields>) {
        let classes = classes.into_iter().map(heap_fields::class).collect();
        self.in_snapshot(|snapshot| SessionRecord::HeapFields { snapshot, classes });
    }

    pub(super) fn async_machines(&mut self, machines: Vec<wire::Machine>) {
        let frames = &mut self.frames;
        let machines = machines.into_iter().map(|machine| frames.machine(machine)).collect();
        self.in_snapshot(|snapshot| SessionRecord::AsyncStateMachines { snapshot, machines });
    }

    pub(super) fn snapshot_begins(&mut self, time: u64) {
        self.close_snapshot("another snapshot began");
        let snapshot = self.heap_snapshots.begun;
        self.heap_snapshots.begun += 1;
        self.heap_snapshots.under_way = Some(0);
        self.stage("taking a heap snapshot");
        self.write(&SessionRecord::HeapBegin { snapshot, time });
    }

    /// Writes a part of the snapshot that is under way.
    pub(super) fn in_snapshot(&mut self, record: impl FnOnce(u32) -> SessionRecord) {
        if self.heap_snapshots.under_way.is_some() {
            self.write(&record(self.heap_snapshots.begun - 1));
        }
    }

    pub(super) fn snapshot_ends(&mut self, end: wire::HeapEnd) {
        if self.heap_snapshots.under_way.take().is_none() {
            return;
        }
        let wire::HeapEnd { time, paused, objects, complete, reason, .. } = end;
        if let Some(reason) = &reason {
            let what = if complete {
                "the heap snapshot lacks something"
            } else {
                "the heap snapshot is not complete"
            };
            self.note(format!("{what}: {reason}"));
        }
        self.observer.target_stopped += paused;
        self.counts.insert("heap", objects);
        self.heap_snapshots.ended += 1;
        self.heap_snapshots.incomplete |= !complete;
        self.stage("recording");
        let snapshot = self.heap_snapshots.begun - 1;
        self.write(&SessionRecord::HeapEnd(HeapEnd {
            snapshot,
            time,
            paused,
            objects,
            complete,
            reason,
        }));
    }

    /// Ends a snapshot whose own end does not come.
    pub(super) fn close_snapshot(&mut self, reason: &str) {
        if let Some(objects) = self.heap_snapshots.under_way {
            let (time, reason) = (now(), Some(reason.to_owned()));
            self.snapshot_ends(wire::HeapEnd {
                snapshot: 0,
                time,
                paused: 0,
                objects,
                complete: false,
                reason,
            });
        }
    }

    /// Whether a snapshot is waited for while the process is stopped, and that for too long.
    pub(super) fn waits_in_vain(&mut self) -> bool {
        let waits = self.sources.last_snapshot.is_some() || self.heap_snapshots.under_way.is_some();
        if !waits || !self.sources.target.is_stopped() {
            self.heap_snapshots.stopped_since = None;
            return false;
        }
        let since = *self.heap_snapshots.stopped_since.get_or_insert_with(Instant::now);
        let in_vain = since.elapsed() >= STOPPED_LIMIT;
        if in_vain {
            self.note(STAYS_STOPPED.into());
        }
        in_vain
    }

    /// Whether the snapshots that the recording is for have been taken, or cannot be.
    pub(super) fn snapshots_are_over(&self) -> bool {
        let Some(last) = self.sources.last_snapshot else { return false };
        self.heap_snapshots.ended >= last || self.heap_snapshots.incomplete
    }
}
