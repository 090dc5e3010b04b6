//! Reads of memory that may not be there.
//!
//! The structures of the runtime are found through pointers that we did not make. Nothing is
//! dereferenced: the kernel copies, and answers with an error where a page is missing.

use super::descriptors::Kept;
use super::{clock, sandbox};
use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// This process's memory, read through `/proc/self/mem`, or with `process_vm_readv` where that
/// cannot be opened.
///
/// The file is what every filter of system calls allows that lets a process read files at all. The
/// system call is not, and a filter may end the process for it; one that comes later, or is of a
/// single thread, would be noticed too late.
#[derive(Debug, Default)]
pub struct OwnMemory {
    file: OnceLock<Kept>,
    /// Whether the file cannot be opened for good.
    refused: AtomicBool,
    /// When it may be tried again, where descriptors were short.
    again: AtomicU64,
    /// Without the file: whether there is a filter.
    filtered: OnceLock<bool>,
    /// Whether one has come since.
    filtered_later: AtomicBool,
}

impl wire::memory::Memory for OwnMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> bool {
        if out.is_empty() {
            return true;
        }
        if let Some(file) = self.file() {
            return read_file(file, address, out) == out.len();
        }
        if self.is_filtered() {
            return false;
        }
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: out.len() };
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and checks the other side
        // itself.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        usize::try_from(read) == Ok(out.len())
    }
}

/// How long the file is not tried again, nanoseconds. Meanwhile nothing is read where there is a
/// filter.
const PAUSE: u64 = 20_000_000;

/// Pages are mapped as a whole: reads that may end early are split where the next one begins.
const PAGE: u64 = 4096;

/// Pieces of such a read: 64 KB that begin within a page.
const MOST_PIECES: usize = 17;

impl OwnMemory {
    /// The number of the file, if it is open and still ours.
    fn file(&self) -> Option<RawFd> {
        if let Some(file) = self.file.get() {
            return file.number().ok();
        }
        if self.refused.load(Relaxed) || clock::monotonic() < self.again.load(Relaxed) {
            return None;
        }
        // SAFETY: the path is a C string.
        match Kept::new(|| unsafe {
            libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC)
        }) {
            // Another thread may have been faster; then this one goes.
            Ok(file) => self.file.get_or_init(|| file).number().ok(),
            Err(error) => {
                // That descriptors or memory are short may pass.
                let passes = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EINTR];
                if error.raw_os_error().is_none_or(|code| !passes.contains(&code)) {
                    self.refused.store(true, Relaxed);
                }
                // A descriptor that lies in the program's reserve would be opened and closed for
                // each read.
                self.again.store(clock::monotonic() + PAUSE, Relaxed);
                None
            }
        }
    }

    /// Whether a filter of system calls is known to be in place.
    fn is_filtered(&self) -> bool {
        self.filtered_later.load(Relaxed) || *self.filtered.get_or_init(sandbox::is_filtered)
    }

    /// Looks once more whether a filter of system calls is in place for this thread, where that
    /// matters.
    pub fn look_for_filter(&self) {
        if self.file().is_none() && !self.is_filtered() && sandbox::is_thread_filtered() {
            self.filtered_later.store(true, Relaxed);
        }
    }

    /// Fills `out` from `address` on as far as there is memory, and says how far that is. One
    /// system call reads at most 64 KB.
    pub fn read_some(&self, address: u64, out: &mut [u8]) -> usize {
        if let Some(file) = self.file() {
            let length = readable(address, out.len());
            return read_file(file, address, out.get_mut(..length).unwrap_or_default());
        }
        if self.is_filtered() {
            return 0;
        }
        let mut pieces =
            [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; MOST_PIECES];
        let (mut at, mut left, mut count) = (address, out.len(), 0);
        for piece in &mut pieces {
            let to_page = usize::try_from(PAGE - at % PAGE).unwrap_or(left);
            let length = left.min(to_page);
            if length == 0 {
                break;
            }
            *piece = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length };
            count += 1;
            left -= length;
            at = match at.checked_add(length as u64) {
                Some(next) => next,
                None => break,
            };
        }
        let wanted = out.len() - left;
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: wanted };
        // SAFETY: the kernel writes at most `wanted` bytes to `out`, which has them, and checks the
        // other side itself: it ends before the first piece that is not mapped. `count` pieces are
        // filled.
        let read =
            unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, pieces.as_ptr(), count, 0) };
        usize::try_from(read).unwrap_or(0)
    }
}

