//! Takes a recording that is being made into slices.

use std::time::{Duration, Instant};

use session::{LiveEnded, LiveStream};

use crate::Live;

/// Records taken at a time, before its user can do something else.
const RECORDS: usize = 20_000;

/// Takes a stream of records into a live recording.
pub struct Feed {
    stream: LiveStream,
    live: Live,
    cut: Instant,
    over: bool,
}

impl Feed {
    /// Length of a slice.
    pub const SLICE: Duration = Duration::from_secs(1);

    /// Of a stream of which nothing was taken yet.
    pub fn new(stream: LiveStream) -> Self {
        Self { stream, live: Live::new(), cut: Instant::now(), over: false }
    }

    /// Takes what has come, without waiting for more; whether a slice was ended.
    pub fn take(&mut self) -> bool {
        if self.over {
            return false;
        }
        for _ in 0..RECORDS {
            match self.stream.try_next() {
                // The recorder writes the same records to files that are checked when read: a
                // record that does not fit is a bug there, and costs one row here.
                Ok(Some(record)) => drop(self.live.add(&record)),
                Ok(None) => break,
                Err(LiveEnded) => {
                    self.over = true;
                    self.live.end();
                    break;
                }
            }
        }
        let length = self.cut.elapsed();
        if length < Self::SLICE && !self.over {
            return false;
        }
        self.cut = Instant::now();
        self.live.cut(length);
        true
    }

    /// The recording as far as it was taken.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Records that were left out, because they were not taken fast enough.
    pub fn left_out(&self) -> u64 {
        self.stream.left_out()
    }

    /// Whether all of the stream was taken.
    pub fn is_over(&self) -> bool {
        self.over
    }
}
