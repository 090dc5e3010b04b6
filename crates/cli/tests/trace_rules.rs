//! `clrscope trace --rules` on every runtime: attributes, versions, signatures and exclusions take
//! exactly the methods that are meant.
#![cfg(unix)]
mod common;

use common::{file, run, scratch, tracing::Tracing};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, time::Duration};
use testkit::{Runtime, Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

const RULES: &str = r#"
exclude = ["*.Point.Move(long)", "*.Round"]

# An attribute of the program: of a type, whose methods are all meant, and of methods.
[[rule]]
name = "measured"
match = "traced!Clrscope.Samples.**"
attributes = ["Clrscope.Samples.Measured"]
min-version = "2.1"
max-version = "2.2"
exclude = ["Locked"]
priority = 2

# One of the framework, in full.
[[rule]]
name = "not the user's"
match = "traced!**"
attributes = ["System.Diagnostics.DebuggerNonUserCodeAttribute"]
do = "count"
priority = 1

# One that nothing has: a part of a name is none.
[[rule]]
name = "no such attribute"
match = "traced!Clrscope.Samples.**"
attributes = ["Measure", "Samples.Measured", "measured"]

# The assembly has version 2.1.
[[rule]]
name = "too new"
match = "traced!Clrscope.Samples.**"
min-version = "2.1.0.1"

[[rule]]
name = "too old"
match = "traced!Clrscope.Samples.**"
max-version = "2.1"

[[rule]]
name = "numbers"
match = "traced!Clrscope.Samples.Traced.{Lo,St,Round}*(int)"

[[rule]]
name = "by reference"
match = "traced!Clrscope.Samples.Traced.*(ref *,*,*)"

[[rule]]
name = "two type parameters"
match = "traced!Clrscope.Samples.Traced.Pair<*,*>"

[[rule]]
name = "of an interface"
match = "traced!Clrscope.Samples.Adder::*.Visit(int)"
do = "count"

[[rule]]
name = "spans"
match = "traced!Clrscope.Samples.*..ctor(System.Span<int>)"

[[rule]]
name = "old framework"
match = "System.Linq!System.Linq.Enumerable.Range(int,int)"
max-version = "5.0"

[[rule]]
name = "framework"
match = "System.Linq!System.Linq.Enumerable.Range(int,int)"
min-version = "5.0"
max-version = "9.0"

[[rule]]
name = "new framework"
match = "System.Linq!System.Linq.Enumerable.Range(int,int)"
min-version = "9.0"
"#;

/// Names of methods without namespaces of the sample, by the rule that takes them.
fn by_rule<'r>(lists: impl IntoIterator<Item = &'r Value>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for method in lists.into_iter().flat_map(|list| list.as_array().unwrap()) {
        let text = |key: &str| method[key].as_str().unwrap();
        found
            .entry(text("rule").to_owned())
            .or_default()
            .push(text("method").replace("Clrscope.Samples.", ""));
    }
    found.values_mut().for_each(|names| names.sort());
    found
}

fn expected(runtime: Runtime) -> BTreeMap<String, Vec<String>> {
    let framework = match runtime.major() {
        ..5 => "old framework",
        5..9 => "framework",
        _ => "new framework",
    };
    let rows = [
        (
            "measured",
            &["Point..ctor(long, long)", "Point.Moved(long)", "Point.Sum()", "Traced.Fib(int)"][..],
        ),
        ("not the user's", &["Traced.Catches(int)"]),
        (
            "numbers",
            &["Traced.Locked(int)", "Traced.Loop(int)", "Traced.Stack(int)", "Traced.Steps(int)"],
        ),
        ("by reference", &["Traced.Out(ref int, out string, long)"]),
        ("two type parameters", &["Traced.Pair<TKey, TValue>(TKey, TValue)"]),
        ("of an interface", &["Adder.IVisitor.Visit(int)"]),
        ("spans", &["Window..ctor(System.Span<int>)"]),
        (framework, &["System.Linq.Enumerable.Range(int, int)"]),
    ];
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    rows.into_iter().map(|(rule, methods)| (rule.to_owned(), names(methods))).collect()
}

