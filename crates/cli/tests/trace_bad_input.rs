//! `clrscope trace` with rules that are wrong, methods that cannot be traced, and processes that
//! stop, die or are traced by others: a clear answer, the right exit code, and a process that
//! continues with its own code.
#![cfg(unix)]
mod common;

use common::{
    Running, clrscope, file, freeze, run, scratch,
    tracing::{Tracing, by_name, refusals},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);
const ALL: &str = "traced!Clrscope.Samples.**";
const PLAIN: &str = "traced!Clrscope.Samples.Traced.Plain";
/// A number that is no process: rules are read before it is looked for one.
const NO_PID: &str = "4194305";

fn start(sample: &str, runtime: Runtime, arguments: &[&str]) -> TargetProcess {
    let mut process = Sample::named(sample).start(runtime, arguments);
    process.wait_for_ready();
    process
}

/// Nothing of the program is instrumented, it finds nothing wrong with what its methods return, and
/// it ends well.
#[track_caller]
fn assert_unharmed(mut process: TargetProcess, what: &str) {
    assert_original(&process, what);
    process.send_line("go 20").unwrap();
    assert_eq!(process.truth(LIMIT)["wrong"], 0, "{what}");
    process.send_line("exit").unwrap();
    assert!(process.wait(LIMIT).unwrap().success(), "{what}: {}", process.transcript());
}

/// Nothing of the program is instrumented: what still is would be refused as taken.
#[track_caller]
fn assert_original(process: &TargetProcess, what: &str) {
    let report =
        run(["trace", &process.pid().to_string(), ALL, "--dry-run", "--json"]).expect(0).json();
    assert!(
        refusals(&report).values().all(|why| !why.contains("another rule")),
        "{what}: {report:#}"
    );
    assert!(report["not_called"].as_array().unwrap().len() > 50, "{what}: {report:#}");
}

