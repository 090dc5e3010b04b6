//! Whether the end of an event session could harm a process: because its threads wait long for a
//! processor when they are ready to run, or because it has no address space left.
//!
//! The end of an event session can make .NET Core 3.1 hang for good when a thread that is just
//! writing an event gets no processor for a long time (see [`keeper`](crate::keeper)). One such
//! thread is enough. So sessions are not started, and not ended, while any thread waits long.
//!
//! It also ends with SIGSEGV where it gets no address space for the event that the end of each
//! session writes. What the agent takes is free a moment later.

use super::limits;
use super::proc::{self, State, ThreadTimes};
use crate::error::Overload;
use std::collections::TryReserveError;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// With more ready threads than this for each processor, on the machine, waits are observed.
const CROWDED: usize = 6;
/// With more ready threads than this for each processor, nothing is recorded from the start of a
/// process, where there are no threads to observe yet.
const FULL: usize = 16;
/// A process is overloaded while one of its threads waits this long for a processor. Measured with
/// a program that collects all the time, on two processors with 8, 18, 32 and 65 ready threads: the
/// worst thread waits this long in 0, 17, 69 and 93 % of the windows, and 4, 53, 135 and 269 ms in
/// the median window.
const LIMIT: Duration = Duration::from_millis(100);
/// For how long threads are observed at a time: no less, so that one that gets no processor counts.
const WINDOW: Duration = LIMIT;
/// Most of this many windows decide at the start of a session: one long wait is no overload.
const WINDOWS: u32 = 5;
/// An overload is over when no thread waited long in this many windows in a row.
const GOOD: u32 = 3;
/// How long to wait after a window in which a thread waited long: each reads two files for every
/// thread.
const AGAIN: Duration = Duration::from_millis(100);
/// Threads that are observed at most.
const THREADS: usize = 4096;

/// Observes the threads of a process. After [`Observer::new`], it allocates nothing.
#[derive(Debug)]
pub struct Observer {
    pid: u32,
    processors: usize,
    before: Vec<ThreadTimes>,
    after: Vec<ThreadTimes>,
}

/// What was seen in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The machine has few threads that are ready.
    Idle,
    /// No thread waited long.
    Good,
    /// A thread waited this long.
    Wait(Duration),
    /// Only these bytes of address space are left.
    NoRoom(u64),
    /// The threads cannot be read.
    Unreadable,
    /// There is no such process any more.
    Gone,
}

/// Whether a process is overloaded now. Takes up to 0.5 s on a machine with many ready threads, and
/// no time on others. Threads that cannot be read are not known to wait.
pub fn of_process(pid: u32) -> Option<Overload> {
    let mut observer = Observer::new(pid).ok()?;
    let mut decision = Decision::default();
    loop {
        if let Some(wait) = decision.after(observer.observe())? {
            return Some(Overload::Thread { pid, wait });
        }
    }
}

/// Whether a process that is just starting will be overloaded, because of the ready threads of the
/// machine.
pub fn of_machine() -> Option<Overload> {
    let processors = processors();
    let mut least = usize::MAX;
    for _ in 0..GOOD {
        least = least.min(proc::ready_threads().ok()?);
        if least <= FULL * processors {
            return None;
        }
        sleep(WINDOW);
    }
    Some(Overload::Machine { ready: least, processors })
}

/// Waits until a process is not overloaded, for `limit` at most; what is still so then. What cannot
/// be read may be an overload.
pub fn wait_until_over(pid: u32, limit: Duration) -> Option<Overload> {
    match Observer::new(pid) {
        Ok(mut observer) => observer.wait_until_over(limit),
        Err(_) => {
            sleep(limit);
            Some(Overload::Unreadable { pid })
        }
    }
}

