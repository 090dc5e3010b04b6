use profile::NONE;

use crate::Tree;

/// Narrower calls, in pixels, are merged with their neighbors.
const NARROW: f64 = 1.0;

/// Where merged calls together are narrower than this, in pixels, one line stands for them and all
/// that is below them.
const HAIR: f64 = 0.5;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The node that is as wide as the view, in its first row; `None` for the whole.
    pub root: Option<usize>,
    /// Width in pixels, at least 1.
    pub width: f64,
    /// The first row that is visible.
    pub top: u32,
    /// How many rows are visible.
    pub rows: u32,
}

/// What a search says of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// It is not found, and nothing below it.
    Nowhere,
    /// Something below it is found.
    Below,
    /// It is found itself; of a merged box: one of its calls.
    Here,
}

/// The visible boxes, in columns: row by row, from the left to the right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boxes {
    /// Its row, 0 for that of the root. A line for narrow calls may begin above the view.
    pub row: Vec<u32>,
    /// Rows that it goes down, itself included: 1, except for lines that stand for narrow calls and
    /// all that is below them.
    pub rows: Vec<u32>,
    /// Where it begins, in pixels.
    pub left: Vec<f32>,
    /// Its width in pixels.
    pub width: Vec<f32>,
    /// The node, or the heaviest of those that are merged; `u32::MAX` for the whole.
    pub node: Vec<u32>,
    /// How many nodes are merged; 0 if it is a node of its own.
    pub merged: Vec<u32>,
    /// What was sampled in it itself, in the unit of the series.
    pub own: Vec<f64>,
    /// What was sampled in it and below it, in the unit of the series.
    pub total: Vec<f64>,
    /// Samples in it and below it; of calls that are counted, those in it itself.
    pub samples: Vec<f64>,
    /// What a search says, as 0 for nowhere, 1 for below, 2 for here.
    pub hit: Vec<u8>,
}

impl Boxes {
    /// Number of boxes.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }
}

/// A tree whose nodes have widths. Children together are no wider than their parent.
pub trait Layered {
    /// Width of a node with all below it, or of the whole, in any unit.
    fn weight(&self, node: Option<usize>) -> f64;

    /// Nodes right below a node, or the roots; the heaviest first.
    fn children(&self, node: Option<usize>) -> &[u32];

    /// Levels from a node on, itself included: 1 at a leaf.
    fn height(&self, node: usize) -> u32;
}

impl Layered for Tree {
    fn weight(&self, node: Option<usize>) -> f64 {
        self.total(node).weight as f64
    }

    fn children(&self, node: Option<usize>) -> &[u32] {
        self.children(node)
    }

    fn height(&self, node: usize) -> u32 {
        self.height(Some(node))
    }
}

/// Where a box is: rows count from that of the root of the view, the rest is in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Its first row. A line for narrow calls may begin above the view.
    pub row: u32,
    /// Rows that it goes down, itself included.
    pub rows: u32,
    /// Where it begins.
    pub left: f32,
    /// Its width.
    pub width: f32,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug)]
pub enum Nodes<'a> {
    /// All of the tree.
    Whole,
    /// A node.
    One(u32),
    /// Narrow neighbors, at least one.
    Merged(&'a [u32]),
}

impl Nodes<'_> {
    /// The node, or the heaviest of several; `u32::MAX` for the whole.
    pub fn heaviest(self, weight: impl Fn(usize) -> f64) -> u32 {
        match self {
            Nodes::Whole => NONE,
            Nodes::One(node) => node,
            Nodes::Merged(nodes) => {
                let heavier = |best: u32, node: &u32| match best != NONE
                    && weight(best as usize) >= weight(*node as usize)
                {
                    true => best,
                    false => *node,
                };
                nodes.iter().fold(NONE, heavier)
            }
        }
    }

    /// How many are merged; 0 if it is a node of its own, or the whole.
    pub fn merged(self) -> u32 {
        if let Nodes::Merged(nodes) = self { nodes.len() as u32 } else { 0 }
    }

    /// The nodes; none for the whole.
    pub fn all(&self) -> &[u32] {
        match self {
            Nodes::Whole => &[],
            Nodes::One(node) => std::slice::from_ref(node),
            Nodes::Merged(nodes) => nodes,
        }
    }
}

/// A part of a level: one node, or narrow neighbors.
struct Part {
    left: f64,
    /// The node; `None` for the whole.
    node: Option<usize>,
    /// Which of the members of the level are merged; empty for a node of its own.
    members: std::ops::Range<usize>,
    weight: f64,
}

