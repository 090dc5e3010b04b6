use profile::{FRAME_KINDS, NONE, Profile, Totals, session::FunctionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ExploreError, Once, ShownFunction, ends_of_path, place};
use crate::{
    Boxes, Column, Columns, Explored, Hit, Pattern, Selection, Tree, View, lay_out,
    stable::{Asked, Numbers},
};

/// What is to be laid out.
#[derive(Clone, Debug)]
pub struct FlameQuery {
    /// Of what.
    pub selection: Selection,
    /// Which part of it.
    pub view: View,
    /// What is searched for.
    pub search: Option<Pattern>,
}

/// The head of a flame graph. The columns are those of [`Boxes`], with `function` and `place`:
/// indexes into `functions` and `places`, `u32::MAX` for none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlameHead {
    /// Weight of the root of the view.
    total: u64,
    /// Its samples.
    samples: u64,
    /// Weight of all that is selected.
    whole: u64,
    /// How many samples of equal weight say as much as all that are selected.
    effective: f64,
    /// How many rows there are.
    height: u32,
    /// From the outermost call to the root of the view; long paths without their middle.
    path: Vec<PathNode>,
    /// How many nodes of the path are left out.
    left_out: usize,
    /// Share of the root of the view in which something is found; null without a search.
    found: Option<f64>,
    /// What was sampled in code of each kind itself, of all that is selected, in the order of
    /// `kinds` of the description.
    kinds: Vec<u64>,
    /// Stacks of which only the leaf is shown, in a tree of callers that would be too large.
    shortened: usize,
    /// Functions of the boxes.
    functions: Vec<ShownFunction>,
    /// Places in the source of the boxes.
    places: Vec<String>,
}

/// A node of a path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathNode {
    /// For the parameter `root`.
    node: u32,
    /// Its function.
    function: ShownFunction,
}

impl Explored {
    /// Lays out what is visible of a flame graph.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn flame(&self, query: &FlameQuery) -> Result<Columns, ExploreError> {
        let tree = self.tree(&query.selection);
        let numbers = self.numbers(&query.selection, &tree);
        let asked = numbers.asked(&tree, query.view.root)?;
        let profile = &self.profile;
        let found = query.search.as_ref().map(|search| search.functions(&profile.tables));
        let found: Option<Vec<Hit>> = found.transpose()?.map(|found| tree.find(&found));
        let calls = query.selection.kind.is_calls() && !query.selection.inverted;
        // Of a call without samples there is nothing to draw.
        let of_root = |root| {
            let boxes = lay_out(&tree, View { root, ..query.view }, found.as_deref(), calls);
            let found = found.as_ref().map_or(0, |found| tree.found_weight(root, found));
            (boxes, tree.total(root), tree.height(root), found)
        };
        let none = || (Boxes::default(), Totals::default(), 0, 0);
        let (boxes, total, height, found_weight) = asked.node().map_or_else(none, of_root);
        let whole = tree.total(None);
        let (path, left_out) = path_of(profile, &tree, &numbers, asked);
        let series = profile.series(query.selection.kind);
        let part = whole.samples as f64 / series.totals.samples.max(1) as f64;
        let (functions, places, mut columns) = named(profile, &tree, &boxes);
        columns.extend(plain(boxes, &numbers));
        let head = FlameHead {
            total: total.weight,
            samples: total.samples,
            whole: whole.weight,
            effective: series.effective_samples() * part,
            height,
            path,
            left_out,
            found: found.is_some().then(|| found_weight as f64 / total.weight.max(1) as f64),
            kinds: by_kind(profile, &tree, query.selection.inverted),
            shortened: tree.calls().shortened(),
            functions,
            places,
        };
        Columns::new(&head, columns).map_err(|error| ExploreError::Json(error.to_string()))
    }
}

/// What was sampled in code of each kind itself.
fn by_kind(profile: &Profile, tree: &Tree, inverted: bool) -> Vec<u64> {
    let nodes = tree.calls().nodes();
    let mut functions = vec![0_u64; profile.tables.functions.len()];
    let mut add = |function: FunctionId, weight: u64| {
        let sum = &mut functions[function.index()];
        *sum = sum.saturating_add(weight);
    };
    match inverted {
        // The roots are where the stacks end.
        true => tree.children(None).iter().for_each(|root| {
            let root = &nodes[*root as usize];
            add(root.function, root.total.weight);
        }),
        false => nodes.iter().for_each(|node| add(node.function, node.own.weight)),
    }
    let mut kinds = vec![0_u64; FRAME_KINDS.len()];
    for (id, weight) in functions.into_iter().enumerate().filter(|(_, weight)| *weight > 0) {
        let kind = &mut kinds[usize::from(profile.tables.frame_kind(FunctionId(id as u32)))];
        *kind = kind.saturating_add(weight);
    }
    kinds
}

fn path_of(
    profile: &Profile,
    tree: &Tree,
    numbers: &Numbers<'_>,
    asked: Asked,
) -> (Vec<PathNode>, usize) {
    let of_node = |node: usize| (numbers.number(node as u32), tree.calls().nodes()[node].function);
    let path = match asked {
        Asked::Whole => Vec::new(),
        Asked::Node(node) => tree.path(node).into_iter().map(of_node).collect(),
        Asked::Unsampled(stack) => numbers.way(&profile.tables, stack),
    };
    let (path, left_out) = ends_of_path(path);
    let shown =
        |(node, function)| PathNode { node, function: ShownFunction::of(profile, function) };
    (path.into_iter().map(shown).collect(), left_out)
}

type Named = (Vec<ShownFunction>, Vec<String>, Vec<(&'static str, Column)>);

/// What boxes refer to.
fn named(profile: &Profile, tree: &Tree, boxes: &Boxes) -> Named {
    let (mut functions, mut places) = (Once::new(), Once::new());
    let (mut function, mut line) = (Vec::new(), Vec::new());
    for (node, merged) in boxes.node.iter().zip(&boxes.merged) {
        let single = (*merged == 0 && *node != NONE).then(|| &tree.calls().nodes()[*node as usize]);
        let id = single.map(|node| node.function);
        function.push(functions.number(id, |id: FunctionId| ShownFunction::of(profile, id)));
        let own = single.and_then(|node| node.line);
        line.push(places.number(own, |line| place(profile, Some(line)).unwrap_or_default()));
    }
    let columns = vec![("function", Column::U32(function)), ("place", Column::U32(line))];
    (functions.values, places.values, columns)
}

fn plain(boxes: Boxes, numbers: &Numbers<'_>) -> Vec<(&'static str, Column)> {
    let node = boxes.node.into_iter().map(|node| numbers.number(node)).collect();
    vec![
        ("row", Column::U32(boxes.row)),
        ("rows", Column::U32(boxes.rows)),
        ("left", Column::F32(boxes.left)),
        ("width", Column::F32(boxes.width)),
        ("node", Column::U32(node)),
        ("merged", Column::U32(boxes.merged)),
        ("own", Column::F64(boxes.own)),
        ("total", Column::F64(boxes.total)),
        ("samples", Column::F64(boxes.samples)),
        ("hit", Column::U8(boxes.hit)),
    ]
}
