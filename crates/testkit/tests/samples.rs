//! Every sample runs on every runtime, and the truths that they tell about themselves hold.

use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts a sample, waits for it to be ready, and gives its truth.
fn truth_of(name: &str, runtime: Runtime, arguments: &[&str]) -> Value {
    let mut process = Sample::named(name).start(runtime, arguments);
    process.wait_for_ready();
    let truth = process.truth(LIMIT);
    let status = process.wait(LIMIT).unwrap();
    assert!(status.success(), "{name} on {runtime}: {status}\n{}", process.transcript());
    assert_eq!(truth["sample"], name, "{runtime}");
    truth
}

#[test]
fn burn_splits_its_time_as_promised() {
    for runtime in sample_runtimes() {
        let truth = truth_of("burn", runtime, &["--seconds", "3"]);
        for (method, share) in [("slow", 0.7), ("medium", 0.2), ("light", 0.1)] {
            let measured = truth["methods"][method].as_f64().unwrap();
            assert!((measured - share).abs() < 0.02, "{runtime}: {method} got {measured}");
        }
        assert!(truth["cpu_ns"].as_u64().unwrap() > 500_000_000, "{runtime}: {truth}");
    }
}

#[test]
fn burn_runs_on_the_runtime_below_the_floor() {
    let truth = truth_of("burn", Runtime::V2_1, &["--seconds", "1"]);
    assert!(truth["cpu_ns"].as_u64().unwrap() > 0);
}

#[test]
fn hello_writes_one_line_and_ends() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("hello").start(runtime, &[""; 0]);
        process.wait_for_ready();
        assert!(
            process.wait(Duration::from_secs(30)).unwrap().success(),
            "{}",
            process.transcript()
        );
    }
}

#[test]
fn thrower_throws_what_it_was_told() {
    for runtime in sample_runtimes() {
        let truth =
            truth_of("thrower", runtime, &["--count", "500", "--rate", "5000", "--rare", "50"]);
        let exceptions = truth["exceptions"].as_object().unwrap();
        assert_eq!(exceptions.len(), 9, "{runtime}: {truth}");
        let sum: u64 = exceptions.values().map(|known| known["count"].as_u64().unwrap()).sum();
        assert_eq!(truth["total"].as_u64(), Some(sum), "{runtime}");
        assert!((500..=501).contains(&sum), "{runtime}: {sum}");
        let rare = exceptions["Clrscope.Samples.RareException"]["count"].as_u64().unwrap();
        assert!((8..=10).contains(&rare), "{runtime}: {rare} rare ones");
    }
}

#[test]
fn a_gated_sample_waits_before_and_after() {
    let mut process = Sample::named("thrower").start(Runtime::V9, &["--count", "20", "--gate"]);
    process.wait_for_ready();
    assert!(
        process.wait_for_line(Duration::from_millis(300), |_| true).is_err(),
        "it did not wait for `go`"
    );
    process.send_line("go").unwrap();
    process.truth(LIMIT);
    assert!(process.wait(Duration::from_millis(300)).is_err(), "it did not wait before leaving");
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success());
}

#[test]
fn collectible_throws_one_of_each_type() {
    for runtime in sample_runtimes() {
        let truth = truth_of("collectible", runtime, &["--count", "50"]);
        assert_eq!(
            (&truth["total"], &truth["caught_by_themselves"]),
            (&50.into(), &25.into()),
            "{runtime}"
        );
    }
}

