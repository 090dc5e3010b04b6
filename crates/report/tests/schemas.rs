//! Schemas describe all that programs read. Recordings of single profilers are checked where they
//! are made, in the other files of tests.

mod common;
mod schema;

use std::collections::BTreeSet;

use common::{START, profile, records, text};
use profile::{BuildOptions, Filter, Profile, ProfileBuilder, SeriesKind, session::*};
use report::{Checkup, CheckupFormat, Options, SnapshotSection, Target};
use schema::{SNAPSHOTS, check, check_with, strict};
use serde_json::Value;

const MS: u64 = 1_000_000;

fn build(records: &[SessionRecord]) -> Profile {
    let options = BuildOptions { keep_samples: true, ..BuildOptions::default() };
    let mut builder = ProfileBuilder::new(options);
    records.iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

/// The arguments of a call: all that they can be.
fn arguments() -> Vec<(u16, Argument)> {
    vec![
        (0, Argument::Number(-3)),
        (1, Argument::Float(0.5)),
        (2, Argument::Text { text: "Ada".into(), length: 100 }),
        (3, Argument::Null),
        (4, Argument::Object { class: Some(TypeId(0)), elements: Some(4) }),
        (5, Argument::Object { class: None, elements: None }),
        (6, Argument::Number(-1)),
        (7, Argument::Number(1)),
        (8, Argument::Float(f64::NAN)),
    ]
}

/// What instrumented methods leave, with figures that the small recording does not have.
fn traced(bodies: bool) -> Vec<SessionRecord> {
    let method = |method, slot, state| {
        let (method, rule) = (FunctionId(method), "shop".to_owned());
        let (time, of) = (START + 2 * MS, Instrumented { method, rule, slot, state });
        SessionRecord::Instrumented(InstrumentedMethod { time, of })
    };
    let parameter = |name: &str, type_name: &str, shown| Parameter {
        name: name.into(),
        type_name: type_name.into(),
        shown,
    };
    let types =
        ["int", "double", "string", "object", "object[]", "object", "ulong", "bool", "float"];
    let values = types.map(|of| parameter(of, of, ParameterShown::ByValue));
    let others = [
        parameter("password", "string", ParameterShown::Redacted),
        parameter("point", "Point", ParameterShown::ByType),
        parameter("late", "int", ParameterShown::ByValue),
    ];
    let call = |slot, taken, failed| SingleCall {
        slot,
        thread: ThreadId(0),
        begun: START + 4 * MS,
        taken,
        failed,
        asynchronous: false,
    };
    let body = |text: &str| Il { bytes: vec![0x02, 0x2a], text: text.into() };
    let rewritten = |method, slot, bodies| {
        let (time, rule) = (START + 3 * MS, "shop".to_owned());
        let method = FunctionId(method);
        SessionRecord::Rewritten(RewrittenMethod { time, method, rule, slot, bodies })
    };
    let recompiled = |method, failed| {
        let (time, method) = (START + 3 * MS, FunctionId(method));
        SessionRecord::Recompiled(RecompiledMethod { time, method, failed })
    };
    let mut records = vec![
        method(0, Some(0), InstrumentState::Requested),
        method(1, Some(1), InstrumentState::Possible),
        method(2, None, InstrumentState::Refused("it has no body".into())),
        method(3, Some(3), InstrumentState::Requested),
        method(3, Some(3), InstrumentState::Original),
        SessionRecord::Parameters(MethodParameters {
            method: FunctionId(0),
            parameters: values.into_iter().chain(others).collect(),
            refused: None,
        }),
        SessionRecord::Traced(TracedCalls {
            time: START + 9 * MS,
            ticks_per_second: 1_000_000_000,
            methods: vec![TracedMethod {
                slot: 0,
                calls: 9,
                timed: 3,
                failed: 1,
                ticks: 45,
                longest: 20,
                buckets: vec![(10, 2), (20, 1)],
            }],
        }),
        SessionRecord::SingleCalls(vec![call(3, 20, true)]),
        SessionRecord::CallsWithArguments(vec![CallArguments {
            call: call(0, 20, false),
            arguments: arguments(),
        }]),
    ];
    if bodies {
        records.extend([
            rewritten(0, 0, Ok((body("ldarg.0\nret"), body("nop\nldarg.0\nret")))),
            rewritten(3, 3, Err("it is too long".into())),
            recompiled(0, None),
            recompiled(3, Some("0x80131195".into())),
        ]);
    }
    records
}

/// How much processor time there was, and how often a profiler sampled.
fn measured(quota: Option<(u64, u64)>) -> Vec<SessionRecord> {
    vec![
        SessionRecord::Processors(ProcessorUse {
            time: START + 1000 * MS,
            elapsed: 1000 * MS,
            processors: 8,
            ran: 600 * MS,
            waited: 3 * MS,
            busy: 700 * MS,
            quota,
            periods: 10,
            throttled_periods: 2,
            throttled: 9 * MS,
        }),
        SessionRecord::SamplingRate(SamplingRate {
            profiler: "cpu".into(),
            asked_hz: 99,
            samples: 500,
            cpu: 10_000 * MS,
            tick_hz: Some(100),
            limit: Some("timers fire at ticks".into()),
            threads_without_timer: 1,
        }),
    ]
}

/// The small recording with more in it.
fn with(more: impl IntoIterator<Item = SessionRecord>) -> Profile {
    let mut records = records();
    let end = records.len() - 1;
    records.splice(end..end, more);
    build(&records)
}

#[test]
fn the_small_recording_and_parts_of_it() {
    check(&profile());
    let filter = Filter { thread: Some("4714".into()), ..Filter::default() };
    check_with(&profile(), &Options { filter, ..Options::default() });
    check_with(&profile(), &Options { series: Some(SeriesKind::Cpu), ..Options::default() });
    let sums = Profile::read(&common::file()[..], BuildOptions::default()).unwrap();
    check(&sums);
    let snapshots = [("heap", Value::Null), ("async", serde_json::json!({"schema": 1}))];
    let snapshots = snapshots.map(|(id, json)| SnapshotSection {
        id,
        title: "Heap",
        document: document::Document::default(),
        json,
    });
    check_with(&profile(), &Options { snapshots: snapshots.into(), ..Options::default() });
}

#[test]
fn recordings_that_hold_little_or_are_cut() {
    let records = records();
    let first = &records[..1];
    check(&build(first));
    let mut profile = build(&records[..records.len() - 1]);
    profile.cut_short = true;
    profile.damage = Some("block at 12: checksum".into());
    check(&profile);
}

#[test]
fn instrumented_methods_with_and_without_bodies() {
    for bodies in [false, true] {
        check(&with(traced(bodies)));
    }
    let events = text(&with(traced(true)), "events", &Options::default());
    for kind in ["rewrite", "refusal", "possible", "revert", "rejit", "exception"] {
        assert!(events.contains(&format!("\"event\":\"{kind}\"")), "{kind}");
    }
    let json = text(&with(traced(true)), "json", &Options::default());
    for key in ["truncated_from", "elements", "object", "redacted", "lost"] {
        assert!(json.contains(&format!("\"{key}\":")), "{key}");
    }
}

#[test]
fn processors_and_rates() {
    for quota in [None, Some((50 * MS, 100 * MS))] {
        check(&with(measured(quota)));
    }
}

#[test]
fn check_ups() {
    let finding = |severity, culprit: Option<&str>| diagnose::Finding {
        id: "cpu-hot-spot",
        severity,
        confidence: 0.9,
        title: "One method runs most of the time".into(),
        culprit: culprit.map(str::to_owned),
        evidence: vec!["42 %".into()],
        next: "Look at it.".into(),
        figures: vec![],
    };
    let findings = [
        finding(diagnose::Severity::Critical, Some("Shop.Run()")),
        finding(diagnose::Severity::High, None),
        finding(diagnose::Severity::Medium, None),
        finding(diagnose::Severity::Low, None),
    ];
    let target = || Target { pid: 7, name: "shop", runtime: "9.0.5", looked_for_seconds: 2.0 };
    let schema = strict(&report::checkup_schema());
    for (findings, notes) in [(&findings[..], vec!["no heap".to_owned()]), (&[], vec![])] {
        let mut out = Vec::new();
        let checkup = Checkup { target: target(), findings, notes: &notes };
        checkup.write(CheckupFormat::Json, document::text::Style::default(), &mut out).unwrap();
        schema.check(&serde_json::from_slice(&out).unwrap()).unwrap();
    }
}

/// Every place in a value, as a JSON pointer.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(values) => {
            if let Some(value) = values.first() {
                places(value, &format!("{at}/0"), all);
            }
        }
        Value::Object(values) => {
            for (key, value) in values {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), all);
            }
        }
        _ => {}
    }
}

