use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Dominators, Paths,
    dominators::{DominatorTree, NodeSet},
    growth::{Growth, MIN_OBJECTS, SnapshotSummary, Trend, TypeGrowth, Verdict},
    report::{
        HolderRow, PathRow, ReportOptions, SCHEMA, holder_rows, path_row, seconds, type_name,
    },
    snapshot::{NodeId, RootKind, Snapshot, SnapshotRoot, TypeId, TypeInfo},
};

/// Growth between heap snapshots, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeakReport {
    /// Version of these keys and their meaning: [`SCHEMA`].
    pub schema: u32,
    /// Name of the process.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// The runtime; empty if not known.
    pub runtime: String,
    /// Whether all snapshots are complete.
    pub complete: bool,
    /// The snapshots, in the order of their times.
    #[serde(rename = "snapshots")]
    pub looks: Vec<SnapshotRow>,
    /// Bytes of all objects over time.
    pub total: Trend,
    /// The types that grew most.
    pub types: Vec<GrowthRow>,
    /// What is suspected to leak, what grows fastest first.
    pub suspects: Vec<Suspect>,
}

/// A heap snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SnapshotRow {
    /// When, since the first snapshot.
    pub seconds: f64,
    /// All objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the process was suspended for it, where that was measured.
    pub pause_seconds: Option<f64>,
    /// Whether all objects are in it.
    pub complete: bool,
}

/// A type over all snapshots.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GrowthRow {
    /// Full name.
    #[serde(rename = "type")]
    pub name: String,
    /// Module; empty if not known.
    pub module: String,
    /// Objects in each snapshot.
    pub objects: Vec<u64>,
    /// Their bytes in each snapshot.
    pub bytes: Vec<u64>,
    /// Of the objects.
    pub objects_trend: Trend,
    /// Of the bytes.
    pub bytes_trend: Trend,
    /// Whether it is suspected.
    pub verdict: Option<Verdict>,
}

/// A leak: objects of one or several types that grow, and what retains them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Suspect {
    /// The type whose objects accumulate: of the growing types the one that is closest to the
    /// owner.
    #[serde(rename = "type")]
    pub name: String,
    /// The most certain verdict on one of the growing types.
    pub verdict: Verdict,
    /// Bytes per second by which the growing types grow together.
    pub bytes_per_second: f64,
    /// The object that alone retains what grows, such as a list or a dictionary. None if the
    /// objects are retained from several places.
    pub owner: Option<Owner>,
    /// The growing types, those that grow most bytes first.
    pub members: Vec<Member>,
}

/// An object that retains what grows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Owner {
    /// Where it is in the last snapshot.
    pub address: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub name: String,
    /// Bytes in the last snapshot that would be free without it.
    pub retained_bytes: u64,
    /// The static field that its path begins with, if it does with one.
    pub static_field: Option<String>,
    /// How it is retained.
    pub path: Option<PathRow>,
}

/// A type that grows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Member {
    /// How it grew.
    #[serde(flatten)]
    pub growth: GrowthRow,
    /// The most common ways in which its objects are retained in the last snapshot.
    pub holders: Vec<HolderRow>,
}

impl Suspect {
    /// The type whose objects accumulate.
    pub fn leading(&self) -> &Member {
        let leads = |member: &&Member| member.growth.name == self.name;
        self.members.iter().find(leads).unwrap_or(&self.members[0])
    }

    /// How the objects are retained: the path to the owner; without one, the most common path to
    /// an object of the leading type.
    pub fn path(&self) -> Option<&PathRow> {
        match &self.owner {
            Some(owner) => owner.path.as_ref(),
            None => self.leading().holders.first().map(|holder| &holder.path),
        }
    }
}

/// Types that are examined.
const TYPES: usize = 24;

