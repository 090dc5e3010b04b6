use std::collections::BTreeMap;

use heap::growth::SnapshotSummary;
use schemars::JsonSchema;
use serde::Serialize;

/// What was on the heap in a snapshot of each recording: the last one that it has. One snapshot
/// says nothing of how much the heap varies, so there is no significance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HeapComparison {
    /// Objects of all types.
    pub total: HeapCounts,
    /// Types whose objects differ in number or size, those that differ by most bytes first.
    pub types: Vec<HeapType>,
    /// Whether both snapshots have all objects.
    pub complete: bool,
}

/// A type on both heaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HeapType {
    /// Full name.
    pub name: String,
    /// The module that it is from.
    pub module: String,
    /// Its objects.
    #[serde(flatten)]
    pub counts: HeapCounts,
}

/// Objects in a snapshot before and in one after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeapCounts {
    /// Objects before.
    pub before_count: u64,
    /// Objects after.
    pub after_count: u64,
    /// Their bytes before.
    pub before_bytes: u64,
    /// Their bytes after.
    pub after_bytes: u64,
}

impl HeapCounts {
    /// Bytes after less bytes before.
    pub fn bytes_change(&self) -> f64 {
        self.after_bytes as f64 - self.before_bytes as f64
    }

    /// Objects after less objects before.
    pub fn count_change(&self) -> f64 {
        self.after_count as f64 - self.before_count as f64
    }
}

impl HeapComparison {
    /// Between two snapshots.
    pub fn of(before: &SnapshotSummary, after: &SnapshotSummary) -> Self {
        // Assemblies are the same ones in another folder.
        let mut types: BTreeMap<(&str, &str), HeapCounts> = BTreeMap::new();
        for (info, (count, bytes)) in &before.types {
            let counts = types.entry((info.name.as_str(), file_name(&info.module))).or_default();
            counts.before_count += count;
            counts.before_bytes = counts.before_bytes.saturating_add(*bytes);
        }
        for (info, (count, bytes)) in &after.types {
            let counts = types.entry((info.name.as_str(), file_name(&info.module))).or_default();
            counts.after_count += count;
            counts.after_bytes = counts.after_bytes.saturating_add(*bytes);
        }
        let changed = types
            .into_iter()
            .filter(|(_, counts)| counts.bytes_change() != 0.0 || counts.count_change() != 0.0);
        let mut types: Vec<HeapType> = changed
            .map(|((name, module), counts)| HeapType {
                name: name.to_owned(),
                module: module.to_owned(),
                counts,
            })
            .collect();
        order::sort_by(&mut types, |one, other| {
            let size =
                |own: &HeapType| (own.counts.bytes_change().abs(), own.counts.count_change().abs());
            let (one, other) = (size(one), size(other));
            other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
        });
        Self {
            total: HeapCounts {
                before_count: before.count,
                after_count: after.count,
                before_bytes: before.bytes,
                after_bytes: after.bytes,
            },
            types,
            complete: before.complete && after.complete,
        }
    }
}

fn file_name(path: &str) -> &str {
    document::format::file_name(path)
}
