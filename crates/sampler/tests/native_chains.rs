//! Native frames of every shape, sampled in a running process and compared with the chain that must
//! be there.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sampler::{KernelRing, RingEvent, RingOptions};
use unwind::{FrameTrust, LiveProcess, Outcome, Sample, Unknown, Unwinder};

struct Chains {
    child: Child,
    functions: HashMap<String, u64>,
    _directory: tempfile::TempDir,
}

impl Chains {
    /// Builds the program with the linker driver that Rust needs anyway, and starts it.
    fn start(mode: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("chains");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chains.c");
        let built = Command::new("cc")
            .args([
                "-O2",
                "-fomit-frame-pointer",
                "-fno-optimize-sibling-calls",
                "-fno-ipa-ra",
                "-o",
            ])
            .arg(&program)
            .arg(source)
            .status()
            .unwrap();
        assert!(built.success());
        let mut child = Command::new(program).arg(mode).stdout(Stdio::piped()).spawn().unwrap();
        let mut functions = HashMap::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((name, address)) = line.split_once(' ') else { break };
            functions.insert(
                name.to_owned(),
                u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap(),
            );
        }
        assert_eq!(functions.len(), 8);
        Self { child, functions, _directory: directory }
    }

    /// The function that an address is in, by the nearest start before it.
    fn name(&self, address: u64) -> &str {
        let nearest = self
            .functions
            .iter()
            .filter(|(_, start)| **start <= address && address < **start + 0x400);
        nearest.max_by_key(|(_, start)| **start).map_or("?", |(name, _)| name)
    }

    /// Samples until there are `count` stacks, and hands out their outcomes.
    fn sample(&self, stack_bytes: u32, count: usize) -> (Vec<Outcome>, Unwinder) {
        let pid = self.child.id();
        let options = RingOptions { rate_hz: 1000, stack_bytes, ..RingOptions::default() };
        let mut ring = KernelRing::open(pid, &options).unwrap();
        let mut unwinder = Unwinder::new(LiveProcess::new(pid));
        let mut outcomes = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        while outcomes.len() < count {
            assert!(Instant::now() < deadline, "only {} samples", outcomes.len());
            ring.poll(Duration::from_millis(20)).unwrap();
            ring.drain(|event| {
                if let RingEvent::Sample(sample) = event {
                    let sample = Sample { registers: &sample.registers, stack: sample.stack };
                    outcomes.push(unwinder.unwind(&sample, Unknown::Ask));
                }
            });
        }
        (outcomes, unwinder)
    }

    /// Names of the frames of a stack, as far as they are in the program.
    fn names(&self, outcome: &Outcome) -> Vec<&str> {
        let (Outcome::Complete(stack) | Outcome::Truncated(stack)) = outcome else {
            panic!("{outcome:x?}")
        };
        stack
            .frames
            .iter()
            .map(|frame| self.name(frame.lookup))
            .filter(|name| *name != "?")
            .collect()
    }
}

impl Drop for Chains {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn fixed_variable_and_realigned_frames_lead_to_main() {
    let chains = Chains::start("plain");
    let (outcomes, unwinder) = chains.sample(16 * 1024, 300);
    for outcome in &outcomes {
        let Outcome::Complete(stack) = outcome else { panic!("{outcome:x?}") };
        assert_eq!(
            chains.names(outcome),
            ["spin", "fixed", "variable", "realigned", "main", "_start"]
        );
        assert!(
            stack.frames[1..].iter().all(|frame| frame.trust == FrameTrust::Tables),
            "{stack:x?}"
        );
    }
    let counters = unwinder.counters();
    assert_eq!((counters.truncated, counters.failed_rules, counters.frames_scanned), (0, 0, 0));
}

#[test]
fn signal_handlers_show_what_they_interrupted() {
    let chains = Chains::start("signal");
    std::thread::sleep(Duration::from_millis(200));
    let (outcomes, _) = chains.sample(16 * 1024, 300);
    for outcome in &outcomes {
        let names = chains.names(outcome);
        assert_eq!(
            names,
            [
                "spin",
                "fixed",
                "handler",
                "spin",
                "fixed",
                "variable",
                "realigned",
                "main",
                "_start"
            ]
        );
        assert!(matches!(outcome, Outcome::Complete(_)));
    }
}

#[test]
fn what_is_deeper_than_the_copy_is_truncated_and_says_so() {
    let chains = Chains::start("deep");
    let (outcomes, unwinder) = chains.sample(16 * 1024, 100);
    for outcome in &outcomes {
        assert!(matches!(outcome, Outcome::Truncated(_)), "{outcome:x?}");
        let names = chains.names(outcome);
        assert_eq!(names[..3], ["spin", "fixed", "recurse"]);
        assert!(names.len() > 80 && names[2..].iter().all(|name| *name == "recurse"), "{names:?}");
    }
    assert_eq!(unwinder.counters().truncated, outcomes.len() as u64);
}
