//! Attach, resolve, detach on real runtimes.

mod client;

use client::{Client, LIMIT, agent_threads, attach, clsid, config, resident, running, wait_gone};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, TargetProcess, runtimes, sample_runtimes};
use wire::call_site::{LONGEST_CALL, ends_in_call};
use wire::{ByeReason, Code, Control, CpuEngine, MethodKind, Record};

fn supported() -> Vec<Runtime> {
    runtimes().into_iter().filter(|runtime| runtime.is_supported()).collect()
}

/// Instruction pointers that the program really has, from a short session of walks.
fn real_addresses(process: &mut TargetProcess) -> Vec<u64> {
    let mut client = Client::attach(process, config(&["wall:rate=50"], CpuEngine::Off));
    client.collect(Duration::from_millis(1500));
    client.stop();
    wait_gone(process.pid());
    let mut ips = BTreeSet::new();
    for record in &client.records {
        if let Record::Stack(stack) = record {
            ips.extend(&stack.ips);
        }
    }
    ips.into_iter().collect()
}

/// Checks that every push of the prolog that the table describes is in the code at the place that
/// the table gives.
fn check_unwind(code: &Code) -> usize {
    let table = code.unwind.as_ref().unwrap();
    let (start, length) = code.ranges[0];
    let mut pushes = 0;
    for entry in &table.entries {
        assert!(entry.begin < entry.end);
        if !(start..start + u64::from(length)).contains(&entry.begin) || code.bytes.is_empty() {
            continue;
        }
        let code = &code.bytes[(entry.begin - start) as usize..];
        for info in &entry.info {
            assert_eq!(info.len(), 4 + 2 * usize::from(info[2]));
            let mut at = 4;
            while at < info.len() {
                let (offset, op, operand) =
                    (usize::from(info[at]), info[at + 1] & 15, info[at + 1] >> 4);
                match op {
                    // On-stack replacement continues in the frame of the code before it. What that
                    // code pushed is reported at offset 0, and is nowhere in this code.
                    0 if offset == 0 => at += 2,
                    0 => {
                        let expected: &[u8] = if operand < 8 {
                            &[0x50 + operand]
                        } else {
                            &[0x41, 0x50 + operand - 8]
                        };
                        assert!(
                            code[..offset].ends_with(expected),
                            "{:x?} {info:x?}",
                            &code[..offset]
                        );
                        pushes += 1;
                        at += 2;
                    }
                    1 => at += if operand == 0 { 4 } else { 6 },
                    2 | 3 | 10 => at += 2,
                    4 | 8 => at += 4,
                    5 | 9 | 11 => at += 6,
                    _ => panic!("operation {op} in {info:x?}"),
                }
            }
        }
    }
    pushes
}

#[test]
fn addresses_become_methods_with_exact_unwind_tables() {
    for runtime in supported() {
        let mut process = running(runtime);
        let ips = real_addresses(&mut process);
        assert!(ips.len() >= 10, "{runtime}: {}", ips.len());
        let mut client = Client::attach(&process, config(&[], CpuEngine::KernelRing));
        let hello = client.hello.clone().unwrap();
        assert_eq!(&hello.token, b"token of a test!");
        assert_eq!(hello.pid, process.pid());
        assert_eq!(hello.notify_only, runtime.major() >= 6, "{runtime}");
        assert_eq!(hello.runtime[0], runtime.major(), "{runtime}: {:?}", hello.runtime);
        assert!(
            hello.info_version >= if runtime.major() < 8 { 11 } else { 14 },
            "{runtime}: {}",
            hello.info_version
        );
        client.resolve(&ips);
        // What is no code is said to be none.
        client.resolve(&[1, main as *const () as u64]);
        let names = client.names();
        let methods = client.methods();
        let (mut with, mut pushes) = (0, 0);
        for code in client.codes() {
            if code.unwind.is_none() {
                eprintln!("{runtime}: no table for {}", names[&code.method]);
                continue;
            }
            with += 1;
            pushes += check_unwind(code);
            assert_eq!(code.bytes.len(), code.ranges[0].1 as usize);
            assert!(code.il_map.is_sorted(), "{:?}", code.il_map);
            let method = methods[&code.method];
            assert!(!method.name.is_empty());
            assert_eq!(method.module.is_some(), method.kind == MethodKind::Normal, "{method:?}");
        }
        let all = client.codes().count();
        eprintln!(
            "{runtime}: {} addresses, {all} methods, {with} with unwind table, {pushes} pushes \
                checked",
            ips.len()
        );
        assert_eq!(with, all, "{runtime}");
        assert!(pushes > with, "{runtime}");
        if runtime.runs_samples() {
            assert!(
                names.values().any(|name| name.starts_with("Clrscope.Samples.Burn.Slow(")),
                "{names:#?}"
            );
        }
        let modules =
            client.records.iter().filter(|record| matches!(record, Record::Module(_))).count();
        assert!(modules >= 1);
        let bye = client.stop();
        assert_eq!(bye.reason, ByeReason::Stopped);
        let naming = |name: &str| {
            bye.status.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, count)| *count)
        };
        eprintln!(
            "{runtime}: {} ns to name a method",
            naming("nanoseconds naming") / naming("methods named").max(1)
        );
        // .NET Core 3.1 takes longer to unload it the busier the machine is.
        let gone = wait_gone(process.pid());
        assert!(gone < Duration::from_secs(8), "{runtime}: {gone:?}");
        assert!(process.is_running());
    }
}

