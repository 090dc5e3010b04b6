use std::collections::HashMap;

use explore::Shape;
use profile::{CallTree, Node, Totals};
use schemars::JsonSchema;
use serde::Serialize;

use crate::functions::{Functions, Side};

/// The differential call tree: each path of calls of either recording once, with the weights of
/// both. It is the same for a tree of callers, if it was made of such trees.
#[derive(Clone, Debug, Default)]
pub struct DiffTree {
    /// All nodes, each after its parent.
    pub nodes: Vec<DiffNode>,
    /// Sums of all roots.
    pub before: Totals,
    /// Sums of all roots.
    pub after: Totals,
}

/// A node of a [`DiffTree`]. Weights are those that were recorded, in the unit of the series. To
/// compare recordings of different lengths, multiply them by
/// [`SeriesComparison::scale`](crate::SeriesComparison::scale).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffNode {
    /// The function: index in [`Comparison::functions`](crate::Comparison::functions).
    pub function: u32,
    /// Index of the node above, which is less than that of the node itself; none at a root.
    pub parent: Option<u32>,
    /// Steps to the root; 0 at a root.
    pub depth: u32,
    /// Samples that end here, before and after.
    pub own: [Totals; 2],
    /// Samples that end here or below, before and after.
    pub total: [Totals; 2],
}

impl DiffTree {
    /// Lays two call trees over each other: nodes are the same if their functions and those of all
    /// nodes above are. The trees must be of recordings whose functions were matched.
    pub fn of(functions: &Functions, before: &CallTree, after: &CallTree) -> Self {
        let mut tree = Self { nodes: Vec::new(), before: before.total(), after: after.total() };
        let mut ids: HashMap<(Option<u32>, u32), u32> = HashMap::new();
        for (side, source) in [(Side::Before, before), (Side::After, after)] {
            tree.lay(functions, side, source, &mut ids);
        }
        tree
    }

    fn lay(
        &mut self,
        functions: &Functions,
        side: Side,
        source: &CallTree,
        ids: &mut HashMap<(Option<u32>, u32), u32>,
    ) {
        let mut node_of: Vec<u32> = Vec::with_capacity(source.nodes().len());
        for (index, node) in source.nodes().iter().enumerate() {
            let Node { function, own, total, depth, .. } = *node;
            let function = functions.index(side, function) as u32;
            let parent = source.parent(index).and_then(|parent| node_of.get(parent).copied());
            let next = self.nodes.len() as u32;
            let id = *ids.entry((parent, function)).or_insert(next);
            if id == next {
                let (own, total) = Default::default();
                self.nodes.push(DiffNode { function, parent, depth, own, total });
            }
            let sums = &mut self.nodes[id as usize];
            add(&mut sums.own[side as usize], own);
            add(&mut sums.total[side as usize], total);
            node_of.push(id);
        }
    }

    /// The children of all nodes, in order: those with the least key first. It takes one pass over
    /// the nodes, so make it once, and ask it for the children of each node.
    pub fn shape<K: Ord>(&self, order: impl Fn(usize) -> K) -> Shape {
        let parent = |node: usize| self.nodes[node].parent.map(|parent| parent as usize);
        Shape::new(self.nodes.len(), parent, order)
    }
}

fn add(sum: &mut Totals, more: Totals) {
    sum.samples = sum.samples.saturating_add(more.samples);
    sum.weight = sum.weight.saturating_add(more.weight);
}

/// A differential call tree in columns, with one row for each node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TreeColumns {
    /// Index of the function in `functions`.
    function: Vec<u32>,
    /// Index of the node above, always less than that of the node itself; null at a root.
    parent: Vec<Option<u32>>,
    /// Weight of samples that end here, before: as recorded, in the unit of the series.
    before_self: Vec<u64>,
    /// The same after.
    after_self: Vec<u64>,
    /// Weight of samples that end here or below, before.
    before_total: Vec<u64>,
    /// The same after.
    after_total: Vec<u64>,
}

impl From<&DiffTree> for TreeColumns {
    fn from(tree: &DiffTree) -> Self {
        let column = |of: fn(&DiffNode) -> u64| tree.nodes.iter().map(of).collect();
        Self {
            function: tree.nodes.iter().map(|node| node.function).collect(),
            parent: tree.nodes.iter().map(|node| node.parent).collect(),
            before_self: column(|node| node.own[0].weight),
            after_self: column(|node| node.own[1].weight),
            before_total: column(|node| node.total[0].weight),
            after_total: column(|node| node.total[1].weight),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHILDREN: u32 = 100_000;

    fn node(parent: Option<u32>, weight: u64) -> DiffNode {
        let total = [Totals { samples: 1, weight }, Totals::default()];
        let depth = parent.map_or(0, |parent| if parent == 0 { 1 } else { 2 });
        DiffNode { function: 0, parent, depth, own: [Totals::default(); 2], total }
    }

    #[test]
    fn a_node_with_many_children_is_walked_in_one_pass() {
        let mut tree = DiffTree::default();
        tree.nodes.push(node(None, u64::from(CHILDREN) * 2));
        // Each child has one child: a scan of all nodes for each of them would not end.
        for child in 0..CHILDREN {
            tree.nodes.push(node(Some(0), u64::from(child)));
        }
        for child in 0..CHILDREN {
            tree.nodes.push(node(Some(child + 1), 1));
        }
        let asked = std::cell::Cell::new(0_u64);
        let shape = tree.shape(|node| {
            asked.set(asked.get() + 1);
            std::cmp::Reverse(tree.nodes[node].total[0].weight)
        });
        // Only the sort of the children asks: for each of them it compares fewer than 32 pairs.
        assert!(asked.get() < u64::from(CHILDREN) * 64, "{}", asked.get());
        assert_eq!(shape.children(None), [0]);
        let children = shape.children(Some(0));
        assert_eq!(children.len() as u32, CHILDREN);
        // The heaviest comes first, and no child is missing or there twice.
        assert!(children.iter().copied().eq((1..=CHILDREN).rev()));
        let mut leaves = 0;
        for child in children {
            assert_eq!(shape.children(Some(*child as usize)), [child + CHILDREN]);
            leaves += shape.children(Some((child + CHILDREN) as usize)).len();
        }
        assert_eq!((leaves, shape.height(None)), (0, 4));
    }
}