impl Observer {
    /// Prepares to observe a process.
    pub fn new(pid: u32) -> Result<Self, TryReserveError> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        before.try_reserve_exact(THREADS)?;
        after.try_reserve_exact(THREADS)?;
        Ok(Self { pid, processors: processors(), before, after })
    }

    /// As [`wait_until_over`].
    pub fn wait_until_over(&mut self, limit: Duration) -> Option<Overload> {
        let until = Instant::now() + limit;
        let (mut good, mut last, mut first) = (0, None, true);
        loop {
            let seen = self.observe();
            match seen {
                Seen::Gone => return None,
                // Nothing was crowded before.
                Seen::Idle if first => return None,
                Seen::Idle => {
                    good += 1;
                    sleep(WINDOW);
                }
                Seen::Good => good += 1,
                Seen::Wait(wait) => {
                    good = 0;
                    last = Some(Overload::Thread { pid: self.pid, wait });
                }
                Seen::NoRoom(free) => {
                    good = 0;
                    last = Some(Overload::AddressSpace { pid: self.pid, free });
                }
                Seen::Unreadable => {
                    good = 0;
                    last = Some(Overload::Unreadable { pid: self.pid });
                }
            }
            first = false;
            if good >= GOOD {
                return None;
            }
            if Instant::now() >= until && (good == 0 || last.is_some()) {
                return last;
            }
            if good == 0 {
                sleep(AGAIN);
            }
        }
    }

    /// Observes for a window, if the machine has many ready threads.
    fn observe(&mut self) -> Seen {
        if let Some(free) = limits::too_little_to_end(self.pid) {
            return Seen::NoRoom(free);
        }
        match proc::ready_threads() {
            Ok(ready) if ready <= CROWDED * self.processors => return Seen::Idle,
            Ok(_) => {}
            Err(_) => return Seen::Unreadable,
        }
        let from = Instant::now();
        let read = proc::thread_times(self.pid, &mut self.before).and_then(|()| {
            sleep(WINDOW);
            let window = from.elapsed();
            proc::thread_times(self.pid, &mut self.after).map(|()| window)
        });
        match read {
            Ok(window) => match longest(&self.before, &self.after, window) {
                wait if wait >= LIMIT => Seen::Wait(wait),
                _ => Seen::Good,
            },
            Err(error) if proc::is_gone(&error) => Seen::Gone,
            Err(_) => Seen::Unreadable,
        }
    }
}

/// Counts windows until most of them agree.
#[derive(Default)]
struct Decision {
    good: u32,
    bad: u32,
    longest: Duration,
}

impl Decision {
    /// `None` when there is no overload, the longest wait when there is one.
    fn after(&mut self, seen: Seen) -> Option<Option<Duration>> {
        match seen {
            Seen::Idle | Seen::NoRoom(_) | Seen::Unreadable | Seen::Gone => return None,
            Seen::Good => self.good += 1,
            Seen::Wait(wait) => {
                self.bad += 1;
                self.longest = self.longest.max(wait);
            }
        }
        if self.good > WINDOWS / 2 {
            return None;
        }
        Some((self.bad > WINDOWS / 2).then_some(self.longest))
    }
}

/// Processors of the machine that are on.
fn processors() -> usize {
    // The first line is the sum of those that have a number.
    let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().filter(is_one).count().max(1)
}

/// How long the thread that waited longest for a processor waited each time that it was ready: for
/// as long as it was observed if it did not get one.
fn longest(before: &[ThreadTimes], after: &[ThreadTimes], window: Duration) -> Duration {
    let waits = after.iter().map(|after| {
        let at = before.binary_search_by_key(&after.tid, |before| before.tid);
        let before = at.ok().and_then(|at| before.get(at));
        let (waited, turns) = before.map_or((0, 0), |before| (before.waited, before.turns));
        let turns = after.turns.saturating_sub(turns);
        match (after.waited.saturating_sub(waited).checked_div(turns), before) {
            (Some(wait), _) => Duration::from_nanos(wait),
            (None, Some(before)) if is_waiting(before) && is_waiting(after) => {
                // One that is on a processor has no new turn either, but its time on it grows.
                if before.ran == after.ran { window } else { Duration::ZERO }
            }
            (None, _) => Duration::ZERO,
        }
    });
    waits.max().unwrap_or_default()
}

