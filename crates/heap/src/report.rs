use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    dominators::Dominators,
    histogram::{Histogram, TypeCounts},
    paths::{Holdings, Paths, RootPath},
    snapshot::{GENERATIONS, Gaps, NodeId, RootKind, Snapshot, TypeId, generation_name},
    strings::DuplicateString,
};

/// What a [`Report`] shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// Rows of each list.
    pub top: usize,
    /// A type to be looked at closely: its name, with or without namespace.
    pub type_name: Option<String>,
    /// Kinds of path for each type that is looked at closely.
    pub paths: usize,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self { top: 20, type_name: None, paths: 5 }
    }
}

/// Version of the form of [`Report`] and [`crate::LeakReport`]. Fields may be added without a new
/// one.
pub const SCHEMA: u32 = 1;

/// A snapshot for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of these keys and their meaning: [`SCHEMA`].
    pub schema: u32,
    /// Name of the process.
    pub process: String,
    /// Its id; 0 if not known.
    pub pid: u32,
    /// The runtime; empty if not known.
    pub runtime: String,
    /// When the snapshot was taken, milliseconds since 1970; 0 if not known.
    pub time_unix_ms: u64,
    /// How long the process was suspended for it, where that was measured.
    pub pause_seconds: Option<f64>,
    /// Whether all objects are in it.
    pub complete: bool,
    /// Why not; of a complete one, what else it lacks.
    pub note: Option<String>,
    /// Sums.
    pub totals: Totals,
    /// By generation.
    pub generations: Vec<GenerationRow>,
    /// By kind of root.
    pub roots: Vec<RootRow>,
    /// The types of most bytes.
    pub types: Vec<TypeRow>,
    /// The types that retain most.
    pub retaining_types: Vec<TypeRow>,
    /// Where most is retained.
    pub retainers: Vec<Retainer>,
    /// Contents of strings; none if they were not compared.
    pub strings: Option<Strings>,
    /// What waits for its finalizer.
    pub finalizer_queue: Vec<TypeRow>,
    /// The types that were asked for by name.
    pub asked: Vec<TypeDetail>,
    /// What the snapshot lacks.
    pub missing: Missing,
}

/// Sums over a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// All objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// References between them.
    pub references: u64,
    /// Types that have objects.
    pub types: u64,
    /// Objects that a root leads to.
    pub reached_objects: u64,
    /// Their bytes.
    pub reached_bytes: u64,
}

/// A generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GenerationRow {
    /// See [`generation_name`].
    pub name: &'static str,
    /// Objects in it.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All roots of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RootRow {
    /// Which.
    pub kind: RootKind,
    /// How many that keep an object alive.
    pub roots: u64,
    /// How many of them also pin it.
    pub pinned: u64,
    /// Roots that keep nothing alive, which are not among [`Self::roots`].
    pub weak: u64,
    /// Different objects that are kept alive.
    pub objects: u64,
}

/// Objects of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TypeRow {
    /// Full name.
    #[serde(rename = "type")]
    pub name: String,
    /// Module; empty if not known.
    pub module: String,
    /// How many.
    pub objects: u64,
    /// Bytes of the objects themselves.
    pub bytes: u64,
    /// Bytes that would be free without all of them.
    pub retained_bytes: u64,
    /// Their bytes by generation.
    pub bytes_by_generation: BTreeMap<&'static str, u64>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// Type of the object.
    #[serde(rename = "type")]
    pub name: String,
    /// How many objects of the type follow one another here, the first [`crate::Paths`] counts.
    pub times: u32,
    /// Where the last of them is.
    pub address: u64,
    /// The field by which the last of them refers to the next object, `[]` for an element of an
    /// array. None where that is not known, and at the end of the path.
    pub field: Option<String>,
}

/// A shortest path from a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathRow {
    /// What it begins with.
    pub root: RootKind,
    /// What that is called, if it has a name.
    pub root_name: Option<String>,
    /// Whether it pins the first object.
    pub pinned: bool,
    /// From the first object on.
    pub steps: Vec<Step>,
    /// Steps that are left out in the middle.
    pub omitted_steps: u64,
}

