//! Heap snapshots, and what survives collections.

use super::stage::Stage;
use crate::linux::{clock::now, context::Context, survivors::Survivors};
use session::{ClassFields, EndReason, HeapEnd, SessionRecord, StaticField};
use std::time::{Duration, Instant};
use wire::RuntimeWork;

/// How long a process may be stopped by a signal while a snapshot of its heap is waited for. That
/// wait has no other limit.
const STOPPED_LIMIT: Duration = Duration::from_secs(5);

/// Why such a snapshot is given up.
const STAYS_STOPPED: &str = "the process was stopped and does not continue: resume it (kill \
    -CONT), then take the snapshot again";

/// The profilers `heap`, `async` and `survivors`.
pub(in crate::linux) struct Heap {
    /// How many snapshots end the recording, if it is for them only.
    last: Option<u32>,
    /// How many have begun, and how many have ended.
    begun: u32,
    ended: u32,
    /// Objects of the one under way.
    under_way: Option<u64>,
    /// Whether one ended before it had seen all.
    incomplete: bool,
    /// Since when the process has been stopped by a signal, as far as that was looked at.
    stopped_since: Option<Instant>,
    survivors: Survivors,
}

impl Heap {
    pub fn new(last: Option<u32>) -> Self {
        Self {
            last,
            begun: 0,
            ended: 0,
            under_way: None,
            incomplete: false,
            stopped_since: None,
            survivors: Survivors::default(),
        }
    }

    /// What survives a collection comes next.
    pub fn survivors_begin(&mut self) {
        self.survivors.begin();
    }

    /// All that survived a collection has come.
    pub fn survivors_end(&mut self, cx: &mut Context, end: wire::SurvivorsEnd) {
        let telling = end.collection.telling;
        let snapshot = self.survivors.end(&mut cx.definitions, end.collection);
        let lost = self.survivors.take_lost();
        cx.dropped("survivors beyond what one snapshot keeps", lost);
        let Some(snapshot) = snapshot else { return };
        cx.statistics.target_stopped(telling);
        cx.count("survivors", snapshot.counts.iter().map(|count| count.objects).sum());
        cx.write(&SessionRecord::Survivors(snapshot));
    }

    /// Objects and references.
    pub fn chunk(&mut self, cx: &mut Context, objects: u64, bytes: Vec<u8>) {
        if self.survivors.is_under_way() {
            if !self.survivors.chunk(&bytes) {
                cx.dropped("damaged parts of snapshots of collections", 1);
            }
            return;
        }
        // The agent is not believed: what does not fit is left out.
        if bytes.len() > session::MAX_HEAP_CHUNK {
            cx.dropped("parts of a heap snapshot that are too large", 1);
            return;
        }
        self.write(cx, |snapshot| SessionRecord::HeapChunk { snapshot, bytes });
        if let Some(seen) = &mut self.under_way {
            *seen = objects;
            cx.statistics.set_count("heap", objects);
            cx.announce(&format!("taking a heap snapshot: {objects} objects so far"));
        }
    }

    /// Names of classes.
    pub fn classes(&mut self, cx: &mut Context, classes: Vec<(u64, String, String)>) {
        if self.survivors.is_under_way() {
            self.survivors.classes(classes);
        } else {
            self.write(cx, |snapshot| SessionRecord::HeapClasses { snapshot, classes });
        }
    }

    /// Names of methods.
    pub fn methods(&mut self, cx: &mut Context, methods: Vec<(u64, String)>) {
        if self.survivors.is_under_way() {
            self.survivors.methods(methods);
        } else {
            self.write(cx, |snapshot| SessionRecord::HeapMethods { snapshot, methods });
        }
    }

    /// Names of static fields.
    pub fn statics(&mut self, cx: &mut Context, fields: Vec<StaticField>) {
        self.write(cx, |snapshot| SessionRecord::HeapStatics { snapshot, fields });
    }

