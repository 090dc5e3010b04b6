//! Managed stacks of real runtimes, unwound with the runtime's own tables but without an agent.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod support;

use std::time::{Duration, Instant};

use sampler::{KernelRing, RingEvent, RingOptions};
use support::RuntimeTables;
use testkit::{Runtime, Sample};
use unwind::{FrameCode, FrameTrust, LiveProcess, Outcome, Stack, Unknown, Unwinder};

/// More samples than this are needed to tell shares.
const ENOUGH: usize = 200;

/// Removes what the runtime wrote on behalf of `DOTNET_PerfMapEnabled`.
struct PerfMap(u32);

impl Drop for PerfMap {
    fn drop(&mut self) {
        let pid = self.0;
        for path in [
            format!("/tmp/perf-{pid}.map"),
            format!("/tmp/perfinfo-{pid}.map"),
            format!("/tmp/jit-{pid}.dump"),
        ] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Samples a program for some seconds: what each sample came to, and the names of the managed
/// methods.
fn sample(
    runtime: Runtime,
    modes: &str,
    il_stubs: bool,
    seconds: u64,
) -> (Vec<Outcome>, Vec<String>, Unwinder) {
    let arguments = ["--seconds", "60", "--modes", modes];
    let launch = Sample::named("mixed").launch(runtime, &arguments);
    // 3.1 knows only the old prefix.
    let mut program =
        launch.env("DOTNET_PerfMapEnabled", "1").env("COMPlus_PerfMapEnabled", "1").start();
    let _map = PerfMap(program.pid());
    program.wait_for_ready();
    // Code reaches its last tier first.
    std::thread::sleep(Duration::from_secs(1));
    let pid = program.pid();
    let mut tables = RuntimeTables::new(pid);
    tables.il_stubs = il_stubs;
    let mut unwinder = Unwinder::new(LiveProcess::new(pid));
    let options = RingOptions {
        rate_hz: 500,
        stack_bytes: 48 * 1024,
        buffer_ms: 2000,
        ..RingOptions::default()
    };
    let mut ring = KernelRing::open(pid, &options).unwrap();
    let mut outcomes = Vec::new();
    // Beside other tests, the program may get less than half of a processor.
    let started = Instant::now();
    let latest = Duration::from_secs(40);
    while started.elapsed() < Duration::from_secs(seconds)
        || (outcomes.len() <= ENOUGH && started.elapsed() < latest)
    {
        ring.poll(Duration::from_millis(20)).unwrap();
        ring.drain(|event| match event {
            RingEvent::Sample(sample) => {
                let raw = unwind::Sample { registers: &sample.registers, stack: sample.stack };
                for round in 0.. {
                    match unwinder
                        .unwind(&raw, if round < 3 { Unknown::Ask } else { Unknown::Guess })
                    {
                        Outcome::NeedCode(needed) => {
                            needed
                                .all()
                                .for_each(|address| tables.resolve(address, unwinder.code_mut()));
                        }
                        outcome => {
                            outcomes.push(outcome);
                            break;
                        }
                    }
                }
            }
            RingEvent::Mapped { mapping, .. } => unwinder.add_mapping(mapping),
            _ => {}
        });
    }
    assert!(outcomes.len() > ENOUGH, "{runtime}: only {} samples", outcomes.len());
    (outcomes, tables.names, unwinder)
}

/// Names of the managed methods in a stack that are the program's own, without types and
/// parameters.
fn chain<'a>(stack: &Stack, names: &'a [String]) -> Vec<&'a str> {
    let managed = stack.frames.iter().filter_map(|frame| match frame.code {
        FrameCode::Managed { method, .. } => names.get(method as usize),
        _ => None,
    });
    managed
        .filter_map(|name| name.split_once("Clrscope.Samples.Mixed")?.1.split('(').next())
        .collect()
}

/// Checks that nearly all stacks are whole, and hands them out.
fn whole(runtime: Runtime, outcomes: &[Outcome], least: f64) -> Vec<&Stack> {
    let stacks: Vec<&Stack> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Complete(stack) => Some(stack),
            _ => None,
        })
        .collect();
    let share = stacks.len() as f64 / outcomes.len() as f64;
    let others: Vec<_> = outcomes
        .iter()
        .filter(|outcome| !matches!(outcome, Outcome::Complete(_)))
        .take(3)
        .collect();
    assert!(
        share >= least,
        "{runtime}: {share} of {} stacks are whole; others: {others:x?}",
        outcomes.len()
    );
    stacks
}

#[test]
fn known_chains_come_out_whole_by_tables_alone() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let (outcomes, names, unwinder) = sample(runtime, "cpu,osr,generics", true, 3);
        let stacks = whole(runtime, &outcomes, 0.99);
        let (mut seen, mut middle) = (0, 0);
        for stack in stacks {
            let chain = chain(stack, &names);
            if chain.first() == Some(&"::Spin") && chain.contains(&"::Cpu") {
                // It calls two methods, one of them virtual, which .NET 9 inlines after it has seen
                // who is called. The thread's own delegate is a closure of `Main`.
                let chain: Vec<&str> =
                    chain.into_iter().filter(|name| *name != "+Square::Area").collect();
                middle += usize::from(chain[1] == "::Middle");
                let rest = if chain[1] == "::Middle" { &chain[2..] } else { &chain[1..] };
                assert_eq!(rest[..2], ["::Cpu", "::Work"], "{runtime}: {chain:?}");
                assert!(rest[2].starts_with("+<Main>") && rest.len() == 3, "{runtime}: {chain:?}");
                assert!(
                    stack.frames[1..].iter().all(|frame| frame.trust == FrameTrust::Tables),
                    "{runtime}: {stack:x?}"
                );
                seen += 1;
            }
        }
        // `Middle` spins for 3666 rounds, `Area` for 500.
        assert!(seen > 20 && middle * 10 > seen * 7, "{runtime}: {middle} of {seen}");
        assert_eq!(unwinder.code().malformed(), 0, "{runtime}");
        let counters = unwinder.counters();
        let exact = counters.frames_by_tables as f64;
        assert!(
            exact / (exact + (counters.frames_learned + counters.frames_scanned) as f64) > 0.99,
            "{counters:?}"
        );
    }
}

#[test]
fn hard_stacks_come_out_whole() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let modes = "async,alloc,exceptions,recursion,churn,pinvoke,delegates";
        let (outcomes, _, unwinder) = sample(runtime, modes, true, 4);
        whole(runtime, &outcomes, 0.985);
        assert!(
            unwinder.counters().broken.values().sum::<u64>() * 200 < outcomes.len() as u64,
            "{:?}",
            unwinder.counters()
        );
    }
}

#[test]
fn unknown_stubs_in_mid_stack_are_passed_by_what_is_plausible() {
    // 3.1 does not tell what its marshalling stubs are: to the agent they are no code.
    let (outcomes, names, _) = sample(Runtime::V3_1, "pinvoke", false, 2);
    let stacks = whole(Runtime::V3_1, &outcomes, 0.985);
    let through_stub =
        |stack: &&&Stack| stack.frames.iter().skip(1).any(|frame| frame.code == FrameCode::Stub);
    let found: Vec<_> = stacks.iter().filter(through_stub).collect();
    assert!(found.len() > 20, "{} of {}", found.len(), stacks.len());
    for stack in found {
        assert_eq!(
            chain(stack, &names).iter().rev().take(3).nth(2),
            Some(&"::PInvoke"),
            "{stack:x?}"
        );
    }
}
