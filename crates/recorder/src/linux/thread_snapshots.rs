//! What the kernel says of all threads of the target, again and again.

use super::{target::Target, waits};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;

/// A thread as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OsThread {
    /// Its number in our pid namespace.
    pub tid: u32,
    /// State letter; `?` where it could not be read.
    pub state: u8,
    /// Time on a processor since it began, nanoseconds.
    pub run: u64,
    /// When it began, on the clock of the recording.
    pub born: i64,
    /// The system call in which it waits.
    pub call: Option<u32>,
    /// Whether that has a time limit, where it is known.
    pub limited: Option<bool>,
}

/// What the last snapshot saw.
#[derive(Debug)]
pub(super) struct ThreadSnapshots {
    last: HashMap<u32, OsThread>,
    /// How far the time since the machine started is ahead of the recording's clock: nanoseconds of
    /// being suspended. Taken once, so that one thread has one time of birth.
    ahead: i64,
}

impl Default for ThreadSnapshots {
    fn default() -> Self {
        let nanos = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
        };
        Self { last: HashMap::new(), ahead: nanos(ClockId::Boottime) - nanos(ClockId::Monotonic) }
    }
}

impl ThreadSnapshots {
    /// All threads now, by ascending number, and the numbers of those that the last snapshot saw
    /// and that are gone.
    pub fn snapshot(&mut self, target: &Target) -> (Vec<OsThread>, Vec<u32>) {
        let all: Vec<OsThread> = target
            .thread_times()
            .into_iter()
            .map(|(tid, state, run, born)| {
                let born = born.saturating_sub(self.ahead);
                let mut seen = OsThread { tid, state, run, born, call: None, limited: None };
                match self.last.get(&tid) {
                    // A thread that has not run since is still in the same call.
                    Some(last) if last.run == run && last.born == born && state != b'R' => {
                        (seen.call, seen.limited) = (last.call, last.limited);
                    }
                    _ => {
                        let call = target.system_call(tid);
                        seen.call = call.map(|call| call.number);
                        seen.limited = call.as_ref().and_then(waits::time_limit);
                    }
                }
                seen
            })
            .collect();
        let now: HashMap<u32, OsThread> = all.iter().map(|thread| (thread.tid, *thread)).collect();
        let gone = |(tid, last): (&u32, &OsThread)| {
            // The number may have come again as another thread.
            now.get(tid).is_none_or(|now| now.born != last.born).then_some(*tid)
        };
        let gone = self.last.iter().filter_map(gone).collect();
        self.last = now;
        (all, gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_is_seen_from_its_beginning_to_its_end() {
        let target = Target::new(std::process::id()).unwrap();
        let mut snapshots = ThreadSnapshots::default();
        snapshots.snapshot(&target);
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        // It takes a moment from what it told to its wait.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let before = crate::linux::clock::now() as i64;
        let find = |all: Vec<OsThread>| all.into_iter().find(|seen| seen.tid == tid);
        let seen = find(snapshots.snapshot(&target).0).unwrap();
        assert_eq!((seen.state, seen.limited), (b'S', Some(false)), "{seen:?}");
        assert!((0..200_000_000).contains(&(before - seen.born)), "{seen:?} at {before}");
        assert_eq!(find(snapshots.snapshot(&target).0), Some(seen), "it did nothing");
        drop(end);
        thread.join().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (all, gone) = snapshots.snapshot(&target);
        assert_eq!(find(all), None);
        assert!(!gone.contains(&std::process::id()), "one that stays is not another: {gone:?}");
        assert!(gone.contains(&tid), "{gone:?}");
    }
}
