//! Watches a process for some seconds and tells what the kernel's ring gave and how well it
//! unwound.
//!
//! `cargo run --release -p sampler --example watch -- <pid> [rate] [seconds] [stack bytes]`
//!
//! Without an agent nobody can tell about managed code, so stacks through it are guesses here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sampler::{KernelRing, RingEvent, RingOptions};
use unwind::{LiveProcess, Outcome, Sample, Unknown, Unwinder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| arguments.next().map_or(Ok(default), |text| text.parse());
    let pid = number(std::process::id())?;
    let (rate_hz, seconds, stack_bytes) = (number(1000)?, number(5)?, number(16384)?);

    let start = Instant::now();
    let mut ring =
        KernelRing::open(pid, &RingOptions { rate_hz, stack_bytes, ..RingOptions::default() })?;
    println!(
        "{}; {} threads, opened in {:?}, {} KB of ring",
        ring.description(),
        ring.threads(),
        start.elapsed(),
        ring.capacity() >> 10
    );

    let mut unwinder = Unwinder::new(LiveProcess::new(pid));
    let mut first = None;
    let mut threads: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    let mut beside: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut stack_total, mut frames, mut unwinding) = (0, 0, Duration::ZERO);
    let deadline = start + Duration::from_secs(seconds.into());
    while Instant::now() < deadline {
        let ended = ring.poll(Duration::from_millis(50))? == sampler::Readiness::ProcessEnded;
        ring.drain(|event| match event {
            RingEvent::Sample(sample) => {
                first.get_or_insert_with(|| start.elapsed());
                let (count, cpu, kernel) = threads.entry(sample.tid).or_default();
                *count += 1;
                *cpu += sample.cpu;
                *kernel += u64::from(sample.in_kernel);
                stack_total += sample.stack.len();
                let before = Instant::now();
                let outcome = unwinder.unwind(
                    &Sample { registers: &sample.registers, stack: sample.stack },
                    Unknown::Guess,
                );
                unwinding += before.elapsed();
                if let Outcome::Complete(stack)
                | Outcome::Truncated(stack)
                | Outcome::Broken(stack, _) = outcome
                {
                    frames += stack.frames.len();
                }
            }
            RingEvent::KernelOnly { .. } => *beside.entry("kernel only").or_default() += 1,
            RingEvent::Mapped { mapping, .. } => {
                unwinder.add_mapping(mapping);
                *beside.entry("mapped").or_default() += 1;
            }
            RingEvent::ThreadStarted { .. } => *beside.entry("thread started").or_default() += 1,
            RingEvent::ThreadEnded { .. } => *beside.entry("thread ended").or_default() += 1,
            RingEvent::ThreadNamed { .. } => *beside.entry("thread named").or_default() += 1,
            RingEvent::Replaced { .. } => *beside.entry("replaced").or_default() += 1,
            RingEvent::Lost(count) => *beside.entry("lost").or_default() += count,
        });
        if ended {
            println!("the process has ended");
            break;
        }
    }
    let counters = ring.counters();
    println!("first sample after {first:?}; {counters:?}");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.1} MB/s, {:.0} bytes of stack per sample",
        counters.bytes as f64 / seconds / 1e6,
        stack_total as f64 / counters.samples.max(1) as f64
    );
    println!(
        "{:.1} frames per stack, {:.2} µs per stack; {:?}",
        frames as f64 / counters.samples.max(1) as f64,
        unwinding.as_secs_f64() * 1e6 / counters.samples.max(1) as f64,
        unwinder.counters()
    );
    println!("{beside:?}");
    for (tid, (count, cpu, kernel)) in threads {
        println!(
            "thread {tid}: {count} samples, {:.3} s of CPU time, {kernel} in the kernel",
            cpu as f64 / 1e9
        );
    }
    Ok(())
}
