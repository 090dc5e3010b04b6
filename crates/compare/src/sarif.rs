//! SARIF 2.1.0 (OASIS), as GitHub code scanning and editors read it: a result for each quantity
//! that got worse, at the place of its function.

use document::plain::visible;
use serde_json::{Value, json};

use crate::{
    Comparison,
    finding::{Finding, FindingKind},
};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The comparison as SARIF. Files below `root` are relative to it.
pub fn of(comparison: &Comparison, root: Option<&str>) -> Value {
    let worse: Vec<(usize, &Finding)> = comparison
        .changes
        .iter()
        .enumerate()
        .filter(|(_, finding)| finding.worse == Some(true))
        .collect();
    let mut rules: Vec<(String, &Finding)> =
        worse.iter().map(|(_, finding)| (rule(finding), *finding)).collect();
    order::sort_by(&mut rules, |one, other| one.0.cmp(&other.0));
    rules.dedup_by(|one, other| one.0 == other.0);
    let results: Vec<Value> = worse
        .iter()
        .map(|(index, finding)| {
            let at = rules.iter().position(|(id, _)| *id == rule(finding));
            result(comparison, root, *index, finding, at.unwrap_or_default())
        })
        .collect();
    let rules: Vec<Value> = rules.iter().map(|(id, finding)| described(id, finding)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "clrscope",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "informationUri": env!("CARGO_PKG_REPOSITORY"),
                    "rules": rules,
                },
            },
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

fn rule(finding: &Finding) -> String {
    let kind = match finding.kind {
        FindingKind::All => "all",
        FindingKind::Own => "self",
        FindingKind::Total => "total",
        FindingKind::Measure => "measure",
    };
    format!("{}/{kind}", finding.profiler)
}

fn described(id: &str, finding: &Finding) -> Value {
    let profiler = finding.profiler;
    let what = match finding.kind {
        FindingKind::All => format!("The program needs more of what `{profiler}` measures"),
        FindingKind::Own => format!("A function needs more of what `{profiler}` measures"),
        FindingKind::Total => {
            format!("A function and what it calls need more of what `{profiler}` measures")
        }
        FindingKind::Measure => format!("A quantity that `{profiler}` measures got worse"),
    };
    json!({ "id": id, "shortDescription": { "text": what } })
}

fn result(
    comparison: &Comparison,
    root: Option<&str>,
    index: usize,
    finding: &Finding,
    rule_index: usize,
) -> Value {
    let fails = comparison.gate.as_ref().is_some_and(|gate| gate.failures.contains(&index));
    let rule = rule(finding);
    let text = comparison.sentence(finding);
    let change = &finding.change;
    let mut result = json!({
        "ruleId": rule,
        "ruleIndex": rule_index,
        "level": if fails { "error" } else { "warning" },
        "message": { "text": visible(&text) },
        "partialFingerprints": { "clrscope/v1": format!("{rule}/{}", visible(&finding.name)) },
        "properties": {
            "before": change.before,
            "after": change.after,
            "relative": change.relative,
            "chance": change.chance,
        },
    });
    let function = finding.function.and_then(|at| comparison.functions.get(at as usize));
    if let Some(function) = function {
        let mut location = json!({
            "logicalLocations": [{
                "name": visible(&function.short_name),
                "fullyQualifiedName": visible(&function.name),
                "kind": "function",
            }],
        });
        if let Some(file) = &function.file {
            let mut place = json!({ "artifactLocation": { "uri": uri(file, root) } });
            if let Some(line) = function.line.filter(|line| *line > 0) {
                place["region"] = json!({ "startLine": line });
            }
            location["physicalLocation"] = place;
        }
        result["locations"] = json!([location]);
    }
    result
}

/// A source file as a URI: relative where it is below the root, or where a deterministic build has
/// put `/_/` in the place of the root.
fn uri(file: &str, root: Option<&str>) -> String {
    let file = file.replace('\\', "/");
    let below = |folder: &str| file.strip_prefix(folder)?.strip_prefix('/');
    let root = root.map(|root| root.replace('\\', "/"));
    let relative = root.as_deref().map(|root| root.trim_end_matches('/')).and_then(below);
    let relative = relative.or_else(|| below("/_"));
    match relative {
        Some(relative) => escaped(relative),
        None if file.starts_with('/') => format!("file://{}", escaped(&file)),
        None if file.get(1..3) == Some(":/") => format!("file:///{}", escaped(&file)),
        None => escaped(&file),
    }
}

/// With the letters that URIs do not have as their bytes.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_source_are_relative() {
        assert_eq!(uri("/src/app/A b.cs", Some("/src/app/")), "A%20b.cs");
        assert_eq!(uri("/_/src/A.cs", None), "src/A.cs");
        assert_eq!(uri("/src/application/A.cs", Some("/src/app")), "file:///src/application/A.cs");
        assert_eq!(uri("C:\\src\\A#.cs", Some("C:\\src")), "A%23.cs");
        assert_eq!(uri("C:\\src\\A.cs", None), "file:///C:/src/A.cs");
        assert_eq!(uri("A.cs", Some("/x")), "A.cs");
    }
}
