//! What programs of today have and older compilers and runtimes do not: a web service made by a
//! current C# compiler, on .NET 9, and a single-file application.
#![cfg(unix)]
mod common;

use common::{Report, Running, clrscope, file, run, scratch, tracing::Tracing};
use rustix::process::Signal;
use serde_json::Value;
use std::{path::Path, time::Duration};
use testkit::{Kiosk, Launch, Runtime};

/// Records the service under load for three seconds.
#[track_caller]
fn recorded(
    kiosk: &Kiosk,
    profilers: &str,
    routes: &'static [&'static str],
    output: &Path,
) -> Report {
    let load = kiosk.load(4, routes);
    let pid = kiosk.process.pid().to_string();
    let mut recorder =
        Running::start(clrscope(["record", &pid, "-p", profilers, "-o", output.to_str().unwrap()]));
    common::wait_until_recording(output, &mut recorder);
    std::thread::sleep(Duration::from_secs(3));
    recorder.signal(Signal::INT);
    recorder.wait().expect(0);
    assert!(load.finish() > 0, "no request was answered");
    Report::of(output)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `Type.Method` of each function of a report.
fn functions(report: &Report) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list(&report.0["functions"])
        .iter()
        .map(|function| format!("{}.{}", text(&function["type_name"]), text(&function["method"])))
        .collect()
}

/// The runtime writes the events of `System.Threading.Lock` in managed code, and their stacks begin
/// there.
#[test]
fn a_wait_for_a_lock_object_is_reported_at_the_method_that_locks() {
    let (kiosk, folder) = (Kiosk::start(), scratch());
    let output = file(&folder, "locks.clrscope");
    let report = recorded(&kiosk, "locks", &["/sell"], &output);
    let names = functions(&report);
    let waited_at = |row: &&Value| {
        names[row["waited_at"]["function"].as_u64().unwrap() as usize] == "Tickets.Sell"
    };
    let of_sell: Vec<&Value> = list(&report.0["locks"]["locks"]).iter().filter(waited_at).collect();
    let waited: u64 = of_sell.iter().map(|row| row["waits_ns"]["total"].as_u64().unwrap()).sum();
    // Four clients, one lock.
    assert!(waited > 1_000_000_000, "{waited} ns: {:#}", report.0["locks"]["locks"]);
    assert_eq!(report.total_weight("locks", "Tickets", "Sell"), waited);
    // What writes the event, and the lock, are on no stack.
    for writer in ["System.Diagnostics.Tracing.NativeRuntimeEventSource", "System.Threading.Lock"] {
        assert_eq!(report.total_weight("locks", writer, ""), 0, "{writer}");
    }
    let page = run(["report", output.to_str().unwrap()]).expect(0).out;
    assert!(page.contains("Tickets.Sell") && !page.contains("NativeRuntimeEventSource"), "{page}");
}

#[test]
fn a_hot_lock_object_is_found_with_its_method() {
    let kiosk = Kiosk::start();
    let load = kiosk.load(6, &["/sell"]);
    let pid = kiosk.process.pid().to_string();
    let found = run(["checkup", &pid, "-d", "5s", "--json"]).expect(0).json();
    load.finish();
    let hot: Vec<&Value> =
        list(&found["findings"]).iter().filter(|finding| finding["id"] == "hot-lock").collect();
    assert!(!hot.is_empty(), "{found:#}");
    assert!(hot[0]["culprit"].as_str().unwrap().starts_with("Tickets.Sell("), "{found:#}");
}

/// The lambda of a route, as every view names it.
fn lambda(number: u32, route: &str) -> String {
    format!(
        "Program.Main.lambda#{number}:{} [GET {route}]",
        Kiosk::line_of(&format!("MapGet(\"{route}\""))
    )
}

#[test]
fn lambdas_of_one_method_are_told_apart_in_every_view() {
    let (kiosk, folder) = (Kiosk::start(), scratch());
    let output = file(&folder, "lambdas.clrscope");
    let report = recorded(&kiosk, "exceptions,allocations", &["/bad", "/sum", "/json"], &output);
    let names = functions(&report);
    let bad = lambda(6, "/bad");
    let lambdas: Vec<&String> =
        names.iter().filter(|name| name.starts_with("Program.Main.lambda")).collect();
    assert!(lambdas.contains(&&bad), "{lambdas:?}");
    assert!(
        lambdas.iter().all(|name| name.contains("lambda#") && name.contains(':')),
        "{lambdas:?}"
    );
    // The exception is caught in the lambda that throws it.
    let caught_by: Vec<&String> = list(&report.0["exceptions"]["samples"])
        .iter()
        .filter_map(|sample| names.get(sample["caught_by"].as_u64()? as usize))
        .filter(|name| name.starts_with("Program."))
        .collect();
    assert!(!caught_by.is_empty() && caught_by.iter().all(|name| **name == bad), "{caught_by:?}");
    for format in ["text", "collapsed", "speedscope", "firefox", "markdown", "json", "html"] {
        let options =
            ["report", output.to_str().unwrap(), "--profiler", "exceptions", "-f", format];
        let text = run(options).expect(0).out;
        let short = bad.trim_start_matches("Program.");
        assert!(text.contains(short), "{format}: `{short}` is missing in {text}");
    }
}

