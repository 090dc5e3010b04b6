//! The signal engine in real runtimes.
#![allow(unsafe_code, reason = "the ring is shared memory")]

mod client;

use client::{Client, LIMIT, config, running, wait_gone};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, sample_runtimes};
use wire::ring::{Layout, Register, slot_state};
use wire::{CpuEngine, Record};

struct Ring {
    start: *mut u8,
    layout: Layout,
    next: u64,
}

struct Taken {
    tid: u32,
    rip: u64,
    stack: Vec<u8>,
    ticks: u64,
}

impl Taken {
    /// Every aligned word on the stack: return addresses are among them.
    fn words(&self) -> impl Iterator<Item = u64> {
        self.stack.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()))
    }
}

impl Ring {
    fn map(client: &mut Client) -> Self {
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::SampleRing(_)))
        });
        let layout = client
            .records
            .iter()
            .find_map(|r| if let Record::SampleRing(l) = r { Some(*l) } else { None });
        let layout = layout.unwrap();
        let file = client.descriptors.pop().unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the file that came with the frame.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.size(),
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start.cast(), layout, next: 0 }
    }

    /// All samples that are ready, in the order of their tickets.
    fn take(&mut self, mut each: impl FnMut(Taken)) {
        // SAFETY: the offsets are those of the ring's description, and slots are ours while they
        // are ready.
        unsafe {
            let tickets = (*self.start.cast::<AtomicU64>()).load(Ordering::Acquire);
            while self.next < tickets {
                let index = (self.next % u64::from(self.layout.slots)) as usize;
                let slot = self.start.add(Layout::HEADER + index * self.layout.slot_size as usize);
                let state = &*slot.cast::<AtomicU32>();
                if state.load(Ordering::Acquire) != slot_state::READY {
                    // Still being filled, or dropped.
                    if tickets - self.next < u64::from(self.layout.slots) / 2 {
                        return;
                    }
                    self.next += 1;
                    continue;
                }
                let length = slot.add(152).cast::<u32>().read() as usize;
                each(Taken {
                    tid: slot.add(4).cast::<u32>().read(),
                    rip: slot.add(16).cast::<u64>().add(Register::Rip as usize).read(),
                    stack: std::slice::from_raw_parts(slot.add(Layout::SLOT_HEADER), length)
                        .to_vec(),
                    ticks: 1 + u64::from(slot.add(156).cast::<u32>().read()),
                });
                state.store(slot_state::FREE, Ordering::Release);
                self.next += 1;
            }
        }
    }

    fn collect(&mut self, client: &mut Client, time: Duration) -> Vec<Taken> {
        let mut all = Vec::new();
        let end = Instant::now() + time;
        while Instant::now() < end {
            client.collect(Duration::from_millis(10));
            self.take(|taken| all.push(taken));
        }
        all
    }
}

/// Whether a process has a handler for SIGPROF.
fn handles_sigprof(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let bit = 1u64 << (libc::SIGPROF - 1);
    (u64::from_str_radix(caught, 16).unwrap() | u64::from_str_radix(ignored, 16).unwrap()) & bit
        != 0
}

fn counter(bye: &wire::Bye, name: &str) -> u64 {
    bye.status.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
}

#[test]
fn the_split_of_the_cpu_time_is_found() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let mut process =
            Sample::named("burn").start(runtime, &["--seconds", "12", "--threads", "2"]);
        process.wait_for_ready();
        let mut session = config(&["cpu"], CpuEngine::Signals);
        session.rate_hz = 200;
        let mut client = Client::attach(&process, session);
        let mut ring = Ring::map(&mut client);
        assert!(handles_sigprof(process.pid()));
        let samples = ring.collect(&mut client, Duration::from_secs(10));
        let ips: Vec<u64> = samples.iter().map(|sample| sample.rip).collect();
        client.resolve(&ips);
        let bye = client.stop();
        wait_gone(process.pid());
        assert!(!handles_sigprof(process.pid()));
        let truth = process.truth(LIMIT);
        let names = client.names();
        let codes: BTreeMap<u64, (u64, u32)> = client
            .codes()
            .flat_map(|code| {
                code.ranges
                    .iter()
                    .map(|&(start, length)| (start, (start + u64::from(length), code.method)))
            })
            .collect();
        let mut by_method: BTreeMap<&str, u64> = BTreeMap::new();
        for sample in &samples {
            let name = match codes.range(..=sample.rip).next_back() {
                Some((_, &(end, method))) if sample.rip < end => names[&method].as_str(),
                _ => "native",
            };
            let method =
                ["Burn.Slow", "Medium", "Light"].into_iter().find(|method| name.contains(method));
            *by_method.entry(method.unwrap_or(name)).or_default() += sample.ticks;
        }
        let of = |name: &str| by_method.get(name).copied().unwrap_or(0) as f64;
        let all = of("Burn.Slow") + of("Medium") + of("Light");
        eprintln!("{runtime}: {} samples, {by_method:?}, {:?}", samples.len(), bye.status);
        for (name, key) in [("Burn.Slow", "slow"), ("Medium", "medium"), ("Light", "light")] {
            let expected = truth["methods"][key].as_f64().unwrap();
            let found = of(name) / all;
            // Three standard errors, and what the clock's own ticks add.
            let tolerance = 3.0 * (expected * (1.0 - expected) / all).sqrt() + 0.01;
            assert!(
                (found - expected).abs() < tolerance,
                "{runtime}: {name} {found} for {expected}"
            );
        }
        // 200 Hz of what was burnt in 10 of 12 seconds.
        let ticks: u64 = samples.iter().map(|sample| sample.ticks).sum();
        let expected = truth["cpu_ns"].as_f64().unwrap() / 12.0 * 10.0 / 1e9 * 200.0;
        assert!(
            (0.75..1.15).contains(&(ticks as f64 / expected)),
            "{runtime}: {ticks} for {expected}"
        );
        assert!(samples.iter().all(|sample| sample.stack.len() > 200 && sample.tid != 0));
        assert_eq!(bye.status.dropped, []);
        assert!(counter(&bye, "signals handled") >= samples.len() as u64);
    }
}

