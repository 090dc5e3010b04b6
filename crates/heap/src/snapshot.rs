use std::{collections::HashMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    fields::{Fields, Shape},
    strings::StringStatistics,
};

/// An object of a [`Snapshot`]: its place in the order of addresses, from 0 on.
pub type NodeId = u32;

/// A type of a [`Snapshot`], from 0 on.
pub type TypeId = u32;

/// What keeps an object alive from outside of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RootKind {
    /// A static field, where it is known to be one.
    Statics,
    /// A GC handle. Static fields that are not known by name are elements of arrays that are held
    /// by such handles.
    Handle,
    /// The queue of objects whose finalizer has to run.
    Finalizer,
    /// A local variable or register of a thread.
    Stack,
    /// Anything else that the runtime holds.
    Other,
}

impl RootKind {
    /// All kinds, those that hold for longest first: of equally short paths, that of the earlier
    /// kind is shown.
    pub const ALL: [RootKind; 5] = [
        RootKind::Statics,
        RootKind::Handle,
        RootKind::Finalizer,
        RootKind::Other,
        RootKind::Stack,
    ];

    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            RootKind::Statics => "static field",
            RootKind::Handle => "handle",
            RootKind::Finalizer => "finalizer queue",
            RootKind::Stack => "stack",
            RootKind::Other => "other root",
        }
    }

    pub(crate) fn rank(self) -> usize {
        RootKind::ALL.iter().position(|kind| *kind == self).unwrap_or(RootKind::ALL.len())
    }
}

/// A root as the runtime reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Address that it holds; that of an object, or with [`Root::interior`] of something inside an
    /// object.
    pub target: u64,
    /// What it is.
    pub kind: RootKind,
    /// Whether it also keeps the object where it is.
    pub pinned: bool,
    /// Whether it does not keep the object alive. Such roots are counted and otherwise ignored.
    pub weak: bool,
    /// Whether it may point into the middle of an object.
    pub interior: bool,
    /// What the runtime calls it: the address of a handle, the function of a stack root; 0 if
    /// nothing.
    pub id: u64,
}

/// A range of addresses that belongs to one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// 0, 1, 2; 3 is the large object heap, 4 the pinned object heap, 5 what is never collected.
    pub generation: u8,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

/// Number of columns of a histogram by generation: 0, 1, 2, large, pinned, never collected, and not
/// known.
pub const GENERATIONS: usize = 7;

/// Name of a column of a histogram by generation: `gen0` to `gen2`, `loh`, `poh`, `frozen`,
/// `unknown`.
pub fn generation_name(generation: usize) -> &'static str {
    ["gen0", "gen1", "gen2", "loh", "poh", "frozen"].get(generation).copied().unwrap_or("unknown")
}

/// What a snapshot was meant to include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// Everything.
    #[default]
    All,
    /// Objects, without references and roots.
    Histogram,
    /// Roots and the objects that they refer to.
    Roots,
}

/// What is known of a whole snapshot at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotEnd {
    /// When it was taken, in nanoseconds since the start of the recording. Growth is reported per
    /// second of this clock.
    pub time: u64,
    /// When it was taken on the wall clock, in milliseconds since 1970; 0 if that is not known.
    pub unix_ms: u64,
    /// How long the process was suspended for it, where that was measured.
    pub pause_ns: Option<u64>,
    /// What it was meant to include.
    pub extent: Extent,
    /// Whether all of that is in it.
    pub complete: bool,
    /// If not, why; for people.
    pub reason: String,
    /// Name of the process.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// The runtime and its version.
    pub runtime: String,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// Full name; the runtime's number of it where no name is known.
    pub name: String,
    /// Module that it is from; empty if not known.
    pub module: String,
}

/// What a snapshot does not hold, or could not resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gaps {
    /// References to addresses where no object is known.
    pub dangling_references: u64,
    /// Roots to addresses where no object is known.
    pub dangling_roots: u64,
    /// Objects at an address at which another one came before; they are left out.
    pub duplicate_objects: u64,
    /// Objects that did not fit into the budget.
    pub objects_over_budget: u64,
    /// References that did not fit into the budget, or were lost with the temporary file.
    pub references_over_budget: u64,
    /// Roots, strings and dependent handles that did not fit into the budget.
    pub others_over_budget: u64,
    /// Objects whose type has no name.
    pub objects_without_type: u64,
    /// Bytes of references that went through a temporary file, because the budget is small.
    pub spooled_bytes: u64,
}

/// A root of a snapshot that leads to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRoot {
    /// The object.
    pub node: NodeId,
    /// What the root is.
    pub kind: RootKind,
    /// Whether it pins the object.
    pub pinned: bool,
    /// Whether it does not keep the object alive.
    pub weak: bool,
    /// What the runtime calls it.
    pub id: u64,
}

/// A size that does not fit into the column stands in a table.
pub(crate) const BIG: u32 = u32::MAX;

