//! Types whose instances or bytes grow between heap snapshots.
//!
//! Objects move between snapshots, so individual objects cannot be recognized again. This module
//! compares counts and bytes by type. One snapshot shows what is there, and two show what has
//! grown. Three or more also show whether the growth is a trend or random: a least squares slope
//! with its t-statistic.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    histogram::Histogram,
    snapshot::{Snapshot, TypeId, TypeInfo},
};

/// What is kept of a snapshot for comparing it with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// When it was taken, nanoseconds.
    pub time: u64,
    /// How long the process was suspended for it, where that is known.
    pub pause_ns: Option<u64>,
    /// Whether all objects are in it.
    pub complete: bool,
    /// All objects.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects and bytes by type.
    pub types: HashMap<TypeInfo, (u64, u64)>,
    /// References to objects of a type, by the type of the object that refers; without those of
    /// which there are few.
    pub references: HashMap<TypeInfo, HashMap<TypeInfo, u64>>,
}

impl SnapshotSummary {
    /// Summary of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let histogram = Histogram::of(snapshot);
        let row = |row: &crate::TypeCounts| {
            (snapshot.types()[row.type_id as usize].clone(), (row.count, row.bytes))
        };
        Self {
            time: snapshot.end().time,
            pause_ns: snapshot.end().pause_ns,
            complete: snapshot.end().complete,
            count: histogram.total.count,
            bytes: histogram.total.bytes,
            types: histogram.types.iter().filter(|row| row.count > 0).map(row).collect(),
            references: references(snapshot),
        }
    }

    /// References to objects of a type from objects of another one, as far as they are known.
    pub fn references_to(&self, to: &TypeInfo, from: &TypeInfo) -> u64 {
        self.references.get(to).and_then(|from_all| from_all.get(from)).copied().unwrap_or(0)
    }
}

fn references(snapshot: &Snapshot) -> HashMap<TypeInfo, HashMap<TypeInfo, u64>> {
    let mut pairs: HashMap<(TypeId, TypeId), u64> = HashMap::new();
    // Arrays refer to many objects of one type, so equal ones come in a row.
    let (mut last, mut times) = ((0, 0), 0u64);
    for node in snapshot.nodes() {
        let from = snapshot.type_of(node);
        for to in snapshot.references(node) {
            let pair = (snapshot.type_of(*to), from);
            if pair != last && times > 0 {
                *pairs.entry(last).or_default() += times;
                times = 0;
            }
            last = pair;
            times += 1;
        }
    }
    if times > 0 {
        *pairs.entry(last).or_default() += times;
    }
    let info = |type_id: TypeId| snapshot.types()[type_id as usize].clone();
    let mut references: HashMap<TypeInfo, HashMap<TypeInfo, u64>> = HashMap::new();
    for ((to, from), count) in pairs.into_iter().filter(|(_, count)| *count as f64 >= MIN_OBJECTS) {
        references.entry(info(to)).or_default().insert(info(from), count);
    }
    references
}

/// A line through a quantity over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// First to last.
    pub change: f64,
    /// By least squares; for two snapshots, the difference over the time between them.
    pub per_second: f64,
    /// Slope over its standard error; none for two snapshots, and where all points are on the line.
    pub t: Option<f64>,
    /// Whether random variation would cause a slope like this in less than one of twenty cases
    /// (Student's distribution, both sides). Never for two snapshots.
    pub significant: bool,
    /// Whether it grew from each snapshot to the next.
    pub always_up: bool,
}

impl Trend {
    /// Of values at times in nanoseconds, of which there are as many, in ascending order.
    pub fn of(times: &[u64], values: &[u64]) -> Self {
        let n = times.len().min(values.len());
        let (Some(first), Some(last)) = (values.first(), values.get(n.wrapping_sub(1))) else {
            return Self::default();
        };
        let change = *last as f64 - *first as f64;
        let always_up = n > 1 && values.windows(2).all(|pair| pair[1] > pair[0]);
        let seconds: Vec<f64> =
            times.iter().map(|time| time.saturating_sub(times[0]) as f64 / 1e9).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n as f64;
        let (x, y) = (
            mean(&mut seconds.iter().copied()),
            mean(&mut values.iter().map(|value| *value as f64)),
        );
        let sum = |each: &dyn Fn(f64, f64) -> f64| -> f64 {
            seconds
                .iter()
                .zip(values)
                .map(|(second, value)| each(second - x, *value as f64 - y))
                .sum()
        };
        let spread = sum(&|dx, _| dx * dx);
        if n < 2 || spread <= 0.0 {
            return Self { change, always_up, ..Self::default() };
        }
        let per_second = sum(&|dx, dy| dx * dy) / spread;
        let residual = sum(&|dx, dy| (dy - per_second * dx).powi(2));
        let (mut t, mut significant) = (None, false);
        if n > 2 {
            let freedom = n - 2;
            let error = (residual / freedom as f64 / spread).sqrt();
            // A line without any residual is one of exact steps, or flat.
            if error > per_second.abs() * 1e-9 {
                t = Some(per_second / error);
                significant = (per_second / error).abs() > critical_t(freedom);
            } else {
                significant = per_second != 0.0;
            }
        }
        Self { change, per_second, t, significant, always_up }
    }
}