/// Compares snapshots. `last` is the whole of the last one, in which the owners are searched.
pub fn leaks(looks: &[SnapshotSummary], last: &Snapshot, options: &ReportOptions) -> LeakReport {
    let growth = Growth::of(looks);
    let first = growth.times.first().copied().unwrap_or(0);
    let types: Vec<&TypeGrowth> = growth.suspects().into_iter().take(TYPES).collect();
    LeakReport {
        schema: SCHEMA,
        process: last.end().process.clone(),
        pid: last.end().pid,
        runtime: last.end().runtime.clone(),
        complete: looks.iter().all(|look| look.complete),
        looks: looks
            .iter()
            .map(|look| SnapshotRow {
                seconds: seconds(look.time.saturating_sub(first)),
                objects: look.count,
                bytes: look.bytes,
                pause_seconds: look.pause_ns.map(seconds),
                complete: look.complete,
            })
            .collect(),
        total: growth.total,
        types: growth.types.iter().take(options.top).map(growth_row).collect(),
        suspects: if types.is_empty() {
            Vec::new()
        } else {
            suspects(&types, looks, last, options)
        },
    }
}

/// The leaks that growing types are signs of, those that grow fastest first.
fn suspects(
    types: &[&TypeGrowth],
    looks: &[SnapshotSummary],
    last: &Snapshot,
    options: &ReportOptions,
) -> Vec<Suspect> {
    let mut grown: Vec<Grown> = types.iter().map(|growth| Grown::of(growth, looks, last)).collect();
    let dominators = find_owners(&mut grown, last);
    let paths = Paths::of(last, |_| true);
    for one in &mut grown {
        if let Some(type_id) = one.type_id {
            one.holders = holder_rows(last, &paths.holdings(type_id), options.paths);
        }
    }
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, lead) in leading(&grown).into_iter().enumerate() {
        let same = |other: usize| {
            other == lead
                || (grown[lead].owner.is_some() && grown[other].owner == grown[lead].owner)
        };
        match groups.iter_mut().find(|(other, _)| same(*other)) {
            Some((_, members)) => members.push(at),
            None => groups.push((lead, vec![at])),
        }
    }
    let mut suspects: Vec<Suspect> = groups
        .into_iter()
        .map(|(lead, members)| {
            let owner = grown[lead].owner.map(|node| {
                let path = paths.to(node).map(|path| path_row(last, &path));
                Owner {
                    address: last.address(node),
                    name: type_name(last, last.type_of(node)),
                    retained_bytes: dominators.retained(node),
                    static_field: path.as_ref().and_then(PathRow::static_field).map(str::to_owned),
                    path,
                }
            });
            suspect(owner, members.iter().map(|member| &grown[*member]).collect())
        })
        .collect();
    order::sort_by(&mut suspects, |one, other| {
        other.bytes_per_second.total_cmp(&one.bytes_per_second)
    });
    suspects
}

/// A type that grows, in the last snapshot.
struct Grown<'a> {
    growth: &'a TypeGrowth,
    type_id: Option<TypeId>,
    /// The type that refers to most of those that became more.
    referrer: Option<TypeInfo>,
    /// The objects that it refers to. All objects if it is not known.
    candidates: Option<NodeSet>,
    /// The object that retains those that became more.
    owner: Option<NodeId>,
    holders: Vec<HolderRow>,
}

impl<'g> Grown<'g> {
    fn of(growth: &'g TypeGrowth, looks: &[SnapshotSummary], last: &Snapshot) -> Self {
        let id = |info: &TypeInfo| {
            last.types().iter().position(|other| other == info).map(|at| at as TypeId)
        };
        let mut grown = Self {
            growth,
            type_id: id(&growth.info),
            referrer: None,
            candidates: None,
            owner: None,
            holders: Vec::new(),
        };
        // Strings become more where orders refer to them, and orders become more: only those
        // strings are of interest.
        if let (true, Some(type_id), [first, .., end]) = (grown.by_number(), grown.type_id, looks) {
            let referrers = end.references.get(&growth.info).into_iter().flatten();
            let more = referrers.map(|(from, count)| {
                (count.saturating_sub(first.references_to(&growth.info, from)), from)
            });
            // Of equal ones the first by name, so that the same snapshots give the same report.
            let most = more.max_by_key(|(more, from)| (*more, Reverse((&from.name, &from.module))));
            if let Some((more, from)) = most
                && more as f64 >= grown.growth.count_trend.change / 2.0
                && let Some(from_id) = id(from)
            {
                let of_referrer = last.nodes().filter(|node| last.type_of(*node) == from_id);
                let mut candidates = NodeSet::of_none(last);
                let targets = of_referrer.flat_map(|node| last.references(node)).copied();
                targets.filter(|to| last.type_of(*to) == type_id).for_each(|to| candidates.set(to));
                grown.candidates = Some(candidates);
                grown.referrer = Some(from.clone());
            }
        }
        grown
    }

