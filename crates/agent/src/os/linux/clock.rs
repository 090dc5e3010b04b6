//! Clocks, in nanoseconds.

/// Now, on the one clock of a recording (`CLOCK_MONOTONIC`).
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of a thread, up to date also for one that runs just now; `None` if it has ended. The
/// kernel answers for threads of other processes, too: one of them may have got the id of a thread
/// that ended.
pub fn cpu_of(tid: u32) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to for the whole call.
    let read = unsafe { libc::clock_gettime(cpu_clock(tid), &mut time) };
    (read == 0).then(|| nanos(time))
}

/// The kernel's number of a thread's CPU clock (include/linux/posix-timers.h):
/// `CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED`.
pub fn cpu_clock(tid: u32) -> libc::clockid_t {
    (!(tid as i32) << 3) | 4 | 2
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to for the whole call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    nanos(time)
}

/// A point in time as nanoseconds.
pub fn nanos(time: libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// A time as the kernel takes it.
pub fn timespec(nanos: u64) -> libc::timespec {
    // The types differ from platform to platform, and one of their names is deprecated.
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as _, tv_nsec: (nanos % 1_000_000_000) as _ }
}

/// Sleeps until a point of [`monotonic`] time. Ends early only if a signal arrives, which own
/// threads block.
pub fn sleep_until(deadline: u64) {
    let time = timespec(deadline);
    // SAFETY: `time` is valid for the call, and the remaining time is not asked for.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &time,
            std::ptr::null_mut(),
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_reaches_the_deadline() {
        let deadline = monotonic() + 3_000_000;
        sleep_until(deadline);
        assert!(monotonic() >= deadline);
        sleep_until(1);
    }

    #[test]
    fn the_cpu_time_of_a_thread_is_known_to_others() {
        let own = crate::os::threads::current_tid();
        let before = thread_cpu();
        let (of_own, after) = (cpu_of(own).unwrap(), thread_cpu());
        assert!((before..=after).contains(&of_own), "{before} {of_own} {after}");
        // More than there can be.
        assert_eq!(cpu_of((1 << 22) + 1), None);
    }

    #[test]
    fn work_costs_cpu_time() {
        let before = thread_cpu();
        let mut x = 1u64;
        while thread_cpu() < before + 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(thread_cpu() >= before + 1_000_000);
    }
}
