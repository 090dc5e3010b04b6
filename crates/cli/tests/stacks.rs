//! `clrscope stacks` on every runtime, with programs that know what their threads do.
#![cfg(target_os = "linux")]
mod common;

use common::{Ended, assert_schema, clrscope, freeze, run, wait_until_left};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use testkit::{Launch, Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// Threads of the sample that only sleep, so that there are 200 and some.
const SLEEPERS: usize = 192;

/// Named threads of the sample with the method that each is in, and its state.
const THREADS: [(&str, &str, &str); 9] = [
    ("sleeper", "Sleep", "sleep"),
    ("lock-holder", "HoldLock", "sleep"),
    ("lock-waiter", "WaitForLock", "lock"),
    ("event-waiter", "WaitForEvent", "event"),
    ("semaphore-waiter", "WaitForSemaphore", "event"),
    ("task-waiter", "WaitForTask", "task"),
    ("socket-reader", "ReadSocket", "io"),
    ("worker", "Work", "running"),
    ("joiner", "Join", "event"),
];

fn waiter(runtime: Runtime) -> Launch {
    let sleepers = SLEEPERS.to_string();
    let arguments = ["--seconds", "600", "--threads", &sleepers];
    Sample::named("waiter").launch(runtime, &arguments).private_tmp()
}

fn stacks(process: &TargetProcess, more: &[&str]) -> Ended {
    let pid = process.pid().to_string();
    run(["stacks", &pid].iter().chain(more))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn named<'a>(dump: &'a Value, name: &str) -> &'a Value {
    let threads = list(&dump["threads"]).iter();
    let mut found = threads.filter(|thread| thread["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {name}: {dump:#}"))
}

/// The frame of a method of the sample in a thread.
fn frame<'a>(thread: &'a Value, method: &str) -> &'a Value {
    let wanted = format!("Clrscope.Samples.Waiter.{method}");
    let frames = list(&thread["frames"]).iter();
    // From outside, parameters are not known.
    let mut found = frames.filter(|frame| {
        let name = frame["name"].as_str().unwrap();
        name.strip_prefix(&wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
    });
    found.next().unwrap_or_else(|| panic!("no {method}: {thread:#}"))
}

/// The lock that one thread waits for and the other holds.
fn assert_lock(dump: &Value, what: &str) {
    let waiter = named(dump, "lock-waiter");
    let wait = &waiter["waits_for"];
    assert_eq!(wait["held_by"]["name"], "lock-holder", "{what}: {waiter:#}");
    assert_eq!(wait["lock"]["type"], "System.Object", "{what}: {waiter:#}");
    assert_eq!(waiter["doing"], "waiting for a lock", "{what}");
    let holder = named(dump, "lock-holder");
    assert!(list(&holder["holds"]).contains(&wait["lock"]), "{what}: {holder:#}");
    assert_eq!(dump["locks"]["read"], true, "{what}");
}

fn assert_threads(dump: &Value, what: &str) {
    for (name, method, state) in THREADS {
        let thread = named(dump, name);
        assert_eq!(thread["state"], state, "{what}: {thread:#}");
        assert_eq!(thread["managed"], true, "{what}: {thread:#}");
        assert!(thread["managed_id"].as_u64().unwrap() > 0, "{what}: {thread:#}");
        let frame = frame(thread, method);
        assert_eq!(frame["kind"], "managed", "{what}: {frame}");
        assert!(frame["file"].as_str().unwrap().ends_with("Waiter.cs"), "{what}: {frame}");
        assert!(frame["line"].as_u64().unwrap() > 90, "{what}: {frame}");
    }
    assert_lock(dump, what);
    // Threads of the runtime's own have native frames.
    let native = |thread: &&Value| {
        thread["managed"] == false
            && list(&thread["frames"]).iter().any(|frame| frame["module"] == "libc.so.6")
    };
    assert!(list(&dump["threads"]).iter().any(|thread| native(&thread)), "{what}: {dump:#}");
    let own = |thread: &Value| thread["name"].as_str().is_some_and(|n| n.starts_with("clrscope"));
    assert!(!list(&dump["threads"]).iter().any(own), "{what}: threads of the agent");
}

