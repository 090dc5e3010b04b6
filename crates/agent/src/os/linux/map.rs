//! Memory of our own that is reserved as a whole and used page by page.

use crate::ledger;
use std::ops::Deref;
use std::ptr::NonNull;
use wire::Resource;

/// Bytes of a page. Larger ones are a multiple of it.
pub const PAGE: usize = 4096;

/// Maps this many bytes of zeroed pages, until [`give_back`]. All pages are populated at once,
/// which costs a fraction of populating them one by one as they are used.
pub fn pages(bytes: usize) -> Option<NonNull<u8>> {
    map(bytes, libc::MAP_POPULATE)
}

/// Gives pages back.
///
/// # Safety
/// They came from [`pages`] with this number of bytes, and nobody uses them any more.
pub unsafe fn give_back(place: NonNull<u8>, bytes: usize) {
    // SAFETY: they were mapped so, and are nobody else's.
    unsafe { libc::munmap(place.as_ptr().cast(), bytes) };
    returned(bytes);
}

/// Populates this many bytes of reserved memory at once, for the same reason. Where the kernel does
/// not support that (before 5.14), pages are populated as they are used.
pub fn populate(place: NonNull<u8>, bytes: usize) {
    let from = place.as_ptr().map_addr(|place| place & !4095);
    // SAFETY: this changes nothing that is there, and memory that is not reserved is refused.
    unsafe { libc::madvise(from.cast(), bytes, libc::MADV_POPULATE_WRITE) };
}

fn map(bytes: usize, how: i32) -> Option<NonNull<u8>> {
    count(bytes)?;
    let place = map_uncounted(bytes, how);
    if place.is_none() {
        returned(bytes);
    }
    place
}

/// Counts a mapping of this many bytes that is about to be made; `None` if the budget does not
/// allow it.
pub fn count(bytes: usize) -> Option<()> {
    if !ledger::enter(Resource::Mappings, 1) {
        return None;
    }
    if !ledger::enter(Resource::MappedBytes, bytes as u64) {
        ledger::leave(Resource::Mappings, 1);
        return None;
    }
    Some(())
}

/// Records that a mapping of this many bytes, which was counted, is gone.
pub fn returned(bytes: usize) {
    ledger::leave(Resource::Mappings, 1);
    ledger::leave(Resource::MappedBytes, bytes as u64);
}

fn map_uncounted(bytes: usize, how: i32) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | how;
    // SAFETY: new anonymous memory overlaps nothing.
    let place = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if place == libc::MAP_FAILED { None } else { NonNull::new(place.cast()) }
}

/// Maps this many zeroed bytes for the heap; null if there is no memory. The heap counts them.
pub fn block(bytes: usize) -> *mut u8 {
    map_uncounted(bytes, 0).map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// Makes such memory larger or smaller. It may move; null if that cannot be, and then it stays as
/// it is.
///
/// # Safety
/// It came from here with the first number of bytes, and is not used meanwhile, nor by its old
/// address afterwards.
pub unsafe fn resize_block(place: *mut u8, bytes: usize, new: usize) -> *mut u8 {
    // SAFETY: the caller's contract: the mapping is ours, and has this length.
    let moved = unsafe { libc::mremap(place.cast(), bytes, new, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED { std::ptr::null_mut() } else { moved.cast() }
}

/// Gives such memory back.
///
/// # Safety
/// It came from here with this number of bytes, and is not used any more.
pub unsafe fn free_block(place: *mut u8, bytes: usize) {
    // SAFETY: the caller's contract.
    unsafe { libc::munmap(place.cast(), bytes) };
}

/// A value in such memory.
#[derive(Debug)]
pub struct Zeroed<T>(NonNull<T>);

// SAFETY: it owns its value as a box does.
unsafe impl<T: Send> Send for Zeroed<T> {}

impl<T> Zeroed<T> {
    /// Reserves memory for a value whose bytes are all zero. `None` if there is none, or the value
    /// needs to be aligned to more than a page.
    ///
    /// # Safety
    /// All zero bytes are a value of the type.
    pub unsafe fn reserve() -> Option<Self> {
        if align_of::<T>() > 4096 {
            return None;
        }
        let place = map(size_of::<T>(), libc::MAP_NORESERVE)?;
        // Otherwise each page that is used may take 2 MB (transparent_hugepage/enabled), for each
        // thread of the program. A kernel without large pages refuses, and has none. SAFETY: the
        // mapping was just made, and nothing that is there changes.
        unsafe { libc::madvise(place.as_ptr().cast(), size_of::<T>(), libc::MADV_NOHUGEPAGE) };
        Some(Self(place.cast()))
    }

    /// Gives up ownership: the memory stays until [`Self::from_raw`] takes it again.
    pub fn into_raw(self) -> *mut T {
        let place = self.0.as_ptr();
        std::mem::forget(self);
        place
    }

    /// Takes ownership again; `None` of nothing.
    ///
    /// # Safety
    /// The pointer is null or came from [`Self::into_raw`], and nobody else uses it.
    pub unsafe fn from_raw(place: *mut T) -> Option<Self> {
        NonNull::new(place).map(Self)
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it points to a value that lives as long as this.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and is nobody else's.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
        returned(size_of::<T>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `VmFlags` of the mapping with this address, as `/proc/self/smaps` shows them: `nh` is one
    /// without large pages.
    fn flags(address: usize) -> String {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(start), Some(end))) =
                range.map(|(start, end)| (number(start), number(end)))
            {
                is_it = (start..end).contains(&address);
            }
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_it) {
                return flags.to_owned();
            }
        }
        panic!("no mapping has {address:x}");
    }

    #[test]
    fn tables_have_no_large_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        // SAFETY: bytes may be zero.
        let table = unsafe { Zeroed::<[u8; 8 << 20]>::reserve() }.unwrap();
        let flags = flags(table.as_ptr() as usize);
        assert!(flags.split(' ').any(|flag| flag == "nh"), "{flags}");
        assert_eq!(table[4 << 20], 0);
    }
}