/// The value of Student's t that is exceeded, on either side, with a chance of 5 %.
fn critical_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Cornish and Fisher's expansion around the normal distribution is good to three digits beyond
    // the table.
    let beyond = |n: f64| 1.959_964 + 2.372_27 / n + 2.822_5 / (n * n);
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or_else(|| beyond(freedom as f64))
}

/// How sure it is that a type leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It grew between two snapshots: that may be a cache that fills, or random variation.
    Grew,
    /// Over three or more snapshots it grows along a line that is unlikely to be random, or from
    /// each snapshot to the next.
    Likely,
    /// Both.
    Leaking,
}

/// A type over all snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeGrowth {
    /// The type.
    pub info: TypeInfo,
    /// Objects in each snapshot.
    pub counts: Vec<u64>,
    /// Bytes in each snapshot.
    pub bytes: Vec<u64>,
    /// Of the count.
    pub count_trend: Trend,
    /// Of the bytes.
    pub bytes_trend: Trend,
    /// Whether it is suspected to leak, and how sure that is.
    pub verdict: Option<Verdict>,
}

/// What grew.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Times of the snapshots, nanoseconds.
    pub times: Vec<u64>,
    /// Bytes of all objects.
    pub total: Trend,
    /// Types that have changed, those that grew most bytes first.
    pub types: Vec<TypeGrowth>,
}

/// Objects that a type must have grown by to be suspected.
pub(crate) const MIN_OBJECTS: f64 = 16.0;

/// Bytes that a type must have grown by to be suspected, as a share of the heap; or this many
/// bytes.
const MIN_SHARE: f64 = 0.002;
const MIN_BYTES: f64 = 1_048_576.0;

impl Growth {
    /// Compares snapshots in the order of their times. Fewer than two show no growth.
    pub fn of(looks: &[SnapshotSummary]) -> Self {
        let times: Vec<u64> = looks.iter().map(|look| look.time).collect();
        let totals: Vec<u64> = looks.iter().map(|look| look.bytes).collect();
        let mut infos: Vec<&TypeInfo> = looks.iter().flat_map(|look| look.types.keys()).collect();
        order::sort_by(&mut infos, |one, other| {
            (&one.name, &one.module).cmp(&(&other.name, &other.module))
        });
        infos.dedup();
        let heap = totals.last().copied().unwrap_or(0) as f64;
        let mut types: Vec<TypeGrowth> = infos
            .into_iter()
            .map(|info| {
                let of = |look: &SnapshotSummary| look.types.get(info).copied().unwrap_or((0, 0));
                let counts: Vec<u64> = looks.iter().map(|look| of(look).0).collect();
                let bytes: Vec<u64> = looks.iter().map(|look| of(look).1).collect();
                let (count_trend, bytes_trend) =
                    (Trend::of(&times, &counts), Trend::of(&times, &bytes));
                let verdict = verdict(looks.len(), heap, &count_trend, &bytes_trend);
                TypeGrowth { info: info.clone(), counts, bytes, count_trend, bytes_trend, verdict }
            })
            .filter(|growth| growth.count_trend.change != 0.0 || growth.bytes_trend.change != 0.0)
            .collect();
        order::sort_by(&mut types, |one, other| {
            other.bytes_trend.change.total_cmp(&one.bytes_trend.change)
        });
        Self { total: Trend::of(&times, &totals), times, types }
    }

    /// The suspected types, the surest first, and of those the ones that grew most.
    pub fn suspects(&self) -> Vec<&TypeGrowth> {
        let mut suspects: Vec<&TypeGrowth> =
            self.types.iter().filter(|growth| growth.verdict.is_some()).collect();
        order::sort_by_key(&mut suspects, |growth| std::cmp::Reverse(growth.verdict));
        suspects
    }
}

