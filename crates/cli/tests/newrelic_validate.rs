//! `clrscope validate` on recordings of the agent's own native profiler
//! (crates/newrelic/tests/fixtures/README.md) and on fresh runs of the same program under this
//! project's library.
#![cfg(target_os = "linux")]
mod common;
#[allow(dead_code)] // The tests of the library use the rest.
#[path = "../../newrelic/tests/drop_in/support.rs"]
mod support;

use common::{Ended, run};
use flate2::read::GzDecoder;
use newrelic_compat::shape::AgentShape;
use serde_json::{Value, json};
use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    thread,
};
use support::{Home, compile};
use testkit::{Extras, Runtime, source_root};

/// Lines of the log that only this profiler writes, and one that it writes with the name of the
/// method.
const OWN_LINES: [&str; 3] = [
    "The managed agent is of shape *",
    "Methods with new bodies are logged in *",
    "By ref tokenization not supported.*",
];

/// Methods that the agent's own profiler loses, since they are inlined before it sees them.
const INLINED: [&str; 2] = [
    "Target!RefApp.Outer+Nested.NInlinable(System.Int32)",
    "Target!RefApp.T.TracedInlinable(System.Int32)",
];

/// On .NET Core 3.1 the agent's own profiler does the same once more: for each further
/// instantiation, and where a method is refused both when it is compiled and when it is compiled
/// again.
const REPEATED: [(&str, &str); 5] = [
    ("refusal", "Target!RefApp.Pt.Sum()"),
    ("refusal", "Target!RefApp.T.get_Prop()"),
    ("rewrite", "Target!RefApp.G`1.S(!0,System.Collections.Generic.List`1[!0])"),
    ("rewrite", "Target!RefApp.G`1.V(!0)"),
    ("rewrite", "Target!RefApp.T.GenMethod(!!0,System.Collections.Generic.List`1[!!0])"),
];

fn fixture(name: &str) -> PathBuf {
    source_root().join("crates/newrelic/tests/fixtures").join(name)
}

/// What a run under the library left.
struct Fresh {
    home: Home,
    events: PathBuf,
    log: PathBuf,
}

fn fresh(runtime: Runtime, shape: AgentShape, mode: &str, reflection: bool) -> Fresh {
    let api = compile("NewRelic.Api.Agent", "Api.cs", true, Extras::default());
    let target =
        compile("Target", "Target.cs", false, Extras { libraries: &[&api], ..Extras::default() });
    let points = source_root().join("crates/newrelic-compat/tests/fixtures/target.xml");
    let home = Home::new(shape, Some(&fs::read_to_string(points).unwrap()));
    fs::create_dir(home.path().join("extensions/netcore")).unwrap();
    let mut launch = home
        .launch::<&str>(&target, runtime, &[])
        .env("NEW_RELIC_CLRSCOPE_MODE", mode)
        .env("NEW_RELIC_CLRSCOPE_EVENT_LOG", home.path().join("events-{pid}.jsonl"));
    if reflection {
        launch = launch.env("NEW_RELIC_DISABLE_APPDOMAIN_CACHING", "true");
    }
    support::run(launch).well(&format!("{runtime}, agent {shape}, {mode}"));
    let only = |folder: &Path, start: &str| {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start))
            .collect();
        let [file] = &files[..] else { panic!("{start}: {files:?}") };
        file.clone()
    };
    let (events, log) =
        (only(home.path(), "events-"), only(&home.path().join("logs"), "NewRelic.Profiler."));
    Fresh { home, events, log }
}

/// The event log of a recording, as a file of the home folder.
fn recorded(home: &Home, case: &str) -> PathBuf {
    let mut text = String::new();
    let compressed = fs::File::open(fixture(&format!("events-{case}.jsonl.gz"))).unwrap();
    GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
    let path = home.path().join("recorded.jsonl");
    fs::write(&path, text).unwrap();
    path
}

fn validate(a: &Path, b: &Path, more: &[&str]) -> Ended {
    run(["validate", a.to_str().unwrap(), b.to_str().unwrap(), "--json"].iter().chain(more))
}

/// A check on both runtimes at the same time.
fn on_each_runtime(check: impl Fn(Runtime, &str) + Sync) {
    thread::scope(|scope| {
        let check = &check;
        for (runtime, name) in [(Runtime::V3_1, "3.1"), (Runtime::V9, "9")] {
            scope.spawn(move || check(runtime, name));
        }
    });
}

/// Kind and name of what has no equal, in the order of their texts.
fn different<'a>(found: &'a Value, what: &str) -> Vec<(&'a str, &'a str)> {
    let all = found["differences"].as_array().unwrap().iter().filter(|one| one["what"] == what);
    let mut names: Vec<_> =
        all.map(|one| (one["kind"].as_str().unwrap(), one["name"].as_str().unwrap())).collect();
    names.sort_unstable();
    names
}

/// What was compared of each aspect, all of it equal.
fn all_equal(case: &str, found: &Value) -> Vec<(String, u64)> {
    assert_eq!(
        (&found["equal"], &found["fidelity"]),
        (&json!(true), &json!(100.0)),
        "{case}: {found:#}"
    );
    let aspects = found["aspects"].as_array().unwrap().iter();
    let compared = aspects.map(|aspect| {
        assert_eq!(
            (&aspect["percent"], &aspect["equal"]),
            (&json!(100.0), &aspect["compared"]),
            "{case}: {found:#}"
        );
        (aspect["aspect"].as_str().unwrap().to_owned(), aspect["compared"].as_u64().unwrap())
    });
    compared.collect()
}