#[test]
fn gcforce_collects_at_least_what_it_induces() {
    for runtime in sample_runtimes() {
        let launch = Sample::named("gcforce")
            .launch(runtime, &["--rounds", "5"])
            .env("COMPlus_GCgen0size", "2000000");
        let truth = launch.start().truth(LIMIT);
        let counts: Vec<u64> = truth["by_generation"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .collect();
        assert!(counts.iter().all(|count| *count >= 5), "{runtime}: {truth}");
        assert!(counts[0] > 5, "{runtime}: the runtime never collected by itself: {truth}");
        assert_eq!(truth["paused_ms"].is_null(), runtime.major() < 7, "{runtime}: {truth}");
    }
}

#[test]
fn allocator_allocates_as_promised() {
    for runtime in sample_runtimes() {
        let truth = truth_of("allocator", runtime, &["--mb", "100", "--large", "50"]);
        let bytes = |ty: &str| truth["types"][ty]["bytes"].as_f64().unwrap();
        let small = [
            bytes("Clrscope.Samples.Heavy"),
            bytes("Clrscope.Samples.Middle"),
            bytes("Clrscope.Samples.Light"),
        ];
        let sum: f64 = small.iter().sum();
        for (bytes, share) in small.into_iter().zip([0.7, 0.2, 0.1]) {
            assert!((bytes / sum - share).abs() < 0.01, "{runtime}: {truth}");
        }
        // .NET Core 3.1 leaves large objects out of what it counts for a thread.
        let large = if runtime.major() < 5 { 0.0 } else { bytes("byte[]") };
        let counted = truth["allocated"].as_f64().unwrap();
        assert!((counted / (sum + large) - 1.0).abs() < 0.01, "{runtime}: {truth}");
    }
}

#[test]
fn locker_waits_as_promised() {
    for runtime in sample_runtimes() {
        let truth = truth_of("locker", runtime, &["--waits", "30"]);
        let waited = |lock: &str| truth["locks"][lock]["waited_ns"].as_f64().unwrap();
        let share = waited("hot") / (waited("hot") + waited("cold"));
        // Sleeping for two milliseconds takes a little more.
        assert!((0.65..0.85).contains(&share), "{runtime}: {truth}");
        assert_eq!(
            (&truth["locks"]["hot"]["waits"], &truth["locks"]["cold"]["waits"]),
            (&30.into(), &30.into())
        );
    }
}

#[test]
fn caller_gets_the_right_results_and_counts_its_calls() {
    for runtime in sample_runtimes() {
        // A wrong result makes another exit code.
        let truth = truth_of("caller", runtime, &["--rounds", "200", "--fib", "20"]);
        assert_eq!(truth["methods"]["Caller.Fib"], 21_891, "{runtime}: {truth}");
        assert_eq!(
            truth["paths"]["Caller.RunOuter;Caller.Outer;Caller.Leaf"], 400,
            "{runtime}: {truth}"
        );
        let compared = truth["native"]["compare"].as_u64().unwrap();
        // What sorting 50 numbers takes.
        assert!((49..50 * 50).contains(&compared), "{runtime}: {truth}");
    }
}

#[test]
fn jitter_compiles_and_loads_as_promised() {
    for runtime in sample_runtimes() {
        let truth = truth_of("jitter", runtime, &["--methods", "20", "--loads", "3"]);
        assert_eq!(
            (&truth["dynamic"]["count"], &truth["generic"]["count"]),
            (&20.into(), &8.into()),
            "{runtime}: {truth}"
        );
        let lists = ["files", "emitted", "failed"].map(|list| truth[list].as_array().map(Vec::len));
        assert_eq!(lists, [Some(3); 3], "{runtime}: {truth}");
        // Contexts are really unloaded.
        assert_eq!(truth["unloaded"], serde_json::json!({"loaded": 3, "gone": 3}), "{runtime}");
        assert!(truth["handled"]["took_ns"].as_u64().unwrap() >= 60_000_000, "{runtime}: {truth}");
        // The large method is dear to compile.
        assert!(truth["large"]["took_ns"].as_u64().unwrap() > 2_000_000, "{runtime}: {truth}");
    }
}

#[test]
fn waiter_names_threads_that_the_kernel_knows() {
    for runtime in sample_runtimes() {
        let mut process =
            Sample::named("waiter").start(runtime, &["--seconds", "2", "--threads", "3"]);
        process.wait_for_ready();
        let tasks: Vec<String> = std::fs::read_dir(format!("/proc/{}/task", process.pid()))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        let truth = process.truth(LIMIT);
        let threads = truth["threads"].as_object().unwrap();
        assert_eq!(threads.len(), 12, "{runtime}: {truth}");
        for (name, thread) in threads {
            assert!(
                tasks.contains(&thread["tid"].to_string()),
                "{runtime}: {name} has no thread {thread}"
            );
        }
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn mixed_does_everything() {
    for runtime in sample_runtimes() {
        let truth = truth_of("mixed", runtime, &["--seconds", "2"]);
        let done = truth["done"].as_object().unwrap();
        assert_eq!(done.len(), 12, "{runtime}: {truth}");
        for (mode, count) in done {
            assert!(count.as_u64().unwrap() > 0, "{runtime}: {mode} did nothing");
        }
    }
}

#[test]
fn sickservice_serves_every_endpoint_under_load() {
    for runtime in sample_runtimes() {
        let truth = truth_of("sickservice", runtime, &["--seconds", "3", "--load", "8"]);
        let requests = truth["requests"].as_object().unwrap();
        for path in ["/report", "/search", "/order", "/stock", "/price", "/health"] {
            assert!(requests[path].as_u64().unwrap() > 5, "{runtime}: {path}: {truth}");
        }
    }
}

#[test]
fn throughput_measures_on_request() {
    for runtime in sample_runtimes() {
        for work in ["cpu", "alloc", "exceptions", "paced"] {
            let mut process =
                Sample::named("throughput").start(runtime, &["--work", work, "--rate", "2000"]);
            process.wait_for_ready();
            // On a busy machine one window may hold hardly any CPU time: as many as it takes to say
            // something.
            let (mut operations, mut exceptions, mut cpu, mut windows) = (0, 0, 0, 0);
            while cpu < 50_000_000 && windows < 100 {
                process.send_line("window 300").unwrap();
                let window = process.truth(LIMIT);
                operations += window["operations"].as_u64().unwrap();
                cpu += window["cpu_ns"].as_u64().unwrap();
                windows += 1;
                assert!(
                    window["wall_ns"].as_u64().unwrap() >= 299_000_000,
                    "{runtime}: {work}: {window}"
                );
                exceptions += window["exceptions"].as_u64().unwrap();
            }
            assert!(
                cpu >= 50_000_000 && operations > 100,
                "{runtime}: {work}: {operations} operations in {cpu} ns"
            );
            let throws = work == "exceptions" || work == "paced";
            assert_eq!(exceptions > 0, throws, "{runtime}: {work}: {exceptions} exceptions");
            process.send_line("quit").unwrap();
            assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        }
    }
}

#[test]
fn handover_hands_over_and_measures_on_request() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("handover").start(runtime, &["--pairs", "2"]);
        process.wait_for_ready();
        process.send_line("window 300").unwrap();
        let window = process.truth(LIMIT);
        assert!(window["wall_ns"].as_u64().unwrap() >= 299_000_000, "{runtime}: {window}");
        // A hand-over takes some 5 to 50 µs; on a machine that is busy with other tests, more.
        assert!(window["operations"].as_u64().unwrap() > 100, "{runtime}: {window}");
        assert!(window["cpu_ns"].as_u64().unwrap() > 0, "{runtime}: {window}");
        process.send_line("quit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn azmcp_answers_on_9_and_10() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let mut process = TargetProcess::azmcp_launch(runtime).private_tmp().start();
        let bytes = process.feed(3).unwrap();
        assert!(bytes > 10_000, "{runtime}: the list of tools has only {bytes} bytes");
        let socket = format!("dotnet-diagnostic-{}-", process.pid());
        let has_socket = std::fs::read_dir(process.tmp().unwrap())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(&socket));
        assert!(has_socket, "{runtime}: no diagnostic socket in the private TMPDIR");
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
    }
}

#[test]
fn heapster_tells_what_it_holds() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("heapster")
            .start(runtime, &["--count", "2000", "--chain", "300", "--churn", "1"]);
        process.wait_for_ready();
        process.send_line("grow 70").unwrap();
        process.wait_for_line(LIMIT, |line| line == "grown").unwrap();
        process.close_stdin();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}\n{}", process.transcript());
        let objects = |name: &str| {
            truth["types"][format!("Clrscope.Samples.{name}")]["objects"].as_u64().unwrap()
        };
        assert_eq!(
            (objects("Held"), objects("Link"), objects("Leaked")),
            (2000, 300, 70),
            "{runtime}: {truth}"
        );
        assert_eq!(truth["finalized"], 0, "{runtime}: nothing that is held is finalized");
    }
}

