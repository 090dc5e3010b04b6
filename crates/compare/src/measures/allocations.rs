use profile::{Profile, Unit, profilers::allocations::SPEC};

use super::{Measure, rates_by_name};
use crate::grid::Grid;

pub(super) fn measures(profile: &Profile, grid: &Grid) -> Vec<Measure> {
    let allocated = profile.allocations.samples.iter().map(|sample| {
        (profile.tables.ty(sample.ty).name.as_str(), sample.time, sample.bytes as f64)
    });
    rates_by_name(SPEC.id, Unit::Bytes, grid, allocated)
}
