//! `clrscope record -p survivors` on every runtime, with a program that knows what survives its
//! collections.
#![cfg(unix)]
mod common;

use common::{Report, Running, clrscope, file, recorded_work, run, scratch, wait_until_recording};
use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);
/// Parcels that live through one collection of generation 0 each time.
const PARCELS: u64 = 1000;

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("{field} in {value}"))
}

fn sample(name: &str) -> String {
    format!("Clrscope.Samples.GcForce+{name}")
}

/// Names of the types along a chain.
fn path<'a>(report: &'a Report, held: &Value) -> Vec<&'a str> {
    list(held, "path")
        .iter()
        .map(|ty| report.0["types"][ty.as_u64().unwrap() as usize].as_str().unwrap())
        .collect()
}

fn check(runtime: Runtime, report: &Report, truth: &Value) {
    let survivors = &report.0["survivors"];
    let what = format!("{runtime}: {}", survivors["snapshots"]);
    assert_eq!(report.0["recording"]["dropped"], 0, "{what}");
    let snapshots = list(survivors, "snapshots");
    let count = snapshots.len() as u64;
    // One each 100 ms at most, for two seconds; on a busy machine not all of them.
    assert!((5..=21).contains(&count), "{what}");
    assert_eq!((number(survivors, "incomplete"), number(survivors, "induced")), (0, 0), "{what}");
    let made = list(truth, "collection_count")[0].as_u64().unwrap();
    assert!(made > count, "{what}: only some of {made} are looked at");
    for snapshot in snapshots {
        let (paused, telling) = (number(snapshot, "paused_ns"), number(snapshot, "snapshot_ns"));
        assert!(telling > 0 && telling < paused && paused < 2_000_000_000, "{what}");
    }

    // Each of these finds the parcels of its time, their letters, and the keepsake; and of
    // generation 1 none is left.
    for (name, each, size) in
        [("Parcel", PARCELS, 32), ("Letter", PARCELS, 24), ("Keepsake", 1, 24)]
    {
        let row =
            list(survivors, "types").iter().find(|row| row["type_name"] == sample(name)).unwrap();
        assert_eq!(number(&row["young"], "objects"), each * count, "{what}: {row}");
        assert_eq!(number(&row["young"], "bytes"), each * count * size, "{what}: {row}");
        assert_eq!(row["objects"], row["young"]["objects"], "{what}: none becomes old: {row}");
        assert!(list(row, "moves").iter().all(|moved| moved["before"] == 0), "{what}: {row}");
        // The collector does not always promote: where little survives, it leaves that in
        // generation 0.
        assert!(
            list(row, "moves").iter().all(|moved| [0, 1].contains(&number(moved, "after"))),
            "{what}: {row}"
        );
    }

    let young = &survivors["generations"]["gen_0"];
    assert_eq!(number(young, "collections"), count, "{what}");
    let all: u64 = list(survivors, "types")
        .iter()
        .flat_map(|row| list(row, "moves"))
        .filter(|moved| moved["before"] == 0)
        .map(|moved| number(moved, "bytes"))
        .sum();
    assert_eq!(number(young, "survived"), all, "{what}");
    // 56 bytes each of the 4 MB that generation 0 holds; the rest is garbage, and what the runtime
    // itself allocates.
    let rate = young["rate"].as_f64().unwrap();
    let least = (PARCELS * 56 * count) as f64 / number(young, "before") as f64;
    assert!(rate >= least && rate < least * 3.0 && rate < 0.1, "{what}: {young}");

    let held: Vec<(&Value, Vec<&str>)> =
        list(survivors, "held").iter().map(|held| (held, path(report, held))).collect();
    let ways = |name: &str| -> Vec<_> {
        held.iter().filter(|(_, path)| path.last() == Some(&sample(name).as_str())).collect()
    };
    let (array, parcel, letter) = (sample("Parcel[]"), sample("Parcel"), sample("Letter"));
    let (first, way) = ways("Parcel")[0];
    assert_eq!(
        (&first["holder"], &first["generation"]),
        (&"older_object".into(), &2.into()),
        "{what}: {first}"
    );
    assert_eq!(way, &[array.as_str(), &parcel], "{what}");
    // The last one may be held by a variable that the compiler has left over as well.
    assert_eq!(
        (number(first, "objects"), number(first, "collections")),
        (PARCELS * count, count),
        "{what}: {first}"
    );
    let (first, way) = ways("Letter")[0];
    assert_eq!(way, &[array.as_str(), &parcel, &letter], "{what}");
    assert!(number(first, "objects") >= (PARCELS - 1) * count, "{what}: {first}");
    let (first, way) = ways("Keepsake")[0];
    assert_eq!((&first["holder"], way.len()), (&"variable".into(), 1), "{what}: {first}");
    let method = first["method"].as_str().unwrap();
    assert!(method.starts_with("Clrscope.Samples.GcForce.MidLife("), "{what}: {method}");
    assert_eq!(number(first, "objects"), count, "{what}: {first}");
}

