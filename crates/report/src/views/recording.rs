//! The recording itself: process, runtime, time, profilers.

use profile::{Profile, SeriesKind};

use super::{Cell, Section, Table, Tile, View};
use crate::{Options, format};

pub const VIEW: View =
    View { section, json: None, tab: ("recording", "Recording"), tile: Some(tile), rows_of: None };

fn tile(profile: &Profile) -> Option<Tile> {
    let tile = Tile::new("Recorded", format::duration(profile.duration()));
    Some(tile.note(format::entry(profile.info.entry)))
}

fn section(profile: &Profile, _: &Options) -> Option<Section> {
    let info = &profile.info;
    let mut rows = vec![
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
    ];
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
