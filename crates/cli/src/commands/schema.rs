//! `clrscope schema`: what `--json` prints, as JSON Schema.

use crate::{
    console,
    exit::{Code, failure},
};
use anyhow::Context;
use document::{Cell, Document, Section, Table, left};

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
    /// Its JSON Schema, compressed by `build.rs`.
    schema: &'static [u8],
    /// What makes the schema from the type that is printed: for the test below. Such code would be
    /// a megabyte of the program.
    #[cfg(test)]
    made: fn() -> schemars::Schema,
}

macro_rules! outputs {
    ($($name:literal $printed_by:literal $made:expr;)*) => {
        /// Everything that is printed as JSON.
        const OUTPUTS: &[Output] = &[$(Output {
            name: $name,
            printed_by: $printed_by,
            schema: include_bytes!(concat!(env!("OUT_DIR"), "/schemas/", $name, ".lz4")),
            #[cfg(test)]
            made: $made,
        }),*];
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
    "top" "clrscope top --json, each line" report::schema_of::<api::live::View>;
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
    let schema = lz4_flex::block::decompress_size_prepended(output.schema)
        .context("the program's copy of the schema is damaged")?;
    console::print(&String::from_utf8_lossy(&schema))?;
    Ok(Code::Success)
}

#[cfg(test)]
use tests::{
    Heap, Il, Profilers, deadlocks, newrelic, report_schema, stacks, tasks, traced, validated,
};

#[cfg(test)]
mod tests {
    use super::OUTPUTS;
    use crate::commands::{il, report::SNAPSHOT_PARTS};
    pub(super) use crate::{
        commands::{deadlocks, heap::Heap},
        newrelic, stacks, tasks, traced, validated,
    };
    use schemars::{JsonSchema, Schema};

    /// All profilers, or the one that was named.
    #[derive(JsonSchema)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "only its schema is needed")]
    pub enum Profilers {
        All(Vec<api::Profiler>),
        One(api::Profiler),
    }

    /// A list of methods, or what `--verify` found.
    #[derive(JsonSchema)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "only its schema is needed")]
    pub enum Il {
        Listed(il::Listed<'static>),
        Verified(il::Verified<'static>),
    }

    /// A report can contain what heap snapshots say.
    pub fn report_schema() -> Schema {
        let parts = SNAPSHOT_PARTS.iter().map(|part| (part.profiler, part.schema));
        report::report_schema(&parts.collect::<Vec<_>>())
    }

    #[test]
    fn each_schema_is_that_of_its_type() {
        for output in OUTPUTS {
            let mut schema = (output.made)();
            schema.insert("title".to_owned(), output.printed_by.into());
            let text = document::plain::json_pretty(&schema).unwrap() + "\n";
            testkit::check_kept(&format!("crates/cli/schemas/{}.json", output.name), &text);
        }
    }
}
