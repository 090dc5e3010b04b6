//! What differs between two recordings, and how certain that is.
//!
//! [`Recording::read`] reads a session, [`compare`] compares two of them. What comes out is a
//! [`Comparison`], which [`Format`] writes for people, for programs and for build servers.
//!
//! **What is compared.** Samples of each profiler ([`SeriesComparison`]): all of them, each
//! function by itself and with what it called, and the call trees ([`DiffTree`]). What has no
//! stacks ([`MeasureComparison`]): pauses, collections, exceptions and allocations by type, states
//! of threads, counters. The heaps, where both recordings have a snapshot ([`HeapComparison`]).
//!
//! **In relation to what** ([`Basis`]). Recordings differ in length, so amounts are compared per
//! second, per run, or as parts of all samples.
//!
//! **What is certain.** The module `estimate` says how. All that is claimed together is wrong with
//! the chance that [`Options::confidence`] leaves. Half of that is for the few sums of all samples
//! and the measures, half for functions, of which there are many.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod change;
mod estimate;
mod finding;
mod format;
mod functions;
mod grid;
mod heap;
mod junit;
mod measures;
mod notes;
mod recording;
mod sarif;
mod series;
mod tree;
mod view;
pub mod viewed;

pub use change::{Change, Significance};
pub use estimate::{FEWEST, FEWEST_SLICES, SYSTEMATIC};
pub use finding::{Finding, FindingKind, Gate};
pub use format::{FORMATS, Format, Style};
pub use functions::{Function, Functions, Side};
pub use heap::{HeapComparison, HeapCounts, HeapType};
pub use measures::MeasureComparison;
pub use recording::{Recorded, Recording};
pub use series::{FunctionChange, SeriesComparison};
pub use tree::{DiffNode, DiffTree, TreeColumns};
pub use view::word;

use grid::Grid;
use profile::{Profile, SeriesKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the form of the JSON.
const SCHEMA: u32 = 1;

/// What amounts are related to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Per second of recorded time. For services, which have about the same to do in each second.
    Second,
    /// Per run: the sum of the whole recording. For programs that do the same work in each run, and
    /// were recorded from their start to their end.
    Run,
    /// The part of all samples of the profiler that a function has. For recordings under different
    /// load. The sums of all samples, and what has no stacks, are compared per second.
    Total,
}

impl Basis {
    /// All of them, with their words on the command line.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Second, "second"), (Self::Run, "run"), (Self::Total, "total")];

    /// The one of this word.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, word)| *word == name).map(|(basis, _)| basis)
    }

    /// What suits two recordings: shares if one has no times, as files of other tools may; per run
    /// if both are of whole runs that succeeded; or else per second.
    pub fn suitable(before: &Recording, after: &Recording) -> Self {
        if [before, after].iter().any(|recording| recording.profile.duration() == 0) {
            return Self::Total;
        }
        match before.is_whole_run() && after.is_whole_run() {
            true => Self::Run,
            false => Self::Second,
        }
    }
}

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// In relation to what; [`Basis::suitable`] if none is given.
    pub basis: Option<Basis>,
    /// The chance that nothing at all is claimed where nothing changed: 0.5 to 0.999999.
    pub confidence: f64,
    /// Only the samples of this profiler, and what else it has recorded.
    pub series: Option<SeriesKind>,
    /// By how much something may get worse, as a share of what it was: what exceeds that fails
    /// ([`Comparison::gate`]). At least 0.
    pub fail_on: Option<f64>,
    /// Functions with a lesser part of all samples never fail: 0 to 1.
    pub min_share: f64,
    /// Whether JSON has the differential call trees.
    pub with_tree: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            basis: None,
            confidence: 0.99,
            series: None,
            fail_on: None,
            min_share: 0.01,
            with_tree: false,
        }
    }
}

/// Two recordings, compared.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "clrscope compare")]
pub struct Comparison {
    /// Version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// The first recording.
    pub before: Recorded,
    /// The second recording.
    pub after: Recorded,
    /// What amounts are related to.
    pub per: Basis,
    /// The chance that nothing at all is claimed where nothing changed.
    pub confidence: f64,
    /// How many quantities were tested for a change.
    pub tests: usize,
    /// What changed for certain: the worst first, then the best.
    pub changes: Vec<Finding>,
    /// What `--fail-on` says; null without it.
    pub gate: Option<Gate>,
    /// What was sampled by both, or counted with stacks.
    pub series: Vec<SeriesComparison>,
    /// What has no stacks.
    pub measures: Vec<MeasureComparison>,
    /// The heaps; null unless both have a snapshot.
    pub heap: Option<HeapComparison>,
    /// What cannot be compared, and what else could be the cause of a difference.
    pub notes: Vec<String>,
    /// All functions, by index.
    pub functions: Vec<Function>,
}