#[test]
fn threader_starts_and_ends_what_it_says() {
    for runtime in sample_runtimes() {
        let truth = truth_of(
            "threader",
            runtime,
            &["--zombie", "2", "--asleep", "1", "--leak", "5", "--seconds", "1"],
        );
        assert_eq!(truth["zombies"].as_object().unwrap().len(), 3, "{runtime}: {truth}");
        assert!((4..=5).contains(&truth["leaked"].as_u64().unwrap()), "{runtime}: {truth}");
        let truth = truth_of("threader", runtime, &["--healthy", "--seconds", "1"]);
        assert_eq!(truth["healthy"].as_object().unwrap().len(), 6, "{runtime}: {truth}");
        assert!(
            truth["ended"].as_u64() > Some(3) && truth["worked"].as_u64() > Some(9),
            "{runtime}: {truth}"
        );
    }
}

#[test]
fn deadlock_stands_still_until_its_input_ends() {
    for runtime in sample_runtimes() {
        let mut process =
            Sample::named("deadlock").start(runtime, &["--monitor", "3", "--semaphore"]);
        process.wait_for_ready();
        let truth = process.truth(LIMIT);
        assert_eq!(truth["threads"].as_object().unwrap().len(), 4, "{runtime}: {truth}");
        assert_eq!(truth["threads"]["ring-2"]["wants"], 0, "{runtime}: {truth}");
        assert!(
            process.wait(Duration::from_millis(300)).is_err(),
            "{runtime}: it did not stand still"
        );
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn starver_starves_its_pool_or_does_not() {
    for runtime in sample_runtimes() {
        let arguments = ["--sync-over-async", "100", "--milliseconds", "1000", "--seconds", "3"];
        let starved = truth_of("starver", runtime, &arguments);
        assert!(starved["longest_queue"].as_u64() > Some(50), "{runtime}: {starved}");
        let arguments = ["--healthy", "100", "--milliseconds", "100", "--seconds", "2"];
        let healthy = truth_of("starver", runtime, &arguments);
        assert!(healthy["mean_queue"].as_f64() < Some(10.0), "{runtime}: {healthy}");
        assert!(healthy["done"].as_u64() > Some(100), "{runtime}: {healthy}");
    }
}

#[test]
fn extreme_has_of_everything_what_it_says() {
    for runtime in sample_runtimes() {
        let arguments = words(
            "--threads 20 --tasks 30 --chain 40 --levels 9 --surrogates 2 --hold 50 --collectible \
                --churn 1",
        );
        let mut process = Sample::named("extreme").start(runtime, &arguments);
        process.wait_for_ready();
        std::thread::sleep(Duration::from_millis(500));
        process.close_stdin();
        let truth = process.truth(LIMIT);
        let known = |name: &str| truth[name].as_u64().unwrap();
        let exact = ["threads", "tasks", "links", "levels", "copies", "kept"].map(known);
        assert_eq!(exact, [20, 30, 40, 9, 2, 50], "{runtime}: {truth}");
        assert!(known("loaded") > 3 && known("churned") > 10 << 20, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn asyncer_knows_what_waits_in_it() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("asyncer").start(runtime, &["--orders", "5"]);
        process.wait_for_ready();
        process.send_line("more 3").unwrap();
        process.wait_for_line(LIMIT, |line| line == "begun").unwrap();
        process.close_stdin();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let stacks = truth["stacks"].as_array().unwrap();
        assert_eq!((stacks.len(), &stacks[0]["count"]), (5, &8.into()), "{runtime}: {truth}");
        // An order is two methods.
        assert_eq!(
            truth["pending"].as_u64(),
            Some(2 * 8 + 30 + 20 + 20 + 3 * 10 + 15 + 1),
            "{runtime}"
        );
    }
}

#[test]
fn steady_finds_its_own_results_right() {
    on_sample_runtimes_at_once(|runtime| {
        let mut process = Sample::named("steady").start::<&str>(runtime, &[]);
        process.wait_for_ready();
        process.close_stdin();
        let truth = process.truth(LIMIT);
        assert!(truth["operations"].as_u64().unwrap() >= 200, "{runtime}: {truth}");
        assert_eq!(truth["wrong"], 0, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
    });
}

#[test]
fn jailed_changes_its_root() {
    for runtime in sample_runtimes() {
        let jail = tempfile::tempdir().unwrap();
        let truth = truth_of("jailed", runtime, &[jail.path().to_str().unwrap(), "1"]);
        assert!(truth["rounds"].as_u64().unwrap() > 1000, "{runtime}: {truth}");
    }
}
