//! Descriptors that a process got from the one that started it.
#![allow(unsafe_code)]

use std::fs;

/// Closes the descriptors above the three standard streams that the program which started this one
/// has left open: those without `FD_CLOEXEC`. A process that outlives its parent would otherwise
/// hold the parent's locks, pipes and sockets.
///
/// Everything that Rust's standard library and this project open has that flag, so that nothing is
/// closed that this process uses.
pub fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<libc::c_int> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > libc::STDERR_FILENO) {
        // SAFETY: it only asks for the flags of a number, which may be that of no descriptor.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: no code of this process owns a descriptor without that flag.
            unsafe { libc::close(number) };
        }
    }
}
