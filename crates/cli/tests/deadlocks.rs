//! `clrscope deadlocks` on every runtime, with a program that knows which of its threads block each
//! other.
#![cfg(unix)]
mod common;

use common::{Ended, Running, clrscope, freeze, run};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use testkit::{Launch, Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// What a verdict may take from the start of the command to its end, on a machine that is busy with
/// other tests. It takes a tenth of a second on one that is not.
const VERDICT: Duration = Duration::from_secs(3);

fn start(runtime: Runtime, arguments: &str) -> (TargetProcess, Value) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let mut process = Sample::named("deadlock").start(runtime, &words);
    process.wait_for_ready();
    let truth = process.truth(LIMIT);
    (process, truth)
}

fn look(process: &TargetProcess, more: &[&str]) -> Ended {
    let pid = process.pid().to_string();
    run(["deadlocks", &pid, "--json"].iter().chain(more))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn names(threads: &Value) -> BTreeSet<String> {
    list(threads)
        .iter()
        .map(|thread| thread["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Compares a cycle with the truth: the threads, what each wants of which other one, and where.
fn assert_ring(
    cycle: &Value,
    truth: &Value,
    prefix: &str,
    count: usize,
    lock: (&str, &str),
    what: &str,
) {
    let threads = list(&cycle["threads"]);
    assert_eq!(threads.len(), count, "{what}: {cycle}");
    for (index, thread) in threads.iter().enumerate() {
        let name = thread["name"].as_str().unwrap();
        assert!(name.starts_with(prefix), "{what}: {cycle}");
        let known = &truth["threads"][name];
        assert_eq!(
            (&thread["os_tid"], &thread["managed_id"]),
            (&known["tid"], &known["managed_id"]),
            "{what}: {thread}"
        );
        let next = &threads[(index + 1) % count];
        let next_name = next["name"].as_str().unwrap();
        assert_eq!(
            known["wants"], truth["threads"][next_name]["holds"],
            "{what}: {name} waits for {next_name}"
        );
        assert_eq!(thread["held_by"]["name"], next_name, "{what}: {thread}");
        assert!(list(&next["holds"]).contains(&thread["waits_for"]), "{what}: {thread} {next}");
        let waited = &thread["waits_for"];
        assert_eq!(
            (&waited["kind"], &waited["type"]),
            (&lock.0.into(), &lock.1.into()),
            "{what}: {thread}"
        );
        if let Some(frame) = list(&thread["stack"]).iter().find(|frame| {
            let method = format!(".Deadlock.{}(", known["method"].as_str().unwrap());
            frame["name"].as_str().unwrap().contains(&method)
        }) {
            assert!(
                frame["file"].as_str().unwrap().ends_with("Deadlock.cs")
                    && frame["line"].as_u64() > Some(0),
                "{frame}"
            );
        } else {
            assert_eq!(thread["stack"], Value::Array(Vec::new()), "{what}: the method is missing");
        }
    }
}

#[test]
fn a_ring_of_monitors_is_found_with_its_threads() {
    for runtime in sample_runtimes() {
        for count in [2, 3] {
            let (mut process, truth) = start(runtime, &format!("--monitor {count} --thin 2"));
            let what = format!("{runtime}, {count} threads");
            let from = Instant::now();
            let outside = look(&process, &["--no-attach"]).expect(9).json();
            assert!(from.elapsed() < VERDICT, "{what}: {:?}", from.elapsed());
            let whole = look(&process, &[]).expect(9).json();
            for found in [&outside, &whole] {
                assert_eq!(found["outcome"], "deadlock", "{what}");
                assert_eq!(found["verdict"], format!("deadlock: {count} threads"), "{what}");
                assert_eq!(
                    (list(&found["cycles"]).len(), list(&found["chains"]).len()),
                    (1, 0),
                    "{what}: {found}"
                );
                let account = ("monitor", "Clrscope.Samples.Account");
                assert_ring(&found["cycles"][0], &truth, "ring-", count, account, &what);
                assert_eq!(found["cycles"][0]["has_timeout"], false, "{what}");
            }
            assert_eq!(
                (&outside["stacks"]["taken"], &whole["stacks"]["taken"]),
                (&false.into(), &true.into()),
                "{what}"
            );
            for thread in list(&whole["cycles"][0]["threads"]) {
                assert!(!list(&thread["stack"]).is_empty(), "{what}: {thread}");
            }
            process.close_stdin();
            assert!(process.wait(LIMIT).unwrap().success(), "{what}: it is not as it was");
        }
    }
}

#[test]
fn a_ring_of_locks_of_the_newer_kind() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.major() >= 9) {
        let (process, truth) = start(runtime, "--lock 3");
        let found = look(&process, &[]).expect(9).json();
        assert_eq!(found["verdict"], "deadlock: 3 threads", "{runtime}");
        let lock = ("lock", "System.Threading.Lock");
        assert_ring(&found["cycles"][0], &truth, "locks-", 3, lock, &runtime.to_string());
    }
}

#[test]
fn a_healthy_program_never_has_a_deadlock() {
    for runtime in sample_runtimes() {
        let (mut process, _) = start(runtime, "--healthy 4 --thin 2");
        for round in 0..20 {
            let found = look(&process, &["--no-attach"]).expect(0).json();
            let what = format!("{runtime}, look {round}: {found}");
            assert!(["clear", "waiting"].contains(&found["outcome"].as_str().unwrap()), "{what}");
            assert_eq!(
                (list(&found["cycles"]).len(), list(&found["orphans"]).len()),
                (0, 0),
                "{what}"
            );
        }
        assert!(process.is_running(), "{runtime}");
    }
}

#[test]
fn chains_owners_that_are_gone_and_time_outs() {
    for runtime in sample_runtimes() {
        let (process, _) = start(runtime, "--chain 4");
        let found = look(&process, &[]).expect(0).json();
        assert_eq!(found["outcome"], "waiting", "{runtime}: {found}");
        let [chain] = list(&found["chains"]) else { panic!("{runtime}: {found}") };
        let owner = (&chain["owner"]["name"], &chain["owner"]["doing"], &chain["length"]);
        assert_eq!(
            owner,
            (&"chain-0".into(), &"Thread.Sleep".into(), &4.into()),
            "{runtime}: {found}"
        );
        let expected = ["chain-1", "chain-2", "chain-3"].map(str::to_owned);
        assert_eq!(names(&chain["threads"]), BTreeSet::from(expected), "{runtime}");

        let (process, _) = start(runtime, "--orphan");
        let found = look(&process, &["--no-attach"]).expect(9).json();
        let [orphan] = list(&found["orphans"]) else { panic!("{runtime}: {found}") };
        assert_eq!(
            names(&orphan["threads"]),
            BTreeSet::from(["orphan-waiter".to_owned()]),
            "{runtime}"
        );
        assert_eq!(orphan["lock"]["type"], "Clrscope.Samples.Account", "{runtime}: {found}");
        assert!(
            found["verdict"].as_str().unwrap().contains("owner has ended"),
            "{runtime}: {found}"
        );

        let (process, _) = start(runtime, "--timed");
        let found = look(&process, &["--no-attach"]).expect(9).json();
        assert_eq!(found["cycles"][0]["has_timeout"], true, "{runtime}: {found}");
        assert_eq!(found["cycles"][0]["threads"][0]["timeout_ms"], 60_000, "{runtime}: {found}");
        assert!(
            found["verdict"].as_str().unwrap().contains("until a time-out"),
            "{runtime}: {found}"
        );
    }
}

#[test]
fn waits_that_are_no_locks_are_called_by_their_names() {
    let kinds = [
        ("semaphore-waiter", "SemaphoreSlim", "WaitForSemaphore"),
        ("task-waiter", "Task.Wait", "WaitForTask"),
        ("event-waiter", "WaitHandle", "WaitForEvent"),
        ("slim-waiter", "ManualResetEventSlim", "WaitForSlim"),
        ("rwlock-reader", "ReaderWriterLockSlim", "WaitForReaderWriter"),
        ("join-waiter", "Thread.Join", "JoinForever"),
    ];
    for runtime in sample_runtimes() {
        let (process, _) = start(runtime, "--semaphore --task --event --slim --rwlock --join");
        let found = look(&process, &[]).expect(0).json();
        assert_eq!(
            (&found["outcome"], &found["verdict"]),
            (&"clear".into(), &"no deadlock".into()),
            "{runtime}: {found}"
        );
        for (thread, kind, method) in kinds {
            let of = list(&found["blocked"])
                .iter()
                .filter(|group| names(&group["threads"]).contains(thread));
            let of: Vec<&Value> = of.collect();
            assert_eq!(of.len(), 1, "{runtime}: {thread} in {found}");
            assert_eq!(
                (&of[0]["kind"], &of[0]["count"]),
                (&kind.into(), &1.into()),
                "{runtime}: {thread}"
            );
            let frames = list(&of[0]["stack"]).iter().map(|frame| frame["name"].as_str().unwrap());
            assert!(
                frames.clone().any(|frame| frame.contains(method)),
                "{runtime}: {:?}",
                frames.collect::<Vec<_>>()
            );
        }
        let text = run(["deadlocks", &process.pid().to_string()]).expect(0).out;
        for (thread, kind, _) in kinds {
            assert!(text.contains(&format!("1 thread in {kind}: {thread}\n")), "{runtime}: {text}");
        }
    }
}

#[test]
fn a_process_that_is_stopped_is_looked_at_all_the_same() {
    for runtime in sample_runtimes() {
        let (mut process, _) = start(runtime, "--monitor 2 --healthy 3");
        freeze(&mut process);
        let from = Instant::now();
        let found = look(&process, &[]).expect(9).json();
        assert!(from.elapsed() < VERDICT, "{runtime}: {:?}", from.elapsed());
        assert_eq!(
            names(&found["cycles"][0]["threads"]),
            BTreeSet::from(["ring-0".to_owned(), "ring-1".to_owned()])
        );
        assert_eq!(list(&found["cycles"]).len(), 1, "{runtime}: {found}");
        let reason = found["stacks"]["reason"].as_str().unwrap();
        assert!(reason.contains("stopped"), "{runtime}: {reason}");
        let text = run(["deadlocks", &process.pid().to_string()]).expect(9).out;
        assert!(
            text.contains("There are no stacks: ") && text.contains("deadlock: 2 threads"),
            "{runtime}: {text}"
        );
        process.thaw().unwrap();
    }
}

#[test]
fn many_threads_take_no_longer() {
    let (process, _) = start(Runtime::V9.require(), "--monitor 3 --thin 300 --chain 100");
    let from = Instant::now();
    let found = look(&process, &["--no-attach"]).expect(9).json();
    assert!(from.elapsed() < VERDICT, "{:?}", from.elapsed());
    assert_eq!(
        (list(&found["cycles"]).len(), &found["chains"][0]["length"]),
        (1, &100.into()),
        "{}",
        found["verdict"]
    );
    assert_eq!(list(&found["notes"]).len(), 0, "{found}");
}

#[test]
fn others_than_stuck_processes_are_refused_or_clear() {
    run(["deadlocks", "4194304"]).expect_error(3, &["clrscope ps"]);
    run(["deadlocks", "no-such-program"]).expect_error(3, &["no-such-program"]);
    let shell = Launch::new("sleep").arg("60").start();
    run(["deadlocks", &shell.pid().to_string()]).expect_error(4, &["not a .NET process"]);
    // A runtime whose structures are not known.
    let mut old = Sample::named("burn").start(Runtime::V2_1, &["--seconds", "60"]);
    old.wait_for_ready();
    let found = look(&old, &[]).expect(7).json();
    assert_eq!(found["outcome"], "unknown", "{found}");
    assert!(
        found["verdict"].as_str().unwrap().contains("structures of this runtime are not known"),
        "{found}"
    );
    // One that is killed while it is looked at.
    for round in 0..20 {
        let (mut process, _) = start(Runtime::V9.require(), "--monitor 2");
        let looking =
            Running::start(clrscope(["deadlocks", &process.pid().to_string(), "--no-attach"]));
        std::thread::sleep(Duration::from_millis(4 * round));
        process.kill();
        let ended = looking.wait();
        assert!([3, 5, 9].contains(&ended.code()), "round {round}: {ended:?}");
    }
}

#[test]
fn the_newest_runtime_at_work_is_clear() {
    let mut process = TargetProcess::azmcp(Runtime::V10);
    process.feed(1).unwrap();
    let from = Instant::now();
    let found = look(&process, &["--no-attach"]).expect(0).json();
    assert!(from.elapsed() < VERDICT, "{:?}", from.elapsed());
    assert_eq!(list(&found["cycles"]).len() + list(&found["orphans"]).len(), 0, "{found}");
    let whole = look(&process, &[]).expect(0).json();
    let kinds: BTreeSet<&str> =
        list(&whole["blocked"]).iter().map(|group| group["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains("Task.Wait"), "{kinds:?}");
    process.feed(1).unwrap();
}