/// Each lambda is a method of its own: as many as are said to be instrumented at first are in the
/// report.
#[test]
fn a_trace_counts_each_lambda_by_itself() {
    let kiosk = Kiosk::start();
    let tracing = Tracing::start(&kiosk.process, &["Program+<>c*.*"]);
    for (route, times) in [("/ok", 5), ("/sum", 3), ("/bad", 2)] {
        for _ in 0..times {
            kiosk.get(route).unwrap();
        }
    }
    tracing.signal(Signal::INT);
    let ended = tracing.wait().expect(0);
    let report = ended.json();
    let calls = |name: &str| -> Vec<u64> {
        let is_it =
            |method: &&Value| method["method"].as_str().unwrap().split('(').next() == Some(name);
        list(&report["methods"])
            .iter()
            .filter(is_it)
            .map(|method| method["calls"].as_u64().unwrap())
            .collect()
    };
    for (number, route, times) in [(0, "/ok", 5), (7, "/sum", 3), (6, "/bad", 2)] {
        assert_eq!(calls(&lambda(number, route)), [times], "{route}: {report:#}");
    }
    let instrumented = list(&report["methods"]).len() + list(&report["not_called"]).len();
    assert!(instrumented > 8, "{report:#}");
    let said = format!("tracing {instrumented} methods");
    assert!(
        ended.err.lines().any(|line| line == said),
        "`{said}` is missing in {}\n{report:#}",
        ended.err
    );
}

/// A pooled state machine serves one request after the other: that it is old says nothing of its
/// wait of 10 ms.
#[test]
fn short_waits_of_pooled_state_machines_have_no_duration() {
    let kiosk = Kiosk::start();
    let load = kiosk.load(8, &["/price"]);
    std::thread::sleep(Duration::from_secs(1));
    let pid = kiosk.process.pid().to_string();
    let report = run(["async", &pid, "-d", "2s", "--json", "--top", "1000"]).expect(0).json();
    load.finish();
    let price = |stack: &&Value| {
        list(&stack["frames"]).iter().any(|frame| frame["method"] == "Tickets.PriceAsync")
    };
    let stacks: Vec<&Value> = list(&report["stacks"]).iter().filter(price).collect();
    assert!(!stacks.is_empty(), "{report:#}");
    for stack in stacks {
        assert!(matches!(stack["since_first_snapshot"].as_u64(), None | Some(0)), "{stack:#}");
    }
}

/// The assemblies lie within the executable, their PDBs beside it.
#[test]
fn a_single_file_application_has_source_lines() {
    let folder = scratch();
    let (output, out) = (file(&folder, "tool.clrscope"), file(&folder, "out.sarif"));
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small.sarif");
    let tool = Launch::new(Runtime::V8.require().executable());
    let tool = tool.args(["rewrite", input.to_str().unwrap(), "--output", out.to_str().unwrap()]);
    let launch = [
        common::binary(),
        "launch",
        "-q",
        "-p",
        "cpu",
        "--rate",
        "1000",
        "-o",
        output.to_str().unwrap(),
        "--",
    ];
    let mut process = tool.under(launch).start();
    assert!(process.wait(Duration::from_secs(60)).unwrap().success(), "{}", process.transcript());
    let report = Report::of(&output);
    let (modules, functions) = (list(&report.0["modules"]), list(&report.0["functions"]));
    let index = |value: &Value| value.as_u64().map(|index| index as usize);
    let is_own = |frame: &&Value| {
        let function = &functions[index(&frame["function"]).unwrap()];
        let module = index(&function["module"]).map(|module| &modules[module]);
        function["kind"] == "managed" && module.is_some_and(|module| module["name"] == "Sarif")
    };
    let own: Vec<&Value> = list(&report.0["frames"]).iter().filter(is_own).collect();
    let lines: Vec<&&Value> = own.iter().filter(|frame| frame["line"].as_u64() > Some(0)).collect();
    // Methods that the compiler made have none.
    assert!(
        own.len() > 5 && lines.len() * 2 > own.len(),
        "{} of {} frames",
        lines.len(),
        own.len()
    );
    let files = list(&report.0["files"]);
    let file_of =
        |frame: &Value| files[index(&frame["file"]).unwrap()].as_str().unwrap().to_owned();
    assert!(lines.iter().all(|frame| file_of(frame).ends_with(".cs")), "{files:?}");
}
