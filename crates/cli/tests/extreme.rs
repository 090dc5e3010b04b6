//! Extreme processes: very large, very full, frozen, dying. Every command on them ends within its
//! time, with its results or with the reason why there are none.
#![cfg(unix)]
mod common;

use common::{Ended, Running, clrscope, file, freeze, run, scratch, words};
use profilers::{PROFILERS, ProfilerSpec};
use serde_json::Value;
use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// The most memory that clrscope itself may take for snapshots of these processes, in MB.
const OWN_MEMORY: u64 = 1000;

fn start(sample: &str, runtime: Runtime, arguments: &str) -> TargetProcess {
    let arguments = words(arguments);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process =
        Sample::named(sample).launch(runtime.require(), &arguments).private_tmp().start();
    process.wait_for_ready();
    process
}

/// The process continues, knows what it did, and ends well.
#[track_caller]
fn ends_well(mut process: TargetProcess) -> Value {
    process.close_stdin();
    let truth = process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    truth
}

/// Runs the binary to its end; gives also the most memory that it had, in MB.
fn measured(arguments: &[&str]) -> (Ended, u64) {
    let mut running = Running::start(clrscope(arguments));
    let status = format!("/proc/{}/status", running.pid());
    let mut most = 0;
    while !running.has_ended() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(kilobytes.unwrap_or(0) >> 10);
        std::thread::sleep(Duration::from_millis(20));
    }
    (running.wait(), most)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Objects and bytes of the types whose name has this in it.
fn of_type(report: &Value, part: &str) -> (u64, u64) {
    let rows = report["types"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["type"].as_str().unwrap().contains(part));
    rows.fold((0, 0), |sum, row| (sum.0 + number(&row["objects"]), sum.1 + number(&row["bytes"])))
}

#[test]
fn endless_chains_many_tasks_long_names_and_broken_texts() {
    let chain = "--chain 1000000 --tasks 200000 --levels 20 --surrogates 20";
    for (runtime, arguments) in [
        (Runtime::V3_1, "--chain 1000 --tasks 1000 --levels 20 --surrogates 20 --fans 5000"),
        (Runtime::V9, chain),
    ] {
        let links: u64 = words(arguments)[1].parse().unwrap();
        let tasks: u64 = words(arguments)[3].parse().unwrap();
        let folder = scratch();
        let session = file(&folder, "extreme.clrscope");
        let session = session.to_str().unwrap();
        let process = start("extreme", runtime, arguments);
        let pid = process.pid().to_string();
        let (ended, memory) = measured(&["heap", &pid, "--json", "--top", "100000", "-o", session]);
        let report = ended.expect(0).json();
        assert_eq!(report["complete"], true, "{runtime}: {}", report["note"]);
        assert!(memory < OWN_MEMORY, "{runtime}: {memory} MB");
        eprintln!("{runtime}: {} objects took {memory} MB", report["totals"]["objects"]);
        assert_eq!(of_type(&report, "Samples.Ring"), (links, links * 40), "{runtime}");
        assert_eq!(of_type(&report, "AsyncStateMachineBox").0, tasks, "{runtime}");
        // A ring is retained as a whole: what retains one object of it retains all.
        let ring = report["retaining_types"].as_array().unwrap().iter();
        let ring = ring.clone().find(|row| row["type"] == "Clrscope.Samples.Ring").unwrap();
        assert_eq!(number(&ring["retained_bytes"]), links * 40, "{runtime}");

        // The name of the largest would have some forty million letters.
        let names =
            report["types"].as_array().unwrap().iter().map(|row| row["type"].as_str().unwrap());
        let longest = names.max_by_key(|name| name.len()).unwrap();
        assert!((4000..4200).contains(&longest.len()), "{runtime}: {}", longest.len());
        assert!(
            longest.starts_with("Clrscope.Samples.Pair<Clrscope.Samples.Pair<"),
            "{runtime}: {longest}"
        );
        assert!(longest.ends_with('…'), "{runtime}: {longest}");
        assert_eq!(of_type(&report, "Samples.Pair<").0, 20, "{runtime}");

        // Halves of pairs are shown as such, and the rest as it is.
        let texts: Vec<&str> = report["strings"]["duplicates"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| row["text"].as_str())
            .collect();
        for text in [
            "\u{fffd}",
            "high \u{fffd}, low \u{fffd}",
            "zero \0, bell \u{7}",
            "\"quoted\\\" </script>",
            "xxx\u{fffd}",
        ] {
            assert!(
                texts.iter().any(|known| known.contains(text)),
                "{runtime}: {text:?} is not in {texts:?}"
            );
        }
        // References go to a file where they need more than half of the memory. With less memory
        // than the objects need, the snapshot is incomplete, and says so.
        if links == 1000 {
            let through_a_file =
                run(["heap", session, "--json", "--memory", "64"]).expect(0).json();
            assert!(
                number(&through_a_file["missing"]["spooled_bytes"]) > 1 << 20,
                "{}",
                through_a_file["missing"]
            );
            assert_eq!(through_a_file["totals"], report["totals"]);
            let page = run(["heap", session, "--type", "Ring"]).expect(0).out;
            assert!(!page.chars().any(|letter| letter.is_control() && letter != '\n'), "{runtime}");
            assert!(page.contains("Clrscope.Samples.Ring"), "{runtime}: {page}");
        } else {
            let ended = run(["heap", session, "--json", "--memory", "20"])
                .expect_error(8, &["did not fit into 20 MB"]);
            let part = ended.json();
            assert_eq!(part["complete"], false);
            assert!(
                number(&part["missing"]["objects_over_budget"]) > 500_000,
                "{}",
                part["missing"]
            );
        }
        ends_well(process);
    }
}

