use std::hint::black_box;

use crate::snapshot::{NodeId, Snapshot};

/// No vertex.
const NONE: u32 = u32::MAX;

/// Number of vertices in one batch. Each step runs for the whole batch: on a large heap nearly
/// every access misses the processor's caches, and the processor overlaps accesses that do not
/// depend on each other.
pub(crate) const PIECE: usize = 256;

/// Who alone keeps what alive.
///
/// An object dominates another one if every path from a root to the other leads through it: were it
/// gone, the other would be gone too. What an object dominates, with itself, is what it retains.
/// Roots count as one thing, so what is held from two roots is retained by neither. Weak roots hold
/// nothing.
///
/// The algorithm is the semi-NCA of Georgiadis (2005): semidominators as Lengauer and Tarjan (1979)
/// find them, with path compression, then a climb up the tree of dominators for each vertex. That
/// climb skips: `O(m log n)` for any graph. Vertices are numbered in the order of a depth-first
/// search, which keeps what is looked at close together.
#[derive(Debug)]
pub struct Dominators {
    /// By node: the immediate dominator, `NONE` for what no root reaches, `ROOT` for what only the
    /// roots dominate.
    immediate: Vec<u32>,
    retained: Vec<u64>,
    retained_by_type: Vec<u64>,
    reached: u64,
    reached_bytes: u64,
}

/// Dominated by nothing but the roots.
const ROOT: u32 = u32::MAX - 1;

impl Dominators {
    /// Computes the tree of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut tree = DominatorTree::of(snapshot);
        Self::of_tree(snapshot, &mut tree)
    }

    /// What the objects retain, from the tree of the snapshot.
    pub(crate) fn of_tree(snapshot: &Snapshot, tree: &mut DominatorTree) -> Self {
        let DominatorTree { order, idom, space: first_child } = tree;
        let n = order.len();
        let mut retained = vec![0u64; n];
        for vertex in 1..n {
            retained[vertex] = snapshot.size(order[vertex]);
        }
        // A dominator has a lower number than what it dominates.
        for vertex in (1..n).rev() {
            let size = retained[vertex];
            let above = &mut retained[idom[vertex] as usize];
            *above = above.saturating_add(size);
        }

        let retained_by_type = retained_by_type(snapshot, order, idom, &retained, first_child);
        *first_child = Vec::new();

        let mut immediate = vec![NONE; snapshot.len()];
        let mut by_node = vec![0; snapshot.len()];
        for vertex in 1..n {
            let node = order[vertex] as usize;
            by_node[node] = retained[vertex];
            immediate[node] = match idom[vertex] {
                0 => ROOT,
                above => order[above as usize],
            };
        }
        Self {
            immediate,
            retained: by_node,
            retained_by_type,
            reached: n as u64 - 1,
            reached_bytes: retained[0],
        }
    }

    /// The object that alone keeps this one alive; `None` if it is held by several ways or by a
    /// root, or by none.
    pub fn immediate(&self, node: NodeId) -> Option<NodeId> {
        let above = self.immediate[node as usize];
        (above < ROOT).then_some(above)
    }

    /// Objects by the one that alone keeps them alive.
    pub fn children(&self) -> Dominated {
        // One pass counts, one fills.
        let nodes = self.immediate.len();
        let place = |above: u32| if above == ROOT { 0 } else { above as usize + 1 };
        let mut starts = vec![0_u32; nodes + 2];
        for above in self.immediate.iter().filter(|above| **above != NONE) {
            starts[place(*above) + 1] += 1;
        }
        for at in 0..=nodes {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut objects = vec![0; starts[nodes + 1] as usize];
        for (node, above) in self.immediate.iter().enumerate().filter(|(_, above)| **above != NONE)
        {
            let next = &mut next[place(*above)];
            objects[*next as usize] = node as u32;
            *next += 1;
        }
        for ends in starts.windows(2) {
            let of_one = &mut objects[ends[0] as usize..ends[1] as usize];
            of_one.sort_unstable_by_key(|node| {
                (std::cmp::Reverse(self.retained[*node as usize]), *node)
            });
        }
        Dominated { objects, starts }
    }

    /// Whether a root leads to the object.
    pub fn is_reached(&self, node: NodeId) -> bool {
        self.immediate[node as usize] != NONE
    }

    /// Bytes that would be free without the object, its own among them; 0 for what no root reaches.
    pub fn retained(&self, node: NodeId) -> u64 {
        self.retained[node as usize]
    }

    /// For each type, bytes that would be free without all objects of it, where each object stands
    /// for itself: the sum over those objects that are not dominated by another one of the type.
    pub fn retained_by_type(&self) -> &[u64] {
        &self.retained_by_type
    }

    /// Number of objects that a root leads to.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Their bytes.
    pub fn reached_bytes(&self) -> u64 {
        self.reached_bytes
    }

    /// For each object, the one that retains most of those that it dominates immediately;
    /// `NodeId::MAX` if none.
    pub(crate) fn heaviest_children(&self) -> Vec<NodeId> {
        let mut heaviest = vec![NONE; self.immediate.len()];
        for (node, above) in self.immediate.iter().enumerate() {
            if *above < ROOT {
                let best = &mut heaviest[*above as usize];
                if *best == NONE || self.retained[node] > self.retained[*best as usize] {
                    *best = node as u32;
                }
            }
        }
        heaviest
    }
}