#[test]
fn every_thread_is_shown_with_its_stack() {
    for runtime in sample_runtimes() {
        let mut process = waiter(runtime).start();
        process.wait_for_ready();
        let what = runtime.to_string();

        let dump = stacks(&process, &["--json"]).expect(0).json();
        assert_schema("stacks", &dump);
        assert_eq!(dump["read_by"], "agent", "{what}: {}", dump["reason"]);
        assert_threads(&dump, &what);
        // The agent is gone by the end of the command.
        wait_until_left(process.pid());

        let merged = stacks(&process, &["--merged", "--json"]).expect(0).json();
        assert_schema("stacks", &merged);
        let groups = list(&merged["groups"]);
        let count = |group: &Value| group["count"].as_u64().unwrap() as usize;
        let sum: usize = groups.iter().map(count).sum();
        assert_eq!(sum, list(&merged["threads"]).len(), "{what}");
        assert!(groups.is_sorted_by_key(|group| std::cmp::Reverse(count(group))), "{what}");
        // `sleeper` does the same as they. Their stacks differ only where the runtime has compiled
        // a method again meanwhile.
        let asleep = |group: &&Value| {
            let mut frames = list(&group["frames"]).iter();
            frames.any(|frame| frame["name"] == "Clrscope.Samples.Waiter.Sleep()")
        };
        let asleep: Vec<&Value> = groups.iter().filter(asleep).collect();
        let all: usize = asleep.iter().map(|group| count(group)).sum();
        assert_eq!(all, SLEEPERS + 1, "{what}: {asleep:#?}");
        assert!(asleep.len() < 10, "{what}: {asleep:#?}");
        assert_eq!(list(&asleep[0]["os_tids"]).len(), count(asleep[0]), "{what}");
        assert_eq!(asleep[0]["doing"], "Thread.Sleep", "{what}");

        let text = stacks(&process, &["--merged"]).expect(0).out;
        assert!(text.contains(" threads: Thread.Sleep\n  "), "{what}: {text}");
        let text = stacks(&process, &[]).expect(0).out;
        assert!(text.contains("\nlock-waiter (thread "), "{what}: {text}");
        assert!(text.contains("): waiting for a lock\n  waits for  monitor of System.Object 0x"));
        assert!(text.contains(", held by lock-holder (thread "), "{what}: {text}");
        assert!(text.contains("at Clrscope.Samples.Waiter.WaitForLock()  Waiter.cs:"), "{text}");
        let markdown = stacks(&process, &["--markdown"]).expect(0).out;
        assert!(markdown.starts_with("# ") && markdown.contains("Waiter.WaitForLock"), "{what}");
        assert!(process.is_running(), "{what}");
    }
}

