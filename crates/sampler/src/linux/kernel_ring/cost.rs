//! What a kernel ring costs the process: what the kernel does at each sample and, where events are
//! bound to threads, at each switch from thread to thread. Both depend on the machine by a factor
//! of ten, so they are measured here, in our own process, in some 20 ms.
//!
//! Each figure is the difference between the shortest of several runs of the same work without and
//! with events, since what disturbs a run can only make it longer.

use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::thread::{CpuSet, gettid, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::buffer::Buffer;
use super::events::{self, Setup, Variant, Whom};

/// Runs of each kind; the shortest counts.
const RUNS: usize = 8;
/// Nanoseconds between samples while a sample is measured.
const DENSE: u64 = 50_000;
/// How long a run of plain work takes, about.
const RUN: Duration = Duration::from_millis(1);
/// Round trips between two threads in a run.
const ROUND_TRIPS: u32 = 200;
/// The ring that samples go to meanwhile.
const RING: usize = 1 << 20;

/// Nanoseconds that the kernel takes for one sample: the timer's interrupt, and copying registers
/// and stack.
///
/// # Errors
///
/// Where the system gives no event.
pub(super) fn of_sample(setup: Setup, user_only: bool) -> io::Result<u64> {
    let setup = Setup { period: DENSE, watermark: RING as u32, ..setup };
    let variant = Variant { user_only, read: false, threads_only: false };
    let event = events::open(&setup, variant, Whom::Own)?;
    let mut buffer = Buffer::map(&event, RING)?;
    let work = |rounds: u64| {
        let began = Instant::now();
        (0..rounds).for_each(|round| {
            black_box(round);
        });
        began.elapsed()
    };
    let rounds = (work(100_000).as_nanos() as u64).max(1);
    let rounds = RUN.as_nanos() as u64 * 100_000 / rounds;
    let mut costs = Vec::new();
    let mut plain = Duration::MAX;
    for _ in 0..RUNS {
        plain = plain.min(work(rounds));
        events::enable(&event)?;
        let sampled = work(rounds);
        events::disable(&event)?;
        let mut samples = 0;
        buffer.drain(|_| samples += 1);
        if samples > 0 {
            costs.push((sampled, samples));
        }
    }
    let cost = |(sampled, samples): (Duration, u64)| {
        sampled.saturating_sub(plain).as_nanos() as u64 / samples
    };
    costs.into_iter().map(cost).min().ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// Nanoseconds of CPU time that a switch from one thread to another takes longer where both have
/// such events.
///
/// # Errors
///
/// Where the system gives no events or no pipes, or does not report CPU time
/// (`/proc/<pid>/task/<tid>/schedstat`).
pub(super) fn of_switch(setup: Setup, variant: Variant) -> io::Result<u64> {
    let (to_other, from_us) = pipe()?;
    let (to_us, from_other) = pipe()?;
    let processor = sched_getcpu();
    // Both on one processor, so that each message is a switch. On a thread of its own, since ours
    // may run where it likes.
    let ours =
        thread::Builder::new().name("clrscope-cost".into()).spawn(move || -> io::Result<u64> {
            pin(processor)?;
            let (say_id, id_of_other) = std::sync::mpsc::channel();
            let other = thread::Builder::new().name("clrscope-cost".into()).spawn(
                move || -> io::Result<()> {
                    pin(processor)?;
                    let _ = say_id.send(gettid().as_raw_nonzero().get().unsigned_abs());
                    let mut byte = [0];
                    // It ends when the other end of its pipe is closed.
                    while read(&to_other, &mut byte)? == 1 {
                        write(&from_other, &byte)?;
                    }
                    Ok(())
                },
            )?;
            let ids = id_of_other
                .recv()
                .map(|other| [gettid().as_raw_nonzero().get().unsigned_abs(), other]);
            let result = ids.map_err(|_| io::ErrorKind::BrokenPipe.into()).and_then(|ids| {
                let mut events: Vec<OwnedFd> = Vec::new();
                let trips = |_: &[OwnedFd]| {
                    let began = used(ids[1])?;
                    for _ in 0..ROUND_TRIPS {
                        let mut byte = [1];
                        write(&from_us, &byte)?;
                        read(&to_us, &mut byte)?;
                    }
                    io::Result::Ok(used(ids[1])?.saturating_sub(began))
                };
                let (mut plain, mut watched) = (Duration::MAX, Duration::MAX);
                for _ in 0..RUNS {
                    plain = plain.min(trips(&events)?);
                    for tid in ids {
                        events.push(events::open(
                            &setup,
                            variant,
                            Whom::Thread { tid, on: processor as u32 },
                        )?);
                    }
                    watched = watched.min(trips(&events)?);
                    events.clear();
                }
                Ok(watched.saturating_sub(plain).as_nanos() as u64 / u64::from(2 * ROUND_TRIPS))
            });
            drop(from_us);
            let _ = other.join();
            result
        })?;
    ours.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// CPU time of the calling thread and of another one of ours, which is asleep. Time that others
/// take from both does not count, so that this holds on a busy machine, too.
fn used(other: u32) -> io::Result<Duration> {
    let schedule = std::fs::read_to_string(format!("/proc/self/task/{other}/schedstat"))?;
    let on_processor = schedule.split_whitespace().next().and_then(|time| time.parse().ok());
    let own = clock_gettime(ClockId::ThreadCPUTime);
    let own = Duration::new(own.tv_sec as u64, own.tv_nsec as u32);
    Ok(own + Duration::from_nanos(on_processor.ok_or(io::ErrorKind::InvalidData)?))
}

/// Binds the calling thread to a processor.
fn pin(processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_a_kernel() {
        let setup = Setup { period: 10_000_000, stack_bytes: 16 << 10, watermark: 1 << 16 };
        let sample = of_sample(setup, false).unwrap();
        assert!((100..100_000).contains(&sample), "{sample} ns for a sample");
        let variant = Variant { user_only: false, read: false, threads_only: false };
        let switch = of_switch(setup, variant).unwrap();
        assert!((50..50_000).contains(&switch), "{switch} ns for a switch");
        println!("{sample} ns for a sample, {switch} ns for a switch");
    }
}