/// Objects by the one that alone keeps them alive, those that retain most first.
#[derive(Debug)]
pub struct Dominated {
    /// Those of the roots come first.
    objects: Vec<NodeId>,
    /// Where the objects of the roots and of each object begin, and where the last ones end.
    starts: Vec<u32>,
}

impl Dominated {
    /// What an object alone keeps alive, and nothing below it alone; for `None`, what only the
    /// roots do.
    pub fn of(&self, node: Option<NodeId>) -> &[NodeId] {
        let at = node.map_or(0, |node| node as usize + 1);
        &self.objects[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        (self.objects.len() + self.starts.len()) * size_of::<u32>()
    }
}

/// The tree of dominators, in the numbers of a depth-first search. Vertex 0 is the one above all
/// roots, and a dominator has a lower number than what it dominates.
pub(crate) struct DominatorTree {
    /// From vertex to node; that of vertex 0 is `NONE`.
    order: Vec<NodeId>,
    /// Of each vertex, the immediate dominator.
    idom: Vec<u32>,
    /// Memory for one number of each vertex that is used again.
    space: Vec<u32>,
}

impl DominatorTree {
    pub fn of(snapshot: &Snapshot) -> Self {
        let search = Search::of(snapshot);
        let (preds_at, preds) = search.predecessors(snapshot);
        let Search { order, parent } = search;
        let mut idom = semi_nca(&parent, preds_at, preds);
        idom[0] = 0;
        Self { order, idom, space: parent }
    }

    /// The weight that each vertex dominates, its own included.
    fn sums(&self, weight: impl Fn(NodeId) -> u64) -> Vec<u64> {
        let n = self.order.len();
        let mut sums = vec![0u64; n];
        for vertex in (1..n).rev() {
            let sum = sums[vertex].saturating_add(weight(self.order[vertex]));
            if sum > 0 {
                sums[vertex] = sum;
                let above = &mut sums[self.idom[vertex] as usize];
                *above = above.saturating_add(sum);
            }
        }
        sums
    }

    /// The lowest object that dominates more than half of all weight; `None` if only the roots do.
    /// Of any two such objects one dominates the other, because they have some weight in common.
    pub fn meeting_point(&self, weight: impl Fn(NodeId) -> u64) -> Option<NodeId> {
        let sums = self.sums(weight);
        let half = sums[0] / 2;
        let lowest = (1..sums.len()).rev().find(|vertex| sums[*vertex] > half)?;
        Some(self.order[lowest])
    }

