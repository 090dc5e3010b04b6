//! A comparison that viewers look at: differential flame graphs that are laid out, their nodes, and
//! lists of functions and types. Each answer has only what is visible.

mod functions;
mod heap;

pub use functions::{ChangedFunction, FunctionsHead, Order};
pub use heap::{TypeOrder, TypesHead};

use document::Document;
use explore::{
    Column, Columns, ExploreError, Hit, Layered, Pattern, Shape, View, ends_of_path, place,
};
use profile::{NONE, SeriesKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

use crate::{
    Basis, Change, Comparison, HeapCounts, SeriesComparison, recording::Recorded, tree::DiffTree,
};

/// A comparison whose trees are ready to be drawn.
#[derive(Debug)]
pub struct Viewed {
    comparison: Comparison,
    /// By the index of the series.
    trees: Vec<Ready>,
}

/// A differential call tree that is ready to be drawn. A node is as wide as the mean of both
/// recordings, so that what is gone and what is new are both visible.
#[derive(Debug)]
struct Ready {
    shape: Shape,
    widths: Vec<f64>,
    whole: f64,
    /// Place of each function in the list of changes; `NONE` where it has none.
    change_of: Vec<u32>,
}

impl Layered for Ready {
    fn weight(&self, node: Option<usize>) -> f64 {
        node.map_or(self.whole, |node| self.widths[node])
    }

    fn children(&self, node: Option<usize>) -> &[u32] {
        self.shape.children(node)
    }

    fn height(&self, node: usize) -> u32 {
        self.shape.height(Some(node))
    }
}

/// An order of numbers of which none is unknown, the greatest first.
#[derive(Clone, Copy, PartialEq)]
struct Greatest(f64);

impl Eq for Greatest {}

impl PartialOrd for Greatest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Greatest {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.total_cmp(&self.0)
    }
}

impl Ready {
    fn of(comparison: &Comparison, series: &SeriesComparison) -> Self {
        let DiffTree { nodes, before, after } = &series.tree;
        let width = |weights: [u64; 2]| {
            (weights[0] as f64 * series.scale[0] + weights[1] as f64 * series.scale[1]) / 2.0
        };
        let widths: Vec<f64> =
            nodes.iter().map(|node| width(node.total.map(|total| total.weight))).collect();
        let shape = series.tree.shape(|node| Greatest(widths[node]));
        let mut change_of = vec![NONE; comparison.functions.len()];
        for (place, row) in series.functions.iter().enumerate() {
            change_of[row.function as usize] = place as u32;
        }
        let whole = width([before.weight, after.weight]);
        Self { shape, widths, whole, change_of }
    }
}

/// What is said of a comparison first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ComparisonOverview")]
pub struct Overview<'a> {
    /// The first recording.
    before: &'a Recorded,
    /// The second recording.
    after: &'a Recorded,
    /// What amounts are related to.
    per: Basis,
    /// Kinds of code; `kind` of functions is an index into this.
    kinds: [&'static str; profile::FRAME_KINDS.len()],
    /// What was sampled by both.
    series: Vec<SeriesHead<'a>>,
    /// The heaps; null unless both have a snapshot.
    heap: Option<HeapHead>,
    /// The answer in short, with what changed for certain.
    answer: Document,
    /// What has no stacks, and what cannot be compared.
    rest: Document,
}

/// The samples of a profiler in both recordings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ComparedSeries")]
struct SeriesHead<'a> {
    /// For the parameter `profiler`.
    id: &'static str,
    /// For a reader.
    title: &'static str,
    /// What amounts count: `nanoseconds`, `bytes` or `count`; `share` where they are parts of all
    /// samples, from 0 to 1.
    unit: &'static str,
    /// What is counted, where the unit is `count`; else empty.
    noun: &'static str,
    /// Whether more of it is worse, whatever the program does.
    more_is_worse: bool,
    /// Why nothing is claimed; null if the two can be compared.
    not_comparable: Option<&'a str>,
    /// All samples.
    total: &'a Change,
    /// Functions that have samples in either recording.
    functions: usize,
}