#[test]
fn what_survives_is_told_with_what_holds_it() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "survivors.clrscope");
        let parcels = PARCELS.to_string();
        let launch = Sample::named("gcforce")
            .launch(runtime, &["--midlife", &parcels, "--seconds", "2", "--gate"]);
        // Four megabytes, so that it is the same everywhere.
        let mut process = launch.env("COMPlus_GCgen0size", "400000").private_tmp().start();
        process.wait_for_ready();
        let (report, truth) =
            recorded_work(&mut process, "survivors:every=100", &output, Duration::ZERO);
        check(runtime, &report, &truth);
        let text = run(["report", output.to_str().unwrap()]).expect(0).out;
        for part in [
            "Survivors",
            "with a snapshot (gen",
            "gen 0→1",
            "in gen 0",
            "GcForce+Letter",
            "older object ",
        ] {
            assert!(text.contains(part), "{runtime}: `{part}` is missing in {text}");
        }
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_server_on_10_goes_on_after_it() {
    let folder = scratch();
    let output = file(&folder, "azmcp.clrscope");
    // As it is, it collects about once a minute.
    let mut process =
        TargetProcess::azmcp_launch(Runtime::V10).env("DOTNET_GCgen0size", "400000").start();
    process.feed(1).unwrap();
    let pid = process.pid().to_string();
    let profilers = "survivors:every=50:share=50";
    let mut recorder =
        Running::start(clrscope(["record", &pid, "-o", output.to_str().unwrap(), "-p", profilers]));
    wait_until_recording(&output, &mut recorder);
    process.feed(40).unwrap();
    recorder.signal(rustix::process::Signal::INT);
    recorder.wait().expect(0);
    let report = Report::of(&output);
    let survivors = &report.0["survivors"];
    let complete =
        list(survivors, "snapshots").iter().filter(|snapshot| snapshot["complete"] == true).count();
    assert!(complete > 0, "{survivors}");
    assert!(
        list(survivors, "types").iter().any(|row| row["type_name"] == "System.String"),
        "{}",
        survivors["types"]
    );
    let objects =
        |rows: &[Value], field: &dyn Fn(&Value) -> u64| rows.iter().map(field).sum::<u64>();
    let young = objects(list(survivors, "types"), &|row| number(&row["young"], "objects"));
    let held = list(survivors, "held");
    let unknown: Vec<Value> =
        held.iter().filter(|held| held["holder"] == "unknown").cloned().collect();
    let unknown = objects(&unknown, &|held| number(held, "objects"));
    // Roots that the profiling API does not tell are few.
    assert!(
        young > 0 && unknown * 4 <= young,
        "{unknown} of {young} are held by what is not known: {held:?}"
    );
    process.feed(1).unwrap();
}

#[test]
fn looks_at_the_heap_and_at_collections_are_not_for_one_recording() {
    let mut process = Sample::named("waiter").start(Runtime::V9, &[] as &[&str]);
    process.wait_for_ready();
    let ended =
        run(["record", &process.pid().to_string(), "-p", "heap,survivors", "--duration", "1s"]);
    ended.expect_error(2, &["heap and survivors", "one after the other"]);
}