    /// The weight that each of these objects dominates, its own included.
    pub fn weights_of(&self, owners: &[NodeId], weight: impl Fn(NodeId) -> u64) -> Vec<u64> {
        let sums = self.sums(weight);
        let vertex_of = |owner: &NodeId| self.order.iter().position(|node| node == owner);
        owners.iter().map(|owner| vertex_of(owner).map_or(0, |vertex| sums[vertex])).collect()
    }
}

/// A depth-first search from all roots. Vertex 0 is the one above them.
struct Search {
    /// From vertex to node; that of vertex 0 is `NONE`.
    order: Vec<NodeId>,
    /// Of each vertex, in the tree of the search.
    parent: Vec<u32>,
}

/// A bit for each object: of 20 million, the bits stay in the processor's cache and the numbers do
/// not.
pub(crate) struct NodeSet(Vec<u64>);

impl NodeSet {
    pub fn of_none(snapshot: &Snapshot) -> Self {
        Self(vec![0; snapshot.len().div_ceil(64)])
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.0[node as usize / 64] & (1 << (node % 64)) != 0
    }

    pub fn set(&mut self, node: NodeId) {
        self.0[node as usize / 64] |= 1 << (node % 64);
    }
}

impl Search {
    fn of(snapshot: &Snapshot) -> Self {
        let mut seen = NodeSet::of_none(snapshot);
        let (mut order, mut parent) = (vec![NONE], vec![0]);
        let all = snapshot.all_references();
        // Vertex, and the references of it that have not been followed.
        let mut open: Vec<(u32, u32, u32)> = Vec::new();
        let mut visit = |node: NodeId, above: u32, open: &mut Vec<(u32, u32, u32)>| {
            let (from, to) = snapshot.references_at(node);
            // Most objects refer to nothing.
            if from < to {
                open.push((order.len() as u32, from, to));
            }
            order.push(node);
            parent.push(above);
        };
        for root in snapshot.roots().iter().filter(|root| !root.weak) {
            if seen.has(root.node) {
                continue;
            }
            seen.set(root.node);
            visit(root.node, 0, &mut open);
            while let Some((vertex, from, to)) = open.last_mut() {
                // Continues at once with the first new one, without touching the stack for the
                // others.
                match all[*from as usize..*to as usize].iter().position(|to| !seen.has(*to)) {
                    Some(skip) => {
                        let (vertex, new) = (*vertex, all[*from as usize + skip]);
                        *from += skip as u32 + 1;
                        // Chains are as long as they like, and this one need not come back here.
                        if from == to {
                            open.pop();
                        }
                        seen.set(new);
                        visit(new, vertex, &mut open);
                    }
                    None => _ = open.pop(),
                }
            }
        }
        Self { order, parent }
    }

