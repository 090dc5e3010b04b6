//! A recording, what clrscope exports of it, and how such a file is read back.
#![allow(dead_code, unused_imports)]

#[path = "../../../profile/tests/shop/mod.rs"]
mod shop;

use import::{Format, ImportError};
use profile::{BuildOptions, NameStyle, Profile, SeriesKind};
use session::SessionWriter;
use std::{collections::BTreeMap, io::Cursor};

pub use shop::{HOSTILE, profile};

/// The recording in a format of another tool, as `clrscope report` writes it.
pub fn export(format: &str, series: Option<SeriesKind>) -> Vec<u8> {
    let options = report::Options { series, ..report::Options::default() };
    let mut out = Vec::new();
    report::exporter(format).unwrap().convert(&shop::file()[..], &options, &mut out).unwrap();
    out
}

/// The session that a file becomes. It is read by the reader of sessions, which checks it.
pub fn session(bytes: &[u8]) -> Result<Vec<u8>, ImportError> {
    let mut file = Cursor::new(bytes);
    let format = import::detect(&mut file)?.expect("the format is not known");
    session_of(bytes, format)
}

pub fn session_of(bytes: &[u8], format: Format) -> Result<Vec<u8>, ImportError> {
    let mut writer = SessionWriter::new(Vec::new(), "test")?;
    import::import(Cursor::new(bytes), format, "file", &mut writer)?;
    Ok(writer.finish()?)
}

pub fn read(bytes: &[u8]) -> Profile {
    let session = session(bytes).unwrap();
    let profile = Profile::read(&session[..], BuildOptions::default()).unwrap();
    assert!(!profile.cut_short && profile.damage.is_none());
    profile
}

/// Samples and weight of each stack of a series: names from the root, as a format writes them.
pub type Sums = BTreeMap<Vec<String>, [u64; 2]>;

pub fn sums(profile: &Profile, kind: SeriesKind, shown: impl Fn(String) -> String) -> Sums {
    let mut sums = Sums::new();
    for cell in &profile.series(kind).cells {
        let frames = profile.tables.walk(cell.stack);
        let mut path: Vec<String> = frames
            .map(|frame| {
                let function = profile.tables.frame(frame).function;
                shown(profile.tables.function_name(function, NameStyle::FULL))
            })
            .collect();
        path.reverse();
        let sum = sums.entry(path).or_default();
        sum[0] += u64::from(cell.samples);
        sum[1] += cell.weight;
    }
    sums
}
