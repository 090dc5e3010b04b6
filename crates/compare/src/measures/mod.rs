//! What recordings have beside samples with stacks: pauses, collections, counters, objects by type.
//! One file for each subject, and the list of them.

use profile::{Amount, Profile, Unit};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Basis,
    change::Change,
    estimate::{Mean, Slice},
    grid::Grid,
};

/// Declares the modules and the list of them, in the order of reports.
macro_rules! measures {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// What finds the measures of a recording.
        const SOURCES: &[fn(&Profile, &Grid) -> Vec<Measure>] = &[$($name::measures),*];
    };
}

measures! { gc, exceptions, allocations, states, counters }

/// A quantity of a recording.
struct Measure {
    /// Id of the profiler.
    profiler: &'static str,
    /// What it is, the same in all recordings.
    name: String,
    unit: Unit,
    /// Whether more is worse; none where that depends on what it is.
    more_is_worse: Option<bool>,
    /// What was counted in each slice.
    slices: Vec<Slice>,
    /// How many values there were in each slice, of something that has a value at any time.
    values: Option<Vec<f64>>,
}

/// A quantity in both recordings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasureComparison {
    /// Id of the profiler.
    pub profiler: &'static str,
    /// What it is.
    pub name: String,
    /// Unit of the amounts.
    #[schemars(extend("enum" = ["nanoseconds", "count", "bytes"]))]
    pub unit: &'static str,
    /// Whether the amounts are means of values, such as sizes and counters. Otherwise they are
    /// rates: per second, or per run if the comparison is so.
    pub is_level: bool,
    /// Whether more is worse; null where that depends on what it is.
    pub more_is_worse: Option<bool>,
    /// Why nothing is claimed; null if the two can be compared.
    pub not_comparable: Option<String>,
    /// How it changed.
    pub change: Change,
    /// The same by its kind.
    #[serde(skip)]
    pub kind: Unit,
}

impl Measure {
    fn mean(&self, grid: &Grid, basis: Basis) -> Mean {
        match &self.values {
            Some(values) => Mean::of_values(&self.slices, values),
            None => {
                let factor = if basis == Basis::Run { grid.duration() } else { 1.0 };
                Mean::of(&self.slices, &grid.seconds, true).times(factor)
            }
        }
    }
}

/// All that either recording has. What one of them does not have was 0 there, if its profiler ran.
pub(crate) fn compare(
    profiles: [&Profile; 2],
    grids: [&Grid; 2],
    basis: Basis,
) -> Vec<MeasureComparison> {
    let mut comparisons = Vec::new();
    for measures in SOURCES {
        let (mut before, mut after) =
            (measures(profiles[0], grids[0]), measures(profiles[1], grids[1]));
        let both = |profiler: &str| profiles.iter().all(|profile| profile.run(profiler).is_some());
        before.retain(|measure| both(measure.profiler));
        after.retain(|measure| both(measure.profiler));
        for measure in &after {
            let same = before.iter().position(|known| known.is(measure));
            let known = same.map(|at| before.swap_remove(at));
            comparisons.extend(compared(known.as_ref(), Some(measure), grids, basis));
        }
        let gone = before.iter();
        comparisons.extend(gone.flat_map(|measure| compared(Some(measure), None, grids, basis)));
    }
    comparisons
}

impl Measure {
    fn is(&self, other: &Self) -> bool {
        (self.profiler, &self.name) == (other.profiler, &other.name)
    }
}

fn compared(
    before: Option<&Measure>,
    after: Option<&Measure>,
    grids: [&Grid; 2],
    basis: Basis,
) -> Option<MeasureComparison> {
    let either = after.or(before)?;
    // A mean of no values is not 0.
    if either.values.is_some() && (before.is_none() || after.is_none()) {
        return None;
    }
    let mean = |measure: Option<&Measure>, grid: &Grid| match measure {
        Some(measure) => measure.mean(grid, basis),
        None => Mean::of(&vec![Slice::default(); grid.len()], &grid.seconds, true),
    };
    let change = Change::of(&mean(before, grids[0]), &mean(after, grids[1]));
    Some(MeasureComparison {
        profiler: either.profiler,
        name: either.name.clone(),
        unit: either.unit.id(),
        is_level: either.values.is_some(),
        more_is_worse: either.more_is_worse,
        not_comparable: None,
        change,
        kind: either.unit,
    })
}

/// A rate: amounts at times.
fn rate(
    profiler: &'static str,
    name: impl Into<String>,
    unit: Unit,
    slices: Vec<Slice>,
) -> Measure {
    let (name, more_is_worse) = (name.into(), Some(true));
    Measure { profiler, name, unit, more_is_worse, slices, values: None }
}

/// Most types of a recording that are compared one by one, those with most of it.
const MOST_TYPES: usize = 100;

/// Rates by name, those with most of it.
fn rates_by_name<'a>(
    profiler: &'static str,
    unit: Unit,
    grid: &Grid,
    points: impl Iterator<Item = (&'a str, u64, f64)>,
) -> Vec<Measure> {
    let mut by_name: std::collections::BTreeMap<&str, Vec<(u64, f64)>> = Default::default();
    for (name, time, amount) in points {
        by_name.entry(name).or_default().push((time, amount));
    }
    let mut all: Vec<_> = by_name.into_iter().collect();
    let sum = |points: &[(u64, f64)]| Amount::of(points.iter().map(|(_, amount)| *amount)).value;
    order::sort_by(&mut all, |one, other| sum(&other.1).total_cmp(&sum(&one.1)));
    let most = all.into_iter().take(MOST_TYPES);
    most.map(|(name, points)| rate(profiler, name, unit, grid.sums_of(points))).collect()
}