#[test]
fn less_than_everything_is_looked_at() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let session = file(&folder, "roots.clrscope");
        let session = session.to_str().unwrap();
        let mut process = start("heapster", runtime, "--count 300000 --churn 1");
        let pid = process.pid().to_string();
        let histogram =
            run(["heap", &pid, "--histogram", "--json", "--top", "100000"]).expect(0).json();
        assert_eq!(
            (&histogram["kind"], &histogram["complete"]),
            (&"histogram".into(), &true.into()),
            "{runtime}"
        );
        let held = histogram["types"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["type"] == "Clrscope.Samples.Held");
        assert_eq!(number(&held.unwrap()["objects"]), 300_000, "{runtime}");
        assert!(histogram["roots"].as_array().unwrap().is_empty(), "{runtime}");

        let roots = run(["heap", &pid, "--roots", "--json", "--top", "100000", "-o", session])
            .expect(0)
            .json();
        assert_eq!(
            (&roots["kind"], &roots["complete"]),
            (&"roots".into(), &true.into()),
            "{runtime}"
        );
        // Of 300,000 objects only those that roots refer to.
        assert!(number(&roots["totals"]["objects"]) < 20_000, "{runtime}: {}", roots["totals"]);
        let row = |kind: &str, name: &str| {
            let rows = roots["root_types"].as_array().unwrap().iter();
            rows.clone().find(|row| row["kind"] == kind && row["type"] == name).cloned()
        };
        let pinned = row("handle", "Clrscope.Samples.Pinned").unwrap();
        assert_eq!(
            (number(&pinned["pinned"]), number(&pinned["objects"])),
            (50, 50),
            "{runtime}: {pinned}"
        );
        assert!(
            row("stack", "Clrscope.Samples.OnStack").is_some(),
            "{runtime}: {}",
            roots["root_types"]
        );
        let (whole, part) = (&histogram["pause_seconds"], &roots["pause_seconds"]);
        assert!(part.as_f64().unwrap() < whole.as_f64().unwrap(), "{runtime}: {part} s, {whole} s");
        eprintln!(
            "{runtime}: {} objects in {whole} s, roots in {part} s",
            histogram["totals"]["objects"]
        );
        let page = run(["heap", session]).expect(0).out;
        for text in ["Roots of ", "What they refer to", "Clrscope.Samples.Pinned", "Not included"] {
            assert!(page.contains(text), "{runtime}: `{text}` is missing in {page}");
        }
        run(["heap", session, "--type", "Held"]).expect_error(2, &["no references"]);
        run(["leaks", session]).expect_error(8, &["snapshots of roots"]);
        process.send_line("over").unwrap();
        ends_well(process);
    }
    // Nothing is collected where nothing is allocated.
    let folder = scratch();
    let session = file(&folder, "idle.clrscope");
    let process = start("extreme", Runtime::V9, "--hold 10");
    let pid = process.pid().to_string();
    run(["record", &pid, "-q", "-p", "heap:kind=roots:limit=1", "-o", session.to_str().unwrap()])
        .expect(0);
    run(["heap", session.to_str().unwrap()])
        .expect_error(8, &["no collection of its youngest objects within 1 s"]);
    ends_well(process);
}

