use std::collections::HashMap;

use session::{FunctionId, StackId};

use crate::{Line, Series, Tables, Totals, mix::Mix, tables::NONE};

/// Frames of all stacks together that an inverted tree is made of.
const MOST_FRAMES: u64 = if cfg!(test) { 10_000 } else { 200_000_000 };

/// How stacks are put together to a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    /// Calls from different lines of a function are different nodes.
    pub lines: bool,
    /// A function that calls itself is one node, however deep.
    pub merge_recursion: bool,
    /// From the leaf to the root: who called it, instead of what it called.
    pub inverted: bool,
    /// This number of nodes of an inverted tree is enough. Beyond that, and where all stacks
    /// together have very many frames, the lightest stacks show their leaf only:
    /// [`CallTree::shortened`].
    pub enough: Option<usize>,
}

/// A node of a tree of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The function.
    pub function: FunctionId,
    /// Its line; without [`TreeOptions::lines`] the line with the greatest weight.
    pub line: Option<Line>,
    /// Samples that end here. In an inverted tree: whose outermost frame is this.
    pub own: Totals,
    /// Samples that end here or below.
    pub total: Totals,
    /// Steps to the root; 0 at a root.
    pub depth: u32,
    parent: u32,
    first_child: u32,
    next_sibling: u32,
}

/// A tree of calls, or rather several: one for each root.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    nodes: Vec<Node>,
    first_root: u32,
    total: Totals,
    /// Node of each stack, where it has one.
    node_of: Vec<u32>,
    /// Stacks of which only the leaf is shown.
    shortened: usize,
}

/// What makes two calls from the same parent the same node.
type Key = (u32, FunctionId, Option<Line>);

impl CallTree {
    /// Puts the stacks of a series together.
    pub fn new(tables: &Tables, series: &Series, options: TreeOptions) -> Self {
        Self::of_sums(tables, &series.by_stack(tables.stack_count()), options)
    }

