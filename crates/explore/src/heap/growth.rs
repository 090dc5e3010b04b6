//! How types grow over the heap snapshots of a session.

use std::cmp::Ordering;

use document::format::{file_name, without_namespaces};
use heap::growth::{Growth, SnapshotSummary, Trend, TypeGrowth, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{ExploreError, Pattern};

/// What grew over the heap snapshots of a session, ready for any number of questions.
#[derive(Debug)]
pub struct GrowthView {
    snapshots: Vec<GrowthSnapshot>,
    /// Objects of all types.
    objects: Trend,
    growth: Growth,
}

/// How types grew over the heap snapshots of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapGrowth {
    /// The snapshots that were compared, in the order of their times.
    snapshots: Vec<GrowthSnapshot>,
    /// How the number of all objects changed.
    objects: Trend,
    /// How the bytes of all objects changed.
    bytes: Trend,
    /// How many types have changed, of those that were searched for.
    count: usize,
    /// Some of them, those that grew most first.
    rows: Vec<HeapGrowthRow>,
}

/// A heap snapshot that was compared with others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GrowthSnapshot {
    /// When it was taken, seconds since the start of the recording.
    seconds: f64,
    /// All objects.
    objects: u64,
    /// Their bytes.
    bytes: u64,
    /// Whether all objects are in it.
    complete: bool,
}

/// A type over all heap snapshots of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapGrowthRow {
    /// Full name.
    name: String,
    /// Name without namespaces.
    short: String,
    /// Module; empty if not known.
    module: String,
    /// How many objects each snapshot has.
    objects: Vec<u64>,
    /// Bytes of the objects themselves in each snapshot.
    bytes: Vec<u64>,
    /// How their number changed.
    objects_trend: Trend,
    /// How their bytes changed.
    bytes_trend: Trend,
    /// Whether the type is suspected to leak, and how certain that is; null if it is not.
    verdict: Option<Verdict>,
}

/// By what types are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthSort {
    /// By the bytes by which they grew.
    Bytes,
    /// By the number of objects by which they grew.
    Objects,
}

