//! `clrscope heap` and `clrscope leaks` on every runtime, with a program that knows what is on its
//! heap.
#![cfg(unix)]
mod common;

use common::{Ended, Running, clrscope, file, run, scratch, wait_until_recording};
use rustix::process::Signal;
use serde_json::Value;
use session::{SessionReader, SessionRecord};
use std::{fs, time::Duration};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);
const HELD: u64 = 20_000;
const LINKS: u64 = 10_000;

fn heapster(runtime: Runtime) -> TargetProcess {
    let (held, links) = (HELD.to_string(), LINKS.to_string());
    let mut process = Sample::named("heapster")
        .launch(runtime, &["--count", &held, "--chain", &links])
        .private_tmp()
        .start();
    process.wait_for_ready();
    process
}

/// The row of a type in a list of a report.
fn row<'a>(rows: &'a Value, name: &str) -> Option<&'a Value> {
    rows.as_array().unwrap().iter().find(|row| row["type"] == name)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Types of the steps of a path.
fn steps(path: &Value) -> Vec<&str> {
    path["steps"].as_array().unwrap().iter().map(|step| step["type"].as_str().unwrap()).collect()
}

/// Fields by which the steps of a path refer to the next ones.
fn fields(path: &Value) -> Vec<Option<&str>> {
    path["steps"].as_array().unwrap().iter().map(|step| step["field"].as_str()).collect()
}

fn compare_with_truth(report: &Value, truth: &Value, what: &str) {
    for (name, known) in truth["types"].as_object().unwrap() {
        let found = row(&report["types"], name);
        let of = |field: &str| found.map_or(0, |row| number(&row[field]));
        assert_eq!(of("objects"), number(&known["objects"]), "{what}: objects of {name}");
        assert_eq!(of("bytes"), number(&known["bytes"]), "{what}: bytes of {name}");
    }
}

#[test]
fn a_look_tells_what_the_program_knows() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let (session, dump) =
            (file(&folder, "snapshot.clrscope"), file(&folder, "snapshot.gcdump"));
        let mut process = heapster(runtime);
        let pid = process.pid().to_string();
        let report = run([
            "heap",
            &pid,
            "--json",
            "--top",
            "5000",
            "--type",
            "Held",
            "-o",
            session.to_str().unwrap(),
            "--gcdump",
            dump.to_str().unwrap(),
        ])
        .expect(0)
        .json();
        // As the file of another tool it is a session.
        let imported = run(["report", dump.to_str().unwrap(), "--json"]).expect(0).json();
        let classes = imported["heap"]["totals"]["types"].as_u64().unwrap();
        assert!(classes > 10, "{runtime}: {imported}");
        process.send_line("over").unwrap();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let what = format!("{runtime}");
        assert_eq!((&report["schema"], &report["complete"]), (&1.into(), &true.into()), "{what}");
        assert!(report["pause_seconds"].as_f64().unwrap() > 0.0, "{what}");
        compare_with_truth(&report, &truth, &what);

        // The chain holds only itself and only a static field holds it.
        let chain = row(&report["retaining_types"], "Clrscope.Samples.Link").unwrap();
        assert_eq!(number(&chain["retained_bytes"]), LINKS * 32, "{what}: {chain}");
        let asked = &report["asked"][0];
        assert_eq!(asked["type"], "Clrscope.Samples.Held", "{what}");
        assert_eq!(
            (number(&asked["objects"]), number(&asked["unreached_objects"])),
            (HELD, 0),
            "{what}"
        );
        let most = &asked["holders"][0];
        // The list's array is as near to each second one as its twin, and comes first.
        assert_eq!(number(&most["objects"]), HELD, "{what}: {most}");
        let path = steps(&most["path"]);
        assert!(
            path.ends_with(&["Clrscope.Samples.Held[]", "Clrscope.Samples.Held"]),
            "{what}: {path:?}"
        );
        let list = "System.Collections.Generic.List<Clrscope.Samples.Held>";
        assert_eq!(path[0], list, "{what}: {path:?}");
        // The static field, and the fields on the way.
        let path = &most["path"];
        assert_eq!(path["root"], "statics", "{what}: {path}");
        assert_eq!(path["root_name"], "Clrscope.Samples.Heapster.held", "{what}: {path}");
        assert_eq!(fields(path), [Some("_items"), Some("[]"), None], "{what}: {path}");

        let duplicate = &truth["duplicate"];
        let strings = report["strings"]["duplicates"].as_array().unwrap();
        let text = duplicate["text"].as_str().unwrap();
        let found = strings
            .iter()
            .find(|row| row["text"] == text)
            .unwrap_or_else(|| panic!("{what}: {strings:?}"));
        // The program also has the literal.
        let copies = number(&duplicate["strings"]);
        assert!((copies..=copies + 1).contains(&number(&found["objects"])), "{what}: {found}");
        let wasted = number(&found["wasted_bytes"]);
        assert!(wasted >= (copies - 1) * number(&duplicate["size"]), "{what}: {found}");

        let handles =
            report["roots"].as_array().unwrap().iter().find(|row| row["kind"] == "handle").unwrap();
        assert!(number(&handles["pinned"]) >= number(&truth["pinned"]), "{what}: {handles}");
        let totals = &report["totals"];
        assert!(
            number(&totals["reached_objects"]) * 100 >= number(&totals["objects"]) * 98,
            "{what}: {totals}"
        );

        // What was kept says the same, and so does the file for other tools.
        let kept =
            run(["heap", session.to_str().unwrap(), "--json", "--top", "5000"]).expect(0).json();
        compare_with_truth(&kept, &truth, &format!("{what}, session"));
        assert_eq!(kept["totals"], report["totals"], "{what}");
        let dumped =
            run(["heap", dump.to_str().unwrap(), "--json", "--top", "5000"]).expect(0).json();
        compare_with_truth(&dumped, &truth, &format!("{what}, gcdump"));
        for field in ["objects", "bytes", "references", "reached_objects", "reached_bytes"] {
            assert_eq!(
                dumped["totals"][field], report["totals"][field],
                "{what}: {field} of the gcdump"
            );
        }
        let page = run(["heap", session.to_str().unwrap(), "--type", "Link"]).expect(0).out;
        for part in [
            "Types by bytes",
            "Clrscope.Samples.Held",
            "Where most is retained",
            "Roots",
            "Strings",
            "What retains",
            text,
        ] {
            let part: String = part.chars().take(50).collect();
            assert!(page.contains(&part), "{what}: `{part}` is missing in {page}");
        }
        let chain = "static Clrscope.Samples.Heapster.chain → Clrscope.Samples.Link × ";
        assert!(page.contains(chain), "{what}: {page}");
        common::report_shows(&session, "heap");
    }
}

