//! `clrscope ps` on real runtimes.
#![cfg(unix)]
mod common;

use common::{freeze, run};
use serde_json::Value;
use testkit::{Runtime, Sample, TargetProcess, runtimes};

fn started(runtime: Runtime) -> TargetProcess {
    if runtime.runs_samples() {
        let mut process = Sample::named("burn").start(runtime, &["--seconds", "60"]);
        process.wait_for_ready();
        process
    } else {
        let mut process = TargetProcess::azmcp(runtime);
        process.feed(1).unwrap();
        process
    }
}

fn entry(list: &Value, pid: u32) -> &Value {
    list.as_array()
        .unwrap()
        .iter()
        .find(|process| process["pid"] == pid)
        .unwrap_or_else(|| panic!("{pid} is not in {list}"))
}

#[test]
fn every_runtime_is_listed_with_its_facts() {
    let processes: Vec<(Runtime, TargetProcess)> =
        runtimes().into_iter().map(|runtime| (runtime, started(runtime))).collect();
    let list = run(["ps", "--json"]).expect(0).json();
    let text = run(["ps"]).expect(0).out;
    for (runtime, process) in &processes {
        let entry = entry(&list, process.pid());
        let version =
            entry["runtime"].as_str().unwrap_or_else(|| panic!("{runtime}: no version in {entry}"));
        assert!(version.starts_with(&format!("{}.", runtime.major())), "{runtime}: {entry}");
        assert_eq!(
            (&entry["attachable"], &entry["obstacle"]),
            (&true.into(), &Value::Null),
            "{runtime}: {entry}"
        );
        assert_eq!(entry["arch"], "x64", "{runtime}: {entry}");
        assert!(
            entry["uptime_seconds"].as_f64().is_some_and(|uptime| uptime < 600.0),
            "{runtime}: {entry}"
        );
        assert!(
            entry["user"].is_string()
                && entry["command"].as_str().is_some_and(|command| !command.is_empty())
        );
        let line = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(&process.pid().to_string()));
        assert!(line.is_some_and(|line| line.contains(version)), "{runtime}: {text}");
    }
}

#[test]
fn a_sample_is_named_by_its_assembly() {
    let process = started(Runtime::V9);
    let list = run(["ps", "--json"]).expect(0).json();
    assert_eq!(entry(&list, process.pid())["name"], "burn");
}

#[test]
fn what_cannot_be_profiled_is_listed_with_the_reason() {
    let mut old = Sample::named("burn").start(Runtime::V2_1, &["--seconds", "60"]);
    old.wait_for_ready();
    let launch = Sample::named("burn")
        .launch(Runtime::V9, &["--seconds", "60"])
        .env("DOTNET_EnableDiagnostics", "0");
    let mut closed = launch.start();
    closed.wait_for_ready();
    let mut frozen = started(Runtime::V9);
    freeze(&mut frozen);
    let list = run(["ps", "--json"]).expect(0).json();
    for (process, reason) in
        [(&old, "3.1 or newer"), (&closed, "DOTNET_EnableDiagnostics"), (&frozen, "stopped")]
    {
        let entry = entry(&list, process.pid());
        assert_eq!(entry["attachable"], false, "{entry}");
        assert!(entry["obstacle"].as_str().unwrap().contains(reason), "{entry}");
    }
    let text = run(["ps"]).expect(0).out;
    assert!(text.contains("\nThese cannot be profiled\n  "), "{text}");
}

#[test]
fn other_programs_are_not_listed() {
    let sleeper = testkit::Launch::new("sleep").arg("60").start();
    let list = run(["ps", "--json"]).expect(0).json();
    assert!(list.as_array().unwrap().iter().all(|process| process["pid"] != sleeper.pid()));
}
