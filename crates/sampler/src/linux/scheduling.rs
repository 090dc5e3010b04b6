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
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameters, which live until it returns, and changes nothing in
    // this process but how the calling thread (0) is scheduled.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
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
