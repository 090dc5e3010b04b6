//! From what was collected to a snapshot: ids for addresses, types, generations and roots.

use std::collections::HashMap;

use super::{SnapshotBuilder, readable_field};
use crate::fields::UNKNOWN_SHAPE;
use crate::index::AddressIndex;
use crate::snapshot::{
    Gaps, Generation, NodeId, Root, RootKind, Snapshot, SnapshotEnd, SnapshotRoot, TypeId, TypeInfo,
};
use crate::targets::Targets;

impl SnapshotBuilder {
    /// The end: resolves all references.
    pub fn finish(mut self, mut end: SnapshotEnd) -> Snapshot {
        self.add_static_fields();
        let order = order(&self.addresses);
        self.gaps.duplicate_objects =
            order.as_ref().map_or(0, |order| (self.addresses.len() - order.len()) as u64);
        let addresses = permuted(std::mem::take(&mut self.addresses), order.as_deref());
        let index = AddressIndex::new(&addresses);

        let (mut edges, starts) = self.resolve(&addresses, &index, &mut end);
        let mut edges_at = permuted(starts, order.as_deref());
        let mut edges_len = permuted(std::mem::take(&mut self.counts), order.as_deref());
        let classes = permuted(std::mem::take(&mut self.classes), order.as_deref());
        let sizes = permuted(std::mem::take(&mut self.sizes), order.as_deref());
        let shapes = permuted(std::mem::take(&mut self.shapes), order.as_deref());
        drop(order);
        add_dependents(
            &mut self.dependents,
            &addresses,
            &index,
            &mut edges,
            &mut edges_at,
            &mut edges_len,
            &mut self.gaps,
        );
        let (types, type_table) = self.types(classes);
        let states = self.states_by_node(|address| index.find(&addresses, address));
        let continuations = self.continuations_by_node(|address| index.find(&addresses, address));
        let mut snapshot = Snapshot {
            states,
            continuations,
            types,
            sizes,
            shapes,
            shape_table: self.shape_index.table,
            fields: self.fields,
            big: self
                .big
                .iter()
                .filter_map(|(at, size)| Some((index.find(&addresses, *at)?, *size)))
                .collect(),
            references: edges_len.iter().map(|count| u64::from(*count)).sum(),
            edges_at,
            edges_len,
            edges,
            type_table,
            roots: Vec::new(),
            root_names: std::mem::take(&mut self.root_names),
            generations: generations(&mut self.generations, &addresses),
            generation_ranges: std::mem::take(&mut self.generations),
            strings: Default::default(),
            end,
            gaps: self.gaps,
            addresses,
        };
        snapshot.add_roots(&self.roots, &index);
        snapshot.strings =
            self.strings.finish(&snapshot.addresses, &index, |node| snapshot.size(node));
        snapshot.say_what_did_not_fit(self.budget);
        snapshot
    }

    /// The objects that references lead to, and where those of each object begin, both in the order
    /// in which they came: that column is never permuted.
    fn resolve(
        &mut self,
        addresses: &[u64],
        index: &AddressIndex,
        end: &mut SnapshotEnd,
    ) -> (Vec<NodeId>, Vec<u32>) {
        let mut edges: Vec<NodeId> = Vec::with_capacity(self.references as usize);
        let mut starts: Vec<u32> = Vec::with_capacity(self.counts.len());
        self.gaps.spooled_bytes = self.targets.spooled();
        let targets = std::mem::replace(&mut self.targets, Targets::new(0, None));
        let mut owner = 0;
        let mut left = 0;
        let (counts, shapes) = (&mut self.counts, &mut self.shapes);
        let dangling = &mut self.gaps.dangling_references;
        let drained = targets.drain(|target| {
            while left == 0 {
                starts.push(edges.len() as u32);
                left = counts[owner];
                counts[owner] = 0;
                owner += 1;
            }
            left -= 1;
            match index.find(addresses, target) {
                Some(node) => {
                    edges.push(node);
                    counts[owner - 1] += 1;
                }
                None => {
                    *dangling += 1;
                    // Those behind it move up.
                    shapes[owner - 1] = UNKNOWN_SHAPE;
                }
            }
        });
        if let Err((lost, error)) = drained {
            *dangling = dangling.saturating_sub(lost);
            self.gaps.references_over_budget += lost;
            incomplete(end, &format!("the temporary file could not be read: {error}"));
        }
        while starts.len() < counts.len() {
            starts.push(edges.len() as u32);
            counts[starts.len() - 1] = 0;
        }
        (edges, starts)
    }

