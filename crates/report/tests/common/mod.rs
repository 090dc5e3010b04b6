//! The small recording of the tests of the profile, and reports of it.
#![allow(dead_code, unused_imports)]

#[path = "../../../profile/tests/shop/mod.rs"]
mod shop;

use profile::Profile;

pub use shop::*;

/// The report in a format.
pub fn render(profile: &Profile, id: &str, options: &report::Options) -> Vec<u8> {
    let mut out = Vec::new();
    report::exporter(id).unwrap().write(profile, options, &mut out).unwrap();
    out
}

/// The report in a text format.
pub fn text(profile: &Profile, id: &str, options: &report::Options) -> String {
    String::from_utf8(render(profile, id, options)).unwrap()
}
