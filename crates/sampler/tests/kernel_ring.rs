//! The kernel's ring on real processes.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sampler::{
    Binding, KernelRing, KernelTime, OpenError, Readiness, RingCounters, RingEvent, RingOptions,
};
use testkit::{Runtime, Sample};

/// Ends with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const BINDINGS: [Binding; 2] = [Binding::Processors, Binding::Threads];

fn options(binding: Binding, rate_hz: u32) -> RingOptions {
    RingOptions { binding, rate_hz, stack_bytes: 4096, ..RingOptions::default() }
}

/// How far the sum of samples may be off the CPU time, as a share of it. Those of a thread tick by
/// that time itself; those of a processor are drawn from what runs on it: four and a half standard
/// deviations.
fn tolerance(ring: &KernelRing, binding: Binding, spent: u64) -> f64 {
    match binding {
        Binding::Processors => 0.02 + 4.5 / (spent as f64 / ring.period() as f64).sqrt(),
        Binding::Threads => 0.05 + 8.0 * ring.period() as f64 / spent as f64,
    }
}

/// CPU time of a thread in nanoseconds, as the scheduler counts it.
fn cpu_time(pid: u32, tid: u32) -> u64 {
    let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn samples_come_at_the_rate_of_the_cpu_time_and_stand_for_all_of_it() {
    // One that stays in user space, and one that spends most of its time in the kernel.
    let commands = [
        ["sh", "-c", "while :; do :; done"],
        ["sh", "-c", "exec dd if=/dev/zero of=/dev/null bs=512 2>/dev/null"],
    ];
    for (command, binding) in
        commands.into_iter().flat_map(|command| BINDINGS.map(|binding| (command, binding)))
    {
        let child = Guard(Command::new(command[0]).args(&command[1..]).spawn().unwrap());
        let pid = child.0.id();
        std::thread::sleep(Duration::from_millis(100));
        let mut ring = KernelRing::open(pid, &options(binding, 500)).unwrap();
        let before = cpu_time(pid, pid);
        let (mut samples, mut cpu, mut in_kernel) = (0u64, 0u64, 0u64);
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            ring.poll(Duration::from_millis(20)).unwrap();
            ring.drain(|event| match event {
                RingEvent::Sample(sample) => {
                    assert_eq!(sample.tid, pid);
                    assert!(sample.registers.ip != 0 && sample.registers.sp() != 0);
                    assert!(!sample.stack.is_empty() && sample.stack.len() <= 4096);
                    samples += 1;
                    cpu += sample.cpu;
                    in_kernel += u64::from(sample.in_kernel);
                }
                RingEvent::Lost(count) => panic!("{count} lost"),
                _ => {}
            });
        }
        let spent = cpu_time(pid, pid) - before;
        let share = |value: u64| value as f64 / spent as f64;
        assert!(spent > 300_000_000, "the machine is too busy for this test: {spent} ns");
        if ring.kernel_time() == KernelTime::Sampled {
            let share = share(samples * ring.period());
            assert!(
                (share - 1.0).abs() < tolerance(&ring, binding, spent) + 0.05,
                "{binding:?}: {samples} samples in {spent} ns"
            );
        }
        if ring.kernel_time() != KernelTime::Missing {
            assert!(
                (share(cpu) - 1.0).abs() < tolerance(&ring, binding, spent),
                "{binding:?}: {cpu} of {spent} ns"
            );
        }
        if ring.kernel_time() == KernelTime::Sampled && command[2].contains("dd") {
            assert!(in_kernel > samples / 4, "{in_kernel} of {samples} in the kernel");
        }
        assert_eq!(ring.counters().samples, samples);
        assert_eq!(ring.counters().malformed, 0);
    }
}

/// Not a test of its own: what the child process of the next test does.
#[test]
fn child_with_threads() {
    if std::env::var_os("CLRSCOPE_TEST_CHILD").is_none() {
        return;
    }
    let spin = |name: &str, seconds: f64| {
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let end = Instant::now() + Duration::from_secs_f64(seconds);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                let own = fs::read_link("/proc/thread-self").unwrap();
                let tid = own.file_name().unwrap().to_str().unwrap().to_owned();
                let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
                println!("thread {tid} {}", schedstat.split(' ').next().unwrap());
            })
            .unwrap()
    };
    let before = spin("before", 1.5);
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let after: Vec<_> = (0..3).map(|index| spin(&format!("after-{index}"), 0.8)).collect();
    for thread in after {
        thread.join().unwrap();
    }
    // Many short ones, as a thread pool that grows and shrinks has.
    for round in 0..50 {
        spin(&format!("short-{round}"), 0.002).join().unwrap();
    }
    before.join().unwrap();
    println!("done");
}

#[test]
fn threads_created_later_are_sampled_named_and_told_apart() {
    BINDINGS.into_iter().for_each(later_threads);
}

