use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{SessionError, SessionRecord};

/// Takes the records of a recording in their order: a file, a live view, or both.
pub trait Sink {
    /// Takes the next record.
    ///
    /// # Errors
    /// When it breaks the order of the model, or cannot be kept.
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError>;

    /// Nothing came for a while; what is due may be done.
    ///
    /// # Errors
    /// When what is due cannot be done.
    fn idle(&mut self) -> Result<(), SessionError> {
        Ok(())
    }
}

impl Sink for Vec<SessionRecord> {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        self.push(record.clone());
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        (**self).record(record)
    }

    fn idle(&mut self) -> Result<(), SessionError> {
        (**self).idle()
    }
}

impl<S: Sink> Sink for Option<S> {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        self.as_mut().map_or(Ok(()), |sink| sink.record(record))
    }

    fn idle(&mut self) -> Result<(), SessionError> {
        self.as_mut().map_or(Ok(()), Sink::idle)
    }
}

/// Writes the same records to two sinks. The second also gets its record when the first fails. The
/// first error is returned.
#[derive(Clone, Debug)]
pub struct Tee<A, B>(pub A, pub B);

impl<A: Sink, B: Sink> Sink for Tee<A, B> {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        let first = self.0.record(record);
        first.and(self.1.record(record))
    }

    fn idle(&mut self) -> Result<(), SessionError> {
        let first = self.0.idle();
        first.and(self.1.idle())
    }
}

/// Definitions may fill the queue of a live view this many times as far as samples and events:
/// without them, later records cannot be understood.
const DEFINITIONS: usize = 64;

/// The live twin of a session file: what goes into the sink comes out of the stream, in another
/// thread of this process.
///
/// The sink never waits. When a slow consumer lets `capacity` records wait, samples and events are
/// dropped; when it lets 64 times as many wait, definitions are dropped, too. Both ends report how
/// many ([`LiveSink::left_out`], [`LiveStream::left_out`]). A stream that is dropped never hinders
/// the recording.
pub fn live(capacity: usize) -> (LiveSink, LiveStream) {
    let shared = Arc::new(Shared::default());
    (LiveSink { shared: Arc::clone(&shared), capacity: capacity.max(1) }, LiveStream { shared })
}

/// What both ends of [`live`] have.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signaled when a record came, or the sink is gone.
    news: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    records: VecDeque<SessionRecord>,
    left_out: u64,
    sink_gone: bool,
    stream_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of [`live`] that the recording writes to.
#[derive(Debug)]
pub struct LiveSink {
    shared: Arc<Shared>,
    capacity: usize,
}

impl LiveSink {
    /// Records that the consumer was too slow for. They are missing only in the live view.
    pub fn left_out(&self) -> u64 {
        self.shared.lock().left_out
    }
}

impl Sink for LiveSink {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        let most = match record {
            SessionRecord::CpuSamples(_)
            | SessionRecord::WallSamples(_)
            | SessionRecord::ThreadSnapshot(_)
            | SessionRecord::PoolSamples(_)
            | SessionRecord::Rows(_)
            | SessionRecord::Survivors(_)
            | SessionRecord::Traced(_)
            | SessionRecord::SingleCalls(_)
            | SessionRecord::CallsWithArguments(_)
            | SessionRecord::Resources(_)
            | SessionRecord::Collection { .. }
            | SessionRecord::Processors(_)
            | SessionRecord::SamplingRate(_)
            | SessionRecord::Observer(_) => self.capacity,
            // Large, and of no use before the snapshot is complete: snapshots are read from files.
            SessionRecord::HeapChunk { .. } => return Ok(()),
            _ => self.capacity.saturating_mul(DEFINITIONS),
        };
        let mut queue = self.shared.lock();
        if queue.stream_gone {
            return Ok(());
        }
        if queue.records.len() >= most {
            queue.left_out += 1;
            return Ok(());
        }
        queue.records.push_back(record.clone());
        drop(queue);
        self.shared.news.notify_one();
        Ok(())
    }
}

impl Drop for LiveSink {
    fn drop(&mut self) {
        self.shared.lock().sink_gone = true;
        self.shared.news.notify_one();
    }
}

/// The end of [`live`] that a consumer reads; as an iterator it waits, and ends with the recording.
#[derive(Debug)]
pub struct LiveStream {
    shared: Arc<Shared>,
}

impl LiveStream {
    /// The next record if there is one now: `Ok(None)` if not.
    ///
    /// # Errors
    /// [`LiveEnded`] when the recording is over and all of it was read.
    pub fn try_next(&self) -> Result<Option<SessionRecord>, LiveEnded> {
        self.next_timeout(Duration::ZERO)
    }

    /// The next record, waited for no longer than `timeout`: `Ok(None)` if none came.
    ///
    /// # Errors
    /// [`LiveEnded`] when the recording is over and all of it was read.
    pub fn next_timeout(&self, timeout: Duration) -> Result<Option<SessionRecord>, LiveEnded> {
        let end = Instant::now().checked_add(timeout);
        let mut queue = self.shared.lock();
        loop {
            if let Some(record) = queue.records.pop_front() {
                return Ok(Some(record));
            }
            if queue.sink_gone {
                return Err(LiveEnded);
            }
            let left =
                end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            queue = self
                .shared
                .news
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Records that this end was too slow for so far.
    pub fn left_out(&self) -> u64 {
        self.shared.lock().left_out
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.stream_gone = true;
        queue.records = VecDeque::new();
    }
}

impl Iterator for LiveStream {
    type Item = SessionRecord;

    fn next(&mut self) -> Option<SessionRecord> {
        loop {
            match self.next_timeout(Duration::MAX) {
                Ok(Some(record)) => return Some(record),
                Ok(None) => {}
                Err(LiveEnded) => return None,
            }
        }
    }
}

/// The recording is over and all of it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording is over")]
pub struct LiveEnded;
