//! `clrscope trace` on every runtime, with a program that knows how often it calls what.
#![cfg(unix)]
mod common;

use common::{
    run,
    tracing::{Tracing, by_name, refusals},
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

/// All of the program but what drives it.
const ALL: &str = "traced!Clrscope.Samples.**";
const DRIVES: [&str; 6] = ["Main", "Round", "OnThreads", "Check", "Row", "Truth"];

fn start(runtime: Runtime, arguments: &[&str]) -> TargetProcess {
    let mut process = Sample::named("traced").start(runtime, arguments);
    process.wait_for_ready();
    process
}

/// Compares with what the program says. Instrumented code that does nothing to results is checked
/// by the program itself.
#[track_caller]
fn assert_true(report: &Value, truth: &Value, timed: bool, what: &str) {
    assert_eq!(truth["wrong"], 0, "{what}");
    let found = by_name(report);
    for (name, known) in truth["methods"].as_object().unwrap() {
        let (calls, errors) = (known["calls"].as_u64().unwrap(), known["errors"].as_u64().unwrap());
        let expected = if timed { (calls, calls, errors) } else { (calls, 0, 0) };
        assert_eq!(
            found.get(name).copied().unwrap_or_default(),
            expected,
            "{what}: {name}: {report:#}"
        );
    }
    assert_eq!(report["dropped"], serde_json::json!({}), "{what}");
    assert_eq!(report["reverted"], true, "{what}");
}

fn without_drivers(arguments: &[&'static str]) -> Vec<String> {
    let excluded = DRIVES.iter().flat_map(|name| {
        ["--exclude".to_owned(), format!("traced!Clrscope.Samples.Traced.{name}")]
    });
    arguments.iter().map(|argument| (*argument).to_owned()).chain(excluded).collect()
}

#[test]
fn every_call_is_counted_and_timed_and_everything_goes_back() {
    for runtime in sample_runtimes() {
        let mut process = start(runtime, &[]);
        let arguments = without_drivers(&[ALL]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let tracing = Tracing::start(&process, &arguments);
        process.send_line("go 500").unwrap();
        let truth = process.truth(LIMIT);
        let report = tracing.end();
        assert_true(&report, &truth, true, &runtime.to_string());
        // For the metadata of its module.
        assert!(report["stopped_ns"].as_u64().unwrap() > 0, "{runtime}");
        let refused = refusals(&report);
        assert!(
            refused["Clrscope.Samples.Traced.Arguments"].contains("variable number"),
            "{runtime}: {refused:?}"
        );
        assert!(
            refused["Clrscope.Samples.Traced.getpid"].contains("no IL"),
            "{runtime}: {refused:?}"
        );
        assert!(
            refused["Clrscope.Samples.Visitor.Visit"].contains("no IL"),
            "{runtime}: {refused:?}"
        );
        assert!(
            refused["Clrscope.Samples.Valued.Forgotten"].contains("returns no task"),
            "{runtime}: {refused:?}"
        );
        assert!(
            refused["Clrscope.Samples.Valued.Sequence"].contains("iterator"),
            "{runtime}: {refused:?}"
        );

        // How long they took.
        let methods = report["methods"].as_array().unwrap();
        let of = |name: &str| {
            let wanted = format!("Clrscope.Samples.{name}(");
            methods
                .iter()
                .find(|method| method["method"].as_str().unwrap().starts_with(&wanted))
                .unwrap()
        };
        for name in ["Traced.Rest", "Traced.Busy", "Valued.Later"] {
            let (median, known) =
                (of(name)["p50_ns"].as_f64().unwrap(), truth["medians"][name].as_f64().unwrap());
            assert!(
                (median / known - 1.0).abs() < 0.1,
                "{runtime}: {name}: {known} in {}",
                of(name)
            );
        }
        // To the end of the task, which is 30 ms later; timers of the runtime look at a clock that
        // ticks every 4 ms.
        let later = of("Traced.Later")["p50_ns"].as_u64().unwrap();
        assert!((25_000_000..200_000_000).contains(&later), "{runtime}: {}", of("Traced.Later"));
        // Who calls whom.
        let tree = report["tree"].as_array().unwrap();
        let inner = tree.windows(2).any(|pair| {
            pair[0]["method"].as_str().unwrap().contains(".Passes(")
                && pair[1]["method"].as_str().unwrap().contains(".Throws(")
                && pair[1]["depth"].as_u64() == pair[0]["depth"].as_u64().map(|depth| depth + 1)
        });
        assert!(inner, "{runtime}: {tree:#?}");

        // The process continues as before, and can be traced again: its counts begin anew.
        process.send_line("go 10").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_dry_run_changes_nothing_and_names_everything() {
    for runtime in sample_runtimes() {
        let mut process = start(runtime, &[]);
        // Of the core library itself: one with a value task of its own, and one with a pooled one,
        // which .NET 8 and newer have.
        let (own, pooled) =
            ("System.IO.StreamReader.ReadAsyncInternal", "System.IO.Stream.ReadAtLeastAsyncCore");
        let core = |name: &str| format!("System.Private.CoreLib!{name}");
        let pid = process.pid().to_string();
        let report = run(["trace", &pid, ALL, &core(own), &core(pooled), "--dry-run", "--json"])
            .expect(0)
            .json();
        let possible: Vec<&str> = report["not_called"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["method"].as_str().unwrap())
            .collect();
        assert!(
            possible.iter().any(|name| name.starts_with("Clrscope.Samples.Traced.Plain(")),
            "{possible:?}"
        );
        assert!(possible.iter().any(|name| name.starts_with(own)), "{runtime}: {possible:?}");
        let refused = refusals(&report);
        assert!(refused.len() >= 3, "{report:#}");
        let is_pooled = refused.get(pooled).is_some_and(|why| why.contains("pooled"));
        assert_eq!(is_pooled, runtime.major() >= 8, "{runtime}: {refused:?}");
        assert_eq!(report["methods"], serde_json::json!([]));
        process.send_line("go 3").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0);
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
    }
}

/// Also where the call is left out: before the first wait there is no task, and none is made to ask
/// it for its id.
#[test]
fn a_value_task_that_is_there_at_once_stays_without_a_task() {
    for runtime in sample_runtimes() {
        let mut process = start(runtime, &[]);
        let tracing =
            Tracing::start(&process, &["traced!Clrscope.Samples.Valued.*", "--one-in", "10"]);
        process.send_line("go 500").unwrap();
        let truth = process.truth(LIMIT);
        let report = tracing.end();
        let found = by_name(&report);
        assert_eq!(
            found["Clrscope.Samples.Valued.AtOnce"],
            (1000, 100, 0),
            "{runtime}: {report:#}"
        );
        assert_eq!(found["Clrscope.Samples.Valued.Later"].0, 11, "{runtime}: {report:#}");
        // A task takes 72 bytes.
        assert!(truth["allocated"].as_u64().unwrap() < 900 * 72 / 4, "{runtime}: {truth}");
        assert_eq!(truth["wrong"], 0, "{runtime}: {truth}");
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn calls_are_traced_from_the_start() {
    for runtime in sample_runtimes() {
        let folder = common::scratch();
        let output = common::file(&folder, "launched.clrscope");
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "500", "--fib", "15"]);
        let path = output.to_str().unwrap();
        let prefix = [
            common::binary(),
            "launch",
            "-q",
            "-p",
            "trace",
            "--trace",
            "caller!Clrscope.Samples.**",
            "-o",
            path,
            "--",
        ];
        let mut process = launch.under(prefix).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = run(["report", path, "--format", "json"]).expect(0).json();
        let names: Vec<&str> = report["functions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|function| function["name"].as_str().unwrap())
            .collect();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for method in report["traced"]["methods"].as_array().unwrap() {
            let name =
                names[method["function"].as_u64().unwrap() as usize].split('(').next().unwrap();
            let name = name.strip_prefix("Clrscope.Samples.").unwrap_or(name);
            *found.entry(name.to_owned()).or_default() += method["calls"].as_u64().unwrap();
        }
        for method in [
            "Caller.Fib",
            "Caller.CatchAll",
            "Caller.After",
            "Caller.Deep",
            "Caller.Spin",
            "Caller.Rest",
        ] {
            let known = truth["methods"][method].as_u64();
            assert!(known.is_some(), "{method} is not in {truth}");
            assert_eq!(found.get(method).copied(), known, "{runtime}: {method}");
        }
        let page = run(["report", path]).expect(0).out;
        for part in ["Traced methods", "Caller.Spin", "p99", "slowest"] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
    }
}

/// Their bodies are read when they are compiled, or when the program has loaded all that it needs.
#[test]
fn methods_that_cannot_be_traced_from_the_start_are_told_called_or_not() {
    for (runtime, calls) in
        sample_runtimes().into_iter().flat_map(|runtime| [(runtime, true), (runtime, false)])
    {
        let folder = common::scratch();
        let output = common::file(&folder, "launched.clrscope");
        let path = output.to_str().unwrap();
        let prefix =
            [common::binary(), "launch", "-q", "-p", "gc", "--trace", ALL, "-o", path, "--"];
        let mut process = Sample::named("traced").launch(runtime, &[""; 0]).under(prefix).start();
        process.wait_for_ready();
        if calls {
            process.send_line("go 20").unwrap();
            assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        } else {
            std::thread::sleep(Duration::from_secs(3));
        }
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = run(["report", path, "--format", "json"]).expect(0).json();
        let functions = report["functions"].as_array().unwrap();
        let why = |name: &str| {
            let is_it = |method: &&Value| {
                let function = &functions[method["function"].as_u64().unwrap() as usize]["name"];
                function.as_str().unwrap().starts_with(&format!("Clrscope.Samples.{name}("))
            };
            let method = report["traced"]["methods"].as_array().unwrap().iter().find(is_it);
            method.and_then(|method| method["refused"].as_str()).unwrap_or("nothing").to_owned()
        };
        let what = format!("{runtime}, called: {calls}");
        // Nobody calls that one.
        if !calls {
            assert!(
                why("Traced.Arguments").contains("variable number"),
                "{what}: {}",
                why("Traced.Arguments")
            );
        }
        assert!(
            why("Valued.Forgotten").contains("returns no task"),
            "{what}: {}",
            why("Valued.Forgotten")
        );
        assert_eq!(why("Traced.Rest"), "nothing", "{what}");
    }
}

/// From .NET 9 on its methods are instrumented when they are called for the first time, and the
/// instrumented code that they are reverted from is the first code that the runtime has of them.
#[test]
fn a_program_goes_on_after_everything_was_traced_from_its_start() {
    for runtime in sample_runtimes() {
        let folder = common::scratch();
        let output = common::file(&folder, "launched.clrscope");
        let options =
            ["launch", "-q", "-p", "trace", "--trace", "**", "--everything", "-d", "3s", "-o"];
        let prefix =
            [common::binary()].into_iter().chain(options).chain([output.to_str().unwrap(), "--"]);
        let mut process = Sample::named("traced").launch(runtime, &[""; 0]).under(prefix).start();
        process.wait_for_ready();
        process.send_line("go 20").unwrap();
        let launched = process.truth(LIMIT);
        process.send_line("spin").unwrap();
        let deadline = Instant::now() + LIMIT;
        // It is there when the recording is whole.
        while !output.exists() {
            assert!(Instant::now() < deadline, "{runtime}: {}", process.transcript());
            std::thread::sleep(Duration::from_millis(50));
        }
        process.send_line("still").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        // Also methods that were called for the first time then.
        let pid = common::child_of(process.pid());
        for _ in 0..2 {
            let arguments = without_drivers(&[ALL]);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let tracing = Tracing::of(pid, &arguments);
            process.send_line("go 50").unwrap();
            let truth = process.truth(LIMIT);
            assert_true(&tracing.end(), &truth, true, &runtime.to_string());
        }
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());

        let report = run(["report", output.to_str().unwrap(), "--format", "json"]).expect(0).json();
        let called = |name: &str| {
            let functions = report["functions"].as_array().unwrap();
            let methods = report["traced"]["methods"].as_array().unwrap().iter();
            let calls = methods.filter(|method| {
                let function = &functions[method["function"].as_u64().unwrap() as usize]["name"];
                function.as_str().unwrap().starts_with(&format!("{name}("))
            });
            calls.map(|method| method["calls"].as_u64().unwrap()).sum::<u64>()
        };
        for (name, known) in launched["methods"].as_object().unwrap() {
            assert!(called(name) >= known["calls"].as_u64().unwrap(), "{runtime}: {name}");
        }
    }
}

#[test]
fn each_call_is_kept_where_it_is_wanted() {
    for runtime in sample_runtimes() {
        let mut process = start(runtime, &[]);
        let pid = process.pid().to_string();
        let usage = run(["trace", &pid, ALL, "--each-call"]).expect(2).err;
        assert!(usage.contains("-o FILE"), "{usage}");
        let folder = common::scratch();
        let session = common::file(&folder, "each.clrscope");
        let tracing =
            Tracing::start(&process, &[ALL, "--each-call", "-o", session.to_str().unwrap()]);
        process.send_line("go 100").unwrap();
        let truth = process.truth(LIMIT);
        let report = tracing.end();
        assert_eq!(
            (&truth["wrong"], &report["dropped"]),
            (&0.into(), &serde_json::json!({})),
            "{runtime}"
        );
        let calls: u64 = by_name(&report).values().map(|(_, timed, _)| timed).sum();
        let methods = report["methods"].as_array().unwrap();
        let all: u64 = methods.iter().map(|method| method["timed"].as_u64().unwrap()).sum();
        assert!(calls > 5_000 && all >= calls, "{runtime}: {calls} of {all}");

        // The slowest are the slowest.
        for method in methods.iter().filter(|method| method["timed"] != 0) {
            let slowest = method["slowest"].as_array().unwrap();
            let times: Vec<u64> = slowest.iter().map(|call| call["ns"].as_u64().unwrap()).collect();
            assert!(times.is_sorted_by(|a, b| a >= b), "{runtime}: {method:#}");
            assert_eq!(
                times.len() as u64,
                method["timed"].as_u64().unwrap().min(16),
                "{runtime}: {method:#}"
            );
            assert!(
                times[0].abs_diff(method["max_ns"].as_u64().unwrap()) <= 1 + times[0] / 1000,
                "{runtime}: {method:#}"
            );
        }

        let exported = |format: &str| -> Value {
            serde_json::from_str(
                &run(["report", session.to_str().unwrap(), "-f", format]).expect(0).out,
            )
            .unwrap()
        };
        let events = exported("chrome");
        let count = |phase: &str, kind: &str| {
            let events = events["traceEvents"].as_array().unwrap().iter();
            events.filter(|event| event["ph"] == phase && event["cat"] == kind).count() as u64
        };
        assert_eq!(count("X", "call") + count("b", "async call"), all, "{runtime}");
        assert_eq!(count("b", "async call"), count("e", "async call"), "{runtime}");
        assert!(count("b", "async call") > 100, "{runtime}");

        let spans = exported("otlp");
        let spans = spans["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len() as u64, all, "{runtime}");
        let of = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        let by_id: BTreeMap<&str, &Value> =
            spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
        assert_eq!(by_id.len(), spans.len(), "{runtime}: ids are their own");
        let mut pairs: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for span in spans {
            let Some(parent) = span["parentSpanId"].as_str() else { continue };
            let parent = by_id[parent];
            assert_eq!(parent["traceId"], span["traceId"], "{runtime}");
            let (from, to) = ("startTimeUnixNano", "endTimeUnixNano");
            assert!(
                of(parent, from) <= of(span, from) && of(span, to) <= of(parent, to) + 2,
                "{runtime}: {parent} {span}"
            );
            *pairs
                .entry((parent["name"].as_str().unwrap(), span["name"].as_str().unwrap()))
                .or_default() += 1;
        }
        assert_eq!(pairs[&("Traced.Passes", "Traced.Throws")], 200, "{runtime}: {pairs:?}");
        let errors: u64 = methods.iter().map(|method| method["errors"].as_u64().unwrap()).sum();
        assert_eq!(
            spans.iter().filter(|span| span["status"]["code"] == 2).count() as u64,
            errors,
            "{runtime}"
        );
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
    }
}

#[test]
fn a_limit_of_calls_ends_it() {
    for runtime in sample_runtimes() {
        let mut process = start(runtime, &[]);
        process.send_line("spin").unwrap();
        let pid = process.pid().to_string();
        let report = run(["trace", &pid, "traced!*.Traced.Plain", "--calls", "1000", "--json"])
            .expect(0)
            .json();
        let (calls, ..) = by_name(&report)["Clrscope.Samples.Traced.Plain"];
        assert!(calls >= 1000 && report["reverted"] == true, "{runtime}: {report:#}");
        process.send_line("still").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
    }
}

#[test]
fn methods_go_back_when_clrscope_is_killed_and_other_commands_are_served() {
    for runtime in sample_runtimes() {
        let mut process = start(runtime, &[]);
        process.send_line("spin").unwrap();
        let pid = process.pid().to_string();
        let killed = Tracing::start(&process, &[ALL]);
        killed.signal(rustix::process::Signal::KILL);
        killed.wait();
        // Those that are still rewritten would be refused as taken.
        let report = run(["trace", &pid, ALL, "--dry-run", "--json"]).expect(0).json();
        assert!(
            refusals(&report).values().all(|why| !why.contains("another rule")),
            "{runtime}: {report:#}"
        );
        assert!(report["not_called"].as_array().unwrap().len() > 50, "{runtime}: {report:#}");

        let folder = common::scratch();
        let output = common::file(&folder, "after.clrscope");
        let path = output.to_str().unwrap();
        run(["record", &pid, "-p", "cpu,exceptions,gc", "--duration", "2s", "-o", path, "-q"])
            .expect(0);
        let recorded = common::Report::of(&output);
        assert!(recorded.series("cpu")["samples"].as_u64().unwrap() > 20, "{runtime}");
        // Heap snapshots are for those who have asked when they attached, and the error says so.
        run(["heap", &pid]).expect_error(4, &["methods were traced", "--allow-heap"]);
        let tracing = Tracing::start(&process, &["traced!*.Traced.Plain"]);
        std::thread::sleep(Duration::from_millis(300));
        assert!(by_name(&tracing.end())["Clrscope.Samples.Traced.Plain"].0 > 0, "{runtime}");
        process.send_line("still").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn an_agent_in_another_network_namespace_is_reached() {
    let is_root = rustix::process::geteuid().is_root();
    for runtime in sample_runtimes() {
        let own = if is_root { "-n" } else { "-rn" };
        let mut process =
            Sample::named("traced").launch(runtime, &[""; 0]).under(["unshare", own]).start();
        process.wait_for_ready();
        process.send_line("spin").unwrap();
        let pid = process.pid().to_string();
        Tracing::start(&process, &["traced!*.Traced.Plain"]).end();
        if is_root {
            let again = Tracing::start(&process, &["traced!*.Traced.Plain"]);
            std::thread::sleep(Duration::from_millis(300));
            assert!(by_name(&again.end())["Clrscope.Samples.Traced.Plain"].0 > 0, "{runtime}");
        } else {
            run(["trace", &pid, "traced!*.Traced.Plain"]).expect_error(4, &["slot"]);
        }
        process.send_line("still").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
    }
}

/// Applications that are trimmed, and made of one file: what they do not use is not there.
#[test]
fn a_real_application_is_traced_and_unharmed() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let mut process = TargetProcess::azmcp(runtime);
        let before = process.feed(3).unwrap();
        let tracing =
            Tracing::start(&process, &["System.Text.Json!System.Text.Json.**", "azmcp!**"]);
        let during = process.feed(20).unwrap();
        let report = tracing.end();
        assert_eq!(report["reverted"], true, "{runtime}: {report:#}");
        assert!(report["methods"].as_array().unwrap().len() > 20, "{runtime}: {report:#}");
        let failed: Vec<_> =
            refusals(&report).into_iter().filter(|(_, why)| why.contains("compile")).collect();
        assert!(failed.is_empty(), "{runtime}: {failed:?}");
        let after = process.feed(3).unwrap();
        assert!(before == during && during == after, "{runtime}: {before}, {during}, {after}");
    }
}

#[test]
fn a_service_is_traced_as_its_load_generator_says() {
    for runtime in sample_runtimes() {
        let folder = common::scratch();
        let output = common::file(&folder, "clinic.clrscope");
        let path = output.to_str().unwrap();
        let launch = Sample::named("clinic").launch(runtime, &["--seconds", "6"]);
        let prefix = [
            "launch",
            "-q",
            "-p",
            "gc",
            "--trace",
            "clinic!Clinic.Service.AskOnce",
            "-o",
            path,
            "--",
        ];
        let mut process = launch.under([&[common::binary()][..], &prefix].concat()).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = run(["report", path, "--format", "json"]).expect(0).json();
        let methods = report["traced"]["methods"].as_array().unwrap();
        assert_eq!(methods.len(), 1, "{runtime}: {methods:?}");
        let number = |value: &Value| value.as_f64().unwrap();
        // It continues to ask while the process ends, up to twenty times a second.
        let (calls, asked) = (number(&methods[0]["calls"]), number(&truth["asked"]));
        assert!(calls >= asked && calls - asked <= 6.0, "{runtime}: {calls} of {asked}");
        let (median, known) = (number(&methods[0]["p50_ns"]), number(&truth["ask_p50_ns"]));
        assert!(
            (median / known - 1.0).abs() <= 0.1,
            "{runtime}: {median} is not {known}: {methods:?}"
        );
    }
}

/// Arguments of a method's only call by their names, as JSON has them.
fn arguments(report: &Value, method: &str) -> BTreeMap<String, Value> {
    let wanted = format!("Clrscope.Samples.{method}(");
    let mut methods = report["methods"].as_array().unwrap().iter();
    let method = methods.find(|one| one["method"].as_str().unwrap().starts_with(&wanted)).unwrap();
    let shown = method["slowest"][0]["arguments"].as_array();
    let shown = shown.unwrap_or_else(|| panic!("no arguments: {method:#}")).iter();
    shown.map(|one| (one["name"].as_str().unwrap().to_owned(), one.clone())).collect()
}

/// All records of a session, one after the other.
fn records(path: &std::path::Path) -> String {
    let reader = session::SessionReader::new(std::fs::File::open(path).unwrap()).unwrap();
    reader.map(|record| format!("{:?}\n", record.unwrap())).collect()
}

#[test]
fn arguments_of_the_slowest_calls_are_shown_and_secrets_are_not() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("shown").start(runtime, &[] as &[&str]);
        process.wait_for_ready();
        let folder = common::scratch();
        let session = common::file(&folder, "shown.clrscope");
        let path = session.to_str().unwrap();
        let tracing = Tracing::start(
            &process,
            &[
                "shown!Clrscope.Samples.**",
                "--exclude",
                "*.Main",
                "--args",
                "--redact",
                "HIDDEN*",
                "-o",
                path,
            ],
        );
        process.send_line("go").unwrap();
        assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
        let report = tracing.end();
        assert_eq!(
            (&report["dropped"], &report["reverted"]),
            (&serde_json::json!({}), &true.into()),
            "{runtime}"
        );

        let value = |method: &str, name: &str| arguments(&report, method)[name]["value"].clone();
        for (name, expected) in [
            ("a", serde_json::json!(-1)),
            ("b", 255.into()),
            ("c", (-300).into()),
            ("d", 65535.into()),
            ("e", i32::MIN.into()),
            ("f", u32::MAX.into()),
            ("g", i64::MIN.into()),
            ("h", u64::MAX.into()),
            ("i", "é".into()),
            ("j", true.into()),
            ("k", 0.1.into()),
            ("l", (-2.5).into()),
            ("m", (-7).into()),
            ("n", 7.into()),
        ] {
            assert_eq!(value("Shown.Numbers", name), expected, "{runtime}: {name}");
        }
        let mixed = arguments(&report, "Shown.Mixed");
        for (name, expected) in [
            ("id", serde_json::json!({"name": "id", "type": "int", "value": 42})),
            ("name", serde_json::json!({"name": "name", "type": "string", "value": "Zoë \"Q\""})),
            (
                "password",
                serde_json::json!({"name": "password", "type": "string", "redacted": true}),
            ),
            (
                "hiddenNote",
                serde_json::json!({"name": "hiddenNote", "type": "string", "redacted": true}),
            ),
            (
                "other",
                serde_json::json!({"name": "other", "type": "object", "object": "System.Version"}),
            ),
            ("day", serde_json::json!({"name": "day", "type": "System.DayOfWeek", "value": 4})),
            (
                "tiny",
                serde_json::json!({"name": "tiny", "type": "Clrscope.Samples.Tiny", "value": -3}),
            ),
            ("none", serde_json::json!({"name": "none", "type": "string", "value": null})),
            ("point", serde_json::json!({"name": "point", "type": "Clrscope.Samples.Point"})),
            ("counter", serde_json::json!({"name": "counter", "type": "ref int"})),
        ] {
            assert_eq!(mixed[name], expected, "{runtime}");
        }
        assert_eq!(mixed["order"]["object"], "Clrscope.Samples.Order", "{runtime}");
        assert_eq!(
            (&mixed["all"]["elements"], &mixed["table"]["elements"]),
            (&3.into(), &8.into()),
            "{runtime}"
        );
        if runtime != Runtime::V3_1 {
            assert_eq!(
                (&mixed["all"]["object"], &mixed["table"]["object"]),
                (&"long[]".into(), &"string[,]".into())
            );
        }
        // As they were when the call began; also of a call that fails, of methods of classes, and
        // of generic ones.
        let changes = ["id", "name", "weight"].map(|name| value("Shown.Changes", name));
        assert_eq!(changes, [serde_json::json!(1), "n".into(), 1.5.into()], "{runtime}");
        assert_eq!(value("Shown.Fails", "reason"), "on purpose", "{runtime}");
        assert_eq!(
            (value("Order.Weigh", "factor"), value("Order.Weigh", "kind")),
            (2.into(), 7.into()),
            "{runtime}"
        );
        assert_eq!(value("Box<T>.Put", "place"), 0, "{runtime}");
        let text = &arguments(&report, "Shown.Long")["text"];
        assert_eq!(
            (text["value"].as_str().unwrap().len(), &text["truncated_from"]),
            (256, &1000.into()),
            "{runtime}"
        );
        // Of asynchronous ones what their state machines keep.
        let later = ["id", "name"].map(|name| value("Shown.Later", name));
        assert_eq!(later, [serde_json::json!(8), "later".into()], "{runtime}");
        let at_once = arguments(&report, "Shown.AtOnce");
        assert_eq!(
            (&at_once["id"]["value"], &at_once["password"]["redacted"]),
            (&1.into(), &true.into()),
            "{runtime}"
        );
        assert_eq!(at_once["order"]["object"], "Clrscope.Samples.Order", "{runtime}");
        let rewrites = arguments(&report, "Shown.Rewrites");
        assert_eq!(rewrites["weight"]["value"], 0.5, "{runtime}");
        for gone in ["id", "name", "never"] {
            assert_eq!(rewrites[gone].as_object().unwrap().len(), 2, "{runtime}: {rewrites:#?}");
        }
        assert_eq!(value("Shown.Breaks", "reason"), "in the end", "{runtime}");
        let soon = arguments(&report, "Box<T>.Soon");
        let (name, place) =
            (soon["name"]["value"].as_str().unwrap(), soon["place"]["value"].as_u64().unwrap());
        assert_eq!((name.len() as u64, soon["value"].get("value")), (place, None), "{runtime}");
        let mut methods = report["methods"].as_array().unwrap().iter();
        let ignores =
            methods.find(|one| one["method"].as_str().unwrap().contains("Shown.Ignores(")).unwrap();
        assert!(
            ignores["no_arguments"].as_str().unwrap().contains("asynchronous"),
            "{runtime}: {ignores:#}"
        );

        let records = records(&session);
        assert!(records.contains("Zoë") && records.contains("on purpose"), "{runtime}");
        let page = run(["report", path]).expect(0).out;
        let chrome = run(["report", path, "-f", "chrome"]).expect(0).out;
        let spans = run(["report", path, "-f", "otlp"]).expect(0).out;
        for shown in [&page, &chrome, &spans] {
            assert!(shown.contains("on purpose"), "{runtime}: {shown}");
        }
        for hidden in ["hunter2", "hidden-note"] {
            for shown in [&records, &page, &chrome, &spans, &report.to_string()] {
                assert!(!shown.contains(hidden), "{runtime}: {hidden} in {shown}");
            }
        }

        // Text for people, and nothing without being asked.
        let pid = process.pid().to_string();
        let tracing = Tracing::start(&process, &["shown!*.Shown.Mixed"]);
        process.send_line("go").unwrap();
        process.truth(LIMIT);
        assert!(tracing.end()["methods"][0]["slowest"][0].get("arguments").is_none(), "{runtime}");
        let usage =
            run(["trace", &pid, "shown!*.Shown.Mixed", "--args", "--redact", "{"]).expect(2).err;
        assert!(usage.contains("--redact {"), "{usage}");
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

/// Objects move while they are looked at by four threads: every value is that of its own call.
#[test]
fn arguments_are_right_while_there_are_collections() {
    for runtime in sample_runtimes() {
        let mut process = Sample::named("shown").start(runtime, &[] as &[&str]);
        process.wait_for_ready();
        let folder = common::scratch();
        let session = common::file(&folder, "storm.clrscope");
        let arguments =
            ["shown!*.Shown.Hot", "--args", "--each-call", "-o", session.to_str().unwrap()];
        let tracing = Tracing::start(&process, &arguments);
        process.send_line("storm 20000").unwrap();
        let truth = process.truth(LIMIT);
        let report = tracing.end();
        assert_eq!((&truth["calls"], &truth["wrong"]), (&80_000.into(), &0.into()), "{runtime}");
        assert_eq!(
            by_name(&report)["Clrscope.Samples.Shown.Hot"],
            (80_000, 80_000, 0),
            "{runtime}"
        );
        let mut whole = 0;
        for record in session::SessionReader::new(std::fs::File::open(&session).unwrap()).unwrap() {
            let session::SessionRecord::CallsWithArguments(calls) = record.unwrap() else {
                continue;
            };
            for call in calls {
                let shown = |place: u16| {
                    call.arguments.iter().find(|(at, _)| *at == place).map(|(_, shown)| shown)
                };
                // There was no room for all.
                let Some(session::Argument::Number(id)) = shown(0) else { continue };
                if let Some(session::Argument::Text { text, length }) = shown(1) {
                    assert_eq!(
                        (text, *length as usize),
                        (&format!("text-{id}"), text.len()),
                        "{runtime}"
                    );
                }
                if let Some(session::Argument::Float(half)) = shown(3) {
                    assert_eq!(*half, *id as f64 / 2.0, "{runtime}");
                    whole += 1;
                }
                let elements = match shown(2) {
                    Some(session::Argument::Object { elements, .. }) => elements.map(i64::from),
                    _ => None,
                };
                let index = id % 1_000_000;
                let expected = (index % 3 == 0).then_some(index % 1000);
                assert!(shown(2).is_none() || elements == expected, "{runtime}: {call:?}");
            }
        }
        let dropped: u64 = report["dropped"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert!(whole > 5_000, "{runtime}: {whole}, {dropped} dropped");
        assert!(whole == 80_000 || dropped > 0, "{runtime}: {whole}");
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}