#[test]
fn a_launched_process_is_sampled_from_its_start() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let listener = client::Listener::new();
        let mut session = config(&["cpu"], CpuEngine::Signals);
        session.socket = listener.path();
        let sample = Sample::named("burn").launch(runtime, &["--seconds", "3"]);
        let sample = sample
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", diagnostics::clsid_text(wire::CLSID_MAIN))
            .env("CORECLR_PROFILER_PATH", client::library())
            .env(wire::CONFIG_ENV, session.to_hex());
        let mut process = sample.start();
        let mut client = listener.accept();
        let mut ring = Ring::map(&mut client);
        client.send(&wire::Control::Go);
        let samples = ring.collect(&mut client, Duration::from_secs(3));
        let threads: std::collections::BTreeSet<u32> =
            samples.iter().map(|sample| sample.tid).collect();
        eprintln!("{runtime}: {} samples of {} threads", samples.len(), threads.len());
        assert!(threads.contains(&process.pid()), "{runtime}: the main thread starts the program");
        assert!(threads.len() >= 2, "{runtime}: {threads:?}");
        client.wait(|client| client.bye.is_some());
        assert_eq!(client.complaints(), Vec::<&str>::new());
        assert!(process.wait(LIMIT).unwrap().success());
    }
}

/// Ranges of code that no file holds: compiled at run time.
fn compiled_at_run_time(pid: u32) -> Vec<std::ops::Range<u64>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    // What the runtime writes through another mapping is shared (`r-xs`); .NET Core 3.1 writes it
    // in place (`rwxp`).
    let executable = maps
        .lines()
        .filter(|line| line.split(' ').nth(1).is_some_and(|may| may.as_bytes()[2] == b'x'));
    let executable = executable.filter(|line| !line.contains(".so") && !line.contains(".dll"));
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    executable.filter_map(range).collect()
}

#[test]
fn dynamic_methods_are_named_and_their_end_is_told() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let arguments = ["--wait", "--modes", "dynamic,alloc"];
        let mut process = Sample::named("mixed").start(runtime, &arguments);
        process.wait_for_ready();
        let mut session = config(&["cpu"], CpuEngine::Signals);
        session.rate_hz = 1000;
        let mut client = Client::attach(&process, session);
        let mut ring = Ring::map(&mut client);
        // While the program runs: on a busy machine a round takes much longer than its samples do.
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            let samples = ring.collect(&mut client, Duration::from_millis(20));
            let code = compiled_at_run_time(process.pid());
            let is_code = |word: &u64| code.iter().any(|range| range.contains(word));
            let words: std::collections::BTreeSet<u64> =
                samples.iter().flat_map(Taken::words).filter(is_code).collect();
            let guessed = words.into_iter().take(wire::Control::MAX_RESOLVE).collect();
            client.send(&wire::Control::Resolve { executed: vec![], guessed });
        }
        client.stop();
        wait_gone(process.pid());
        let dynamic: Vec<_> = client
            .methods()
            .into_values()
            .filter(|method| method.kind == wire::MethodKind::Dynamic)
            .cloned()
            .collect();
        let of_dynamic = |code: &&wire::Code| dynamic.iter().any(|method| method.id == code.method);
        let (mut live, mut freed) = (std::collections::BTreeSet::new(), 0);
        for record in &client.records {
            match record {
                Record::Code(code) => drop(live.insert(code.ranges[0].0)),
                Record::CodeFreed(start) => {
                    assert!(live.remove(start), "{runtime}: freed code that was never told of");
                    freed += 1;
                }
                _ => {}
            }
        }
        let codes = client.codes().filter(of_dynamic).count();
        let with = client.codes().filter(of_dynamic).filter(|code| code.unwind.is_some()).count();
        eprintln!(
            "{runtime}: {codes} codes of dynamic methods, {freed} freed, {with} with unwind table: \
                {:?}",
            dynamic.first()
        );
        assert!(
            dynamic.iter().any(|method| method.name.starts_with("Generated")),
            "{runtime}: {dynamic:?}"
        );
        assert!(dynamic.iter().all(|method| method.module.is_none()));
        assert!(freed > 0, "{runtime}");
        assert_eq!(with, codes, "{runtime}");
        process.close_stdin();
        process.truth(LIMIT);
    }
}