    /// Puts stacks together, each with the sums of its own: [`Profile::stack_sums`].
    ///
    /// [`Profile::stack_sums`]: crate::Profile::stack_sums
    pub fn of_sums(tables: &Tables, own: &[Totals], options: TreeOptions) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            first_root: NONE,
            total: Totals::default(),
            node_of: vec![NONE; own.len()],
            shortened: 0,
        };
        own.iter().for_each(|sum| tree.total.add(sum.samples, sum.weight));
        let mut ids = Ids::default();
        match options.inverted {
            false => tree.grow_from_roots(tables, own, options, &mut ids),
            true => tree.grow_from_leaves(tables, own, options, &mut ids),
        }
        tree
    }

    fn grow_from_roots(
        &mut self,
        tables: &Tables,
        own: &[Totals],
        options: TreeOptions,
        ids: &mut Ids,
    ) {
        // Parents have lesser ids: one pass backwards gives totals, one forwards gives nodes.
        let mut totals = own.to_vec();
        for stack in (0..totals.len()).rev() {
            let total = totals[stack];
            if total.samples > 0
                && let Some(parent) = tables.parent(StackId(stack as u32))
            {
                totals[parent.index()].add(total.samples, total.weight);
            }
        }
        // Weight of the line that a node shows.
        let mut line_weight: Vec<u64> = Vec::new();
        for (stack, total) in totals.iter().enumerate() {
            if total.samples == 0 {
                continue;
            }
            let id = StackId(stack as u32);
            let frame = tables.frame(tables.stack_frame(id));
            let parent = tables.parent(id).map_or(NONE, |parent| self.node_of[parent.index()]);
            let line = if options.lines { frame.line } else { None };
            let node = match self.nodes.get(parent as usize) {
                Some(node) if options.merge_recursion && node.function == frame.function => parent,
                _ => self.node(ids, (parent, frame.function, line)),
            };
            self.node_of[stack] = node;
            line_weight.resize(self.nodes.len(), 0);
            let weight = &mut line_weight[node as usize];
            let node = &mut self.nodes[node as usize];
            node.own.add(own[stack].samples, own[stack].weight);
            if frame.line.is_some() && (node.line.is_none() || total.weight > *weight) {
                node.line = frame.line;
                *weight = total.weight;
            }
        }
        for node in (0..self.nodes.len()).rev() {
            let Node { own, parent, .. } = self.nodes[node];
            self.nodes[node].total.add(own.samples, own.weight);
            let total = self.nodes[node].total;
            if let Some(parent) = self.nodes.get_mut(parent as usize) {
                parent.total.add(total.samples, total.weight);
            }
        }
    }

    fn grow_from_leaves(
        &mut self,
        tables: &Tables,
        own: &[Totals],
        options: TreeOptions,
        ids: &mut Ids,
    ) {
        let mut stacks: Vec<usize> =
            (0..own.len()).filter(|own_at| own[*own_at].samples > 0).collect();
        if options.enough.is_some() || frames_of(tables, &stacks) > MOST_FRAMES {
            stacks.sort_by_key(|stack| (std::cmp::Reverse(own[*stack].weight), *stack));
        }
        let mut walked = 0;
        for stack in stacks {
            let own = own[stack];
            let mut at = NONE;
            let is_short = walked > MOST_FRAMES
                || options.enough.is_some_and(|enough| self.nodes.len() >= enough);
            self.shortened += usize::from(is_short);
            let frames = tables.walk(StackId(stack as u32));
            for frame in frames.take(if is_short { 1 } else { usize::MAX }) {
                walked += 1;
                let frame = tables.frame(frame);
                let line = if options.lines { frame.line } else { None };
                let same =
                    self.nodes.get(at as usize).is_some_and(|node| node.function == frame.function);
                if options.merge_recursion && same {
                    continue;
                }
                at = self.node(ids, (at, frame.function, line));
                let node = &mut self.nodes[at as usize];
                node.total.add(own.samples, own.weight);
                node.line = node.line.or(frame.line);
            }
            if let Some(node) = self.nodes.get_mut(at as usize) {
                node.own.add(own.samples, own.weight);
            }
            self.node_of[stack] = at;
        }
    }

    fn node(&mut self, ids: &mut Ids, key: Key) -> u32 {
        let next = self.nodes.len() as u32;
        let id = *ids.0.entry(key).or_insert(next);
        if id == next {
            let (parent, function, line) = key;
            let (depth, list) = match self.nodes.get_mut(parent as usize) {
                Some(parent) => (parent.depth + 1, &mut parent.first_child),
                None => (0, &mut self.first_root),
            };
            let next_sibling = std::mem::replace(list, next);
            self.nodes.push(Node {
                function,
                line,
                own: Totals::default(),
                total: Totals::default(),
                depth,
                parent,
                first_child: NONE,
                next_sibling,
            });
        }
        id
    }

    /// All nodes, parents before their children. An index into this is what other methods call a
    /// node.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Stacks of which only the leaf is shown, because there are too many nodes.
    pub fn shortened(&self) -> usize {
        self.shortened
    }

    /// Number of stacks of which it was made, also of those that were not sampled.
    pub fn stacks(&self) -> usize {
        self.node_of.len()
    }

    /// Sum of all roots.
    pub fn total(&self) -> Totals {
        self.total
    }

    /// The node above.
    pub fn parent(&self, node: usize) -> Option<usize> {
        let parent = self.nodes[node].parent;
        (parent != NONE).then_some(parent as usize)
    }

    /// The node where a stack ends, where the stack was sampled. In an inverted tree, where it
    /// begins.
    pub fn node_of(&self, stack: StackId) -> Option<usize> {
        let node = self.node_of[stack.index()];
        (node != NONE).then_some(node as usize)
    }

    /// Nodes right below a node, or the roots; greatest first.
    pub fn children(&self, node: Option<usize>) -> Vec<usize> {
        let mut next = node.map_or(self.first_root, |node| self.nodes[node].first_child);
        let mut children = Vec::new();
        while next != NONE {
            children.push(next as usize);
            next = self.nodes[next as usize].next_sibling;
        }
        order::sort_by_key(&mut children, |child| {
            (std::cmp::Reverse(self.nodes[*child].total.weight), *child)
        });
        children
    }

    /// Walks all nodes, children between the entering (`true`) and the leaving (`false`) of their
    /// parent. Does not recurse: stacks may be as deep as they like.
    pub fn visit(&self, mut see: impl FnMut(&Node, bool)) {
        self.visit_ids(|node, entering| see(&self.nodes[node], entering));
    }

    /// The same, with nodes by their index in [`Self::nodes`].
    pub fn visit_ids(&self, mut see: impl FnMut(usize, bool)) {
        let mut at = self.first_root;
        while at != NONE {
            let node = &self.nodes[at as usize];
            see(at as usize, true);
            if node.first_child != NONE {
                at = node.first_child;
                continue;
            }
            // Up until there is a way on.
            let mut leaving = at;
            loop {
                let node = &self.nodes[leaving as usize];
                see(leaving as usize, false);
                if node.next_sibling != NONE {
                    at = node.next_sibling;
                    break;
                }
                if node.parent == NONE {
                    return;
                }
                leaving = node.parent;
            }
        }
    }
}