/// Compares two recordings.
pub fn compare(before: &Recording, after: &Recording, options: &Options) -> Comparison {
    let profiles = [&before.profile, &after.profile];
    let grids = profiles.map(Grid::of);
    let grids = [&grids[0], &grids[1]];
    let basis = options.basis.unwrap_or_else(|| Basis::suitable(before, after));
    let functions = Functions::of(profiles[0], profiles[1]);
    let kinds: Vec<SeriesKind> =
        SeriesKind::ALL.into_iter().filter(|kind| is_compared(profiles, *kind, options)).collect();
    let mut series: Vec<SeriesComparison> = kinds
        .iter()
        .map(|kind| SeriesComparison::of(profiles, grids, *kind, basis, &functions))
        .collect();
    let mut measures = measures::compare(profiles, grids, basis);
    measures.retain(|own| options.series.is_none_or(|kind| kind.id() == own.profiler));
    for series in &mut series {
        series.not_comparable = notes::why_not(profiles, series.profiler);
    }
    for measure in &mut measures {
        measure.not_comparable = notes::why_not(profiles, measure.profiler);
    }
    let tests = judge(&mut series, &mut measures, 1.0 - options.confidence);
    let mut all = functions.all.clone();
    series::find_lines(profiles, &functions, &kinds, &mut all);
    for series in &mut series {
        series.sort();
        series.tree_columns = options.with_tree.then(|| (&series.tree).into());
    }
    let heap = before.heap.as_ref().zip(after.heap.as_ref());
    let mut comparison = Comparison {
        schema: SCHEMA,
        before: before.described(),
        after: after.described(),
        per: basis,
        confidence: options.confidence,
        tests,
        changes: Vec::new(),
        gate: None,
        series,
        measures,
        heap: heap.map(|(before, after)| HeapComparison::of(before, after)),
        notes: notes::of(before, after, options),
        functions: all,
    };
    comparison.changes = finding::all(&comparison);
    comparison.gate = options.fail_on.map(|limit| Gate::of(&comparison, limit, options.min_share));
    comparison
}

/// Whether both recordings may have samples of a kind, and one has some.
fn is_compared(profiles: [&Profile; 2], kind: SeriesKind, options: &Options) -> bool {
    let wanted = options.series.is_none_or(|series| series == kind);
    let ran = |profile: &Profile| profile.run(kind.id()).is_some() || has(profile, kind);
    wanted && profiles.into_iter().all(ran) && profiles.into_iter().any(|own| has(own, kind))
}

fn has(profile: &Profile, kind: SeriesKind) -> bool {
    // What is no sum over time, such as the last snapshot of threads, has no slices.
    let series = profile.series(kind);
    !series.is_empty() && series.slices.is_some()
}

/// Decides what changed, and says how many quantities were tested.
fn judge(series: &mut [SeriesComparison], measures: &mut [MeasureComparison], level: f64) -> usize {
    let (mut sums, mut functions): (Vec<&mut Change>, Vec<&mut Change>) = Default::default();
    for series in series {
        let comparable = series.not_comparable.is_none();
        sort_in(&mut series.total, comparable, &mut sums);
        for function in &mut series.functions {
            sort_in(&mut function.own, comparable, &mut functions);
            sort_in(&mut function.total, comparable, &mut functions);
        }
    }
    for measure in measures {
        sort_in(&mut measure.change, measure.not_comparable.is_none(), &mut sums);
    }
    let tests = sums.len() + functions.len();
    for family in [sums, functions] {
        let chances: Vec<f64> = family.iter().filter_map(|change| change.chance).collect();
        let adjusted = estimate::adjusted(&chances);
        for (change, chance) in family.into_iter().zip(adjusted) {
            change.judge(chance, level / 2.0);
        }
    }
    tests
}

/// Adds a change to those that are tested, if it can be.
fn sort_in<'a>(change: &'a mut Change, comparable: bool, to: &mut Vec<&'a mut Change>) {
    if !comparable {
        change.forget();
    } else if change.chance.is_some() {
        to.push(change);
    }
}