fn main() {}

#[test]
fn threads_are_told() {
    for runtime in supported() {
        let process = running(runtime);
        let mut client = Client::attach(&process, config(&[], CpuEngine::KernelRing));
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::ThreadStarted(_)))
        });
        // Where nothing is left to ask the runtime about, there are answers too.
        let native = main as *const () as u64;
        client.send(&Control::Resolve { executed: vec![], guessed: vec![native] });
        client.wait(|client| {
            client.records.iter().any(|r| matches!(r, Record::NotCode(ip) if *ip == native))
        });
        client.send(&Control::Flush);
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::Flushed { .. }))
        });
        let threads: BTreeSet<u32> = client
            .records
            .iter()
            .filter_map(|record| {
                if let Record::ThreadStarted(thread) = record { Some(thread.os_tid) } else { None }
            })
            .collect();
        for tid in &threads {
            assert!(
                std::path::Path::new(&format!("/proc/{}/task/{tid}", process.pid())).exists(),
                "{runtime}: {tid}"
            );
        }
        assert!(
            threads.contains(&process.pid()),
            "{runtime}: the main thread is managed: {threads:?}"
        );
        assert!(threads.len() >= 2, "{runtime}: {threads:?}");
        client.stop();
        wait_gone(process.pid());
    }
}

#[test]
fn the_agent_leaves_when_the_other_side_is_gone() {
    for runtime in supported() {
        let mut process = running(runtime);
        let mut client =
            Client::attach(&process, config(&["wall", "exceptions"], CpuEngine::SuspendWalk));
        client.collect(Duration::from_millis(300));
        assert_eq!(agent_threads(process.pid()).len(), 2);
        drop(client);
        wait_gone(process.pid());
        assert!(process.is_running());
    }
}

#[test]
fn where_memory_is_limited_the_heap_takes_a_part_of_what_is_free() {
    for runtime in supported() {
        let mut process = running(runtime);
        let mut config = config(&["wall", "exceptions"], CpuEngine::SuspendWalk);
        config.free_memory = Some(64 << 10);
        let mut client = Client::attach(&process, config);
        client.wait(|client| client.bye.is_some());
        assert_eq!(client.bye.as_ref().unwrap().reason, ByeReason::Failed, "{runtime}");
        assert!(client.complaints().contains(&wire::OUT_OF_MEMORY), "{:?}", client.complaints());
        wait_gone(process.pid());
        assert!(process.is_running());
    }
}

/// From .NET 6 on a main profiler that leaves is counted as one beside it, of which there is none
/// then: ends of threads are not told any more.
#[test]
fn nothing_is_walked_once_the_runtime_has_ceased_to_call() {
    let mut process = running(Runtime::V9.require());
    let mut beside =
        Client::attach_as(&process, config(&["wall"], CpuEngine::Off), wire::CLSID_NOTIFY_ONLY);
    beside.collect(Duration::from_millis(500));
    assert!(beside.bye.is_none());
    let mut main =
        Client::attach_as(&process, config(&["exceptions"], CpuEngine::Off), wire::CLSID_MAIN);
    main.stop();
    beside.wait(|client| client.bye.is_some());
    assert_eq!(beside.bye.as_ref().unwrap().reason, ByeReason::Stays);
    assert!(
        beside.complaints().iter().any(|text| text.contains("no longer calls")),
        "{:?}",
        beside.complaints()
    );
    assert!(process.is_running());
}

#[test]
fn nobody_listening_leaves_nothing_behind() {
    for runtime in supported() {
        let mut process = running(runtime);
        let mut config = config(&[], CpuEngine::Off);
        config.socket = "/nonexistent/socket".into();
        attach(process.pid(), &config, clsid(process.pid())).unwrap();
        wait_gone(process.pid());
        config.protocol = 999;
        attach(process.pid(), &config, clsid(process.pid())).unwrap_err();
        wait_gone(process.pid());
        assert!(process.is_running());
    }
}

#[test]
fn fifty_cycles_leave_memory_as_it_was() {
    for runtime in supported() {
        let mut process = running(runtime);
        let pid = process.pid();
        let mut after = Vec::new();
        let mut attach_times = Vec::new();
        let mut detach_times = Vec::new();
        for cycle in 0..50 {
            let begun = Instant::now();
            let engine = if cycle % 2 == 0 { CpuEngine::SuspendWalk } else { CpuEngine::Signals };
            let mut client =
                Client::attach(&process, config(&["wall:rate=100", "exceptions", "cpu"], engine));
            attach_times.push(begun.elapsed());
            client.collect(Duration::from_millis(20));
            let begun = Instant::now();
            client.stop();
            wait_gone(pid);
            detach_times.push(begun.elapsed());
            if cycle >= 9 {
                after.push(resident(pid));
            }
        }
        attach_times.sort_unstable();
        detach_times.sort_unstable();
        let grown = after[after.len() - 5..]
            .iter()
            .min()
            .unwrap()
            .saturating_sub(*after[..5].iter().min().unwrap());
        eprintln!(
            "{runtime}: attach and hello p50 {:?}, detach p50 {:?} p95 {:?}, grown {} kB in 40 \
                cycles",
            attach_times[25],
            detach_times[25],
            detach_times[47],
            grown >> 10
        );
        assert!(grown < 5 << 20, "{runtime}: {grown}");
        assert!(detach_times[47] < LIMIT / 4);
        assert!(process.is_running());
    }
}

