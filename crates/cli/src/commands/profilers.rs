//! `clrscope profilers`: what can be recorded.

use crate::{console, exit::Code, exit::failure};
use document::{Cell, Document, Section, Table, left};
use profilers::{ParamKind, ProfilerSpec};
use schemars::JsonSchema;
use serde::Serialize;

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
            console::show(&list())?;
        }
        return Ok(Code::Success);
    };
    let spec = profilers::by_id(id).ok_or_else(|| {
        failure(Code::Usage, profilers::SelectionError::UnknownProfiler(id.clone()).to_string())
    })?;
    match args.json {
        true => console::print_json(&describe(spec))?,
        false => console::show(&explain(spec))?,
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

fn list() -> Document {
    let row = |spec: &ProfilerSpec| vec![Cell::text(spec.id), Cell::text(spec.summary)];
    let rows = profilers::PROFILERS.iter().map(|spec| row(spec));
    let mut section = Section::default();
    section.add(Table::new(vec![left("profiler"), left("measures")], rows));
    let mut next = Section::default();
    next.say("`clrscope profilers <PROFILER>` explains one and lists its parameters.");
    Document { sections: vec![section, next] }
}

fn explain(spec: &ProfilerSpec) -> Document {
    let mut section = Section::new(format!("{}: {}", spec.id, spec.summary));
    section.say(spec.description);
    let values: Vec<String> =
        spec.values.iter().map(|value| format!("{} ({})", value.kind, value.unit)).collect();
    section.add(Table::facts([
        ("values", Cell::text(values.join(", "))),
        ("runtimes", Cell::text(format!("{} and newer", since(spec)))),
        ("entry", Cell::text(spec.commands().join(" and "))),
    ]));
    let mut parameters = Section::new(format!("Parameters, written as -p {}:name=value", spec.id));
    if spec.params.is_empty() {
        parameters.title = "It has no parameters.".to_owned();
    } else {
        parameters.add(Table::facts(spec.params.iter().flat_map(|param| {
            let default = if param.default.is_empty() { "none" } else { param.default };
            let values = format!("{}; default {default}", param.kind);
            [(param.name, Cell::text(param.help)), ("", Cell::text(values))]
        })));
    }
    Document { sections: vec![section, parameters] }
}

fn since(spec: &ProfilerSpec) -> String {
    match spec.since {
        3 => ".NET Core 3.1".to_owned(),
        major => format!(".NET {major}"),
    }
}