/// Waits for a resident agent: on a busy machine it takes a while to revert all that it did.
#[track_caller]
fn wait_until_idle(process: &TargetProcess) {
    let until = Instant::now() + LIMIT;
    loop {
        let ended = run(["trace", &process.pid().to_string(), PLAIN, "--dry-run"]);
        if ended.code() == 0 {
            return;
        }
        assert!(Instant::now() < until, "{ended:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn broken_rules_are_refused_before_anything_is_touched() {
    let folder = scratch();
    let path = file(&folder, "broken.toml");
    let whole = "[[rule]]\nname = \"a\"\nmatch = \"A.B\"\n";
    let large = format!("# {}\n{whole}", "x".repeat(1 << 20));
    let rows: &[(&str, &[&str])] = &[
        ("[[rule]]\nname = \"a\"\n", &["line 1, column 1", "no `match`", "add"]),
        ("[[rule]]\nname = \"a\nmatch = \"A.B\"\n", &["line 2, column 10", "not TOML"]),
        // Cut off in the middle of each part.
        ("[[rule]]\nname = \"a\"\nmatch = \"A.", &["line 3, column 12", "not TOML"]),
        ("[[rule]]\nname = \"a\"\nmatch = ", &["line 3, column 9", "not TOML"]),
        ("[[rule]]\nname = \"a\"\nmat", &["line 3, column 4", "not TOML"]),
        (
            "[[rule]]\nname = \"a\"\nmatch = \"A.B\"\nexclude = [\"A\", \n",
            &["line 4, column 16", "not TOML"],
        ),
        ("[[rul", &["line 1, column 6", "not TOML"]),
        ("[[rule]]\nname = \"a\"\nmatch = \"A.{B\"\n", &["line 3, column ", "`match`"]),
        (
            "[[rule]]\nname = \"ä\"\nmatch = \"ä.B\"\ndo = \"trce\"\n",
            &["line 4, column 6", "`trce`", "do = \"trace\""],
        ),
        (
            "[[rule]]\nname = \"a\"\nmatch = \"A.B\"\natributes = []\n",
            &["line 4, column 1", "`attributes`?"],
        ),
        (
            "[[rule]]\nname = \"a\"\nmatch = \"A.B\"\none-in = 0\n",
            &["line 4, column 10", "from 1 to"],
        ),
        (
            "[[rule]]\nname = \"a\"\nmatch = \"A.B\"\nmin-version = \"2.x\"\n",
            &["line 4, column 15", "not a version"],
        ),
        ("rule = 1\n", &["line 1, column 8", "[[rule]]"]),
        (&large, &["longer than 1048576 bytes"]),
    ];
    for (text, parts) in rows {
        fs::write(&path, text).unwrap();
        let ended = run(["trace", NO_PID, "--rules", path.to_str().unwrap()]);
        ended.expect_error(2, &[&[path.to_str().unwrap()], *parts].concat());
    }
    // What is wrong with all of it has no place in it.
    fs::write(&path, "exclude = [\"A.B\"]\n").unwrap();
    run(["trace", NO_PID, "--rules", path.to_str().unwrap()])
        .expect_error(2, &["there is no rule", "add one"]);
    fs::write(&path, b"[[rule]]\nname = \"\xff\"\nmatch = \"A.B\"\n").unwrap();
    let not_readable = [path.as_path(), folder.path(), Path::new("/no/such/rules.toml")];
    for path in not_readable.map(|path| path.to_str().unwrap()) {
        run(["trace", NO_PID, "--rules", path]).expect_error(6, &["cannot read", path]);
    }
    // What is right gets further.
    fs::write(&path, whole).unwrap();
    run(["trace", NO_PID, "--rules", path.to_str().unwrap()]).expect_error(3, &[NO_PID]);
}

#[test]
fn rules_that_contradict_are_refused_and_useless_ones_told() {
    let folder = scratch();
    let path = file(&folder, "rules.toml");
    let rules = |rules: &[(&str, &str, &str)]| {
        let rules = rules.iter().map(|(name, methods, more)| {
            format!("[[rule]]\nname = \"{name}\"\nmatch = \"{methods}\"\n{more}\n")
        });
        fs::write(&path, rules.collect::<String>()).unwrap();
        run(["trace", NO_PID, "--rules", path.to_str().unwrap()])
    };
    rules(&[("first", "A.B", ""), ("second", "A.B", "do = \"count\"")])
        .expect_error(2, &["`first`", "`second`", "make them differ"]);
    rules(&[("first", "A.B", ""), ("first", "A.C", "")]).expect_error(2, &["`first`", "rename"]);
    rules(&[("all", "*", "")]).expect_error(2, &["`all`", "everything = true"]);
    rules(&[("none", "A.B", "min-version = \"2.0\"\nmax-version = \"2.0\"")])
        .expect_error(2, &["`none`", "2.0.0.0"]);
    run(["trace", NO_PID, "*"])
        .expect_error(2, &["every method of every assembly", "--everything"]);
    run(["trace", NO_PID, "A.{B"]).expect_error(2, &["A.{B"]);
    for (text, part) in [
        (&[("wide", "A.*.*", ""), ("narrow", "A.B.C", "")][..], "`wide` comes first"),
        (&[("a", "A.B", ""), ("b", "A.B", "")], "says the same"),
        (&[("a", "A.B.C", "exclude = [\"A.B.*\"]")], "matches nothing"),
        (&[("a", "A.dll!A.B", "")], "extension"),
    ] {
        // They are used all the same: the process is looked for.
        let ended = rules(text).expect(3);
        assert!(ended.err.contains("warning") && ended.err.contains(part), "{}", ended.err);
    }
}

#[test]
fn rules_without_methods_say_so() {
    for runtime in sample_runtimes() {
        let process = start("traced", runtime, &[]);
        let pid = process.pid().to_string();
        for pattern in [
            "traced!No.Such.Type.*",
            "nowhere!**",
            "Clrscope.Samples.Traced.Plain(string)",
            "clrscope.samples.traced.plain",
        ] {
            for how in [&["--dry-run"][..], &["--for", "300ms"]] {
                let arguments = ["trace", &pid, pattern].into_iter().chain(how.iter().copied());
                let ended = run(arguments.clone()).expect(0);
                assert!(
                    ended.out.contains("No loaded method matches"),
                    "{runtime}: {pattern}: {ended:?}"
                );
                let report = run(arguments.chain(["--json"])).expect(0).json();
                for list in ["methods", "not_called", "refused", "tree"] {
                    assert_eq!(report[list], json!([]), "{runtime}: {pattern}");
                }
            }
        }
        assert_unharmed(process, &runtime.to_string());
    }
}

/// While it calls: at any moment some of it is in a method that is rewritten.
#[test]
fn everything_is_traced_and_interrupted_at_any_time() {
    for runtime in sample_runtimes() {
        let mut process = start("traced", runtime, &["--sleep", "1"]);
        let pid = process.pid().to_string();
        process.send_line("spin").unwrap();
        for after in [5, 50, 100, 150, 200, 300, 400, 1000, 3000] {
            let tracing = Running::start(clrscope([
                "trace",
                &pid,
                "*",
                "--everything",
                "--json",
                "--top",
                "1",
            ]));
            std::thread::sleep(Duration::from_millis(after));
            tracing.signal(Signal::INT);
            let ended = tracing.wait();
            // Before the signal is caught it ends as any program does.
            assert!(matches!(ended.code(), 0 | -1), "{runtime}: {after} ms: {}", ended.err);
            if ended.code() == 0 {
                assert_eq!(ended.json()["reverted"], true, "{runtime}: {after} ms");
            }
            assert!(process.is_running(), "{runtime}: {after} ms: {}", process.transcript());
            wait_until_idle(&process);
        }
        process.send_line("still").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        assert_unharmed(process, &runtime.to_string());
    }
}

#[test]
fn rules_change_from_one_trace_to_the_next() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let mut process = start("traced", runtime, &["--sleep", "1"]);
        let path = file(&folder, "rules.toml");
        let rules = path.to_str().unwrap();
        let rows = [
            ("Traced.{Plain,Calls}", "trace", &["Traced.Calls", "Traced.Plain"][..]),
            ("Traced.{Plain,Fib}", "count", &["Traced.Fib", "Traced.Plain"]),
            (
                "Adder.*",
                "trace",
                &["Adder..ctor", "Adder.Clrscope.Samples.IVisitor.Visit", "Adder.Visit"],
            ),
            ("Traced.{Plain,Calls}", "trace", &["Traced.Calls", "Traced.Plain"]),
        ];
        for (methods, action, expected) in rows {
            let text = format!(
                "[[rule]]\nname = \"only\"\nmatch = \"traced!Clrscope.Samples.{methods}\"\n\
                    do = \"{action}\"\n"
            );
            fs::write(&path, text).unwrap();
            let tracing = Tracing::start(&process, &["--rules", rules]);
            // The file is read once: what is written to it now is for the next.
            fs::write(&path, "[[rule]]\nname = \"other\"\nmatch = \"**.Rest\"\n").unwrap();
            process.send_line("go 10").unwrap();
            let truth = process.truth(LIMIT);
            let report = tracing.end();
            let found = by_name(&report);
            let names: Vec<&str> =
                found.keys().map(|name| name.strip_prefix("Clrscope.Samples.").unwrap()).collect();
            assert_eq!(names, expected, "{runtime}: {methods}");
            for (name, (calls, timed, _)) in found {
                let known = truth["methods"][&name]["calls"].as_u64().unwrap();
                assert_eq!(
                    (calls, timed),
                    (known, if action == "trace" { known } else { 0 }),
                    "{runtime}: {name}"
                );
            }
            assert_eq!(report["reverted"], true, "{runtime}: {methods}");
        }
        assert_unharmed(process, &runtime.to_string());
    }
}