/// Whether these words stand at a place of this process's memory, which is a multiple of four.
/// `EFAULT` where there is no memory that can be read; other errors where the kernel does not say.
///
/// The kernel compares, as it does for a lock that is waited for: no filter of system calls forbids
/// that to a program with threads, and it may be asked in a signal handler.
pub fn holds<const N: usize>(place: u64, words: [u64; N]) -> Result<bool, i32> {
    let halves = words.into_iter().flat_map(|word| [word as u32, (word >> 32) as u32]);
    for (address, half) in (place..).step_by(4).zip(halves) {
        let operation = libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel checks the address and reads four bytes there (futex(2)); it wakes and
        // moves no waiters, as it is asked to move none.
        let result = unsafe {
            libc::syscall(libc::SYS_futex, address, operation, 0, 0_usize, address, half)
        };
        if result < 0 {
            return match io::Error::last_os_error().raw_os_error() {
                Some(libc::EAGAIN) => Ok(false),
                error => Err(error.unwrap_or_default()),
            };
        }
    }
    Ok(true)
}

/// How many of these bytes lie in pages that the process itself may read. Through the file the
/// kernel reads others, too, and so would not stop at the guard page behind a stack.
fn readable(address: u64, length: usize) -> usize {
    let end = address.saturating_add(length as u64);
    let pages = (address.checked_next_multiple_of(PAGE).unwrap_or(end)..end).step_by(PAGE as usize);
    let stop = pages.into_iter().find(|page| holds(*page, [0]) == Err(libc::EFAULT));
    usize::try_from(stop.unwrap_or(end) - address).unwrap_or(0)
}

