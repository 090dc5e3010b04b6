//! Waits for locks out of the runtime's contention events.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits.

use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use crate::{Collect, Event, Located, thread_id};
use profilers::locks::Wait;
use rows::StackId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Pairs the beginning and the end of waits, of events that come in the order of their times.
///
/// A wait whose beginning was not seen is left out, and so is one that has not ended at the last
/// event.
#[derive(Debug, Default)]
pub struct Collector {
    /// The wait of each thread: a thread waits for one lock at a time.
    waiting: HashMap<u64, Located<Wait>>,
    output: VecDeque<Located<Wait>>,
}

/// Most threads whose waits are followed.
const MAX_WAITING: usize = 1 << 16;

impl Collector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn push_fields(&mut self, id: u32, payload: &[u8], time: u64, thread: u64, stack: &Arc<[u64]>) {
        match id {
            81 => {
                let Some((lock, owner)) = start(payload) else { return };
                if self.waiting.len() >= MAX_WAITING && !self.waiting.contains_key(&thread) {
                    return;
                }
                let row = Wait {
                    time,
                    thread: thread_id(thread),
                    stack: StackId::UNDEFINED,
                    duration: 0,
                    lock,
                    owner: owner.map(thread_id),
                    truncated: false,
                };
                self.waiting.insert(thread, Located { row, stack: Arc::clone(stack) });
            }
            91 => {
                let Some(mut wait) = self.waiting.remove(&thread) else { return };
                let between = time.saturating_sub(wait.row.time);
                wait.row.duration = stop(payload).unwrap_or(between);
                self.output.push_back(wait);
            }
            _ => {}
        }
    }
}

impl Collect for Collector {
    type Output = Located<Wait>;

    fn push(&mut self, event: &Event) {
        if event.ty.provider == PROVIDER {
            self.push_fields(
                event.ty.id,
                &event.payload,
                event.timestamp,
                event.thread_id,
                &event.stack,
            );
        }
    }

    fn next_output(&mut self) -> Option<Self::Output> {
        self.output.pop_front()
    }
}

/// Lock and owner. Version 1 ends before them; version 2 came with .NET 8. `None` for what is no
/// managed lock.
fn start(payload: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let mut fields = Cursor(payload);
    managed(&mut fields)?;
    let lock = fields.u64();
    let _object = fields.u64();
    let owner = fields.u64();
    Some((lock.filter(|lock| *lock != 0), owner.filter(|owner| *owner != 0)))
}

/// How long the wait was by the runtime's own clock; version 0 does not tell.
fn stop(payload: &[u8]) -> Option<u64> {
    let mut fields = Cursor(payload);
    managed(&mut fields)?;
    let nanoseconds = f64::from_bits(fields.u64()?);
    // What is no number of nanoseconds in a century is not believed.
    (0.0..3.2e18).contains(&nanoseconds).then_some(nanoseconds as u64)
}

/// What both begin with; `None` for locks of the runtime itself.
fn managed(fields: &mut Cursor<'_>) -> Option<()> {
    let native = fields.u8()? != 0;
    let _runtime_instance = fields.u16()?;
    (!native).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_1: &[u8] = &[0, 9, 0];

    fn start_2(lock: u64, owner: u64) -> Vec<u8> {
        [&[0, 9, 0][..], &lock.to_le_bytes(), &7_u64.to_le_bytes(), &owner.to_le_bytes()].concat()
    }

    fn stop_1(nanoseconds: f64) -> Vec<u8> {
        [&[0, 9, 0][..], &nanoseconds.to_le_bytes()].concat()
    }

    /// Start, duration, thread, lock and owner.
    type Told = (u64, u64, u32, Option<u64>, Option<u32>);

    /// Feeds events of threads, ten nanoseconds apart from 100 on.
    fn collect(events: &[(u32, u64, &[u8])]) -> Vec<Told> {
        let mut collector = Collector::new();
        for (time, (id, thread, payload)) in (10..).zip(events) {
            collector.push_fields(*id, payload, time * 10, *thread, &Arc::from([*thread]));
        }
        let waits = std::iter::from_fn(|| collector.next_output());
        let told = |wait: Located<Wait>| {
            let Wait { time, duration, thread, lock, owner, .. } = wait.row;
            assert_eq!(*wait.stack, [thread.0.into()]);
            (time, duration, thread.0, lock, owner.map(|owner| owner.0))
        };
        waits.map(told).collect()
    }

    #[test]
    fn both_versions_are_paired_by_thread() {
        let (start, stop) = (start_2(5, 44), stop_1(17.9));
        let waits = collect(&[(81, 1, START_1), (81, 2, &start), (91, 1, START_1), (91, 2, &stop)]);
        assert_eq!(waits, [(100, 20, 1, None, None), (110, 17, 2, Some(5), Some(44))]);
        assert_eq!(
            collect(&[(81, 1, &start_2(5, 0)), (91, 1, &stop)]),
            [(100, 17, 1, Some(5), None)]
        );
    }

    #[test]
    fn halves_are_left_out() {
        let native: &[u8] = &[1, 9, 0];
        let waits = collect(&[
            (91, 1, START_1),
            (81, 2, native),
            (91, 2, native),
            (81, 3, START_1),
            (81, 4, &[0]),
        ]);
        assert_eq!(waits, []);
        // The end of the first was lost.
        assert_eq!(
            collect(&[(81, 1, START_1), (81, 1, START_1), (91, 1, START_1)]),
            [(110, 10, 1, None, None)]
        );
    }

    #[test]
    fn durations_that_cannot_be_are_not_believed() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(
                collect(&[(81, 1, START_1), (91, 1, &stop_1(bad))]),
                [(100, 10, 1, None, None)],
                "{bad}"
            );
        }
    }
}