    /// Fields of objects.
    pub fn fields(&mut self, cx: &mut Context, classes: Vec<ClassFields>) {
        self.write(cx, |snapshot| SessionRecord::HeapFields { snapshot, classes });
    }

    /// State machines of asynchronous methods.
    pub fn machines(&mut self, cx: &mut Context, machines: Vec<wire::Machine>) {
        let frames = &mut cx.frames;
        let machines = machines.into_iter().map(|machine| frames.machine(machine)).collect();
        self.write(cx, |snapshot| SessionRecord::AsyncStateMachines { snapshot, machines });
    }

    /// The runtime has collected.
    pub fn collected(&mut self, cx: &mut Context, work: &RuntimeWork) {
        if self.begun > 0 {
            cx.write(&SessionRecord::Collection { start: work.start, end: work.end });
        }
    }

    /// A heap snapshot begins.
    pub fn begins(&mut self, cx: &mut Context, time: u64) {
        self.close(cx, "another snapshot began");
        let snapshot = self.begun;
        self.begun += 1;
        self.under_way = Some(0);
        cx.announce("taking a heap snapshot");
        cx.write(&SessionRecord::HeapBegin { snapshot, time });
    }

    /// Writes a part of the snapshot that is under way.
    fn write(&self, cx: &mut Context, record: impl FnOnce(u32) -> SessionRecord) {
        if self.under_way.is_some() {
            cx.write(&record(self.begun - 1));
        }
    }

    /// A heap snapshot has ended.
    pub fn ends(&mut self, cx: &mut Context, mut end: HeapEnd) {
        if self.under_way.take().is_none() {
            return;
        }
        if let Some(reason) = &end.reason {
            let what = if end.complete {
                "the heap snapshot lacks something"
            } else {
                "the heap snapshot is not complete"
            };
            cx.note(format!("{what}: {reason}"));
        }
        cx.statistics.target_stopped(end.paused);
        cx.statistics.set_count("heap", end.objects);
        self.ended += 1;
        self.incomplete |= !end.complete;
        cx.announce("recording");
        // The session counts its snapshots itself.
        end.snapshot = self.begun - 1;
        cx.write(&SessionRecord::HeapEnd(end));
    }

    /// Ends a snapshot whose own end does not come.
    fn close(&mut self, cx: &mut Context, reason: &str) {
        if let Some(objects) = self.under_way {
            let end = HeapEnd {
                snapshot: 0,
                time: now(),
                paused: 0,
                objects,
                complete: false,
                reason: Some(reason.to_owned()),
            };
            self.ends(cx, end);
        }
    }

    /// Whether a snapshot is waited for while the process is stopped, and that for too long.
    pub fn waits_in_vain(&mut self, cx: &mut Context) -> bool {
        let waits = self.last.is_some() || self.under_way.is_some();
        if !waits || !cx.target.is_stopped() {
            self.stopped_since = None;
            return false;
        }
        let since = *self.stopped_since.get_or_insert_with(Instant::now);
        let in_vain = since.elapsed() >= STOPPED_LIMIT;
        if in_vain {
            cx.note(STAYS_STOPPED.into());
        }
        in_vain
    }

    /// The recording ends for this reason, and with it a snapshot that is under way.
    pub fn finish(&mut self, cx: &mut Context, reason: EndReason) {
        let reason = match reason {
            EndReason::ProcessExited => "the process ended",
            _ if cx.output.notes().iter().any(|note| note == STAYS_STOPPED) => STAYS_STOPPED,
            _ if cx.agent.closed => "the connection to the agent ended",
            _ => "the recording was stopped",
        };
        self.close(cx, reason);
    }
}

impl Stage for Heap {
    /// Whether the snapshots that the recording is for have been taken, or cannot be.
    fn is_over(&self) -> bool {
        self.last.is_some_and(|last| self.ended >= last || self.incomplete)
    }
}
