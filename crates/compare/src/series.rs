use profile::{CallTree, Profile, SeriesKind, TreeOptions, session::FunctionId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Basis,
    change::Change,
    estimate::{Mean, Slice},
    functions::{Function, Functions, Side},
    grid::Grid,
    tree::{DiffTree, TreeColumns},
};

/// The samples of a profiler in both recordings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeriesComparison {
    /// Id of the profiler.
    pub profiler: &'static str,
    /// Unit of weights. If `per` is `total`, the amounts of functions are shares from 0 to 1.
    #[schemars(extend("enum" = ["nanoseconds", "count", "bytes"]))]
    pub unit: &'static str,
    /// Whether more of it is worse, whatever the program does.
    pub more_is_worse: bool,
    /// Why nothing is claimed; null if the two can be compared.
    pub not_comparable: Option<String>,
    /// All samples: per second, or per run if `per` is `run`.
    pub total: Change,
    /// Functions that have samples in either recording: the changed ones first, and of these those
    /// whose own weight changed most.
    pub functions: Vec<FunctionChange>,
    /// What recorded weights of the tree are multiplied by, before and after, so that they are
    /// related to what `per` of the comparison says.
    pub scale: [f64; 2],
    /// The differential call tree, where it was asked for.
    #[serde(rename = "tree", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TreeColumns")]
    pub(crate) tree_columns: Option<TreeColumns>,
    /// The differential call tree.
    #[serde(skip)]
    pub tree: DiffTree,
    /// The same by its kind.
    #[serde(skip)]
    pub kind: SeriesKind,
}

/// A function in both recordings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FunctionChange {
    /// Index in `functions` of the comparison.
    pub function: u32,
    /// The function itself.
    #[serde(rename = "self")]
    pub own: Change,
    /// The function or what it called. A stack counts once, however often the function is on it.
    pub total: Change,
}

/// One recording's part of a series.
struct Part {
    tree: CallTree,
    /// What amounts are related to, by slice.
    exposures: Vec<f64>,
    /// Amounts of all samples by slice.
    all: Vec<Slice>,
    /// What these are related to: never to themselves.
    of_all: Vec<f64>,
    /// Amounts of each function itself: all slices of the first one, then those of the next.
    own: Vec<Slice>,
    /// The same with what it called.
    total: Vec<Slice>,
    /// What means are multiplied by.
    factor: f64,
    /// Whether single slices say something.
    fine: bool,
    slices: usize,
}

impl Part {
    fn of(
        profile: &Profile,
        grid: &Grid,
        kind: SeriesKind,
        basis: Basis,
        functions: &Functions,
        side: Side,
    ) -> Self {
        let series = profile.series(kind);
        let all = grid.sums(series, None);
        let exposures = match basis {
            Basis::Total => all.iter().map(|slice| slice.amount).collect(),
            Basis::Second | Basis::Run => grid.seconds.clone(),
        };
        let slices = grid.len();
        let mut part = Self {
            tree: CallTree::new(&profile.tables, series, TreeOptions::default()),
            exposures,
            all,
            of_all: grid.seconds.clone(),
            own: vec![Slice::default(); functions.all.len() * slices],
            total: vec![Slice::default(); functions.all.len() * slices],
            factor: if basis == Basis::Run { grid.duration() } else { 1.0 },
            // Sums of all calls are read about every second, so shorter slices show how often they
            // are read.
            fine: !kind.is_calls(),
            slices,
        };
        part.sum(profile, grid, kind, |function| functions.index(side, function));
        part
    }

    /// Sums up functions by slice, one slice after the other: so that no more than the tree itself
    /// is in memory.
    fn sum(
        &mut self,
        profile: &Profile,
        grid: &Grid,
        kind: SeriesKind,
        index: impl Fn(FunctionId) -> usize,
    ) {
        let nodes = self.tree.nodes();
        let outermost = outermost(&self.tree, profile.tables.functions.len());
        let mut cells: Vec<_> = grid.cells(profile.series(kind)).collect();
        cells.sort_unstable_by_key(|(slice, ..)| *slice);
        let mut sums = vec![Slice::default(); nodes.len()];
        for cells in cells.chunk_by(|one, other| one.0 == other.0) {
            let slice = cells[0].0;
            sums.fill(Slice::default());
            for (_, key, cell) in cells {
                if let Some(node) = self.tree.node_of(key.stack) {
                    sums[node].add(cell.weight, cell.squares);
                }
            }
            for (node, sum) in nodes.iter().zip(&sums) {
                if sum.amount > 0.0 {
                    self.own[index(node.function) * self.slices + slice]
                        .add(sum.amount, sum.squares);
                }
            }
            for node in (0..nodes.len()).rev() {
                let sum = sums[node];
                if sum.amount <= 0.0 {
                    continue;
                }
                if outermost[node] {
                    self.total[index(nodes[node].function) * self.slices + slice]
                        .add(sum.amount, sum.squares);
                }
                if let Some(parent) = self.tree.parent(node) {
                    sums[parent].add(sum.amount, sum.squares);
                }
            }
        }
    }

