//! Samples on their way into a session.

use session::{Nanos, SampleBatch, SessionRecord, StackId, ThreadId, ThreadState};

/// Rows of a batch.
const ROWS: usize = 16 * 1024;

/// A sample of CPU or wall time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub time: Nanos,
    pub thread: ThreadId,
    pub stack: StackId,
    /// Nanoseconds that it stands for.
    pub weight: u64,
    pub state: ThreadState,
    pub truncated: bool,
}

/// Samples of one kind. Times ascend within a batch, so a sample from before begins a new one.
pub struct Batch {
    batch: SampleBatch,
    latest: Nanos,
    record: fn(SampleBatch) -> SessionRecord,
}

impl Batch {
    pub fn new(record: fn(SampleBatch) -> SessionRecord) -> Self {
        Self { batch: SampleBatch::default(), latest: 0, record }
    }

    /// Adds a sample. Gives the batch before it if that is full.
    pub fn push(&mut self, sample: Sample) -> Option<SessionRecord> {
        let is_full = self.batch.weight.len() >= ROWS || sample.time < self.latest;
        let full = is_full.then(|| self.take()).flatten();
        if self.batch.weight.is_empty() {
            self.batch.start = sample.time;
            self.latest = sample.time;
        }
        self.batch.time_delta.push(sample.time.saturating_sub(self.latest));
        self.latest = sample.time;
        self.batch.thread.push(sample.thread);
        self.batch.stack.push(sample.stack);
        self.batch.weight.push(sample.weight);
        self.batch.state.push(sample.state);
        self.batch.truncated.push(sample.truncated);
        full
    }

    /// What has come since the last batch.
    pub fn take(&mut self) -> Option<SessionRecord> {
        let batch = std::mem::take(&mut self.batch);
        (!batch.weight.is_empty()).then(|| (self.record)(batch))
    }
}
