use profile::{Profile, Unit, profilers::counters::SPEC};

use super::{Measure, rate};
use crate::grid::Grid;

pub(super) fn measures(profile: &Profile, grid: &Grid) -> Vec<Measure> {
    let counters = profile.counters.iter().filter(|counter| !counter.values.is_empty());
    let measure = |counter: &profile::Counter| {
        let def = &counter.def;
        let tags = if def.tags.is_empty() { String::new() } else { format!(" {{{}}}", def.tags) };
        let name = format!("{} {}{tags}", def.source, def.name);
        let values = counter.values.iter().copied();
        let counts = grid.sums_of(values.clone().map(|(time, _)| (time, 1.0)));
        Measure {
            // What a counter means is known to the program alone.
            more_is_worse: None,
            values: Some(counts.iter().map(|slice| slice.amount).collect()),
            ..rate(SPEC.id, name, Unit::Count, grid.sums_of(values))
        }
    };
    counters.map(measure).collect()
}