#[test]
fn who_is_frozen_is_told_to_be() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let folder = scratch();
        let session = file(&folder, "frozen.clrscope");
        let count = if runtime == Runtime::V9 { "--count 3000000" } else { "--count 1000" };
        let mut process = start("heapster", runtime, count);
        let pid = process.pid().to_string();
        let commands: &[&str] = &[
            "heap {}",
            "heap {} --roots",
            "leaks {}",
            "checkup {} -d 3s",
            "record {} -p threads,threadpool,locks,jit,heap",
        ];
        freeze(&mut process);
        for command in commands {
            let from = Instant::now();
            let ended = Running::start(clrscope(words(&command.replace("{}", &pid)))).wait();
            ended.expect_error(4, &["stopped", "kill -CONT"]);
            assert!(
                from.elapsed() < Duration::from_secs(10),
                "{runtime}: {command}: {:?}",
                from.elapsed()
            );
        }
        process.thaw().unwrap();

        // Frozen in the middle of the snapshot, which is given up.
        if runtime != Runtime::V9 {
            continue;
        }
        let path = session.to_str().unwrap();
        let mut looking =
            Running::start(clrscope(["heap", &pid, "--json", "--no-strings", "-o", path]));
        let until = Instant::now() + LIMIT;
        while fs::metadata(&session).map_or(0, |file| file.len()) < 200_000 {
            assert!(!looking.has_ended() && Instant::now() < until, "{runtime}: nothing comes");
            std::thread::sleep(Duration::from_millis(2));
        }
        freeze(&mut process);
        let from = Instant::now();
        let ended = looking.wait().expect_error(8, &["not complete", "stopped", "kill -CONT"]);
        eprintln!("{runtime}: a look that is frozen was given up after {:?}", from.elapsed());
        assert!(from.elapsed() < Duration::from_secs(30), "{runtime}: {:?}", from.elapsed());
        assert_eq!(ended.json()["complete"], false, "{runtime}");
        process.thaw().unwrap();
        process.send_line("grow 1").unwrap();
        process.wait_for_line(LIMIT, |line| line == "grown").unwrap();
    }
}

