//! Reads `.gcdump` files.

mod container;
mod cursor;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{GcdumpError, SIGNATURE, TICKS_TO_1970, is_gcdump};
use crate::{Generation, MemoryBudget, Root, RootKind, Snapshot, SnapshotBuilder, SnapshotEnd};
use container::Container;
use cursor::Cursor;

/// Levels of nodes for roots: `[.NET Roots]`, `[static vars]`, `[static var X]` are three.
const MAX_ROOT_LEVELS: usize = 64;
/// Nodes without an address get one from here on, which no object of a process has.
const MADE_UP: u64 = 0xff00_0000_0000_0000;

/// Reads a whole file.
///
/// # Errors
/// When the bytes are no such file, or a damaged one. Whatever they are, there is no panic, no more
/// memory is taken than some bytes for each byte of the file, and time is linear in its length.
pub fn read(bytes: &[u8], budget: MemoryBudget) -> Result<Snapshot, GcdumpError> {
    read_counted(bytes, budget, &Cell::new(0))
}

/// Counts the references that it decodes.
pub(super) fn read_counted(
    bytes: &[u8],
    budget: MemoryBudget,
    decoded: &Cell<u64>,
) -> Result<Snapshot, GcdumpError> {
    if !is_gcdump(bytes) {
        return Err(GcdumpError::NotGcdump);
    }
    let mut cursor = Cursor { bytes, at: 0 };
    if cursor.i32()? != SIGNATURE.len() as i32 {
        return Err(GcdumpError::NotGcdump);
    }
    cursor.bytes(SIGNATURE.len())?;
    let mut container = Container { cursor, types: HashMap::new(), forward: None };
    let dump = container
        .begin()?
        .ok_or_else(|| container.cursor.damaged("there is no heap dump in it"))?;
    if &*dump.name != "GCHeapDump" {
        return Err(GcdumpError::NotGcdump);
    }
    // From version 8 on, what was added later is tagged and can be skipped; 8 itself never got out.
    if dump.version < 9 || dump.needs > 10 {
        return Err(GcdumpError::Version {
            version: if dump.version < 9 { dump.version } else { dump.needs },
        });
    }
    let graph = Graph::read(&mut container, decoded)?;
    let mut end = SnapshotEnd { complete: true, ..SnapshotEnd::default() };
    let mut generations = Vec::new();
    rest_of_dump(&mut container, &mut end, &mut generations)?;
    graph.into_snapshot(budget, &generations, end)
}

#[derive(Debug)]
struct GraphType {
    name: String,
    module: String,
    size: i32,
}

/// The `Graphs.MemoryGraph` as it stands in the file.
struct Graph<'a> {
    root: usize,
    types: Vec<GraphType>,
    /// For each node, where it is described within the block, as `u32`s.
    labels: &'a [u8],
    /// The block of all descriptions; its place in the file.
    block: &'a [u8],
    block_at: usize,
    /// For each node, its address, as `u64`s.
    addresses: &'a [u8],
    /// Bytes that references may still take. Each node has a description of its own, so all of them
    /// take no more than the block. Without that limit, many labels of one long description would
    /// cost the product of both.
    left: Cell<usize>,
    decoded: &'a Cell<u64>,
}

/// A node's description up to its references.
struct Node<'a> {
    type_index: usize,
    size: u64,
    references: usize,
    /// At the first reference.
    cursor: Cursor<'a>,
}

impl<'a> Graph<'a> {
    fn read(container: &mut Container<'a>, decoded: &'a Cell<u64>) -> Result<Self, GcdumpError> {
        let described = container.begin()?;
        let Some(described) =
            described.filter(|described| &*described.name == "Graphs.MemoryGraph")
        else {
            return Err(container.cursor.damaged("a memory graph was to stand here"));
        };
        let cursor = &mut container.cursor;
        cursor.i64()?;
        let root = cursor.i32()?;
        // At least two lengths and a size.
        let count = cursor.count(12)?;
        let mut types = Vec::with_capacity(count);
        for _ in 0..count {
            let name = cursor.text()?;
            let size = cursor.i32()?;
            let module = cursor.text()?.unwrap_or_default();
            // Names of native images are resolved later, from their PDBs; we do not.
            let name = name.unwrap_or_else(|| format!("[type {}]", types.len()));
            types.push(GraphType { name, module, size });
        }
        let nodes = cursor.count(4)?;
        let labels = cursor.bytes(nodes * 4)?;
        let length = cursor.count(1)?;
        let block_at = cursor.at;
        let block = cursor.bytes(length)?;
        if described.needs >= 1 {
            // Names that are resolved later.
            container.skip_region()?;
        }
        let cursor = &mut container.cursor;
        let count = cursor.count(8)?;
        if count != nodes {
            return Err(cursor.damaged("there are not as many addresses as nodes"));
        }
        let addresses = cursor.bytes(nodes * 8)?;
        container.end()?;
        let root = usize::try_from(root).ok().filter(|root| *root < nodes);
        let root = root.ok_or_else(|| container.cursor.damaged("there is no root node"))?;
        Ok(Self {
            root,
            types,
            labels,
            block,
            block_at,
            addresses,
            left: Cell::new(length),
            decoded,
        })
    }