#[test]
fn what_grows_from_look_to_look_is_suspected() {
    for runtime in sample_runtimes() {
        let mut process = heapster(runtime);
        let pid = process.pid().to_string();
        let mut leaks = Running::start(clrscope([
            "leaks",
            &pid,
            "--snapshots",
            "4",
            "--every",
            "2s",
            "--json",
        ]));
        while !leaks.has_ended() {
            process.send_line("grow 300").unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        let report = leaks.wait().expect(0).json();
        process.send_line("over").unwrap();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
        assert_eq!(report["snapshots"].as_array().unwrap().len(), 4, "{runtime}: {report}");
        let suspects = report["suspects"].as_array().unwrap();
        let leak = suspects.iter().find(|row| row["type"] == "Clrscope.Samples.Leaked");
        let leak = leak.unwrap_or_else(|| panic!("{runtime}: {suspects:?}"));
        let owner = leak["owner"]["type"].as_str().unwrap();
        assert!(owner.contains("List<Clrscope.Samples.Leaked>"), "{runtime}: {leak}");
        let field = &leak["owner"]["static_field"];
        assert_eq!(field, "Clrscope.Samples.Heapster.leaked", "{runtime}: {leak}");
        let members = leak["members"].as_array().unwrap();
        let leaked = members.iter().find(|row| row["type"] == "Clrscope.Samples.Leaked").unwrap();
        let counts: Vec<u64> = leaked["objects"].as_array().unwrap().iter().map(number).collect();
        assert!(counts.windows(2).all(|pair| pair[0] < pair[1]), "{runtime}: {counts:?}");
        assert!(counts.iter().all(|count| count % 300 == 0 || *count > 0), "{runtime}: {counts:?}");
        assert!(
            counts[3] <= number(&truth["types"]["Clrscope.Samples.Leaked"]["objects"]),
            "{runtime}: {counts:?}"
        );
        let verdict = leaked["verdict"].as_str().unwrap();
        assert!(verdict == "leaking" || verdict == "likely", "{runtime}: {leaked}");
        let per_second = leaked["objects_trend"]["per_second"].as_f64().unwrap();
        // About 300 each 0.2 s, less while the process is suspended or the machine is busy.
        assert!((100.0..=1600.0).contains(&per_second), "{runtime}: {per_second}");
        let path = steps(&leaked["holders"][0]["path"]);
        assert!(
            path.ends_with(&["Clrscope.Samples.Leaked[]", "Clrscope.Samples.Leaked"]),
            "{runtime}: {path:?}"
        );
        let path = fields(&leaked["holders"][0]["path"]);
        assert_eq!(path, [Some("_items"), Some("[]"), None], "{runtime}");
        // What stays as it is is none of it.
        for constant in ["Held", "Link", "Entry"] {
            let name = format!("Clrscope.Samples.{constant}");
            let is_suspected = suspects
                .iter()
                .flat_map(|leak| leak["members"].as_array().unwrap())
                .any(|row| row["type"] == name.as_str());
            assert!(!is_suspected, "{runtime}: {name}");
        }
    }
}

#[test]
fn leaks_that_is_interrupted_ends_with_the_code_for_that() {
    let process = heapster(Runtime::V9);
    let pid = process.pid().to_string();
    let folder = scratch();
    let session = file(&folder, "snapshots.clrscope");
    let line = ["leaks", &pid, "--every", "60s", "--json", "-o", session.to_str().unwrap()];
    let mut leaks = Running::start(clrscope(line));
    // The end of the first snapshot is written as soon as nothing else comes.
    wait_until_recording(&session, &mut leaks);
    let is_taken = || {
        let reader = SessionReader::new(fs::File::open(&session).unwrap()).unwrap();
        reader.map_while(Result::ok).any(|record| matches!(record, SessionRecord::HeapEnd(_)))
    };
    while !is_taken() && !leaks.has_ended() {
        std::thread::sleep(Duration::from_millis(50));
    }
    leaks.signal(Signal::INT);
    let ended = leaks.wait().expect_error(5, &["only 1 of 3 snapshots were taken"]);
    assert_eq!(ended.json()["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn a_part_of_a_look_is_told_to_be_one() {
    let folder = scratch();
    let (session, cut) = (file(&folder, "snapshot.clrscope"), file(&folder, "cut.clrscope"));
    // Larger than a block of the file.
    let launch = Sample::named("heapster").launch(Runtime::V9, &["--count", "600000"]);
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    let whole = run(["heap", &pid, "--json", "-o", session.to_str().unwrap()]).expect(0).json();
    process.send_line("over").unwrap();
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    let bytes = fs::read(&session).unwrap();
    // What a recorder that was killed leaves: no snapshot, or a part of one, but never one that
    // seems complete.
    let mut parts = 0;
    for eighths in 1..8 {
        fs::write(&cut, &bytes[..bytes.len() * eighths / 8]).unwrap();
        let ended = run(["heap", cut.to_str().unwrap(), "--json"]).expect_error(8, &["cut short"]);
        if !ended.out.is_empty() {
            let part = ended.json();
            assert_eq!(part["complete"], false, "{part}");
            assert_eq!(part["note"], "the session ends before the snapshot does");
            let objects = |report: &Value| number(&report["totals"]["objects"]);
            assert!(objects(&part) < objects(&whole), "{part}");
            parts += u32::from(objects(&part) > 0);
        }
    }
    assert!(parts > 0, "of {} bytes", bytes.len());
}

fn refused(ended: Ended, code: i32, parts: &[&str]) {
    ended.expect_error(code, parts);
}

#[test]
fn files_that_are_none_are_told() {
    let folder = scratch();
    let dump = file(&folder, "bad.gcdump");
    fs::write(&dump, "nothing of that kind").unwrap();
    refused(run(["heap", dump.to_str().unwrap()]), 8, &["not a .gcdump file"]);
    let mut head = 20u32.to_le_bytes().to_vec();
    head.extend(b"!FastSerialization.1\x04\x04\x01");
    fs::write(&dump, head).unwrap();
    refused(run(["heap", dump.to_str().unwrap()]), 8, &["cut short at byte 27"]);
    let session = file(&folder, "none.clrscope");
    refused(run(["heap", session.to_str().unwrap()]), 6, &["there is no file"]);
    fs::write(&session, "nothing").unwrap();
    refused(run(["leaks", session.to_str().unwrap()]), 8, &["none.clrscope"]);
    refused(run(["leaks", "1", "--every", "500ms"]), 2, &["whole seconds"]);
}

#[test]
fn a_recording_without_looks_is_told() {
    let folder = scratch();
    let session = file(&folder, "cpu.clrscope");
    let mut process = Sample::named("burn")
        .launch(Runtime::V9.require(), &["--seconds", "60"])
        .private_tmp()
        .start();
    process.wait_for_ready();
    let pid = process.pid().to_string();
    run([
        "record",
        &pid,
        "-p",
        "cpu",
        "--duration",
        "300ms",
        "-q",
        "-o",
        session.to_str().unwrap(),
    ])
    .expect(0);
    refused(
        run(["heap", session.to_str().unwrap()]),
        8,
        &["no heap snapshot", "clrscope heap <PID>"],
    );
    refused(run(["leaks", session.to_str().unwrap()]), 8, &["no heap snapshot"]);
}
