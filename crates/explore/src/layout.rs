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

/// A part of a level: one node, or narrow neighbors.
struct Part {
    left: f64,
    /// The node; `None` for the whole.
    node: Option<usize>,
    /// Which of the members of the level are merged; empty for a node of its own.
    members: std::ops::Range<usize>,
    weight: u64,
}

/// Sums of a box.
#[derive(Default)]
struct Sums {
    own: f64,
    total: f64,
    samples: f64,
    height: u32,
    hit: u8,
}

/// Lays out what is visible. `found` says of each node what a search says of it, if there is one.
/// With `own_samples`, samples are those of a node itself.
///
/// The number of boxes is bounded by pixels and rows; all calls are in one of them.
pub fn lay_out(tree: &Tree, view: View, found: Option<&[Hit]>, own_samples: bool) -> Boxes {
    let whole = tree.total(view.root).weight;
    let scale = view.width / whole.max(1) as f64;
    let mut layout = Layout { tree, view, scale, found, own_samples, boxes: Boxes::default() };
    let end = view.top.saturating_add(view.rows);
    let mut level = vec![Part { left: 0.0, node: view.root, members: 0..0, weight: whole }];
    let mut members: Vec<u32> = Vec::new();
    let mut row = 0;
    while !level.is_empty() && row < end {
        let (mut next, mut next_members) = (Vec::new(), Vec::new());
        for part in &level {
            if part.members.is_empty() {
                layout.single(part, row);
                layout.below_single(part, &mut next, &mut next_members);
                continue;
            }
            let nodes = &members[part.members.clone()];
            let is_hair = part.weight as f64 * scale < HAIR;
            layout.merged(part, nodes, row, is_hair);
            if !is_hair {
                layout.below_merged(part, nodes, &mut next, &mut next_members);
            }
        }
        (level, members) = (next, next_members);
        row += 1;
    }
    layout.boxes
}

struct Layout<'a> {
    tree: &'a Tree,
    view: View,
    /// Pixels for a weight of 1.
    scale: f64,
    found: Option<&'a [Hit]>,
    own_samples: bool,
    boxes: Boxes,
}

impl Layout<'_> {
    fn sums(&self, node: usize) -> Sums {
        let of = &self.tree.calls().nodes()[node];
        Sums {
            own: of.own.weight as f64,
            total: of.total.weight as f64,
            samples: if self.own_samples { of.own.samples } else { of.total.samples } as f64,
            height: self.tree.height(Some(node)),
            hit: self.found.map_or(0, |found| found[node] as u8),
        }
    }

    fn single(&mut self, part: &Part, row: u32) {
        if row < self.view.top {
            return;
        }
        let sums = match part.node {
            Some(node) => self.sums(node),
            None => {
                let total = self.tree.total(None);
                let found =
                    self.found.is_some_and(|found| found.iter().any(|hit| *hit != Hit::Nowhere));
                Sums {
                    total: total.weight as f64,
                    samples: total.samples as f64,
                    hit: u8::from(found),
                    ..Sums::default()
                }
            }
        };
        self.push(part, (part.node.map_or(NONE, |node| node as u32), 0), (row, 1), sums);
    }

    fn merged(&mut self, part: &Part, nodes: &[u32], row: u32, is_hair: bool) {
        if row < self.view.top && !is_hair {
            return;
        }
        let mut sums = Sums::default();
        let mut heaviest = nodes[0];
        for node in nodes {
            let of = self.sums(*node as usize);
            sums.own += of.own;
            sums.total += of.total;
            sums.samples += of.samples;
            sums.height = sums.height.max(of.height);
            sums.hit = sums.hit.max(of.hit);
            let weight = |node: u32| self.tree.total(Some(node as usize)).weight;
            if weight(*node) > weight(heaviest) {
                heaviest = *node;
            }
        }
        let rows = if is_hair { sums.height } else { 1 };
        if row.saturating_add(rows) > self.view.top {
            self.push(part, (heaviest, nodes.len() as u32), (row, rows), sums);
        }
    }

    /// Adds the box of a node, or of a number of merged nodes, with its first row and its number
    /// of rows.
    fn push(
        &mut self,
        part: &Part,
        (node, merged): (u32, u32),
        (row, rows): (u32, u32),
        sums: Sums,
    ) {
        let boxes = &mut self.boxes;
        boxes.row.push(row);
        boxes.rows.push(rows);
        boxes.left.push(part.left as f32);
        boxes.width.push((part.weight as f64 * self.scale) as f32);
        boxes.node.push(node);
        boxes.merged.push(merged);
        boxes.own.push(sums.own);
        boxes.total.push(sums.total);
        boxes.samples.push(sums.samples);
        boxes.hit.push(sums.hit);
    }

    /// Children of a node: those that are wide enough, and the others as one part.
    fn below_single(&self, part: &Part, next: &mut Vec<Part>, members: &mut Vec<u32>) {
        let (scale, mut left) = (self.scale, part.left);
        let children = self.tree.children(part.node);
        let weight = |child: u32| self.tree.total(Some(child as usize)).weight;
        // The heaviest come first.
        let wide = children.partition_point(|child| weight(*child) as f64 * scale >= NARROW);
        for child in &children[..wide] {
            let weight = weight(*child);
            next.push(Part { left, node: Some(*child as usize), members: 0..0, weight });
            left += weight as f64 * scale;
        }
        merge(left, children[wide..].iter().copied(), weight, next, members);
    }

    /// Children of narrow neighbors: they are no wider.
    fn below_merged(
        &self,
        part: &Part,
        nodes: &[u32],
        next: &mut Vec<Part>,
        members: &mut Vec<u32>,
    ) {
        let children = nodes.iter().flat_map(|node| self.tree.children(Some(*node as usize)));
        let weight = |child: u32| self.tree.total(Some(child as usize)).weight;
        merge(part.left, children.copied(), weight, next, members);
    }
}

/// One part of several nodes, if they have a weight.
fn merge(
    left: f64,
    nodes: impl Iterator<Item = u32>,
    weight: impl Fn(u32) -> u64,
    next: &mut Vec<Part>,
    members: &mut Vec<u32>,
) {
    let first = members.len();
    let mut sum = 0_u64;
    for node in nodes {
        sum = sum.saturating_add(weight(node));
        members.push(node);
    }
    match sum {
        0 => members.truncate(first),
        weight => next.push(Part { left, node: None, members: first..members.len(), weight }),
    }
}

#[cfg(test)]
#[path = "layout/tests.rs"]
mod tests;
