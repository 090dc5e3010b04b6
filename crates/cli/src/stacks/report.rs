//! A thread dump in a form for people and programs.

use crate::tasks;
use inspect::{LockShown, LockWait, Stacks, ThreadLocks};
use profile::{kind_id, state_id};
use recorder::{DumpedFrame, DumpedThread, StackEnd, ThreadDump};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Version of the form; fields may be added without a new one.
pub const SCHEMA: u32 = 1;

/// All threads of a process at one time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    pub schema: u32,
    pub pid: u32,
    /// Name of the process.
    pub process: String,
    pub runtime: Option<String>,
    /// When the threads were read, in milliseconds since 1970.
    pub time_unix_ms: u64,
    pub read_by: ReadBy,
    /// Why it was not read in a better way, such as with the agent.
    pub reason: Option<String>,
    /// From the start of the command to the last stack, in milliseconds.
    pub elapsed_ms: f64,
    /// How long it took to read the threads, in milliseconds; they ran on meanwhile. `None` where
    /// the runtime walked them.
    pub reading_ms: Option<f64>,
    /// The threads: those with managed frames first.
    pub threads: Vec<Thread>,
    /// Threads with equal frames, most threads first. With `--merged`.
    pub groups: Option<Vec<Group>>,
    pub locks: Locks,
    /// Asynchronous methods that wait. With `--async`.
    #[serde(rename = "async")]
    pub asynchronous: Option<tasks::report::Report>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// How threads were read, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBy {
    /// From outside; the agent in the process named the managed code.
    Agent,
    /// By the agent itself, because the memory of the process may not be read from outside: managed
    /// frames of managed threads only.
    AgentAlone,
    /// From outside, with no help of the runtime.
    Outside,
}

/// Whether the locks were read.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Locks {
    pub read: bool,
    /// Why not.
    pub reason: Option<String>,
    /// What they mean, in a line: `clrscope deadlocks` says more.
    pub verdict: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Thread {
    /// Thread id of the operating system.
    pub os_tid: u32,
    /// `Thread.ManagedThreadId`, where known.
    pub managed_id: Option<u32>,
    /// Name, where it has one.
    pub name: Option<String>,
    /// Whether it is a thread of the runtime's list: it has run managed code, or will.
    pub managed: bool,
    /// `running`, `lock`, `sleep`, `io`, `idle`, `gc`, `task`, `event`, `runtime` or `other`.
    pub state: &'static str,
    /// The same in words; the wait that it is in as a programmer calls it, where that is known.
    pub doing: String,
    /// State letter of the kernel: R running, S sleeping, D waiting for a disk, T stopped.
    pub os_state: Option<char>,
    pub system_call: Option<SystemCall>,
    /// Time on a processor since it began, in milliseconds.
    pub cpu_ms: Option<f64>,
    /// How long ago it began, in seconds.
    pub age_seconds: Option<f64>,
    pub waits_for: Option<LockWait>,
    /// Locks that it holds and that others wait for.
    pub holds: Vec<LockShown>,
    /// From the leaf to the root.
    pub frames: Vec<Frame>,
    pub end: End,
}

/// The system call in which a thread waits.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SystemCall {
    pub number: u32,
    pub has_time_limit: Option<bool>,
}

/// How the frames of a thread end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// At the root of the thread.
    Root,
    /// The stack is deeper than what is copied of one.
    Truncated,
    /// The caller of the last frame was not found.
    CallersNotFound,
    /// The thread ran, and was not met on a processor in time: it has no frames.
    NotSampled,
    /// Its stack could not be read: it has no frames.
    NotReadable,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Frame {
    /// `managed`, `dynamic`, `stub`, `native`, `runtime`, `gc`, `jit`, `kernel` or `unknown`.
    pub kind: &'static str,
    /// Type, method and parameters as the programmer wrote them, or the native function. In
    /// brackets where only the library, or the kind of code, is known.
    pub name: String,
    /// Assembly or library.
    pub module: Option<String>,
    /// Source file, where symbols tell.
    pub file: Option<String>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Whether it was found by a search of the stack, which may be wrong.
    pub guessed: bool,
}

/// Threads with equal frames.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Group {
    pub count: usize,
    /// Their thread ids of the operating system.
    pub os_tids: Vec<u32>,
    /// What they do, where all do the same.
    pub doing: Option<String>,
    pub frames: Vec<Frame>,
    pub end: End,
}

