//! Whether reports are as their schemas say, to the last key.
#![allow(dead_code)]

use profile::Profile;
use report::{Options, SnapshotSchema};
use testkit::JsonSchema;

/// Other crates describe what heap snapshots say.
pub const SNAPSHOTS: &[(&str, SnapshotSchema)] =
    &[("heap", |_| true.into()), ("async", |_| true.into())];

/// A schema that allows no other keys than those that it names.
pub fn strict(schema: &schemars::Schema) -> JsonSchema {
    JsonSchema::new(schema.as_value().clone()).unwrap()
}

/// Checks all that programs read of a profile.
pub fn check(profile: &Profile) {
    check_with(profile, &Options::default());
}

/// The same of a part of it.
pub fn check_with(profile: &Profile, options: &Options) {
    let text = |id: &str| {
        let mut out = Vec::new();
        report::exporter(id).unwrap().write(profile, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let json = serde_json::from_str(&text("json")).unwrap();
    strict(&report::report_schema(SNAPSHOTS)).check(&json).unwrap();
    let schema = strict(&report::events_schema());
    for line in text("events").lines() {
        schema.check(&serde_json::from_str(line).unwrap()).unwrap();
    }
}
