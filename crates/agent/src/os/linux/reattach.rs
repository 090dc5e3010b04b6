//! How clrscope reaches a resident agent for the next session.
//!
//! The agent holds a pipe and a memfd. The name of the memfd says which descriptor the pipe is, and
//! which protocol the agent speaks; its first byte says what the agent does. clrscope finds both
//! below `/proc/<pid>/fd` and writes the configuration of a session into the pipe. The kernel shows
//! and opens those entries only for users who may debug the process (proc_pid_fd(5)): its own user,
//! and root. Nothing has a name that another user could take or connect to, and this way also leads
//! into other network namespaces.

use super::descriptors::Kept;
use crate::os::clock;
use std::ffi::CString;
use std::io;
use wire::{Nanos, ResidentState};

/// Most bytes of a session's configuration: as much as an attach request can bring.
const MOST: usize = 64 << 10;
/// How long the rest of a message may take once it has begun.
const LIMIT: Nanos = 2_000_000_000;
/// How often it is tried to say what the agent does.
const TRIES: u32 = 3;

/// What clrscope finds.
#[derive(Debug)]
pub struct ReattachListener {
    /// The ends of the pipe. The writing end is kept so that the other one never reads an end of
    /// file.
    reader: Kept,
    _writer: Kept,
    state: Kept,
}

impl ReattachListener {
    /// Makes the pipe and the memfd.
    ///
    /// # Errors
    /// The process has no descriptors left, or the kernel has no memfds.
    pub fn open() -> io::Result<Self> {
        let (reader, writer) = Kept::pipe()?;
        let name =
            CString::new(wire::resident_name(reader.number()?.unsigned_abs())).unwrap_or_default();
        // SAFETY: the name is a C string.
        let state = Kept::new(|| unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
        let door = Self { reader, _writer: writer, state };
        door.say(ResidentState::Records);
        Ok(door)
    }

    /// Says what the agent does. It is tried again where it fails: a clrscope that does not hear
    /// that the agent waits waits itself, for a minute.
    pub fn say(&self, state: ResidentState) {
        let byte = state as u8;
        // A thread of the program may say so, and a write beyond the limit on the size of files
        // would end the process (SIGXFSZ).
        let is_said = || {
            let Ok(number) = self.state.number() else { return false };
            // SAFETY: one byte is read from a valid place.
            may_write() && unsafe { libc::pwrite(number, (&raw const byte).cast(), 1, 0) } == 1
        };
        (0..TRIES).any(|_| is_said());
    }

    /// Waits for the configuration of a session; `None` if none can come any more.
    pub fn wait(&self) -> Option<Vec<u8>> {
        loop {
            let mut length = [0; 4];
            self.read(&mut length, Nanos::MAX)?;
            let length = u32::from_le_bytes(length) as usize;
            let deadline = clock::monotonic().saturating_add(LIMIT);
            let mut bytes = vec![0; length.min(MOST)];
            if length <= MOST && self.read(&mut bytes, deadline)? {
                return Some(bytes);
            }
            // What no clrscope wrote, or one that has ended half-way.
            self.clear()?;
        }
    }

    /// Fills a buffer. `Some(false)` if the time is over before; `None` if our descriptor is gone.
    fn read(&self, mut buffer: &mut [u8], deadline: Nanos) -> Option<bool> {
        while !buffer.is_empty() {
            let left = match deadline {
                Nanos::MAX => -1,
                _ => i32::try_from(deadline.saturating_sub(clock::monotonic()) / 1_000_000)
                    .unwrap_or(i32::MAX),
            };
            let mut polled =
                libc::pollfd { fd: self.reader.number().ok()?, events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid entry.
            match unsafe { libc::poll(&mut polled, 1, left) } {
                0 => return Some(false),
                1.. if polled.revents & libc::POLLNVAL != 0 => return None,
                _ => {}
            }
            // SAFETY: the kernel writes at most as many bytes as the buffer has.
            let read = unsafe {
                libc::read(self.reader.number().ok()?, buffer.as_mut_ptr().cast(), buffer.len())
            };
            match read {
                1.. => buffer = buffer.get_mut(read as usize..).unwrap_or_default(),
                // Never an end of file, as we hold the other end.
                0 => return None,
                _ => match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    _ => return None,
                },
            }
        }
        Some(true)
    }

    /// Throws away what is in the pipe.
    fn clear(&self) -> Option<()> {
        let mut buffer = [0_u8; 4096];
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
        while unsafe {
            libc::read(self.reader.number().ok()?, buffer.as_mut_ptr().cast(), buffer.len())
        } > 0
        {}
        Some(())
    }
}

/// Whether the limit on the size of files (`RLIMIT_FSIZE`) allows any content. It counts for memory
/// files, too.
fn may_write() -> bool {
    let mut limits = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes to a local.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limits) };
    limits.rlim_cur > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::{Write, pipe};

    fn write(door: &ReattachListener, bytes: &[u8]) {
        let path = format!("/proc/self/fd/{}", door.reader.number().unwrap());
        OpenOptions::new().write(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn a_configuration_arrives_and_noise_does_not() {
        let door = ReattachListener::open().unwrap();
        write(&door, &[0xff; 9]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| door.wait());
            // Noise is thrown away first; of what comes at the same time the kernel does not say
            // where it begins.
            std::thread::sleep(std::time::Duration::from_millis(100));
            write(&door, b"\x03\0\0\0abc");
            assert_eq!(waiting.join().unwrap().as_deref(), Some(&b"abc"[..]));
        });
    }

    #[test]
    fn it_is_found_by_the_name_of_its_memfd() {
        let door = ReattachListener::open().unwrap();
        let link =
            std::fs::read_link(format!("/proc/self/fd/{}", door.state.number().unwrap())).unwrap();
        let link = link.to_str().unwrap();
        assert_eq!(
            wire::resident_of(link),
            Some((wire::PROTOCOL_VERSION, door.reader.number().unwrap() as u32)),
            "{link}"
        );
        door.say(ResidentState::Waits);
        let state =
            std::fs::read(format!("/proc/self/fd/{}", door.state.number().unwrap())).unwrap();
        assert_eq!(state, [ResidentState::Waits as u8]);
    }

    #[test]
    fn where_files_may_have_no_content_the_process_lives() {
        let door = ReattachListener::open().unwrap();
        let limits = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a valid limit; the hard one stays where it is, or is that of root, and this
        // process ends with its test.
        let is_limited = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limits) } == 0;
        door.say(ResidentState::Reverts);
        let path = format!("/proc/self/fd/{}", door.state.number().unwrap());
        let is_said = std::fs::read(path).unwrap() == [ResidentState::Reverts as u8];
        assert_ne!(is_said, is_limited);
    }

    #[test]
    fn descriptors_that_are_no_longer_ours_are_let_alone() {
        let door = ReattachListener::open().unwrap();
        let number = door.reader.number().unwrap();
        let (theirs, _other) = pipe().unwrap();
        // SAFETY: what a program does that closes all descriptors, and then opens others.
        assert_eq!(unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&theirs), number) }, number);
        assert_eq!(door.wait(), None);
        drop(door);
        // SAFETY: the copy that was made above, which is still open.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }
}
