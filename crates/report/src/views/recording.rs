//! The recording itself: process, runtime, time, profilers.

use profile::{Profile, SeriesKind, session::Entry};

use super::{Cell, Section, Table, Tile, View};
use crate::{Options, format};

pub const VIEW: View =
    View { section, json: None, tab: ("recording", "Recording"), tile: Some(tile), rows_of: None };

fn tile(profile: &Profile) -> Option<Tile> {
    let tile = Tile::new("Recorded", format::duration(profile.duration()));
    Some(tile.note(format::entry(profile.info.entry)))
}

/// What was recorded, where and when.
fn recorded(profile: &Profile) -> Vec<(&str, String)> {
    let info = &profile.info;
    vec![
        ("command", info.command_line.clone()),
        (
            "runtime",
            format!(
                ".NET {} on {}, {}",
                info.runtime,
                info.platform,
                format::counted(info.cpus.into(), "processor")
            ),
        ),
        (
            "recorded",
            format!(
                "{} from {}, {}; {}",
                format::duration(profile.duration()),
                format::utc(info.start_unix_ms),
                format::entry(info.entry),
                format::ending(profile)
            ),
        ),
    ]
}

/// The same as far as the file of another tool says it.
fn imported(profile: &Profile) -> Vec<(&str, String)> {
    let info = &profile.info;
    let mut rows = Vec::new();
    if !info.command_line.is_empty() {
        rows.push(("command", info.command_line.clone()));
    }
    let runtime = Some(&info.runtime).filter(|text| !text.is_empty());
    let runtime = runtime.map(|version| format!(".NET {version}"));
    let platform = Some(info.platform.clone()).filter(|text| !text.is_empty());
    let cpus = (info.cpus > 0).then(|| format::counted(info.cpus.into(), "processor"));
    let facts: Vec<String> = runtime.into_iter().chain(platform).chain(cpus).collect();
    if !facts.is_empty() {
        rows.push(("runtime", facts.join(", ")));
    }
    let length = match profile.duration() {
        0 => "the file has no times".to_owned(),
        length => format::duration(length),
    };
    let begun = match info.start_unix_ms {
        0 => "the file does not say when".to_owned(),
        begun => format!("from {}", format::utc(begun)),
    };
    rows.push(("imported", format!("{length}; {begun}; {}", format::ending(profile))));
    rows
}

fn section(profile: &Profile, _: &Options) -> Option<Section> {
    let info = &profile.info;
    let mut rows = match info.entry {
        Entry::Imported => imported(profile),
        _ => recorded(profile),
    };
    for run in &info.profilers {
        let mut text = run.engine.clone();
        if let Some(rate) = run.rate_hz {
            text = format!("{rate} Hz, {text}");
        }
        // As measured, where that is not what was asked for.
        if let Some(rate) =
            profile.sampling_rate(&run.id).map(ToString::to_string).filter(|rate| !rate.is_empty())
        {
            text = format!("{rate}; {text}");
        }
        for (name, value) in &run.params {
            text.push_str(&format!(", {name} = {value}"));
        }
        rows.push((run.id.as_str(), text));
    }
    let mut samples: Vec<String> = Vec::new();
    for kind in SeriesKind::ALL {
        let series = profile.series(kind);
        if !series.is_empty() {
            let truncated = match series.truncated {
                0 => String::new(),
                cut => format!(" ({} with a stack cut at the depth limit)", format::count(cut)),
            };
            samples.push(format!(
                "{} {}{truncated}",
                format::count(series.totals.samples),
                kind.id()
            ));
        }
    }
    samples.push(format!("{} dropped", format::count(profile.dropped())));
    rows.push(("samples", samples.join(", ")));
    if let Some(filtered) = &profile.filtered {
        rows.push(("shown", format!("only {filtered}")));
    }
    let mut section = Section::new(format::process(info));
    section.add(Table::facts(rows.into_iter().map(|(name, value)| (name, Cell::text(value)))));
    Some(section)
}