fn is_waiting(times: &ThreadTimes) -> bool {
    times.state == State::Running
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::thread::available_parallelism;

    const MS: u64 = 1_000_000;

    /// A thread with its state, times in milliseconds, and turns.
    fn thread(tid: u32, state: State, ran: u64, waited: u64, turns: u64) -> ThreadTimes {
        ThreadTimes { tid, state, ran: ran * MS, waited: waited * MS, turns }
    }

    #[test]
    fn the_thread_that_waits_longest_counts() {
        use State::{Running, Sleeping};
        // Nineteen threads that wait 1 ms each time, 100 times, and one that waits 70 ms once.
        let busy = |times: u64| (1..20).map(move |tid| thread(tid, Sleeping, 9, times, times));
        let before: Vec<_> = busy(0).chain([thread(20, Running, 5, 10, 3)]).collect();
        let after: Vec<_> = busy(100).chain([thread(20, Running, 6, 80, 4)]).collect();
        assert_eq!(longest(&before, &after, WINDOW), Duration::from_millis(70));
        // Each turn counts for itself.
        let after: Vec<_> = busy(100).chain([thread(20, Running, 6, 80, 73)]).collect();
        assert_eq!(longest(&before, &after, WINDOW), Duration::from_millis(1));
        assert_eq!(longest(&before, &before, WINDOW), WINDOW);
        assert_eq!(longest(&[], &[], WINDOW), Duration::ZERO);
        // A thread that has begun meanwhile.
        let new = [thread(7, Running, 0, 30, 1)];
        assert_eq!(longest(&[], &new, WINDOW), Duration::from_millis(30));
    }

    #[test]
    fn a_thread_that_gets_no_processor_waits_for_as_long_as_it_is_observed() {
        use State::{Running, Sleeping};
        let of = |before, after| longest(&[before], &[after], Duration::from_millis(100));
        let waits = thread(1, Running, 5, 10, 3);
        assert_eq!(of(waits, waits), Duration::from_millis(100));
        // It had a processor all the time, or sleeps.
        assert_eq!(of(waits, thread(1, Running, 105, 10, 3)), Duration::ZERO);
        assert_eq!(of(thread(1, Sleeping, 5, 10, 3), waits), Duration::ZERO);
        assert_eq!(of(waits, thread(2, Running, 5, 0, 0)), Duration::ZERO);
    }

    #[test]
    fn one_long_wait_is_no_overload_and_most_windows_decide() {
        let wait = |ms| Seen::Wait(Duration::from_millis(ms));
        let decided = |windows: &[Seen]| {
            let mut decision = Decision::default();
            windows.iter().find_map(|seen| match decision.after(*seen) {
                None => Some(None),
                Some(overload) => overload.map(Some),
            })
        };
        assert_eq!(decided(&[wait(900), Seen::Good, Seen::Good, Seen::Good]), Some(None));
        let bad = [wait(60), Seen::Good, wait(90), Seen::Good, wait(70)];
        assert_eq!(decided(&bad), Some(Some(Duration::from_millis(90))));
        assert_eq!(decided(&bad[..4]), None);
        for known in [Seen::Idle, Seen::Unreadable, Seen::Gone] {
            assert_eq!(decided(&[wait(900), known]), Some(None));
        }
    }

    #[test]
    fn the_processors_of_the_machine_are_counted() {
        assert!(processors() >= available_parallelism().unwrap().get());
    }

    struct Busy(Vec<Child>);

    impl Busy {
        fn start(count: usize, command: &str) -> Self {
            let one = || Command::new("sh").args(["-c", command]).spawn().unwrap();
            Self((0..count).map(|_| one()).collect())
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    #[test]
    fn many_more_busy_processes_than_processors_are_an_overload_until_they_end() {
        const BUSY: &str = "while :; do :; done";
        let processors = available_parallelism().unwrap().get();
        let target = Busy::start(1, BUSY);
        let last = Busy::start(1, "exec nice -n 19 sh -c 'while :; do :; done'");
        let (pid, last) = (target.0[0].id(), (last.0[0].id(), last));
        let others = Busy::start(processors * 24, BUSY);
        let until = Instant::now() + Duration::from_secs(30);
        while of_process(pid).is_none() {
            assert!(Instant::now() < until, "no overload");
        }
        assert!(wait_until_over(pid, Duration::ZERO).is_some());
        // One that waits for seconds is never mistaken for one that does not wait.
        for _ in 0..5 {
            assert!(of_process(last.0).is_some());
            assert!(wait_until_over(last.0, Duration::from_millis(500)).is_some());
        }
        assert!(of_machine().is_some());
        drop((others, last.1));
        assert_eq!(wait_until_over(pid, Duration::from_secs(20)), None);
    }

    #[test]
    fn a_process_without_address_space_is_waited_for() {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        use std::process::Stdio;
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut target = Busy(vec![command.spawn().unwrap()]);
        let pid = target.0[0].id();
        // It has started, and needs nothing more.
        std::io::Read::read_exact(target.0[0].stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let limit = |current| {
            let limit = Rlimit { current, maximum: None };
            prlimit(Pid::from_raw(pid.cast_signed()), Resource::As, limit).unwrap();
        };
        let of = || wait_until_over(pid, Duration::ZERO);
        limit(Some(1 << 20));
        assert!(matches!(of(), Some(Overload::AddressSpace { free: 0, .. })), "{:?}", of());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait_until_over(pid, Duration::from_secs(60)));
            sleep(Duration::from_millis(500));
            assert!(!waiting.is_finished());
            limit(None);
            assert!(!matches!(waiting.join().unwrap(), Some(Overload::AddressSpace { .. })));
        });
    }

    #[test]
    fn a_process_that_has_ended_is_not_overloaded() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let from = Instant::now();
        assert_eq!(wait_until_over(child.id(), Duration::from_secs(20)), None);
        assert_eq!(of_process(child.id()), None);
        assert!(from.elapsed() < Duration::from_secs(10));
    }
}