fn read_file(file: RawFd, address: u64, out: &mut [u8]) -> usize {
    let Ok(address) = libc::off_t::try_from(address) else { return 0 };
    // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and checks the other side
    // itself.
    let read = unsafe { libc::pread(file, out.as_mut_ptr().cast(), out.len(), address) };
    usize::try_from(read).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::memory::Memory;

    #[test]
    fn present_memory_is_read_and_missing_memory_is_an_answer() {
        let memory = OwnMemory::default();
        let data = *b"some bytes of our own";
        let mut out = [0; 21];
        assert!(memory.read(data.as_ptr() as u64, &mut out));
        assert_eq!(out, data);
        assert!(!memory.read(8, &mut out));
        assert!(!memory.read(u64::MAX - 4, &mut out));
        assert!(memory.read(8, &mut []));
        assert_eq!(memory.read_some(data.as_ptr() as u64, &mut out), 21);
        assert_eq!(memory.read_some(8, &mut out), 0);
        assert_eq!(memory.read_some(u64::MAX - 4, &mut out), 0);
        // The same where the file cannot be opened.
        let memory = without_file();
        out = [0; 21];
        assert!(memory.read(data.as_ptr() as u64, &mut out));
        assert_eq!(out, data);
        assert!(!memory.read(8, &mut out));
        // And not at all where a filter may forbid the system call, too.
        let memory = OwnMemory { filtered: true.into(), ..without_file() };
        assert!(!memory.read(data.as_ptr() as u64, &mut out));
        assert_eq!(memory.read_some(data.as_ptr() as u64, &mut out), 0);
    }

    /// As in a process that may not be debugged, whose files belong to root.
    fn without_file() -> OwnMemory {
        OwnMemory { refused: true.into(), ..OwnMemory::default() }
    }

    #[test]
    fn without_a_free_descriptor_the_file_is_tried_again() {
        let memory = OwnMemory::default();
        let free =
            wire::Resource::Descriptors.budget() - crate::ledger::held(wire::Resource::Descriptors);
        let all = crate::ledger::take(wire::Resource::Descriptors, free).unwrap();
        assert!(memory.file().is_none());
        drop(all);
        std::thread::sleep(std::time::Duration::from_nanos(PAUSE));
        assert!(memory.file().is_some());
    }

    #[test]
    fn where_the_program_is_short_of_descriptors_the_file_is_not_opened_for_each_read() {
        // Nextest runs each test in a process of its own.
        let limit = |descriptors: u64| {
            let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel writes to a local, and reads it.
            unsafe {
                assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits), 0);
                limits.rlim_cur = descriptors;
                assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limits), 0);
            }
        };
        let memory = OwnMemory::default();
        limit(0);
        assert!(memory.file().is_none());
        limit(1024);
        assert!(memory.file().is_none(), "not for a while");
        std::thread::sleep(std::time::Duration::from_nanos(PAUSE));
        assert!(memory.file().is_some());
    }

    #[test]
    fn words_are_compared_where_there_may_be_none() {
        let memory = [7u64, u64::MAX, 0x1_0000_0000];
        let place = memory.as_ptr() as u64;
        assert_eq!(holds(place, memory), Ok(true));
        assert_eq!(holds(place, [7, u64::MAX - 1]), Ok(false));
        assert_eq!(holds(place + 16, [0]), Ok(false), "the upper half counts");
        assert_eq!(holds(place + 4, [0xffff_ffff_0000_0000]), Ok(true));
        assert_eq!(holds(8, [0]), Err(libc::EFAULT));
        assert_eq!(holds(place + 1, [0]), Err(libc::EINVAL));
    }

    #[test]
    fn a_filter_that_comes_later_is_heeded() {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
        let data = [7u8; 32];
        let with_file = OwnMemory::default();
        let memory = without_file();
        let mut out = [0; 32];
        assert_eq!(with_file.read_some(data.as_ptr() as u64, &mut out), 32);
        assert_eq!(memory.read_some(data.as_ptr() as u64, &mut out), 32);
        memory.look_for_filter();
        assert!(!memory.is_filtered(), "this test takes a machine without a filter");
        let rules = [(libc::SYS_process_vm_readv, Vec::new())].into_iter().collect();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let refuse = SeccompAction::Errno(libc::EACCES as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
        let filter: BpfProgram = filter.try_into().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                seccompiler::apply_filter(&filter).unwrap();
                let mut out = [0; 32];
                assert_eq!(
                    memory.read_some(data.as_ptr() as u64, &mut out),
                    0,
                    "the call is refused"
                );
                memory.look_for_filter();
                assert!(memory.is_filtered(), "it is not made again");
                assert_eq!(
                    with_file.read_some(data.as_ptr() as u64, &mut out),
                    32,
                    "it was never made"
                );
                assert_eq!(out, data);
            });
        });
    }

    #[test]
    fn a_read_ends_where_the_memory_does() {
        // SAFETY: new memory at a place of the kernel's choice, of which nothing else knows; it is
        // given back below.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                3 * PAGE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(start.byte_add(2 * PAGE as usize), PAGE as usize, libc::PROT_NONE),
                0
            );
            start
        };
        let mut out = vec![1; 64 << 10];
        for memory in [without_file(), OwnMemory::default()] {
            assert_eq!(memory.read_some(start as u64 + 100, &mut out), 2 * PAGE as usize - 100);
            assert!(out[..2 * PAGE as usize - 100].iter().all(|&byte| byte == 0));
            assert_eq!(memory.read_some(start as u64 + 100, &mut out[..5000]), 5000);
        }
        // SAFETY: what was mapped above.
        unsafe { libc::munmap(start, 3 * PAGE as usize) };
    }
}
