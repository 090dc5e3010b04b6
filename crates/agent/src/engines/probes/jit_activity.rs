//! Which methods are being compiled: when a thread began, and whether all are done that had begun
//! at some time.

use crate::os::clock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use wire::Nanos;

/// How many compilations of a thread can lie in each other, of those that are followed.
const DEEPEST: usize = 4;

#[derive(Clone, Copy)]
struct Begun {
    /// When; 0 for none.
    at: Nanos,
    /// Where it was counted, see [`UNDER_WAY`].
    half: usize,
    session: u64,
}

impl Begun {
    const NONE: Self = Self { at: 0, half: 0, session: 0 };
}

thread_local! {
    // Without a destructor: threads of the target may be about to end. Compilations nest: compiling
    // one method can run another.
    static COMPILING: [Cell<Begun>; DEEPEST] = const { [const { Cell::new(Begun::NONE) }; DEEPEST] };
}

/// Compilations under way, below the number of the session that they belong to. New ones count in
/// one half, until it is the turn of the other one: then the first only falls.
static UNDER_WAY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static TURN: AtomicUsize = AtomicUsize::new(0);
/// Bits of [`UNDER_WAY`] that count.
const COUNT: u32 = 32;

/// A session begins, and with it the callbacks. Of compilations that were under way as the one
/// before ended, nobody has heard the end.
pub fn restart() {
    for half in &UNDER_WAY {
        half.store(((half.load(SeqCst) >> COUNT) + 1) << COUNT, SeqCst);
    }
}

/// This thread begins to compile a method, maybe within the compilation of another one.
pub fn begin() {
    let _ = COMPILING.try_with(|started| {
        let half = TURN.load(SeqCst) % 2;
        let Some(under_way) = UNDER_WAY.get(half) else { return };
        let session = under_way.load(SeqCst) >> COUNT;
        started
            .iter()
            .filter(|cell| cell.get().session != session)
            .for_each(|cell| cell.set(Begun::NONE));
        if let Some(free) = started.iter().find(|cell| cell.get().at == 0) {
            // One that begins together with a session is one that was not seen to begin.
            let more = |now: u64| (now >> COUNT == session).then_some(now + 1);
            if under_way.fetch_update(SeqCst, SeqCst, more).is_ok() {
                free.set(Begun { at: clock::monotonic().max(1), half, session });
            }
        }
    });
}

/// This thread has compiled what it last began to compile. Gives when that was; 0 if it is not
/// known.
pub fn end() -> Nanos {
    let ended = COMPILING.try_with(|started| {
        let Some(newest) = started.iter().rev().find(|cell| cell.get().at != 0) else { return 0 };
        let begun = newest.replace(Begun::NONE);
        let less = |now: u64| (now >> COUNT == begun.session).then(|| now - 1);
        let under_way = UNDER_WAY.get(begun.half);
        let is_known =
            under_way.is_some_and(|under_way| under_way.fetch_update(SeqCst, SeqCst, less).is_ok());
        if is_known { begun.at } else { 0 }
    });
    ended.unwrap_or(0)
}

/// Waits, at most for `limit`, until all compilations have ended that are under way now. Only one
/// thread at a time may. Whether they have. One that begins meanwhile may count itself late, but
/// does so before it asks for anything.
pub fn wait(limit: Nanos) -> bool {
    let deadline = clock::monotonic() + limit;
    let mut are_over = true;
    // The other half has what an earlier wait has given up.
    for _ in 0..2 {
        let half = TURN.fetch_add(1, SeqCst) % 2;
        let under_way = || {
            UNDER_WAY.get(half).map_or(0, |under_way| under_way.load(SeqCst) & ((1 << COUNT) - 1))
        };
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
        // Whose end nobody has heard is of no more account in the next session, and takes no room
        // in it.
        (0..DEEPEST).for_each(|_| begin());
        assert!(!wait(20_000_000));
        restart();
        assert!(wait(10_000_000_000));
        begin();
        assert!(!wait(20_000_000));
        assert!(end() > 0);
        assert!(wait(10_000_000_000));
    }
}