#[test]
fn who_dies_meanwhile_is_told_to_have() {
    // Each with the milliseconds that the process lives on. The checkup attaches for a heap
    // snapshot, then for the recording.
    let commands = [
        ("heap {} -o FILE", 300),
        ("leaks {} --every 1s -o FILE", 1500),
        ("checkup {} -d 30s -o FILE", 2500),
        ("record {} -p threads,threadpool,locks,allocations,jit,loads,heap -o FILE", 1500),
    ];
    // All of them on the newest, and on the oldest the one that asks for most.
    let newest = commands.iter().map(|command| (Runtime::V9, command));
    for (runtime, (command, after)) in newest.chain([(Runtime::V3_1, &commands[3])]) {
        let folder = scratch();
        let session = file(&folder, "dying.clrscope");
        let mut process = start("extreme", runtime, "--hold 1000000 --churn 1 --threads 50");
        let command = if runtime.major() < 6 {
            command.replace("allocations,", "")
        } else {
            (*command).to_owned()
        };
        let line = command
            .replace("{}", &process.pid().to_string())
            .replace("FILE", session.to_str().unwrap());
        let looking = Running::start(clrscope(words(&line)));
        std::thread::sleep(Duration::from_millis(*after));
        process.kill();
        let from = Instant::now();
        let ended = looking.wait();
        assert!(
            from.elapsed() < Duration::from_secs(15),
            "{runtime}: {command}: {:?}",
            from.elapsed()
        );
        // A snapshot may have been over before, or be reported in part.
        assert!(matches!(ended.code(), 0 | 5 | 8), "{runtime}: {command}: {ended:?}");
        assert!(!ended.err.contains("panicked"), "{runtime}: {command}: {ended:?}");
        if session.exists() {
            // 8: a heap snapshot in it was cut short.
            let report = run(["report", session.to_str().unwrap()]);
            assert!(matches!(report.code(), 0 | 8), "{runtime}: {command}: {report:?}");
            assert!(report.out.contains("recorded"), "{runtime}: {command}: {report:?}");
        }
    }
}

#[test]
fn two_thousand_threads_and_garbage_by_the_gigabyte() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let folder = scratch();
        let session = file(&folder, "full.clrscope");
        let session = session.to_str().unwrap();
        let process = start("extreme", runtime, "--threads 2000 --tasks 1000");
        let pid = process.pid().to_string();
        let from = Instant::now();
        let found = run(["deadlocks", &pid, "--no-attach", "--json"]).expect(0).json();
        assert_eq!(found["outcome"], "clear", "{runtime}: {found}");
        eprintln!("{runtime}: the locks of 2,000 threads took {:?}", from.elapsed());
        assert!(from.elapsed() < Duration::from_secs(5), "{runtime}: {:?}", from.elapsed());
        let from = Instant::now();
        let (ended, memory) = measured(&["checkup", &pid, "-d", "3s", "--json"]);
        let found = ended.expect(0).json();
        eprintln!("{runtime}: a check-up of 3 s took {:?} and {memory} MB", from.elapsed());
        assert!(from.elapsed() < Duration::from_secs(15), "{runtime}: {:?}", from.elapsed());
        assert!(memory < OWN_MEMORY, "{runtime}: {memory} MB");
        let notes = found["notes"].as_array().unwrap();
        let is_expected =
            |note: &Value| note.as_str().unwrap().starts_with("counters was left out");
        assert!(runtime.major() < 6 || notes.is_empty(), "{runtime}: {notes:?}");
        assert!(notes.iter().all(is_expected), "{runtime}: {notes:?}");
        assert_eq!(number(&ends_well(process)["threads"]), 2000, "{runtime}");

        let process = start("extreme", runtime, "--churn 2 --collectible --hold 1000");
        let pid = process.pid().to_string();
        let profilers = match runtime.major() < 6 {
            true => "threads,threadpool,locks,jit,loads,heap",
            false => "threads,threadpool,locks,allocations,jit,loads,heap",
        };
        let arguments = ["record", &pid, "-q", "-p", profilers, "-d", "3s", "-o", session];
        let (ended, memory) = measured(&arguments);
        ended.expect(0);
        assert!(memory < OWN_MEMORY, "{runtime}: {memory} MB");
        let report = run(["report", session, "--format", "json"]).expect(0).json();
        assert!(
            !report["series"].as_array().unwrap().is_empty(),
            "{runtime}: {}",
            report["recording"]
        );
        let truth = ends_well(process);
        eprintln!("{runtime}: a recording of garbage took {memory} MB: {truth}");
        assert!(number(&truth["loaded"]) > 10, "{runtime}: {truth}");
    }
}