#[test]
fn keys_that_are_missing_or_unknown_are_noticed() {
    let json: Value = serde_json::from_str(&text(
        &with(measured(None).into_iter().chain(traced(true))),
        "json",
        &Options::default(),
    ))
    .unwrap();
    let schema = strict(&report::report_schema(SNAPSHOTS));
    schema.check(&json).unwrap();
    // One row is enough of each list, so that many variants are quick to check.
    let json = shortened(&json);
    schema.check(&json).unwrap();
    let mut all = Vec::new();
    places(&json, "", &mut all);
    // What is under names of the recording, or may be missing.
    let is_map = |at: &str| {
        ["reasons", "parameters", "pause_reasons_ns", "states", "heaps", "weight", "generations"]
            .into_iter()
            .chain(["heap_last", "promoted", "size_after", "time_ns", "counters"])
            .any(|map| at.ends_with(&format!("/{map}")))
    };
    let optional = ["file", "line", "single", "processor_use", "resources", "value"];
    let optional = |key: &str| {
        optional.contains(&key)
            || ["truncated_from", "object", "elements", "redacted", "lost"].contains(&key)
    };
    let mut checked = 0;
    for at in all {
        let Some(keys) = json.pointer(&at).and_then(Value::as_object) else { continue };
        if is_map(&at) {
            continue;
        }
        let mut more = json.clone();
        more.pointer_mut(&at).unwrap()["surplus"] = 1.into();
        assert!(schema.check(&more).is_err(), "a surplus key in {at} is not noticed");
        for key in keys.keys().filter(|key| !optional(key)) {
            let mut less = json.clone();
            less.pointer_mut(&at).unwrap().as_object_mut().unwrap().remove(key);
            assert!(schema.check(&less).is_err(), "{at} without {key} is not noticed");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
}

/// The same with one row of each list, at most.
fn shortened(value: &Value) -> Value {
    match value {
        // Columns and pairs have to keep their length.
        Value::Array(values) if values.iter().any(|value| !value.is_object()) => value.clone(),
        Value::Array(values) => values.iter().take(1).map(shortened).collect(),
        Value::Object(values) => {
            values.iter().map(|(key, value)| (key.clone(), shortened(value))).collect()
        }
        _ => value.clone(),
    }
}

#[test]
fn types_have_names_of_their_own() {
    let schemas =
        [report::report_schema(SNAPSHOTS), report::events_schema(), report::checkup_schema()];
    for schema in &schemas {
        let names = schema.as_value()["$defs"].as_object().unwrap().keys();
        // A second type of a name gets a number behind it.
        let numbered: BTreeSet<_> =
            names.filter(|name| name.ends_with(|last: char| last.is_ascii_digit())).collect();
        assert!(numbered.is_empty(), "{numbered:?}");
    }
    let titles = schemas.map(|schema| schema.as_value()["title"].clone());
    assert_eq!(
        titles,
        ["clrscope report", "clrscope event log line", "clrscope check-up"].map(Value::from)
    );
}
