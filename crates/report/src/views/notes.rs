//! What clrscope noticed during the recording.

use profile::Profile;

use super::{Cell, Section, Table, left, right};

pub fn section(profile: &Profile) -> Option<Section> {
    if profile.notes.is_empty() {
        return None;
    }
    let start = profile.info.start;
    let rows = profile
        .notes
        .iter()
        .map(|(time, message)| {
            vec![
                Cell::text(format!("{:.1} s", time.saturating_sub(start) as f64 / 1e9)),
                Cell::text(message),
            ]
        })
        .collect();
    Some(Section {
        title: "Notes".to_owned(),
        lead: Vec::new(),
        tables: vec![Table { columns: vec![right("at"), left("")], rows }],
    })
}
