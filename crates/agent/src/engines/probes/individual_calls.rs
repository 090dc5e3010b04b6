//! Individual calls of rewritten methods, on their way from the threads that make them to the
//! thread that reports them.

use crate::ring::Ring;

/// Most calls that wait to be read, of each thread: a fifth of a second of 80,000 calls a second.
const MOST: usize = 16_384;
/// Words of each.
const WORDS: usize = 3;

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
    /// Whether its [arguments](crate::engines::probes::arguments::Values) are reported.
    pub arguments: bool,
}

/// Calls of one thread. All zeros are none.
#[repr(transparent)]
pub struct Calls(Ring<{ WORDS * MOST }>);

impl Calls {
    /// Adds a call; `false` if there is no room. This and the following are to be called by one
    /// thread at a time.
    pub fn push(&self, call: SingleCall) -> bool {
        let has_room = self.put_down(call);
        self.publish();
        has_room
    }

    /// Adds a call that is not read before [`Self::publish`], in the place of one that waits so;
    /// `false` if there is no room.
    pub fn put_down(&self, call: SingleCall) -> bool {
        self.0.clear();
        let flags = u64::from(call.failed) * FAILED
            + u64::from(call.asynchronous) * ASYNCHRONOUS
            + u64::from(call.arguments) * ARGUMENTS;
        // Slots have 16 bits.
        let what = u64::from(call.os_tid) << 32 | u64::from(call.slot) << SLOT_SHIFT | flags;
        self.0.put(&[what, call.begun, call.taken])
    }

    /// Lets the call be read that was put down, if there is one.
    pub fn publish(&self) {
        self.0.publish(|_| None);
    }

    /// Takes all calls that there are. To be called by one thread at a time.
    pub fn take(&self, mut each: impl FnMut(SingleCall)) {
        for _ in 0..self.0.waiting() / WORDS as u64 {
            let [what, begun, taken] = [0, 1, 2].map(|at| self.0.word(at));
            self.0.skip(WORDS as u64);
            each(SingleCall {
                slot: what as u32 >> SLOT_SHIFT,
                os_tid: (what >> 32) as u32,
                begun,
                taken,
                failed: what & FAILED != 0,
                asynchronous: what & ASYNCHRONOUS != 0,
                arguments: what & ARGUMENTS != 0,
            });
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
        SingleCall {
            slot,
            os_tid,
            begun,
            taken: begun * 3,
            failed: odd,
            asynchronous: !odd,
            arguments,
        }
    }

    #[test]
    fn calls_come_out_as_they_went_in_and_there_are_not_too_many() {
        // SAFETY: it is made of atomic numbers only.
        let ring = unsafe { Zeroed::<Calls>::reserve() }.unwrap();
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