/// The objects of a process at one moment.
///
/// Objects are in the order of their addresses, so [`NodeId`]s are too.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) addresses: Vec<u64>,
    pub(crate) types: Vec<TypeId>,
    pub(crate) sizes: Vec<u32>,
    /// Where each object holds its references, in `shape_table`.
    pub(crate) shapes: Vec<u32>,
    pub(crate) shape_table: Vec<Shape>,
    pub(crate) fields: Fields,
    pub(crate) big: HashMap<NodeId, u64>,
    pub(crate) edges_at: Vec<u32>,
    pub(crate) edges_len: Vec<u32>,
    pub(crate) edges: Vec<NodeId>,
    pub(crate) references: u64,
    pub(crate) type_table: Vec<TypeInfo>,
    /// By node, then by rank of the kind.
    pub(crate) roots: Vec<SnapshotRoot>,
    pub(crate) root_names: HashMap<u64, Arc<str>>,
    /// Disjoint, in the order of addresses: first node, node behind the last one, generation.
    pub(crate) generations: Vec<(NodeId, NodeId, u8)>,
    pub(crate) generation_ranges: Vec<Generation>,
    /// By node.
    pub(crate) states: Vec<(NodeId, i32)>,
    /// By node.
    pub(crate) continuations: Vec<(NodeId, Option<NodeId>)>,
    pub(crate) strings: StringStatistics,
    pub(crate) end: SnapshotEnd,
    pub(crate) gaps: Gaps,
}

impl Snapshot {
    /// Number of objects.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// All objects.
    pub fn nodes(&self) -> std::ops::Range<NodeId> {
        0..self.addresses.len() as NodeId
    }

    /// Where an object was.
    pub fn address(&self, node: NodeId) -> u64 {
        self.addresses[node as usize]
    }

    /// The object at an address.
    pub fn node_at(&self, address: u64) -> Option<NodeId> {
        self.addresses.binary_search(&address).ok().map(|node| node as NodeId)
    }

    /// Bytes of the object itself.
    pub fn size(&self, node: NodeId) -> u64 {
        match self.sizes[node as usize] {
            BIG => self.big.get(&node).copied().unwrap_or(u64::from(BIG)),
            size => u64::from(size),
        }
    }

    /// Type of an object.
    pub fn type_of(&self, node: NodeId) -> TypeId {
        self.types[node as usize]
    }

    /// What an object refers to, in the order of the runtime; an object may be named several times.
    pub fn references(&self, node: NodeId) -> &[NodeId] {
        let at = self.edges_at[node as usize] as usize;
        &self.edges[at..at + self.edges_len[node as usize] as usize]
    }

    /// The field by which an object refers to another one; `[]` for an element of an array. `None`
    /// if it is not known.
    pub fn field(&self, from: NodeId, to: NodeId) -> Option<&str> {
        if self.type_table[self.type_of(from) as usize].name.ends_with(']') {
            return Some("[]");
        }
        let shape = *self.shape_table.get(self.shapes[from as usize] as usize)?;
        let at = self.references(from).iter().position(|reference| *reference == to)?;
        self.fields.name(shape.class, shape.offset_of(at)?)
    }

    /// As [`Self::references`], where they begin and end in [`Self::all_references`].
    pub(crate) fn references_at(&self, node: NodeId) -> (u32, u32) {
        let at = self.edges_at[node as usize];
        (at, at + self.edges_len[node as usize])
    }

    /// References of all objects.
    pub(crate) fn all_references(&self) -> &[NodeId] {
        &self.edges
    }

    /// Number of all references that lead to a known object.
    pub fn reference_count(&self) -> u64 {
        self.references
    }

    /// The types that objects may have.
    pub fn types(&self) -> &[TypeInfo] {
        &self.type_table
    }

    /// The types of this name, given with or without namespace: `Shop.Order` or `Order`.
    pub fn find_types(&self, name: &str) -> Vec<TypeId> {
        let matches = |full: &str| {
            full == name
                || full
                    .strip_suffix(name)
                    .is_some_and(|before| before.ends_with(['.', '+']) && !before.contains('<'))
        };
        (0..self.type_table.len())
            .filter(|index| matches(&self.type_table[*index].name))
            .map(|index| index as TypeId)
            .collect()
    }

    /// The roots that lead to a known object, in the order of objects.
    pub fn roots(&self) -> &[SnapshotRoot] {
        &self.roots
    }

    /// The root that is named for an object: the one that keeps it for longest.
    pub fn root_of(&self, node: NodeId) -> Option<&SnapshotRoot> {
        let first = self.roots.partition_point(|root| root.node < node);
        self.roots[first..].iter().take_while(|root| root.node == node).find(|root| !root.weak)
    }

    /// What a root is called, where it has a name: a static field.
    pub fn root_name(&self, root: &SnapshotRoot) -> Option<&str> {
        self.root_names.get(&root.id).map(|name| &**name)
    }

    /// Generation of an object: an index for [`generation_name`].
    pub fn generation_of(&self, node: NodeId) -> usize {
        let after = self.generations.partition_point(|(first, _, _)| *first <= node);
        match after.checked_sub(1).map(|index| self.generations[index]) {
            Some((_, end, generation)) if node < end => {
                usize::from(generation).min(GENERATIONS - 1)
            }
            _ => GENERATIONS - 1,
        }
    }

    /// Where an asynchronous method stands, as its compiler counts: that of the box around its
    /// state machine, or of a state machine that is an object of its own. `None` where that was not
    /// read.
    pub fn state_of(&self, node: NodeId) -> Option<i32> {
        let at = self.states.binary_search_by_key(&node, |(node, _)| *node).ok()?;
        Some(self.states[at].1)
    }

    /// The continuation of a task: the object that runs when the task has completed, or nothing so
    /// far. `None` where that was not read.
    pub fn continuation_of(&self, node: NodeId) -> Option<Option<NodeId>> {
        let at = self.continuations.binary_search_by_key(&node, |(node, _)| *node).ok()?;
        Some(self.continuations[at].1)
    }

    /// Strings whose content was compared.
    pub fn strings(&self) -> &StringStatistics {
        &self.strings
    }

    /// What is known of the whole.
    pub fn end(&self) -> &SnapshotEnd {
        &self.end
    }

    /// What is missing.
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }
}