    fn len(&self) -> usize {
        self.labels.len() / 4
    }

    fn node(&self, index: usize) -> Result<Node<'a>, GcdumpError> {
        let label = self.labels.as_chunks().0.get(index).copied().map(u32::from_le_bytes);
        let mut cursor = Cursor { bytes: self.block, at: label.unwrap_or(u32::MAX) as usize };
        let place = |error| match error {
            GcdumpError::Damaged { at, what } => {
                GcdumpError::Damaged { at: at + self.block_at as u64, what }
            }
            GcdumpError::Truncated { at } => {
                GcdumpError::Truncated { at: at + self.block_at as u64 }
            }
            other => other,
        };
        let mut number = || cursor.compressed().map_err(place);
        let type_and_size = number()?;
        let own_size = if type_and_size & 1 != 0 { Some(number()?) } else { None };
        let references = number()?;
        let damaged = |what| GcdumpError::Damaged { at: (self.block_at + cursor.at) as u64, what };
        let type_index = (type_and_size >> 1) as usize;
        let Some(type_) = self.types.get(type_index) else {
            return Err(damaged("a node has a type that is not there"));
        };
        let references = usize::try_from(references)
            .ok()
            .filter(|count| *count <= self.block.len() - cursor.at)
            .ok_or_else(|| damaged("a node has more references than the file has room for"))?;
        let size = own_size.unwrap_or(type_.size).max(0) as u64;
        Ok(Node { type_index, size, references, cursor })
    }

    /// The next reference of a node.
    fn reference(&self, from: usize, node: &mut Node<'a>) -> Result<usize, GcdumpError> {
        let before = node.cursor.at;
        let distance = node.cursor.compressed()?;
        self.decoded.set(self.decoded.get() + 1);
        let left =
            self.left.get().checked_sub(node.cursor.at - before).ok_or(GcdumpError::Damaged {
                at: (self.block_at + node.cursor.at) as u64,
                what: "descriptions of nodes overlap",
            })?;
        self.left.set(left);
        let to = (from as i64).wrapping_add(i64::from(distance));
        usize::try_from(to).ok().filter(|to| *to < self.len()).ok_or(GcdumpError::Damaged {
            at: (self.block_at + node.cursor.at) as u64,
            what: "a reference leads to a node that is not there",
        })
    }

    fn address(&self, index: usize) -> u64 {
        match self.addresses.as_chunks().0.get(index).copied().map(u64::from_le_bytes) {
            None | Some(0) => MADE_UP + index as u64 * 8,
            Some(address) => address,
        }
    }

    /// Whether a node is none of the heap but stands for roots.
    fn is_root_node(&self, index: usize, node: &Node<'a>) -> bool {
        let named =
            self.types.get(node.type_index).is_some_and(|type_| type_.name.starts_with('['));
        index == self.root || (named && self.address(index) >= MADE_UP)
    }

    fn into_snapshot(
        self,
        budget: MemoryBudget,
        generations: &[Generation],
        end: SnapshotEnd,
    ) -> Result<Snapshot, GcdumpError> {
        let mut builder = SnapshotBuilder::new(budget);
        for (index, type_) in self.types.iter().enumerate() {
            builder.class(index as u64, &type_.name, &type_.module);
        }
        for generation in generations {
            builder.generation(*generation);
        }
        self.roots(&mut builder)?;
        for index in 0..self.len() {
            let mut node = self.node(index)?;
            // A node that others refer to and nobody described has the first type, which is called
            // so.
            let undefined = node.type_index == 0
                && node.references == 0
                && self.types.first().is_some_and(|type_| type_.name == "UNDEFINED");
            if undefined || self.is_root_node(index, &node) {
                continue;
            }
            builder.object(self.address(index), node.type_index as u64, node.size);
            for _ in 0..node.references {
                let to = self.reference(index, &mut node)?;
                builder.reference(self.address(to));
            }
        }
        Ok(builder.finish(end))
    }

    /// Follows the nodes that stand for roots down to objects.
    fn roots(&self, builder: &mut SnapshotBuilder) -> Result<(), GcdumpError> {
        let first = Kind { kind: RootKind::Other, pinned: false };
        let mut open = vec![(self.root, first, 0)];
        let mut seen = HashSet::from([self.root]);
        // By type: many nodes may have one of a long name.
        let mut fields: HashMap<usize, Arc<str>> = HashMap::new();
        while let Some((index, kind, level)) = open.pop() {
            let mut node = self.node(index)?;
            let name = self.types.get(node.type_index).map_or("", |type_| type_.name.as_str());
            let kind = kind.of_node(name);
            let id = MADE_UP + index as u64;
            if let Some(field) =
                name.strip_prefix("[static var ").and_then(|name| name.strip_suffix(']'))
            {
                builder.root_name(
                    id,
                    fields.entry(node.type_index).or_insert_with(|| field.into()).clone(),
                );
            }
            for _ in 0..node.references {
                let to = self.reference(index, &mut node)?;
                if self.is_root_node(to, &self.node(to)?) {
                    if level < MAX_ROOT_LEVELS && seen.insert(to) {
                        open.push((to, kind, level + 1));
                    }
                } else {
                    let Kind { kind, pinned } = kind;
                    builder.root(Root {
                        target: self.address(to),
                        kind,
                        pinned,
                        weak: false,
                        interior: false,
                        id,
                    });
                }
            }
        }
        Ok(())
    }
}

