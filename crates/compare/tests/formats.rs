//! What is written is what readers of each format expect, whatever names there are.

mod common;

#[path = "../../report/tests/browser/mod.rs"]
mod browser;

use common::{MS, Made, Random, START, busy, info};
use compare::{Comparison, FORMATS, Format, Options, Recording, Style, compare};
use profile::session::*;
use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::JsonSchema;

/// A name that means something to each format.
const HOSTILE: &str = "Evil<script>alert(1)</script>&\"'|`*_]]>\u{1}\u{202e}\u{ffff}";

fn hostile(method: usize) -> String {
    if method == 0 { HOSTILE.into() } else { common::name(method) }
}

/// One method got slower, one got faster, and others did not change.
fn pair() -> (Recording, Recording) {
    let mut random = Random::new(11);
    let mut made = |parts: &[f64]| {
        let mut samples = busy(&mut random, 20, 200, parts, 5.0);
        samples.retain(|(_, method)| *method < 4);
        let mut made = Made { weight: 5 * MS, ..Made::of(20, 4, samples) };
        made.name_of = hostile;
        made
    };
    let before = made(&[0.2, 0.2, 0.1, 0.002, 0.498]).recording("before.clrscope");
    let after = made(&[0.4, 0.1, 0.1, 0.002, 0.398]).recording("after.clrscope");
    (before, after)
}

fn compared(options: &Options) -> Comparison {
    let (before, after) = pair();
    compare(&before, &after, options)
}

