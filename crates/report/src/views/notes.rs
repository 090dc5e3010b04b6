//! What clrscope noticed during the recording.

use document::{Cell, Section, Table, left, right};
use profile::Profile;

pub fn section(profile: &Profile) -> Option<Section> {
    if profile.notes.is_empty() {
        return None;
    }
    let start = profile.info.start;
    let rows = profile.notes.iter().map(|(time, message)| {
        vec![
            Cell::text(format!("{:.1} s", time.saturating_sub(start) as f64 / 1e9)),
            Cell::text(message),
        ]
    });
    let mut section = Section::new("Notes");
    section.add(Table::new(vec![right("at"), left("")], rows));
    Some(section)
}