#[test]
fn a_second_trace_at_a_time_is_refused_and_the_first_undisturbed() {
    for runtime in sample_runtimes() {
        let mut process = start("traced", runtime, &["--sleep", "1"]);
        let pid = process.pid().to_string();
        // Once in a process that has never been traced, and once in one where an agent stays.
        for time in ["the first time", "the second time"] {
            let first = Tracing::start(&process, &[PLAIN]);
            let second =
                run(["trace", &pid, "traced!Clrscope.Samples.Traced.Fib", "--for", "1s", "--json"]);
            second.expect_error(4, &["records for another command", &pid]);
            process.send_line("go 10").unwrap();
            let truth = process.truth(LIMIT);
            let report = first.end();
            let known =
                truth["methods"]["Clrscope.Samples.Traced.Plain"]["calls"].as_u64().unwrap();
            let expected =
                BTreeMap::from([("Clrscope.Samples.Traced.Plain".to_owned(), (known, known, 0))]);
            assert_eq!(by_name(&report), expected, "{runtime}: {time}");
        }
        // What was refused may be done now.
        let later = Tracing::start(&process, &["traced!Clrscope.Samples.Traced.Fib"]);
        process.send_line("go 10").unwrap();
        process.truth(LIMIT);
        assert_eq!(by_name(&later.end()).len(), 1, "{runtime}");
        assert_unharmed(process, &runtime.to_string());
    }
}