fn written(comparison: &Comparison, format: Format) -> String {
    let style = Style { rows: 15, ..Style::default() };
    let mut out = Vec::new();
    comparison.write(format, &style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn all_formats_say_what_changed() {
    let comparison = compared(&Options { fail_on: Some(0.05), ..Options::default() });
    assert!(comparison.gate.as_ref().unwrap().failed);
    for (format, word, _) in FORMATS {
        let text = written(&comparison, format);
        assert!(text.contains("Evil"), "{word}: {text}");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{1}'), "{word}: {text}");
        // Where elements are written, that is none.
        let is_markup = matches!(format, Format::Html | Format::Junit);
        assert!(!is_markup || !text.contains("<script>alert"), "{word}: {text}");
    }
    let text = written(&comparison, Format::Text);
    let answer = text.lines().take(10).collect::<Vec<_>>().join("\n");
    for part in
        ["certain", "Worse: cpu, Contoso.Shop.Evil", "Better: cpu, Contoso.Shop.Step1", "Failed"]
    {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(answer.contains(" per second (+"), "{answer}");
    // Step2 did not change, and no claim is made of it.
    assert!(!answer.contains("Step2"), "{answer}");
    let markdown = written(&comparison, Format::Markdown);
    assert!(markdown.starts_with("# after.clrscope compared with before.clrscope\n"));
    assert!(
        markdown.contains("| worse | cpu |") || markdown.contains("| fails | cpu |"),
        "{markdown}"
    );
}

#[test]
fn the_page_draws_what_changed_and_lists_it() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, written(&compared(&Options::default()), Format::Html)).unwrap();
    let shown = browser::shown(&page, folder.path(), "");
    assert!(shown.contains("data-ready=\"yes\""), "{shown}");
    for part in [
        "after.clrscope compared with before.clrscope",
        "Differential flame graph",
        "can be noise",
        // The call tree, with what changed for certain.
        "Evil&lt;script&gt;",
        ">changed</span>",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let methods = browser::shown(&page, folder.path(), "comparison&view=functions");
    assert!(methods.contains("changed itself") && methods.contains("Step2"), "{methods}");
}

#[test]
fn json_is_as_its_schema_says() {
    let schema = JsonSchema::new(report::schema_of::<Comparison>().as_value().clone()).unwrap();
    for (fail_on, with_tree) in [(None, false), (Some(0.05), true)] {
        let comparison = compared(&Options { fail_on, with_tree, ..Options::default() });
        let json: Value = serde_json::from_str(&written(&comparison, Format::Json)).unwrap();
        schema.check(&json).unwrap();
        assert_eq!(json["per"], "second");
        assert_eq!(json["gate"].is_null(), fail_on.is_none());
        let series = &json["series"][0];
        assert_eq!((&series["profiler"], &series["unit"]), (&json!("cpu"), &json!("nanoseconds")));
        let tree = series.get("tree");
        assert_eq!(tree.is_some(), with_tree);
        let Some(tree) = tree else { continue };
        // The weights of the tree are those of the sums.
        for (column, side, at) in [("before_self", "before", 0), ("after_self", "after", 1)] {
            let sum: f64 =
                tree[column].as_array().unwrap().iter().map(|own| own.as_f64().unwrap()).sum();
            let scaled = sum * series["scale"][at].as_f64().unwrap();
            let total = series["total"][side].as_f64().unwrap();
            assert!((scaled - total).abs() < 1e-6 * total, "{scaled} {total}");
        }
    }
}

/// What is known of an element.
type Rule = (&'static str, Names, Names, Names);
type Names = &'static [&'static str];

/// The elements of JUnit XML, as Ant's schema (JUnit.xsd) and that of Jenkins (junit-10.xsd) both
/// allow them: attributes that are required, others, and elements within, in their order.
const ELEMENTS: [Rule; 10] = [
    ("testsuites", &[], &[], &["testsuite"]),
    (
        "testsuite",
        &["id", "name", "package", "timestamp", "hostname", "tests", "failures", "errors", "time"],
        &["skipped"],
        &["properties", "testcase", "system-out", "system-err"],
    ),
    ("properties", &[], &[], &["property"]),
    ("property", &["name", "value"], &[], &[]),
    ("testcase", &["name", "classname", "time"], &[], &["skipped", "error", "failure"]),
    ("failure", &["type"], &["message"], &[]),
    ("error", &["type"], &["message"], &[]),
    ("skipped", &[], &["message", "type"], &[]),
    ("system-out", &[], &[], &[]),
    ("system-err", &[], &[], &[]),
];

/// An element that was read.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    fn of(start: &BytesStart<'_>) -> Self {
        let name = String::from_utf8(start.name().as_ref().to_vec()).unwrap();
        let mut attributes = BTreeMap::new();
        // Of this name once, and with quotes.
        for attribute in start.attributes().with_checks(true) {
            let attribute = attribute.unwrap();
            let key = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
            let raw = std::str::from_utf8(&attribute.value).unwrap();
            attributes.insert(key, quick_xml::escape::unescape(raw).unwrap().into_owned());
        }
        Self { name, attributes, ..Self::default() }
    }

    /// Reads a document, of which nothing may be wrong.
    fn read(xml: &str) -> Self {
        // Letters that XML 1.0 does not have, in any form.
        let is_allowed =
            |letter: char| matches!(letter, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
        assert!(xml.chars().all(is_allowed), "{xml}");
        let mut reader = Reader::from_str(xml);
        reader.config_mut().enable_all_checks(true);
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => open.push(Self::of(&start)),
                Event::Empty(start) => open.last_mut().unwrap().children.push(Self::of(&start)),
                Event::End(_) => {
                    let done = open.pop().unwrap();
                    open.last_mut().unwrap().children.push(done);
                }
                Event::Text(text) => {
                    open.last_mut().unwrap().text.push_str(&text.decode().unwrap())
                }
                Event::GeneralRef(_) => open.last_mut().unwrap().text.push('&'),
                Event::Decl(declared) => {
                    assert_eq!(declared.encoding().unwrap().unwrap().as_ref(), b"UTF-8");
                }
                Event::Eof => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((open.len(), open[0].children.len()), (1, 1));
        open.pop().unwrap().children.pop().unwrap()
    }

    /// Checks it and all within.
    fn check(&self) {
        let (_, required, optional, inner) =
            ELEMENTS.into_iter().find(|(name, ..)| *name == self.name).unwrap();
        for name in required {
            assert!(self.attributes.contains_key(*name), "{} lacks {name}", self.name);
        }
        for name in self.attributes.keys().map(String::as_str) {
            assert!(required.contains(&name) || optional.contains(&name), "{}: {name}", self.name);
        }
        let place = |child: &Self| inner.iter().position(|name| *name == child.name).unwrap();
        assert!(self.children.iter().map(place).is_sorted(), "{self:?}");
        let count = |name: &str| self.children.iter().filter(|child| child.name == name).count();
        let has_text =
            matches!(self.name.as_str(), "failure" | "error" | "system-out" | "system-err");
        assert!(has_text || self.text.trim().is_empty(), "{self:?}");
        let token = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ") == text;
        match self.name.as_str() {
            "testsuite" => {
                for once in ["properties", "system-out", "system-err"] {
                    assert_eq!(count(once), 1, "{once}");
                }
                assert_eq!(self.attributes["tests"], count("testcase").to_string());
                let with = |name: &str| {
                    let has = |case: &&Self| case.children.iter().any(|child| child.name == name);
                    self.children.iter().filter(has).count().to_string()
                };
                assert_eq!(self.attributes["failures"], with("failure"));
                assert_eq!(self.attributes["skipped"], with("skipped"));
                assert!(self.attributes["time"].parse::<f64>().is_ok());
                // Years to seconds, without a time zone.
                let time: String = self.attributes["timestamp"]
                    .chars()
                    .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
                    .collect();
                assert_eq!(time, "0000-00-00T00:00:00");
                assert!(token(&self.attributes["name"]) && token(&self.attributes["package"]));
            }
            "testcase" => {
                assert!(self.children.len() <= 1);
                assert!(token(&self.attributes["name"]) && token(&self.attributes["classname"]));
            }
            _ => {}
        }
        self.children.iter().for_each(Self::check);
    }

    fn cases(&self) -> Vec<&Element> {
        let suites = self.children.iter().flat_map(|suite| &suite.children);
        suites.filter(|child| child.name == "testcase").collect()
    }
}

#[test]
fn junit_is_what_its_readers_take() {
    let failed = |options: &Options| {
        let junit = Element::read(&written(&compared(options), Format::Junit));
        junit.check();
        let cases = junit.cases();
        let names = cases.iter().map(|case| case.attributes["name"].clone()).collect::<Vec<_>>();
        assert!(names.contains(&"all samples".to_owned()), "{names:?}");
        // No two have the same name.
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
        let failed =
            cases.into_iter().filter(|case| case.children.iter().any(|own| own.name == "failure"));
        failed.map(|case| case.attributes["name"].clone()).collect::<Vec<_>>()
    };
    let all = failed(&Options::default());
    assert!(all.iter().any(|name| name.contains("Evil") && name.ends_with("(itself)")), "{all:?}");
    assert!(!all.iter().any(|name| name.contains("Step")), "{all:?}");
    assert!(failed(&Options { fail_on: Some(9.0), ..Options::default() }).is_empty());
}

/// The part of SARIF 2.1.0 that is written: no other keys, and all that the standard requires.
fn sarif_schema() -> JsonSchema {
    let message = json!({
        "type": "object",
        "required": ["text"],
        "properties": { "text": { "type": "string" } },
    });
    let uri = json!({ "type": "string", "pattern": "^[A-Za-z0-9._~%/:-]+$" });
    let number = json!({ "type": ["number", "null"] });
    let rule = json!({
        "type": "object",
        "required": ["id"],
        "properties": { "id": { "type": "string" }, "shortDescription": message },
    });
    let location = json!({
        "type": "object",
        "properties": {
            "physicalLocation": {
                "type": "object",
                "required": ["artifactLocation"],
                "properties": {
                    "artifactLocation": { "type": "object", "properties": { "uri": uri } },
                    "region": {
                        "type": "object",
                        "properties": { "startLine": { "type": "integer", "minimum": 1 } },
                    },
                },
            },
            "logicalLocations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string" },
                        "fullyQualifiedName": { "type": "string" },
                        "kind": { "const": "function" },
                    },
                },
            },
        },
    });
    let result = json!({
        "type": "object",
        "required": ["message", "ruleId", "ruleIndex"],
        "properties": {
            "ruleId": { "type": "string" },
            "ruleIndex": { "type": "integer", "minimum": 0 },
            "level": { "enum": ["none", "note", "warning", "error"] },
            "message": message,
            "partialFingerprints": {
                "type": "object",
                "properties": { "clrscope/v1": { "type": "string" } },
            },
            "properties": {
                "type": "object",
                "properties": {
                    "before": number,
                    "after": number,
                    "relative": number,
                    "chance": number,
                },
            },
            "locations": { "type": "array", "items": location },
        },
    });
    let driver = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string" },
            "semanticVersion": { "type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+" },
            "informationUri": { "type": "string", "pattern": "^https://" },
            "rules": { "type": "array", "items": rule, "uniqueItems": true },
        },
    });
    let run = json!({
        "type": "object",
        "required": ["tool"],
        "properties": {
            "tool": {
                "type": "object",
                "required": ["driver"],
                "properties": { "driver": driver },
            },
            "columnKind": { "enum": ["utf16CodeUnits", "unicodeCodePoints"] },
            "results": { "type": "array", "items": result },
        },
    });
    JsonSchema::new(json!({
        "type": "object",
        "required": ["version", "runs"],
        "properties": {
            "$schema": { "type": "string" },
            "version": { "const": "2.1.0" },
            "runs": { "type": "array", "items": run },
        },
    }))
    .unwrap()
}