/// Frames of these stacks together.
fn frames_of(tables: &Tables, stacks: &[usize]) -> u64 {
    let mut depths: Vec<u32> = Vec::with_capacity(tables.stack_count());
    for stack in 0..tables.stack_count() {
        let parent = tables.parent(StackId(stack as u32));
        // Parents have lesser ids.
        depths.push(parent.map_or(0, |parent| depths[parent.index()]) + 1);
    }
    stacks.iter().map(|stack| u64::from(depths[*stack])).sum()
}

#[derive(Default)]
struct Ids(HashMap<Key, u32, std::hash::BuildHasherDefault<Mix>>);

#[cfg(test)]
mod tests {
    use super::*;
    use session::{FrameDef, FrameId, FrameTrust, FunctionDef, FunctionKind, StackDef};

    /// Each call of an endless recursion was sampled: all stacks together have very many frames.
    #[test]
    fn callers_of_very_deep_stacks_have_an_end() {
        const DEPTH: u32 = 1000;
        let mut tables = Tables::default();
        for id in 0..2 {
            tables.add_function(&FunctionDef {
                id: FunctionId(id),
                kind: FunctionKind::Managed,
                module: None,
                type_name: String::new(),
                name: "F".into(),
                parameters: String::new(),
                state_machine: None,
            });
            let (id, function, trust) = (FrameId(id), FunctionId(id), FrameTrust::Tables);
            tables.add_frame(&FrameDef { id, function, line: None, trust });
        }
        for id in 0..DEPTH {
            let parent = id.checked_sub(1).map(StackId);
            tables.add_stack(&StackDef { id: StackId(id), parent, frame: FrameId(id % 2) });
        }
        // The innermost weigh most.
        let own: Vec<Totals> =
            (0..DEPTH).map(|id| Totals { samples: 1, weight: u64::from(id) + 1 }).collect();
        let options = TreeOptions { inverted: true, ..TreeOptions::default() };
        let tree = CallTree::of_sums(&tables, &own, options);
        let walked = tree.nodes().iter().map(|node| node.depth).max();
        assert_eq!(walked, Some(DEPTH - 1));
        assert!((950..1000).contains(&tree.shortened()), "{}", tree.shortened());
        let roots = tree.children(None).into_iter().map(|root| tree.nodes()[root].total.samples);
        assert_eq!(roots.sum::<u64>(), u64::from(DEPTH));
        let few = CallTree::of_sums(&tables, &own[..100], options);
        assert_eq!(few.shortened(), 0);
    }
}