impl PathRow {
    /// What it begins with, as people read it: `static Shop.Cache.entries`.
    pub fn root_text(&self) -> String {
        match (self.root, &self.root_name) {
            (RootKind::Statics, Some(name)) => format!("static {name}"),
            (RootKind::Handle, _) if self.pinned => "pinning handle".to_owned(),
            (kind, Some(name)) => format!("{} {name}", kind.name()),
            (kind, None) => kind.name().to_owned(),
        }
    }

    /// The static field that it begins with, if it is known.
    pub fn static_field(&self) -> Option<&str> {
        self.root_name.as_deref().filter(|_| self.root == RootKind::Statics)
    }
}

/// An object that retains much, while nothing below it retains nearly as much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Retainer {
    /// Where it is.
    pub address: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub name: String,
    /// Bytes of itself.
    pub bytes: u64,
    /// Bytes that would be free without it.
    pub retained_bytes: u64,
    /// How it is held.
    pub path: Option<PathRow>,
}

/// Contents of strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Strings {
    /// Strings that were compared.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Different contents.
    pub distinct: u64,
    /// Bytes of all but one of each content.
    pub wasted_bytes: u64,
    /// Those that waste most.
    pub duplicates: Vec<StringRow>,
}

/// A content that several strings have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StringRow {
    /// How it begins, where that is known.
    pub text: Option<String>,
    /// UTF-16 units of one.
    pub length: u32,
    /// How many strings have it.
    pub objects: u64,
    /// Bytes of all of them but one.
    pub wasted_bytes: u64,
    /// How one of them is held.
    pub path: Option<PathRow>,
}

/// A way in which objects of a type are held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HolderRow {
    /// How many objects, of those that were looked at.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// One of the paths.
    pub path: PathRow,
}

/// A type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TypeDetail {
    /// Its objects.
    #[serde(flatten)]
    pub row: TypeRow,
    /// Objects whose paths were looked at: all, or some 20,000 that are evenly spread.
    pub examined_objects: u64,
    /// How many of them no root reaches.
    pub unreached_objects: u64,
    /// The most common ways in which they are held.
    pub holders: Vec<HolderRow>,
}

/// What a snapshot lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// Objects that no root leads to.
    pub unreached_objects: u64,
    /// Their bytes.
    pub unreached_bytes: u64,
    /// The rest.
    #[serde(flatten)]
    pub gaps: Gaps,
}