    fn states_by_node(&self, find: impl Fn(u64) -> Option<NodeId>) -> Vec<(NodeId, i32)> {
        let states = self.states.iter();
        let mut states: Vec<(NodeId, i32)> =
            states.filter_map(|(object, state)| Some((find(*object)?, *state))).collect();
        states.sort_unstable();
        states
    }

    fn continuations_by_node(
        &self,
        find: impl Fn(u64) -> Option<NodeId>,
    ) -> Vec<(NodeId, Option<NodeId>)> {
        let continuations = self.continuations.iter();
        let mut continuations: Vec<(NodeId, Option<NodeId>)> =
            continuations.filter_map(|(task, next)| Some((find(*task)?, find(*next)))).collect();
        continuations.sort_unstable();
        continuations
    }

    /// Classes of the same name and module are one type: a report by name would not tell them apart
    /// either.
    pub(super) fn types(&mut self, mut classes: Vec<u32>) -> (Vec<TypeId>, Vec<TypeInfo>) {
        let mut table: Vec<TypeInfo> = Vec::new();
        let mut by_name: HashMap<TypeInfo, TypeId> = HashMap::new();
        let mut unnamed = Vec::new();
        let of_class: Vec<TypeId> = self
            .class_ids
            .iter()
            .map(|class| {
                let info = self.names.get(class).cloned();
                unnamed.push(info.is_none());
                let info = info.unwrap_or_else(|| TypeInfo {
                    name: format!("[class 0x{class:x}]"),
                    module: String::new(),
                });
                *by_name.entry(info.clone()).or_insert_with(|| {
                    table.push(info);
                    table.len() as TypeId - 1
                })
            })
            .collect();
        for class in &mut classes {
            self.gaps.objects_without_type += u64::from(unnamed[*class as usize]);
            *class = of_class[*class as usize];
        }
        (classes, table)
    }
}

/// A type and its field, with the name of the property in place of that of the field in which its
/// compiler keeps it.
pub(super) fn readable(name: &str) -> String {
    match name.rsplit_once(".<") {
        Some((before, rest)) => format!("{before}.{}", readable_field(&format!("<{rest}"))),
        None => name.to_owned(),
    }
}

fn incomplete(end: &mut SnapshotEnd, reason: &str) {
    end.complete = false;
    if !end.reason.is_empty() {
        end.reason.push_str("; ");
    }
    end.reason.push_str(reason);
}

impl std::hash::Hash for TypeInfo {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.module.hash(state);
    }
}

/// The order of ascending addresses, each once; `None` if they are so already.
pub(super) fn order(addresses: &[u64]) -> Option<Vec<u32>> {
    // A heap comes in stretches of ascending addresses, some thousands at most. If those do not
    // overlap, it is enough to sort them.
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut first = 0;
    for at in 1..=addresses.len() {
        if at == addresses.len() || addresses[at] <= addresses[at - 1] {
            runs.push((first as u32, at as u32));
            first = at;
        }
    }
    if runs.len() <= 1 {
        return None;
    }
    runs.sort_by_key(|(first, _)| addresses[*first as usize]);
    let apart = runs
        .windows(2)
        .all(|pair| addresses[pair[0].1 as usize - 1] < addresses[pair[1].0 as usize]);
    if apart {
        return Some(runs.into_iter().flat_map(|(first, end)| first..end).collect());
    }
    let mut order: Vec<u32> = (0..addresses.len() as u32).collect();
    // Of several objects at one address, the first one stays.
    order.sort_unstable_by_key(|at| (addresses[*at as usize], *at));
    order.dedup_by_key(|at| addresses[*at as usize]);
    Some(order)
}