    /// Where references to each vertex come from, other than from its parent, which is known
    /// anyway: where those of each vertex begin, and all of them.
    fn predecessors(&self, snapshot: &Snapshot) -> (Vec<u32>, Vec<u32>) {
        let n = self.order.len();
        let mut pre = vec![NONE; snapshot.len()];
        for (vertex, node) in self.order.iter().enumerate().skip(1) {
            pre[*node as usize] = vertex as u32;
        }
        // References in the numbers of vertices, which are near each other where nodes are not:
        // looked up once.
        let mut forward: Vec<u32> = Vec::new();
        let mut counts = vec![0u32; n];
        let mut at = vec![0u32; n + 1];
        let mut keep = |piece: &mut Vec<(u32, u32)>, forward: &mut Vec<u32>| {
            piece.iter_mut().for_each(|(_, to)| *to = pre[*to as usize]);
            let mut end = forward.len();
            forward.resize(end + piece.len(), 0);
            for (from, to) in piece.drain(..) {
                // Without a branch, which the processor would guess wrongly half of the time, and
                // wait.
                let kept = (to != from) & (self.parent[to as usize] != from);
                at[to as usize + 1] += u32::from(kept);
                counts[from as usize] += u32::from(kept);
                forward[end] = to;
                end += usize::from(kept);
            }
            forward.truncate(end);
        };
        let strong = snapshot.roots().iter().filter(|root| !root.weak);
        let mut piece: Vec<(u32, u32)> = strong.map(|root| (0, root.node)).collect();
        keep(&mut piece, &mut forward);
        let all = snapshot.all_references();
        let mut places = Vec::with_capacity(PIECE);
        for (index, nodes) in self.order[1..].chunks(PIECE).enumerate() {
            places.extend(nodes.iter().map(|node| snapshot.references_at(*node)));
            for (vertex, (from, to)) in (1 + index * PIECE..).zip(places.drain(..)) {
                piece.extend(all[from as usize..to as usize].iter().map(|to| (vertex as u32, *to)));
            }
            keep(&mut piece, &mut forward);
        }
        drop(pre);
        for vertex in 0..n {
            at[vertex + 1] += at[vertex];
        }
        let mut from_all = vec![0u32; forward.len()];
        let mut to = forward.iter();
        // `at[to]` is where the next one goes, and ends up where the next vertex begins: one place
        // too far on.
        for (from, count) in counts.iter().enumerate() {
            for to in to.by_ref().take(*count as usize) {
                let place = &mut at[*to as usize];
                from_all[*place as usize] = from as u32;
                *place += 1;
            }
        }
        for vertex in (1..=n).rev() {
            at[vertex] = at[vertex - 1];
        }
        at[0] = 0;
        (at, from_all)
    }
}

/// What is known of a vertex on the way to its semidominator; together, because it is looked at
/// together.
#[derive(Clone, Copy)]
struct Link {
    /// The parent, or further up on the way to the roots what was reached by following those.
    above: u32,
    /// The lowest semidominator of the vertices from here up to, and without, `above`.
    semi: u32,
}

/// What lets a climb up the tree of dominators skip most of the way (E. W. Myers, An applicative
/// random-access stack, 1983): from each vertex to one far above, in such a pattern that a climb of
/// `k` steps takes `O(log k)`.
#[derive(Clone, Copy, Default)]
struct Skip {
    to: u32,
    depth: u32,
}

/// The immediate dominator of each vertex.
fn semi_nca(parent: &[u32], preds_at: Vec<u32>, preds: Vec<u32>) -> Vec<u32> {
    let n = parent.len();
    let mut links: Vec<Link> = parent
        .iter()
        .zip(0..)
        .map(|(above, vertex)| Link { above: *above, semi: vertex })
        .collect();
    // Semidominators at first.
    let mut idom = vec![0u32; n];
    let mut path = Vec::new();
    let mut end = n;
    while end > 1 {
        let begin = end.saturating_sub(PIECE).max(1);
        let all = &preds[preds_at[begin] as usize..preds_at[end] as usize];
        black_box(all.iter().fold(0, |any, pred| any ^ links[*pred as usize].semi));
        for vertex in (begin as u32..end as u32).rev() {
            // What is below `vertex` is linked to its parent by now, `vertex` itself is not.
            let mut semi = parent[vertex as usize];
            let own = preds_at[vertex as usize] as usize..preds_at[vertex as usize + 1] as usize;
            for pred in &preds[own] {
                let candidate = if *pred < vertex {
                    *pred
                } else {
                    evaluate(*pred, vertex, &mut links, &mut path)
                };
                semi = semi.min(candidate);
            }
            links[vertex as usize].semi = semi;
            idom[vertex as usize] = semi;
        }
        end = begin;
    }
    drop((links, preds_at, preds));
    // The dominator is the nearest one above the parent, in the tree of dominators as far as it is
    // known, that is not below the semidominator.
    let mut skips = vec![Skip::default(); n];
    for vertex in 1..n {
        let (semi, mut above) = (idom[vertex], parent[vertex]);
        while above > semi {
            let skip = skips[above as usize].to;
            above = if skip > semi { skip } else { idom[above as usize] };
        }
        idom[vertex] = above;
        let one = skips[above as usize];
        let two = skips[one.to as usize];
        let three = skips[two.to as usize];
        let even = one.depth - two.depth == two.depth - three.depth;
        skips[vertex] = Skip { to: if even { two.to } else { above }, depth: one.depth + 1 };
    }
    idom
}

/// The lowest semidominator on the path from `vertex` up to, and without, the first vertex that is
/// not linked; linked are those above `last`. All of the path leads to that vertex directly
/// afterwards.
fn evaluate(vertex: u32, last: u32, links: &mut [Link], path: &mut Vec<u32>) -> u32 {
    let mut top = vertex;
    let mut best = links[top as usize];
    while best.above > last {
        path.push(top);
        top = best.above;
        best = links[top as usize];
    }
    while let Some(below) = path.pop() {
        let own = &mut links[below as usize];
        own.semi = own.semi.min(best.semi);
        own.above = best.above;
        best = *own;
    }
    best.semi
}

fn retained_by_type(
    snapshot: &Snapshot,
    order: &[NodeId],
    idom: &[u32],
    retained: &[u64],
    first_child: &mut [u32],
) -> Vec<u64> {
    let n = order.len();
    let type_of: Vec<u32> = order
        .iter()
        .map(|node| if *node == NONE { NONE } else { snapshot.type_of(*node) })
        .collect();
    let mut sums = vec![0u64; snapshot.types().len()];
    // How many objects of each type are on the way from the roots down to here.
    let mut above = vec![0u32; snapshot.types().len()];
    let mut next_child = vec![NONE; n];
    first_child.fill(NONE);
    for vertex in (1..n).rev() {
        let list = &mut first_child[idom[vertex] as usize];
        next_child[vertex] = *list;
        *list = vertex as u32;
    }
    let mut vertex = first_child[0];
    while vertex != NONE {
        let type_id = type_of[vertex as usize] as usize;
        if above[type_id] == 0 {
            sums[type_id] = sums[type_id].saturating_add(retained[vertex as usize]);
        }
        above[type_id] += 1;
        let mut following = first_child[vertex as usize];
        while following == NONE && vertex != 0 {
            above[type_of[vertex as usize] as usize] -= 1;
            following = next_child[vertex as usize];
            vertex = idom[vertex as usize];
        }
        vertex = following;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryBudget, Root, RootKind, SnapshotBuilder, SnapshotEnd};
    use proptest::prelude::*;

    pub(crate) fn snapshot(edges: &[Vec<u64>], roots: &[u64], types: u64) -> Snapshot {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        for (node, targets) in edges.iter().enumerate() {
            builder.object(8 + node as u64 * 8, node as u64 % types, 1 << (node % 20));
            targets.iter().for_each(|to| builder.reference(8 + to * 8));
        }
        for root in roots {
            let kind = if root % 2 == 0 { RootKind::Stack } else { RootKind::Handle };
            builder.root(Root {
                target: 8 + root * 8,
                kind,
                pinned: false,
                weak: false,
                interior: false,
                id: *root,
            });
        }
        builder.finish(SnapshotEnd { complete: true, ..SnapshotEnd::default() })
    }

    /// What roots reach when `without` is gone.
    fn reachable(snapshot: &Snapshot, without: Option<NodeId>) -> Vec<bool> {
        let mut seen = vec![false; snapshot.len()];
        let mut open: Vec<NodeId> = snapshot.roots().iter().map(|root| root.node).collect();
        while let Some(node) = open.pop() {
            if Some(node) != without && !std::mem::replace(&mut seen[node as usize], true) {
                open.extend(snapshot.references(node));
            }
        }
        seen
    }

    fn check(snapshot: &Snapshot) {
        let dominators = Dominators::of(snapshot);
        let all = reachable(snapshot, None);
        // A node dominates all that is not reached without it.
        let gone: Vec<Vec<bool>> = snapshot
            .nodes()
            .map(|node| {
                let left = reachable(snapshot, Some(node));
                all.iter().zip(left).map(|(before, after)| *before && !after).collect()
            })
            .collect();
        let sizes = |gone: &mut dyn Iterator<Item = NodeId>| {
            gone.map(|node| snapshot.size(node)).sum::<u64>()
        };
        for node in snapshot.nodes() {
            assert_eq!(dominators.is_reached(node), all[node as usize]);
            let dominated = &gone[node as usize];
            let retained = sizes(&mut snapshot.nodes().filter(|other| dominated[*other as usize]));
            assert_eq!(dominators.retained(node), retained, "retained by {node}");
            // The immediate dominator is the one dominator that all others dominate.
            let above: Vec<NodeId> = snapshot
                .nodes()
                .filter(|other| {
                    *other != node && all[node as usize] && gone[*other as usize][node as usize]
                })
                .collect();
            let immediate = above
                .iter()
                .copied()
                .find(|one| above.iter().all(|two| gone[*two as usize][*one as usize]));
            assert_eq!(dominators.immediate(node), immediate, "dominator of {node}");
        }
        for type_id in 0..snapshot.types().len() as u32 {
            let of_type = |node: &NodeId| snapshot.type_of(*node) == type_id;
            let dominated = |node: &NodeId| {
                snapshot.nodes().any(|one| of_type(&one) && gone[one as usize][*node as usize])
            };
            let expected = sizes(&mut snapshot.nodes().filter(dominated));
            assert_eq!(dominators.retained_by_type()[type_id as usize], expected, "type {type_id}");
        }
        assert_eq!(dominators.reached(), all.iter().filter(|reached| **reached).count() as u64);
        assert_eq!(
            dominators.reached_bytes(),
            sizes(&mut snapshot.nodes().filter(|node| all[*node as usize]))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]
        #[test]
        fn as_by_removing_each_object(
            edges in prop::collection::vec(prop::collection::vec(0u64..24, 0..4), 1..24),
            roots in prop::collection::vec(0u64..24, 0..4),
            types in 1u64..6,
        ) {
            check(&snapshot(&edges, &roots, types));
        }

        #[test]
        fn as_by_removing_each_object_of_thin_graphs(
            edges in prop::collection::vec(prop::collection::vec(0u64..40, 0..3), 40),
            root in 0u64..40,
        ) {
            check(&snapshot(&edges, &[root], 3));
        }
    }

    #[test]
    fn as_by_removing_each_object_of_graphs_of_several_pieces() {
        // Multiplicative congruential numbers: any will do.
        let mut last = 1u64;
        let mut number = |below: u64| {
            last = last * 48_271 % 0x7fff_ffff;
            last % below
        };
        let n = 3 * PIECE as u64 + 7;
        for each in [1, 2, 3] {
            // Near ones, so that there is a tree of some depth, and now and then any.
            let edges: Vec<Vec<u64>> = (0..n)
                .map(|at| {
                    (0..each)
                        .map(|_| if number(8) == 0 { number(n) } else { (at + number(9)) % n })
                        .collect()
                })
                .collect();
            check(&snapshot(&edges, &[0, n / 2], 3));
        }
    }

    #[test]
    fn weight_meets_where_more_than_half_of_it_is_dominated() {
        // 0 holds 1, 2 and 3; 1 holds 4 to 6; 2 holds 7; 3 and 8 hold 9. Nodes weigh 1 from 4 on.
        let edges = [
            vec![1, 2, 3],
            vec![4, 5, 6],
            vec![7],
            vec![9],
            vec![],
            vec![],
            vec![],
            vec![],
            vec![9],
            vec![],
        ];
        let tree = DominatorTree::of(&snapshot(&edges, &[0, 8], 1));
        let weight = |from: NodeId| move |node: NodeId| u64::from(node >= from);
        assert_eq!(tree.meeting_point(|node| weight(4)(node) * u64::from(node < 8)), Some(1));
        assert_eq!(tree.meeting_point(weight(4)), Some(0), "four of six, and 1 has three");
        assert_eq!(tree.meeting_point(weight(6)), None, "two of four");
        assert_eq!(tree.meeting_point(weight(9)), Some(9), "itself");
        assert_eq!(tree.meeting_point(weight(10)), None, "nothing");
        assert_eq!(tree.weights_of(&[0, 2, 9], weight(4)), [4, 1, 1]);
        assert_eq!(tree.weights_of(&[8], weight(9)), [0]);
    }

    #[test]
    fn weak_roots_hold_nothing() {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        builder.object(8, 1, 100);
        builder.root(Root {
            target: 8,
            kind: RootKind::Handle,
            pinned: false,
            weak: true,
            interior: false,
            id: 0,
        });
        let snapshot = builder.finish(SnapshotEnd::default());
        let dominators = Dominators::of(&snapshot);
        assert!(!dominators.is_reached(0));
        assert_eq!(
            (dominators.reached(), dominators.retained(0), dominators.immediate(0)),
            (0, 0, None)
        );
    }

    #[test]
    fn a_million_links_in_a_row() {
        let n = 1_000_000u64;
        // Each link also points back, as those of a linked list do, and the last one to many that a
        // root holds too: that is where an algorithm that climbs up the tree step by step does not
        // end.
        let mut edges: Vec<Vec<u64>> =
            (0..n).map(|at| vec![at + 1, at.saturating_sub(1)]).collect();
        edges.push((n + 1..n + 50_001).collect());
        edges.resize(n as usize + 50_001, Vec::new());
        let mut roots = vec![0];
        roots.extend(n + 1..n + 50_001);
        let snapshot = snapshot(&edges, &roots, 7);
        let dominators = Dominators::of(&snapshot);
        assert_eq!(dominators.immediate(n as u32), Some(n as u32 - 1));
        assert_eq!(dominators.immediate(n as u32 + 7), None);
        let list: u64 = (0..=n as u32).map(|node| snapshot.size(node)).sum();
        assert_eq!(dominators.retained(0), list);
        assert_eq!(dominators.reached(), n + 50_001);
        assert_eq!(
            dominators.retained_by_type()[0],
            list + (n + 1..n + 50_001)
                .filter(|at| at % 7 == 0)
                .map(|at| 1 << (at % 20))
                .sum::<u64>()
        );
    }

    #[test]
    fn many_climbs_up_a_million_links() {
        // What the last link refers to is also referred to from the middle of a list, from a
        // quarter and so on, so that each climb ends somewhere else: far above, and not at the
        // roots.
        let (n, many) = (1_000_000u64, 200_000u64);
        let mut edges: Vec<Vec<u64>> = (0..n).map(|at| vec![at + 1]).collect();
        edges.push((n + 1..=n + many).collect());
        edges.resize((n + 1 + many) as usize, Vec::new());
        let holder = |leaf: u64| leaf * 7919 % (n / 2);
        for leaf in n + 1..=n + many {
            edges[holder(leaf) as usize].push(leaf);
        }
        let snapshot = snapshot(&edges, &[0], 1);
        // Step by step it would take 10^11 of them: longer than a test may.
        let dominators = Dominators::of(&snapshot);
        for leaf in n + 1..=n + many {
            assert_eq!(dominators.immediate(leaf as u32), Some(holder(leaf) as u32), "{leaf}");
        }
        assert_eq!(dominators.reached(), n + 1 + many);
    }
}