/// Makes a report of a snapshot.
pub fn report(snapshot: &Snapshot, options: &ReportOptions) -> Report {
    let histogram = Histogram::of(snapshot);
    let (dominators, paths) = std::thread::scope(|scope| {
        let paths = scope.spawn(|| Paths::of(snapshot, |_| true));
        let dominators = Dominators::of(snapshot);
        (dominators, paths.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let rows = Rows { snapshot, retained: dominators.retained_by_type() };
    let top_retainers = top_retainers(snapshot, &dominators, options.top);
    let finalizer_queue = rows.finalizer_queue(options.top);
    let by_retained = {
        let mut types: Vec<&TypeCounts> =
            histogram.types.iter().filter(|row| row.count > 0).collect();
        order::sort_by_key(&mut types, |row| Reverse(rows.retained[row.type_id as usize]));
        types
    };
    let types = histogram.by_bytes();
    let top = |types: &[&TypeCounts]| {
        types.iter().take(options.top).map(|row| rows.row(row)).collect::<Vec<_>>()
    };
    let (total, reached) = (&histogram.total, (dominators.reached(), dominators.reached_bytes()));
    let mut report = Report {
        schema: SCHEMA,
        process: snapshot.end().process.clone(),
        pid: snapshot.end().pid,
        runtime: snapshot.end().runtime.clone(),
        time_unix_ms: snapshot.end().unix_ms,
        pause_seconds: snapshot.end().pause_ns.map(seconds),
        complete: snapshot.end().complete,
        note: Some(snapshot.end().reason.clone()).filter(|reason| !reason.is_empty()),
        totals: Totals {
            objects: total.count,
            bytes: total.bytes,
            references: snapshot.reference_count(),
            types: types.len() as u64,
            reached_objects: reached.0,
            reached_bytes: reached.1,
        },
        generations: generation_rows(total),
        roots: root_rows(snapshot),
        types: top(&types),
        retaining_types: top(&by_retained),
        retainers: Vec::new(),
        strings: None,
        finalizer_queue,
        asked: Vec::new(),
        missing: Missing {
            unreached_objects: total.count - reached.0,
            unreached_bytes: total.bytes.saturating_sub(reached.1),
            gaps: snapshot.gaps().clone(),
        },
    };
    let retained: Vec<(NodeId, u64)> =
        top_retainers.iter().map(|node| (*node, dominators.retained(*node))).collect();
    let asked: Vec<TypeId> =
        options.type_name.iter().flat_map(|name| snapshot.find_types(name)).collect();
    let asked: Vec<(TypeId, TypeRow)> = asked
        .into_iter()
        .map(|type_id| (type_id, rows.row(&histogram.types[type_id as usize])))
        .collect();
    drop(dominators);

    report.retainers = retained
        .into_iter()
        .map(|(node, retained_bytes)| Retainer {
            address: snapshot.address(node),
            name: type_name(snapshot, snapshot.type_of(node)),
            bytes: snapshot.size(node),
            retained_bytes,
            path: paths.to(node).map(|path| path_row(snapshot, &path)),
        })
        .collect();
    report.asked = asked
        .into_iter()
        .map(|(type_id, row)| type_detail(snapshot, &paths, type_id, row, options.paths))
        .collect();
    report.strings = strings(snapshot, &paths, options.top);
    report
}

fn type_detail(
    snapshot: &Snapshot,
    paths: &Paths<'_>,
    type_id: TypeId,
    row: TypeRow,
    most: usize,
) -> TypeDetail {
    let holdings = paths.holdings(type_id);
    TypeDetail {
        row,
        examined_objects: holdings.examined,
        unreached_objects: holdings.unreached,
        holders: holder_rows(snapshot, &holdings, most),
    }
}

/// What is known of the strings; `None` if there are none.
fn strings(snapshot: &Snapshot, paths: &Paths<'_>, most: usize) -> Option<Strings> {
    let strings = snapshot.strings();
    let row = |duplicate: &DuplicateString| StringRow {
        text: duplicate.text.clone(),
        length: duplicate.length,
        objects: duplicate.count,
        wasted_bytes: duplicate.wasted,
        path: paths.to(duplicate.example).map(|path| path_row(snapshot, &path)),
    };
    (strings.count > 0).then(|| Strings {
        objects: strings.count,
        bytes: strings.bytes,
        distinct: strings.distinct,
        wasted_bytes: strings.wasted,
        duplicates: strings.duplicates.iter().take(most).map(row).collect(),
    })
}

pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

pub(crate) fn type_name(snapshot: &Snapshot, type_id: TypeId) -> String {
    snapshot.types()[type_id as usize].name.clone()
}

struct Rows<'a> {
    snapshot: &'a Snapshot,
    retained: &'a [u64],
}

impl Rows<'_> {
    fn row(&self, counts: &TypeCounts) -> TypeRow {
        let info = &self.snapshot.types()[counts.type_id as usize];
        TypeRow {
            name: info.name.clone(),
            module: info.module.clone(),
            objects: counts.count,
            bytes: counts.bytes,
            retained_bytes: self.retained[counts.type_id as usize],
            bytes_by_generation: (0..GENERATIONS)
                .filter(|generation| counts.bytes_by_generation[*generation] > 0)
                .map(|generation| {
                    (generation_name(generation), counts.bytes_by_generation[generation])
                })
                .collect(),
        }
    }

    /// Types of what waits for its finalizer; bytes are those of these objects.
    fn finalizer_queue(&self, top: usize) -> Vec<TypeRow> {
        let mut types: BTreeMap<TypeId, TypeCounts> = BTreeMap::new();
        for root in self
            .snapshot
            .roots()
            .iter()
            .filter(|root| root.kind == RootKind::Finalizer && !root.weak)
        {
            let type_id = self.snapshot.type_of(root.node);
            let row =
                types.entry(type_id).or_insert(TypeCounts { type_id, ..TypeCounts::default() });
            let (size, generation) =
                (self.snapshot.size(root.node), self.snapshot.generation_of(root.node));
            row.count += 1;
            row.bytes += size;
            row.bytes_by_generation[generation] += size;
        }
        let mut types: Vec<TypeCounts> = types.into_values().collect();
        order::sort_by_key(&mut types, |row| Reverse(row.count));
        types.iter().take(top).map(|row| self.row(row)).collect()
    }
}

pub(crate) fn generation_rows(total: &TypeCounts) -> Vec<GenerationRow> {
    (0..GENERATIONS)
        .map(|generation| GenerationRow {
            name: generation_name(generation),
            objects: total.count_by_generation[generation],
            bytes: total.bytes_by_generation[generation],
        })
        .filter(|row| row.objects > 0)
        .collect()
}

pub(crate) fn root_rows(snapshot: &Snapshot) -> Vec<RootRow> {
    let rows = RootKind::ALL.into_iter().map(|kind| {
        let mut row = RootRow { kind, roots: 0, pinned: 0, weak: 0, objects: 0 };
        let mut last = None;
        for root in snapshot.roots().iter().filter(|root| root.kind == kind) {
            if root.weak {
                row.weak += 1;
                continue;
            }
            row.roots += 1;
            row.pinned += u64::from(root.pinned);
            row.objects += u64::from(last != Some(root.node));
            last = Some(root.node);
        }
        row
    });
    rows.filter(|row| row.roots + row.weak > 0).collect()
}

/// Objects that retain most, without those of which nearly all is retained by one object below: a
/// list retains as much as its array, and the array is where it comes together.
fn top_retainers(snapshot: &Snapshot, dominators: &Dominators, top: usize) -> Vec<NodeId> {
    let heaviest = dominators.heaviest_children();
    let comes_together = |node: &NodeId| {
        let below = heaviest[*node as usize];
        let retained = dominators.retained(*node);
        retained > 0 && (below == NodeId::MAX || dominators.retained(below) < retained / 5 * 4)
    };
    // The least of the best is on top.
    let mut best = std::collections::BinaryHeap::new();
    for node in snapshot.nodes().filter(comes_together) {
        let entry = Reverse((dominators.retained(node), node));
        if best.len() < top {
            best.push(entry);
        } else if best.peek().is_some_and(|least| entry < *least) {
            best.pop();
            best.push(entry);
        }
    }
    best.into_sorted_vec().into_iter().map(|entry| entry.0.1).collect()
}

/// A path for people and programs.
pub fn path_row(snapshot: &Snapshot, path: &RootPath) -> PathRow {
    PathRow {
        root: path.root.kind,
        root_name: snapshot.root_name(&path.root).map(str::to_owned),
        pinned: path.root.pinned,
        steps: path
            .steps
            .iter()
            .map(|step| Step {
                name: type_name(snapshot, step.type_id),
                times: step.times,
                address: snapshot.address(step.node),
                field: step
                    .next
                    .and_then(|next| snapshot.field(step.node, next))
                    .map(str::to_owned),
            })
            .collect(),
        omitted_steps: path.omitted,
    }
}

pub(crate) fn holder_rows(
    snapshot: &Snapshot,
    holdings: &Holdings,
    paths: usize,
) -> Vec<HolderRow> {
    let row = |holding: &crate::Holding| HolderRow {
        objects: holding.count,
        bytes: holding.bytes,
        path: path_row(snapshot, &holding.example),
    };
    holdings.kinds.iter().take(paths).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generation, MemoryBudget, Root, SnapshotBuilder, SnapshotEnd};

    const ORDERS: u64 = 500;

    /// A static list with `orders` orders, each with a string; and a large array on a stack.
    fn shop(orders: u64, time: u64) -> Snapshot {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        for (class, name) in
            [(1, "List<Shop.Order>"), (2, "Shop.Order[]"), (3, "Shop.Order"), (4, "System.String")]
        {
            builder.class(class, name, "shop.dll");
        }
        builder.object(0x1000, 1, 32);
        builder.reference(0x2000);
        builder.object(0x2000, 2, 24 + orders * 8);
        (0..orders).for_each(|order| builder.reference(0x10_0000 + order * 24));
        for order in 0..orders {
            builder.object(0x10_0000 + order * 24, 3, 24);
            builder.reference(0x20_0000 + order * 40);
        }
        for order in 0..orders {
            builder.object(0x20_0000 + order * 40, 4, 40);
            builder.string(
                0x20_0000 + order * 40,
                order % 2,
                9,
                (order > 1).then_some(if order % 2 == 0 { "even" } else { "odd" }),
            );
        }
        builder.class(5, "System.Byte[]", "");
        builder.object(0x30_0000, 5, 100_000);
        builder.object(0x40_0000, 5, 1000);
        builder.generation(Generation { generation: 2, start: 0, length: 0x30_0000 });
        builder.generation(Generation { generation: 3, start: 0x30_0000, length: 0x10_0000 });
        let root = |target, kind| Root {
            target,
            kind,
            pinned: false,
            weak: false,
            interior: false,
            id: 7,
        };
        builder.root_name(7, "Shop.Program.orders");
        builder.root(root(0x1000, RootKind::Statics));
        builder.root(Root { id: 0, ..root(0x30_0000, RootKind::Stack) });
        builder.root(Root { id: 0, weak: true, ..root(0x2000, RootKind::Handle) });
        builder.finish(SnapshotEnd {
            complete: true,
            time,
            pause_ns: Some(5_000_000),
            ..SnapshotEnd::default()
        })
    }

    #[test]
    fn a_report_tells_what_is_there_and_who_holds_it() {
        let snapshot = shop(ORDERS, 0);
        let report = report(
            &snapshot,
            &ReportOptions { type_name: Some("Order".into()), ..ReportOptions::default() },
        );
        let orders = 32 + 24 + ORDERS * (8 + 24 + 40);
        assert_eq!(
            report.totals,
            Totals {
                objects: 4 + 2 * ORDERS,
                bytes: orders + 101_000,
                references: 1 + 2 * ORDERS,
                types: 5,
                reached_objects: 3 + 2 * ORDERS,
                reached_bytes: orders + 100_000,
            }
        );
        assert_eq!((report.missing.unreached_objects, report.missing.unreached_bytes), (1, 1000));
        assert_eq!(
            report.generations.iter().map(|row| (row.name, row.objects)).collect::<Vec<_>>(),
            [("gen2", 2 + 2 * ORDERS), ("loh", 1), ("unknown", 1)]
        );
        assert_eq!(report.types[0].name, "System.Byte[]");
        let list =
            report.retaining_types.iter().find(|row| row.name == "List<Shop.Order>").unwrap();
        assert_eq!((list.objects, list.bytes, list.retained_bytes), (1, 32, orders));
        // The list retains hardly more than its array, so the array is reported.
        assert_eq!(report.retainers[0].name, "System.Byte[]");
        assert_eq!(
            (report.retainers[1].name.as_str(), report.retainers[1].retained_bytes),
            ("Shop.Order[]", orders - 32)
        );
        let path = report.retainers[1].path.as_ref().unwrap();
        assert_eq!(
            (path.root, path.root_name.as_deref()),
            (RootKind::Statics, Some("Shop.Program.orders"))
        );
        let strings = report.strings.as_ref().unwrap();
        assert_eq!(
            (strings.objects, strings.distinct, strings.wasted_bytes),
            (ORDERS, 2, (ORDERS - 2) * 40)
        );
        assert_eq!(strings.duplicates[0].text.as_deref(), Some("even"));
        assert_eq!(report.asked.len(), 1);
        assert_eq!((report.asked[0].row.objects, report.asked[0].holders.len()), (ORDERS, 1));
        let steps: Vec<&str> =
            report.asked[0].holders[0].path.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(steps, ["List<Shop.Order>", "Shop.Order[]", "Shop.Order"]);
        assert_eq!(
            report.roots.iter().map(|row| (row.kind, row.roots, row.weak)).collect::<Vec<_>>(),
            [(RootKind::Statics, 1, 0), (RootKind::Handle, 0, 1), (RootKind::Stack, 1, 0)]
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["asked"][0]["type"], "Shop.Order");
        assert_eq!(json["missing"]["dangling_references"], 0);
        assert_eq!(json["types"][0]["bytes_by_generation"]["loh"], 100_000);
    }
}