#[test]
fn rules_take_exactly_what_they_say() {
    let folder = scratch();
    let path = file(&folder, "rules.toml");
    fs::write(&path, RULES).unwrap();
    let rules = ["--rules", path.to_str().unwrap()];
    for runtime in sample_runtimes() {
        let mut process = Sample::named("traced").start(runtime, &["--sleep", "1"]);
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let ended = run(["trace", &pid, "--dry-run", "--json"].into_iter().chain(rules)).expect(0);
        assert_eq!(ended.err, "", "{runtime}: the rules are right");
        let report = ended.json();
        assert_eq!(by_rule([&report["not_called"]]), expected(runtime), "{runtime}");
        assert_eq!((&report["methods"], &report["refused"]), (&json!([]), &json!([])), "{runtime}");

        let tracing = Tracing::start(&process, &rules);
        process.send_line("go 100").unwrap();
        let truth = process.truth(LIMIT);
        let report = tracing.end();
        assert_eq!(truth["wrong"], 0, "{runtime}");
        assert_eq!(by_rule([&report["methods"]]), expected(runtime), "{runtime}");
        assert_eq!(
            (&report["not_called"], &report["refused"]),
            (&json!([]), &json!([])),
            "{runtime}: {report:#}"
        );
        assert_eq!(
            (&report["reverted"], &report["dropped"]),
            (&json!(true), &json!({})),
            "{runtime}: {report:#}"
        );
        for method in report["methods"].as_array().unwrap() {
            let name = method["method"].as_str().unwrap();
            let known = &truth["methods"][name.split('(').next().unwrap()];
            if name.starts_with("System.") {
                assert!(method["calls"].as_u64().unwrap() >= 2, "{runtime}: {method:#}");
                continue;
            }
            let is_counted =
                ["not the user's", "of an interface"].iter().any(|rule| method["rule"] == **rule);
            let timed = if is_counted { &json!(0) } else { &known["calls"] };
            assert_eq!(
                (&method["calls"], &method["timed"]),
                (&known["calls"], timed),
                "{runtime}: {method:#}"
            );
        }
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

const ENDING: &str = r#"
[[rule]]
name = "some"
match = "traced!Clrscope.Samples.Traced.*"
expires-after-calls = 100
priority = 1

[[rule]]
name = "all"
match = "**"
everything = true
do = "count"
"#;

/// The rule for the program's methods ends while the other one continues.
#[test]
fn a_rule_that_has_ended_takes_nothing_more() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let (rules, output) = (file(&folder, "ending.toml"), file(&folder, "ending.clrscope"));
        fs::write(&rules, ENDING).unwrap();
        let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        let options = ["launch", "-q", "-p", "trace", "--rules"].map(str::to_owned);
        let prefix = [common::binary().to_owned()].into_iter().chain(options);
        let prefix = prefix.chain([path(&rules), "-o".to_owned(), path(&output), "--".to_owned()]);
        let mut process = Sample::named("traced").launch(runtime, &[""; 0]).under(prefix).start();
        process.wait_for_ready();
        process.send_line("go 100").unwrap();
        process.truth(LIMIT);
        // It is looked once a second how many calls there were.
        std::thread::sleep(Duration::from_millis(3500));
        process.send_line("spin").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        process.send_line("still").unwrap();
        let truth = process.truth(LIMIT);
        process.send_line("exit").unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());

        let report = run(["report", &path(&output), "--format", "json"]).expect(0).json();
        let functions = report["functions"].as_array().unwrap();
        let name = |method: &Value| {
            functions[method["function"].as_u64().unwrap() as usize]["name"].to_string()
        };
        let calls = |rule: &str, of: &str| {
            let methods = report["traced"]["methods"].as_array().unwrap().iter();
            let methods =
                methods.filter(|method| method["rule"] == rule && name(method).contains(of));
            methods.map(|method| method["calls"].as_u64().unwrap()).sum::<u64>()
        };
        let later = truth["methods"]["Clrscope.Samples.Traced.Plain"]["calls"].as_u64().unwrap();
        let told = calls("some", "Traced.Plain(");
        assert!((100..later).contains(&told), "{runtime}: {told} calls, {later} later");
        assert!(calls("all", "") > 1000, "{runtime}: {report:#}");
    }
}
