//! What the kernel takes to deliver a signal and to return from its handler, measured in our own
//! process.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

/// Signals in a run.
const SIGNALS: u32 = 200;
/// Runs; the shortest counts, since what disturbs a run can only make it longer.
const RUNS: usize = 5;

/// Nothing is done in it, so it is safe on any thread at any time.
extern "C" fn handler(_signal: libc::c_int) {}

/// Nanoseconds for one signal: delivery, an empty handler and the return from it. Takes about a
/// millisecond. `None` where no signal is free: one of those for applications (`SIGRTMIN` + 7 and
/// above) without a handler.
pub fn signal_cost() -> Option<u64> {
    // SAFETY: they only read and write locals; an all-zero `sigaction` is the default disposition
    // without flags.
    let (signal, old) = unsafe {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let mut free = libc::SIGRTMIN() + 7..=libc::SIGRTMAX();
        let signal = free.find(|&signal| {
            libc::sigaction(signal, ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_DFL
        })?;
        (signal, old)
    };
    let mut new = old;
    new.sa_sigaction = handler as *const () as usize;
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is a function that may run at any time, and the block is whole.
    if unsafe { libc::sigaction(signal, &new, ptr::null_mut()) } != 0 {
        return None;
    }
    let run = || {
        let began = Instant::now();
        for _ in 0..SIGNALS {
            // SAFETY: the signal goes to the calling thread and is handled before the call returns.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
        }
        began.elapsed()
    };
    let shortest = (0..RUNS).map(|_| run()).min().unwrap_or(Duration::ZERO);
    // SAFETY: what was there before, whole.
    unsafe { libc::sigaction(signal, &old, ptr::null_mut()) };
    Some(shortest.as_nanos() as u64 / u64::from(SIGNALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_takes_about_a_microsecond() {
        let cost = signal_cost().unwrap();
        assert!((100..100_000).contains(&cost), "{cost} ns");
    }
}
