//! Unwinds a .NET process that was started with `DOTNET_PerfMapEnabled=1` (3.1:
//! `COMPlus_PerfMapEnabled=1`), with exact tables but without an agent, and tells what did not
//! work.
//!
//! `cargo run -p sampler --example managed -- <pid> [seconds] [stack bytes] [stacks to print] [part
//! of the reason]`

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sampler::{KernelRing, RingEvent, RingOptions};
use support::RuntimeTables;
use unwind::{FrameCode, FrameTrust, LiveProcess, Outcome, Sample, Stack, Unknown, Unwinder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| arguments.next().map_or(Ok(default), |text| text.parse());
    let pid = number(0)?;
    let (seconds, stack_bytes, mut printed) = (number(5)?, number(65528)?, number(3)?);
    let only = std::env::args().nth(5).unwrap_or_default();
    let mut tables = RuntimeTables::new(pid);
    tables.il_stubs = std::env::var_os("NO_IL_STUBS").is_none();
    let mut unwinder = Unwinder::new(LiveProcess::new(pid));
    let mut ring = KernelRing::open(
        pid,
        &RingOptions { rate_hz: 1000, stack_bytes, buffer_ms: 2000, ..RingOptions::default() },
    )?;
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let (mut total, mut rounds) = (0u64, 0u64);
    let mut bad: BTreeMap<String, u64> = BTreeMap::new();
    let (mut time, mut timed, mut frames) = (Duration::ZERO, 0u64, 0usize);
    while Instant::now() < end {
        ring.poll(Duration::from_millis(20))?;
        ring.drain(|event| match event {
            RingEvent::Sample(sample) => {
                total += 1;
                let raw = Sample { registers: &sample.registers, stack: sample.stack };
                for round in 0.. {
                    let begun = Instant::now();
                    let outcome = unwinder
                        .unwind(&raw, if round < 4 { Unknown::Ask } else { Unknown::Guess });
                    let spent = begun.elapsed();
                    let (stack, what) = match outcome {
                        Outcome::NeedCode(needed) => {
                            rounds += 1;
                            for address in needed.all() {
                                tables.resolve(address, unwinder.code_mut());
                            }
                            continue;
                        }
                        Outcome::Complete(stack) => (stack, None),
                        Outcome::Truncated(stack) => (stack, Some("truncated".to_owned())),
                        Outcome::Broken(stack, failure) => (stack, Some(failure.name().to_owned())),
                    };
                    if round == 0 {
                        time += spent;
                        timed += 1;
                        frames += stack.frames.len();
                    }
                    let guessed = stack
                        .frames
                        .iter()
                        .any(|frame| matches!(frame.trust, FrameTrust::Scan | FrameTrust::Learned));
                    if what.is_some() || guessed {
                        let what = what.unwrap_or_else(|| "complete, but with guesses".into());
                        if printed > 0 && what.contains(&only) {
                            printed -= 1;
                            print(&what, &stack, &mut unwinder, &tables, sample.stack.len());
                        }
                        *bad.entry(what).or_default() += 1;
                    }
                    break;
                }
            }
            RingEvent::Mapped { mapping, .. } => unwinder.add_mapping(mapping),
            _ => {}
        });
    }
    println!("{total} samples, {rounds} questions, {bad:?}, {:?}", ring.counters());
    println!(
        "{:.1} frames, {:.2} µs per stack without questions",
        frames as f64 / timed as f64,
        time.as_secs_f64() * 1e6 / timed as f64
    );
    println!(
        "{:?}, {} methods, {} malformed",
        unwinder.counters(),
        unwinder.code().len(),
        unwinder.code().malformed()
    );
    Ok(())
}

fn print(
    what: &str,
    stack: &Stack,
    unwinder: &mut Unwinder,
    tables: &RuntimeTables,
    copied: usize,
) {
    println!("--- {what}, {copied} bytes");
    for frame in stack.frames.iter().take(30) {
        let name = match frame.code {
            FrameCode::Managed { method, offset, .. } => {
                format!("{} +{offset:x}", tables.names[method as usize])
            }
            FrameCode::Native => unwinder
                .locate(frame.lookup)
                .map_or("?".into(), |at| format!("{}+{:x}", at.path, at.address)),
            other => format!("{other:?}"),
        };
        println!("{:14x} {:?} {name}", frame.ip, frame.trust);
    }
}
