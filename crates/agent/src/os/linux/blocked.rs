//! Where blocked threads of this process stand, read while they stay as they are.
//!
//! For a thread that sleeps in the kernel, `/proc/self/task/<tid>/syscall` has its stack and
//! instruction pointer; its stack is copied by checked reads. Nothing is stopped for that, and
//! nothing stays open. A thread whose CPU clock is the same before and after, to the nanosecond,
//! has executed no instruction meanwhile, so that all of it belongs together.

use super::clock;
use super::descriptors::read_task;
use super::memory::OwnMemory;
use super::threads::current_tid;
use crate::ledger;
use wire::{BlockedCall, Standing};

/// How often a thread that has moved is read at a tick. One that moves each time is running.
const MOST_TRIES: u32 = 2;

/// Where a thread is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its instruction pointer.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// The system call, if it is in one.
    pub call: Option<BlockedCall>,
    /// The CPU time that it had used all along.
    pub run: u64,
}

/// What a thread was seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is blocked, and its stack was copied.
    Blocked(Blocked),
    /// It runs, or is ready to.
    Ready {
        /// Whether it did not use the processor while it was looked at.
        still: bool,
    },
    /// Its file could not be read: it has ended, or there is no descriptor to spare.
    Unreadable,
    /// Its stack could not be read.
    NoStack,
}

/// Why blocked threads of this process cannot be read; `None` if they can, as far as can be seen.
pub fn refusal(memory: &OwnMemory) -> Option<String> {
    // The kernel allows a process to read its own threads, also where it may not be debugged; but
    // then the file belongs to root.
    match ledger::read(format!("/proc/self/task/{}/syscall", current_tid())) {
        Err(error) => {
            return Some(format!("the system calls of its threads cannot be read ({error})"));
        }
        Ok(line) if Standing::parse(&line).is_none() => {
            return Some("the kernel does not report the system calls of its threads".to_owned());
        }
        Ok(_) => {}
    }
    let probe = [0x5au8; 16];
    let mut copy = [0u8; 16];
    let read = memory.read_some(probe.as_ptr() as u64, &mut copy);
    (read != probe.len() || copy != probe)
        .then(|| "its memory cannot be read with checks".to_owned())
}

/// Looks at a thread, and copies at most `limit` bytes of its stack to `out`, whose content is
/// replaced.
pub fn look(memory: &OwnMemory, tid: u32, limit: usize, out: &mut Vec<u8>) -> Seen {
    let mut seen = Seen::Unreadable;
    for _ in 0..MOST_TRIES {
        out.clear();
        let Some(run) = clock::cpu_of(tid) else { return Seen::Unreadable };
        let mut text = [0; Standing::LONGEST_LINE];
        let Some(standing) = read_task(tid, "syscall", &mut text).and_then(Standing::parse) else {
            return Seen::Unreadable;
        };
        seen = match standing {
            Standing::Running => return Seen::Ready { still: clock::cpu_of(tid) == Some(run) },
            Standing::Blocked { ip, sp, call } => {
                out.resize(limit, 0);
                let copied = memory.read_some(sp, out);
                out.truncate(copied);
                // The clock is read after the copy: an instruction that was executed before it has
                // used time.
                match clock::cpu_of(tid) {
                    None => return Seen::Unreadable,
                    Some(now) if now != run => Seen::Ready { still: false },
                    Some(_) if copied < 8 => return Seen::NoStack,
                    Some(_) => return Seen::Blocked(Blocked { ip, sp, call, run }),
                }
            }
        };
    }
    out.clear();
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_blocked_thread_is_read_with_its_stack() {
        let (send, receive) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // On its stack, to be found there.
            let mark = std::hint::black_box([0x5eed_0000_1234_5678_u64; 4]);
            send.send((current_tid(), mark.as_ptr() as u64)).unwrap();
            let _ = wait.recv();
            std::hint::black_box(mark);
        });
        let (tid, mark) = receive.recv().unwrap();
        let memory = OwnMemory::default();
        assert_eq!(refusal(&memory), None);
        let mut out = Vec::new();
        let blocked = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            match look(&memory, tid, 16 << 10, &mut out) {
                Seen::Blocked(blocked) if blocked.call.is_some() => Some(blocked),
                _ => None,
            }
        });
        let blocked = blocked.unwrap();
        assert_eq!(Some(blocked.run), clock::cpu_of(tid));
        let at = usize::try_from(mark - blocked.sp).unwrap();
        assert_eq!(out[at..at + 8], 0x5eed_0000_1234_5678_u64.to_le_bytes());
        // Less is copied where less is wanted.
        let Seen::Blocked(_) = look(&memory, tid, 256, &mut out) else { panic!() };
        assert_eq!(out.len(), 256);
        drop(go);
        thread.join().unwrap();
    }

    #[test]
    fn a_running_thread_is_ready_and_one_that_is_not_there_is_not() {
        let memory = OwnMemory::default();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let spin = stop.clone();
        let thread = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            while !spin.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let tid = receive.recv().unwrap();
        let mut out = Vec::new();
        assert!(matches!(look(&memory, tid, 4096, &mut out), Seen::Ready { .. }));
        assert!(out.is_empty());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        thread.join().unwrap();
        assert_eq!(look(&memory, (1 << 22) + 1, 4096, &mut out), Seen::Unreadable);
    }
}
