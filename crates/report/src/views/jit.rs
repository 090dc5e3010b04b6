//! `jit`: compilations.

mod json;

pub(crate) use json::tier_schema;

use profile::profilers::jit::{JitTier, Lookups, PrecompiledCode};
use profile::session::FunctionKind;
use profile::{JitRow, JitSummary, JitTotals, Profile, SeriesKind, Totals};

use super::cells::{name, place_cell};
use super::{Cell, Section, Table, Tile, View, is_wanted, json_part, left, right};
use crate::{Options, format};
use json::{Json, json};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("jit", Json, json)),
    tab: ("jit", "Compilation"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.jit.compilations.is_empty() && profile.run("jit").is_none() {
        return None;
    }
    let summary = profile.jit_summary();
    let waited = format::duration(summary.blocking.totals.weight);
    let compiled = format::counted(summary.all.totals.samples, "method");
    let background = format::count(summary.background.totals.samples);
    let note = format!("{compiled} compiled, {background} in the background");
    Some(Tile::new("Waited for compilation", waited).note(note))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Jit);
    is_shown.then(|| jit(profile, options))
}

/// Word for a tier of compilation.
pub fn tier_word(tier: JitTier) -> &'static str {
    match tier {
        JitTier::Unknown => "unknown",
        JitTier::MinOpt => "not optimized",
        JitTier::Optimized => "optimized at once",
        JitTier::Quick => "tier 0",
        JitTier::Tier1 => "tier 1",
        JitTier::Tier1Osr => "tier 1 in a loop (OSR)",
        JitTier::QuickInstrumented => "tier 0 instrumented",
        JitTier::Tier1Instrumented => "tier 1 instrumented",
    }
}

/// Word for what became of precompiled code; empty where there is nothing to say.
pub fn precompiled_word(precompiled: PrecompiledCode) -> &'static str {
    match precompiled {
        PrecompiledCode::NotSought => "",
        PrecompiledCode::Missing => "not in the image",
        PrecompiledCode::Rejected => "refused",
        PrecompiledCode::RejectedByProfiler => "refused by a profiler",
    }
}

/// Parts of a line over the time of the recording.
const LINE_PARTS: usize = 48;

fn jit(profile: &Profile, options: &Options) -> Section {
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    let mut section = Section::new("Compilation");
    let is_any = summary.all.totals.samples > 0;
    section.say(match is_any {
        true => totals(profile, &summary),
        false => "No method was compiled.".to_owned(),
    });
    section.lead.extend(precompiled(&lookups));
    if !is_any {
        return section;
    }
    section.lead.extend(among_them(&summary, &lookups));
    let rows = profile.jit_rows();
    section.add(tiers(&summary));
    section.add(over_time(profile));
    section.extend(expensive(profile, options, &rows));
    section.extend(again(profile, options, &rows));
    section.extend(not_precompiled(profile, options, &rows));
    section.extend(threads(profile, options, &summary));
    section
}

fn precompiled(lookups: &Lookups) -> Option<String> {
    if lookups.found + lookups.missing == 0 {
        return None;
    }
    let took = if lookups.duration > 0 {
        format!(", found in {}", format::duration(lookups.duration))
    } else {
        String::new()
    };
    Some(format!(
        "Precompiled code was used for {}{took}; {} had none that could be used.",
        format::counted(lookups.found, "method"),
        format::count(lookups.missing),
    ))
}

/// How many compilations took how long.
fn number_and_time(sums: &JitTotals) -> String {
    match sums.totals.samples {
        0 => "none".to_owned(),
        samples => {
            format!("{} in {}", format::count(samples), format::duration(sums.totals.weight))
        }
    }
}

fn totals(profile: &Profile, summary: &JitSummary) -> String {
    let main = summary
        .by_thread
        .iter()
        .find(|(thread, _)| profile.tables.threads[thread.index()].os_tid == profile.info.pid);
    let of_main = main
        .map(|(_, sums)| format!(", {} of it on the main thread", format::duration(sums.weight)));
    format!(
        "{} in {}, {} on average over the recording; threads waited for {}{}; in the background \
         {}. {} of IL became {} of code.",
        format::counted(summary.all.totals.samples, "compilation"),
        format::duration(summary.all.totals.weight),
        format::rate(summary.all.totals.samples as f64 / (profile.duration().max(1) as f64 / 1e9)),
        number_and_time(&summary.blocking),
        of_main.unwrap_or_default(),
        number_and_time(&summary.background),
        format::bytes(summary.all.il),
        format::bytes(summary.all.native),
    )
}

fn among_them(summary: &JitSummary, lookups: &Lookups) -> Option<String> {
    let kinds = [
        (&summary.again, "of methods that had been compiled before"),
        (&summary.missing, "although their module is precompiled"),
        (&summary.rejected, "because precompiled code was refused"),
        (&summary.dynamic, "of dynamic methods"),
        (&summary.stubs, "of stubs"),
    ];
    let kinds = kinds.into_iter().filter(|(sums, _)| sums.totals.samples > 0);
    let mut parts: Vec<String> =
        kinds.map(|(sums, what)| format!("{} {what}", number_and_time(sums))).collect();
    if summary.untimed > 0 {
        parts.push(format!("{} whose beginning was not seen", format::count(summary.untimed)));
    }
    if lookups.freed > 0 {
        parts.push(format!("code of {} was freed", format::counted(lookups.freed, "method")));
    }
    (!parts.is_empty()).then(|| format!("Among them {}.", parts.join(", ")))
}

