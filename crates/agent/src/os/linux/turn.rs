//! One turn at a time for all agents in a process: several recordings may run at once, each with a
//! library of its own, and they share no memory.
//!
//! A turn is a lock (flock(2)) on the memory map of the process in `/proc`. The kernel opens that
//! file only for those who may debug the process (proc_pid_maps(5)): the process itself, its user,
//! and root. No other user can take a turn.

use crate::ledger::{self, Counted};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// What is locked.
const LOCKED: &str = "/proc/self/maps";

/// A turn, until it is dropped. Empty where there is no `/proc`: then there is no order.
#[derive(Debug)]
pub struct Turn {
    lock: Option<Counted<File>>,
}

impl Turn {
    /// A turn, if nobody else has it. `None` also where the process has no descriptors left:
    /// without a turn the runtime must not be suspended, since two who suspend it at once could not
    /// resume it.
    pub fn take() -> Option<Self> {
        let file = match ledger::open(LOCKED) {
            Ok(file) => file,
            Err(error) => {
                let is_absent =
                    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EACCES | libc::EPERM));
                return is_absent.then_some(Self { lock: None });
            }
        };
        // SAFETY: a system call without pointers.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        if locked {
            return Some(Self { lock: Some(file) });
        }
        let is_taken = io::Error::last_os_error().raw_os_error() == Some(libc::EWOULDBLOCK);
        (!is_taken).then_some(Self { lock: None })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(file) = &self.lock {
            // A child that was forked meanwhile has a copy of the descriptor, with which the lock
            // would stay. SAFETY: a system call without pointers.
            unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn there_is_one_turn_at_a_time() {
        // Other tests of this process do not suspend anything.
        let turn = Turn::take().unwrap();
        assert!(turn.lock.is_some() && Turn::take().is_none());
        drop(turn);
        let turn = Turn::take().unwrap();
        // A child has the descriptor until it executes something; this one does at once, and then
        // holds nothing.
        let mut child = Command::new("sleep").arg("5").spawn().unwrap();
        drop(turn);
        assert!(Turn::take().unwrap().lock.is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn no_other_user_can_take_a_turn() {
        // SAFETY: a system call without arguments.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let lock = |uid| {
            let maps = format!("/proc/{}/maps", std::process::id());
            let mut command = Command::new("flock");
            command
                .args(["--exclusive", "--nonblock", &maps, "true"])
                .uid(uid)
                .gid(uid)
                .stderr(Stdio::null());
            command.status().unwrap().code()
        };
        assert_eq!(lock(0), Some(0), "root may");
        assert_ne!(lock(65534), Some(0), "nobody may not");
    }
}
