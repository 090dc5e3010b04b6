//! `clrscope schema`: what `--json` prints, as JSON Schema.

use crate::{
    commands::{deadlocks, heap::Heap, il, report::SNAPSHOT_PARTS},
    console,
    exit::{Code, failure},
    newrelic, stacks, tasks, traced, validated,
};
use api::live::View;
use document::{Cell, Document, Section, Table, left};
use schemars::{JsonSchema, Schema};

/// List what can be printed as JSON, or print the JSON Schema of it
///
/// The schemas are made from the types that are printed. They are of the draft 2020-12. A key may
/// be added in a later version; a key that changes its meaning or goes away changes the version
/// that the output itself contains.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print the schema of this output
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// What a command prints as JSON.
struct Output {
    /// The command.
    name: &'static str,
    /// With its options.
    printed_by: &'static str,
    schema: fn() -> Schema,
}

macro_rules! outputs {
    ($($name:literal $printed_by:literal $schema:expr;)*) => {
        /// Everything that is printed as JSON.
        const OUTPUTS: &[Output] =
            &[$(Output { name: $name, printed_by: $printed_by, schema: $schema },)*];
    };
}

outputs! {
    "ps" "clrscope ps --json" report::schema_of::<Vec<api::Process<'_>>>;
    "profilers" "clrscope profilers [PROFILER] --json" report::schema_of::<Profilers>;
    "record" "clrscope record --json" report::schema_of::<api::SummaryJson<'_>>;
    "launch" "clrscope launch --json" report::schema_of::<api::SummaryJson<'_>>;
    "report" "clrscope report --json" report_schema;
    "events" "clrscope report --format events, each line" report::events_schema;
    "checkup" "clrscope checkup --json" report::checkup_schema;
    "top" "clrscope top --json, each line" report::schema_of::<View>;
    "heap" "clrscope heap --json" report::schema_of::<Heap>;
    "leaks" "clrscope leaks --json" report::schema_of::<::heap::LeakReport>;
    "async" "clrscope async --json" report::schema_of::<tasks::report::Report>;
    "stacks" "clrscope stacks --json" report::schema_of::<stacks::report::Report>;
    "deadlocks" "clrscope deadlocks --json" report::schema_of::<deadlocks::Output<'_>>;
    "trace" "clrscope trace --json" report::schema_of::<traced::report::Report>;
    "il" "clrscope il --json" report::schema_of::<Il>;
    "compare" "clrscope compare --json" report::schema_of::<compare::Comparison>;
    "validate" "clrscope validate --json" report::schema_of::<validated::report::Report<'_>>;
    "newrelic" "clrscope newrelic check --json" report::schema_of::<newrelic::Report>;
}

/// A report can contain what heap snapshots say.
fn report_schema() -> Schema {
    let parts = SNAPSHOT_PARTS.iter().map(|part| (part.profiler, part.schema));
    report::report_schema(&parts.collect::<Vec<_>>())
}

/// All profilers, or the one that was named.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is needed")]
enum Profilers {
    All(Vec<api::Profiler>),
    One(api::Profiler),
}

/// A list of methods, or what `--verify` found.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is needed")]
enum Il {
    Listed(il::Listed<'static>),
    Verified(il::Verified<'static>),
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let Some(name) = &args.name else {
        let row = |output: &Output| vec![Cell::text(output.name), Cell::text(output.printed_by)];
        let mut section = Section::default();
        section.add(Table::new(vec![left("name"), left("printed by")], OUTPUTS.iter().map(row)));
        let mut next = Section::default();
        next.say("`clrscope schema <NAME>` prints its JSON Schema.");
        console::show(&Document { sections: vec![section, next] })?;
        return Ok(Code::Success);
    };
    let output = OUTPUTS.iter().find(|output| output.name == name).ok_or_else(|| {
        let names: Vec<&str> = OUTPUTS.iter().map(|output| output.name).collect();
        let message =
            format!("there is no output with the name `{name}`; there are {}", names.join(", "));
        failure(Code::Usage, message)
    })?;
    let mut schema = (output.schema)();
    schema.insert("title".to_owned(), output.printed_by.into());
    console::print_json(&schema)?;
    Ok(Code::Success)
}
