//! Threads as they are created, out of the runtime's threading events.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits; which
//! events come in which order was seen on .NET Core 3.1 to .NET 10: `ThreadCreating` (70) on the
//! thread that starts another, with its stack, then on the new thread `ThreadCreated` (85), which
//! knows its numbers, and `ThreadRunning` (71). Threads that the runtime itself makes (the
//! finalizer, and on .NET Core 3.1 the workers of the thread pool) have the second only.

use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use crate::{Collect, Event, Located, thread_id};
use profilers::threads::Creation;
use rows::{StackId, ThreadId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Pairs the events of each thread, of events that come in the order of their times.
#[derive(Debug, Default)]
pub struct Collector {
    /// Threads that were asked for and do not run yet, by the address of the runtime's object:
    /// time, creator and stack.
    asked: HashMap<u64, (u64, u64, Arc<[u64]>)>,
    output: VecDeque<Located<Creation>>,
}

/// Most threads that are waited for.
const MAX_ASKED: usize = 1 << 16;

/// In the flags of `ThreadCreated`: a worker of the thread pool (`ThreadFlagsMap` of the manifest).
const POOL_WORKER: u32 = 4;

impl Collector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn push_fields(
        &mut self,
        id: u32,
        payload: &[u8],
        time: u64,
        thread: u64,
        stack: &Arc<[u64]>,
    ) -> Option<()> {
        let mut fields = Cursor(payload);
        match id {
            70 => {
                let object = fields.u64()?;
                if self.asked.len() < MAX_ASKED || self.asked.contains_key(&object) {
                    self.asked.insert(object, (time, thread, Arc::clone(stack)));
                }
            }
            85 => {
                let object = fields.u64()?;
                let _domain = fields.u64()?;
                let flags = fields.u32()?;
                let managed_id = fields.u32()?;
                let os_tid = fields.u32()?;
                let (time, creator, ips) = match self.asked.remove(&object) {
                    Some((time, creator, ips)) => (time, Some(thread_id(creator)), ips),
                    None => (time, None, Arc::from([])),
                };
                let stack = creator.map(|_| StackId::UNDEFINED);
                let (thread, pool) = (ThreadId(os_tid), flags & POOL_WORKER != 0);
                let row = Creation { time, thread, creator, stack, managed_id, pool };
                self.output.push_back(Located { row, stack: ips });
            }
            _ => {}
        }
        Some(())
    }
}

impl Collect for Collector {
    type Output = Located<Creation>;

    fn push(&mut self, event: &Event) {
        if event.ty.provider == PROVIDER {
            // One that is cut short says nothing.
            let _ = self.push_fields(
                event.ty.id,
                &event.payload,
                event.timestamp,
                event.thread_id,
                &event.stack,
            );
        }
    }

    /// The next thread. It has a creator and a stack if it was seen that it was asked for; its time
    /// is that of the request, or else when it began.
    fn next_output(&mut self) -> Option<Self::Output> {
        self.output.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(object: u64, flags: u32, managed_id: u32, os_tid: u32) -> Vec<u8> {
        let mut payload = [object.to_le_bytes(), 7_u64.to_le_bytes()].concat();
        payload.extend([flags, managed_id, os_tid].into_iter().flat_map(u32::to_le_bytes));
        payload.extend([0, 0]);
        payload
    }

    #[test]
    fn a_thread_has_the_stack_of_who_asked_for_it() {
        let mut collector = Collector::new();
        let creating = |object: u64| [&object.to_le_bytes()[..], &[0, 0]].concat();
        let stack: Arc<[u64]> = Arc::from([1, 2]);
        let none: Arc<[u64]> = Arc::from([]);
        for (id, payload, time, thread, stack) in [
            (70, creating(100), 10, 5, &stack),
            (70, creating(200), 11, 5, &none),
            (85, created(100, 0, 14, 61), 12, 61, &none),
            (71, creating(100), 13, 61, &none),
            (85, created(300, 4, 15, 62), 14, 62, &none),
            (85, vec![0; 12], 15, 62, &none),
        ] {
            collector.push_fields(id, &payload, time, thread, stack);
        }
        let threads: Vec<_> = std::iter::from_fn(|| collector.next_output()).collect();
        let first = Creation {
            time: 10,
            thread: ThreadId(61),
            creator: Some(ThreadId(5)),
            stack: Some(StackId::UNDEFINED),
            managed_id: 14,
            pool: false,
        };
        let second = Creation {
            time: 14,
            thread: ThreadId(62),
            creator: None,
            stack: None,
            managed_id: 15,
            pool: true,
        };
        let (first, second) = (Located { row: first, stack }, Located { row: second, stack: none });
        assert_eq!(threads, [first, second]);
    }
}