fn permuted<T: Copy>(column: Vec<T>, order: Option<&[u32]>) -> Vec<T> {
    match order {
        None => column,
        Some(order) => order.iter().map(|at| column[*at as usize]).collect(),
    }
}

/// Makes ranges disjoint and finds the nodes in them. Of ranges that overlap, the earlier ends
/// where the next begins.
pub(super) fn generations(
    ranges: &mut Vec<Generation>,
    addresses: &[u64],
) -> Vec<(NodeId, NodeId, u8)> {
    ranges.retain(|range| range.length > 0);
    order::sort_by_key(ranges, |range| (range.start, range.generation));
    ranges.dedup_by_key(|range| range.start);
    let next_starts: Vec<u64> =
        ranges.iter().skip(1).map(|range| range.start).chain([u64::MAX]).collect();
    let node = |address: u64| addresses.partition_point(|at| *at < address) as NodeId;
    ranges
        .iter_mut()
        .zip(next_starts)
        .map(|(range, next)| {
            let end = range.start.saturating_add(range.length).min(next);
            range.length = end - range.start;
            (node(range.start), node(end), range.generation)
        })
        .filter(|(first, end, _)| first < end)
        .collect()
}

/// Puts each dependent handle behind the references of its key. Those move to the end of the column
/// for that.
fn add_dependents(
    dependents: &mut Vec<(u64, u64)>,
    addresses: &[u64],
    index: &AddressIndex,
    edges: &mut Vec<NodeId>,
    edges_at: &mut [u32],
    edges_len: &mut [u32],
    gaps: &mut Gaps,
) {
    let mut resolved: Vec<(NodeId, NodeId)> = Vec::with_capacity(dependents.len());
    for (key, value) in dependents.drain(..) {
        match (index.find(addresses, key), index.find(addresses, value)) {
            (Some(key), Some(value)) => resolved.push((key, value)),
            _ => gaps.dangling_references += 1,
        }
    }
    resolved.sort_unstable();
    for group in resolved.chunk_by(|one, other| one.0 == other.0) {
        let key = group[0].0 as usize;
        let (at, len) = (edges_at[key] as usize, edges_len[key] as usize);
        if edges.len() + len + group.len() > u32::MAX as usize {
            gaps.references_over_budget += group.len() as u64;
            continue;
        }
        edges_at[key] = edges.len() as u32;
        edges_len[key] = (len + group.len()) as u32;
        edges.extend_from_within(at..at + len);
        edges.extend(group.iter().map(|(_, value)| *value));
    }
}

impl Snapshot {
    fn say_what_did_not_fit(&mut self, budget: u64) {
        let gaps = &self.gaps;
        if gaps.objects_over_budget + gaps.references_over_budget + gaps.others_over_budget == 0 {
            return;
        }
        let reason = format!(
            "{} objects and {} references did not fit into {} MB of memory",
            gaps.objects_over_budget,
            gaps.references_over_budget,
            budget >> 20
        );
        incomplete(&mut self.end, &reason);
    }

    fn add_roots(&mut self, roots: &[Root], index: &AddressIndex) {
        for root in roots {
            let inside = || {
                let node =
                    self.addresses.partition_point(|at| *at <= root.target).checked_sub(1)?;
                let offset = root.target - self.addresses[node];
                (offset < self.size(node as NodeId)).then_some(node as NodeId)
            };
            let node = index
                .find(&self.addresses, root.target)
                .or_else(|| root.interior.then(inside).flatten());
            match node {
                Some(node) => self.roots.push(SnapshotRoot {
                    node,
                    kind: root.kind,
                    pinned: root.pinned,
                    weak: root.weak,
                    id: root.id,
                }),
                None => self.gaps.dangling_roots += 1,
            }
        }
        self.roots.sort_by_key(|root| (root.node, RootKind::rank(root.kind)));
    }
}
