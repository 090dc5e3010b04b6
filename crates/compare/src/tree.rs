use std::collections::HashMap;

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

    /// The nodes right below a node, or the roots, by the larger of their two totals after they
    /// were multiplied by `scale`, greatest first.
    pub fn children(&self, node: Option<u32>, scale: [f64; 2]) -> Vec<u32> {
        let below = |(_, other): &(usize, &DiffNode)| other.parent == node;
        let mut children: Vec<u32> =
            self.nodes.iter().enumerate().filter(below).map(|(index, _)| index as u32).collect();
        let size = |node: &u32| {
            let total = self.nodes[*node as usize].total;
            (total[0].weight as f64 * scale[0]).max(total[1].weight as f64 * scale[1])
        };
        children.sort_by(|one, other| size(other).total_cmp(&size(one)).then(one.cmp(other)));
        children
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
