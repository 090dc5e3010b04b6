//! File descriptors: the program's own limit must never be reached because of us.

use crate::ledger::{self, Held};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Resource;

/// How long nothing of `/proc` is read after a descriptor was found in the reserve, nanoseconds.
const PAUSE: u64 = 1_000_000_000;

/// How often it is asked what a descriptor stands for, if the answer is neither that nor that it is
/// closed.
const FSTAT_TRIES: usize = 3;

/// Until when nothing of `/proc` is read.
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Whether a descriptor lies in the last tenth below the soft limit (`RLIMIT_NOFILE`), which
/// belongs to the program. The kernel gives the lowest free number, so the program is about to run
/// out of them.
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

/// A descriptor for a long time. Programs that close all descriptors there are, and open others
/// under the same numbers, must not have theirs read, written or closed by us: before each use it
/// is checked that the number still stands for our file.
#[derive(Debug)]
pub struct Kept {
    number: RawFd,
    file: (libc::dev_t, libc::ino_t),
    _held: Held,
}

impl Kept {
    /// Keeps what a system call returns. Numbers below 3 are left to the program, which may take
    /// them for its own input and output.
    ///
    /// # Errors
    /// As the call says; `EMFILE` where the budget is used up, or the descriptor lies in the
    /// program's reserve.
    pub fn new(make: impl FnOnce() -> RawFd) -> io::Result<Self> {
        let held = hold()?;
        Self::taken(make(), held)
    }

    /// Keeps both ends of a pipe: the reading and the writing one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn pipe() -> io::Result<(Self, Self)> {
        // SAFETY: there is room for two descriptors.
        Self::pair(|ends| unsafe {
            libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK)
        })
    }

    /// Keeps two sockets that are connected to each other.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn sockets() -> io::Result<(Self, Self)> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: there is room for two descriptors.
        Self::pair(|ends| unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })
    }

    fn pair(make: impl FnOnce(&mut [RawFd; 2]) -> i32) -> io::Result<(Self, Self)> {
        let (for_one, for_other) = (hold()?, hold()?);
        let mut ends = [-1; 2];
        if make(&mut ends) != 0 {
            return Err(io::Error::last_os_error());
        }
        let [one, other] = ends;
        // Both are taken over before either may be refused, so that none stays open.
        let (one, other) = (Self::taken(one, for_one), Self::taken(other, for_other));
        Ok((one?, other?))
    }

    fn taken(number: RawFd, held: Held) -> io::Result<Self> {
        if number < 0 {
            let error = io::Error::last_os_error();
            if is_shortage(&error) {
                pause();
            }
            return Err(error);
        }
        let number = if number < 3 { lifted(number)? } else { number };
        let refused = is_in_reserve(number).then(|| io::Error::from_raw_os_error(libc::EMFILE));
        if refused.is_some() {
            pause();
        }
        match (refused, file_of(number)) {
            (None, Some(file)) => Ok(Self { number, file, _held: held }),
            (refused, _) => {
                let error = refused.unwrap_or_else(io::Error::last_os_error);
                // SAFETY: the descriptor was just made, and is nobody else's.
                unsafe { libc::close(number) };
                Err(error)
            }
        }
    }

    /// The number, if it still stands for our file.
    ///
    /// # Errors
    /// `EBADF`: the program has closed it.
    pub fn number(&self) -> io::Result<RawFd> {
        match file_of(self.number) == Some(self.file) {
            true => Ok(self.number),
            false => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The descriptor, to be used at once.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub fn borrow(&self) -> io::Result<BorrowedFd<'_>> {
        let number = self.number()?;
        // SAFETY: it is open, and is closed by nobody but the program, which may do so at any time.
        Ok(unsafe { BorrowedFd::borrow_raw(number) })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Ok(number) = self.number() {
            // SAFETY: the descriptor is ours, and not used after this.
            unsafe { libc::close(number) };
        }
    }
}