#[test]
fn sarif_is_as_the_standard_says() {
    let comparison = compared(&Options { fail_on: Some(0.5), ..Options::default() });
    let sarif: Value = serde_json::from_str(&written(&comparison, Format::Sarif)).unwrap();
    sarif_schema().check(&sarif).unwrap();
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    let worse = comparison.changes.iter().filter(|finding| finding.worse == Some(true)).count();
    assert_eq!(results.len(), worse);
    for result in results {
        let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
    }
    let own = results.iter().find(|result| result["ruleId"] == "cpu/self").unwrap();
    assert_eq!(own["level"], "error");
    let place = &own["locations"][0]["physicalLocation"];
    // The path of a deterministic build, and the line of that method.
    assert_eq!(place["artifactLocation"]["uri"], "src/Shop.cs");
    assert_eq!(place["region"]["startLine"], 11);
}

#[test]
fn of_equal_recordings_nothing_is_wrong() {
    let (before, _) = pair();
    let comparison =
        compare(&before, &before, &Options { fail_on: Some(0.0), ..Options::default() });
    for (format, word, _) in FORMATS {
        let text = written(&comparison, format);
        assert!(!text.contains("<failure") && !text.contains("\"level\""), "{word}: {text}");
    }
    let text = written(&comparison, Format::Text);
    assert!(text.contains("No difference is certain") && text.contains("Passed"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let mut random = Random::new(5);
    let mut made = |part: f64| Made::of(10, 2, busy(&mut random, 10, 100, &[part, 1.0], 5.0));
    let (before, mut after) = (made(1.0), made(20.0));
    after.info.profilers[0].engine = "suspend and walk".into();
    after.info.runtime = "10.0.0".into();
    after.info.profilers.push(ProfilerRun { id: "gc".into(), ..info().profilers[0].clone() });
    let comparison = compare(&before.recording("a"), &after.recording("b"), &Options::default());
    assert!(comparison.changes.is_empty() && comparison.tests == 0);
    assert!(comparison.series[0].not_comparable.is_some());
    let text = written(&comparison, Format::Text);
    for part in ["kernel ring before, suspend and walk after", "the runtime differs: 9.0.5", "gc"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let junit = Element::read(&written(&comparison, Format::Junit));
    junit.check();
    let cases = junit.cases();
    assert!(!cases.is_empty() && cases.iter().all(|case| case.children[0].name == "skipped"));
    // Two seconds say nothing.
    let short = Made::of(1, 2, vec![(MS, 0), (900 * MS, 1)]).recording("short");
    let text = written(&compare(&short, &short, &Options::default()), Format::Text);
    assert!(text.contains("too short"), "{text}");
    let empty = Made::of(0, 0, vec![]).recording("empty");
    let nothing = compare(&empty, &empty, &Options::default());
    assert!(written(&nothing, Format::Text).contains("nothing in common"));
    assert_eq!(START, empty.profile.start);
}
