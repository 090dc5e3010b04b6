//! The memory that the kernel writes records to: one page of positions, then a ring of a power of
//! two.
#![allow(unsafe_code)]

use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::records::HEADER;

/// A ring of one processor, mapped.
pub(super) struct Buffer {
    /// The page of positions; the data begin one page behind.
    base: NonNull<u8>,
    page: usize,
    /// Bytes of the data, a power of two.
    size: usize,
    /// A record that runs over the end of the ring is put together here.
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread; only the kernel
// writes to it besides, and the positions are accessed atomically.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Maps the ring of an event, with `size` bytes of data, which must be a power of two and whole
    /// pages.
    pub(super) fn map(event: &OwnedFd, size: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: a new mapping at an address of the kernel's choice: no memory of ours is touched.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                page + size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event,
                0,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, page, size, scratch: Vec::new() })
    }

    /// Bytes that the ring holds.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Hands out all records, header included, oldest first, and frees their room. Returns how many
    /// bytes they were, and whether the ring was found in disorder, which ends the reading and
    /// drops the rest.
    pub(super) fn drain(&mut self, mut handle: impl FnMut(&[u8])) -> (u64, bool) {
        let head =
            self.position(offset_of!(perf_event_mmap_page, data_head)).load(Ordering::Acquire);
        // Only we write the tail.
        let first =
            self.position(offset_of!(perf_event_mmap_page, data_tail)).load(Ordering::Relaxed);
        let mut tail = first;
        let mut disorder = head.wrapping_sub(tail) > self.size as u64;
        while !disorder && tail != head {
            let left = head.wrapping_sub(tail);
            // Records are aligned to 8 bytes, so a header never runs over the end.
            let at = tail as usize & (self.size - 1);
            let mut header = [0; HEADER];
            // SAFETY: `at` is below the ring's size and a multiple of 8, as the size is, so the
            // header's 8 bytes lie in the mapping. The kernel does not write between tail and head.
            unsafe { ptr::copy_nonoverlapping(self.data(at), header.as_mut_ptr(), HEADER) };
            let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
            if size < HEADER || !size.is_multiple_of(8) || size as u64 > left {
                disorder = true;
                break;
            }
            let before_end = (self.size - at).min(size);
            if before_end == size {
                // SAFETY: the range lies in the mapping, which lives as long as `self`; the kernel
                // does not write to it until the tail has passed it, which is after the slice is
                // gone.
                handle(unsafe { std::slice::from_raw_parts(self.data(at), size) });
            } else {
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                // SAFETY: as above, for the part up to the end of the ring.
                scratch.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(self.data(at), before_end)
                });
                // SAFETY: as above, for the part from the start of the ring; a record is not larger
                // than the ring, because it is not larger than what lies between tail and head.
                scratch.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(self.data(0), size - before_end)
                });
                handle(&scratch);
                self.scratch = scratch;
            }
            tail = tail.wrapping_add(size as u64);
            // Room is given back at once: records are large, and a full ring loses samples.
            self.position(offset_of!(perf_event_mmap_page, data_tail))
                .store(tail, Ordering::Release);
        }
        if disorder {
            self.position(offset_of!(perf_event_mmap_page, data_tail))
                .store(head, Ordering::Release);
        }
        (tail.wrapping_sub(first), disorder)
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset is that of an aligned `u64` in the first page, which is mapped as long
        // as `self` lives. The kernel accesses it with the matching barriers.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The data from an offset on, which must be below the ring's size.
    fn data(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.size);
        // SAFETY: the offset is below the size of the data, which begin one page into the mapping.
        unsafe { self.base.as_ptr().add(self.page + offset) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this is exactly what was mapped, and no slice into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.page + self.size) };
    }
}
