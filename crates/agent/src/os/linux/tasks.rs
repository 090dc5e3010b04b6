//! CPU time and state of the threads of this process. Nothing stays open: the descriptors are the
//! program's.

use super::clock;
use super::descriptors::{read_task, read_task_now};
use super::threads::{OWN_NAMES, current_tid, is_gone};
use crate::ledger;
use profilers::ThreadMap;

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// Time on a CPU since the thread began, nanoseconds.
    pub run: u64,
    /// State letter: `R`, `S`, `D` …; `?` where it could not be read.
    pub state: u8,
}

/// Reads threads again and again.
///
/// A thread's CPU time is one system call. Its state costs ten times as much, and hardly changes
/// while the thread does not run.
#[derive(Debug, Default)]
pub struct Tasks {
    known: ThreadMap<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    times: TaskTimes,
    /// How often the state was taken as known since it was read.
    taken: u8,
    /// How often it may be.
    most_taken: u8,
    /// Whether the thread was not looked at, at the last tick.
    skipped: bool,
}

impl Tasks {
    /// How often the state of a thread that does not run is taken as known. Meanwhile it may be
    /// woken, and wait for a CPU.
    const MOST_TAKEN: u8 = 7;
    /// The same for a thread that was seen asleep again and again, and has not run meanwhile.
    const MOST_TAKEN_ASLEEP: u8 = 31;

    /// CPU time and state of a thread; `None` if it has ended.
    pub fn read(&mut self, tid: u32) -> Option<TaskTimes> {
        let Some(run) = clock::cpu_of(tid) else {
            self.known.remove(&tid);
            return None;
        };
        if let Some(times) = self.taken(tid, run) {
            return Some(times);
        }
        let times = TaskTimes { run, state: state_of(tid) };
        if times.state == b'?' && is_gone(tid) {
            self.known.remove(&tid);
            return None;
        }
        self.note(tid, times);
        Some(times)
    }

    /// As [`Self::read`], but the state of a thread that has run since the last time is not read:
    /// it is `?`, and whoever finds it out notes it. A thread that has slept for some fifty times
    /// is looked at every other time.
    pub fn read_if_still(&mut self, tid: u32) -> Option<TaskTimes> {
        if let Some(times) = self.asleep(tid) {
            return Some(times);
        }
        let Some(run) = clock::cpu_of(tid) else {
            self.known.remove(&tid);
            return None;
        };
        if let Some(times) = self.taken(tid, run) {
            return Some(times);
        }
        if self.known.get(&tid).is_none_or(|known| known.times.run != run) {
            return Some(TaskTimes { run, state: b'?' });
        }
        let times = TaskTimes { run, state: state_of(tid) };
        if times.state == b'?' && is_gone(tid) {
            self.known.remove(&tid);
            return None;
        }
        self.note(tid, times);
        Some(times)
    }

    /// What is known of a thread that has slept for long, every other time.
    fn asleep(&mut self, tid: u32) -> Option<TaskTimes> {
        let known = self.known.get_mut(&tid)?;
        known.skipped = !known.skipped && known.most_taken == Self::MOST_TAKEN_ASLEEP;
        known.skipped.then_some(known.times)
    }

    /// What is known of a thread that has not run since.
    fn taken(&mut self, tid: u32, run: u64) -> Option<TaskTimes> {
        let known = self.known.get_mut(&tid)?;
        if known.times.run != run || known.taken >= known.most_taken {
            return None;
        }
        known.taken += 1;
        Some(known.times)
    }

    /// The thread was seen in this state.
    pub fn note(&mut self, tid: u32, times: TaskTimes) {
        let (taken, most_taken) = match self.known.get(&tid) {
            // It sleeps on, so it is looked at less often.
            Some(known) if known.times == times && times.state != b'R' => (
                0,
                known.most_taken.saturating_mul(2).saturating_add(1).min(Self::MOST_TAKEN_ASLEEP),
            ),
            Some(_) => (0, Self::MOST_TAKEN),
            // Not all of them are read at the same tick.
            None => ((tid % 8) as u8, Self::MOST_TAKEN),
        };
        self.known.insert(tid, Known { times, taken, most_taken, skipped: false });
    }

    /// Forgets threads that are no longer of interest.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.known.retain(|tid, _| keep(*tid));
    }
}

/// State letter of a thread, `?` if it has ended or cannot be read.
pub fn state_of(tid: u32) -> u8 {
    read_task(tid, "stat", &mut [0; 96]).and_then(state).unwrap_or(b'?')
}

/// The same, also where the program is about to run out of descriptors: for what decides whether
/// the library may be unloaded.
pub fn state_now(tid: u32) -> u8 {
    read_task_now(tid, "stat", &mut [0; 96]).and_then(state).unwrap_or(b'?')
}

