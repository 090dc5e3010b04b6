//! `clrscope profilers`: what can be recorded.

use crate::{console, exit::Code, exit::failure};
use document::{Cell, Document, Section, Table, left};
use profilers::ProfilerSpec;

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
                &profilers::PROFILERS
                    .iter()
                    .map(|spec| api::Profiler::of(spec))
                    .collect::<Vec<_>>(),
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
        true => console::print_json(&api::Profiler::of(spec))?,
        false => console::show(&explain(spec))?,
    }
    Ok(Code::Success)
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
        ("runtimes", Cell::text(format!("{} and newer", api::since(spec)))),
        ("entry", Cell::text(spec.commands().join(" and "))),
        ("overhead", Cell::text(spec.overhead)),
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
