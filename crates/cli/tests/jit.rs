//! `clrscope record -p jit` on every runtime, with a program that knows what the runtime has to
//! compile for it.
#![cfg(unix)]
mod common;

use common::{Fed, Report, file, recorded_work, run, scratch};
use serde_json::Value;
use std::{path::Path, time::Duration};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);

/// Compiled methods by part of their name, as in the sample or made by it.
fn rows<'a>(report: &'a Report, method: &str) -> Vec<(&'a Value, &'a Value)> {
    let rows = report.0["jit"]["methods"].as_array().unwrap().iter();
    let rows =
        rows.map(|row| (&report.0["functions"][row["function"].as_u64().unwrap() as usize], row));
    rows.filter(|(function, _)| function["method"].as_str().unwrap().starts_with(method)).collect()
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

/// Tiers of a method in the order of their compilations, and whether each was in the background.
fn tiers(report: &Report, function: &Value) -> Vec<(String, bool)> {
    let all = report.0["jit"]["compilations"].as_array().unwrap().iter();
    let mut of: Vec<&Value> = all.filter(|one| one["function"] == function["id"]).collect();
    of.sort_by_key(|one| number(one, "time_ns"));
    of.iter()
        .map(|one| (one["tier"].as_str().unwrap().to_owned(), one["background"] == true))
        .collect()
}

fn check(runtime: Runtime, report: &Report, truth: &Value) {
    assert_eq!(report.0["recording"]["dropped"], 0, "{runtime}");
    let jit = &report.0["jit"];

    let dynamic = rows(report, "dynamic_");
    assert_eq!(dynamic.len() as u64, number(&truth["dynamic"], "count"), "{runtime}");
    assert!(
        dynamic
            .iter()
            .all(|(function, row)| function["kind"] == "dynamic" && row["compilations"] == 1),
        "{runtime}"
    );
    assert!(
        dynamic.iter().all(|(_, row)| row["tiers"][0]["tier"] == "optimized"),
        "{runtime}: {:?}",
        dynamic[0]
    );
    assert!(number(&jit["dynamic"], "methods") >= dynamic.len() as u64, "{runtime}");
    // Each is compiled where it is called for the first time.
    let time: u64 = dynamic.iter().map(|(_, row)| number(row, "time_ns")).sum();
    assert!(
        report.total_weight("jit", "Clrscope.Samples.Jitter", "Compile") >= time,
        "{runtime}: {time} ns"
    );
    let place = &dynamic[0].1["called_at"];
    assert_eq!(
        report.0["functions"][number(place, "function") as usize]["method"],
        "Compile",
        "{runtime}: {place}"
    );

    // The program measures the first call, which is the compilation and hardly more.
    let large = rows(report, "LargeMethod")[0].1;
    let known = &truth["large"];
    assert_eq!(large["il_bytes"], known["il"], "{runtime}: {large}");
    // Too large to be optimized, which is what its first tier does anyway.
    assert!(
        ["tier-0", "min-opt"].iter().any(|tier| large["tiers"][0]["tier"] == *tier),
        "{runtime}: {large}"
    );
    assert_eq!(large["compilations"], 1, "{runtime}: {large}");
    let (took, most) = (number(large, "time_ns"), number(known, "took_ns"));
    assert!(took <= most && took > most / 2, "{runtime}: {took} of {most} ns");
    assert_eq!(large["blocking_ns"], large["time_ns"], "{runtime}: {large}");

    // One method over eight types: each has code of its own, of the same IL.
    let generic = rows(report, "Instantiate");
    let sum = |field: &str| generic.iter().map(|(_, row)| number(row, field)).sum::<u64>();
    assert_eq!(sum("methods"), number(&truth["generic"], "count"), "{runtime}: {generic:?}");
    assert_eq!(sum("il_bytes"), 8 * number(&truth["generic"], "il"), "{runtime}: {generic:?}");

    let (function, hot) = rows(report, "Hot")[0];
    assert_eq!(function["type_name"], "Clrscope.Samples.Jitter", "{runtime}");
    assert_eq!(
        (&function["parameters"], &function["kind"]),
        (&"(int)".into(), &"managed".into()),
        "{runtime}"
    );
    let owned = |tiers: &[(&str, bool)]| {
        tiers.iter().map(|(tier, back)| ((*tier).to_owned(), *back)).collect::<Vec<_>>()
    };
    let expected = match runtime.major() {
        3 => owned(&[("tier-0", false), ("tier-1", true)]),
        _ => owned(&[("tier-0", false), ("tier-0-instrumented", true), ("tier-1", true)]),
    };
    assert_eq!(tiers(report, function), expected, "{runtime}");
    assert_eq!(number(hot, "most"), expected.len() as u64, "{runtime}: {hot}");
    assert_eq!(
        number(hot, "il_bytes"),
        expected.len() as u64 * number(&truth["hot"], "il"),
        "{runtime}: {hot}"
    );
    assert!(number(&jit["again"], "methods") + 1 >= number(hot, "most"), "{runtime}");
    let (function, _) = rows(report, "Loop")[0];
    let expected = match runtime.major() {
        3 => owned(&[("optimized", false)]),
        _ => owned(&[("tier-0", false), ("tier-1-osr", false)]),
    };
    assert_eq!(tiers(report, function), expected, "{runtime}");

    let parts = ["blocking", "background"].map(|part| number(&jit[part], "methods"));
    assert_eq!(parts[0] + parts[1], number(&jit["all"], "methods"), "{runtime}");
    assert_eq!(report.series("jit")["weight"], jit["all"]["time_ns"], "{runtime}");
    let by_tier = |field: &str| {
        jit["tiers"].as_array().unwrap().iter().map(|tier| number(tier, field)).sum::<u64>()
    };
    for field in ["methods", "time_ns", "il_bytes", "native_bytes"] {
        assert_eq!(by_tier(field), number(&jit["all"], field), "{runtime}: {field}");
    }
    // The program does all of its work on the main thread.
    let thread = &report.0["threads"][number(&jit["threads"][0], "thread") as usize];
    assert_eq!(thread["os_tid"], report.0["recording"]["process"]["pid"], "{runtime}: {thread}");
    assert!(number(&jit["precompiled"], "found") > 20, "{runtime}: {}", jit["precompiled"]);
    assert_eq!(number(&jit["precompiled"], "lookup_ns") > 0, runtime.major() > 3, "{runtime}");
}

#[test]
fn every_compilation_is_told_and_measured() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "jit.clrscope");
        let mut process =
            Sample::named("jitter").launch(runtime, &["--gate"]).private_tmp().start();
        process.wait_for_ready();
        let (report, truth) =
            recorded_work(&mut process, "jit", &output, Duration::from_millis(500));
        check(runtime, &report, &truth);
        let page = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in [
            "Compilation",
            "LargeMethod",
            "optimized at once",
            "most often compiled",
            "Precompiled code was used",
        ] {
            assert!(page.contains(part), "{runtime}: `{part}` is missing in {page}");
        }
        let collapsed =
            run(["report", output.to_str().unwrap(), "--profiler", "jit", "--format", "collapsed"]);
        assert!(collapsed.expect(0).out.contains("LargeMethod"), "{runtime}");
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

