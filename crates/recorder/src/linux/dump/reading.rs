//! Where a blocked thread of another process stands, read while it stays as it is.

use crate::linux::{clock::now, target::Activity};
use diagnostics::proc;
use std::{fs, fs::File, io, ops::Range, os::unix::fs::FileExt};
use wire::{BlockedStack, Standing};

/// Most bytes that are copied of a stack.
const MOST: u64 = 1 << 20;

/// How often a thread that has moved meanwhile is read. One that moves each time is running.
const MOST_TRIES: u32 = 3;

/// Reads threads through `/proc/<pid>`. Nothing is stopped for that.
pub(super) struct ThreadReader {
    pid: u32,
    memory: File,
    /// Memory that may hold stacks, ascending.
    writable: Vec<Range<u64>>,
}

/// What a thread was seen to do.
pub(super) enum Reading {
    /// It is blocked: a copy of its stack, and the system call that it is in.
    Blocked(BlockedStack, Activity),
    /// It runs, or is ready to.
    Running,
    /// Its stack cannot be read.
    NotReadable,
}

impl ThreadReader {
    /// Opens the memory of a process.
    ///
    /// # Errors
    /// That it may not be read, or that the process has ended.
    pub fn open(pid: u32) -> io::Result<Self> {
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        let maps = proc::maps(pid)?;
        let writable = maps.into_iter().filter(|map| map.write).map(|map| map.range).collect();
        Ok(Self { pid, memory, writable })
    }

    /// Reads a thread; its stack gets the number `id`.
    pub fn read(&self, tid: u32, id: u32) -> Reading {
        for _ in 0..MOST_TRIES {
            let before = self.mark(tid);
            let line = fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", self.pid));
            let Ok(line) = line else { return Reading::NotReadable };
            let standing = match Standing::parse(line.as_bytes()) {
                Some(Standing::Running) => return Reading::Running,
                Some(standing) => standing,
                None => return Reading::NotReadable,
            };
            let Standing::Blocked { call, sp, ip } = standing else { continue };
            let (bytes, cut) = self.copy(sp);
            // A thread that has run meanwhile may have left what was copied.
            if before.is_none() || before != self.mark(tid) {
                continue;
            }
            if bytes.len() < 8 {
                return Reading::NotReadable;
            }
            let activity = call.map_or(Activity::Unknown, Activity::Call);
            let stack = BlockedStack { id, os_tid: tid, time: now(), ip, sp, call, bytes, cut };
            return Reading::Blocked(stack, activity);
        }
        Reading::Running
    }

    /// What changes whenever the kernel puts a thread on a processor.
    fn mark(&self, tid: u32) -> Option<Vec<u8>> {
        let of = |file| fs::read(format!("/proc/{}/task/{tid}/{file}", self.pid)).ok();
        // Kernels without scheduler statistics count switches in the other file.
        of("schedstat").filter(|text| !text.is_empty()).or_else(|| of("status"))
    }

    /// The stack from its pointer up to the end of its memory, and whether that was too much.
    fn copy(&self, sp: u64) -> (Vec<u8>, bool) {
        let behind = self.writable.partition_point(|range| range.start <= sp);
        let range = behind.checked_sub(1).and_then(|index| self.writable.get(index));
        // Memory that was mapped later is read until that fails.
        let room = range.map_or(MOST, |range| range.end.saturating_sub(sp));
        let length = if room == 0 { MOST } else { room.min(MOST) };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.memory.read_at(rest, sp.saturating_add(read as u64)) {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        bytes.truncate(read);
        (bytes, read as u64 == MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        time::Duration,
    };

    #[test]
    fn a_blocked_thread_is_read_with_its_stack() {
        let (send, receive) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // On its stack, to be found there.
            let mark = std::hint::black_box([0x5eed_0000_1234_5678_u64; 4]);
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            send.send((tid, mark.as_ptr() as u64)).unwrap();
            let _ = wait.recv();
            std::hint::black_box(mark);
        });
        let (tid, mark) = receive.recv().unwrap();
        let reader = ThreadReader::open(std::process::id()).unwrap();
        let stack = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            match reader.read(tid, 7) {
                Reading::Blocked(stack, Activity::Call(_)) => Some(stack),
                _ => None,
            }
        });
        let stack = stack.unwrap();
        assert_eq!((stack.id, stack.os_tid, stack.cut), (7, tid, false));
        let at = usize::try_from(mark - stack.sp).unwrap();
        assert_eq!(stack.bytes[at..at + 8], 0x5eed_0000_1234_5678_u64.to_le_bytes());
        assert!(stack.bytes.len() < MOST as usize);
        drop(go);
        thread.join().unwrap();
        assert!(matches!(reader.read(tid, 8), Reading::NotReadable));
    }

    #[test]
    fn a_running_thread_is_not_read() {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let spin = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            while !spin.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let tid = receive.recv().unwrap();
        let reader = ThreadReader::open(std::process::id()).unwrap();
        assert!(matches!(reader.read(tid, 1), Reading::Running));
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(ThreadReader::open(1 << 22).is_err());
    }
}