    fn mean(&self, slices: &[Slice]) -> Mean {
        Mean::of(slices, &self.exposures, self.fine).times(self.factor)
    }

    fn mean_of_all(&self) -> Mean {
        Mean::of(&self.all, &self.of_all, self.fine).times(self.factor)
    }

    fn slices_of<'a>(&self, of: &'a [Slice], function: usize) -> &'a [Slice] {
        &of[function * self.slices..(function + 1) * self.slices]
    }

    /// What recorded weights are multiplied by.
    fn scale(&self) -> f64 {
        let exposure: f64 = self.exposures.iter().sum();
        if exposure > 0.0 { self.factor / exposure } else { 0.0 }
    }
}

/// Which nodes have none of the same function above them.
fn outermost(tree: &CallTree, functions: usize) -> Vec<bool> {
    let mut on_path = vec![0_u32; functions];
    let mut outermost = vec![false; tree.nodes().len()];
    tree.visit_ids(|node, entering| {
        let on_path = &mut on_path[tree.nodes()[node].function.index()];
        if entering {
            outermost[node] = *on_path == 0;
            *on_path += 1;
        } else {
            *on_path -= 1;
        }
    });
    outermost
}

impl SeriesComparison {
    /// Compares the samples of a kind. What is significant is known when all chances are.
    pub(crate) fn of(
        profiles: [&Profile; 2],
        grids: [&Grid; 2],
        kind: SeriesKind,
        basis: Basis,
        functions: &Functions,
    ) -> Self {
        let part = |side: Side| {
            let at = side as usize;
            Part::of(profiles[at], grids[at], kind, basis, functions, side)
        };
        let (before, after) = (part(Side::Before), part(Side::After));
        let change = |of: fn(&Part) -> &[Slice], function: usize| {
            let mean = |part: &Part| part.mean(part.slices_of(of(part), function));
            Change::of(&mean(&before), &mean(&after))
        };
        let is_there = |function: &usize| {
            let has = |part: &Part| {
                part.slices_of(&part.total, *function).iter().any(|slice| slice.amount > 0.0)
            };
            has(&before) || has(&after)
        };
        let changes = (0..functions.all.len()).filter(is_there).map(|function| FunctionChange {
            function: function as u32,
            own: change(|part| &part.own, function),
            total: change(|part| &part.total, function),
        });
        Self {
            profiler: kind.id(),
            unit: kind.value_type().unit.id(),
            more_is_worse: kind.more_is_worse(),
            not_comparable: None,
            total: Change::of(&before.mean_of_all(), &after.mean_of_all()),
            functions: changes.collect(),
            scale: [before.scale(), after.scale()],
            tree_columns: None,
            tree: DiffTree::of(functions, &before.tree, &after.tree),
            kind,
        }
    }

    /// Puts the functions into order, when it is known what changed.
    pub(crate) fn sort(&mut self) {
        let key = |row: &FunctionChange| {
            let certain = row.own.is_certain() || row.total.is_certain();
            (certain, row.own.difference().abs(), row.total.difference().abs())
        };
        order::sort_by(&mut self.functions, |one, other| {
            let (one_key, other_key) = (key(one), key(other));
            let order = other_key.0.cmp(&one_key.0);
            let order = order.then(other_key.1.total_cmp(&one_key.1));
            order.then(other_key.2.total_cmp(&one_key.2)).then(one.function.cmp(&other.function))
        });
    }
}

/// Notes where functions are in the source: the line with most weight of each.
pub(crate) fn find_lines(
    profiles: [&Profile; 2],
    functions: &Functions,
    kinds: &[SeriesKind],
    all: &mut [Function],
) {
    // The later recording has the lines of the present source.
    for (side, profile) in [(Side::After, profiles[1]), (Side::Before, profiles[0])] {
        let mut best: Vec<(u64, Option<profile::Line>)> = vec![(0, None); all.len()];
        for kind in kinds {
            let tree =
                CallTree::new(&profile.tables, profile.series(*kind), TreeOptions::default());
            for node in tree.nodes() {
                let best = &mut best[functions.index(side, node.function)];
                if node.line.is_some() && (node.total.weight > best.0 || best.1.is_none()) {
                    *best = (node.total.weight, node.line);
                }
            }
        }
        for (function, (_, line)) in all.iter_mut().zip(best) {
            if let Some(line) = line.filter(|_| function.file.is_none()) {
                function.file = Some(profile.tables.file(line.file).to_owned());
                function.line = Some(line.line);
            }
        }
    }
}