/// Sees whether the threads of the program sleep, faster for those that it has seen sleep before.
#[derive(Debug, Default)]
pub struct Sleepers {
    /// Threads that slept, and the CPU time that they had used until then: if that is the same,
    /// they sleep still.
    slept: ThreadMap<u64>,
}

impl Sleepers {
    /// Threads that do not sleep: that run, wait for a processor, or wait for the kernel, as for a
    /// page of memory. Neither the caller, nor [our own](super::threads::OwnThread). `None` where
    /// nobody knows, because there are no descriptors left.
    pub fn awake(&mut self) -> Option<impl Iterator<Item = u32> + '_> {
        let caller = current_tid();
        let tids = all_tids()?;
        // Threads that ended are not listed any more.
        if self.slept.len() > 2 * tids.len() {
            self.slept.clear();
        }
        Some(tids.into_iter().filter(move |&tid| tid != caller && self.is_awake(tid)))
    }

    fn is_awake(&mut self, tid: u32) -> bool {
        // Asked before the state: what it does in between is seen the next time.
        let Some(run) = clock::cpu_of(tid) else {
            // It has ended.
            self.slept.remove(&tid);
            return false;
        };
        if self.slept.get(&tid) == Some(&run) {
            return false;
        }
        let mut text = [0; 96];
        let Some(text) = read_task(tid, "stat", &mut text) else {
            // It has ended, or nobody knows.
            return !is_gone(tid);
        };
        if is_own(text) {
            return false;
        }
        let awake = matches!(state(text), Some(b'R' | b'D'));
        if !awake {
            self.slept.insert(tid, run);
        }
        awake
    }
}

/// Whether a `stat` line is of a thread of the agent, by its name.
fn is_own(text: &[u8]) -> bool {
    let name = text.iter().position(|&byte| byte == b'(').and_then(|open| text.get(open + 1..));
    name.is_some_and(|name| name.starts_with(OWN_NAMES.as_bytes()))
}

/// The state letter of a `stat` line: the first behind the thread's name, which may itself hold
/// parentheses.
fn state(text: &[u8]) -> Option<u8> {
    let close = text.iter().rposition(|&byte| byte == b')')?;
    text.get(close + 2).copied()
}

/// The folder with all threads of this process.
const ALL: &str = "/proc/self/task";

/// Ids of all threads of this process; `None` where they cannot be read, as without a descriptor
/// beside those that are left to the program.
pub fn all_tids() -> Option<Vec<u32>> {
    tids_of(ledger::folder(ALL).ok()?)
}

/// The same with those, too, as [`ledger::folder_now`].
pub fn all_tids_now() -> Option<Vec<u32>> {
    tids_of(ledger::folder_now(ALL).ok()?)
}

fn tids_of(mut entries: ledger::Counted<std::fs::ReadDir>) -> Option<Vec<u32>> {
    let tid =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    entries.by_ref().map(tid).collect()
}

