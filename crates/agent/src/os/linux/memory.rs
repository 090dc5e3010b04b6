//! Reads of memory that may not be there.
//!
//! The structures of the runtime are found through pointers that we did not make. Nothing is dereferenced: the
//! kernel copies, and answers with an error where a page is missing.

use super::descriptors::Kept;
use super::sandbox;
use std::sync::OnceLock;

/// This process's memory, read with `process_vm_readv`, or `/proc/self/mem` where a sandbox refuses that.
#[derive(Debug, Default)]
pub struct OwnMemory {
    filtered: OnceLock<bool>,
    fallback: OnceLock<Option<Kept>>,
}

impl crate::memory::Memory for OwnMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> bool {
        if out.is_empty() {
            return true;
        }
        // The filter might end the process for it.
        if *self.filtered.get_or_init(sandbox::is_filtered) {
            return self.read_file(address, out);
        }
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: out.len() };
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and checks the other side itself.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        if read >= 0 {
            return read as usize == out.len();
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => self.read_file(address, out),
            _ => false,
        }
    }
}

impl OwnMemory {
    fn read_file(&self, address: u64, out: &mut [u8]) -> bool {
        let file = self.fallback.get_or_init(open).as_ref().and_then(|file| file.number().ok());
        let (Some(file), Ok(address)) = (file, libc::off_t::try_from(address)) else { return false };
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and checks the other side itself.
        let read = unsafe { libc::pread(file, out.as_mut_ptr().cast(), out.len(), address) };
        usize::try_from(read).is_ok_and(|read| read == out.len())
    }
}

fn open() -> Option<Kept> {
    // SAFETY: the path is a C string.
    Kept::new(|| unsafe { libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

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
        // The same where a filter may forbid the system call.
        let memory = OwnMemory { filtered: true.into(), fallback: OnceLock::new() };
        out = [0; 21];
        assert!(memory.read(data.as_ptr() as u64, &mut out));
        assert_eq!(out, data);
        assert!(!memory.read(8, &mut out));
    }
}