impl From<StackEnd> for End {
    fn from(end: StackEnd) -> Self {
        match end {
            StackEnd::Complete => Self::Root,
            StackEnd::Truncated => Self::Truncated,
            StackEnd::CallersNotFound => Self::CallersNotFound,
            StackEnd::NotSampled => Self::NotSampled,
            StackEnd::NotReadable => Self::NotReadable,
        }
    }
}

impl Frame {
    fn of(frame: &DumpedFrame) -> Self {
        Self {
            kind: kind_id(frame.kind),
            name: frame.full_name(),
            module: frame.module.clone(),
            file: frame.file.clone(),
            line: frame.line,
            guessed: frame.guessed,
        }
    }

    /// Whether it is a method of a program or library.
    pub fn is_managed(&self) -> bool {
        matches!(self.kind, "managed" | "dynamic")
    }

    /// Whether it is native code of which only the library is known.
    fn is_nameless(&self) -> bool {
        !self.is_managed() && self.name.starts_with('[')
    }
}

impl Thread {
    fn of(thread: &DumpedThread) -> Self {
        let managed = thread.frames.iter().filter(|frame| frame.is_managed());
        let named = managed.map(|frame| (frame.type_name.as_str(), frame.name.as_str()));
        let doing = match StackEnd::NotReadable == thread.end {
            true => "not known",
            false => inspect::doing(thread.state, named.clone()),
        };
        Self {
            os_tid: thread.os_tid,
            managed_id: None,
            name: thread.name.clone(),
            managed: thread.managed || named.clone().next().is_some(),
            state: state_id(thread.state),
            doing: doing.to_owned(),
            os_state: Some(thread.os_state),
            system_call: thread
                .call
                .map(|number| SystemCall { number, has_time_limit: thread.limited }),
            cpu_ms: Some(thread.cpu.as_secs_f64() * 1e3),
            age_seconds: Some(thread.age.as_secs_f64()),
            waits_for: None,
            holds: Vec::new(),
            frames: frames_of(&thread.frames),
            end: thread.end.into(),
        }
    }

    /// Adds what the runtime's own structures say of it.
    fn add(&mut self, locks: ThreadLocks) {
        let ThreadLocks { managed_id, name, waits_for, holds } = locks;
        self.managed = true;
        self.managed_id = Some(managed_id).filter(|id| *id != 0);
        self.name = name.or(self.name.take());
        if let Some(wait) = &waits_for {
            // Waits of the base library for a pulse have a better name.
            if !wait.for_pulse {
                (self.state, self.doing) = ("lock", "waiting for a lock".to_owned());
            } else if matches!(self.doing.as_str(), "waiting" | "not known") {
                (self.state, self.doing) = ("event", "Monitor.Wait".to_owned());
            }
        }
        (self.waits_for, self.holds) = (waits_for, holds);
    }

    fn has_managed_frames(&self) -> bool {
        self.frames.iter().any(Frame::is_managed)
    }
}

/// Frames, one for a run of native code of one library that has no symbols.
fn frames_of(dumped: &[DumpedFrame]) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::with_capacity(dumped.len());
    for frame in dumped.iter().map(Frame::of) {
        match frames.last_mut() {
            Some(last) if last.name == frame.name && last.is_nameless() => {
                last.guessed &= frame.guessed;
            }
            _ => frames.push(frame),
        }
    }
    frames
}

/// The threads of a dump.
pub fn threads_of(dump: &ThreadDump) -> Vec<Thread> {
    dump.threads.iter().map(Thread::of).collect()
}

/// The threads of stacks that the agent has taken alone.
pub fn threads_of_stacks(stacks: &Stacks) -> Vec<Thread> {
    let thread = |(os_tid, stack): (&u32, &inspect::ThreadStack)| Thread {
        os_tid: *os_tid,
        managed_id: None,
        name: stack.name.clone(),
        managed: true,
        state: state_id(stack.state),
        doing: stack.doing.to_owned(),
        os_state: None,
        system_call: None,
        cpu_ms: None,
        age_seconds: None,
        waits_for: None,
        holds: Vec::new(),
        frames: stack
            .frames
            .iter()
            .map(|frame| Frame {
                kind: "managed",
                name: frame.name.clone(),
                module: None,
                file: frame.file.clone(),
                line: frame.line,
                guessed: false,
            })
            .collect(),
        end: End::Root,
    };
    stacks.threads.iter().map(thread).collect()
}

