//! `clrscope record -p loads` on every runtime, with a program that knows what it loads.
#![cfg(unix)]
mod common;

use common::{Report, file, recorded_work, run, scratch};
use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn method<'a>(report: &'a Report, place: &Value) -> &'a Value {
    &report.0["functions"][number(place, "function") as usize]["method"]
}

fn check(runtime: Runtime, report: &Report, truth: &Value) {
    assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
    let loads = &report.0["loads"];
    let assemblies = loads["assemblies"].as_array().unwrap();
    // Before .NET 5 the runtime tells what was loaded, and no more.
    let tells = runtime.major() >= 5;
    assert_eq!(loads["timed"], tells, "{runtime}");
    let loaded = |name: &str| -> Vec<&Value> {
        assemblies
            .iter()
            .filter(|load| load["name"] == name && load["outcome"] == "loaded")
            .collect()
    };

    let known = &truth["framework"];
    let framework = loaded(known["assembly"].as_str().unwrap())[0];
    assert_eq!(method(report, &framework["called_at"]), &known["by"], "{runtime}: {framework}");
    assert!(
        framework["version"].as_str().unwrap().starts_with(|digit: char| digit.is_ascii_digit()),
        "{framework}"
    );
    assert!(framework["path"].as_str().unwrap().ends_with(".dll"), "{runtime}: {framework}");
    assert_eq!(
        (&framework["precompiled"], &framework["dynamic"]),
        (&true.into(), &false.into()),
        "{framework}"
    );
    assert_eq!(
        framework["requested_by"].as_str().unwrap().starts_with("jitter,"),
        tells,
        "{runtime}: {framework}"
    );
    for field in ["duration_ns", "own_ns", "resolution_ns"] {
        assert_eq!(framework[field].is_u64(), tells, "{runtime}: {framework}");
    }
    if tells {
        assert!(
            number(framework, "own_ns") <= number(framework, "duration_ns"),
            "{runtime}: {framework}"
        );
        assert!(
            number(framework, "resolution_ns") <= number(framework, "duration_ns"),
            "{runtime}: {framework}"
        );
        let place = number(framework, "own_ns");
        assert!(
            report.total_weight("loads", "Clrscope.Samples.Jitter", "OfFramework") >= place,
            "{runtime}"
        );
    }

    let name = truth["bytes"]["assembly"].as_str().unwrap();
    let own = loaded(name);
    let of_bytes = own.iter().filter(|load| load["path"] == "" && load["collectible"] == false);
    assert_eq!(of_bytes.count() as u64, number(&truth["bytes"], "count"), "{runtime}");
    for path in texts(&truth["files"]) {
        let from: Vec<_> = own.iter().filter(|load| load["path"] == path).collect();
        assert_eq!(from.len(), 1, "{runtime}: {path}: {own:?}");
        assert_eq!(from[0]["duration_ns"].is_u64(), tells, "{runtime}: {from:?}");
    }
    let collectible: Vec<_> = own.iter().filter(|load| load["collectible"] == true).collect();
    assert_eq!(collectible.len() as u64, number(&truth["unloaded"], "loaded"), "{runtime}");
    let unloads = loads["unloads"].as_array().unwrap();
    assert_eq!(unloads.len() as u64, number(&truth["unloaded"], "gone"), "{runtime}: {unloads:?}");
    assert_eq!(number(loads, "unloaded"), unloads.len() as u64, "{runtime}");
    assert!(
        unloads
            .iter()
            .all(|unload| collectible.iter().any(|load| load["assembly"] == unload["assembly"])),
        "{runtime}"
    );

    for name in texts(&truth["emitted"]) {
        let emitted = loaded(name);
        assert_eq!(
            (emitted.len(), &emitted[0]["dynamic"]),
            (1, &true.into()),
            "{runtime}: {emitted:?}"
        );
        assert_eq!(method(report, &emitted[0]["called_at"]), "Emitted", "{runtime}");
    }

    let known = &truth["handled"];
    let handled = loaded(known["assembly"].as_str().unwrap());
    assert_eq!(handled.len(), 1, "{runtime}: {handled:?}");
    let failed: Vec<&Value> =
        assemblies.iter().filter(|load| load["outcome"] == "failed").collect();
    let holders: Vec<&str> = loads["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| report.0["types"][number(row, "type") as usize].as_str().unwrap())
        .filter(|name| name.starts_with("Clrscope.Samples.Jitter+Holder<Clrscope.Samples.Jitter+A"))
        .collect();
    if !tells {
        assert!(failed.is_empty() && holders.is_empty(), "{runtime}: {failed:?} {holders:?}");
        return;
    }
    // The program measures the same call from outside.
    let (took, most) = (number(handled[0], "duration_ns"), number(known, "took_ns"));
    assert!(took <= most && took > most / 10 * 9, "{runtime}: {took} of {most} ns");
    let steps = handled[0]["steps"].as_array().unwrap();
    let step =
        steps.iter().find(|step| step["what"].as_str().unwrap().ends_with(" SlowHandler")).unwrap();
    assert_eq!(step["found"], true, "{runtime}: {steps:?}");
    assert!((60_000_000..=most).contains(&number(step, "took_ns")), "{runtime}: {step}");

    for name in texts(&truth["failed"]) {
        let of: Vec<_> = failed.iter().filter(|load| load["name"] == name).collect();
        assert_eq!(of.len(), 1, "{runtime}: {name}: {of:?}");
        assert_eq!(method(report, &of[0]["called_at"]), "Failing", "{runtime}: {of:?}");
        assert!(
            of[0]["steps"].as_array().unwrap().iter().all(|step| step["found"] == false),
            "{runtime}: {of:?}"
        );
    }
    assert_eq!(number(loads, "failed"), failed.len() as u64, "{runtime}");
    assert_eq!(holders.len() as u64, number(&truth["generic"], "count"), "{runtime}: {holders:?}");
    // No time is counted twice: not even all threads together were at it longer than the program
    // ran.
    let all = number(loads, "assembly_ns") + number(loads, "type_ns");
    assert_eq!(report.series("loads")["weight"], all, "{runtime}");
    assert!((all as f64) < truth["seconds"].as_f64().unwrap() * 2e9, "{runtime}: {all}");
}

#[test]
fn every_load_is_told_and_measured() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "loads.clrscope");
        let mut process =
            Sample::named("jitter").launch(runtime, &["--gate"]).private_tmp().start();
        process.wait_for_ready();
        let (report, truth) =
            recorded_work(&mut process, "loads", &output, Duration::from_millis(500));
        check(runtime, &report, &truth);
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        // Where nothing is timed, they stand in the order of their times.
        let parts: &[&str] = match runtime.major() {
            3 => &["Loads", "Large.Code", "made at run time"],
            _ => &[
                "Loads",
                "System.Private.Xml.Linq",
                "not found",
                "SlowHandler",
                "The main thread waited",
            ],
        };
        for part in parts {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_launched_program_is_recorded_from_its_start() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "launched.clrscope");
        let launch = Sample::named("jitter").launch(runtime, &[] as &[&str]);
        let prefix =
            [common::binary(), "launch", "-q", "-p", "loads", "-o", output.to_str().unwrap(), "--"];
        let mut process = launch.under(prefix).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        let assemblies = report.0["loads"]["assemblies"].as_array().unwrap();
        let names: Vec<&str> =
            assemblies.iter().map(|load| load["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"System.Private.Xml.Linq"), "{runtime}: {names:?}");
        // The diagnostic port of .NET Core 3.1 opens too late for the first assemblies.
        if runtime.major() > 3 {
            assert!(
                names.contains(&"System.Runtime") && names.contains(&"System.Console"),
                "{runtime}: {names:?}"
            );
            assert!(number(&report.0["loads"], "distinct_types") > 500, "{runtime}");
        }
        assert_eq!(
            number(&report.0["loads"], "unloaded"),
            number(&truth["unloaded"], "gone"),
            "{runtime}"
        );
    }
}
