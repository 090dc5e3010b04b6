//! Keeps lookups in the runtime's map of code and suspensions of the runtime apart.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use crate::host::unloads::Counted;
use crate::os::clock;
use wire::Nanos;

/// Which lookups are under way, and whether the runtime is suspended.
///
/// The runtime removes code from its map while it is suspended: when it unloads assemblies, and at
/// the end of a collection that found dynamic methods dead (`ExecutionManager::Unload`,
/// src/coreclr/vm/codeman.cpp, and `SyncClean::CleanUp`, src/coreclr/vm/syncclean.cpp). Managed
/// threads are then either suspended, or take a lock for each lookup. A thread of ours is not
/// managed, so it is not suspended and takes no lock (`ExecutionManager::GetScanFlags`): it would
/// read what is freed at that moment, whatever address it looks up.
///
/// So a lookup does not begin before the runtime has resumed, and a suspension does not begin
/// before lookups have ended. The callbacks of suspensions are in every event mask of ours.
///
/// Where assemblies are unloaded, .NET 8 and newer remove code also while they run. There lookups
/// are made in a suspension of our own ([`Runtime::with_code_at`](crate::host::runtime::Runtime)),
/// and not through this.
///
/// A suspension that began before its callbacks were on ends without having been seen. So there are
/// no lookups before a suspension of our own has been granted and reported: no other one is under
/// way then.
#[derive(Debug, Default)]
pub struct CodeMap {
    lookups: AtomicU32,
    /// All suspensions are seen that may be under way.
    sees_all: AtomicBool,
    suspended: AtomicBool,
    /// A lookup did not end in time, and has not since: nobody waits for it again.
    is_stuck: AtomicBool,
    /// The suspension that is under way was waited for in vain: it is not waited for again.
    is_long: AtomicBool,
}

/// Pause between two checks, nanoseconds.
const PAUSE: Nanos = 20_000;

impl CodeMap {
    /// Longest time that a suspension waits. A lookup takes some microseconds, but its thread may
    /// wait for a processor. It may also be held by a debugger: the program must not wait for that.
    /// Pauses are counted beside the time: a process that was stopped, or gets no processor, has
    /// not waited. One takes some 70 us, as the kernel rounds it up.
    const SUSPEND_LIMIT: Nanos = 500_000_000;
    const SUSPEND_PAUSES: u32 = 1000;

    /// Longest time that a lookup waits, in which a suspension ends. Longer GC pauses are rare, and
    /// then a few addresses of walked stacks have no name.
    pub const LOOKUP_LIMIT: Nanos = 5_000_000_000;

    /// The callback `RuntimeSuspendStarted`: when this returns, no lookup is under way.
    pub fn suspending(&self) {
        self.suspended.store(true, SeqCst);
        let deadline = clock::monotonic() + Self::SUSPEND_LIMIT;
        for pause in 0_u32.. {
            if self.lookups.load(SeqCst) == 0 {
                self.is_stuck.store(false, SeqCst);
                return;
            }
            let is_over = pause >= Self::SUSPEND_PAUSES && clock::monotonic() > deadline;
            if is_over || self.is_stuck.load(SeqCst) {
                self.is_stuck.store(true, SeqCst);
                return;
            }
            clock::sleep_until(clock::monotonic() + PAUSE);
        }
    }

    /// The callback `RuntimeResumeStarted`, before which the runtime has removed what it removes;
    /// and `RuntimeSuspendAborted`.
    pub fn resuming(&self) {
        self.suspended.store(false, SeqCst);
        self.is_long.store(false, SeqCst);
    }

    /// The callbacks of suspensions are about to be switched on, in a process that runs: one may be
    /// under way.
    pub fn begin(&self) {
        self.sees_all.store(false, SeqCst);
        self.resuming();
    }

    /// The process is about to start, and was never suspended; callbacks are on.
    pub fn begin_at_start(&self) {
        self.sees_all.store(true, SeqCst);
    }

    /// The runtime has been suspended for us. If that was reported, callbacks are on.
    pub fn suspended_for_us(&self) {
        if self.suspended.load(SeqCst) {
            self.sees_all.store(true, SeqCst);
        }
    }

    /// Whether every suspension is seen that may be under way. Before that, nothing is looked up.
    pub fn sees_all(&self) -> bool {
        self.sees_all.load(SeqCst)
    }