#[test]
fn modules_made_at_run_time_are_left_alone() {
    for runtime in sample_runtimes() {
        let mut process = start("jitter", runtime, &["--gate"]);
        let pid = process.pid().to_string();
        let patterns = ["Emitted.At.RunTime*!**", "Large.Code!**"];
        // They come while rules wait for them; what they are to hold is made later.
        let tracing = Tracing::start(&process, &patterns);
        process.send_line("").unwrap();
        process.truth(LIMIT);
        let report = tracing.end();
        assert_eq!(
            (&report["methods"], &report["not_called"]),
            (&json!([]), &json!([])),
            "{runtime}"
        );
        // They are there when others come.
        let report =
            run(["trace", &pid, "--for", "1s", "--json"].iter().chain(&patterns)).expect(0).json();
        assert_eq!(
            (&report["methods"], &report["not_called"]),
            (&json!([]), &json!([])),
            "{runtime}"
        );
        let refused = refusals(&report);
        for method in ["T0..ctor", "T4..ctor", "Made.Large.LargeMethod"] {
            assert!(refused[method].contains("made at run time"), "{runtime}: {refused:?}");
        }
        process.send_line("").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

/// Assemblies that come and go all the time, hundreds a second, with the name and the types of one
/// that stays.
#[test]
fn assemblies_that_may_be_unloaded_are_left_alone() {
    for runtime in sample_runtimes() {
        let mut process = start("extreme", runtime, &["--collectible"]);
        let pid = process.pid().to_string();
        let pattern = "extreme!Clrscope.Samples.{Visitor,Extreme}.*";
        let report = run(["trace", &pid, pattern, "--for", "3s", "--json"]).expect(0).json();
        let refused = refusals(&report);
        assert!(
            refused["Clrscope.Samples.Visitor..ctor"].contains("may be unloaded"),
            "{runtime}: {report:#}"
        );
        // The one that stays is another.
        assert!(by_name(&report)["Clrscope.Samples.Extreme.Visit"].0 > 10, "{runtime}: {report:#}");
        assert!(
            !by_name(&report).contains_key("Clrscope.Samples.Visitor..ctor"),
            "{runtime}: {report:#}"
        );
        assert_eq!(
            (&report["reverted"], &report["dropped"]),
            (&json!(true), &json!({})),
            "{runtime}"
        );
        process.close_stdin();
        let truth = process.truth(LIMIT);
        assert!(truth["loaded"].as_u64().unwrap() > 10, "{runtime}: {truth}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_process_that_ends_while_it_is_traced() {
    for runtime in sample_runtimes() {
        let plain = |report: &Value| by_name(report)["Clrscope.Samples.Traced.Plain"].0;
        // By itself, where no time was asked for: then that is the end.
        let mut process = start("traced", runtime, &["--sleep", "1"]);
        let tracing = Tracing::start(&process, &[PLAIN]);
        process.send_line("go 10").unwrap();
        let truth = process.truth(LIMIT);
        process.send_line("exit").unwrap();
        let ended = tracing.wait().expect(0);
        let known = truth["methods"]["Clrscope.Samples.Traced.Plain"]["calls"].as_u64().unwrap();
        assert_eq!(plain(&ended.json()), known, "{runtime}");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());

        // Killed, before the time was over.
        let folder = scratch();
        let session = file(&folder, "killed.clrscope");
        let session = session.to_str().unwrap();
        for more in [&["-o", session][..], &[]] {
            let mut process = start("traced", runtime, &[]);
            process.send_line("spin").unwrap();
            let tracing = Tracing::start(&process, &[&[PLAIN, "--for", "60s"], more].concat());
            std::thread::sleep(Duration::from_millis(2500));
            let from = Instant::now();
            process.kill();
            let ended = tracing.wait().expect(5);
            assert!(from.elapsed() < Duration::from_secs(10), "{runtime}: {:?}", from.elapsed());
            assert!(
                ended.err.contains("before the recording was complete"),
                "{runtime}: {ended:?}"
            );
            assert_eq!(
                ended.err.contains("clrscope report"),
                !more.is_empty(),
                "only what is kept can be read: {ended:?}"
            );
            let report = ended.json();
            assert!(plain(&report) > 0 && report["reverted"] == false, "{runtime}: {report:#}");
        }
        let page = run(["report", session]).expect(0).out;
        assert!(page.contains("Traced.Plain"), "{runtime}: {page}");
    }
}

#[test]
fn a_process_that_is_stopped() {
    for runtime in sample_runtimes() {
        let mut process = start("traced", runtime, &["--sleep", "1"]);
        let pid = process.pid().to_string();
        process.send_line("spin").unwrap();
        // Where nobody has been, where it is traced, and where an agent stays.
        for time in ["before", "while", "after"] {
            if time == "while" {
                let from = Instant::now();
                let tracing = Tracing::start(&process, &[PLAIN, "--for", "2s"]);
                std::thread::sleep(Duration::from_millis(500));
                freeze(&mut process);
                // It may not wait for an answer for ever; what it says depends on when the agent
                // fell silent.
                let ended = tracing.wait();
                assert!(matches!(ended.code(), 0 | 5), "{runtime}: {ended:?}");
                assert!(
                    from.elapsed() < Duration::from_secs(30),
                    "{runtime}: {:?}",
                    from.elapsed()
                );
                assert_eq!(
                    ended.json()["reverted"],
                    false,
                    "{runtime}: nobody could put anything back"
                );
            } else {
                freeze(&mut process);
                let from = Instant::now();
                run(["trace", &pid, PLAIN, "--for", "1s"])
                    .expect_error(4, &["stopped", "kill -CONT"]);
                assert!(
                    from.elapsed() < Duration::from_secs(10),
                    "{runtime}: {time}: {:?}",
                    from.elapsed()
                );
            }
            process.thaw().unwrap();
            // The agent sees that nobody listens any more.
            std::thread::sleep(Duration::from_secs(1));
            assert!(process.is_running(), "{runtime}: {time}: {}", process.transcript());
        }
        process.send_line("still").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        assert_unharmed(process, &runtime.to_string());
    }
}
