//! What a viewer shows of a heap snapshot: types, a treemap of what retains what, and paths from
//! roots. Each answer has only what is visible.

mod growth;
mod treemap;

pub use growth::{GrowthSnapshot, GrowthSort, GrowthView, HeapGrowth, HeapGrowthRow};
pub use treemap::{MOST_SIDE, TreemapHead};

use std::{cmp::Reverse, collections::HashMap, sync::OnceLock};

use document::{Graph, format::without_namespaces};
use heap::{
    Dominated, Dominators, Extent, Histogram, NodeId, PathRow, PathTable, Snapshot, TypeId,
    path_row, retention_graph,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{ExploreError, Pattern};

/// Ways to be retained that a graph shows.
const WAYS: usize = 12;

/// An object is listed by itself if it retains at least this fraction (1 divided by it) of what is
/// looked at; the others are listed by type.
const SINGLE: u64 = 500;

/// A heap snapshot that is open: ready for any number of questions.
#[derive(Debug)]
pub struct HeapView {
    snapshot: Snapshot,
    histogram: Histogram,
    /// What retains what; none of a snapshot without references.
    retention: Option<Retention>,
    paths: OnceLock<PathTable>,
}

#[derive(Debug)]
struct Retention {
    dominators: Dominators,
    dominated: Dominated,
}

/// A heap snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapDescription {
    /// When it was taken, seconds since the start of the recording.
    seconds: f64,
    /// How long the process was suspended for it, where that was measured.
    pause_seconds: Option<f64>,
    /// Whether all objects are in it.
    complete: bool,
    /// Why not; of a complete one, what else it lacks; empty if there is nothing to say.
    note: String,
    /// Whether it has references, so that what retains what is known.
    retention: bool,
    /// All objects.
    objects: u64,
    /// Their bytes.
    bytes: u64,
    /// Types that have objects.
    types: usize,
    /// Objects that a root leads to.
    reached_objects: u64,
    /// Their bytes.
    reached_bytes: u64,
}

/// The order of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeSort {
    /// By bytes of the objects themselves.
    Bytes,
    /// By what they retain.
    Retained,
    /// By their number.
    Objects,
    /// By name.
    Name,
}

impl TypeSort {
    /// All of them, with their words in addresses.
    pub const ALL: [(&'static str, Self); 4] = [
        ("bytes", Self::Bytes),
        ("retained", Self::Retained),
        ("objects", Self::Objects),
        ("name", Self::Name),
    ];
}

/// Types on a heap.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapTypes {
    /// How many there are.
    count: usize,
    /// Some of them.
    rows: Vec<HeapTypeRow>,
}

/// Objects of a type.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapTypeRow {
    /// Its number in the snapshot, for the parameter `type`.
    id: TypeId,
    /// Full name.
    name: String,
    /// Name without namespaces.
    short: String,
    /// Module; empty if not known.
    module: String,
    /// How many.
    objects: u64,
    /// Bytes of the objects themselves.
    bytes: u64,
    /// Bytes that would be free without all of them.
    retained: u64,
}

/// What an object alone keeps alive, and nothing below it alone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapChildren {
    /// How many rows there are.
    count: usize,
    /// Some of them, those that retain most first.
    rows: Vec<HeapRow>,
}

/// An object, or objects of one type that retain little each.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapRow {
    /// The object, for the parameters `root` and `of`; of several, one of them.
    node: NodeId,
    /// Full name of its type.
    name: String,
    /// The same without namespaces.
    short: String,
    /// What refers to it: a field of the object above, or a root; empty if that is not known.
    by: String,
    /// How many objects they are.
    objects: u64,
    /// Bytes of the objects themselves.
    bytes: u64,
    /// Bytes that would be free without them.
    retained: u64,
    /// How many objects are right below; 0 for several.
    children: usize,
}

/// What retains objects.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapPaths {
    /// Full name of the type.
    name: String,
    /// Objects whose paths were looked at: all, or some that are evenly spread.
    examined: u64,
    /// How many of them no root reaches.
    unreached: u64,
    /// Different ways to be retained; the most common ones are in the graph.
    ways: usize,
    /// From roots to the objects, with the fields on the way.
    graph: Graph,
}

/// Objects that are shown together.
struct Group {
    /// The object that retains most of them.
    node: NodeId,
    /// How many; 1 for an object of its own.
    objects: u64,
    bytes: u64,
    retained: u64,
    /// Whether it is an object of its own.
    single: bool,
}

