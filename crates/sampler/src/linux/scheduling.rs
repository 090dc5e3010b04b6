//! How the kernel schedules a thread of ours beside the threads that are measured.
#![allow(unsafe_code)]

use std::io;

/// Lets the calling thread wait for its turn when it wakes up, and not take the processor from the
/// thread that runs there (`SCHED_BATCH`). Its share of the processors stays the same. Threads and
/// processes that it starts afterwards inherit this.
///
/// A reader of samples wakes up a hundred times per second. On a service that keeps all processors
/// busy, each of these would otherwise interrupt a request.
///
/// # Errors
/// When the kernel refuses, for example by a seccomp filter.
pub fn give_way() -> io::Result<()> {
    // The kernel's `sched_param` is this one number (sched.h); 0 is the only value for this policy.
    let priority: libc::c_int = 0;
    // By number, because musl's own function only answers ENOSYS.
    // SAFETY: the call reads the priority, which lives until it returns, and changes nothing in
    // this process but how the calling thread (0) is scheduled.
    match unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0 as libc::pid_t,
            libc::SCHED_BATCH,
            &raw const priority,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// `policy` in `/proc/thread-self/stat`, field 41 (proc(5)).
    fn policy() -> i32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        after_name.split(' ').nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn only_the_calling_thread_gives_way() {
        let thread = std::thread::spawn(|| {
            let before = policy();
            give_way().unwrap();
            (before, policy())
        });
        assert_eq!(thread.join().unwrap(), (libc::SCHED_OTHER, libc::SCHED_BATCH));
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}
