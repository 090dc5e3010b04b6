use schemars::JsonSchema;
use serde::Serialize;

use crate::estimate::{Difference, Mean};

/// How sure it is that something changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Significance {
    /// It changed, at the confidence of the comparison.
    Changed,
    /// A difference like this can be noise.
    WithinNoise,
    /// There are too few samples, or too short a recording, to say anything.
    #[default]
    TooFew,
    /// The two were measured in ways that cannot be compared.
    NotComparable,
}

/// A quantity in both recordings, and what can be said of the difference. Amounts are in the unit
/// of the series or of the measure, related to what `per` of the comparison says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// In the recording before.
    pub before: f64,
    /// Half of the 95 % interval of `before`.
    pub before_margin: f64,
    /// In the recording after.
    pub after: f64,
    /// Half of the 95 % interval of `after`.
    pub after_margin: f64,
    /// `after` by `before`, less 1; null if `before` is 0.
    pub relative: Option<f64>,
    /// Lower end of the 95 % interval of `relative`; null if one of the two is 0.
    pub relative_low: Option<f64>,
    /// Upper end of that interval.
    pub relative_high: Option<f64>,
    /// The chance that equal programs would differ as much somewhere, adjusted for the number of
    /// comparisons; null where there is too little to say.
    pub chance: Option<f64>,
    /// What follows from it.
    pub significance: Significance,
}

impl Change {
    /// Between these. What is significant is known when all chances are.
    pub(crate) fn of(before: &Mean, after: &Mean) -> Self {
        let Difference { relative, interval, chance } = Difference::of(before, after);
        Self {
            before: before.value,
            before_margin: before.margin(),
            after: after.value,
            after_margin: after.margin(),
            relative,
            relative_low: interval.map(|interval| interval.0),
            relative_high: interval.map(|interval| interval.1),
            chance,
            significance: Significance::TooFew,
        }
    }

    /// The second less the first.
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }

    /// Whether it is certain that the two differ.
    pub fn is_certain(&self) -> bool {
        self.significance == Significance::Changed
    }

    /// Whether it is certain, and grew by more than this share.
    pub(crate) fn exceeds(&self, limit: f64) -> bool {
        self.is_certain()
            && self.difference() > 0.0
            && self.relative.is_none_or(|relative| relative > limit)
    }

    /// Takes the chance that is adjusted for the number of comparisons.
    pub(crate) fn judge(&mut self, chance: f64, level: f64) {
        self.chance = Some(chance);
        self.significance = match chance <= level {
            true => Significance::Changed,
            false => Significance::WithinNoise,
        };
    }

    /// Forgets what could be said, if both were the same kind of measurement.
    pub(crate) fn forget(&mut self) {
        self.chance = None;
        self.significance = Significance::NotComparable;
    }
}
