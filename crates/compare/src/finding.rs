use profile::Unit;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Basis, Comparison, SeriesComparison, change::Change};

/// What a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// All samples of a profiler.
    All,
    /// A function itself.
    #[serde(rename = "self")]
    Own,
    /// A function and what it called.
    Total,
    /// What has no stacks.
    Measure,
}

/// Something that changed for certain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ComparisonFinding")]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// Id of the profiler.
    pub profiler: &'static str,
    /// Name of the function or measure; empty for all samples.
    pub name: String,
    /// Index of the function in `functions`; null if it is about none.
    pub function: Option<u32>,
    /// Whether it got worse; null where it is not known whether more is worse.
    pub worse: Option<bool>,
    /// How much it is of all samples of the profiler, where it has more: 0 to 1.
    pub share: f64,
    /// How it changed.
    pub change: Change,
    /// Unit of the amounts: `share` for parts of all samples, from 0 to 1.
    #[schemars(extend("enum" = ["nanoseconds", "count", "bytes", "share"]))]
    pub unit: &'static str,
    /// The same by its kind; none for a share.
    #[serde(skip)]
    pub unit_kind: Option<Unit>,
    /// Whether amounts are means of values, not rates.
    pub is_level: bool,
}

impl Finding {
    fn worse(change: &Change, more_is_worse: Option<bool>) -> Option<bool> {
        more_is_worse.map(|more_is_worse| (change.difference() > 0.0) == more_is_worse)
    }

    /// Whether it got worse by more than this. A function that is new may have been renamed, or
    /// have been a part of another one: if it made anything slower, its callers show it.
    fn exceeds(&self, limit: f64, min_share: f64) -> bool {
        let is_new_function = self.function.is_some() && self.change.relative.is_none();
        self.worse == Some(true)
            && !is_new_function
            && self.share >= min_share
            && self.change.exceeds(limit)
    }

    /// How much of all it changed, for their order: nothing is more than all of it.
    fn size(&self) -> f64 {
        let Change { before, after, .. } = self.change;
        let relative = self.change.difference().abs() / before.max(after).max(f64::MIN_POSITIVE);
        relative * self.share
    }
}

/// All that changed for certain: what got worse first, those with the largest part of it first;
/// then what got better, then what may be either.
pub(crate) fn all(comparison: &Comparison) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        comparison.series.iter().flat_map(|series| of_series(comparison, series)).collect();
    findings.extend(comparison.measures.iter().filter(|own| own.change.is_certain()).map(|own| {
        Finding {
            kind: FindingKind::Measure,
            profiler: own.profiler,
            name: own.name.clone(),
            function: None,
            worse: Finding::worse(&own.change, own.more_is_worse),
            share: 1.0,
            change: own.change,
            unit: own.unit,
            unit_kind: Some(own.kind),
            is_level: own.is_level,
        }
    }));
    let order = |finding: &Finding| match finding.worse {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    };
    order::sort_by(&mut findings, |one, other| {
        order(one).cmp(&order(other)).then(other.size().total_cmp(&one.size()))
    });
    findings
}

impl Comparison {
    /// The sums of all samples of each profiler, whether they changed for certain or not.
    pub fn sums(&self) -> Vec<Finding> {
        self.series.iter().flat_map(|series| all_in(self, series).into_iter().next()).collect()
    }
}

fn of_series(comparison: &Comparison, series: &SeriesComparison) -> Vec<Finding> {
    let mut findings = all_in(comparison, series);
    findings.retain(|finding| finding.change.is_certain());
    findings
}

/// What a series says, also where nothing changed: all of its samples first.
fn all_in(comparison: &Comparison, series: &SeriesComparison) -> Vec<Finding> {
    let all = all_of(comparison, series);
    let share = |change: &Change| {
        let part = |own: f64, all: f64| if all > 0.0 { (own / all).min(1.0) } else { 0.0 };
        part(change.before, all[0]).max(part(change.after, all[1]))
    };
    let unit = |function: Option<u32>| {
        let is_share = comparison.per == Basis::Total && function.is_some();
        (!is_share).then(|| series.kind.value_type().unit)
    };
    let finding = |kind, function: Option<u32>, change: &Change| Finding {
        kind,
        profiler: series.profiler,
        name: function
            .and_then(|function| comparison.functions.get(function as usize))
            .map(|function| function.name.clone())
            .unwrap_or_default(),
        function,
        worse: Finding::worse(change, series.more_is_worse.then_some(true)),
        share: if function.is_some() { share(change) } else { 1.0 },
        change: *change,
        unit: unit(function).map_or("share", Unit::id),
        unit_kind: unit(function),
        is_level: false,
    };
    let mut findings = vec![finding(FindingKind::All, None, &series.total)];
    for row in &series.functions {
        findings.push(finding(FindingKind::Own, Some(row.function), &row.own));
        findings.push(finding(FindingKind::Total, Some(row.function), &row.total));
    }
    findings
}

/// All of a series, before and after, in the form in which its functions are compared.
pub(crate) fn all_of(comparison: &Comparison, series: &SeriesComparison) -> [f64; 2] {
    let sums = [series.tree.before.weight, series.tree.after.weight];
    match comparison.per {
        Basis::Total => [1.0, 1.0],
        _ => [sums[0] as f64 * series.scale[0], sums[1] as f64 * series.scale[1]],
    }
}

/// Whether the second recording may pass.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gate {
    /// By how much something may get worse, as a share of what it was.
    pub limit: f64,
    /// Functions with a lesser part of all samples of their profiler do not count.
    pub min_share: f64,
    /// Whether it fails.
    pub failed: bool,
    /// What got worse by more: indices in `changes`.
    pub failures: Vec<usize>,
}

impl Gate {
    pub(crate) fn of(comparison: &Comparison, limit: f64, min_share: f64) -> Self {
        let findings = comparison.changes.iter().enumerate();
        let failures: Vec<usize> = findings
            .filter(|(_, finding)| finding.exceeds(limit, min_share))
            .map(|(index, _)| index)
            .collect();
        Self { limit, min_share, failed: !failures.is_empty(), failures }
    }
}