fn sizes(sums: &JitTotals) -> [Cell; 2] {
    [Cell::bytes(sums.il), Cell::bytes(sums.native)]
}

fn tiers(summary: &JitSummary) -> Table {
    let all = summary.all.totals.weight.max(1) as f64;
    let rows = summary.tiers.iter().map(|(tier, sums)| {
        let mut row = vec![
            Cell::count(sums.totals.samples),
            Cell::nanoseconds(sums.totals.weight),
            Cell::share(sums.totals.weight as f64 / all),
        ];
        row.extend(sizes(sums));
        row.push(Cell::text(tier_word(*tier)));
        row
    });
    let columns = vec![
        right("methods"),
        right("time"),
        right("share"),
        right("IL"),
        right("code"),
        left("tier"),
    ];
    Table::new(columns, rows)
}

fn over_time(profile: &Profile) -> Table {
    let over_time = profile.jit_over_time(LINE_PARTS);
    let line = |value: fn(&Totals) -> u64| {
        Cell::Line(over_time.iter().map(|part| value(part) as f64).collect())
    };
    let part = profile.duration().max(1) as f64 / 1e9 / LINE_PARTS as f64;
    let most = over_time.iter().map(|part| part.samples).max().unwrap_or(0);
    let longest = over_time.iter().map(|part| part.weight).max().unwrap_or(0) as f64 / 1e9 / part;
    let rows = vec![
        vec![
            line(|part| part.samples),
            Cell::per_second(most as f64 / part),
            Cell::text("methods compiled"),
        ],
        vec![
            line(|part| part.weight),
            Cell::text(format!("{longest:.2}")),
            Cell::text("threads that compile"),
        ],
    ];
    Table::new(vec![left("over time"), right("peak"), left("of")], rows)
}

fn method(profile: &Profile, options: &Options, row: &JitRow) -> Cell {
    let Cell::Name { forms, .. } = name(profile, options, row.function) else {
        return Cell::text("");
    };
    let more = if row.methods > 1 {
        format!(" ({} of them)", format::count(row.methods))
    } else {
        String::new()
    };
    Cell::Name { forms: forms.into_iter().map(|form| form + &more).collect(), place: None }
}

/// The tiers that a method was compiled to, and how often.
fn tier_words(row: &JitRow) -> Cell {
    let tier = |(tier, count): &(JitTier, u64)| match count {
        1 => tier_word(*tier).to_owned(),
        count => format!("{count} × {}", tier_word(*tier)),
    };
    Cell::text(row.tiers.iter().map(tier).collect::<Vec<_>>().join(", "))
}

fn expensive(profile: &Profile, options: &Options, rows: &[JitRow]) -> Option<Table> {
    let rows = rows.iter().take(options.rows).map(|row| {
        let mut cells = vec![
            Cell::nanoseconds(row.sums.totals.weight),
            Cell::nanoseconds(row.blocking),
            Cell::nanoseconds(row.longest),
        ];
        cells.extend(sizes(&row.sums));
        let caller = match &row.called_at {
            Some(place) => place_cell(profile, options, place, ""),
            None => Cell::Nothing,
        };
        cells.extend([tier_words(row), method(profile, options, row), caller]);
        cells
    });
    let columns = vec![
        right("time"),
        right("waited"),
        right("longest"),
        right("IL"),
        right("code"),
        left("tier"),
        left("method"),
        left("mostly for a call in"),
    ];
    Table::of(columns, rows)
}

fn again(profile: &Profile, options: &Options, rows: &[JitRow]) -> Option<Table> {
    let mut again: Vec<&JitRow> = rows.iter().filter(|row| row.most > 1).collect();
    order::sort_by_key(&mut again, |row| {
        (std::cmp::Reverse((row.most, row.sums.totals.weight)), row.function)
    });
    let rows = again.iter().take(options.rows.min(10)).map(|row| {
        vec![
            Cell::count(row.most),
            Cell::nanoseconds(row.sums.totals.weight),
            tier_words(row),
            method(profile, options, row),
        ]
    });
    let columns = vec![right("times"), right("time"), left("tiers"), left("most often compiled")];
    Table::of(columns, rows)
}

/// Methods whose module is precompiled, and which were compiled nevertheless.
fn not_precompiled(profile: &Profile, options: &Options, rows: &[JitRow]) -> Option<Table> {
    let without = rows.iter().filter(|row| {
        row.precompiled != PrecompiledCode::NotSought
            && profile.tables.function(row.function).kind == FunctionKind::Managed
    });
    let rows = without.take(options.rows.min(10)).map(|row| {
        let module = profile.tables.function_module(row.function).unwrap_or("not known");
        vec![
            Cell::nanoseconds(row.sums.totals.weight),
            Cell::text(precompiled_word(row.precompiled)),
            Cell::text(module),
            method(profile, options, row),
        ]
    });
    let columns = vec![right("time"), left("precompiled code"), left("module"), left("method")];
    Table::of(columns, rows)
}

fn threads(profile: &Profile, options: &Options, summary: &JitSummary) -> Option<Table> {
    let several = summary.by_thread.iter().filter(|_| summary.by_thread.len() > 1);
    let rows = several.take(options.rows.min(8)).map(|(thread, sums)| {
        vec![
            Cell::nanoseconds(sums.weight),
            Cell::count(sums.samples),
            Cell::text(profile.tables.thread_name(*thread)),
        ]
    });
    Table::of(vec![right("waited"), right("methods"), left("thread")], rows)
}
