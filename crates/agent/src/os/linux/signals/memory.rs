//! The memory of the ring.

use super::{SignalError, system};
use crate::ledger;
use crate::os::descriptors::Kept;
use crate::os::{descriptors, map};
use std::ptr::{self, NonNull};
use wire::ring::Layout;

/// Makes the memory file of a ring and maps it.
pub(super) fn map_ring(layout: &Layout) -> Result<(Kept, NonNull<u8>), SignalError> {
    // The reader seals it against shrinking, so that its own reads cannot fault.
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let refused = |source| SignalError::System { what: "no memory file", source };
    // SAFETY: the name is a C string.
    let file = Kept::new(|| unsafe { libc::memfd_create(c"clrscope-ring".as_ptr(), flags) })
        .map_err(refused)?;
    // Pages come as they are used, so that what the stacks of the program do not need is not
    // charged to it. Where the kernel promises no more memory than there is, it may refuse a page
    // at its first touch, and end the process.
    let is_strict =
        ledger::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"2"));
    let length = if is_strict { descriptors::allocate } else { descriptors::set_length };
    length(&file, layout.size()).map_err(refused)?;
    let number = file.number().map_err(refused)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    map::count(layout.size()).ok_or_else(|| system("no room for the ring"))?;
    // SAFETY: a new mapping of a file of that length.
    let ring =
        unsafe { libc::mmap(ptr::null_mut(), layout.size(), access, libc::MAP_SHARED, number, 0) };
    let ring = if ring == libc::MAP_FAILED { None } else { NonNull::new(ring.cast()) };
    let Some(ring) = ring else {
        let error = system("no room for the ring");
        map::returned(layout.size());
        return Err(error);
    };
    Ok((file, ring))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn the_ring_takes_memory_as_it_is_used() {
        let layout = Layout { slots: 256, slot_size: 48 << 10 };
        let (file, ring) = map_ring(&layout).unwrap();
        let path = format!("/proc/self/fd/{}", file.number().unwrap());
        let used = || std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(std::fs::metadata(&path).unwrap().len() >= 12 << 20);
        let is_strict = std::fs::read("/proc/sys/vm/overcommit_memory").unwrap().starts_with(b"2");
        assert!(used() == 0 || is_strict, "{}", used());
        // SAFETY: the first byte of the mapping, which only this test has.
        unsafe { ring.as_ptr().write_volatile(1) };
        assert!(used() > 0 && (used() < 1 << 20 || is_strict), "{}", used());
        // SAFETY: the mapping was made above, and nothing uses it any more.
        unsafe { libc::munmap(ring.as_ptr().cast(), layout.size()) };
        map::returned(layout.size());
    }
}