/// Adds the locks, and sorts: threads with managed frames first, then by thread id.
pub fn complete(threads: &mut [Thread], mut locks: HashMap<u32, ThreadLocks>) {
    for thread in threads.iter_mut() {
        if let Some(locks) = locks.remove(&thread.os_tid) {
            thread.add(locks);
        }
    }
    order::sort_by_key(threads, |thread| (!thread.has_managed_frames(), thread.os_tid));
}

/// Threads with equal frames that do the same.
pub fn groups(threads: &[Thread]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<(&[Frame], End), usize> = HashMap::new();
    for thread in threads {
        let index = *known.entry((thread.frames.as_slice(), thread.end)).or_insert_with(|| {
            groups.push(Group {
                count: 0,
                os_tids: Vec::new(),
                doing: Some(thread.doing.clone()),
                frames: thread.frames.clone(),
                end: thread.end,
            });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(index) {
            group.count += 1;
            group.os_tids.push(thread.os_tid);
            group.doing = group.doing.take().filter(|doing| *doing == thread.doing);
        }
    }
    order::sort_by_key(&mut groups, |group| std::cmp::Reverse(group.count));
    groups
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use inspect::ThreadShown;

    pub fn frame(kind: &'static str, name: &str, line: Option<u32>) -> Frame {
        let file = line.map(|_| "/src/Shop/Orders.cs".to_owned());
        Frame { kind, name: name.into(), module: None, file, line, guessed: false }
    }

    pub fn thread(os_tid: u32, doing: &str, frames: Vec<Frame>) -> Thread {
        Thread {
            os_tid,
            managed_id: None,
            name: None,
            managed: true,
            state: "other",
            doing: doing.into(),
            os_state: Some('S'),
            system_call: None,
            cpu_ms: Some(1.5),
            age_seconds: Some(60.0),
            waits_for: None,
            holds: Vec::new(),
            frames,
            end: End::Root,
        }
    }

    #[test]
    fn equal_stacks_are_one_group() {
        let stack = || vec![frame("managed", "Shop.Save()", Some(7))];
        let other = vec![frame("managed", "Shop.Save()", Some(8))];
        let mut cut = thread(5, "idle", stack());
        cut.end = End::Truncated;
        let threads = [
            thread(1, "idle", other),
            thread(2, "idle", stack()),
            thread(3, "idle", stack()),
            thread(4, "Thread.Sleep", stack()),
            cut,
        ];
        let found = groups(&threads);
        let counts: Vec<(usize, &[u32])> =
            found.iter().map(|group| (group.count, group.os_tids.as_slice())).collect();
        assert_eq!(counts, [(3, &[2, 3, 4][..]), (1, &[1][..]), (1, &[5][..])]);
        assert_eq!((&found[0].doing, found[1].doing.as_deref()), (&None, Some("idle")));
        assert_eq!(found.iter().map(|group| group.count).sum::<usize>(), threads.len());
    }

    #[test]
    fn locks_are_added_to_their_threads() {
        let lock = LockShown { kind: "monitor", type_name: None, object: "0x10".into() };
        let wait = |for_pulse| LockWait {
            lock: lock.clone(),
            for_pulse,
            held_by: Some(ThreadShown { os_tid: 2, managed_id: Some(4), name: None }),
            owner_has_ended: false,
            timeout_ms: None,
        };
        let locks = |for_pulse| ThreadLocks {
            managed_id: 9,
            name: Some("order".into()),
            waits_for: Some(wait(for_pulse)),
            holds: Vec::new(),
        };
        let native = thread(1, "idle", vec![frame("native", "read", None)]);
        let managed = || vec![frame("managed", "Shop.Save()", None)];
        let mut threads = vec![
            native,
            thread(2, "waiting", managed()),
            thread(3, "SemaphoreSlim", managed()),
            thread(4, "waiting", managed()),
        ];
        let all = HashMap::from([(2, locks(false)), (3, locks(true)), (4, locks(true))]);
        complete(&mut threads, all);
        let seen: Vec<(u32, &str, Option<u32>)> = threads
            .iter()
            .map(|thread| (thread.os_tid, thread.doing.as_str(), thread.managed_id))
            .collect();
        let expected = [
            (2, "waiting for a lock", Some(9)),
            (3, "SemaphoreSlim", Some(9)),
            (4, "Monitor.Wait", Some(9)),
            (1, "idle", None),
        ];
        assert_eq!(seen, expected);
        assert_eq!(threads[0].name.as_deref(), Some("order"));
    }
}
