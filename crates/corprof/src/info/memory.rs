//! Memory that the runtime takes over and frees itself, with the platform's COM task allocator.

use core::ffi::c_void;

#[cfg(unix)]
mod platform {
    use core::ffi::c_void;

    unsafe extern "C" {
        // On Unix the runtime's CoTaskMemFree is `free`.
        fn malloc(size: usize) -> *mut c_void;
    }

    pub(super) fn allocate(size: usize) -> *mut c_void {
        // SAFETY: malloc takes any size.
        unsafe { malloc(size) }
    }
}

#[cfg(windows)]
mod platform {
    use core::ffi::c_void;

    #[link(name = "ole32")]
    unsafe extern "system" {
        fn CoTaskMemAlloc(size: usize) -> *mut c_void;
    }

    pub(super) fn allocate(size: usize) -> *mut c_void {
        // SAFETY: CoTaskMemAlloc takes any size and needs no initialised COM.
        unsafe { CoTaskMemAlloc(size) }
    }
}

/// Copies a slice into memory that the runtime will free; null if there is none left, or for an
/// empty slice.
pub(super) fn give_away<T: Copy>(items: &[T]) -> *mut T {
    if items.is_empty() {
        return core::ptr::null_mut();
    }
    let memory: *mut c_void = platform::allocate(size_of_val(items));
    let memory = memory.cast::<T>();
    if !memory.is_null() {
        // SAFETY: the block is new, as large as the slice, and aligned for every type of the ABI.
        unsafe { core::ptr::copy_nonoverlapping(items.as_ptr(), memory, items.len()) };
    }
    memory
}
