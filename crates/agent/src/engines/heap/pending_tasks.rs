//! Asynchronous calls between their first wait and their end.
//!
//! A call is known by its method and the id of its task. It may end on another thread before the
//! one that began it has said that it waits: then its end is kept until that comes. Ends of calls
//! that nobody timed are kept as well, as they look the same; they make room for others.

use crate::os::clock;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Number of groups, each with its own lock that is held only for a lookup, and calls per group.
const GROUPS: usize = 256;
const CALLS: usize = 128;
/// Nanoseconds for which a thread of the program waits for a lock. The call is not timed then.
const LIMIT: u64 = 50_000_000;
/// Bits of a key above task and slot: it is an end, and one by an exception. Slots are less.
const ENDED: u64 = 1 << 31;
const FAILED: u64 = 1 << 30;

/// Room for 32,768 calls that wait.
#[derive(Debug)]
pub struct Pending([Group; GROUPS]);

#[derive(Debug)]
struct Group {
    taken: AtomicBool,
    calls: [Call; CALLS],
}

#[derive(Debug)]
struct Call {
    /// Id of the task in the high half, slot and bits in the low one; 0 for none: no task has the
    /// id 0.
    key: AtomicU64,
    /// When it began, or ended.
    time: AtomicU64,
}

/// What there was to say of a call that begins to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It waits.
    Waits,
    /// It has ended meanwhile.
    IsOver {
        /// When.
        time: u64,
        /// Whether by an exception.
        failed: bool,
    },
    /// Too many wait.
    NoRoom,
}

impl Group {
    const fn new() -> Self {
        let calls = [const { Call { key: AtomicU64::new(0), time: AtomicU64::new(0) } }; CALLS];
        Self { taken: AtomicBool::new(false), calls }
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self::new()
    }
}

impl Pending {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self([const { Group::new() }; GROUPS])
    }

    /// A call waits from now on. `begun` is when it was made.
    pub fn begin(&self, slot: u32, task: u32, begun: u64) -> Begun {
        let key = key_of(slot, task);
        self.group(task, |calls| {
            if let Some(call) =
                calls.iter().find(|call| call.key.load(Relaxed) & !FAILED == key | ENDED)
            {
                let failed = call.key.load(Relaxed) & FAILED != 0;
                call.key.store(0, Relaxed);
                return Begun::IsOver { time: call.time.load(Relaxed), failed };
            }
            match room(calls) {
                Some(call) => {
                    call.time.store(begun, Relaxed);
                    call.key.store(key, Relaxed);
                    Begun::Waits
                }
                None => Begun::NoRoom,
            }
        })
        .unwrap_or(Begun::NoRoom)
    }

    /// A call ends; gives when it was made, if that is known yet.
    pub fn end(&self, slot: u32, task: u32, now: u64, failed: bool) -> Option<u64> {
        let key = key_of(slot, task);
        self.group(task, |calls| {
            if let Some(call) = calls.iter().find(|call| call.key.load(Relaxed) == key) {
                call.key.store(0, Relaxed);
                return Some(call.time.load(Relaxed));
            }
            if let Some(call) = room(calls) {
                call.time.store(now, Relaxed);
                call.key.store(key | ENDED | if failed { FAILED } else { 0 }, Relaxed);
            }
            None
        })
        .flatten()
    }

    /// Forgets all.
    pub fn clear(&self) {
        for task in 0..GROUPS as u32 {
            self.group(task, |calls| calls.iter().for_each(|call| call.key.store(0, Relaxed)));
        }
    }

    /// `None` where the group was held for all of [`LIMIT`].
    fn group<R>(&self, task: u32, then: impl FnOnce(&[Call; CALLS]) -> R) -> Option<R> {
        // Ids count up, so neighbours fall into different groups.
        let group = self.0.get(task as usize % GROUPS).unwrap_or(&self.0[0]);
        let (mut tries, mut until) = (0_u32, 0);
        while group.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            tries += 1;
            if !tries.is_multiple_of(64) {
                std::hint::spin_loop();
                continue;
            }
            // The holder may be waiting for a processor: indefinitely, where this is a thread of
            // the real-time class.
            let now = clock::monotonic();
            match until {
                0 => until = now.saturating_add(LIMIT),
                until if now >= until => return None,
                _ => {}
            }
            std::thread::yield_now();
        }
        let result = then(&group.calls);
        group.taken.store(false, Release);
        Some(result)
    }
}

fn key_of(slot: u32, task: u32) -> u64 {
    u64::from(task) << 32 | u64::from(slot)
}

/// An empty place, else that of the oldest end that nobody has asked for.
fn room(calls: &[Call; CALLS]) -> Option<&Call> {
    let empty = calls.iter().find(|call| call.key.load(Relaxed) == 0);
    empty.or_else(|| {
        let ends = calls.iter().filter(|call| call.key.load(Relaxed) & ENDED != 0);
        ends.min_by_key(|call| call.time.load(Relaxed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_ever() {
        let pending = Pending::new();
        pending.0[7].taken.store(true, Relaxed);
        let began = clock::monotonic();
        assert_eq!(pending.begin(3, 7, 100), Begun::NoRoom);
        assert_eq!(pending.end(3, 7, 150, false), None);
        assert!((2 * LIMIT..20 * LIMIT).contains(&(clock::monotonic() - began)));
        assert_eq!(pending.begin(3, 8, 100), Begun::Waits, "others are not concerned");
        pending.0[7].taken.store(false, Relaxed);
        assert_eq!(pending.begin(3, 7, 100), Begun::Waits);
    }

    #[test]
    fn calls_end_once_in_whatever_order_it_is_said() {
        let pending = Pending::new();
        assert_eq!(pending.begin(3, 7, 100), Begun::Waits);
        assert_eq!(pending.end(4, 7, 150, false), None, "of another method");
        assert_eq!(pending.end(3, 7, 150, false), Some(100));
        assert_eq!(pending.end(3, 8, 160, true), None, "said before it was said to wait");
        assert_eq!(pending.begin(3, 8, 120), Begun::IsOver { time: 160, failed: true });
        assert_eq!(pending.begin(3, 8, 120), Begun::Waits);
        pending.clear();
        assert_eq!(pending.end(3, 8, 170, false), None);
    }

    #[test]
    fn ends_of_others_make_room_and_waiting_calls_do_not() {
        let pending = Pending::new();
        let task = |number: usize| (number * GROUPS) as u32 + 1;
        for number in 0..10 * CALLS {
            assert_eq!(pending.end(1, task(number), number as u64, false), None);
        }
        for number in 0..CALLS {
            assert_eq!(pending.begin(2, task(number), 5), Begun::Waits);
        }
        assert_eq!(pending.begin(2, task(CALLS), 5), Begun::NoRoom);
        assert_eq!(pending.begin(2, 2, 5), Begun::Waits, "in another group");
        assert_eq!(pending.end(2, task(17), 9, false), Some(5));
    }
}
