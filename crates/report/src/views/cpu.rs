//! `cpu`: where processor time goes.

use std::cmp::Reverse;

use profile::{NameStyle, Profile, Recent, SeriesKind, session::FunctionKind};

use super::{
    Cell, Section, Tile, Unit, View,
    cells::{estimate, heaviest_lines, hot_paths, methods, name, with_place},
    is_wanted, left, right,
};
use crate::{
    Options, format,
    pane::{Detail, Pane, PaneContent, PaneOptions, ThreadChoice},
};

pub const VIEW: View =
    View { section, json: None, tab: ("cpu", "CPU"), tile: Some(tile), rows_of: None };

pub const PANE: Pane = Pane {
    title: "Methods",
    headline,
    color: Some(2),
    legend: &[],
    thread_choice: ThreadChoice::Obeys,
    content,
};

fn headline(recent: &Recent) -> Vec<(&'static str, Cell)> {
    let samples = Cell::count(recent.profile.cpu.totals.samples);
    vec![
        ("CPU", Cell::quantity(recent.cpu, Unit::WholePercent)),
        ("", Cell::Line(recent.cpu_history.clone())),
        ("samples", samples),
    ]
}

fn content(recent: &Recent, options: &PaneOptions) -> PaneContent {
    let of_thread = options.thread.map(|thread| recent.cpu_of(thread));
    let profile = of_thread.as_ref().unwrap_or(&recent.profile);
    let report = options.report();
    let mut functions = profile.top_functions(SeriesKind::Cpu);
    if options.by_total {
        order::sort_by_key(&mut functions, |row| Reverse((row.total.weight, row.own.weight)));
    }
    let lines = heaviest_lines(profile, &profile.cpu);
    let tables = &profile.tables;
    let mut content = PaneContent::default();
    for row in functions {
        let name = name(profile, &report, row.function);
        let name = with_place(name, profile, &report, lines[row.function.index()]);
        content.table.rows.push(vec![
            estimate(&row.own_share),
            Cell::share(row.total_share.share),
            Cell::nanoseconds(row.own.weight),
            if tables.is_managed(row.function) { name } else { name.weak() },
        ]);
        let name = tables.function_name(row.function, NameStyle::FULL);
        let text = match tables.function_module(row.function) {
            Some(module) => format!("{name}  [{module}]"),
            None => name,
        };
        content.details.push(Detail { text, thread: None });
    }
    if content.table.rows.is_empty() {
        content.section.say("No CPU time was used in this window.");
        return content;
    }
    let (own, total) = if options.by_total { ("self", "total ▼") } else { ("self ▼", "total") };
    content.table.columns = vec![
        right(own).at_least(13),
        right(total).at_least(7),
        right("self time").at_least(9),
        left("method"),
    ];
    content
}

fn tile(profile: &Profile) -> Option<Tile> {
    let totals = profile.cpu.totals;
    if profile.cpu.is_empty() {
        return None;
    }
    let busy = totals.weight as f64 / profile.duration().max(1) as f64;
    let tile = Tile::new("Processors busy", format!("{busy:.2}"));
    let (time, samples) =
        (format::duration(totals.weight), format::counted(totals.samples, "sample"));
    Some(tile.more(format!("of {}", profile.info.cpus)).note(format!("{time} in {samples}")))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Cpu);
    is_shown.then(|| cpu(profile, options))
}

fn cpu(profile: &Profile, options: &Options) -> Section {
    let series = &profile.cpu;
    let busy = series.totals.weight as f64 / profile.duration().max(1) as f64;
    let mut section = Section {
        title: "CPU".to_owned(),
        lead: vec![format!(
            "{} of processor time: {busy:.2} of {} busy. ± is the 95 % interval in points.",
            format::duration(series.totals.weight),
            format::counted(profile.info.cpus.into(), "processor"),
        )],
        ..Section::default()
    };
    if series.is_empty() {
        section.lead = vec!["No samples: no thread was seen on a processor.".to_owned()];
        return section;
    }
    let functions = profile.top_functions(SeriesKind::Cpu);
    section.add(methods(profile, options, series, &functions));

    let kinds = by_kind(profile, &functions);
    if kinds.len() > 1 {
        let text: Vec<_> = kinds
            .iter()
            .map(|(word, share)| format!("{} {word}", format::percent(*share)))
            .collect();
        section.say(format!("By kind: {}.", text.join(", ")));
    }
    section.add(hot_paths(profile, options, series));
    section
}

/// Shares of the kinds of functions by their own weight, greatest first.
fn by_kind(profile: &Profile, functions: &[profile::FunctionTotals]) -> Vec<(&'static str, f64)> {
    let mut kinds: Vec<(&'static str, f64)> = Vec::new();
    for row in functions {
        let word = match profile.tables.function(row.function).kind {
            FunctionKind::Managed => "managed code",
            FunctionKind::Dynamic => "code made at run time",
            FunctionKind::Stub => "stubs",
            FunctionKind::Native => "native code",
            FunctionKind::Runtime => "the runtime",
            FunctionKind::Gc => "garbage collection",
            FunctionKind::Jit => "compilation",
            FunctionKind::Kernel => "the kernel",
            FunctionKind::Unknown => "unknown code",
        };
        match kinds.iter_mut().find(|(known, _)| *known == word) {
            Some((_, share)) => *share += row.own_share.share,
            None => kinds.push((word, row.own_share.share)),
        }
    }
    kinds.retain(|(_, share)| *share >= 0.0005);
    order::sort_by(&mut kinds, |a, b| b.1.total_cmp(&a.1));
    kinds
}
