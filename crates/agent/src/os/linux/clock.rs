//! Clocks, in nanoseconds.

/// Now, on the one clock of a recording (`CLOCK_MONOTONIC`).
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
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

/// Sleeps until a point of [`monotonic`] time. Ends early only if a signal arrives, which own threads block.
pub fn sleep_until(deadline: u64) {
    let time = timespec(deadline);
    // SAFETY: `time` is valid for the call, and the remaining time is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
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
    fn work_costs_cpu_time() {
        let before = thread_cpu();
        let mut x = 1u64;
        while thread_cpu() < before + 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(thread_cpu() >= before + 1_000_000);
    }
}
