//! Reads one session of allocations.

use crate::linux::events::FromEvents;
use diagnostics::EventPipeSession;
use nettrace::{
    Reader,
    allocations::{self, Allocation},
};
use profilers::allocations::SPEC;
use std::sync::{
    Arc,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed},
    },
    mpsc::SyncSender,
};

/// Most samples that are kept of one part.
const MAX_KEPT: usize = 1 << 18;

/// What the reader of a session leaves.
#[derive(Default)]
pub(super) struct Kept {
    pub allocations: Vec<Allocation>,
    /// Samples for which there was no room.
    pub left_out: u64,
    /// Events that the runtime dropped.
    pub lost: u64,
    pub failed: Option<String>,
}

/// What the reader of a session needs to know.
pub(super) struct Reading {
    pub from: u64,
    pub until: Arc<AtomicU64>,
    pub count: Arc<AtomicU64>,
    pub arrived: Arc<AtomicU64>,
    /// Where samples go as they come; they are kept if there is no such place.
    pub pass_on: Option<SyncSender<FromEvents>>,
}

impl Reading {
    /// Reads until the session ends.
    pub fn read(&self, mut reader: Reader<EventPipeSession>) -> Kept {
        let mut kept = Kept::default();
        loop {
            match reader.next_event() {
                Ok(Some(event)) => {
                    let Some(allocation) = allocations::parse(&event) else { continue };
                    self.arrived.fetch_add(1, Relaxed);
                    self.count.fetch_add(1, Relaxed);
                    if !(self.from..self.until.load(Acquire)).contains(&allocation.sample.row.time)
                    {
                        continue;
                    }
                    if let Some(sender) = &self.pass_on {
                        // Without a receiver the recording is over, which is no error.
                        let sample = FromEvents::Sample(SPEC.id, Box::new(allocation));
                        if sender.send(sample).is_err() {
                            return kept;
                        }
                        let lost = reader.statistics().lost;
                        if lost > kept.lost {
                            let _ = sender.send(FromEvents::Lost(lost - kept.lost));
                            kept.lost = lost;
                        }
                    } else if kept.allocations.len() < MAX_KEPT {
                        kept.allocations.push(allocation);
                    } else {
                        kept.left_out += 1;
                    }
                }
                Ok(None) => break,
                Err(error) if error.is_timeout() => {}
                Err(error) => {
                    kept.failed = Some(format!("the EventPipe stream broke off: {error}"));
                    break;
                }
            }
        }
        // What was reported already is not reported again.
        let told = if self.pass_on.is_some() { kept.lost } else { 0 };
        kept.lost = reader.statistics().lost.saturating_sub(told);
        kept
    }
}