fn verdict(looks: usize, heap: f64, count: &Trend, bytes: &Trend) -> Option<Verdict> {
    let enough = bytes.change >= MIN_BYTES
        || (count.change >= MIN_OBJECTS && bytes.change >= heap * MIN_SHARE);
    if looks < 2 || !enough {
        return None;
    }
    if looks == 2 {
        return Some(Verdict::Grew);
    }
    // A buffer that doubles leaks by bytes but not by count.
    let up = |trend: &Trend| trend.per_second > 0.0;
    let line = (count.significant && up(count)) || (bytes.significant && up(bytes));
    let always = count.always_up || bytes.always_up;
    match (line, always) {
        (true, true) => Some(Verdict::Leaking),
        (true, false) | (false, true) => Some(Verdict::Likely),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(second: u64, types: &[(&str, u64, u64)]) -> SnapshotSummary {
        let info = |name: &str| TypeInfo { name: name.into(), module: "m".into() };
        SnapshotSummary {
            time: second * 1_000_000_000,
            pause_ns: None,
            complete: true,
            count: types.iter().map(|(_, count, _)| count).sum(),
            bytes: types.iter().map(|(_, _, bytes)| bytes).sum(),
            types: types
                .iter()
                .map(|(name, count, bytes)| (info(name), (*count, *bytes)))
                .collect(),
            references: HashMap::new(),
        }
    }

    #[test]
    fn slopes_and_their_significance() {
        let seconds =
            |times: &[u64]| times.iter().map(|time| time * 1_000_000_000).collect::<Vec<_>>();
        let two = Trend::of(&seconds(&[10, 12]), &[100, 140]);
        assert_eq!(
            (two.per_second, two.change, two.t, two.significant, two.always_up),
            (20.0, 40.0, None, false, true)
        );
        let exact = Trend::of(&seconds(&[0, 1, 2, 3]), &[5, 7, 9, 11]);
        assert_eq!(
            (exact.per_second, exact.t, exact.significant, exact.always_up),
            (2.0, None, true, true)
        );
        let flat = Trend::of(&seconds(&[0, 1, 2]), &[5, 5, 5]);
        assert_eq!((flat.per_second, flat.significant, flat.always_up), (0.0, false, false));
        let noisy = Trend::of(&seconds(&[0, 1, 2, 3, 4]), &[1, 3, 4, 8, 9]);
        // mean x 2, mean y 5; Sxy = (-2)(-4) + (-1)(-2) + 0 + 1*3 + 2*4 = 21; Sxx = 10; slope 2.1;
        // residuals 0.2, 0.1, -1, 0.9, -0.2: sum of squares 1.9; error sqrt(1.9 / 3 / 10) =
        // 0.25166; t = 8.344.
        assert!((noisy.per_second - 2.1).abs() < 1e-12);
        assert!((noisy.t.unwrap() - 8.3444).abs() < 1e-3, "{noisy:?}");
        assert!(noisy.significant);
        // The same for three points: t = 3.46 would do for thirty, not with one degree of freedom.
        let three = Trend::of(&seconds(&[0, 1, 2]), &[0, 2, 2]);
        assert!(!three.significant && !three.always_up, "{three:?}");
        assert_eq!(Trend::of(&[], &[]), Trend::default());
        assert_eq!(Trend::of(&seconds(&[3, 3]), &[1, 5]).per_second, 0.0);
    }

    #[test]
    fn critical_values_go_on_beyond_the_table() {
        assert_eq!(critical_t(1), 12.706);
        assert!((critical_t(31) - 2.040).abs() < 2e-3 && (critical_t(120) - 1.980).abs() < 1e-3);
    }

    #[test]
    fn two_looks_show_growth_and_more_looks_a_verdict() {
        let heap = |second, leak: u64, wave: u64| {
            look(
                second,
                &[
                    ("Leak", leak, leak * 100),
                    ("Wave", wave, wave * 100),
                    ("Rest", 1000, 1_000_000),
                ],
            )
        };
        let two = Growth::of(&[heap(0, 100, 50), heap(5, 600, 900)]);
        let names = |growth: &Growth| {
            growth
                .suspects()
                .iter()
                .map(|type_| (type_.info.name.clone(), type_.verdict.unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&two), [("Wave".into(), Verdict::Grew), ("Leak".into(), Verdict::Grew)]);
        assert_eq!(two.types.len(), 2, "what did not change is no row");
        let four = Growth::of(&[
            heap(0, 100, 50),
            heap(5, 610, 900),
            heap(10, 1090, 20),
            heap(15, 1600, 700),
        ]);
        assert_eq!(names(&four), [("Leak".into(), Verdict::Leaking)]);
        assert!(
            (four.types.iter().find(|row| row.info.name == "Leak").unwrap().count_trend.per_second
                - 100.0)
                .abs()
                < 2.0
        );
        // A type that is gone at the end is reported, but not suspected.
        let gone = Growth::of(&[look(0, &[("A", 100, 4000)]), look(1, &[])]);
        assert_eq!((gone.types[0].bytes_trend.change, gone.types[0].verdict), (-4000.0, None));
        assert_eq!(Growth::of(&[]).types, []);
    }
}