/// What the names of the nodes from the root down say of a root.
#[derive(Clone, Copy)]
struct Kind {
    kind: RootKind,
    pinned: bool,
}

impl Kind {
    fn of_node(self, name: &str) -> Self {
        let kind = match name {
            "[static vars]" | "[thread static vars]" => RootKind::Statics,
            "[local vars]" => RootKind::Stack,
            "[finalizer Handles]" => RootKind::Finalizer,
            "[pinning Handles]"
            | "[strong Handles]"
            | "[Dependent Handles]"
            | "[COM/WinRT Objects]" => RootKind::Handle,
            _ => self.kind,
        };
        Self { kind, pinned: self.pinned || name == "[pinning Handles]" }
    }
}

/// What follows the graph in a `GCHeapDump`.
fn rest_of_dump(
    container: &mut Container<'_>,
    end: &mut SnapshotEnd,
    generations: &mut Vec<Generation>,
) -> Result<(), GcdumpError> {
    // Whether the process was of 64 bits, which the graph says too.
    container.cursor.u8()?;
    let multipliers = [container.cursor.u32()?, container.cursor.u32()?].map(f32::from_bits);
    if multipliers.iter().any(|multiplier| *multiplier > 1.0) {
        end.complete = false;
        end.reason =
            format!("the file holds only some of the objects: one of {:.1}", multipliers[0]);
    }
    // What is known of the heap of JavaScript.
    if container.begin()?.is_some() {
        container.end()?;
    }
    if container.begin()?.is_some() {
        container.cursor.i64()?;
        let count = container.cursor.count(1)?;
        for _ in 0..count {
            if let Some(described) = container.begin()? {
                segment(&mut container.cursor, described.version, generations)?;
                container.end()?;
            }
        }
        container.end()?;
    }
    let cursor = &mut container.cursor;
    cursor.text()?;
    let ticks = cursor.i64()?;
    end.unix_ms = u64::try_from(ticks.saturating_sub(TICKS_TO_1970) / 10_000).unwrap_or(0);
    cursor.text()?;
    end.process = cursor.text()?.unwrap_or_default();
    end.pid = u32::try_from(cursor.i32()?).unwrap_or(0);
    cursor.i64()?;
    cursor.i64()?;
    let count = cursor.count(4)?;
    cursor.bytes(count * 4)?;
    container.end()
}

/// A segment of the heap: its generations lie one after the other, the highest first.
fn segment(
    cursor: &mut Cursor<'_>,
    version: i32,
    generations: &mut Vec<Generation>,
) -> Result<(), GcdumpError> {
    let (start, end) = (cursor.u64()?, cursor.u64()?);
    let mut ends = [cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?, 0];
    if version >= 1 {
        ends[4] = cursor.u64()?;
    }
    let mut from = start;
    for (generation, to) in ends.into_iter().enumerate().rev() {
        let to = to.min(end);
        if to > from {
            generations.push(Generation {
                generation: generation as u8,
                start: from,
                length: to - from,
            });
            from = to;
        }
    }
    Ok(())
}
