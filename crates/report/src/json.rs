//! The complete profile as JSON; docs/formats.md describes every field, and [`schema`] too.

use std::{collections::BTreeMap, io::Write};

use profile::Profile;
use schemars::{
    JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema,
    transform::RecursiveTransform,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Exporter, Options, ReportError, kinds, views};

mod recording;
mod series;
mod tables;
pub(crate) mod values;

pub use recording::ResourceJson;
use values::sorted;

pub const EXPORTER: Exporter = Exporter {
    id: "json",
    extension: "json",
    summary: "everything, for programs",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

/// Version of the schema in docs/formats.md. It grows when a field changes its meaning or goes
/// away, not when one is added.
const SCHEMA: u32 = 1;

/// A report of a recording. Numbers that stand for a thread, module, function, file, frame, stack
/// or type are indices in the list of that name. Names of times end in `_ns`: these are
/// nanoseconds, and points in time are nanoseconds since the start of the recording, unless their
/// description says otherwise.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Report", title = "clrscope report")]
struct File<'a> {
    #[schemars(extend("const" = "clrscope-profile"))]
    format: &'static str,
    /// Grows when a field changes its meaning or goes away.
    #[schemars(extend("const" = SCHEMA))]
    version: u32,
    #[serde(serialize_with = "sorted")]
    recording: recording::RecordingJson<'a>,
    #[serde(serialize_with = "sorted")]
    threads: Vec<tables::ThreadJson<'a>>,
    modules: Vec<tables::ModuleJson<'a>>,
    #[serde(serialize_with = "sorted")]
    functions: Vec<tables::FunctionJson<'a>>,
    /// Paths of source files.
    files: &'a [String],
    #[serde(serialize_with = "sorted")]
    frames: Vec<tables::FrameJson>,
    stacks: tables::StacksJson,
    /// Names of types.
    types: Vec<&'a str>,
    /// One for each profiler that has samples.
    series: Vec<series::SeriesJson<'a>>,
    #[serde(flatten)]
    views: Views,
    /// What the recording cost and lost so far, by time.
    observer: Vec<recording::ObserverJson<'a>>,
    /// Where `wall` or `threadpool` ran.
    #[serde(serialize_with = "sorted", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "recording::ProcessorUseJson")]
    processor_use: Option<recording::ProcessorUseJson>,
    /// What the agent held in the process. Missing in older recordings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<ResourceJson<'a>>,
    /// Tables of profilers that this version does not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_tables: Vec<views::others::TableJson<'a>>,
    /// What clrscope noticed during the recording.
    #[serde(serialize_with = "sorted")]
    notes: Vec<recording::NoteJson<'a>>,
    #[serde(flatten)]
    snapshots: Snapshots<'a>,
}

/// What the views say, by their keys.
#[derive(Serialize)]
#[serde(transparent)]
struct Views(BTreeMap<&'static str, Value>);

impl JsonSchema for Views {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Views".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let required = views::json_parts().filter(|(_, always)| *always);
        let mut required: Vec<_> = required.map(|(part, _)| part.key).collect();
        required.sort_unstable();
        let schemas = views::json_parts().map(|(part, _)| (part.key, (part.schema)(generator)));
        let properties: BTreeMap<_, _> = schemas.collect();
        json_schema!({ "type": "object", "required": required, "properties": properties })
    }
}

/// What heap snapshots say, in recordings of the profilers that take them.
#[derive(Serialize)]
#[serde(transparent)]
struct Snapshots<'a>(BTreeMap<&'static str, &'a Value>);

impl JsonSchema for Snapshots<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Snapshots".into()
    }

    // `schema` adds what stands here.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// The schema of what the heap snapshots of a profiler say in a report.
pub type SnapshotSchema = fn(&mut SchemaGenerator) -> Schema;

/// The JSON Schema of a report, with that of each [`SnapshotSection`](crate::SnapshotSection) by
/// its id.
pub fn schema(snapshots: &[(&'static str, SnapshotSchema)]) -> Schema {
    let mut generator = generator();
    let snapshots: Vec<_> =
        snapshots.iter().map(|(id, schema)| (*id, schema(&mut generator))).collect();
    let mut report = generator.into_root_schema_for::<File<'_>>();
    let properties = report.ensure_object().entry("properties").or_insert_with(|| json!({}));
    for (id, schema) in snapshots {
        properties[id] = json!({
            "description": "What the heap snapshots show, in recordings of this profiler that are \
                not filtered; null where no snapshot could be read.",
            "anyOf": [schema, { "type": "null" }],
        });
    }
    report
}

/// The JSON Schema (draft 2020-12) of what a type is written as.
pub fn schema_of<T: JsonSchema>() -> Schema {
    generator().into_root_schema_for::<T>()
}

fn generator() -> SchemaGenerator {
    schema_settings().into_generator()
}

/// How schemas of what clrscope writes are made: draft 2020-12, with the comments of types as
/// descriptions.
pub fn schema_settings() -> SchemaSettings {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with_transform(RecursiveTransform(describe))
}

/// Descriptions are doc comments, whose links lead nowhere in a schema.
fn describe(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = without_links(text);
    }
}

/// ``[`Name`](place)`` and ``[`Name`]`` become `` `Name` ``.
fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, name, behind)) = link(rest) {
        plain.extend([before, "`", name, "`"]);
        rest = behind;
    }
    plain + rest
}

/// What stands before the first link, its name, and what stands behind it.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, link) = text.split_once("[`")?;
    let (name, behind) = link.split_once("`]")?;
    let place = behind.strip_prefix('(').and_then(|place| place.split_once(')'));
    Some((before, name, place.map_or(behind, |(_, behind)| behind)))
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let tables = &profile.tables;
    let snapshots = options.snapshots.iter().map(|section| (section.id, &section.json));
    let kinds = kinds(profile, options).into_iter();
    let file = File {
        format: "clrscope-profile",
        version: SCHEMA,
        recording: recording::recording(profile),
        threads: tables::threads(profile),
        modules: tables::modules(tables),
        functions: tables::functions(tables),
        files: &tables.files,
        frames: tables::frames(tables),
        stacks: tables::stacks(tables),
        types: tables.types.iter().map(|ty| ty.name.as_str()).collect(),
        series: kinds.map(|kind| series::series(profile, kind)).collect(),
        views: Views(views::json(profile)),
        observer: recording::observer(profile),
        processor_use: recording::processor_use(profile),
        resources: profile.resources.iter().map(Into::into).collect(),
        other_tables: views::others::json(profile),
        notes: recording::notes(profile),
        snapshots: Snapshots(snapshots.collect()),
    };
    document::plain::write_json(&mut *out, &file)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without_links;

    #[test]
    fn links_of_comments_become_names() {
        let text = "Bytes, see [`Heap`](crate::Heap) and [`Of`].";
        assert_eq!(without_links(text), "Bytes, see `Heap` and `Of`.");
        assert_eq!(without_links("[`Open"), "[`Open");
    }
}
