//! Sessions with numbers, texts and ids that no recorder writes: whoever reads them answers or
//! refuses, and does not panic. `MUTATIONS` says how many are tried; a few in the ordinary run.

#[path = "../../profile/tests/shop/mod.rs"]
mod shop;

use compare::Recording;
use explore::{Explored, FlameQuery, Part, Pattern, Selection, Sort, TimelineQuery, View};
use profile::{
    BuildOptions, Filter, Profile, SeriesKind,
    session::{SessionRecord, SessionWriter},
};
use report::{EXPORTERS, Options};
use std::io::Cursor;

/// Numbers that look random, and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// A record with some of its bytes changed, if that is a record.
fn mutated(record: &SessionRecord, random: &mut Random) -> Option<SessionRecord> {
    let mut bytes = postcard::to_allocvec(record).unwrap();
    // Its kind stays.
    let at = 1 + random.below(bytes.len().saturating_sub(1));
    let greatest = [&[0xff; 9][..], &[1]].concat();
    match random.below(5) {
        0 => *bytes.get_mut(at)? = random.below(256) as u8,
        1 => *bytes.get_mut(at)? = 0,
        2 => *bytes.get_mut(at)? ^= 1 << random.below(8),
        // The number that begins there, or what looks like one, becomes the greatest.
        _ => {
            let length = bytes.get(at..)?.iter().position(|byte| byte & 0x80 == 0)? + 1;
            drop(bytes.splice(at..at + length, greatest));
        }
    }
    postcard::take_from_bytes(&bytes).ok().map(|(record, _)| record)
}

/// A session of these records, as far as they fit together.
fn written(records: &[SessionRecord]) -> Vec<u8> {
    let mut writer = SessionWriter::new(Vec::new(), "0").unwrap();
    for record in records {
        let _ = writer.write(record);
    }
    writer.finish().unwrap()
}

/// Everything that can be asked of a session.
fn ask_everything(file: &[u8], other: &[u8]) {
    let options = Options::default();
    for exporter in EXPORTERS {
        let _ = exporter.convert(file, &options, &mut Vec::new());
    }
    let filter = Filter {
        time: Some(0..u64::MAX / 2),
        thread: Some("1".into()),
        text: Some("a".into()),
        ..Filter::default()
    };
    let part = Options { filter: filter.clone(), ..Options::default() };
    if let Ok(profile) =
        Profile::read(file, BuildOptions { time: filter.time, ..BuildOptions::default() })
    {
        let _ = report::document_of(&profile, &part, |_| Vec::new());
    }
    explore_everything(file);
    let read = |file| Recording::read("x", file, &Filter::default());
    if let (Ok(one), Ok(two)) = (read(file), read(other)) {
        let options = compare::Options { with_tree: true, ..compare::Options::default() };
        serde_json::to_vec(&compare::compare(&one, &two, &options)).unwrap();
        serde_json::to_vec(&compare::compare(&two, &one, &options)).unwrap();
    }
}

fn explore_everything(file: &[u8]) {
    let Ok(open) = Explored::read(file, None) else { return };
    for length in [0, 1_000_000_000, u64::MAX] {
        let last = Explored::open(Cursor::new(file), Some(&Part::Last(length))).unwrap();
        serde_json::to_vec(&last.describe()).unwrap();
    }
    serde_json::to_vec(&open.describe()).unwrap();
    let search = Pattern::parse("/a|b/").unwrap();
    for kind in SeriesKind::ALL {
        for inverted in [false, true] {
            let filter = Filter::default();
            let selection =
                Selection { kind, filter, inverted, merge_recursion: inverted, stable: !inverted };
            let view = View { root: None, width: 1000.0, top: 0, rows: 100 };
            let query = FlameQuery { selection: selection.clone(), view, search: search.clone() };
            open.flame(&query).unwrap().to_bytes();
            let _ = open.functions(&selection, search.as_ref(), Sort::Total, 0, 100);
            let _ = open.callers(&selection, 0, 100);
            let _ = open.children(&selection, None, search.as_ref(), 0, 100);
        }
        for time in [None, Some(0..u64::MAX), Some(u64::MAX - 1..u64::MAX)] {
            let query = TimelineQuery { kind, time, pixels: 100, first: 0, rows: 10 };
            open.timeline(&query).unwrap().to_bytes();
        }
    }
    assert!(open.size() > 0);
}

#[test]
fn nothing_panics_whatever_a_session_says() {
    let rounds = std::env::var("MUTATIONS").ok().and_then(|number| number.parse().ok());
    let records = shop::records();
    let other = shop::file();
    ask_everything(&other, &other);
    for round in 0..rounds.unwrap_or(20_u64) {
        let mut random = Random(round);
        let mut changed = records.clone();
        for _ in 0..1 + random.below(20) {
            let at = random.below(changed.len());
            if let Some(record) = mutated(&changed[at], &mut random) {
                changed[at] = record;
            }
        }
        let file = written(&changed);
        let asked = std::panic::catch_unwind(|| ask_everything(&file, &other));
        assert!(asked.is_ok(), "round {round}");
    }
}
