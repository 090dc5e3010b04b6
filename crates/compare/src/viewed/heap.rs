use explore::Pattern;
use schemars::JsonSchema;
use serde::Serialize;

use super::Viewed;
use crate::HeapType;

/// The order of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeOrder {
    /// By how many bytes more or less.
    Bytes,
    /// By how many objects more or less.
    Objects,
    /// By bytes before.
    Before,
    /// By bytes after.
    After,
    /// By name.
    Name,
}

impl TypeOrder {
    /// All of them, with their words in addresses.
    pub const ALL: [(&'static str, Self); 5] = [
        ("bytes", Self::Bytes),
        ("objects", Self::Objects),
        ("before", Self::Before),
        ("after", Self::After),
        ("name", Self::Name),
    ];
}

/// Types whose objects differ in number or size.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedTypes")]
pub struct TypesHead<'a> {
    /// How many there are.
    count: usize,
    /// Some of them.
    rows: Vec<&'a HeapType>,
}

impl Viewed {
    /// Types on the heaps, from the row `first` on; none if a heap is missing.
    pub fn types(
        &self,
        search: Option<&Pattern>,
        order: TypeOrder,
        first: usize,
        rows: usize,
    ) -> TypesHead<'_> {
        let types = self.comparison.heap.iter().flat_map(|heap| &heap.types);
        let mut all: Vec<&HeapType> =
            types.filter(|own| search.is_none_or(|search| search.finds(&own.name))).collect();
        let by = |all: &mut Vec<&HeapType>, key: fn(&HeapType) -> f64| {
            order::sort_by(all, |one, other| key(other).total_cmp(&key(one)));
        };
        match order {
            TypeOrder::Bytes => by(&mut all, |own| own.counts.bytes_change().abs()),
            TypeOrder::Objects => by(&mut all, |own| own.counts.count_change().abs()),
            TypeOrder::Before => by(&mut all, |own| own.counts.before_bytes as f64),
            TypeOrder::After => by(&mut all, |own| own.counts.after_bytes as f64),
            TypeOrder::Name => order::sort_by_key(&mut all, |own| own.name.as_str()),
        }
        TypesHead { count: all.len(), rows: all.into_iter().skip(first).take(rows).collect() }
    }
}
