//! JUnit XML, as Ant, Jenkins, GitLab and Azure Pipelines read it: a suite for each profiler, a
//! test case for each quantity. A case fails if the quantity got worse.

use std::io::{self, Write};

use document::{format::date, plain::visible};
use quick_xml::{
    Writer,
    events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event},
};

use crate::{
    Comparison, SeriesComparison,
    change::{Change, Significance},
    finding::{Finding, FindingKind, all_of},
    view::word,
};

/// Functions with a lesser part of all samples are no test cases, where `--fail-on` does not say
/// another one.
const LEAST_SHARE: f64 = 0.01;

/// A test.
struct Case<'a> {
    name: String,
    change: &'a Change,
    /// What got worse, if it fails.
    failure: Option<&'a Finding>,
}

/// Writes a comparison.
///
/// # Errors
/// When the output fails.
pub fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer::new_with_indent(out, b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer.write_event(Event::Start(BytesStart::new("testsuites")))?;
    let mut suites: Vec<(&str, Vec<Case<'_>>)> = Vec::new();
    for series in &comparison.series {
        suites.push((series.profiler, of_series(comparison, series)));
    }
    for measure in &comparison.measures {
        let failure = failure(comparison, FindingKind::Measure, measure.profiler, |finding| {
            finding.name == measure.name
        });
        let case = Case { name: measure.name.clone(), change: &measure.change, failure };
        match suites.iter_mut().find(|(profiler, _)| *profiler == measure.profiler) {
            Some((_, cases)) => cases.push(case),
            None => suites.push((measure.profiler, vec![case])),
        }
    }
    for (id, (profiler, cases)) in suites.iter().enumerate() {
        write_suite(comparison, id, profiler, cases, &mut writer)?;
    }
    writer.write_event(Event::End(BytesEnd::new("testsuites")))?;
    writeln!(writer.into_inner())
}

fn of_series<'a>(comparison: &'a Comparison, series: &'a SeriesComparison) -> Vec<Case<'a>> {
    let least = comparison.gate.as_ref().map_or(LEAST_SHARE, |gate| gate.min_share);
    let all = all_of(comparison, series);
    let is_large = |change: &Change| {
        change.before >= least * all[0] && change.before > 0.0
            || change.after >= least * all[1] && change.after > 0.0
    };
    let failed = |kind, function: Option<u32>| {
        failure(comparison, kind, series.profiler, |finding| finding.function == function)
    };
    let name = "all samples".to_owned();
    let mut cases =
        vec![Case { name, change: &series.total, failure: failed(FindingKind::All, None) }];
    for row in &series.functions {
        let Some(function) = comparison.functions.get(row.function as usize) else { continue };
        for (kind, change, of) in
            [(FindingKind::Own, &row.own, "itself"), (FindingKind::Total, &row.total, "total")]
        {
            if is_large(change) {
                let failure = failed(kind, Some(row.function));
                let name = format!("{} ({of})", function.name);
                cases.push(Case { name, change, failure });
            }
        }
    }
    cases
}

/// What of this got worse, so that its test fails: above the limit if there is one.
fn failure<'a>(
    comparison: &'a Comparison,
    kind: FindingKind,
    profiler: &str,
    is_it: impl Fn(&Finding) -> bool,
) -> Option<&'a Finding> {
    let mut findings = comparison.changes.iter().enumerate();
    let found =
        findings.find(|(_, own)| own.kind == kind && own.profiler == profiler && is_it(own));
    let fails = |index: usize, finding: &Finding| match &comparison.gate {
        Some(gate) => gate.failures.contains(&index),
        None => finding.worse == Some(true),
    };
    found.filter(|(index, finding)| fails(*index, finding)).map(|(_, finding)| finding)
}

fn is_skipped(case: &Case<'_>) -> bool {
    matches!(case.change.significance, Significance::TooFew | Significance::NotComparable)
}

fn write_suite(
    comparison: &Comparison,
    id: usize,
    profiler: &str,
    cases: &[Case<'_>],
    writer: &mut Writer<&mut dyn Write>,
) -> io::Result<()> {
    let count =
        |is_it: fn(&Case<'_>) -> bool| cases.iter().filter(|case| is_it(case)).count().to_string();
    let package = format!("clrscope.{profiler}");
    let mut suite = BytesStart::new("testsuite");
    for (name, value) in [
        ("id", id.to_string()),
        ("name", profiler.to_owned()),
        ("package", package.clone()),
        ("timestamp", timestamp(comparison.after.start_unix_ms)),
        ("hostname", "localhost".to_owned()),
        ("tests", cases.len().to_string()),
        ("failures", count(|case| case.failure.is_some())),
        ("errors", "0".to_owned()),
        ("skipped", count(is_skipped)),
        ("time", format!("{:.3}", comparison.after.duration_seconds)),
    ] {
        suite.push_attribute((name, value.as_str()));
    }
    writer.write_event(Event::Start(suite))?;
    let sides = [("before", &comparison.before.name), ("after", &comparison.after.name)];
    writer.write_event(Event::Start(BytesStart::new("properties")))?;
    for (name, value) in sides {
        let mut property = BytesStart::new("property");
        property.push_attribute(("name", name));
        property.push_attribute(("value", text(value).as_str()));
        writer.write_event(Event::Empty(property))?;
    }
    writer.write_event(Event::End(BytesEnd::new("properties")))?;
    cases.iter().try_for_each(|case| write_case(comparison, &package, case, writer))?;
    for name in ["system-out", "system-err"] {
        writer.write_event(Event::Empty(BytesStart::new(name)))?;
    }
    writer.write_event(Event::End(BytesEnd::new("testsuite")))
}

fn write_case(
    comparison: &Comparison,
    package: &str,
    case: &Case<'_>,
    writer: &mut Writer<&mut dyn Write>,
) -> io::Result<()> {
    let mut element = BytesStart::new("testcase");
    // Readers take names for tokens, without several spaces in a row.
    let name = text(&case.name).split_whitespace().collect::<Vec<_>>().join(" ");
    element.push_attribute(("name", name.as_str()));
    element.push_attribute(("classname", package));
    element.push_attribute(("time", "0"));
    match case.failure {
        Some(finding) => {
            writer.write_event(Event::Start(element))?;
            let text = text(&comparison.sentence(finding));
            let mut failure = BytesStart::new("failure");
            failure.push_attribute(("type", "regression"));
            failure.push_attribute(("message", text.as_str()));
            writer.write_event(Event::Start(failure))?;
            writer.write_event(Event::Text(BytesText::new(&text)))?;
            writer.write_event(Event::End(BytesEnd::new("failure")))?;
        }
        None if is_skipped(case) => {
            writer.write_event(Event::Start(element))?;
            let mut skipped = BytesStart::new("skipped");
            skipped.push_attribute(("message", word(case.change)));
            writer.write_event(Event::Empty(skipped))?;
        }
        None => return writer.write_event(Event::Empty(element)),
    }
    writer.write_event(Event::End(BytesEnd::new("testcase")))
}

/// Text without the letters that XML does not have.
fn text(text: &str) -> String {
    visible(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// A time in UTC, in the form that has no time zone.
fn timestamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}