/// Gives a memory file its length, and its memory.
///
/// # Errors
/// There is not so much memory.
pub fn allocate(file: &Kept, bytes: usize) -> io::Result<()> {
    // SAFETY: a system call without pointers.
    let done = unsafe { libc::fallocate(file.number()?, 0, 0, bytes as libc::off_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a memory file its length. Memory comes as it is used.
///
/// # Errors
/// The system refuses.
pub fn set_length(file: &Kept, bytes: usize) -> io::Result<()> {
    // SAFETY: a system call without pointers.
    let done = unsafe { libc::ftruncate(file.number()?, bytes as libc::off_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn hold() -> io::Result<Held> {
    ledger::take(Resource::Descriptors, 1).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))
}

/// The same file under a number above 2.
fn lifted(number: RawFd) -> io::Result<RawFd> {
    // SAFETY: the descriptor was just made, is nobody else's, and is closed once.
    unsafe {
        let above = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3);
        let error = io::Error::last_os_error();
        libc::close(number);
        if above < 0 { Err(error) } else { Ok(above) }
    }
}

/// Which file a number stands for.
fn file_of(number: RawFd) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: an all-zero value of this C struct is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let is_known = || {
        // SAFETY: the kernel fills a local.
        let known = unsafe { libc::fstat(number, &mut stat) } == 0;
        let is_closed = || io::Error::last_os_error().raw_os_error() == Some(libc::EBADF);
        (known || is_closed()).then_some(known)
    };
    // What is not known is not closed, and remains: so it is asked again.
    let known = std::iter::repeat_with(is_known).take(FSTAT_TRIES).flatten().next();
    (known == Some(true)).then_some((stat.st_dev, stat.st_ino))
}

/// Whether the program is short of descriptors: nothing of `/proc` is read just now, which says
/// nothing of what is there.
pub fn are_short() -> bool {
    super::clock::monotonic() < PAUSED_UNTIL.load(Relaxed)
}

/// Whether the system has refused a descriptor because there are too many.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Nothing of `/proc` is read for a while.
fn pause() {
    PAUSED_UNTIL.store(super::clock::monotonic() + PAUSE, Relaxed);
}

/// Reads the beginning of `/proc/self/task/<tid>/<file>`. Allocates nothing, and keeps nothing
/// open. `None` if the thread has ended, or the program is about to run out of descriptors.
pub fn read_task<'a>(tid: u32, file: &str, out: &'a mut [u8]) -> Option<&'a [u8]> {
    if are_short() {
        return None;
    }
    let (read, reserved) = read_once(tid, file, out, false)?;
    if reserved {
        pause();
    }
    out.get(..usize::try_from(read).ok()?)
}

/// The same also where the program is about to run out of descriptors: for what decides whether the
/// library may be unloaded.
pub fn read_task_now<'a>(tid: u32, file: &str, out: &'a mut [u8]) -> Option<&'a [u8]> {
    let (read, _) = read_once(tid, file, out, true)?;
    out.get(..usize::try_from(read).ok()?)
}

/// How many bytes were read, and whether the descriptor lay in the program's reserve: then nothing
/// is read, unless `anyway`.
fn read_once(tid: u32, file: &str, out: &mut [u8], anyway: bool) -> Option<(isize, bool)> {
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
        if is_shortage(&io::Error::last_os_error()) {
            pause();
        }
        return None;
    }
    let reserved = is_in_reserve(descriptor);
    // SAFETY: the kernel writes at most `out.len()` bytes to `out`; the descriptor was just made,
    // and is closed once.
    let read = unsafe {
        let may_read = anyway || !reserved;
        let read =
            if may_read { libc::read(descriptor, out.as_mut_ptr().cast(), out.len()) } else { -1 };
        libc::close(descriptor);
        read
    };
    Some((read, reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tenth_is_the_programs() {
        assert!(!in_reserve(449, 500) && in_reserve(450, 500) && in_reserve(499, 500));
        assert!(!in_reserve(3, libc::RLIM_INFINITY));
        assert!(Kept::new(|| -1).is_err());
    }

    fn null() -> RawFd {
        // SAFETY: the path is a C string.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }
    }

    #[test]
    fn a_number_that_stands_for_another_file_is_left_alone() {
        let kept = Kept::new(null).unwrap();
        let number = kept.number().unwrap();
        assert!(number > 2);
        let theirs = tempfile::tempfile().unwrap();
        // SAFETY: what a program does that closes all descriptors, and then opens others.
        assert_eq!(unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&theirs), number) }, number);
        assert_eq!(kept.number().unwrap_err().raw_os_error(), Some(libc::EBADF));
        drop(kept);
        assert!(file_of(number).is_some(), "theirs is still open");
        // SAFETY: the copy that was made above.
        unsafe { libc::close(number) };
    }

    #[test]
    fn numbers_of_the_programs_input_and_output_are_not_kept() {
        // Standard input of this test is its own.
        // SAFETY: no other code reads it meanwhile, and it is restored.
        unsafe {
            let input = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 100);
            libc::close(0);
            let kept = Kept::new(null).unwrap();
            assert!(kept.number().unwrap() > 2 && file_of(0).is_none());
            libc::dup2(input, 0);
            libc::close(input);
        }
    }

    #[test]
    fn a_file_of_a_thread_is_read() {
        let tid = crate::os::threads::current_tid();
        let mut text = [0; 96];
        assert!(read_task(tid, "stat", &mut text).unwrap().starts_with(tid.to_string().as_bytes()));
        assert!(
            read_task_now(tid, "stat", &mut text).unwrap().starts_with(tid.to_string().as_bytes())
        );
        assert_eq!(read_task(0, "stat", &mut text), None);
        assert_eq!(read_task(tid, &"x".repeat(64), &mut text), None);
    }
}