fn later_threads(binding: Binding) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["child_with_threads", "--exact", "--nocapture", "--test-threads=1"])
        .env("CLRSCOPE_TEST_CHILD", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guard(child);
    let pid = child.0.id();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.ends_with("ready")).unwrap();

    let mut ring = KernelRing::open(pid, &options(binding, 1000)).unwrap();
    assert!(binding == Binding::Processors || ring.threads() >= 2);
    child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let (mut cpu, mut names) = (BTreeMap::<u32, u64>::new(), BTreeMap::<u32, String>::new());
    let (mut started, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline);
        let over = ring.poll(Duration::from_millis(20)).unwrap() == Readiness::ProcessEnded;
        ring.drain(|event| match event {
            RingEvent::Sample(sample) => *cpu.entry(sample.tid).or_default() += sample.cpu,
            RingEvent::KernelOnly { tid, cpu: more, .. } => *cpu.entry(tid).or_default() += more,
            RingEvent::ThreadStarted { tid, .. } => {
                assert!(started.insert(tid), "{tid} started twice")
            }
            RingEvent::ThreadEnded { tid, .. } => {
                ended.insert(tid);
            }
            RingEvent::ThreadNamed { tid, name, .. } => {
                names.insert(tid, name.into_owned());
            }
            RingEvent::Lost(count) => panic!("{count} lost"),
            _ => {}
        });
        if over {
            break;
        }
    }
    let truth: Vec<(u32, u64)> = lines
        .filter_map(|line| {
            let mut words = line.strip_prefix("thread ")?.split(' ').map(str::to_owned);
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    assert_eq!(truth.len(), 54);
    assert_eq!(started.len(), 53, "all that were not there before");
    assert!(started.is_subset(&ended));
    let mut after = 0;
    for (tid, spent) in truth {
        let Some(name) = names.get(&tid) else { continue };
        if name.starts_with("after-") {
            after += 1;
            let sampled = cpu.get(&tid).copied().unwrap_or_default();
            let share = sampled as f64 / spent as f64;
            assert!(
                (share - 1.0).abs() < tolerance(&ring, binding, spent),
                "{binding:?}: {name}: {sampled} of {spent} ns"
            );
        }
    }
    assert_eq!(after, 3);
    assert_eq!(names.values().filter(|name| name.starts_with("short-")).count(), 50);
    assert_eq!(ring.counters().duplicates, 0);
}

#[test]
fn closing_leaves_nothing_behind() {
    let child = Guard(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let perf_files = || {
        let fds = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        fds.filter(|target| target.to_string_lossy().contains("perf_event")).count()
    };
    for binding in BINDINGS {
        let ring = KernelRing::open(child.0.id(), &options(binding, 100)).unwrap();
        assert!(perf_files() >= 1);
        drop(ring);
    }
    // Other tests of this program may still have rings open.
    let deadline = Instant::now() + Duration::from_secs(20);
    while perf_files() != 0 {
        assert!(Instant::now() < deadline, "{} events still open", perf_files());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!fs::read_to_string("/proc/self/maps").unwrap().contains("perf_event"));
}

#[test]
fn says_why_it_cannot_watch() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    for binding in BINDINGS {
        let refused = KernelRing::open(pid, &options(binding, 100)).err().unwrap();
        assert!(matches!(refused, OpenError::NoSuchProcess { .. }), "{refused}");
        let of = |pid, rate| KernelRing::open(pid, &options(binding, rate));
        assert!(matches!(of(0, 100), Err(OpenError::NoSuchProcess { .. })));
        assert!(matches!(of(1, 0), Err(OpenError::BadOptions(_))));
        assert!(matches!(of(1, 20_000), Err(OpenError::BadOptions(_))));
    }
}

#[test]
fn processes_beside_are_filtered_out_in_the_kernel() {
    let spin = || Guard(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let (watched, _beside) = (spin(), [spin(), spin()]);
    let mut ring = KernelRing::open(watched.0.id(), &options(Binding::Processors, 500)).unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    let mut cpu = 0;
    while Instant::now() < end {
        ring.poll(Duration::from_millis(20)).unwrap();
        ring.drain(|event| {
            if let RingEvent::Sample(sample) = event {
                assert_eq!(sample.tid, watched.0.id());
                cpu += sample.cpu;
            }
        });
    }
    let RingCounters { samples, of_others, lost, .. } = ring.counters();
    assert!(samples > 50 && cpu > 0 && lost == 0, "{samples} samples, {lost} lost");
    assert_eq!(of_others, 0, "beside {samples} of the process");
}

#[test]
fn a_process_in_a_namespace_of_its_own_is_known_by_its_id_there() {
    // Process 1 of another pid namespace; ours may be the first one or not.
    let mut child = Guard(
        Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "sh", "-c", "while :; do :; done"])
            .spawn()
            .unwrap(),
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    let inner = loop {
        let children = format!("/proc/{0}/task/{0}/children", child.0.id());
        let inner = fs::read_to_string(children).unwrap().trim().parse::<u32>();
        if let Ok(inner) = inner {
            break inner;
        }
        assert!(
            Instant::now() < deadline && child.0.try_wait().unwrap().is_none(),
            "unshare needs root"
        );
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut ring = KernelRing::open(inner, &options(Binding::Processors, 500)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let mut samples = 0;
    ring.drain(|event| {
        if let RingEvent::Sample(sample) = event {
            assert_eq!(sample.tid, inner);
            samples += 1;
        }
    });
    assert!(samples > 20, "{samples} samples");
}

#[test]
fn a_dotnet_process_gives_samples_of_its_managed_threads() {
    for runtime in [Runtime::V9, Runtime::V3_1] {
        let mut burn = Sample::named("burn").start(runtime, &["--seconds", "5"]);
        burn.wait_for_ready();
        let mut ring = KernelRing::open(burn.pid(), &options(Binding::Processors, 1000)).unwrap();
        let mut anonymous = 0;
        let mut samples = 0;
        let end = Instant::now() + Duration::from_secs(2);
        let mut target = unwind::Unwinder::new(unwind::LiveProcess::new(burn.pid()));
        target.refresh();
        while Instant::now() < end {
            ring.poll(Duration::from_millis(20)).unwrap();
            ring.drain(|event| {
                if let RingEvent::Sample(sample) = event {
                    samples += 1;
                    anonymous += u32::from(target.locate(sample.registers.ip).is_none());
                }
            });
        }
        assert!(samples > 300, "{runtime}: {samples} samples");
        assert!(anonymous > samples / 2, "{runtime}: {anonymous} of {samples} in managed code");
        assert_eq!(ring.counters().lost, 0, "{runtime}");
    }
}