#[test]
fn strict_is_equal_to_the_recordings() {
    on_each_runtime(|runtime, name| {
        // How many methods have new bodies, and how many lines are logged at level info and above.
        for (shape, reflection, strategy, methods, lines) in [
            (AgentShape::V10_53, false, "", 42, 54),
            (AgentShape::V10_54, false, "-cache", 49, 62),
            (AgentShape::V10_54, true, "-reflection", 42, 55),
        ] {
            let case = format!("{name}-{shape}{strategy}");
            let Fresh { home, events, log } = fresh(runtime, shape, "strict", reflection);
            let recorded = recorded(&home, &case);
            const STRICT: [&str; 2] = ["--mode", "strict"];
            let found =
                validate(&recorded, &events, &[&STRICT[..], &["--ignore-repeats"]].concat())
                    .expect(0)
                    .json();
            let bodies =
                ["bodies", "bytes", "locals", "clauses"].map(|aspect| (aspect.to_owned(), methods));
            let both = ["events", "order"].map(|aspect| (aspect.to_owned(), methods + 3));
            assert_eq!(all_equal(&case, &found), [&both[..], &bodies].concat(), "{case}");

            // Without what the agent's own profiler does once more.
            let found = validate(&recorded, &events, &STRICT);
            if runtime == Runtime::V9 {
                all_equal(&case, &found.expect(0).json());
            } else {
                let found = found.expect(11).json();
                assert_eq!(different(&found, "only-a"), REPEATED, "{case}");
                assert_eq!(
                    found["differences"].as_array().unwrap().len(),
                    REPEATED.len(),
                    "{case}: {found:#}"
                );
            }

            // A body that lacks an instruction, or has another form, is found.
            let text = fs::read_to_string(&events).unwrap();
            for (part, from, to, strict) in [
                ("after", "IL_0000:  ldnull", "IL_0000:  nop", false),
                ("bytes after", "\"after\":{\"bytes\":\"1b", "\"after\":{\"bytes\":\"0b", true),
            ] {
                let changed = home.path().join("changed.jsonl");
                fs::write(&changed, text.replacen(from, to, 1)).unwrap();
                let found =
                    validate(&recorded, &changed, &[&STRICT[..], &["--ignore-repeats"]].concat());
                let found = found.expect(11).json();
                assert_eq!(found["differences"].as_array().unwrap().len(), 1, "{case}: {found:#}");
                assert_eq!(found["differences"][0]["code"][0]["part"], part, "{case}: {found:#}");
                let found = validate(&recorded, &changed, &["--ignore-repeats"]);
                assert_eq!(found.code(), if strict { 0 } else { 11 }, "{case}: {}", found.out);
            }

            // The agent's own profiler looks for classes in no certain order, and logs those that
            // are missing.
            let name = if shape == AgentShape::V10_54 && !reflection {
                format!("{name}-{shape}")
            } else {
                case.clone()
            };
            let recorded = fixture(&format!("log-{name}.txt"));
            let own = OWN_LINES.iter().flat_map(|line| ["--ignore", line]);
            let found = validate(
                &recorded,
                &log,
                &["--ignore-repeats"].into_iter().chain(own).collect::<Vec<_>>(),
            );
            let found = found.expect(0).json();
            assert_eq!(found["differences"], json!([]), "{case}: {found:#}");
            assert_eq!(found["kinds"]["log"]["equal"], lines, "{case}: {found:#}");
            let in_order = lines - if runtime == Runtime::V9 { 1 } else { 2 };
            let order = json!({ "aspect": "order", "compared": lines, "equal": in_order, "percent": found["aspects"][1]["percent"] });
            assert_eq!(found["aspects"][1], order, "{case}");
        }
    });
}

#[test]
fn other_modes_are_not_equal_and_what_differs_is_named() {
    on_each_runtime(|runtime, name| {
        for mode in ["default", "fast"] {
            let case = format!("{runtime}, {mode}");
            let Fresh { home, events, .. } = fresh(runtime, AgentShape::V10_54, mode, false);
            let recorded = recorded(&home, &format!("{name}-10.54-cache"));
            let found = validate(&recorded, &events, &["--ignore-repeats", "--top", "1000"])
                .expect(11)
                .json();
            assert_eq!(found["equal"], false, "{case}");
            // The core library is left as it is.
            let lost = different(&found, "only-a");
            const CORE: &str = "System.Private.CoreLib!System.CannotUnloadAppDomainException.";
            assert_eq!(lost.len(), 7, "{case}: {lost:?}");
            assert!(
                lost.iter().all(|(kind, name)| *kind == "rewrite" && name.starts_with(CORE)),
                "{case}: {lost:?}"
            );
            assert_eq!(
                different(&found, "only-b"),
                INLINED.map(|name| ("rewrite", name)),
                "{case}"
            );
            // All others have other bodies of their own, made of the same ones.
            let all = found["differences"].as_array().unwrap();
            let bodies: Vec<_> = all.iter().filter(|one| one["what"] == "different").collect();
            assert_eq!(bodies.len(), 42, "{case}");
            for body in bodies {
                let [code] = &body["code"].as_array().unwrap()[..] else {
                    panic!("{case}: {body:#}")
                };
                assert_eq!(
                    (&code["part"], &body["fields"]),
                    (&json!("after"), &json!([])),
                    "{case}: {body:#}"
                );
            }
            assert_eq!(found["kinds"]["refusal"]["equal"], 3, "{case}");
        }
    });
}