/// The command line of this process.
pub fn command_line() -> Vec<String> {
    let bytes = ledger::read("/proc/self/cmdline").unwrap_or_default();
    let mut arguments: Vec<_> =
        bytes.split(|&byte| byte == 0).map(|a| String::from_utf8_lossy(a).into_owned()).collect();
    if arguments.last().is_some_and(String::is_empty) {
        arguments.pop();
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_thread_is_running_and_its_time_grows() {
        let mut tasks = Tasks::default();
        let before = tasks.read(current_tid()).unwrap();
        assert_eq!(before.state, b'R');
        let end = clock::thread_cpu() + 20_000_000;
        while clock::thread_cpu() < end {}
        let after = tasks.read(current_tid()).unwrap();
        assert!(after.run > before.run, "{before:?} {after:?}");
    }

    #[test]
    fn a_thread_that_sleeps_for_long_is_looked_at_every_other_time() {
        let mut tasks = Tasks::default();
        let asleep = TaskTimes { run: 5, state: b'S' };
        tasks.note(1, asleep);
        tasks.note(1, asleep);
        assert_eq!([tasks.asleep(1), tasks.asleep(1)], [None, None], "not for long yet");
        tasks.note(1, asleep);
        assert_eq!(
            [1, 1, 1, 1].map(|tid| tasks.asleep(tid)),
            [Some(asleep), None, Some(asleep), None]
        );
        tasks.note(1, TaskTimes { run: 6, state: b'S' });
        assert_eq!([tasks.asleep(1), tasks.asleep(1)], [None, None], "it has run");
        assert_eq!(tasks.asleep(2), None);
    }

    #[test]
    fn a_thread_that_ended_is_none_and_is_forgotten() {
        let (send, receive) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            let _ = wait.recv();
        });
        let tid = receive.recv().unwrap();
        let mut tasks = Tasks::default();
        assert!(tasks.read(tid).is_some());
        assert!(all_tids().unwrap().contains(&tid));
        drop(go);
        thread.join().unwrap();
        // The kernel removes the entry a moment after the join.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            tasks.read(tid).is_none()
        });
        assert!(gone);
        assert!(tasks.known.is_empty());
    }

    #[test]
    fn the_state_of_a_thread_that_does_not_run_is_read_now_and_then() {
        let (send, receive) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            let _ = wait.recv();
        });
        let tid = receive.recv().unwrap();
        let mut tasks = Tasks::default();
        let sleeps = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            tasks.read(tid).unwrap().state == b'S'
        });
        assert!(sleeps);
        // As if it had waited for a processor when it was last read.
        let mut known = Known { taken: 0, most_taken: 7, ..tasks.known[&tid] };
        known.times.state = b'R';
        tasks.known.insert(tid, known);
        let states: Vec<u8> = (0..8).map(|_| tasks.read(tid).unwrap().state).collect();
        assert_eq!(states, *b"RRRRRRRS");
        // One that sleeps on is looked at less and less often.
        let known = |tasks: &Tasks| tasks.known[&tid].most_taken;
        let seen: Vec<u8> = (0..200)
            .map(|_| {
                tasks.read_if_still(tid).unwrap();
                known(&tasks)
            })
            .collect();
        assert_eq!((seen[0], seen[199]), (7, 31));
        assert_eq!(tasks.read_if_still(tid).unwrap().state, b'S');
        drop(go);
        thread.join().unwrap();
    }

    /// What a tick costs with a thousand threads: `cargo nextest run -p agent a_thousand_threads
    /// --run-ignored all --no-capture`.
    #[test]
    #[ignore = "measures"]
    fn a_thousand_threads_are_read() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waits: Vec<_> = (0..1000)
                .map(|_| {
                    let (send, stop) = (send.clone(), &stop);
                    scope.spawn(move || {
                        send.send(current_tid()).unwrap();
                        while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                            std::thread::park();
                        }
                    })
                })
                .collect();
            let tids: Vec<u32> = receive.iter().take(1000).collect();
            let mut tasks = Tasks::default();
            for round in 0..20 {
                let begun = clock::monotonic();
                let read = tids.iter().filter(|&&tid| tasks.read(tid).is_some()).count();
                eprintln!(
                    "round {round}: {read} threads in {} us",
                    (clock::monotonic() - begun) / 1000
                );
            }
            let mut sleepers = Sleepers::default();
            for round in 0..5 {
                let begun = clock::monotonic();
                let awake = sleepers.awake().unwrap().count();
                eprintln!(
                    "round {round}: {awake} awake in {} us",
                    (clock::monotonic() - begun) / 1000
                );
            }
            stop.store(true, std::sync::atomic::Ordering::SeqCst);
            waits.iter().for_each(|thread| thread.thread().unpark());
        });
    }

    #[test]
    fn a_thread_is_awake_until_it_sleeps_and_our_own_are_not_looked_at() {
        use super::super::threads::OwnThread;
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
        static OVER: AtomicBool = AtomicBool::new(false);
        let spin = |send: std::sync::mpsc::Sender<u32>| {
            move || {
                send.send(current_tid()).unwrap();
                while !OVER.load(SeqCst) {
                    std::hint::spin_loop();
                }
            }
        };
        let (send, receive) = std::sync::mpsc::channel();
        let own = OwnThread::spawn("clrscope-test", spin(send.clone())).unwrap();
        let own_tid = receive.recv().unwrap();
        let other = std::thread::spawn(spin(send));
        let tid = receive.recv().unwrap();
        let mut sleepers = Sleepers::default();
        // Tests run beside this one.
        let awake: Vec<u32> = sleepers.awake().unwrap().collect();
        assert!(
            awake.contains(&tid) && !awake.contains(&own_tid) && !awake.contains(&current_tid()),
            "{awake:?}"
        );
        OVER.store(true, SeqCst);
        other.join().unwrap();
        own.join();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (send, receive) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            let _ = wait.recv();
        });
        let tid = receive.recv().unwrap();
        let sleeps = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            sleepers.awake().unwrap().all(|other| other != tid)
        });
        assert!(sleeps);
        drop(go);
        sleeper.join().unwrap();
    }

    #[test]
    fn odd_names_do_not_hide_the_state() {
        assert_eq!(state(b"12 (a) b) S 1 2 3"), Some(b'S'));
        assert_eq!(state(b"12 (a)"), None);
        assert!(is_own(b"12 (clrscope-rejit) S") && !is_own(b"12 (my clrscope-x) S"));
    }

    #[test]
    fn the_command_line_is_ours() {
        assert_eq!(command_line().first().map(String::as_str), std::env::args().next().as_deref());
    }
}
