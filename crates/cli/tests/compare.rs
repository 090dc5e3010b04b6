//! `clrscope compare`, through the built binary.
#![cfg(unix)]
mod common;
#[path = "../../compare/tests/common/mod.rs"]
mod made;

use common::{Ended, assert_schema, clrscope, file, run, scratch, wait_until_recording};
use made::{MS, Made, Random, busy};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use testkit::{Runtime, Sample};

/// Twenty seconds in which the parts of three methods are these; the rest of the time is idle.
fn session(folder: &tempfile::TempDir, name: &str, seed: u64, parts: [f64; 3]) -> PathBuf {
    let idle = 1.0 - parts.iter().sum::<f64>();
    let all = [&parts[..], &[idle]].concat();
    let mut samples = busy(&mut Random::new(seed), 20, 200, &all, 5.0);
    samples.retain(|(_, method)| *method < 3);
    let path = file(folder, name);
    fs::write(&path, Made { weight: 5 * MS, ..Made::of(20, 3, samples) }.file()).unwrap();
    path
}

fn compare(before: &Path, after: &Path, more: &[&str]) -> Ended {
    run([&["compare", before.to_str().unwrap(), after.to_str().unwrap()], more].concat())
}

#[test]
fn a_regression_is_found_and_fails() {
    let folder = scratch();
    let before = session(&folder, "before.clrscope", 1, [0.3, 0.2, 0.1]);
    let after = session(&folder, "after.clrscope", 2, [0.45, 0.1, 0.1]);
    let text = compare(&before, &after, &[]).expect(0).out;
    for part in ["Worse: cpu, Contoso.Shop.Step0() itself", "Better: cpu, Contoso.Shop.Step1()"] {
        assert!(text.contains(part), "{text}");
    }
    let failed = compare(&before, &after, &["--fail-on", "5%"]).expect(12);
    assert!(
        failed.out.contains("Failed: ") && failed.err.contains("more than 5.0 %"),
        "{failed:?}"
    );
    compare(&before, &after, &["--fail-on", "500%"]).expect(0);
    compare(&before, &after, &["--fail-on", "5%", "--function", "Step1"]).expect(0);
    compare(&before, &after, &["--fail-on", "5%", "--thread", "nobody"]).expect(8);
    compare(&before, &after, &["--profiler", "wall"]).expect(8);
    compare(&before, &after, &["--fail-on", "5%", "--to", "1s"]).expect_error(8, &["--fail-on"]);
    let json = compare(&before, &after, &["--json", "--fail-on", "0", "--tree"]).expect(12).json();
    assert_eq!((&json["gate"]["failed"], &json["per"]), (&true.into(), &"second".into()));
    assert!(json["series"][0]["tree"]["function"].as_array().unwrap().len() >= 4);
    // A whole file, or none.
    let output = file(&folder, "out.xml");
    let written = ["-o", output.to_str().unwrap(), "--format", "junit"];
    assert!(compare(&before, &after, &written).expect(0).out.is_empty());
    assert!(fs::read_to_string(&output).unwrap().contains("<failure "));
    for format in ["markdown", "html", "sarif"] {
        assert!(compare(&before, &after, &["--format", format]).expect(0).out.contains("Step0"));
    }
}

