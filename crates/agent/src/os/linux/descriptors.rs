//! File descriptors: the program's own limit must never be reached because of us.

use crate::ledger;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Resource;

/// How long nothing of `/proc` is read after a descriptor was found in the reserve, nanoseconds.
const PAUSE: u64 = 1_000_000_000;

/// Until when nothing of `/proc` is read.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Whether a descriptor lies in the last tenth below the soft limit (`RLIMIT_NOFILE`), which belongs to the program. The kernel gives the
/// lowest free number, so the program is about to run out of them.
pub fn is_in_reserve(descriptor: i32) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return false;
    }
    in_reserve(descriptor, limit.rlim_cur)
}

fn in_reserve(descriptor: i32, limit: u64) -> bool {
    u64::try_from(descriptor).is_ok_and(|descriptor| descriptor >= limit - limit / 10)
}

/// Keeps a descriptor that a system call returned, for long.
///
/// # Errors
/// The call failed, or the descriptor lies in the program's reserve: then it is closed, and the error is `EMFILE`.
pub fn keep(descriptor: i32) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and is nobody else's.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    if is_in_reserve(owned.as_raw_fd()) { Err(io::Error::from_raw_os_error(libc::EMFILE)) } else { Ok(owned) }
}

/// Reads the beginning of `/proc/self/task/<tid>/<file>`. Allocates nothing, and keeps nothing open. `None` if the thread has ended, or
/// the program is about to run out of descriptors.
pub fn read_task<'a>(tid: u32, file: &str, out: &'a mut [u8]) -> Option<&'a [u8]> {
    if super::clock::monotonic() < PAUSED_UNTIL.load(Relaxed) {
        return None;
    }
    let mut path = [0u8; 64];
    {
        use std::io::Write;
        let mut rest = path.as_mut_slice();
        // The last byte stays zero: it ends the C string.
        write!(rest, "/proc/self/task/{tid}/{file}").ok().filter(|()| !rest.is_empty())?;
    }
    let _held = ledger::take(Resource::Descriptors, 1)?;
    // SAFETY: the path is a C string.
    let descriptor = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    let reserved = is_in_reserve(descriptor);
    // SAFETY: the kernel writes at most `out.len()` bytes to `out`; the descriptor was just made, and is closed once.
    let read = unsafe {
        let read = if reserved { -1 } else { libc::read(descriptor, out.as_mut_ptr().cast(), out.len()) };
        libc::close(descriptor);
        read
    };
    if reserved {
        PAUSED_UNTIL.store(super::clock::monotonic() + PAUSE, Relaxed);
    }
    out.get(..usize::try_from(read).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tenth_is_the_programs() {
        assert!(!in_reserve(449, 500) && in_reserve(450, 500) && in_reserve(499, 500));
        assert!(!in_reserve(3, libc::RLIM_INFINITY));
        assert!(keep(-1).is_err());
    }

    #[test]
    fn a_file_of_a_thread_is_read() {
        let tid = crate::os::threads::current_tid();
        let mut text = [0; 96];
        assert!(read_task(tid, "stat", &mut text).unwrap().starts_with(tid.to_string().as_bytes()));
        assert_eq!(read_task(0, "stat", &mut text), None);
        assert_eq!(read_task(tid, &"x".repeat(64), &mut text), None);
    }
}
