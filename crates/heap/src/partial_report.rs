use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    histogram::Histogram,
    report::{GenerationRow, RootRow, SCHEMA, generation_rows, root_rows},
    snapshot::{Extent, GENERATIONS, Gaps, NodeId, RootKind, Snapshot, TypeId, generation_name},
};

/// Report on a partial snapshot: a histogram, or roots. A partial snapshot has no references, so
/// the report has no retention paths and no retained sizes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PartialReport {
    /// Version of these keys and their meaning: [`SCHEMA`].
    pub schema: u32,
    /// What is in it.
    #[serde(rename = "kind")]
    pub looked_at: Extent,
    /// Name of the process.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// The runtime; empty if not known.
    pub runtime: String,
    /// When the snapshot was taken, milliseconds since 1970; 0 if not known.
    pub time_unix_ms: u64,
    /// How long the process was suspended for it, where that was measured.
    pub pause_seconds: Option<f64>,
    /// Whether all that was wanted is in it.
    pub complete: bool,
    /// Why not; of a complete one, what else it lacks.
    pub note: Option<String>,
    /// Sums: of all objects, or of those that roots refer to.
    pub totals: BriefTotals,
    /// The same by generation.
    pub generations: Vec<GenerationRow>,
    /// Of a histogram: the types of most bytes.
    pub types: Vec<BriefRow>,
    /// Of roots: by kind.
    pub roots: Vec<RootRow>,
    /// Of roots: by kind and by the type of what they refer to, the most roots first.
    pub root_types: Vec<RootTypeRow>,
    /// What is not in it.
    #[serde(rename = "not_included")]
    pub not_looked_at: Vec<&'static str>,
    /// What was wanted, but is missing from the snapshot.
    pub missing: Gaps,
}

/// Sums over a partial snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BriefTotals {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their types.
    pub types: u64,
}

/// Objects of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BriefRow {
    /// Full name.
    #[serde(rename = "type")]
    pub name: String,
    /// Module; empty if not known.
    pub module: String,
    /// How many.
    pub objects: u64,
    /// Bytes of the objects themselves.
    pub bytes: u64,
    /// Their bytes by generation.
    pub bytes_by_generation: BTreeMap<&'static str, u64>,
}

/// Roots of a kind that refer to objects of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RootTypeRow {
    /// Of which kind the roots are.
    pub kind: RootKind,
    /// Full name of the type.
    #[serde(rename = "type")]
    pub name: String,
    /// Its module; empty if not known.
    pub module: String,
    /// Roots that keep an object alive.
    pub roots: u64,
    /// How many of them also pin it.
    pub pinned: u64,
    /// Roots that keep nothing alive, which are not among [`Self::roots`].
    pub weak: u64,
    /// Different objects that are kept alive.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Makes the report on a snapshot without references. The lists have at most `top` rows.
pub fn brief(snapshot: &Snapshot, top: usize) -> PartialReport {
    let end = snapshot.end();
    let histogram = Histogram::of(snapshot);
    let by_bytes = histogram.by_bytes();
    let roots = end.extent == Extent::Roots;
    let row = |counts: &&crate::TypeCounts| {
        let info = &snapshot.types()[counts.type_id as usize];
        BriefRow {
            name: info.name.clone(),
            module: info.module.clone(),
            objects: counts.count,
            bytes: counts.bytes,
            bytes_by_generation: (0..GENERATIONS)
                .filter(|generation| counts.bytes_by_generation[*generation] > 0)
                .map(|generation| {
                    (generation_name(generation), counts.bytes_by_generation[generation])
                })
                .collect(),
        }
    };
    PartialReport {
        schema: SCHEMA,
        looked_at: end.extent,
        process: end.process.clone(),
        pid: end.pid,
        runtime: end.runtime.clone(),
        time_unix_ms: end.unix_ms,
        pause_seconds: end.pause_ns.map(|pause| pause as f64 / 1e9),
        complete: end.complete,
        note: Some(end.reason.clone()).filter(|reason| !reason.is_empty()),
        totals: BriefTotals {
            objects: histogram.total.count,
            bytes: histogram.total.bytes,
            types: by_bytes.len() as u64,
        },
        generations: generation_rows(&histogram.total),
        types: if roots { Vec::new() } else { by_bytes.iter().take(top).map(row).collect() },
        roots: root_rows(snapshot),
        root_types: root_types(snapshot, top),
        not_looked_at: match end.extent {
            Extent::All => Vec::new(),
            Extent::Histogram => vec![
                "references between objects, and so retention paths and what each object retains",
                "roots",
                "contents of strings",
            ],
            Extent::Roots => vec![
                "objects that no root refers to, and references between objects",
                "variables that refer into the middle of an object of an older generation",
                "the types of other objects into whose middle variables refer",
                "entries of ConditionalWeakTables",
            ],
        },
        missing: snapshot.gaps().clone(),
    }
}