#[test]
fn bad_input_is_named() {
    let folder = scratch();
    let good = session(&folder, "good.clrscope", 3, [0.3, 0.2, 0.1]);
    // The same twice.
    let same = compare(&good, &good, &["--fail-on", "0%", "--confidence", "50"]).expect(0).out;
    assert!(same.contains("No difference is certain"), "{same}");
    let missing = file(&folder, "missing.clrscope");
    compare(&good, &missing, &[]).expect_error(6, &["missing.clrscope", "`clrscope record`"]);
    let report = run(["report", missing.to_str().unwrap()]);
    report.expect_error(6, &["missing.clrscope", "`clrscope record`"]);
    let text = file(&folder, "text.clrscope");
    fs::write(&text, "no session").unwrap();
    compare(&text, &good, &[]).expect_error(8, &["text.clrscope"]);
    let bytes = fs::read(&good).unwrap();
    let cut = file(&folder, "cut.clrscope");
    fs::write(&cut, &bytes[..bytes.len() - 20]).unwrap();
    let ended = compare(&good, &cut, &[]).expect(8);
    assert!(ended.err.contains("cut.clrscope"), "{ended:?}");
    for (more, part) in [
        (&["--fail-on=-1%"][..], "percent"),
        (&["--confidence", "100%"], "99.9999"),
        (&["--per", "hour"], "second"),
        (&["--format", "xml"], "junit"),
        (&["--profiler", "nope"], "cpu"),
        (&["--from", "2s", "--to", "1s"], "--from"),
        (&["-o", good.to_str().unwrap()], "overwrite"),
    ] {
        let ended = compare(&good, &good, more).expect(2);
        assert!(ended.err.contains(part), "{more:?}: {}", ended.err);
    }
    assert_eq!(fs::read(&good).unwrap(), bytes);
}

/// Records `burn` for six seconds, with so many parts of its second method.
fn recorded(folder: &tempfile::TempDir, name: &str, medium: &str) -> PathBuf {
    let arguments = ["--seconds", "60", "--every", "150", "--medium", medium];
    let launch = Sample::named("burn").launch(Runtime::V9, &arguments);
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    let path = file(folder, name);
    let pid = process.pid().to_string();
    let record = ["record", &pid, "-o", path.to_str().unwrap(), "-p", "cpu,gc", "--rate", "500"];
    let mut recorder = common::Running::start(clrscope(record));
    wait_until_recording(&path, &mut recorder);
    std::thread::sleep(Duration::from_secs(6));
    recorder.signal(Signal::INT);
    recorder.wait().expect(0);
    path
}

/// Amounts of a function itself: before and after, and whether they changed for certain.
fn own(comparison: &Value, part: &str) -> (f64, f64, bool) {
    let functions = comparison["functions"].as_array().unwrap();
    let is_it = |function: &Value| function["name"].as_str().unwrap().contains(part);
    let index = functions.iter().position(is_it).unwrap_or_else(|| panic!("no {part}"));
    let rows = comparison["series"][0]["functions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["function"] == index).unwrap();
    let amount = |side: &str| row["self"][side].as_f64().unwrap();
    (amount("before"), amount("after"), row["self"]["significance"] == "changed")
}

#[test]
fn a_method_that_got_slower_is_named_and_others_are_not() {
    let folder = scratch();
    let [before, again] =
        ["before.clrscope", "again.clrscope"].map(|name| recorded(&folder, name, "2"));
    let after = recorded(&folder, "after.clrscope", "8");
    let json = compare(&before, &after, &["--json"]).expect(0).json();
    assert_schema("compare", &json);
    // 40 ms of CPU time in a round of 150 ms, of which Medium has two parts of ten; then eight. On
    // a machine that is busy otherwise, the rounds of 64 ms come late, and it gets less.
    let (one, other, certain) = own(&json, "Medium");
    assert!(certain && (2.0..5.5).contains(&(other / one)), "{one} {other}");
    assert!((35e6..75e6).contains(&one), "{one}");
    let (one, other, certain) = own(&json, "Burn.Slow");
    assert!(!certain, "{one} {other}");
    let text = compare(&before, &after, &["--fail-on", "20%"]).expect(12).out;
    let worse = text.lines().filter(|line| line.trim_start().starts_with("Worse: "));
    assert!(worse.clone().any(|line| line.contains("Medium")), "{text}");
    assert!(!text.contains("Better: "), "{text}");
    // The same program again: nothing that would fail.
    compare(&before, &again, &["--fail-on", "20%"]).expect(0);
    let sarif = compare(&before, &after, &["--format", "sarif"]).expect(0).out;
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let file = |result: &Value| {
        let place = &result["locations"][0]["physicalLocation"];
        place["artifactLocation"]["uri"].as_str().unwrap_or_default().ends_with("Burn.cs")
    };
    assert!(results.iter().any(file), "{sarif:#}");
}
