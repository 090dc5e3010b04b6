//! `clrscope validate` on recordings of real runtimes, on assemblies, and on logs that are broken.
#![cfg(unix)]
mod common;

use common::{binary, file, run, scratch};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use testkit::{Compiler, Launch, Runtime, Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);
const ALL: &str = "traced!Clrscope.Samples.**";

/// Traces the sample from outside while it calls everything, and gives the event log.
fn traced(runtime: Runtime, log: &Path, more: &[&str]) {
    let mut process = Sample::named("traced").start(runtime, &[] as &[&str]);
    process.wait_for_ready();
    process.send_line("spin").unwrap();
    let (pid, log) = (process.pid().to_string(), log.to_str().unwrap());
    run(["trace", &pid, ALL, "--for", "1s", "--json", "--event-log", log].iter().chain(more))
        .expect(0);
    process.send_line("still").unwrap();
    assert_eq!(process.truth(LIMIT)["wrong"], 0, "{runtime}");
    process.send_line("exit").unwrap();
    assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
}

fn events(log: &Path) -> Vec<Value> {
    fs::read_to_string(log)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn validate(a: &Path, b: &Path, more: &[&str]) -> common::Ended {
    run(["validate", a.to_str().unwrap(), b.to_str().unwrap()].iter().chain(more))
}

/// Bodies of all methods of an assembly, as `clrscope il` shows them.
fn bodies(assembly: &Path) -> BTreeSet<Vec<String>> {
    let found = run([
        "il".as_ref(),
        assembly.as_os_str(),
        "--method".as_ref(),
        "*".as_ref(),
        "--json".as_ref(),
    ]);
    let found = found.expect(0).json();
    let methods = found["assemblies"][0]["methods"].as_array().unwrap().iter();
    let lines = methods.map(|method| {
        let lines: Vec<&str> = method["il"].as_str().unwrap().lines().collect();
        lines[3..lines.len() - 1]
            .iter()
            .map(|line| line.strip_prefix("  ").unwrap().to_owned())
            .collect()
    });
    lines.collect()
}

#[test]
fn the_same_rules_rewrite_the_same_on_every_runtime() {
    let folder = scratch();
    let mut first: Option<PathBuf> = None;
    for runtime in sample_runtimes() {
        let logs =
            ["a", "b"].map(|name| file(&folder, &format!("{name}-{}.jsonl", runtime.major())));
        for log in &logs {
            traced(runtime, log, &[]);
        }
        let found = validate(&logs[0], &logs[1], &["--json"]).expect(0).json();
        assert_eq!(
            (&found["equal"], &found["fidelity"]),
            (&json!(true), &json!(100.0)),
            "{runtime}: {found:#}"
        );
        let equal = |kind: &str| found["kinds"][kind]["equal"].as_u64().unwrap();
        assert!(equal("rewrite") > 60 && equal("refusal") >= 3, "{runtime}: {found:#}");
        // A method and its state machine have one revert.
        assert!(
            equal("revert") > 50 && equal("revert") <= equal("rewrite"),
            "{runtime}: {found:#}"
        );
        // What runs and is loaded is not the same each time, but is there.
        let found = validate(&logs[0], &logs[1], &["--json", "--events", "all"]).json();
        for kind in ["rejit", "jit"] {
            assert!(
                found["kinds"][kind]["equal"].as_u64().unwrap() > 0,
                "{runtime}: {kind}: {found:#}"
            );
        }

        let before = bodies(&Sample::named("traced").compile(runtime).unwrap());
        for event in events(&logs[0]).iter().filter(|event| event["event"] == "rewrite") {
            let il = |part: &str| {
                let lines = event[part]["il"].as_array().unwrap().iter();
                lines.map(|line| line.as_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            // The runtime's metadata give the names that the file has.
            assert!(before.contains(&il("before")), "{runtime}: {event:#}");
            let after = il("after").join("\n");
            assert!(
                after.contains("&clrscope.") && !after.contains("mdtoken"),
                "{runtime}: {event:#}"
            );
            assert!(
                event["after"]["bytes"].as_str().unwrap().len()
                    > event["before"]["bytes"].as_str().unwrap().len()
            );
        }
        // Times ascend, and the events of a method come in the order in which they happen.
        let log = events(&logs[0]);
        assert!(log.is_sorted_by_key(|event| event["time_ns"].as_u64().unwrap()), "{runtime}");
        let plain =
            log.iter().filter(|event| event["name"] == "Clrscope.Samples.Traced.Plain(int)");
        let mut kinds: Vec<&str> = plain.map(|event| event["event"].as_str().unwrap()).collect();
        kinds.retain(|kind| *kind != "jit");
        kinds.dedup();
        assert_eq!(kinds, ["rewrite", "rejit", "revert"], "{runtime}");
        // One compiler has made the program for all runtimes.
        let first = first.get_or_insert_with(|| logs[0].clone());
        validate(first, &logs[0], &[]).expect(0);
    }
}

#[test]
fn other_rules_are_told_with_their_names_and_code() {
    let folder = scratch();
    let [all, without, counted] =
        ["all.jsonl", "without.jsonl", "counted.jsonl"].map(|name| file(&folder, name));
    traced(Runtime::V9, &all, &[]);
    traced(Runtime::V9, &without, &["--exclude", "traced!*.Traced.Plain"]);
    traced(Runtime::V9, &counted, &["--count", "--exclude", "*.MoveNext"]);
    const PLAIN: &str = "traced!Clrscope.Samples.Traced.Plain(int)";

    let found = validate(&all, &without, &["--json"]).expect(11).json();
    let differences = found["differences"].as_array().unwrap();
    let told: Vec<_> = differences
        .iter()
        .map(|one| (one["kind"].as_str(), one["name"].as_str(), one["what"].as_str()))
        .collect();
    let only = |kind| (Some(kind), Some(PLAIN), Some("only-a"));
    assert_eq!(told, [only("rewrite"), only("revert")], "{found:#}");
    assert_eq!(found["kinds"]["rewrite"]["only_a"], 1);
    assert!(
        found["fidelity"].as_f64().is_some_and(|fidelity| (97.0..100.0).contains(&fidelity)),
        "{found:#}"
    );
    let text = validate(&all, &without, &[]).expect(11).out;
    assert!(text.contains(&format!("rewrite {PLAIN}: only in a (a at ")), "{text}");
    assert!(text.ends_with("%: not equal\n"), "{text}");
    // What is known to differ can be left out.
    validate(&all, &without, &["--ignore", "traced!*.Traced.Plain(*"]).expect(0);

    let found = validate(&all, &counted, &["--json", "--top", "1000"]).expect(11).json();
    let differences = found["differences"].as_array().unwrap();
    let plain =
        differences.iter().find(|one| one["name"] == PLAIN && one["kind"] == "rewrite").unwrap();
    assert_eq!(
        (&plain["what"], &plain["code"][0]["part"]),
        (&json!("different"), &json!("after")),
        "{plain:#}"
    );
    let diff: Vec<&str> = plain["code"][0]["diff"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let has = |mark: char, part: &str| {
        diff.iter().any(|line| line.starts_with(mark) && line.contains(part))
    };
    assert!(
        has('-', "&clrscope.enter") && has('-', "&clrscope.leave") && has('+', "&clrscope.count"),
        "{plain:#}"
    );
    let text = validate(&all, &counted, &["--top", "1000"]).expect(11).out;
    assert!(
        text.contains(&format!("rewrite {PLAIN}: different")) && text.contains("    + "),
        "{text}"
    );
}

#[test]
fn a_launch_is_logged_from_the_start_and_sessions_are_logs() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let (log, session) = (file(&folder, "log.jsonl"), file(&folder, "log.clrscope"));
        let launch = Sample::named("caller").launch(runtime, &["--rounds", "200", "--fib", "10"]);
        let arguments =
            ["launch", "-q", "-p", "jit,loads,exceptions", "--trace", "caller!Clrscope.Samples.**"];
        let files = ["--event-log", log.to_str().unwrap(), "-o", session.to_str().unwrap(), "--"];
        let mut process = launch.under([&[binary()][..], &arguments, &files].concat()).start();
        process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());

        let head = fs::read_to_string(&log).unwrap();
        let head: Value = serde_json::from_str(head.lines().next().unwrap()).unwrap();
        assert_eq!((&head["format"], &head["version"]), (&json!("clrscope-events"), &json!(1)));
        let log_of = events(&log);
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        log_of
            .iter()
            .for_each(|event| *kinds.entry(event["event"].as_str().unwrap()).or_default() += 1);
        for kind in ["load", "jit", "rewrite", "rejit", "exception"] {
            assert!(kinds.contains_key(kind), "{runtime}: {kind}: {kinds:?}");
        }
        // .NET Core 3.1 does not report types.
        assert_eq!(kinds.contains_key("type-load"), runtime.major() > 3, "{runtime}: {kinds:?}");
        let of = |kind: &'static str, name: &'static str| {
            log_of.iter().find(move |event| {
                event["event"] == kind && event["name"].as_str().unwrap().starts_with(name)
            })
        };
        // .NET Core 3.1 runs before its events can be listened to.
        let loaded = if runtime.major() > 3 { "caller" } else { "System." };
        assert_eq!(of("load", loaded).unwrap()["outcome"], "loaded", "{runtime}");
        let compiled = if runtime.major() > 3 { "Clrscope.Samples.Caller.Fib(" } else { "" };
        assert!(of("jit", compiled).unwrap()["tier"].is_string(), "{runtime}");
        assert!(
            of("exception", "Clrscope.Samples.").unwrap()["thrown_at"]
                .as_str()
                .unwrap()
                .contains("Caller."),
            "{runtime}"
        );

        // A session is the same log, and so is the report.
        let found = validate(&session, &log, &["--events", "all", "--json"]).expect(0).json();
        assert_eq!(found["a"]["events"], log_of.len(), "{runtime}");
        let report = run(["report", session.to_str().unwrap(), "-f", "events"]).expect(0).out;
        assert_eq!(report, fs::read_to_string(&log).unwrap(), "{runtime}");
    }
}

/// A method with a body that no frame could hold.
#[test]
fn a_body_that_is_too_large_is_told_as_left_out() {
    let folder = scratch();
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("Huge.cs");
    let lines: String =
        (0..10_000).map(|line| format!("            x = x * 31 + {};\n", 1000 + line)).collect();
    let text = format!(
        "public static class Huge {{\n  static int Work(int x) {{\n\
         {lines}    return x;\n  }}\n  static int Small(int x) {{ return x + 1; }}\n  public static int Main() {{ return Small(Work(1)) == 0 ? 1 : 0; }}\n}}\n"
    );
    fs::write(&source, text).unwrap();
    let program = Compiler::find().unwrap().compile("huge", &source, Runtime::V3_1, false).unwrap();
    let logs = ["a.jsonl", "b.jsonl"].map(|name| file(&folder, name));
    for log in &logs {
        let session = log.with_extension("clrscope");
        let arguments = [
            "launch",
            "-q",
            "-p",
            "gc",
            "--trace",
            "huge!Huge.*",
            "--event-log",
            log.to_str().unwrap(),
        ];
        let prefix =
            [&[binary()][..], &arguments, &["-o", session.to_str().unwrap(), "--"]].concat();
        let mut process =
            Launch::new(Runtime::V9.require().executable()).arg(&program).under(prefix).start();
        assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    }
    let log = events(&logs[0]);
    let of = |name: &str| {
        log.iter().find(|event| event["event"] == "rewrite" && event["name"] == name).unwrap()
    };
    let huge = of("Huge.Work(int)");
    assert!(
        huge["left_out"].as_str().unwrap().contains("64 KiB") && huge["after"].is_null(),
        "{huge}"
    );
    assert!(of("Huge.Small(int)")["after"]["il"].is_array());
    let found = validate(&logs[0], &logs[1], &["--json"]).expect(0).json();
    assert_eq!(
        (&found["kinds"]["rewrite"]["not_compared"], &found["fidelity"]),
        (&json!(1), &json!(100.0))
    );
    let text = validate(&logs[0], &logs[1], &[]).expect(0).out;
    assert!(text.contains("Not compared, because code was left out: 1 pair"), "{text}");
    assert!(text.ends_with("Fidelity 100 %: equal, as far as it can be compared\n"), "{text}");
}

/// Compiles a library with these classes, in this order.
fn library(name: &str, classes: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("Shop.cs");
    fs::write(
        &source,
        format!("using System;\nusing System.Collections.Generic;\n{}\n", classes.join("\n")),
    )
    .unwrap();
    Compiler::find().unwrap().compile("shop", &source, Runtime::V3_1, true).unwrap()
}

const ORDERS: &str = "namespace Shop { public class Orders {
    readonly List<string> all = new List<string>();
    public int Count { get { return all.Count; } }
    public void Add(string name) { if (name == null) throw new ArgumentNullException(\"name\"); all.Add(name + \"!\"); }
    public T First<T>(IEnumerable<T> from) { foreach (T one in from) return one; return default(T); }
    public int First(IEnumerable<int> from) { foreach (int one in from) return one; return 0; }
} }";
const PRICES: &str = "namespace Shop { public struct Prices {
    public decimal Net; public static long Asked;
    public decimal Gross(decimal rate) { Asked++; Console.WriteLine(\"gross\"); return Net * (1 + rate); }
    public int Round(double x) { switch ((int)x) { case 0: return 1; case 1: return 5; case 2: return 7; default: return 9; } }
} }";

#[test]
fn assemblies_are_compared_by_names_and_not_by_tokens() {
    let (one, other) = (library("one", &[ORDERS, PRICES]), library("other", &[PRICES, ORDERS]));
    // The tokens differ.
    let token = |path: &Path| {
        let found =
            run(["il", path.to_str().unwrap(), "--method", "Gross", "--json"]).expect(0).json();
        found["assemblies"][0]["methods"][0]["token"].as_str().unwrap().to_owned()
    };
    assert_ne!(token(&one), token(&other));
    let found = validate(&one, &other, &["--json"]).expect(0).json();
    assert_eq!(
        (&found["fidelity"], &found["kinds"]["method"]["equal"]),
        (&json!(100.0), &json!(7)),
        "{found:#}"
    );
    assert_eq!(found["differences"], json!([]));

    let changed = PRICES
        .replace("return 7;", "return 8;")
        .replace("public int Round", "public void New() {} public int Round");
    let changed = library("changed", &[ORDERS, &changed]);
    let found = validate(&one, &changed, &["--json", "--il"]).expect(11).json();
    let method = &found["kinds"]["method"];
    assert_eq!(
        (&method["equal"], &method["different"], &method["only_b"]),
        (&json!(6), &json!(1), &json!(1)),
        "{found:#}"
    );
    assert_eq!(found["fidelity"], 75.0);
    let text = validate(&one, &changed, &[]).expect(11).out;
    for part in [
        "method instance int32 Shop.Prices::Round(float64): different\n  body:\n",
        "ldc.i4.7\n",
        "ldc.i4.8\n",
        "method instance void Shop.Prices::New(): only in b\n",
        "Fidelity 75 %: not equal\n",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    validate(&one, &changed, &["--ignore", "*Shop.Prices::*"]).expect(0);
}

#[test]
fn what_is_no_log_is_refused_with_file_and_line() {
    let folder = scratch();
    let write = |name: &str, text: &str| {
        let path = file(&folder, name);
        fs::write(&path, text).unwrap();
        path
    };
    let head = "{\"format\":\"clrscope-events\",\"version\":1}\n";
    let event = "{\"event\":\"refusal\",\"name\":\"A.B()\",\"module\":\"a\",\"rule\":\"r\",\"reason\":\"why\"}\n";
    let good = write("good.jsonl", &format!("{head}{event}"));
    validate(&good, &good, &[]).expect(0);
    let torn = write("torn.jsonl", &format!("{head}{event}{}", &event[..20]));
    validate(&good, &torn, &[]).expect_error(8, &["torn.jsonl:3: this is not JSON"]);
    let nameless = write("nameless.jsonl", &format!("{head}{{\"event\":\"jit\"}}\n{event}"));
    validate(&nameless, &good, &[]).expect_error(8, &["nameless.jsonl:2: `name`"]);
    let newer = write("newer.jsonl", "{\"format\":\"clrscope-events\",\"version\":9}\n");
    validate(&good, &newer, &[]).expect_error(8, &["newer.jsonl:1: version 9", "update"]);
    validate(&good, &write("empty.jsonl", ""), &[])
        .expect_error(8, &["empty.jsonl: the file is empty"]);
    validate(&good, &write("text.jsonl", "hello\n"), &[]).expect_error(8, &["text.jsonl:1: "]);
    let session = write("broken.clrscope", "");
    fs::write(&session, b"\x89CLRS\r\n\x1a\x01\0\0\0\x05\0\0\0....12345").unwrap();
    validate(&session, &good, &[]).expect_error(8, &["broken.clrscope"]);
    validate(&good, &file(&folder, "none"), &[]).expect_error(6, &["none"]);
    validate(&good, folder.path(), &[]).expect_error(6, &[]);
    // Nothing to compare is no success.
    let other = write("only-head.jsonl", head);
    validate(&other, &other, &[]).expect_error(8, &["--events"]);
    let left_out = write(
        "left-out.jsonl",
        &format!(
            "{head}{{\"event\":\"rewrite\",\"name\":\"a\",\"rule\":\"r\",\"left_out\":\"why\"}}\n"
        ),
    );
    validate(&left_out, &left_out, &[]).expect_error(8, &["left out", "--event-log"]);
    let assembly = Sample::named("locker").compile(Runtime::V3_1).unwrap();
    validate(&good, &assembly, &[]).expect_error(2, &["assembly"]);
    validate(&good, &good, &["--il"]).expect_error(6, &["not a .NET assembly"]);
    validate(&assembly, &assembly, &["--events", "jit"]).expect_error(2, &["--events"]);
    run(["validate", "a", "b", "--events", "nonsense"]).expect(2);
}
