//! Which methods are being compiled: when a thread began, and whether all are done that had begun at some time.

use crate::os::clock;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wire::Nanos;

/// How many compilations of a thread can lie in each other, of those that are followed.
const DEEPEST: usize = 4;

thread_local! {
    // Without a destructor: threads of the target may be about to end. Compilations nest: compiling one method can run another.
    // When each began, and in which half.
    static COMPILING: [Cell<(Nanos, usize)>; DEEPEST] = const { [const { Cell::new((0, 0)) }; DEEPEST] };
}

/// Compilations under way. New ones count in one half, until it is the turn of the other one: then the first only falls.
static UNDER_WAY: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static TURN: AtomicUsize = AtomicUsize::new(0);

/// This thread begins to compile a method, maybe within the compilation of another one.
pub fn begin() {
    let _ = COMPILING.try_with(|started| {
        if let Some(free) = started.iter().find(|cell| cell.get().0 == 0) {
            let half = TURN.load(SeqCst) % 2;
            if let Some(under_way) = UNDER_WAY.get(half) {
                under_way.fetch_add(1, SeqCst);
            }
            free.set((clock::monotonic().max(1), half));
        }
    });
}

/// This thread has compiled what it last began to compile. Gives when that was; 0 if it is not known.
pub fn end() -> Nanos {
    let ended = COMPILING.try_with(|started| {
        let Some(newest) = started.iter().rev().find(|cell| cell.get().0 != 0) else { return 0 };
        let (start, half) = newest.replace((0, 0));
        if let Some(under_way) = UNDER_WAY.get(half) {
            under_way.fetch_sub(1, SeqCst);
        }
        start
    });
    ended.unwrap_or(0)
}

/// Waits, at most for `limit`, until all compilations have ended that are under way now. Only one thread at a time may. Whether they have.
/// One that begins meanwhile may count itself late, but does so before it asks for anything.
pub fn wait(limit: Nanos) -> bool {
    let deadline = clock::monotonic() + limit;
    let mut are_over = true;
    // The other half has what an earlier wait has given up.
    for _ in 0..2 {
        let half = TURN.fetch_add(1, SeqCst) % 2;
        let under_way = || UNDER_WAY.get(half).map_or(0, |under_way| under_way.load(SeqCst));
        while under_way() > 0 {
            if clock::monotonic() >= deadline {
                are_over = false;
                break;
            }
            clock::sleep_until(clock::monotonic() + 50_000);
        }
    }
    are_over
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn those_that_had_begun_are_waited_for_and_no_others() {
        let (go, gone) = channel::<()>();
        let (said, heard) = channel();
        let thread = std::thread::spawn(move || {
            begin();
            begin();
            assert!(end() > 0);
            said.send(()).unwrap();
            gone.recv().unwrap();
            assert!(end() > 0);
            assert_eq!(end(), 0, "there is none any more");
        });
        heard.recv().unwrap();
        assert!(!wait(20_000_000));
        go.send(()).unwrap();
        assert!(wait(10_000_000_000));
        thread.join().unwrap();
        // Deeper ones are left out, and all come out even.
        (0..DEEPEST + 2).for_each(|_| begin());
        (0..DEEPEST + 2).for_each(|_| _ = end());
        assert!(wait(10_000_000_000));
    }
}
