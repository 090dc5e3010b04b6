//! Tables that no profiler here knows: such as those of a later version, or of a profiler that is
//! no part of clrscope.

use profile::{
    NameStyle, OtherTable, Profile,
    rows::{AnyCell, Kind},
    session::{FunctionId, StackId, ThreadId, TypeId},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Cell, Column, Section, Table, Unit,
    cells::{name, type_name},
    is_viewed, left, right,
};
use crate::{Options, json::values::since};

/// A section for each table that has rows.
pub fn sections(profile: &Profile, options: &Options) -> Vec<Section> {
    if options.series.is_some() {
        return Vec::new();
    }
    tables(profile).map(|other| section(profile, options, other)).collect()
}

/// Tables that have rows and no view.
fn tables(profile: &Profile) -> impl Iterator<Item = &OtherTable> {
    let others = profile.other_tables.iter();
    others.filter(|other| !other.is_empty() && !is_viewed(&other.table.profiler))
}

fn section(profile: &Profile, options: &Options, other: &OtherTable) -> Section {
    let table = &other.table;
    let mut section = Section::new(format!("{}: {}", table.profiler, table.name));
    if !table.summary.is_empty() {
        section.say(table.summary.as_str());
    }
    let columns: Vec<Column> = table
        .columns
        .iter()
        .map(|column| {
            let title = column.name.replace('_', " ");
            if is_number(&column.kind) { right(title) } else { left(title) }
        })
        .collect();
    let rows = other.rows().map(|row| {
        let kinds = table.columns.iter().map(|column| &column.kind);
        kinds.zip(&row).map(|(kind, value)| cell(profile, options, kind, value)).collect()
    });
    section.add(Table::top(columns, rows, options.rows));
    section
}

fn is_number(kind: &Kind) -> bool {
    match kind {
        Kind::Time | Kind::Duration | Kind::Count | Kind::Bytes | Kind::Number | Kind::Real => true,
        Kind::Optional(kind) => is_number(kind),
        _ => false,
    }
}

fn cell(profile: &Profile, options: &Options, kind: &Kind, value: &AnyCell<'_>) -> Cell {
    let tables = &profile.tables;
    match (kind, value) {
        (Kind::Optional(kind), value) => cell(profile, options, kind, value),
        (Kind::List(kind), AnyCell::List(values)) => {
            let values = values.iter().map(|value| cell(profile, options, kind, value).shown());
            Cell::text(values.collect::<Vec<_>>().join(", "))
        }
        (_, AnyCell::Nothing | AnyCell::List(_)) => Cell::Nothing,
        (_, AnyCell::Real(value)) => Cell::quantity(*value, Unit::Number),
        (_, AnyCell::Text(text)) => Cell::text(*text),
        (Kind::Time, AnyCell::Whole(time)) => {
            Cell::text(format!("{:.3} s", since(profile, *time) as f64 / 1e9))
        }
        (Kind::Duration, AnyCell::Whole(time)) => Cell::nanoseconds(*time),
        (Kind::Bytes, AnyCell::Whole(bytes)) => Cell::bytes(*bytes),
        (Kind::Number, AnyCell::Whole(number)) => Cell::text(format!("{number:#x}")),
        (Kind::Flag, AnyCell::Whole(flag)) => Cell::text(if *flag == 0 { "no" } else { "yes" }),
        (Kind::Thread, AnyCell::Whole(id)) => Cell::text(tables.thread_name(ThreadId(*id as u32))),
        (Kind::Function, AnyCell::Whole(id)) => name(profile, options, FunctionId(*id as u32)),
        (Kind::Stack, AnyCell::Whole(id)) => {
            name(profile, options, tables.stack_function(StackId(*id as u32)))
        }
        (Kind::Type, AnyCell::Whole(id)) => type_name(profile, TypeId(*id as u32)),
        (Kind::Word(words), AnyCell::Whole(word)) => {
            words.get(*word as usize).map_or(Cell::Nothing, Cell::text)
        }
        (_, AnyCell::Whole(count)) => Cell::count(*count),
    }
}

/// A table of a profiler that this version does not know.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OtherTable")]
pub struct TableJson<'a> {
    /// Id of the profiler.
    profiler: &'a str,
    name: &'a str,
    /// What a row is.
    summary: &'a str,
    columns: Vec<ColumnJson<'a>>,
    /// A value for each column: times are nanoseconds since the start of the recording; of threads,
    /// functions, stacks and types, the names.
    rows: Vec<Vec<Value>>,
}

/// A column of such a table.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OtherColumn")]
struct ColumnJson<'a> {
    name: &'a str,
    /// What it means.
    summary: &'a str,
}

/// All tables that have rows.
pub fn json(profile: &Profile) -> Vec<TableJson<'_>> {
    tables(profile).map(|other| table_json(profile, other)).collect()
}

fn table_json<'a>(profile: &Profile, other: &'a OtherTable) -> TableJson<'a> {
    let table = &other.table;
    let columns = table.columns.iter();
    let rows = other.rows().map(|row| {
        let kinds = table.columns.iter().map(|column| &column.kind);
        kinds.zip(&row).map(|(kind, value)| value_json(profile, kind, value)).collect()
    });
    TableJson {
        profiler: &table.profiler,
        name: &table.name,
        summary: &table.summary,
        columns: columns
            .map(|column| ColumnJson { name: &column.name, summary: &column.summary })
            .collect(),
        rows: rows.collect(),
    }
}

fn value_json(profile: &Profile, kind: &Kind, value: &AnyCell<'_>) -> Value {
    let tables = &profile.tables;
    match (kind, value) {
        (Kind::Optional(kind), value) => value_json(profile, kind, value),
        (Kind::List(kind), AnyCell::List(values)) => {
            values.iter().map(|value| value_json(profile, kind, value)).collect()
        }
        (_, AnyCell::Nothing | AnyCell::List(_)) => Value::Null,
        (_, AnyCell::Real(value)) => json!(value),
        (_, AnyCell::Text(text)) => json!(text),
        (Kind::Time, AnyCell::Whole(time)) => json!(since(profile, *time)),
        (Kind::Flag, AnyCell::Whole(flag)) => json!(*flag != 0),
        (Kind::Thread, AnyCell::Whole(id)) => json!(tables.thread_name(ThreadId(*id as u32))),
        (Kind::Function, AnyCell::Whole(id)) => {
            json!(tables.function_name(FunctionId(*id as u32), NameStyle::FULL))
        }
        (Kind::Stack, AnyCell::Whole(id)) => {
            let function = tables.stack_function(StackId(*id as u32));
            json!(tables.function_name(function, NameStyle::FULL))
        }
        (Kind::Type, AnyCell::Whole(id)) => json!(tables.ty(TypeId(*id as u32)).name),
        (Kind::Word(words), AnyCell::Whole(word)) => json!(words.get(*word as usize)),
        (_, AnyCell::Whole(number)) => json!(number),
    }
}
