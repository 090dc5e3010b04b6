//! CPU time and state of the threads of this process, from `/proc/self/task`.

use super::threads::{OWN_NAMES, current_tid};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// Time on a CPU since the thread began, nanoseconds.
    pub run: u64,
    /// State letter: `R`, `S`, `D` …; `?` where it could not be read.
    pub state: u8,
}

#[derive(Debug)]
struct Task {
    schedstat: File,
    stat: File,
}

/// Reads threads again and again through files that stay open: a third of the cost of opening them each time.
#[derive(Debug, Default)]
pub struct Tasks {
    open: HashMap<u32, Task>,
}

impl Tasks {
    /// Most threads whose files are kept open. Two descriptors each must not use up the target's limit; further
    /// threads are read by opening and closing.
    const MAX_OPEN: usize = 256;

    /// CPU time and state of a thread; `None` if it has ended, or the kernel was built without scheduler
    /// statistics.
    pub fn read(&mut self, tid: u32) -> Option<TaskTimes> {
        if let Some(task) = self.open.get(&tid) {
            let times = task.read();
            if times.is_none() {
                self.open.remove(&tid);
            }
            return times;
        }
        let task = Task::open(tid)?;
        let times = task.read();
        if times.is_some() && self.open.len() < Self::MAX_OPEN {
            self.open.insert(tid, task);
        }
        times
    }

    /// Closes the files of threads that are no longer of interest.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.open.retain(|tid, _| keep(*tid));
    }
}

impl Task {
    fn open(tid: u32) -> Option<Self> {
        Some(Self {
            schedstat: File::open(format!("/proc/self/task/{tid}/schedstat")).ok()?,
            stat: File::open(format!("/proc/self/task/{tid}/stat")).ok()?,
        })
    }

    fn read(&self) -> Option<TaskTimes> {
        let mut text = [0; 64];
        let read = self.schedstat.read_at(&mut text, 0).ok()?;
        let run = number(text.get(..read)?)?;
        let mut text = [0; 96];
        let state = self.stat.read_at(&mut text, 0).ok().and_then(|read| state(text.get(..read)?));
        Some(TaskTimes { run, state: state.unwrap_or(b'?') })
    }
}

/// Sees whether the threads of the program sleep, faster for those that it has seen sleep before.
#[derive(Debug, Default)]
pub struct Sleepers {
    schedstats: HashMap<u32, File>,
    /// Threads that slept, and how often they had been given a processor until then: if that is the same, they sleep still.
    slept: HashMap<u32, u64>,
}

impl Sleepers {
    /// Threads that do not sleep: that run, wait for a processor, or wait for the kernel, as for a page of memory. Neither the caller, nor
    /// [our own](super::threads::OwnThread).
    pub fn awake(&mut self) -> impl Iterator<Item = u32> + '_ {
        let caller = current_tid();
        all_tids().into_iter().filter(move |&tid| tid != caller && self.is_awake(tid))
    }

    fn is_awake(&mut self, tid: u32) -> bool {
        let turns = self.turns(tid);
        if turns.is_some() && self.slept.get(&tid) == turns.as_ref() {
            return false;
        }
        let mut text = [0; 96];
        let read = File::open(format!("/proc/self/task/{tid}/stat")).and_then(|file| file.read_at(&mut text, 0));
        let Some(text) = read.ok().and_then(|read| text.get(..read)) else {
            // It has ended.
            self.schedstats.remove(&tid);
            self.slept.remove(&tid);
            return false;
        };
        if is_own(text) {
            return false;
        }
        let awake = matches!(state(text), Some(b'R' | b'D'));
        if let (false, Some(turns)) = (awake, turns) {
            self.slept.insert(tid, turns);
        }
        awake
    }

    /// How often a thread was given a processor, where the kernel counts that.
    fn turns(&mut self, tid: u32) -> Option<u64> {
        let opened = match self.schedstats.contains_key(&tid) {
            true => None,
            false => File::open(format!("/proc/self/task/{tid}/schedstat")).ok(),
        };
        let mut text = [0; 64];
        let read = self.schedstats.get(&tid).or(opened.as_ref())?.read_at(&mut text, 0).ok()?;
        if let Some(opened) = opened
            && self.schedstats.len() < 2 * Tasks::MAX_OPEN
        {
            self.schedstats.insert(tid, opened);
        }
        let turns = text.get(..read)?.split(|byte| *byte == b' ').nth(2).and_then(number)?;
        // A kernel that does not count says so: each thread has been given one at least once.
        (turns != 0).then_some(turns)
    }
}

/// Whether a `stat` line is of a thread of the agent, by its name.
fn is_own(text: &[u8]) -> bool {
    let name = text.iter().position(|&byte| byte == b'(').and_then(|open| text.get(open + 1..));
    name.is_some_and(|name| name.starts_with(OWN_NAMES.as_bytes()))
}

/// The decimal number that a text begins with.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut any = false;
    let value = digits.fold(0u64, |value, digit| {
        any = true;
        value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
    });
    any.then_some(value)
}

/// The state letter of a `stat` line: the first behind the thread's name, which may itself hold parentheses.
fn state(text: &[u8]) -> Option<u8> {
    let close = text.iter().rposition(|&byte| byte == b')')?;
    text.get(close + 2).copied()
}

/// Ids of all threads of this process.
pub fn all_tids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The command line of this process.
pub fn command_line() -> Vec<String> {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
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
        let end = crate::os::clock::thread_cpu() + 20_000_000;
        while crate::os::clock::thread_cpu() < end {}
        let after = tasks.read(current_tid()).unwrap();
        assert!(after.run > before.run, "{before:?} {after:?}");
    }

    #[test]
    fn a_thread_that_ended_is_none_and_is_closed() {
        let (send, receive) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            let _ = wait.recv();
        });
        let tid = receive.recv().unwrap();
        let mut tasks = Tasks::default();
        assert!(tasks.read(tid).is_some());
        assert!(all_tids().contains(&tid));
        drop(go);
        thread.join().unwrap();
        // The kernel removes the entry a moment after the join.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            tasks.read(tid).is_none()
        });
        assert!(gone);
        assert!(tasks.open.is_empty());
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
        let awake: Vec<u32> = sleepers.awake().collect();
        assert!(awake.contains(&tid) && !awake.contains(&own_tid) && !awake.contains(&current_tid()), "{awake:?}");
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
            sleepers.awake().all(|other| other != tid)
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
        assert_eq!(number(b"17 5 6\n"), Some(17));
        assert_eq!(number(b""), None);
    }

    #[test]
    fn the_command_line_is_ours() {
        assert_eq!(command_line().first().map(String::as_str), std::env::args().next().as_deref());
    }
}
