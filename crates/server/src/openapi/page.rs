//! The OpenAPI document as a page for people: docs/api.md.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// What an example is of: the id of an operation, and arguments for `curl` behind what all of them
/// have in common. Names are those of the introduction.
const EXAMPLES: &[(&str, &str)] = &[
    ("processes", r#""$SERVER/processes""#),
    ("process_methods", r#""$SERVER/processes/$PID/methods?search=burn&rows=3""#),
    ("profilers", r#""$SERVER/profilers""#),
    ("presets", r#""$SERVER/presets""#),
    ("formats", r#""$SERVER/formats""#),
    (
        "record",
        r#"-H "$JSON" -d '{"pid":'$PID',"profilers":"cpu,gc,heap","name":"shop"}' "$SERVER/recordings""#,
    ),
    ("recordings", r#""$SERVER/recordings""#),
    ("launch_allowed", r#""$SERVER/launch""#),
    ("recording", r#""$SERVER/recordings/shop""#),
    ("program_output", r#""$SERVER/recordings/shop/output""#),
    ("events", r#"-N "$SERVER/recordings/shop/events""#),
    ("stop", r#"-X DELETE "$SERVER/recordings/shop""#),
    (
        "check_up",
        r#"-H "$JSON" -d '{"pid":'$PID',"duration_seconds":5,"name":"check"}' "$SERVER/checkups""#,
    ),
    (
        "trace_methods",
        r#"-H "$JSON" -d '{"pid":'$PID',"patterns":["Shop.Orders.*"],"dry_run":true,"duration_seconds":2}' "$SERVER/traces""#,
    ),
    ("sessions", r#""$SERVER/sessions""#),
    (
        "upload_session",
        r#"-H "Content-Type: application/octet-stream" --data-binary @shop.clrscope "$SERVER/sessions?name=uploaded""#,
    ),
    ("session", r#""$SERVER/sessions/shop""#),
    (
        "change_session",
        r#"-X PATCH -H "$JSON" -d '{"note":"before the fix"}' "$SERVER/sessions/shop""#,
    ),
    ("delete_session", r#"-X DELETE "$SERVER/sessions/uploaded""#),
    ("file", r#"-o shop.clrscope "$SERVER/sessions/shop/file""#),
    ("document", r#""$SERVER/sessions/shop/document?rows=5""#),
    ("report", r#""$SERVER/sessions/shop/report?format=markdown&profiler=cpu""#),
    ("explore", r#""$SERVER/sessions/shop/explore?last=10""#),
    ("flame", r#"-o flame.bin "$SERVER/sessions/shop/flame?width=1200&rows=40""#),
    ("functions", r#""$SERVER/sessions/shop/functions?sort=total&rows=3""#),
    ("callers", r#""$SERVER/sessions/shop/callers?of=0&rows=3""#),
    ("lines", r#""$SERVER/sessions/shop/explore/lines?of=0&rows=3""#),
    ("stacks", r#""$SERVER/sessions/shop/explore/stacks?rows=3""#),
    ("children", r#""$SERVER/sessions/shop/children?rows=3""#),
    ("timeline", r#"-o timeline.bin "$SERVER/sessions/shop/timeline?width=1200&rows=10""#),
    ("heap", r#""$SERVER/sessions/shop/heap""#),
    ("heap_types", r#""$SERVER/sessions/shop/heap/types?rows=3""#),
    (
        "heap_treemap",
        r#"-o treemap.bin "$SERVER/sessions/shop/heap/treemap?width=1200&height=600""#,
    ),
    ("heap_dominated", r#""$SERVER/sessions/shop/heap/dominated?rows=3""#),
    ("heap_growth", r#""$SERVER/sessions/shop/heap/growth?rows=3""#),
    ("heap_paths", r#""$SERVER/sessions/shop/heap/paths?type=0""#),
    ("compare", r#"-H "$JSON" -d '{"before":"shop","after":"check"}' "$SERVER/compare""#),
    ("compare_overview", r#""$SERVER/compare/overview?before=shop&after=check""#),
    (
        "compare_flame",
        r#"-o differences.bin "$SERVER/compare/flame?before=shop&after=check&width=1200&rows=40""#,
    ),
    ("compare_children", r#""$SERVER/compare/children?before=shop&after=check&rows=3""#),
    ("compare_functions", r#""$SERVER/compare/functions?before=shop&after=check&rows=3""#),
    ("compare_types", r#""$SERVER/compare/types?before=shop&after=check&rows=3""#),
];

const INTRODUCTION: &str = r#"# Requests of the server

Every request that `clrscope serve` answers, with parameters, answers, errors and an example. This
page is written by `cargo xtask docs`, from the OpenAPI document that the server sends at
`/api/v1/openapi.json`. Generators of clients read that document. [server.md](server.md) explains
how the requests are used together.

All examples need these lines first. [server.md](server.md#getting-in) says how to make the token
file.

```sh
SERVER=http://127.0.0.1:8421/api/v1
TOKEN=$(cat ~/.clrscope-token)
PID=1234   # a process of `clrscope ps`
JSON="Content-Type: application/json"
api() { curl --fail-with-body -sS -H "Authorization: Bearer $TOKEN" "$@"; }
```

What fails is answered with a status of 400 or more and a [Problem](#problem): the cause and the
next step.

| status | when |
|---|---|
| 400 | a name, a parameter or the body is wrong |
| 401 | there is no valid token and no valid cookie |
| 403 | the request is for another host name, or comes from a page of another origin |
| 404 | there is no such process, recording or session |
| 408, 413, 415 | the body did not come in time, is too large, or is of another media type |
| 409 | it is in conflict with what happens now: the process is being recorded, the session is being written, the name is in use |
| 422 | the session is damaged, or does not have what was asked for |
| 501 | this machine cannot do it |
| 503 | there is too much to do: try again in some seconds |
"#;

/// The whole page.
///
/// # Errors
/// Which operation has no example, or an example no operation.
pub fn page(document: &Value) -> Result<String, String> {
    let mut page = INTRODUCTION.to_owned();
    let mut operations = Vec::new();
    for (path, methods) in object(&document["paths"]) {
        for (method, operation) in object(methods) {
            operations.push((path.as_str(), method.as_str(), operation));
        }
    }
    let known = |id: &str| operations.iter().any(|(.., of)| of["operationId"] == id);
    if let Some((id, _)) = EXAMPLES.iter().find(|(id, _)| !known(id)) {
        return Err(format!("the example `{id}` is of no operation"));
    }
    let mut last = "";
    for (path, method, operation) in operations {
        let short = path.trim_start_matches(super::PREFIX);
        let subject = short.split('/').nth(1).unwrap_or_default();
        if subject != last {
            let _ = write!(page, "\n## {}\n", capitalized(subject));
            last = subject;
        }
        describe(&mut page, short, method, operation)?;
    }
    page.push_str(
        "\n## Types\nA field of an answer is always there, unless it is called optional.\n",
    );
    for (name, schema) in object(&document["components"]["schemas"]) {
        let _ = write!(page, "\n### {name}\n");
        type_of(&mut page, schema);
    }
    Ok(page)
}

fn describe(page: &mut String, path: &str, method: &str, operation: &Value) -> Result<(), String> {
    let id = text(&operation["operationId"]);
    let _ = write!(page, "\n### {} {path}\n", method.to_uppercase());
    let _ = writeln!(page, "{}.", text(&operation["summary"]));
    let more = text(&operation["description"]);
    if !more.is_empty() {
        let _ = write!(page, "\n{more}\n");
    }
    let parameters = list(&operation["parameters"]);
    if !parameters.is_empty() {
        page.push_str("\n| parameter | values | |\n|---|---|---|\n");
    }
    for own in parameters {
        let place = if own["in"] == "path" { " (in the path)" } else { "" };
        let (name, values) = (text(&own["name"]), kind(&own["schema"]));
        row(page, &[&format!("`{name}`{place}"), &values, &text(&own["description"])]);
    }
    for (media, content) in object(&operation["requestBody"]["content"]) {
        let schema = &content["schema"];
        let of = if schema.is_null() { String::new() } else { format!(": {}", kind(schema)) };
        let _ = write!(page, "\nBody: `{media}`{of}.\n");
    }
    page.push_str("\n| status | answer |\n|---|---|\n");
    let mut failures = Vec::new();
    for (status, response) in object(&operation["responses"]) {
        if status.starts_with('2') {
            row(page, &[status, &answer(response)]);
        } else {
            failures.push(status.as_str());
        }
    }
    row(page, &[&failures.join(", "), "[Problem](#problem)"]);
    let example = EXAMPLES.iter().find(|(own, _)| *own == id);
    let (_, example) = example.ok_or_else(|| {
        format!("`{id}` has no example: add one in crates/server/src/openapi/page.rs")
    })?;
    let _ = write!(page, "\n```sh\napi {example}\n```\n");
    Ok(())
}

/// What is sent if all goes well.
fn answer(response: &Value) -> String {
    let mut said = text(&response["description"]);
    for (media, content) in object(&response["content"]) {
        let schema = &content["schema"];
        let of = if schema.is_null() { String::new() } else { format!(": {}", kind(schema)) };
        let _ = write!(said, " `{media}`{of}.");
    }
    said
}

/// What a type is: its description, and its fields or values.
fn type_of(page: &mut String, schema: &Value) {
    let about = text(&schema["description"]);
    if !about.is_empty() {
        let _ = writeln!(page, "{about}");
    }
    if schema["properties"].is_object() {
        fields(page, schema);
        return;
    }
    let ways: Vec<&Value> =
        ["oneOf", "anyOf"].iter().flat_map(|name| list(&schema[*name])).collect();
    if ways.is_empty() {
        let _ = write!(page, "\n{}.\n", capitalized(&kind(schema)));
        return;
    }
    page.push_str("\nOne of:\n");
    for way in ways {
        let about = text(&way["description"]);
        let dash = if about.is_empty() { "" } else { ": " };
        let is_object = way["properties"].is_object();
        let kind = if is_object { "object".to_owned() } else { kind(way) };
        let _ = write!(page, "\n* {kind}{dash}{about}\n");
        if is_object {
            fields(page, way);
        }
    }
}

fn fields(page: &mut String, schema: &Value) {
    let required: Vec<&str> =
        list(&schema["required"]).iter().filter_map(|name| name.as_str()).collect();
    page.push_str("\n| field | type | |\n|---|---|---|\n");
    for (name, field) in object(&schema["properties"]) {
        let optional = if required.contains(&name.as_str()) { "" } else { " (optional)" };
        let about = text(&field["description"]);
        row(page, &[&format!("`{name}`{optional}"), &kind(field), &about]);
    }
}

/// The type of a value, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(only) = schema.get("const") {
        return format!("`{only}`");
    }
    let ways = ["anyOf", "oneOf", "allOf"].iter().flat_map(|name| list(&schema[*name]));
    let mut ways: Vec<String> = ways.map(kind).collect();
    ways.extend(list(&schema["enum"]).iter().map(|value| match value {
        Value::Null => "null".to_owned(),
        Value::String(word) => format!("`{word}`"),
        other => format!("`{other}`"),
    }));
    if ways.is_empty() {
        let one = |name: &Value| of_type(text(name).as_str(), schema);
        ways = match &schema["type"] {
            Value::Array(names) => names.iter().map(one).collect(),
            Value::Null => vec!["any value".to_owned()],
            name => vec![one(name)],
        };
    }
    ways.dedup();
    ways.join(" or ")
}

fn of_type(name: &str, schema: &Value) -> String {
    match name {
        "array" if !list(&schema["prefixItems"]).is_empty() => {
            let all: Vec<String> = list(&schema["prefixItems"]).iter().map(kind).collect();
            format!("list of {}", all.join(", "))
        }
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => match &schema["additionalProperties"] {
            values @ Value::Object(_) => format!("object with values of {}", kind(values)),
            _ => inner(schema),
        },
        "integer" | "number" => range(name, schema),
        _ => name.to_owned(),
    }
}

/// An object that has no name of its own.
fn inner(schema: &Value) -> String {
    let fields = object(&schema["properties"]);
    let all: Vec<String> =
        fields.map(|(name, field)| format!("`{name}` ({})", kind(field))).collect();
    match all.as_slice() {
        [] => "object".to_owned(),
        all => format!("object with {}", all.join(", ")),
    }
}

/// A number, and its range where one is known that says more than its size in memory.
fn range(name: &str, schema: &Value) -> String {
    let least = schema["minimum"].as_f64();
    let most = schema["maximum"].as_f64().filter(|most| *most < f64::from(u32::MAX));
    match (least, most) {
        (Some(least), Some(most)) => format!("{name}, {least} to {most}"),
        (Some(least), None) if least != 0.0 => format!("{name}, at least {least}"),
        _ => name.to_owned(),
    }
}

fn row(page: &mut String, cells: &[&str]) {
    for cell in cells {
        let _ = write!(page, "| {} ", cell.replace('\n', " ").replace('|', "\\|"));
    }
    page.push_str("|\n");
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_the_document_says() {
        let page = crate::api_page().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == kept, "docs/api.md is not up to date: run `cargo xtask docs`");
    }

    #[test]
    fn types_are_said_in_a_few_words() {
        for (json, said) in [
            (r##"{"$ref":"#/components/schemas/Recording"}"##, "[Recording](#recording)"),
            (r#"{"type":["string","null"]}"#, "string or null"),
            (r#"{"type":"array","items":{"type":"number"}}"#, "list of number"),
            (r#"{"enum":["a","b",null]}"#, "`a` or `b` or null"),
            (r#"{"type":"integer","minimum":1,"maximum":1000}"#, "integer, 1 to 1000"),
            (r#"{"type":"integer","minimum":0,"maximum":4294967295}"#, "integer"),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "string or null"),
            (
                r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
                "object with values of string",
            ),
            ("{}", "any value"),
        ] {
            assert_eq!(kind(&serde_json::from_str(json).unwrap()), said, "{json}");
        }
    }
}