/// Two heaps.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ComparedHeaps")]
struct HeapHead {
    /// Objects of all types.
    total: HeapCounts,
    /// Types whose objects differ in number or size.
    types: usize,
    /// Whether both snapshots have all objects.
    complete: bool,
}

/// What is visible of a differential flame graph. Amounts are in the unit of the series, related to
/// what `per` of the comparison says.
///
/// The columns `row`, `rows`, `left`, `width`, `node`, `merged` and `hit` are those of
/// [`FlameHead`](explore::FlameHead); a node is as wide as the mean of both recordings. `function`
/// is an index into `functions`, `u32::MAX` for none. `before_self`, `after_self`, `before_total`
/// and `after_total` are amounts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DifferenceHead")]
pub struct FlameHead {
    /// The root of the view, before and after.
    total: [f64; 2],
    /// All samples, before and after.
    whole: [f64; 2],
    /// How many rows there are.
    height: u32,
    /// From the outermost call to the root of the view; long paths without their middle.
    path: Vec<PathNode>,
    /// How many nodes of the path are left out.
    left_out: usize,
    /// Functions of the boxes.
    functions: Vec<ChangedFunction>,
}

/// A node of a path.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DifferencePathNode")]
struct PathNode {
    /// For the parameter `root`.
    node: u32,
    /// Its function.
    function: ChangedFunction,
}

/// Nodes right below a node of a differential call tree.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DifferenceChildren")]
pub struct Children {
    /// How many there are.
    count: usize,
    /// Some of them, the widest first.
    rows: Vec<ChildRow>,
}

/// A node of a differential call tree.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DifferenceRow")]
struct ChildRow {
    /// For the parameter `root`.
    node: u32,
    /// Its function.
    function: ChangedFunction,
    /// The function itself here, before and after.
    own: [f64; 2],
    /// With what it called, before and after.
    total: [f64; 2],
    /// How many nodes are right below it.
    children: usize,
    /// What a search says: 0 nothing, 1 something below is found, 2 it is found itself.
    hit: u8,
}

/// Columns of boxes.
#[derive(Default)]
struct Boxes {
    row: Vec<u32>,
    rows: Vec<u32>,
    left: Vec<f32>,
    width: Vec<f32>,
    node: Vec<u32>,
    merged: Vec<u32>,
    function: Vec<u32>,
    /// Before and after, itself and with what it called.
    amounts: [Vec<f64>; 4],
    hit: Vec<u8>,
}

impl Boxes {
    fn columns(self) -> Vec<(&'static str, Column)> {
        let [before_self, after_self, before_total, after_total] = self.amounts.map(Column::F64);
        vec![
            ("row", Column::U32(self.row)),
            ("rows", Column::U32(self.rows)),
            ("left", Column::F32(self.left)),
            ("width", Column::F32(self.width)),
            ("node", Column::U32(self.node)),
            ("merged", Column::U32(self.merged)),
            ("function", Column::U32(self.function)),
            ("before_self", before_self),
            ("after_self", after_self),
            ("before_total", before_total),
            ("after_total", after_total),
            ("hit", Column::U8(self.hit)),
        ]
    }
}

impl Viewed {
    /// Prepares a comparison.
    pub fn new(comparison: Comparison) -> Self {
        let trees = comparison.series.iter().map(|series| Ready::of(&comparison, series)).collect();
        Self { comparison, trees }
    }