fn launched(launch: testkit::Launch, profilers: &str, output: &Path) -> TargetProcess {
    let prefix =
        [common::binary(), "launch", "-q", "-p", profilers, "-o", output.to_str().unwrap(), "--"];
    launch.under(prefix).start()
}

#[test]
fn a_launched_program_is_recorded_from_its_start() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "launched.clrscope");
        // The diagnostic port of .NET Core 3.1 opens too late for the first methods.
        let early = runtime.major() > 3;
        let arguments: &[&str] = if early { &[] } else { &["--gate"] };
        let mut process =
            launched(Sample::named("jitter").launch(runtime, arguments), "jit", &output);
        if !early {
            process.wait_for_ready();
            std::thread::sleep(Duration::from_millis(500));
            process.send_line("go").unwrap();
        }
        let truth = process.truth(LIMIT);
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        check(runtime, &report, &truth);
        if early {
            let (function, _) = rows(&report, "Main")[0];
            assert_eq!(tiers(&report, function)[0], ("tier-0".to_owned(), false), "{runtime}");
        }
    }
}

#[test]
fn a_program_that_is_warm_compiles_hardly_anything() {
    let folder = scratch();
    let output = file(&folder, "idle.clrscope");
    let mut process = Sample::named("jitter")
        .launch(Runtime::V9.require(), &["--idle", "30"])
        .private_tmp()
        .start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    run(["record", &pid, "-p", "jit", "-d", "3s", "-o", output.to_str().unwrap()]).expect(0);
    let report = Report::of(&output);
    // What the runtime compiles to report about itself, when a session of events begins.
    let all = &report.0["jit"]["all"];
    assert!(number(all, "methods") < 150, "{all}");
    for method in ["dynamic_", "Hot", "Loop", "Instantiate"] {
        assert!(rows(&report, method).is_empty(), "{method}: {:?}", rows(&report, method));
    }
    process.kill();
}

#[test]
fn the_application_of_dotnet_10_from_its_start() {
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    let mut process =
        launched(TargetProcess::azmcp_launch(Runtime::V10.require()), "jit,loads", &output);
    process.feed(1).unwrap();
    process.close_stdin();
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    let report = Report::of(&output);
    assert_eq!(report.0["recording"]["dropped"], 0);
    assert_eq!(report.0["notes"], serde_json::json!([]));
    let jit = &report.0["jit"];
    // Its assemblies are not precompiled.
    assert!(number(&jit["blocking"], "methods") > 3_000, "{}", jit["blocking"]);
    let pid = number(&report.0["recording"]["process"], "pid");
    let main = jit["threads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|thread| report.0["threads"][number(thread, "thread") as usize]["os_tid"] == pid);
    assert!(main.is_some_and(|main| number(main, "time_ns") > 100_000_000), "{main:?}");
    assert!(
        !rows(&report, "Main").is_empty() || !rows(&report, "<Main>").is_empty(),
        "the first method of the program"
    );
    let loads = &report.0["loads"];
    assert!(
        number(loads, "loaded") > 50 && number(loads, "distinct_types") > 1_000,
        "{}",
        loads["loaded"]
    );
    assert_eq!(loads["timed"], true);
}

#[test]
fn the_application_of_dotnet_10_compiles_what_is_hot_again() {
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    let fed = Fed::start(Runtime::V10.require());
    let pid = fed.pid.to_string();
    run(["record", &pid, "-p", "jit", "-d", "8s", "-o", output.to_str().unwrap()]).expect(0);
    fed.finish();
    let report = Report::of(&output);
    let jit = &report.0["jit"];
    assert_eq!(report.0["recording"]["dropped"], 0);
    assert!(number(&jit["background"], "methods") > 20, "{}", jit["tiers"]);
    let tier_1 = jit["tiers"].as_array().unwrap().iter().find(|tier| tier["tier"] == "tier-1");
    assert!(tier_1.is_some_and(|tier| number(tier, "methods") > 20), "{}", jit["tiers"]);
    // Named as the agent knows them, with their modules.
    let compiled =
        rows(&report, "").into_iter().filter(|(function, _)| function["kind"] == "managed");
    assert!(
        compiled.clone().count() > 20
            && compiled.filter(|(function, _)| function["module"].is_null()).count() == 0
    );
}