/// With 64 KB for new objects the collector stops the program some hundred times a second.
#[test]
fn a_tiny_youngest_generation_hinders_no_profiler() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let session = file(&folder, "tiny.clrscope");
        let session = session.to_str().unwrap();
        let arguments = ["--mode", "gcstress", "--seconds", "120"];
        let launch = Sample::named("harmtarget").launch(runtime, &arguments);
        let mut process = launch.env("COMPlus_GCgen0size", "10000").private_tmp().start();
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let known = PROFILERS.iter().filter(|spec| spec.attach && spec.since <= runtime.major());
        let known = known.filter(|spec| !spec.commands().contains(&"trace"));
        let (alone, together): (Vec<&ProfilerSpec>, Vec<&ProfilerSpec>) =
            known.partition(|spec| spec.needs_main_slot());
        assert!(together.len() >= 10 && alone.len() >= 3, "{runtime}");
        let together = together.iter().map(|spec| spec.id).collect::<Vec<_>>().join(",");
        let each = alone.iter().map(|spec| spec.id.to_owned()).chain([together]);
        for profilers in each {
            let arguments = ["record", &pid, "-q", "-p", &profilers, "-d", "1s", "-o", session];
            run(arguments).expect(0);
        }
        process.send_line("stop").unwrap();
        let end = process.wait_for_line(LIMIT, |line| line.starts_with('{')).unwrap();
        let truth: Value = serde_json::from_str(&end).unwrap();
        assert!(truth["bad"] == 0 && truth["ended"] == true, "{runtime}: {end}");
        assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    });
}

/// Time of all threads in a series, in thread-seconds, by what they did.
fn seconds(report: &Value, profiler: &str) -> HashMap<String, f64> {
    let series = report["series"].as_array().unwrap().iter();
    let series = series.clone().find(|series| series["profiler"] == profiler);
    let states = series.and_then(|series| series["states"].as_object()).unwrap().iter();
    states.map(|(state, of)| (state.clone(), of["weight"].as_f64().unwrap() / 1e9)).collect()
}

/// What was dropped for this reason.
fn dropped(report: &Value, reason: &str) -> u64 {
    let last = report["observer"].as_array().unwrap().last().unwrap();
    let rows = last["dropped"].as_array().unwrap().iter();
    rows.filter(|row| row[0] == reason).map(|row| number(&row[1])).sum()
}

#[test]
fn ten_thousand_threads_have_their_states_or_are_said_to_be_left_out() {
    const THREADS: u64 = 10_000;
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let folder = scratch();
        let session = file(&folder, "threads.clrscope");
        let session = session.to_str().unwrap();
        let process = start("extreme", runtime, &format!("--threads {THREADS}"));
        let pid = process.pid().to_string();

        let (ended, memory) =
            measured(&["record", &pid, "-q", "-p", "wall", "-d", "5s", "-o", session]);
        ended.expect(0);
        assert!(memory < OWN_MEMORY, "{runtime}: {memory} MB");
        let report = run(["report", session, "--format", "json"]).expect(0).json();
        let states = seconds(&report, "wall");
        let waited = states.get("event").copied().unwrap_or_default();
        eprintln!("{runtime}: {states:?}, {memory} MB");
        // They all wait for an event. One whose stack was not read in time has another state,
        // and is counted as lost.
        let unread = dropped(&report, "stacks of blocked threads that could not be read");
        assert!(waited > 1000.0, "{runtime}: {states:?}, {unread} unread");
        let wrong = ["idle", "other", "running", "lock", "sleep", "io"];
        let wrong = wrong.iter().filter(|state| **state != "other" || unread == 0);
        let wrong: f64 = wrong.filter_map(|state| states.get(*state)).sum();
        assert!(wrong < waited / 50.0, "{runtime}: {states:?}, {unread} unread");

        let engine = ["record", &pid, "-q", "-p", "cpu", "--engine", "signals", "-d", "1s"];
        run(engine.into_iter().chain(["-o", session])).expect(0);
        let report = run(["report", session, "--format", "json"]).expect(0).json();
        assert!(dropped(&report, "threads not sampled") >= THREADS / 2, "{runtime}");
        assert_eq!(number(&ends_well(process)["threads"]), THREADS, "{runtime}");
    }
}
