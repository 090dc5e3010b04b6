//! `calls`: exact call trees of the methods of a filter.

use profile::{
    Profile, SeriesKind,
    session::{FunctionId, FunctionKind},
};

use super::{
    Cell, Section, Table, View,
    cells::{hot_paths, name},
    is_wanted, left, right,
};
use crate::{Options, format};

pub const VIEW: View =
    View { section, json: None, tab: ("calls", "Calls"), tile: None, rows_of: None };

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Calls);
    is_shown.then(|| calls(profile, options, SeriesKind::Calls))
}

pub fn calls(profile: &Profile, options: &Options, kind: SeriesKind) -> Section {
    let title = if kind == SeriesKind::Calls { "Calls" } else { "Transitions" };
    let mut section = Section::new(title);
    let totals = profile.series(kind).totals;
    if totals.samples == 0 {
        let nothing = match kind {
            SeriesKind::Calls => "No method that matches the filter was called.",
            _ => "Managed and native code did not call each other.",
        };
        section.say(nothing.to_owned());
        return section;
    }
    let what = match kind {
        SeriesKind::Calls => "in methods that match the filter",
        _ => "between managed and native code",
    };
    section.say(format!(
        "{} {what}, every one counted; {} in them. Self is the time in a method without the calls \
         from it that are counted here; it includes the time that counting takes.",
        format::counted(totals.samples, "call"),
        format::duration(totals.weight),
    ));
    // What stands right below native code was called by it.
    let tables = &profile.tables;
    let called_by_native = |stack| {
        let caller =
            tables.parent(stack).map(|caller| tables.function(tables.stack_function(caller)).kind);
        caller == Some(FunctionKind::Native)
    };
    let cells = profile.series(kind).cells.iter().filter(|cell| called_by_native(cell.stack));
    let managed: std::collections::HashSet<FunctionId> =
        cells.map(|cell| tables.stack_function(cell.stack)).collect();
    let rows = profile.top_functions(kind);
    let rows = rows
        .iter()
        .filter(|row| row.own.samples > 0 || row.own.weight > 0)
        .take(options.rows)
        .map(|row| {
            let mean = row.total.weight.checked_div(row.own.samples).unwrap_or_default();
            let into = if managed.contains(&row.function) { "managed" } else { "native" };
            let mut cells =
                if kind == SeriesKind::Transitions { vec![Cell::text(into)] } else { Vec::new() };
            cells.extend([
                Cell::count(row.own.samples),
                Cell::nanoseconds(row.own.weight),
                Cell::share(row.own_share.share),
                Cell::Bar(row.own_share.share),
                Cell::nanoseconds(row.total.weight),
                Cell::nanoseconds(mean),
                name(profile, options, row.function),
            ]);
            cells
        });
    let mut columns = if kind == SeriesKind::Transitions { vec![left("to")] } else { Vec::new() };
    columns.extend([
        right("calls"),
        right("self"),
        right("share"),
        left(""),
        right("total"),
        right("per call"),
        left("method"),
    ]);
    section.add(Table::new(columns, rows));
    section.add(hot_paths(profile, options, profile.series(kind)));
    section
}