#[test]
fn guesses_at_addresses_do_no_harm() {
    for runtime in supported() {
        let mut process = running(runtime);
        let mut client = Client::attach(&process, config(&["cpu"], CpuEngine::Off));
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::ThreadStarted(_)))
        });
        // Most assemblies of the framework have run little or nothing of their code.
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid())).unwrap();
        let code = maps.lines().filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let address = |text: &str| u64::from_str_radix(text, 16).ok();
            (rest.as_bytes().get(2) == Some(&b'x')).then_some(address(start)?..address(end)?)
        });
        // On stacks there are old return addresses, pointers to functions, and anything else; but
        // what lies behind a call is there only if that call was made.
        let memory = File::open(format!("/proc/{}/mem", process.pid())).unwrap();
        let is_in_call = |address: u64| {
            let mut code = [0; LONGEST_CALL];
            let start = address + 1 - code.len() as u64;
            memory.read_exact_at(&mut code, start).is_ok() && ends_in_call(&code)
        };
        let guessed: Vec<u64> = code
            .flat_map(|range| {
                let step = ((range.end - range.start) / 40).max(1);
                range.clone().step_by(step as usize).chain([range.end - 1]).collect::<Vec<_>>()
            })
            .filter(|address| !is_in_call(*address))
            .collect();
        assert!(guessed.len() > 500, "{runtime}: {}", guessed.len());
        for part in guessed.chunks(Control::MAX_RESOLVE) {
            client.send(&Control::Resolve { executed: vec![], guessed: part.to_vec() });
        }
        client.send(&Control::Flush);
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::Flushed { .. }))
        });
        let refused =
            client.records.iter().filter(|record| matches!(record, Record::NotCode(_))).count();
        assert!(refused > 500, "{runtime}: {refused} of {}", guessed.len());
        client.stop();
        wait_gone(process.pid());
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
    }
}

/// Where assemblies are unloaded, lookups need suspensions: the runtime must not be suspended for
/// most of the time when many addresses are asked for at once.
#[test]
fn many_lookups_suspend_the_runtime_for_a_share_of_the_time() {
    let runtimes = sample_runtimes().into_iter().filter(|runtime| runtime.major() >= 8);
    std::thread::scope(|scope| {
        runtimes.for_each(|runtime| drop(scope.spawn(move || storm_of_lookups(runtime))));
    });
}

fn storm_of_lookups(runtime: Runtime) {
    let sample = Sample::named("collectible").launch(runtime, &["--count", "30", "--gate"]);
    let mut process = sample.start();
    process.wait_for_ready();
    let begun = Instant::now();
    let mut client = Client::attach(&process, config(&["exceptions"], CpuEngine::Off));
    client.collect(Duration::from_millis(300));
    process.send_line("go").unwrap();
    process.truth(LIMIT);
    // Native code, of which the runtime knows nothing: each address is looked up by itself.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid())).unwrap();
    let code = maps.lines().filter(|line| line.contains("/libc.so")).find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        (rest.as_bytes().get(2) == Some(&b'x')).then_some(address(start)?..address(end)?)
    });
    let asked: Vec<u64> = code.unwrap().step_by(8).take(150_000).collect();
    assert_eq!(asked.len(), 150_000);
    let answers = |client: &Client| {
        client.records.iter().filter(|record| matches!(record, Record::NotCode(_))).count()
    };
    let mut sent = 0;
    for part in asked.chunks(Control::MAX_RESOLVE) {
        client.send(&Control::Resolve { executed: part.to_vec(), guessed: vec![] });
        sent += part.len();
        client.wait(|client| answers(client) >= sent);
    }
    client.send(&Control::Status);
    client.wait(|client| client.records.iter().any(|record| matches!(record, Record::Status(_))));
    let passed = begun.elapsed();
    let status = client.records.iter().rev().find_map(|record| match record {
        Record::Status(status) => Some(status),
        _ => None,
    });
    let status = status.unwrap();
    let suspended = Duration::from_nanos(status.stopped);
    // A fiftieth of the time, what is in hand at the beginning, and one long suspension.
    let most = passed / 50 + Duration::from_millis(40 + 20);
    assert!(suspended <= most, "{runtime}: {suspended:?} of {passed:?}");
    let later = status.counters.iter().find(|(name, _)| name == "addresses looked up later");
    assert!(later.is_some_and(|(_, count)| *count > 0), "{runtime}: {:?}", status.counters);
    client.stop();
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
}
