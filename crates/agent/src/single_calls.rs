//! Single calls of rewritten methods, on their way from the threads that make them to the one that tells of them.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Most calls that wait to be read, of each thread: a fifth of a second of 80,000 calls a second.
const MOST: usize = 16_384;

const FAILED: u64 = 1;
const ASYNCHRONOUS: u64 = 2;
const ARGUMENTS: u64 = 4;
const SLOT_SHIFT: u32 = 3;

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleCall {
    /// Of which method.
    pub slot: u32,
    /// The thread on which it ended.
    pub os_tid: u32,
    /// When it began, in ticks.
    pub begun: u64,
    /// How many ticks it took.
    pub taken: u64,
    /// Whether it ended by an exception.
    pub failed: bool,
    /// Whether it is the call of an asynchronous method, to the end of its task.
    pub asynchronous: bool,
    /// Whether its [arguments](crate::arguments::Values) are told.
    pub arguments: bool,
}

/// Calls of one thread. All zeros are a ring without any.
#[repr(C)]
pub struct Ring {
    /// How many were written, and read, since the beginning.
    written: AtomicU64,
    read: AtomicU64,
    /// 1 while there is a call that was put down and is not to be read yet.
    put_down: AtomicU64,
    calls: [[AtomicU64; 3]; MOST],
}

impl Ring {
    /// Adds a call; `false` if there is no room. This and the following are to be called by one thread at a time.
    pub fn push(&self, call: SingleCall) -> bool {
        let has_room = self.put_down(call);
        self.publish();
        has_room
    }

    /// Adds a call that is not read before [`Self::publish`]; `false` if there is no room.
    pub fn put_down(&self, call: SingleCall) -> bool {
        self.put_down.store(0, Relaxed);
        let written = self.written.load(Relaxed);
        if written.wrapping_sub(self.read.load(Acquire)) >= MOST as u64 {
            return false;
        }
        let Some([what, begun, taken]) = self.calls.get(written as usize % MOST) else { return false };
        let flags = u64::from(call.failed) * FAILED
            + u64::from(call.asynchronous) * ASYNCHRONOUS
            + u64::from(call.arguments) * ARGUMENTS;
        // Slots have 16 bits.
        what.store(u64::from(call.os_tid) << 32 | u64::from(call.slot) << SLOT_SHIFT | flags, Relaxed);
        begun.store(call.begun, Relaxed);
        taken.store(call.taken, Relaxed);
        self.put_down.store(1, Relaxed);
        true
    }

    /// Lets the call be read that was put down, if there is one.
    pub fn publish(&self) {
        let more = self.put_down.load(Relaxed);
        self.put_down.store(0, Relaxed);
        self.written.store(self.written.load(Relaxed).wrapping_add(more), Release);
    }

    /// Takes all calls that there are. To be called by one thread at a time.
    pub fn take(&self, mut each: impl FnMut(SingleCall)) {
        let written = self.written.load(Acquire);
        let mut read = self.read.load(Relaxed);
        while read != written {
            let Some([what, begun, taken]) = self.calls.get(read as usize % MOST) else { return };
            let what = what.load(Relaxed);
            each(SingleCall {
                slot: what as u32 >> SLOT_SHIFT,
                os_tid: (what >> 32) as u32,
                begun: begun.load(Relaxed),
                taken: taken.load(Relaxed),
                failed: what & FAILED != 0,
                asynchronous: what & ASYNCHRONOUS != 0,
                arguments: what & ARGUMENTS != 0,
            });
            read = read.wrapping_add(1);
            self.read.store(read, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::map::Zeroed;

    fn call(begun: u64) -> SingleCall {
        let odd = begun % 2 == 1;
        let (slot, os_tid, arguments) = (0xffff, u32::MAX, begun.is_multiple_of(3));
        SingleCall { slot, os_tid, begun, taken: begun * 3, failed: odd, asynchronous: !odd, arguments }
    }

    #[test]
    fn calls_come_out_as_they_went_in_and_there_are_not_too_many() {
        // SAFETY: it is made of atomic numbers only.
        let ring = unsafe { Zeroed::<Ring>::reserve() }.unwrap();
        for round in 0..3 {
            let from = round * MOST as u64;
            assert!((from..from + MOST as u64).all(|begun| ring.push(call(begun))));
            assert!(!ring.push(call(0)), "it is full");
            let mut expected = from;
            ring.take(|taken| {
                assert_eq!(taken, call(expected));
                expected += 1;
            });
            assert_eq!(expected, from + MOST as u64);
        }
        ring.take(|taken| panic!("{taken:?}"));
        assert!(ring.put_down(call(1)));
        ring.take(|taken| panic!("{taken:?}"));
        // The other takes its place, and is published once.
        assert!(ring.put_down(call(2)));
        ring.publish();
        ring.publish();
        let mut found = Vec::new();
        ring.take(|taken| found.push(taken));
        assert_eq!(found, [call(2)]);
    }
}
