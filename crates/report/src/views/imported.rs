//! What another tool has recorded.

use profile::{Profile, SeriesKind, Unit, session::Entry};

use super::{
    Section, View,
    cells::{hot_paths, methods},
};
use crate::{Options, format};

pub const VIEW: View =
    View { section, json: None, tab: ("imported", "Imported"), tile: None, rows_of: None };

const KINDS: [SeriesKind; 3] = [SeriesKind::Samples, SeriesKind::Time, SeriesKind::Bytes];

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    if profile.info.entry != Entry::Imported {
        return None;
    }
    let is_shown = |kind: &SeriesKind| {
        options.series.is_none_or(|series| series == *kind) && !profile.series(*kind).is_empty()
    };
    let kinds: Vec<SeriesKind> = KINDS.into_iter().filter(is_shown).collect();
    if kinds.is_empty() {
        return None;
    }
    let mut section = Section::new("Imported samples");
    for kind in kinds {
        let series = profile.series(kind);
        let totals = series.totals;
        section.say(match kind.value_type().unit {
            Unit::Count => format!("{}.", format::counted(totals.weight, "sample")),
            Unit::Nanoseconds => format!(
                "{} in {}; the file does not say whether that is CPU or wall time.",
                format::duration(totals.weight),
                format::counted(totals.samples, "sample")
            ),
            Unit::Bytes => format!(
                "{} in {}.",
                format::bytes(totals.weight),
                format::counted(totals.samples, "sample")
            ),
        });
        let functions = profile.top_functions(kind);
        section.add(methods(profile, options, series, &functions));
        section.add(hot_paths(profile, options, series));
    }
    Some(section)
}