fn root_types(snapshot: &Snapshot, top: usize) -> Vec<RootTypeRow> {
    let mut rows: BTreeMap<(RootKind, TypeId), RootTypeRow> = BTreeMap::new();
    // Roots come in the order of their objects.
    let mut last: Option<(NodeId, RootKind)> = None;
    for root in snapshot.roots() {
        let type_id = snapshot.type_of(root.node);
        let row = rows.entry((root.kind, type_id)).or_insert_with(|| {
            let info = &snapshot.types()[type_id as usize];
            let (name, module) = (info.name.clone(), info.module.clone());
            RootTypeRow {
                kind: root.kind,
                name,
                module,
                roots: 0,
                pinned: 0,
                weak: 0,
                objects: 0,
                bytes: 0,
            }
        });
        if root.weak {
            row.weak += 1;
            continue;
        }
        row.roots += 1;
        row.pinned += u64::from(root.pinned);
        if last != Some((root.node, root.kind)) {
            row.objects += 1;
            row.bytes = row.bytes.saturating_add(snapshot.size(root.node));
        }
        last = Some((root.node, root.kind));
    }
    let mut rows: Vec<RootTypeRow> = rows.into_values().collect();
    order::sort_by(&mut rows, |one, other| {
        (other.roots, other.weak).cmp(&(one.roots, one.weak)).then(one.name.cmp(&other.name))
    });
    rows.truncate(top);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generation, MemoryBudget, Root, SnapshotBuilder, SnapshotEnd};

    fn look(extent: Extent) -> PartialReport {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        let root = |target, kind, pinned, weak| Root {
            target,
            kind,
            pinned,
            weak,
            interior: false,
            id: 0,
        };
        if extent == Extent::Roots {
            builder.root(root(0x1000, RootKind::Handle, true, false));
            builder.root(root(0x1000, RootKind::Handle, false, false));
            builder.root(root(0x1020, RootKind::Handle, false, true));
            builder.root(root(0x1020, RootKind::Stack, false, false));
            builder.root(root(0x9999, RootKind::Stack, false, false));
        }
        builder.object(0x1000, 1, 32);
        builder.object(0x1020, 1, 32);
        builder.object(0x1040, 2, 100);
        builder.class(1, "Shop.Order", "shop");
        builder.class(2, "byte[]", "");
        builder.generation(Generation { generation: 2, start: 0x1000, length: 0x40 });
        brief(&builder.finish(SnapshotEnd { complete: true, extent, ..SnapshotEnd::default() }), 10)
    }

    #[test]
    fn a_histogram_has_types_and_no_roots() {
        let found = look(Extent::Histogram);
        assert_eq!(found.totals, BriefTotals { objects: 3, bytes: 164, types: 2 });
        let rows: Vec<(&str, u64, u64)> =
            found.types.iter().map(|row| (row.name.as_str(), row.objects, row.bytes)).collect();
        assert_eq!(rows, [("byte[]", 1, 100), ("Shop.Order", 2, 64)]);
        assert_eq!(found.types[1].bytes_by_generation, BTreeMap::from([("gen2", 64)]));
        assert!(found.roots.is_empty() && found.root_types.is_empty());
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(
            (&json["kind"], &json["types"][0]["type"]),
            (&"histogram".into(), &"byte[]".into())
        );
        assert!(json["types"][0].get("retained_bytes").is_none(), "nobody knows");
    }

    #[test]
    fn roots_are_told_by_what_they_refer_to() {
        let found = look(Extent::Roots);
        assert!(found.types.is_empty());
        let row =
            |row: &RootTypeRow| (row.kind, row.roots, row.pinned, row.weak, row.objects, row.bytes);
        assert_eq!(
            found.root_types.iter().map(row).collect::<Vec<_>>(),
            [(RootKind::Handle, 2, 1, 1, 1, 32), (RootKind::Stack, 1, 0, 0, 1, 32)]
        );
        assert_eq!(
            found.roots.iter().map(|row| (row.kind, row.roots)).collect::<Vec<_>>(),
            [(RootKind::Handle, 2), (RootKind::Stack, 1)]
        );
        assert_eq!(found.missing.dangling_roots, 1);
    }
}
