use profile::{Profile, Unit, profilers::exceptions::SPEC};

use super::{Measure, rates_by_name};
use crate::grid::Grid;

pub(super) fn measures(profile: &Profile, grid: &Grid) -> Vec<Measure> {
    let thrown = profile.exceptions.samples.iter().map(|sample| {
        let name = profile.tables.ty(sample.ty).name.as_str();
        (name, sample.time, sample.weight as f64)
    });
    rates_by_name(SPEC.id, Unit::Count, grid, thrown)
}
