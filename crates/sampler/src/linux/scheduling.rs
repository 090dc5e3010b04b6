//! How the kernel schedules a thread of ours beside the threads that are measured.
#![allow(unsafe_code)]

use std::io;

/// `struct sched_attr` (include/uapi/linux/sched/types.h), in its first size.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// How long the thread may run at a time before another one that waits has its turn, nanoseconds:
/// the most that the kernel takes (kernel/sched/syscalls.c). A thread that asks for more at a time
/// waits longer for its turn, and gives way at once to threads that ask for less and wake up. Its
/// share of the processors stays the same. Since Linux 6.12; before, it has no effect.
const SLICE: u64 = 100_000_000;

/// Lets the calling thread wait for its turn when it wakes up, and not take the processor from the
/// thread that runs there (`SCHED_BATCH`); and lets threads that wake up take the processor from
/// it. Its share of the processors stays the same. Threads and processes that it starts afterwards
/// inherit this.
///
/// A reader of samples wakes up a hundred times per second. On a service that keeps all processors
/// busy, each of these would otherwise interrupt a request.
///
/// # Errors
/// When the kernel refuses, for example by a seccomp filter.
pub fn give_way() -> io::Result<()> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_BATCH as u32,
        // It would be changed with the rest.
        nice: rustix::process::getpriority_process(None)?,
        runtime: SLICE,
        ..Attributes::default()
    };
    // SAFETY: the call reads the attributes, which live until it returns, and changes nothing in
    // this process but how the calling thread (0) is scheduled.
    match unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            0 as libc::pid_t,
            &raw const attributes,
            0 as libc::c_uint,
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
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let thread = std::thread::spawn(move || {
            let before = (policy(), nice());
            give_way().unwrap();
            assert_eq!(nice(), before.1);
            (before.0, policy())
        });
        assert_eq!(thread.join().unwrap(), (libc::SCHED_OTHER, libc::SCHED_BATCH));
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}