impl HeapView {
    /// Opens a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        let histogram = Histogram::of(&snapshot);
        let retention = (snapshot.end().extent == Extent::All).then(|| {
            let dominators = Dominators::of(&snapshot);
            let dominated = dominators.children();
            Retention { dominators, dominated }
        });
        Self { snapshot, histogram, retention, paths: OnceLock::new() }
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        let objects = self.snapshot.len();
        let references = self.snapshot.reference_count() as usize;
        let retention =
            self.retention.as_ref().map_or(0, |own| own.dominated.size() + objects * 12);
        let paths = self.paths.get().map_or(0, PathTable::size);
        objects * 40 + references * 4 + retention + paths
    }

    /// What it is.
    pub fn describe(&self) -> HeapDescription {
        let (end, total) = (self.snapshot.end(), &self.histogram.total);
        let dominators = self.retention.as_ref().map(|own| &own.dominators);
        HeapDescription {
            seconds: end.time as f64 / 1e9,
            pause_seconds: end.pause_ns.map(|pause| pause as f64 / 1e9),
            complete: end.complete,
            note: end.reason.clone(),
            retention: dominators.is_some(),
            objects: total.count,
            bytes: total.bytes,
            types: self.histogram.types.iter().filter(|own| own.count > 0).count(),
            reached_objects: dominators.map_or(0, Dominators::reached),
            reached_bytes: dominators.map_or(0, Dominators::reached_bytes),
        }
    }

    fn type_name(&self, id: TypeId) -> &str {
        &self.snapshot.types()[id as usize].name
    }

    /// Types, from the row `first` on.
    pub fn types(
        &self,
        search: Option<&Pattern>,
        sort: TypeSort,
        first: usize,
        rows: usize,
    ) -> HeapTypes {
        let by_type = self.retention.as_ref().map(|own| own.dominators.retained_by_type());
        let retained = |id: TypeId| by_type.map_or(0, |by_type| by_type[id as usize]);
        let mut all: Vec<_> = (self.histogram.types.iter())
            .filter(|own| own.count > 0)
            .filter(|own| search.is_none_or(|search| search.finds(self.type_name(own.type_id))))
            .collect();
        match sort {
            TypeSort::Bytes => order::sort_by_key(&mut all, |own| Reverse((own.bytes, own.count))),
            TypeSort::Retained => {
                order::sort_by_key(&mut all, |own| Reverse(retained(own.type_id)))
            }
            TypeSort::Objects => {
                order::sort_by_key(&mut all, |own| Reverse((own.count, own.bytes)))
            }
            TypeSort::Name => order::sort_by_key(&mut all, |own| self.type_name(own.type_id)),
        }
        let row = |own: &&heap::TypeCounts| {
            let info = &self.snapshot.types()[own.type_id as usize];
            HeapTypeRow {
                id: own.type_id,
                name: info.name.clone(),
                short: without_namespaces(&info.name),
                module: document::format::file_name(&info.module).to_owned(),
                objects: own.count,
                bytes: own.bytes,
                retained: retained(own.type_id),
            }
        };
        HeapTypes { count: all.len(), rows: all.iter().skip(first).take(rows).map(row).collect() }
    }

    fn retention(&self) -> Result<&Retention, ExploreError> {
        self.retention.as_ref().ok_or(ExploreError::NoReferences)
    }

    fn check(&self, node: Option<NodeId>) -> Result<(), ExploreError> {
        match node {
            Some(node) if node as usize >= self.snapshot.len() => {
                Err(ExploreError::NoNode(node, self.snapshot.len()))
            }
            _ => Ok(()),
        }
    }

    /// What an object alone keeps alive, or what only the roots do, from the row `first` on.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn dominated(
        &self,
        node: Option<NodeId>,
        first: usize,
        rows: usize,
    ) -> Result<HeapChildren, ExploreError> {
        self.check(node)?;
        let retention = self.retention()?;
        let least = (self.retained(retention, node) / SINGLE).max(1);
        let mut groups = self.groups(retention, node, |retained| retained >= least);
        order::sort_by_key(&mut groups, |group| (Reverse(group.retained), group.node));
        let row = |group: &Group| HeapRow {
            node: group.node,
            name: self.type_name(self.snapshot.type_of(group.node)).to_owned(),
            short: without_namespaces(self.type_name(self.snapshot.type_of(group.node))),
            by: self.referred_by(node, group.node),
            objects: group.objects,
            bytes: group.bytes,
            retained: group.retained,
            children: match group.single {
                true => retention.dominated.of(Some(group.node)).len(),
                false => 0,
            },
        };
        Ok(HeapChildren {
            count: groups.len(),
            rows: groups.iter().skip(first).take(rows).map(row).collect(),
        })
    }

    fn retained(&self, retention: &Retention, node: Option<NodeId>) -> u64 {
        let dominators = &retention.dominators;
        node.map_or(dominators.reached_bytes(), |node| dominators.retained(node))
    }

    /// What is right below an object: those that retain enough by themselves, the others by type.
    fn groups(
        &self,
        retention: &Retention,
        node: Option<NodeId>,
        enough: impl Fn(u64) -> bool,
    ) -> Vec<Group> {
        let all = retention.dominated.of(node);
        let retained = |node: NodeId| retention.dominators.retained(node);
        // Those that retain most come first.
        let wide = all.partition_point(|node| enough(retained(*node)));
        let single = |node: &NodeId| Group {
            node: *node,
            objects: 1,
            bytes: self.snapshot.size(*node),
            retained: retained(*node),
            single: true,
        };
        let mut groups: Vec<Group> = all[..wide].iter().map(single).collect();
        let mut by_type: HashMap<TypeId, usize> = HashMap::new();
        for node in &all[wide..] {
            let at = *by_type.entry(self.snapshot.type_of(*node)).or_insert_with(|| {
                groups.push(Group {
                    node: *node,
                    objects: 0,
                    bytes: 0,
                    retained: 0,
                    single: false,
                });
                groups.len() - 1
            });
            let group = &mut groups[at];
            group.objects += 1;
            group.bytes = group.bytes.saturating_add(self.snapshot.size(*node));
            group.retained = group.retained.saturating_add(retained(*node));
        }
        // One of its type is an object of its own.
        groups.iter_mut().for_each(|group| group.single |= group.objects == 1);
        groups
    }

    /// By what an object is referred to.
    fn referred_by(&self, above: Option<NodeId>, node: NodeId) -> String {
        if let Some(above) = above {
            return match self.snapshot.references(above).contains(&node) {
                true => self.snapshot.field(above, node).unwrap_or_default().to_owned(),
                false => String::new(),
            };
        }
        let Some(root) = self.snapshot.root_of(node) else { return String::new() };
        let begin = PathRow {
            root: root.kind,
            root_name: self.snapshot.root_name(root).map(str::to_owned),
            pinned: root.pinned,
            steps: Vec::new(),
            omitted_steps: 0,
        };
        begin.root_text()
    }

    fn paths(&self) -> heap::Paths<'_> {
        self.paths.get_or_init(|| PathTable::of(&self.snapshot)).paths(&self.snapshot)
    }

    /// What retains the objects of a type.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn paths_of_type(&self, id: TypeId) -> Result<HeapPaths, ExploreError> {
        self.retention()?;
        if id as usize >= self.snapshot.types().len() {
            return Err(ExploreError::NoType(id, self.snapshot.types().len()));
        }
        let holdings = self.paths().holdings(id);
        let kinds = holdings.kinds.iter().take(WAYS);
        let rows: Vec<_> =
            kinds.map(|kind| (path_row(&self.snapshot, &kind.example), kind.count)).collect();
        Ok(HeapPaths {
            name: self.type_name(id).to_owned(),
            examined: holdings.examined,
            unreached: holdings.unreached,
            ways: holdings.kinds.len(),
            graph: retention_graph(rows.iter().map(|(path, count)| (path, *count))),
        })
    }

    /// What retains an object.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn paths_of_object(&self, node: NodeId) -> Result<HeapPaths, ExploreError> {
        self.retention()?;
        self.check(Some(node))?;
        let path = self.paths().to(node).map(|path| path_row(&self.snapshot, &path));
        let unreached = u64::from(path.is_none());
        Ok(HeapPaths {
            name: self.type_name(self.snapshot.type_of(node)).to_owned(),
            examined: 1,
            unreached,
            ways: usize::from(path.is_some()),
            graph: retention_graph(path.iter().map(|path| (path, 0))),
        })
    }
}

#[cfg(test)]
#[path = "heap/tests.rs"]
mod tests;
