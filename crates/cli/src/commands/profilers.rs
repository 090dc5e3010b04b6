//! `clrscope profilers`: what can be recorded.

use crate::{console, exit::Code, exit::failure};
use profilers::{ParamKind, ProfilerSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;

/// List what can be recorded, or explain one profiler
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Explain this profiler
    #[arg(value_name = "PROFILER")]
    id: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let Some(id) = &args.id else {
        if args.json {
            console::print_json(
                &profilers::PROFILERS.iter().map(|spec| describe(spec)).collect::<Vec<_>>(),
            )?;
        } else {
            console::print(&list())?;
        }
        return Ok(Code::Success);
    };
    let spec = profilers::by_id(id).ok_or_else(|| {
        failure(Code::Usage, profilers::SelectionError::UnknownProfiler(id.clone()).to_string())
    })?;
    match args.json {
        true => console::print_json(&describe(spec))?,
        false => console::print(&explain(spec))?,
    }
    Ok(Code::Success)
}

/// A profiler in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Profiler {
    id: &'static str,
    summary: &'static str,
    description: &'static str,
    since: String,
    attach: bool,
    values: Vec<Value>,
    params: Vec<Param>,
}

#[derive(Serialize, JsonSchema)]
struct Value {
    kind: &'static str,
    unit: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct Param {
    name: &'static str,
    help: &'static str,
    default: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'static [&'static str]>,
}

fn describe(spec: &ProfilerSpec) -> Profiler {
    Profiler {
        id: spec.id,
        summary: spec.summary,
        description: spec.description,
        since: since(spec),
        attach: spec.attach,
        values: spec
            .values
            .iter()
            .map(|value| Value { kind: value.kind, unit: value.unit })
            .collect(),
        params: spec
            .params
            .iter()
            .map(|param| {
                let (range, choices) = match param.kind {
                    ParamKind::Number(from, to) => (Some((from, to)), None),
                    ParamKind::Choice(words) => (None, Some(words)),
                    ParamKind::Names => (None, None),
                };
                Param { name: param.name, help: param.help, default: param.default, range, choices }
            })
            .collect(),
    }
}

fn list() -> String {
    let rows: Vec<Vec<String>> = profilers::PROFILERS
        .iter()
        .map(|spec| vec![spec.id.to_owned(), spec.summary.to_owned()])
        .collect();
    let mut text = console::table(&["PROFILER", "MEASURES"], &rows, None);
    text.push_str("\n`clrscope profilers <PROFILER>` explains one and lists its parameters.\n");
    text
}

fn explain(spec: &ProfilerSpec) -> String {
    let description = console::wrapped(spec.description, console::width().unwrap_or(100).min(100));
    let mut text = format!("{}: {}\n\n{description}\n\n", spec.id, spec.summary);
    let values: Vec<String> =
        spec.values.iter().map(|value| format!("{} ({})", value.kind, value.unit)).collect();
    let _ = writeln!(text, "Values:   {}", values.join(", "));
    let _ = writeln!(text, "Runtimes: {} and newer", since(spec));
    let _ = writeln!(text, "Entry:    {}", spec.commands().join(" and "));
    if spec.params.is_empty() {
        text.push_str("\nIt has no parameters.\n");
        return text;
    }
    let _ = writeln!(text, "\nParameters, written as -p {}:name=value", spec.id);
    for param in spec.params {
        let _ = writeln!(text, "  {}  {}", param.name, param.help);
        let default = if param.default.is_empty() { "none" } else { param.default };
        let _ = writeln!(text, "      {}; default {default}", param.kind);
    }
    text
}

fn since(spec: &ProfilerSpec) -> String {
    match spec.since {
        3 => ".NET Core 3.1".to_owned(),
        major => format!(".NET {major}"),
    }
}