    /// What is said first, in lists of at most `rows` rows.
    pub fn overview(&self, rows: usize) -> Overview<'_> {
        let own = &self.comparison;
        let (answer, rest) = own.parts(rows);
        let is_share = own.per == Basis::Total;
        let series = own.series.iter().map(|series| SeriesHead {
            id: series.profiler,
            title: series.kind.title(),
            unit: if is_share { "share" } else { series.unit },
            noun: series.kind.noun(),
            more_is_worse: series.more_is_worse,
            not_comparable: series.not_comparable.as_deref(),
            total: &series.total,
            functions: series.functions.len(),
        });
        Overview {
            before: &own.before,
            after: &own.after,
            per: own.per,
            kinds: profile::FRAME_KINDS,
            series: series.collect(),
            heap: own.heap.as_ref().map(|heap| HeapHead {
                total: heap.total,
                types: heap.types.len(),
                complete: heap.complete,
            }),
            answer,
            rest,
        }
    }

    /// The place of the samples of a profiler, or of the first ones.
    pub fn series(&self, kind: Option<SeriesKind>) -> Option<usize> {
        let series = &self.comparison.series;
        series.iter().position(|own| kind.is_none_or(|kind| own.kind == kind))
    }

    /// Lays out what is visible of a differential flame graph.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn flame(
        &self,
        series: usize,
        view: View,
        search: Option<&Pattern>,
    ) -> Result<Columns, ExploreError> {
        let tree = &self.trees[series];
        self.check(series, view.root)?;
        let own = &self.comparison.series[series];
        let hits = search.map(|search| self.hits(series, search));
        let (mut boxes, mut functions) = (Boxes::default(), Vec::new());
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        place(tree, view, |spot, nodes| {
            boxes.row.push(spot.row);
            boxes.rows.push(spot.rows);
            boxes.left.push(spot.left);
            boxes.width.push(spot.width);
            let node = nodes.heaviest(|node| tree.widths[node]);
            boxes.node.push(node);
            boxes.merged.push(nodes.merged());
            let mut sums = [0.0; 4];
            let mut hit = 0;
            for node in nodes.all() {
                let (own_amounts, total) = self.amounts(own, *node);
                for (sum, amount) in sums.iter_mut().zip(own_amounts.into_iter().chain(total)) {
                    *sum += amount;
                }
                hit = hit.max(hits.as_ref().map_or(0, |hits| hits[*node as usize] as u8));
            }
            if node == NONE {
                [sums[2], sums[3]] = all(own);
            }
            boxes.amounts.iter_mut().zip(sums).for_each(|(column, sum)| column.push(sum));
            boxes.hit.push(hit);
            let is_one = node != NONE && nodes.merged() == 0;
            boxes.function.push(match is_one.then(|| own.tree.nodes[node as usize].function) {
                None => NONE,
                Some(function) => {
                    let next = functions.len() as u32;
                    *numbers.entry(function).or_insert_with(|| {
                        functions.push(self.function(series, function));
                        next
                    })
                }
            });
        });
        let (path, left_out) = self.path(series, view.root);
        let head = FlameHead {
            total: view.root.map_or(all(own), |root| self.amounts(own, root as u32).1),
            whole: all(own),
            height: tree.shape.height(view.root),
            path,
            left_out,
            functions,
        };
        Columns::new(&head, boxes.columns()).map_err(|error| ExploreError::Json(error.to_string()))
    }

    /// Nodes right below a node, from the row `first` on.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn children(
        &self,
        series: usize,
        node: Option<usize>,
        search: Option<&Pattern>,
        first: usize,
        rows: usize,
    ) -> Result<Children, ExploreError> {
        self.check(series, node)?;
        let (tree, own) = (&self.trees[series], &self.comparison.series[series]);
        let hits = search.map(|search| self.hits(series, search));
        let children = tree.shape.children(node);
        let row = |node: &u32| {
            let (own_amounts, total) = self.amounts(own, *node);
            ChildRow {
                node: *node,
                function: self.function(series, own.tree.nodes[*node as usize].function),
                own: own_amounts,
                total,
                children: tree.shape.children(Some(*node as usize)).len(),
                hit: hits.as_ref().map_or(0, |hits| hits[*node as usize] as u8),
            }
        };
        Ok(Children {
            count: children.len(),
            rows: children.iter().skip(first).take(rows).map(row).collect(),
        })
    }

    /// Amounts of a node: itself, and with what it called.
    fn amounts(&self, series: &SeriesComparison, node: u32) -> ([f64; 2], [f64; 2]) {
        let node = &series.tree.nodes[node as usize];
        let [before, after] = series.scale;
        let scaled = |sums: [profile::Totals; 2]| {
            [sums[0].weight as f64 * before, sums[1].weight as f64 * after]
        };
        (scaled(node.own), scaled(node.total))
    }

    fn check(&self, series: usize, node: Option<usize>) -> Result<(), ExploreError> {
        let nodes = self.trees[series].shape.len();
        match node {
            Some(node) if node >= nodes => Err(ExploreError::NoNode(node as u32, nodes)),
            _ => Ok(()),
        }
    }

    /// What a search says of each node.
    fn hits(&self, series: usize, search: &Pattern) -> Vec<Hit> {
        let functions = &self.comparison.functions;
        let found: Vec<bool> = functions.iter().map(|own| search.finds(&own.name)).collect();
        let nodes = &self.comparison.series[series].tree.nodes;
        let mut hits = vec![Hit::Nowhere; nodes.len()];
        // Children stand behind their parents.
        for (id, node) in nodes.iter().enumerate().rev() {
            if found[node.function as usize] {
                hits[id] = Hit::Here;
            }
            if let Some(parent) = node.parent
                && hits[id] != Hit::Nowhere
                && hits[parent as usize] == Hit::Nowhere
            {
                hits[parent as usize] = Hit::Below;
            }
        }
        hits
    }

    fn path(&self, series: usize, root: Option<usize>) -> (Vec<PathNode>, usize) {
        let nodes = &self.comparison.series[series].tree.nodes;
        let above = |node: &u32| nodes[*node as usize].parent;
        let mut path: Vec<u32> =
            std::iter::successors(root.map(|root| root as u32), above).collect();
        path.reverse();
        let (path, left_out) = ends_of_path(path);
        let node = |node: u32| PathNode {
            node,
            function: self.function(series, nodes[node as usize].function),
        };
        (path.into_iter().map(node).collect(), left_out)
    }

    /// All of a series and of its functions, with the nodes of its tree in columns: for a page that
    /// has no server. At most `most` nodes, the widest.
    pub fn page(&self, most_nodes: usize, rows: usize) -> Page<'_> {
        let series = (0..self.trees.len()).map(|series| self.page_series(series, most_nodes));
        Page {
            overview: self.overview(rows),
            series: series.collect(),
            types: self.comparison.heap.as_ref().map(|heap| heap.types.as_slice()),
        }
    }

    fn page_series(&self, series: usize, most_nodes: usize) -> PageSeries {
        let (tree, own) = (&self.trees[series], &self.comparison.series[series]);
        let limit = match tree.widths.len() > most_nodes {
            true => {
                let mut widths = tree.widths.clone();
                *widths.select_nth_unstable_by(most_nodes, |a, b| b.total_cmp(a)).1
            }
            false => 0.0,
        };
        let mut page = PageSeries::default();
        let mut place_of = vec![NONE; tree.widths.len()];
        for (id, node) in own.tree.nodes.iter().enumerate() {
            // A parent is no narrower than its children and stands before them.
            let above = node.parent.map(|parent| place_of[parent as usize]);
            if tree.widths[id] < limit || above == Some(NONE) {
                page.left_out += 1;
                continue;
            }
            let next = page.up.len() as u32;
            place_of[id] = next;
            page.up.push(above.map_or(0, |above| next - above));
            page.function.push(tree.change_of[node.function as usize]);
            let (own_amounts, total) = self.amounts(own, id as u32);
            for (column, amount) in
                page.amounts.iter_mut().zip(own_amounts.into_iter().chain(total))
            {
                column.push(amount);
            }
        }
        page.functions =
            own.functions.iter().map(|row| self.function(series, row.function)).collect();
        page
    }
}

/// All of a comparison for a page that has no server.
#[derive(Debug, Serialize)]
pub struct Page<'a> {
    overview: Overview<'a>,
    series: Vec<PageSeries>,
    types: Option<&'a [crate::HeapType]>,
}

/// A series for a page.
#[derive(Debug, Default, Serialize)]
struct PageSeries {
    /// How many places before a node its parent is; 0 for a root.
    up: Vec<u32>,
    /// Place of the function in `functions`.
    function: Vec<u32>,
    /// Before and after, itself and with what it called.
    amounts: [Vec<f64>; 4],
    /// Functions, in the order of the list.
    functions: Vec<ChangedFunction>,
    /// Nodes that are too light for a page.
    left_out: usize,
}

/// All of a series, before and after, in the unit of its tree.
fn all(series: &SeriesComparison) -> [f64; 2] {
    let sums = [series.tree.before.weight, series.tree.after.weight];
    [sums[0] as f64 * series.scale[0], sums[1] as f64 * series.scale[1]]
}