impl GrowthSort {
    /// All of them, with their words in addresses.
    pub const ALL: [(&'static str, Self); 2] = [("bytes", Self::Bytes), ("objects", Self::Objects)];
}

impl GrowthView {
    /// Compares the snapshots of a session, in the order of their times.
    ///
    /// # Errors
    /// [`ExploreError::NoGrowth`] if there are fewer than two.
    pub fn new(summaries: &[SnapshotSummary]) -> Result<Self, ExploreError> {
        if summaries.len() < 2 {
            return Err(ExploreError::NoGrowth(summaries.len()));
        }
        let growth = Growth::of(summaries);
        let objects: Vec<u64> = summaries.iter().map(|summary| summary.count).collect();
        let snapshot = |summary: &SnapshotSummary| GrowthSnapshot {
            seconds: summary.time as f64 / 1e9,
            objects: summary.count,
            bytes: summary.bytes,
            complete: summary.complete,
        };
        Ok(Self {
            snapshots: summaries.iter().map(snapshot).collect(),
            objects: Trend::of(&growth.times, &objects),
            growth,
        })
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        let of_type = |own: &TypeGrowth| {
            size_of::<TypeGrowth>()
                + own.info.name.len()
                + own.info.module.len()
                + self.snapshots.len() * 16
        };
        self.growth.types.iter().map(of_type).sum()
    }

    /// Types that changed, from the row `first` on.
    pub fn types(
        &self,
        search: Option<&Pattern>,
        sort: GrowthSort,
        first: usize,
        rows: usize,
    ) -> HeapGrowth {
        let found = |own: &&TypeGrowth| search.is_none_or(|search| search.finds(&own.info.name));
        let mut all: Vec<&TypeGrowth> = self.growth.types.iter().filter(found).collect();
        order::sort_by(&mut all, |one, other| most_first(sort, one, other));
        HeapGrowth {
            snapshots: self.snapshots.clone(),
            objects: self.objects,
            bytes: self.growth.total,
            count: all.len(),
            rows: all.iter().skip(first).take(rows).map(|own| row(own)).collect(),
        }
    }
}

fn most_first(sort: GrowthSort, one: &TypeGrowth, other: &TypeGrowth) -> Ordering {
    let change = |own: &TypeGrowth| match sort {
        GrowthSort::Bytes => [own.bytes_trend.change, own.count_trend.change],
        GrowthSort::Objects => [own.count_trend.change, own.bytes_trend.change],
    };
    let ([first, second], [other_first, other_second]) = (change(one), change(other));
    other_first.total_cmp(&first).then(other_second.total_cmp(&second))
}

fn row(own: &TypeGrowth) -> HeapGrowthRow {
    HeapGrowthRow {
        name: own.info.name.clone(),
        short: without_namespaces(&own.info.name),
        module: file_name(&own.info.module).to_owned(),
        objects: own.counts.clone(),
        bytes: own.bytes.clone(),
        objects_trend: own.count_trend,
        bytes_trend: own.bytes_trend,
        verdict: own.verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::TypeInfo;
    use std::collections::HashMap;

    fn summary(second: u64, types: &[(&str, u64, u64)]) -> SnapshotSummary {
        let info = |name: &str| TypeInfo { name: name.into(), module: "/app/shop.dll".into() };
        SnapshotSummary {
            time: second * 1_000_000_000,
            pause_ns: None,
            complete: second < 9,
            count: types.iter().map(|(_, count, _)| count).sum(),
            bytes: types.iter().map(|(_, _, bytes)| bytes).sum(),
            types: types
                .iter()
                .map(|(name, count, bytes)| (info(name), (*count, *bytes)))
                .collect(),
            references: HashMap::new(),
        }
    }

    fn view() -> GrowthView {
        let heap = |second: u64| {
            let leak = 100 + second * 50;
            summary(
                second,
                &[
                    ("Shop.Leak", leak, leak * 1000),
                    ("Shop.Small", 10 + second * 100, 10 + second * 100),
                    ("Shop.Gone", 90 - second * 10, 900 - second * 100),
                    ("Shop.Same", 7, 70),
                ],
            )
        };
        GrowthView::new(&[heap(1), heap(5), heap(9)]).unwrap()
    }

    fn names(answer: &HeapGrowth) -> Vec<&str> {
        answer.rows.iter().map(|row| row.short.as_str()).collect()
    }

    #[test]
    fn types_that_grew_most_come_first() {
        let all = view().types(None, GrowthSort::Bytes, 0, 10);
        assert_eq!((names(&all), all.count), (vec!["Leak", "Small", "Gone"], 3));
        let leak = &all.rows[0];
        assert_eq!((leak.objects.as_slice(), leak.bytes[2]), (&[150, 350, 550][..], 550_000));
        assert_eq!((leak.bytes_trend.change, leak.bytes_trend.per_second), (400_000.0, 50_000.0));
        assert_eq!((leak.module.as_str(), leak.verdict), ("shop.dll", Some(Verdict::Leaking)));
        let gone = &all.rows[2];
        assert_eq!((gone.objects_trend.change, gone.verdict), (-80.0, None));
        let seconds: Vec<f64> = all.snapshots.iter().map(|own| own.seconds).collect();
        assert_eq!(seconds, [1.0, 5.0, 9.0]);
        assert_eq!(all.snapshots.iter().filter(|own| own.complete).count(), 2);
        assert_eq!((all.objects.change, all.bytes.change), (1120.0, 400_000.0));
    }

    #[test]
    fn rows_are_chosen_by_order_name_and_place() {
        let view = view();
        assert_eq!(names(&view.types(None, GrowthSort::Objects, 0, 2)), ["Small", "Leak"]);
        assert_eq!(names(&view.types(None, GrowthSort::Bytes, 1, 1)), ["Small"]);
        let search = Pattern::parse("gone").unwrap();
        let found = view.types(search.as_ref(), GrowthSort::Bytes, 0, 10);
        assert_eq!((names(&found), found.count), (vec!["Gone"], 1));
        assert!(view.size() > 3 * 3 * 16);
    }

    #[test]
    fn one_snapshot_shows_no_growth() {
        let one = GrowthView::new(&[summary(0, &[])]);
        assert_eq!(one.unwrap_err(), ExploreError::NoGrowth(1));
    }
}