    /// The suspension that is under way takes too long to be waited for.
    pub fn takes_long(&self) {
        self.is_long.store(true, SeqCst);
        if !self.suspended.load(SeqCst) {
            self.is_long.store(false, SeqCst);
        }
    }

    /// Whether a lookup need not be tried now: the end of a suspension is not seen, or was waited
    /// for in vain.
    pub fn is_hopeless(&self) -> bool {
        !self.sees_all() || self.is_long.load(SeqCst)
    }

    /// Looks something up; `None` while the runtime is suspended, or may be.
    pub fn try_look_up<R>(&self, then: impl FnOnce() -> R) -> Option<R> {
        let _lookup = Counted::new(&self.lookups);
        (!self.suspended.load(SeqCst) && self.sees_all()).then(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks something up as soon as the runtime is not suspended.
    fn look_up<R>(map: &CodeMap, then: impl Fn() -> R) -> R {
        loop {
            match map.try_look_up(&then) {
                Some(found) => return found,
                None => clock::sleep_until(clock::monotonic() + PAUSE),
            }
        }
    }

    fn seeing() -> CodeMap {
        let map = CodeMap::default();
        map.begin_at_start();
        map
    }

    use std::{
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    #[test]
    fn a_suspension_begins_when_lookups_have_ended() {
        let map = seeing();
        let (inside, is_inside) = mpsc::channel();
        thread::scope(|scope| {
            let lookup = scope.spawn(|| {
                look_up(&map, || {
                    inside.send(()).unwrap();
                    thread::sleep(Duration::from_millis(100));
                    Instant::now()
                })
            });
            is_inside.recv().unwrap();
            map.suspending();
            let begun = Instant::now();
            assert!(lookup.join().unwrap() <= begun);
        });
    }

    #[test]
    fn a_lookup_begins_when_the_runtime_has_resumed() {
        let map = seeing();
        map.suspending();
        thread::scope(|scope| {
            let lookup = scope.spawn(|| look_up(&map, Instant::now));
            thread::sleep(Duration::from_millis(100));
            let resumed = Instant::now();
            map.resuming();
            assert!(lookup.join().unwrap() >= resumed);
        });
    }

    #[test]
    fn lookups_and_suspensions_are_never_under_way_together() {
        let map = seeing();
        let suspended = AtomicBool::new(false);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(SeqCst) {
                        assert!(!look_up(&map, || suspended.load(SeqCst)));
                    }
                });
            }
            for _ in 0..2000 {
                map.suspending();
                suspended.store(true, SeqCst);
                std::hint::spin_loop();
                suspended.store(false, SeqCst);
                map.resuming();
            }
            over.store(true, SeqCst);
        });
    }

    #[test]
    fn a_lookup_that_does_not_end_holds_nobody_up_for_long() {
        let map = seeing();
        let held = Counted::new(&map.lookups);
        let begun = Instant::now();
        map.suspending();
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_millis(500), "{waited:?}");
        // Not each time again.
        map.resuming();
        map.suspending();
        assert!(map.is_stuck.load(SeqCst));
        drop(held);
        map.suspending();
        assert!(!map.is_stuck.load(SeqCst));
    }

    #[test]
    fn a_suspension_that_began_unseen_is_waited_for() {
        let map = CodeMap::default();
        assert_eq!(map.try_look_up(|| 1), None, "one may be under way");
        map.suspending();
        // Ours is granted.
        map.suspended_for_us();
        assert_eq!(map.try_look_up(|| 1), None);
        map.resuming();
        assert_eq!(map.try_look_up(|| 1), Some(1));
        // A further session: callbacks were off meanwhile, and one of ours is not reported.
        map.suspending();
        map.begin();
        map.suspended_for_us();
        assert!(map.is_hopeless() && map.try_look_up(|| 1).is_none());
        map.suspending();
        map.suspended_for_us();
        map.resuming();
        assert_eq!(map.try_look_up(|| 1), Some(1));
    }

    #[test]
    fn a_long_suspension_is_waited_for_once() {
        let map = seeing();
        map.suspending();
        assert!(!map.is_hopeless());
        map.takes_long();
        assert!(map.is_hopeless());
        map.resuming();
        assert!(!map.is_hopeless());
        map.takes_long();
        assert!(!map.is_hopeless(), "it has ended meanwhile");
    }
}