/// Methods of the sample that are named from outside.
fn assert_outside(dump: &Value, what: &str) {
    assert_eq!(dump["read_by"], "outside", "{what}");
    assert_lock(dump, what);
    for (name, method, state) in THREADS {
        let thread = named(dump, name);
        if thread["end"] == "not-sampled" {
            assert_eq!(name, "worker", "{what}: {thread:#}");
            continue;
        }
        assert_eq!(frame(thread, method)["kind"], "managed", "{what}: {thread:#}");
        assert_eq!(thread["state"], state, "{what}: {thread:#}");
    }
    // Precompiled code of the base library.
    let frames = list(&named(dump, "task-waiter")["frames"]).iter();
    let names: BTreeSet<&str> = frames.map(|frame| frame["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("System.Threading.Tasks.Task.")), "{names:?}");
}

#[test]
fn a_process_that_answers_nothing_is_read_from_outside() {
    for runtime in sample_runtimes() {
        let what = runtime.to_string();
        // Its port is there, but nothing answers.
        let mut process = waiter(runtime).start();
        process.wait_for_ready();
        let with_agent = stacks(&process, &["--json"]).expect(0).json();
        freeze(&mut process);
        let dump = stacks(&process, &["--json"]).expect(0).json();
        assert_schema("stacks", &dump);
        for (name, method, state) in THREADS {
            let line = |dump| {
                let frame = frame(named(dump, name), method);
                (frame["file"].clone(), frame["line"].clone())
            };
            assert!(
                state == "running" || line(&dump) == line(&with_agent),
                "{what}: {name}: {:?} {:?}",
                line(&dump),
                line(&with_agent)
            );
        }
        assert!(dump["reason"].as_str().unwrap().contains("stopped"), "{what}: {}", dump["reason"]);
        assert_outside(&dump, &what);
        // A stopped thread has left the processor, so that it has a stack too.
        frame(named(&dump, "worker"), "Work");
        let text = stacks(&process, &[]).expect(0).out;
        assert!(text.contains("read from outside, without the runtime's help: "), "{text}");
        process.thaw().unwrap();
        assert!(process.is_running(), "{what}");
    }
    // It never had a port.
    let runtime = Runtime::V9.require();
    let launch = waiter(runtime).env("DOTNET_EnableDiagnostics", "0");
    let mut process = launch.start();
    process.wait_for_ready();
    let dump = stacks(&process, &["--json"]).expect(0).json();
    let reason = dump["reason"].as_str().unwrap();
    assert!(reason.contains("DOTNET_EnableDiagnostics"), "{reason}");
    assert_outside(&dump, "no port");
    let dump = stacks(&process, &["--no-attach", "--merged", "--json"]).expect(0).json();
    assert!(dump["reason"].as_str().unwrap().contains("not requested"), "{}", dump["reason"]);
    assert!(dump["groups"][0]["count"].as_u64().unwrap() > 50, "{:#}", dump["groups"][0]);
}

/// The methods of a thread without what is not known from outside: parameters and the arguments of
/// generic types.
fn methods(thread: &Value) -> Vec<String> {
    let frames = list(&thread["frames"]).iter().filter(|frame| frame["kind"] == "managed");
    let name = |frame: &Value| {
        let name = frame["name"].as_str().unwrap().split('(').next().unwrap();
        let mut depth = 0;
        let outside = |character: &char| {
            depth += i32::from(*character == '<');
            let is_outside = depth == 0;
            depth -= i32::from(*character == '>');
            is_outside
        };
        name.chars().filter(outside).collect()
    };
    frames.map(name).collect()
}

#[test]
fn the_newest_runtime_is_read_from_outside_as_with_the_agent() {
    let process = TargetProcess::azmcp(Runtime::V10.require());
    // Its main thread waits for the end of the program soon after the start.
    let deadline = Instant::now() + LIMIT;
    loop {
        let with_agent = stacks(&process, &["--json"]).expect(0).json();
        let outside = stacks(&process, &["--json", "--no-attach"]).expect(0).json();
        assert_eq!(outside["read_by"], "outside", "{outside:#}");
        // Its port is not there from the first moment on.
        let has_agent = with_agent["read_by"] == "agent";
        let main = |dump: &Value| {
            let threads = list(&dump["threads"]).iter();
            let mut main = threads.filter(|thread| thread["os_tid"] == process.pid());
            methods(main.next().unwrap())
        };
        let (with_agent, outside) = (main(&with_agent), main(&outside));
        let is_waiting = with_agent.iter().any(|name| name.contains("TaskAwaiter"));
        if has_agent && is_waiting && with_agent == outside {
            return;
        }
        assert!(Instant::now() < deadline, "{with_agent:#?} {outside:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn asynchronous_methods_are_shown_with_their_awaiters() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let arguments = ["--orders", "20", "--burners", "0"];
        let launch = Sample::named("asyncer").launch(runtime.require(), &arguments);
        let mut process = launch.private_tmp().start();
        process.wait_for_ready();
        let dump = stacks(&process, &["--async", "--json"]).expect(0).json();
        assert_schema("stacks", &dump);
        assert_eq!(dump["read_by"], "agent", "{runtime}: {}", dump["reason"]);
        let of = list(&dump["async"]["stacks"]);
        let deep = |stack: &&Value| {
            let frames = list(&stack["frames"]).iter();
            let methods: Vec<&str> = frames.map(|f| f["method"].as_str().unwrap()).collect();
            stack["count"] == 20
                && methods.iter().all(|name| name.starts_with("Clrscope.Samples.Asyncer."))
                && methods.len() >= 2
        };
        let found = of.iter().find(deep).unwrap_or_else(|| panic!("{runtime}: {of:#?}"));
        assert!(found["frames"][0]["line"].as_u64().is_some(), "{runtime}: {found:#}");
        process.send_line("over").unwrap();
        process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn what_cannot_be_dumped_is_refused() {
    run(["stacks", "4194304"]).expect_error(3, &["clrscope ps"]);
    run(["stacks", "no-such-program"]).expect_error(3, &["no-such-program"]);
    let shell = Launch::new("sleep").arg("60").start();
    run(["stacks", &shell.pid().to_string()]).expect_error(4, &["not a .NET process"]);
    run(["stacks", "1", "--async", "--no-attach"]).expect(2);
    // One that is killed while it is read.
    for round in 0..10 {
        let mut process =
            Sample::named("waiter").start(Runtime::V9.require(), &["--seconds", "60"]);
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let reading = common::Running::start(clrscope(["stacks", &pid]));
        std::thread::sleep(Duration::from_millis(8 * round));
        process.kill();
        let ended = reading.wait();
        assert!([0, 3, 4, 5].contains(&ended.code()), "round {round}: {ended:?}");
    }
}