    /// Whether the number of objects grows. Otherwise the objects do, as the array of a list does.
    fn by_number(&self) -> bool {
        self.growth.count_trend.change >= MIN_OBJECTS
    }

    /// What an object adds to the growth.
    fn weight<'a>(&'a self, last: &'a Snapshot) -> impl Fn(NodeId) -> u64 + use<'a> {
        let by_number = self.by_number();
        move |node| match (Some(last.type_of(node)) == self.type_id, by_number) {
            (false, _) => 0,
            (true, true) => u64::from(self.candidates.as_ref().is_none_or(|of| of.has(node))),
            (true, false) => last.size(node),
        }
    }

    /// By how much the weight of all objects has grown.
    fn change(&self) -> f64 {
        let growth = self.growth;
        if self.by_number() { growth.count_trend.change } else { growth.bytes_trend.change }
    }
}

/// Finds, for each type, the object that retains those that became more.
fn find_owners(grown: &mut [Grown], last: &Snapshot) -> Dominators {
    let mut tree = DominatorTree::of(last);
    let dominators = Dominators::of_tree(last, &mut tree);
    for one in &mut *grown {
        let Some(type_id) = one.type_id else { continue };
        let point = tree.meeting_point(one.weight(last));
        one.owner = point.and_then(|point| owner_at(point, type_id, last, &dominators));
    }
    // Of a type that is common elsewhere, such as strings, an owner of others may retain those that
    // became more.
    let mut owners: Vec<NodeId> = grown.iter().filter_map(|one| one.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    for one in grown.iter_mut().filter(|one| one.owner.is_none() && one.type_id.is_some()) {
        let weights = tree.weights_of(&owners, one.weight(last));
        let explains = |weight: &u64| *weight as f64 >= one.change() / 2.0;
        one.owner = weights.iter().position(explains).map(|at| owners[at]);
    }
    dominators
}

/// The collection, or other object, to which an object belongs where objects of a type meet.
fn owner_at(
    point: NodeId,
    type_id: TypeId,
    last: &Snapshot,
    dominators: &Dominators,
) -> Option<NodeId> {
    let mut owner = point;
    loop {
        let (own_type, above) = (last.type_of(owner), dominators.immediate(owner));
        let name = &last.types()[own_type as usize].name;
        if above.is_none() && is_statics_array(last, owner) {
            return None;
        }
        let Some(above) = above else { return Some(owner) };
        // A list of linked objects meets in its middle.
        let is_link = own_type == type_id || last.type_of(above) == own_type;
        let is_part = is_part_of_collection(name)
            && dominators.retained(above) <= dominators.retained(owner).saturating_mul(3) / 2;
        if !(is_link || is_part) {
            return Some(owner);
        }
        if dominators.immediate(above).is_none() && is_statics_array(last, above) {
            return Some(owner);
        }
        owner = above;
    }
}

/// Whether an object that a root holds has the static fields of many classes. The runtime keeps
/// those in arrays of objects, which clrscope and other tools name differently.
fn is_statics_array(last: &Snapshot, node: NodeId) -> bool {
    let name = last.types()[last.type_of(node) as usize].name.as_str();
    let is_field = |root: &SnapshotRoot| root.kind == RootKind::Statics;
    matches!(name, "object[]" | "System.Object[]") && !last.root_of(node).is_some_and(is_field)
}

/// Whether objects of the type are the inner part of a collection: its array, or the objects in
/// which it keeps its arrays.
fn is_part_of_collection(name: &str) -> bool {
    let is_nested = || name.rsplit_once('>').is_some_and(|(_, nested)| !nested.is_empty());
    name.ends_with("[]") || (name.starts_with("System.Collections.") && is_nested())
}

/// The type with which a type grows: that which refers to most of those that became more, or else
/// the one closest to the root on the way to most of them, if it grows too. The strings of orders
/// that leak grow because the orders do.
fn grows_with(one: &Grown, all: &[&Grown]) -> Option<usize> {
    let leads = |is: &dyn Fn(&TypeInfo) -> bool| {
        all.iter().position(|other| {
            let (own, change) = (&other.growth.info, other.growth.count_trend.change);
            is(own)
                && *own != one.growth.info
                && other.by_number()
                && change * 20.0 >= one.growth.count_trend.change
        })
    };
    let above = one.holders.first().and_then(|holder| holder.path.steps.split_last());
    let mut above = above.map_or(&[][..], |(_, above)| above).iter();
    leads(&|info| one.referrer.as_ref() == Some(info))
        .or_else(|| above.find_map(|step| leads(&|info| info.name == step.name)))
}

/// For each type, the one that leads its leak: itself if an object retains those that became more.
fn leading(grown: &[Grown]) -> Vec<usize> {
    let all: Vec<&Grown> = grown.iter().collect();
    let own: Vec<usize> = grown
        .iter()
        .enumerate()
        .map(|(at, one)| match one.owner {
            Some(_) => at,
            None => grows_with(one, &all).unwrap_or(at),
        })
        .collect();
    // The other one may grow with a third; two that refer to each other end somewhere.
    own.iter().map(|first| (0..own.len()).fold(*first, |lead, _| own[lead])).collect()
}

fn suspect(owner: Option<Owner>, mut grown: Vec<&Grown>) -> Suspect {
    // How far from the root most objects of a type are.
    let depth = |one: &Grown| {
        one.holders.first().map_or(u64::MAX, |holder| {
            let path = &holder.path;
            path.omitted_steps + path.steps.len() as u64
        })
    };
    let closest = grown
        .iter()
        .min_by_key(|one| (!one.by_number(), grows_with(one, &grown).is_some(), depth(one)));
    let name = closest.map(|one| one.growth.info.name.clone()).unwrap_or_default();
    let verdict = grown.iter().filter_map(|one| one.growth.verdict).max();
    order::sort_by(&mut grown, |one, other| {
        let rate = |one: &Grown| one.growth.bytes_trend.per_second;
        rate(other).total_cmp(&rate(one))
    });
    Suspect {
        name,
        verdict: verdict.unwrap_or(Verdict::Grew),
        bytes_per_second: grown.iter().map(|one| one.growth.bytes_trend.per_second).sum(),
        owner,
        members: grown
            .into_iter()
            .map(|one| Member { growth: growth_row(one.growth), holders: one.holders.clone() })
            .collect(),
    }
}

fn growth_row(growth: &TypeGrowth) -> GrowthRow {
    GrowthRow {
        name: growth.info.name.clone(),
        module: growth.info.module.clone(),
        objects: growth.counts.clone(),
        bytes: growth.bytes.clone(),
        objects_trend: growth.count_trend,
        bytes_trend: growth.bytes_trend,
        verdict: growth.verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryBudget, Root, SnapshotBuilder, SnapshotEnd};

    const STATICS: u64 = 0x100;

    /// Objects one after another: type, bytes, references by their index.
    #[derive(Default)]
    struct Heap {
        objects: Vec<(&'static str, u64, Vec<usize>)>,
        roots: Vec<usize>,
    }

    impl Heap {
        fn add(&mut self, name: &'static str, bytes: u64, references: Vec<usize>) -> usize {
            self.objects.push((name, bytes, references));
            self.objects.len() - 1
        }

        /// A dictionary as the runtime builds it, with values that are there already.
        fn dictionary(&mut self, values: Vec<usize>) -> usize {
            let count = values.len() as u64;
            let buckets = self.add("System.Int32[]", 24 + 4 * count, Vec::new());
            let entries =
                self.add("Dictionary<Int32, Shop.Line>.Entry[]", 24 + 4000 * count, values);
            self.add("Dictionary<Int32, Shop.Line>", 80, vec![buckets, entries])
        }

        fn snapshot(&self, second: u64) -> Snapshot {
            let mut builder = SnapshotBuilder::new(MemoryBudget::default());
            let mut names: Vec<&str> = self.objects.iter().map(|(name, _, _)| *name).collect();
            names.sort_unstable();
            names.dedup();
            let class = |name: &str| 1 + names.binary_search(&name).unwrap() as u64;
            names.iter().for_each(|name| builder.class(class(name), name, "shop.dll"));
            let address = |at: usize| 0x1000 + at as u64 * 0x10_0000;
            for (at, (name, bytes, references)) in self.objects.iter().enumerate() {
                builder.object(address(at), class(name), *bytes);
                references.iter().for_each(|to| builder.reference(address(*to)));
            }
            for root in &self.roots {
                builder.root(Root {
                    target: address(*root),
                    kind: RootKind::Handle,
                    pinned: true,
                    weak: false,
                    interior: false,
                    id: 0,
                });
            }
            builder.finish(SnapshotEnd {
                complete: true,
                time: second * 1_000_000_000,
                ..SnapshotEnd::default()
            })
        }
    }

    /// The leaks of a program that grows by 100 each second, from 500 on.
    fn leaks_of(build: impl Fn(&mut Heap, u64)) -> Vec<Suspect> {
        let snapshots: Vec<Snapshot> = (0..4)
            .map(|second| {
                let mut heap = Heap::default();
                build(&mut heap, 500 + second * 100);
                heap.snapshot(second)
            })
            .collect();
        let looks: Vec<SnapshotSummary> = snapshots.iter().map(SnapshotSummary::of).collect();
        leaks(&looks, &snapshots[3], &ReportOptions::default()).suspects
    }

    fn members(suspect: &Suspect) -> Vec<&str> {
        suspect.members.iter().map(|member| member.growth.name.as_str()).collect()
    }

    fn owner(suspect: &Suspect) -> Option<&str> {
        suspect.owner.as_ref().map(|owner| owner.name.as_str())
    }

    /// A thousand strings that have nothing to do with it.
    fn strings(heap: &mut Heap) -> usize {
        let strings: Vec<usize> =
            (0..1000).map(|_| heap.add("System.String", 40, Vec::new())).collect();
        heap.add("Shop.Names", 8024, strings)
    }

    #[test]
    fn what_a_dictionary_takes_along_is_one_leak() {
        let suspects = leaks_of(|heap, size| {
            let names = strings(heap);
            let values = (0..size)
                .map(|_| {
                    let text = heap.add("System.String", 100, Vec::new());
                    let body = heap.add("System.Byte[]", 400, Vec::new());
                    heap.add("Shop.Line", 32, vec![text, body])
                })
                .collect();
            let dictionary = heap.dictionary(values);
            let statics = heap.add("object[]", STATICS, vec![dictionary, names]);
            heap.roots.push(statics);
        });
        assert_eq!(suspects.len(), 1, "{suspects:#?}");
        let leak = &suspects[0];
        assert_eq!(leak.name, "Shop.Line");
        assert_eq!(owner(leak), Some("Dictionary<Int32, Shop.Line>"));
        assert_eq!(
            members(leak),
            ["Dictionary<Int32, Shop.Line>.Entry[]", "System.Byte[]", "System.String", "Shop.Line"]
        );
        assert_eq!(leak.verdict, Verdict::Leaking);
        // The buckets grow by less than is worth a row.
        let each = 400 + 100 + 32 + 4000;
        assert!((leak.bytes_per_second - 100.0 * f64::from(each)).abs() < 1e-6);
        let of_owner = leak.owner.as_ref().unwrap();
        assert_eq!(of_owner.retained_bytes, 80 + 48 + 800 * (each as u64 + 4));
        let steps: Vec<&str> =
            of_owner.path.as_ref().unwrap().steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(steps, ["object[]", "Dictionary<Int32, Shop.Line>"]);
        let json = serde_json::to_value(leak).unwrap();
        assert_eq!((&json["type"], &json["verdict"]), (&"Shop.Line".into(), &"leaking".into()));
        assert_eq!(json["members"][3]["objects"][3], 800);
        assert_eq!(json["owner"]["type"], "Dictionary<Int32, Shop.Line>");
    }

    #[test]
    fn two_leaks_are_two_and_the_faster_one_is_first() {
        let suspects = leaks_of(|heap, size| {
            let lists = ["Shop.Slow", "Shop.Fast"].map(|name| {
                let bytes = if name == "Shop.Fast" { 900 } else { 90 };
                let objects = (0..size).map(|_| heap.add(name, bytes, Vec::new())).collect();
                let array = heap.add("System.Object[]", 24 + size * 8, objects);
                heap.add("System.Collections.ArrayList", 32, vec![array])
            });
            let statics = heap.add("object[]", STATICS, lists.to_vec());
            heap.roots.push(statics);
        });
        let found: Vec<_> = suspects.iter().map(|one| (one.name.as_str(), owner(one))).collect();
        let list = Some("System.Collections.ArrayList");
        assert_eq!(found, [("Shop.Fast", list), ("Shop.Slow", list)]);
        assert_ne!(
            suspects[0].owner.as_ref().unwrap().address,
            suspects[1].owner.as_ref().unwrap().address
        );
    }

    #[test]
    fn a_list_of_links_belongs_to_what_holds_its_first_one() {
        let suspects = leaks_of(|heap, size| {
            let mut next = heap.add("Shop.Link", 900, Vec::new());
            for _ in 1..size {
                next = heap.add("Shop.Link", 900, vec![next]);
            }
            let chain = heap.add("Shop.Chain", 24, vec![next]);
            heap.roots.push(chain);
        });
        assert_eq!((suspects.len(), owner(&suspects[0])), (1, Some("Shop.Chain")));
    }

    #[test]
    fn without_one_owner_what_grows_with_another_type_is_still_one_leak() {
        // Each order is retained by two roots.
        let suspects = leaks_of(|heap, size| {
            let orders: Vec<usize> = (0..size)
                .map(|_| {
                    let text = heap.add("System.String", 200, Vec::new());
                    heap.add("Shop.Order", 64, vec![text])
                })
                .collect();
            for name in ["Shop.ById", "Shop.ByDate"] {
                let index = heap.add(name, 6000, orders.clone());
                heap.roots.push(index);
            }
        });
        assert_eq!(suspects.len(), 1, "{suspects:#?}");
        assert_eq!((suspects[0].name.as_str(), owner(&suspects[0])), ("Shop.Order", None));
        assert_eq!(members(&suspects[0]), ["System.String", "Shop.Order"]);
        assert_eq!(suspects[0].path().unwrap().steps.last().unwrap().name, "Shop.Order");
    }

    #[test]
    fn growth_is_reported_for_each_snapshot() {
        let snapshots: Vec<Snapshot> = (0..4)
            .map(|second| {
                let mut heap = Heap::default();
                let size = 500 + second * 100;
                let objects = (0..size).map(|_| heap.add("Shop.Order", 64, Vec::new())).collect();
                let list = heap.add("Shop.Orders", 24 + size * 8, objects);
                heap.roots.push(list);
                heap.snapshot(2 * second)
            })
            .collect();
        let looks: Vec<SnapshotSummary> = snapshots.iter().map(SnapshotSummary::of).collect();
        let report = leaks(&looks, &snapshots[3], &ReportOptions::default());
        assert_eq!(
            report.looks.iter().map(|look| look.seconds).collect::<Vec<_>>(),
            [0.0, 2.0, 4.0, 6.0]
        );
        let growth = &report.suspects[0].leading().growth;
        assert_eq!(growth.objects, [500, 600, 700, 800]);
        assert!((growth.objects_trend.per_second - 50.0).abs() < 1e-9);
        assert_eq!(leaks(&looks[..1], &snapshots[0], &ReportOptions::default()).suspects, []);
    }
}
