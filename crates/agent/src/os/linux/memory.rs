//! Reads of memory that may not be there.
//!
//! The structures of the runtime are found through pointers that we did not make. Nothing is dereferenced: the
//! kernel copies, and answers with an error where a page is missing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// This process's memory, read with `process_vm_readv`, or `/proc/self/mem` where a sandbox refuses that.
#[derive(Debug, Default)]
pub struct OwnMemory {
    fallback: OnceLock<Option<File>>,
}

impl crate::memory::Memory for OwnMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> bool {
        if out.is_empty() {
            return true;
        }
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: out.len() };
        // SAFETY: the kernel writes at most `out.len()` bytes to `out`, and checks the other side itself.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        if read >= 0 {
            return read as usize == out.len();
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => {
                let file = self.fallback.get_or_init(|| File::open("/proc/self/mem").ok());
                file.as_ref().is_some_and(|file| file.read_exact_at(out, address).is_ok())
            }
            _ => false,
        }
    }
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
    }
}