#[test]
fn everything_at_once_at_a_thousand_hertz_lives() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let mut process = Sample::named("mixed").start(runtime, &["--wait"]);
        process.wait_for_ready();
        for round in 0..3 {
            let mut session = config(&["cpu", "wall", "exceptions"], CpuEngine::Signals);
            session.rate_hz = 1000;
            let mut client = Client::attach(&process, session);
            let mut ring = Ring::map(&mut client);
            let samples = ring.collect(&mut client, Duration::from_secs(3));
            assert!(process.is_running(), "{runtime}: round {round}: {}", process.transcript());
            let bye = client.stop();
            wait_gone(process.pid());
            eprintln!("{runtime}: round {round}, {} samples, {:?}", samples.len(), bye.status);
            assert!(samples.len() > 200);
            assert!(process.is_running(), "{}", process.transcript());
        }
        process.close_stdin();
        let truth = process.truth(LIMIT);
        assert!(truth["done"]["nullref"].as_u64().unwrap() > 1000, "{truth}");
        assert!(process.wait(LIMIT).unwrap().success());
    }
}

#[test]
fn null_references_in_a_loop_live() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let arguments = ["--wait", "--modes", "nullref,churn,recursion"];
        let mut process = Sample::named("mixed").start(runtime, &arguments);
        process.wait_for_ready();
        for _ in 0..6 {
            let mut session = config(&["cpu"], CpuEngine::Signals);
            session.rate_hz = 1000;
            let mut client = Client::attach(&process, session);
            let mut ring = Ring::map(&mut client);
            ring.collect(&mut client, Duration::from_millis(700));
            client.stop();
            wait_gone(process.pid());
        }
        process.close_stdin();
        process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    }
}

#[test]
fn a_real_application_is_sampled() {
    for runtime in [Runtime::V10, Runtime::Azmcp9] {
        let mut process = running(runtime);
        let mut session = config(&["cpu"], CpuEngine::Signals);
        session.rate_hz = 1000;
        let mut client = Client::attach(&process, session);
        let mut ring = Ring::map(&mut client);
        let mut samples = Vec::new();
        for _ in 0..10 {
            process.feed(3).unwrap();
            samples.extend(ring.collect(&mut client, Duration::from_millis(30)));
        }
        let bye = client.stop();
        wait_gone(process.pid());
        eprintln!("{runtime}: {} samples, {:?}", samples.len(), bye.status);
        assert!(!samples.is_empty());
        process.feed(1).unwrap();
        assert!(!handles_sigprof(process.pid()));
    }
}

/// A debugger holds a thread that is about to get a `SIGPROF`, until the recording is over. The
/// signal is not pending any more then, so that nothing can discard it: it must not meet the
/// default action, which ends the process.
#[test]
fn a_signal_that_a_debugger_holds_back_ends_nothing() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let mut process =
            Sample::named("burn").start(runtime, &["--seconds", "20", "--threads", "2"]);
        process.wait_for_ready();
        let mut session = config(&["cpu"], CpuEngine::Signals);
        session.rate_hz = 200;
        let mut client = Client::attach(&process, session);
        let mut ring = Ring::map(&mut client);
        let samples = ring.collect(&mut client, Duration::from_secs(1));
        let tid = samples.last().unwrap().tid as i32;
        // SAFETY: system calls without pointers, but for the status, which is a local.
        let trace = |request, data: usize| unsafe { libc::ptrace(request, tid, 0_usize, data) };
        let stop = || {
            let mut status = 0;
            // SAFETY: as above.
            assert_eq!(unsafe { libc::waitpid(tid, &mut status, libc::__WALL) }, tid, "{runtime}");
            assert!(libc::WIFSTOPPED(status), "{runtime}: {status:x}");
            libc::WSTOPSIG(status)
        };
        assert_eq!(
            trace(libc::PTRACE_SEIZE, 0),
            0,
            "{runtime}: {}",
            std::io::Error::last_os_error()
        );
        loop {
            match stop() {
                libc::SIGPROF => break,
                other => assert_eq!(trace(libc::PTRACE_CONT, other as usize), 0),
            };
        }
        client.send(&wire::Control::Stop);
        client.wait(|client| client.bye.is_some());
        // It waits for handlers for two seconds.
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(trace(libc::PTRACE_DETACH, libc::SIGPROF as usize), 0, "{runtime}");
        std::thread::sleep(Duration::from_millis(300));
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        assert!(
            client::is_mapped(process.pid(), &client::library()),
            "{runtime}: the handler's library has gone"
        );
        process.close_stdin();
        process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
    }
}
