use profile::{PROFILER_PAUSE, Profile, Unit, pause_length, profilers::gc::SPEC};

use super::{Measure, rate};
use crate::grid::Grid;

pub(super) fn measures(profile: &Profile, grid: &Grid) -> Vec<Measure> {
    if profile.run(SPEC.id).is_none() {
        return Vec::new();
    }
    let of_program = profile.pauses.iter().filter(|pause| pause.reason != PROFILER_PAUSE);
    let pauses = of_program.map(|pause| (pause.suspend_start, pause_length(pause) as f64));
    let mut measures = vec![rate(
        SPEC.id,
        "time in which the runtime was suspended",
        Unit::Nanoseconds,
        grid.sums_of(pauses),
    )];
    for generation in 0..3_u8 {
        let of = profile.gcs.iter().filter(|gc| gc.generation.min(2) == generation);
        let slices = grid.sums_of(of.map(|gc| (gc.start, 1.0)));
        let name = format!("collections of generation {generation}");
        measures.push(rate(SPEC.id, name, Unit::Count, slices));
    }
    let sizes = || {
        profile.gcs.iter().map(|gc| {
            let bytes = gc.size_after.iter().map(|bytes| *bytes as f64).sum::<f64>();
            (gc.end, bytes)
        })
    };
    let promoted = profile
        .gcs
        .iter()
        .map(|gc| (gc.end, gc.promoted.iter().map(|bytes| *bytes as f64).sum::<f64>()));
    measures.push(rate(SPEC.id, "promoted bytes", Unit::Bytes, grid.sums_of(promoted)));
    if !profile.gcs.is_empty() {
        let counts = grid.sums_of(sizes().map(|(time, _)| (time, 1.0)));
        measures.push(Measure {
            values: Some(counts.iter().map(|slice| slice.amount).collect()),
            ..rate(SPEC.id, "heap after a collection", Unit::Bytes, grid.sums_of(sizes()))
        });
    }
    measures
}
