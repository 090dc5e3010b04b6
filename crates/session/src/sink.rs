use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

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

/// The same records to two sinks. The second gets its record also when the first fails; the first error is told.
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

/// The live twin of a session file: what goes into the sink comes out of the stream, in another thread of this process.
/// At most `capacity` records wait between the two. When a slow consumer lets them fill up, samples and
/// events are left out and counted ([`LiveSink::left_out`]); definitions wait, since later records need them. A stream that is
/// dropped never hinders the recording.
pub fn live(capacity: usize) -> (LiveSink, LiveStream) {
    let (sender, receiver) = sync_channel(capacity.max(1));
    (LiveSink { sender: Some(sender), left_out: 0 }, LiveStream { receiver })
}

/// The end of [`live`] that the recording writes to.
#[derive(Debug)]
pub struct LiveSink {
    sender: Option<SyncSender<SessionRecord>>,
    left_out: u64,
}

impl LiveSink {
    /// Records that the consumer was too slow for. They are missing only in the live view.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Sink for LiveSink {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        let Some(sender) = &self.sender else { return Ok(()) };
        let gone = match record {
            SessionRecord::CpuSamples(_)
            | SessionRecord::WallSamples(_)
            | SessionRecord::Exception(_)
            | SessionRecord::Allocations(_)
            | SessionRecord::AllocationWindow(_)
            | SessionRecord::Contentions(_)
            | SessionRecord::CounterValues { .. }
            | SessionRecord::ThreadLook(_)
            | SessionRecord::ThreadCreation(_)
            | SessionRecord::PoolSamples(_)
            | SessionRecord::PoolEvent(_)
            | SessionRecord::Gc(_)
            | SessionRecord::Pause(_)
            | SessionRecord::Survivors(_)
            | SessionRecord::Traced(_)
            | SessionRecord::SingleCalls(_)
            | SessionRecord::CallsWithArguments(_)
            | SessionRecord::Observer(_) => match sender.try_send(record.clone()) {
                Ok(()) => false,
                Err(TrySendError::Full(_)) => {
                    self.left_out += 1;
                    false
                }
                Err(TrySendError::Disconnected(_)) => true,
            },
            // Large, and of no use before the look is over: looks are read from files.
            SessionRecord::HeapChunk { .. } => false,
            _ => sender.send(record.clone()).is_err(),
        };
        if gone {
            self.sender = None;
        }
        Ok(())
    }
}

/// The end of [`live`] that a consumer reads; as an iterator it waits, and ends with the recording.
#[derive(Debug)]
pub struct LiveStream {
    receiver: Receiver<SessionRecord>,
}

impl LiveStream {
    /// The next record if there is one now: `Ok(None)` if not.
    ///
    /// # Errors
    /// [`LiveEnded`] when the recording is over and all of it was read.
    pub fn try_next(&self) -> Result<Option<SessionRecord>, LiveEnded> {
        match self.receiver.try_recv() {
            Ok(record) => Ok(Some(record)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(LiveEnded),
        }
    }

    /// The next record, waited for no longer than `timeout`: `Ok(None)` if none came.
    ///
    /// # Errors
    /// [`LiveEnded`] when the recording is over and all of it was read.
    pub fn next_timeout(&self, timeout: Duration) -> Result<Option<SessionRecord>, LiveEnded> {
        match self.receiver.recv_timeout(timeout) {
            Ok(record) => Ok(Some(record)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(LiveEnded),
        }
    }
}

impl Iterator for LiveStream {
    type Item = SessionRecord;

    fn next(&mut self) -> Option<SessionRecord> {
        self.receiver.recv().ok()
    }
}

/// The recording is over and all of it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording is over")]
pub struct LiveEnded;