/// Lays out what is visible, and calls `put` for each box: row by row, from the left to the right.
///
/// The number of boxes is bounded by pixels and rows; all nodes with a weight are in one of them.
pub fn place(tree: &impl Layered, view: View, mut put: impl FnMut(Spot, Nodes<'_>)) {
    let whole = tree.weight(view.root);
    let scale = if whole > 0.0 { view.width / whole } else { 0.0 };
    let end = view.top.saturating_add(view.rows);
    let mut level = vec![Part { left: 0.0, node: view.root, members: 0..0, weight: whole }];
    let mut members: Vec<u32> = Vec::new();
    let mut row = 0_u32;
    while !level.is_empty() && row < end {
        let (mut next, mut next_members) = (Vec::new(), Vec::new());
        for part in &level {
            let mut put = |rows: u32, nodes: Nodes<'_>| {
                if row.saturating_add(rows) > view.top {
                    let (left, width) = (part.left as f32, (part.weight * scale) as f32);
                    put(Spot { row, rows, left, width }, nodes);
                }
            };
            if part.members.is_empty() {
                put(1, part.node.map_or(Nodes::Whole, |node| Nodes::One(node as u32)));
                below_single(tree, part, scale, &mut next, &mut next_members);
                continue;
            }
            let nodes = &members[part.members.clone()];
            if part.weight * scale < HAIR {
                let heights = nodes.iter().map(|node| tree.height(*node as usize));
                put(heights.max().unwrap_or(1), Nodes::Merged(nodes));
                continue;
            }
            put(1, Nodes::Merged(nodes));
            // They are no wider.
            let children = nodes.iter().flat_map(|node| tree.children(Some(*node as usize)));
            merge(tree, part.left, children.copied(), &mut next, &mut next_members);
        }
        (level, members) = (next, next_members);
        row += 1;
    }
}

/// Children of a node: those that are wide enough, and the others as one part.
fn below_single(
    tree: &impl Layered,
    part: &Part,
    scale: f64,
    next: &mut Vec<Part>,
    members: &mut Vec<u32>,
) {
    let mut left = part.left;
    let children = tree.children(part.node);
    let weight = |child: u32| tree.weight(Some(child as usize));
    // The heaviest come first.
    let wide = children.partition_point(|child| weight(*child) * scale >= NARROW);
    for child in &children[..wide] {
        let weight = weight(*child);
        next.push(Part { left, node: Some(*child as usize), members: 0..0, weight });
        left += weight * scale;
    }
    merge(tree, left, children[wide..].iter().copied(), next, members);
}

/// One part of several nodes, if they have a weight.
fn merge(
    tree: &impl Layered,
    left: f64,
    nodes: impl Iterator<Item = u32>,
    next: &mut Vec<Part>,
    members: &mut Vec<u32>,
) {
    let first = members.len();
    let mut weight = 0.0;
    for node in nodes {
        weight += tree.weight(Some(node as usize));
        members.push(node);
    }
    match weight > 0.0 {
        false => members.truncate(first),
        true => next.push(Part { left, node: None, members: first..members.len(), weight }),
    }
}

/// Lays out what is visible. `found` says of each node what a search says of it, if there is one.
/// With `own_samples`, samples are those of a node itself.
pub fn lay_out(tree: &Tree, view: View, found: Option<&[Hit]>, own_samples: bool) -> Boxes {
    let mut boxes = Boxes::default();
    place(tree, view, |spot, nodes| {
        let (mut own, mut total, mut samples, mut hit) = (0.0, 0.0, 0.0, 0);
        for node in nodes.all() {
            let of = &tree.calls().nodes()[*node as usize];
            own += of.own.weight as f64;
            total += of.total.weight as f64;
            samples += if own_samples { of.own.samples } else { of.total.samples } as f64;
            hit = hit.max(found.map_or(0, |found| found[*node as usize] as u8));
        }
        if matches!(nodes, Nodes::Whole) {
            let all = tree.total(None);
            (total, samples) = (all.weight as f64, all.samples as f64);
            let any = |found: &[Hit]| found.iter().any(|hit| *hit != Hit::Nowhere);
            hit = u8::from(found.is_some_and(any));
        }
        boxes.row.push(spot.row);
        boxes.rows.push(spot.rows);
        boxes.left.push(spot.left);
        boxes.width.push(spot.width);
        boxes.node.push(nodes.heaviest(|node| tree.weight(Some(node))));
        boxes.merged.push(nodes.merged());
        boxes.own.push(own);
        boxes.total.push(total);
        boxes.samples.push(samples);
        boxes.hit.push(hit);
    });
    boxes
}

#[cfg(test)]
#[path = "layout/tests.rs"]
mod tests;
