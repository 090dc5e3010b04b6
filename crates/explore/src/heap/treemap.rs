use document::format::without_namespaces;
use heap::{NodeId, TypeId};
use profile::NONE;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

use super::{Group, HeapView, Retention};
use crate::{Column, Columns, ExploreError, ends_of_path};

/// Pixels of a side of the view, at most.
pub const MOST_SIDE: u32 = 16_384;

/// Pixels above the cells of a cell that has room for a name.
const HEAD: f64 = 18.0;

/// Pixels around the cells of a cell.
const EDGE: f64 = 2.0;

/// Sides of a cell that may have cells in it, at least.
const ROOM: (f64, f64) = (36.0, 40.0);

/// Pixels of a cell, at least; what is smaller is put together.
const LEAST: f64 = 40.0;

/// Cells of an answer, about.
const MOST_CELLS: usize = 6000;

/// The head of a treemap. Its area is what is retained; a cell within another one is what the
/// object of that one alone keeps alive.
///
/// The columns have a number for each cell, parents before children: `x`, `y`, `width` and `height`
/// in pixels, `depth`, `up` (how many cells before it the one is that it is in; 0 for none), `node`
/// (for the parameter `root`; of several objects one of them), `objects` (1 for an object of its
/// own), `bytes` and `retained`, `children` (how many objects are right below an object of its
/// own), `type` (an index into `types`, `u32::MAX` where there are several).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TreemapHead {
    /// Bytes of the whole view.
    total: u64,
    /// Bytes that all roots retain.
    whole: u64,
    /// From the roots to the object that is as large as the view, both included; long paths without
    /// their middle.
    path: Vec<HeapPathNode>,
    /// How many objects of the path are left out.
    left_out: usize,
    /// Types of the cells.
    types: Vec<ShownType>,
}

/// An object of a path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct HeapPathNode {
    /// For the parameter `root`.
    node: NodeId,
    /// Name of its type without namespaces.
    short: String,
}

/// A type.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ShownType {
    /// Full name.
    name: String,
    /// Name without namespaces.
    short: String,
}

/// A part of the view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

#[derive(Default)]
struct Cells {
    x: Vec<f32>,
    y: Vec<f32>,
    width: Vec<f32>,
    height: Vec<f32>,
    depth: Vec<u32>,
    up: Vec<u32>,
    node: Vec<u32>,
    objects: Vec<f64>,
    bytes: Vec<f64>,
    retained: Vec<f64>,
    children: Vec<u32>,
    ty: Vec<u32>,
}

impl Cells {
    fn columns(self) -> Vec<(&'static str, Column)> {
        vec![
            ("x", Column::F32(self.x)),
            ("y", Column::F32(self.y)),
            ("width", Column::F32(self.width)),
            ("height", Column::F32(self.height)),
            ("depth", Column::U32(self.depth)),
            ("up", Column::U32(self.up)),
            ("node", Column::U32(self.node)),
            ("objects", Column::F64(self.objects)),
            ("bytes", Column::F64(self.bytes)),
            ("retained", Column::F64(self.retained)),
            ("children", Column::U32(self.children)),
            ("type", Column::U32(self.ty)),
        ]
    }
}

/// Cells that are to be filled.
struct Open {
    node: Option<NodeId>,
    area: Area,
    depth: u32,
    cell: Option<usize>,
}

impl HeapView {
    /// Lays out what an object retains, or everything, in this many pixels.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn treemap(
        &self,
        root: Option<NodeId>,
        width: f64,
        height: f64,
    ) -> Result<Columns, ExploreError> {
        self.check(root)?;
        let retention = self.retention()?;
        let (mut cells, mut types) = (Cells::default(), Types::default());
        let area = Area { x: 0.0, y: 0.0, width, height };
        let mut open = VecDeque::from([Open { node: root, area, depth: 0, cell: None }]);
        // The larger cells of a level come first, so that these are filled if there are very many.
        while let Some(next) = open.pop_front() {
            if cells.x.len() < MOST_CELLS {
                self.fill(retention, &next, &mut cells, &mut types, &mut open);
            }
        }
        let (path, left_out) = self.path_to(retention, root);
        let shown = |id: &TypeId| {
            let name = self.type_name(*id);
            ShownType { name: name.to_owned(), short: without_namespaces(name) }
        };
        let head = TreemapHead {
            total: self.retained(retention, root),
            whole: self.retained(retention, None),
            path,
            left_out,
            types: types.ids.iter().map(shown).collect(),
        };
        Columns::new(&head, cells.columns()).map_err(|error| ExploreError::Json(error.to_string()))
    }

    /// Puts cells into a part of the view.
    fn fill(
        &self,
        retention: &Retention,
        own: &Open,
        cells: &mut Cells,
        types: &mut Types,
        open: &mut VecDeque<Open>,
    ) {
        let total = self.retained(retention, own.node).max(1) as f64;
        let pixels = own.area.width * own.area.height / total;
        let mut groups =
            self.groups(retention, own.node, |retained| retained as f64 * pixels >= LEAST);
        order::sort_by_key(&mut groups, |group| (std::cmp::Reverse(group.retained), group.node));
        // Types that are too small even together are one cell.
        let wide = groups.partition_point(|group| group.retained as f64 * pixels >= LEAST);
        let rest = groups.split_off(wide);
        let other = rest.into_iter().reduce(|sum, group| Group {
            objects: sum.objects + group.objects,
            bytes: sum.bytes.saturating_add(group.bytes),
            retained: sum.retained.saturating_add(group.retained),
            single: false,
            ..sum
        });
        let mut parts: Vec<(Group, bool)> = groups.into_iter().map(|group| (group, true)).collect();
        parts.extend(other.map(|group| (group, false)));
        order::sort_by_key(&mut parts, |(group, _)| std::cmp::Reverse(group.retained));
        // The object itself has its part of the area, too: it remains empty.
        let sizes: Vec<f64> =
            parts.iter().map(|(group, _)| group.retained as f64 * pixels).collect();
        for ((group, of_type), area) in parts.iter().zip(squarify(&sizes, own.area)) {
            let cell = cells.x.len();
            cells.x.push(area.x as f32);
            cells.y.push(area.y as f32);
            cells.width.push(area.width as f32);
            cells.height.push(area.height as f32);
            cells.depth.push(own.depth);
            cells.up.push(own.cell.map_or(0, |above| (cell - above) as u32));
            cells.node.push(group.node);
            cells.objects.push(group.objects as f64);
            cells.bytes.push(group.bytes as f64);
            cells.retained.push(group.retained as f64);
            let below = match group.single {
                true => retention.dominated.of(Some(group.node)).len(),
                false => 0,
            };
            cells.children.push(below as u32);
            let ty = of_type.then(|| types.number(self.snapshot.type_of(group.node)));
            cells.ty.push(ty.unwrap_or(NONE));
            let room = area.width >= ROOM.0 && area.height >= ROOM.1;
            if below > 0 && room {
                let area = Area {
                    x: area.x + EDGE,
                    y: area.y + HEAD,
                    width: area.width - 2.0 * EDGE,
                    height: area.height - HEAD - EDGE,
                };
                let depth = own.depth + 1;
                open.push_back(Open { node: Some(group.node), area, depth, cell: Some(cell) });
            }
        }
    }

    /// The objects from the roots to an object, each of which alone keeps the next one alive.
    fn path_to(&self, retention: &Retention, root: Option<NodeId>) -> (Vec<HeapPathNode>, usize) {
        let above = |node: &NodeId| retention.dominators.immediate(*node);
        let mut path: Vec<NodeId> = std::iter::successors(root, above).collect();
        path.reverse();
        let (path, left_out) = ends_of_path(path);
        let node = |node: NodeId| HeapPathNode {
            node,
            short: without_namespaces(self.type_name(self.snapshot.type_of(node))),
        };
        (path.into_iter().map(node).collect(), left_out)
    }
}

/// Types of an answer: each is in it once.
#[derive(Default)]
struct Types {
    ids: Vec<TypeId>,
    numbers: HashMap<TypeId, u32>,
}

impl Types {
    fn number(&mut self, id: TypeId) -> u32 {
        let next = self.ids.len() as u32;
        *self.numbers.entry(id).or_insert_with(|| {
            self.ids.push(id);
            next
        })
    }
}

/// Where parts of these sizes in square pixels are in an area, the largest first: as square as
/// possible (Bruls, Huizing, van Wijk, "Squarified treemaps", 2000). The sizes together are no
/// larger than the area.
pub(super) fn squarify(sizes: &[f64], area: Area) -> Vec<Area> {
    let mut areas = Vec::with_capacity(sizes.len());
    let mut rest = area;
    let mut first = 0;
    while first < sizes.len() {
        let side = rest.width.min(rest.height);
        if side <= 0.0 {
            areas.push(Area { width: 0.0, height: 0.0, ..rest });
            first += 1;
            continue;
        }
        // A strip along the shorter side takes parts as long as that makes them more square.
        let (mut last, mut sum, mut worst) = (first, 0.0, f64::INFINITY);
        while last < sizes.len() {
            let with = sum + sizes[last];
            let thickness = with / side;
            let ratio = |size: f64| {
                let length = (size / thickness.max(1e-9)).max(1e-9);
                (length / thickness.max(1e-9)).max(thickness / length)
            };
            let next = ratio(sizes[first]).max(ratio(sizes[last]));
            if next > worst {
                break;
            }
            (sum, worst) = (with, next);
            last += 1;
        }
        let thickness = (sum / side).min(rest.width.max(rest.height));
        let mut along = 0.0;
        for size in &sizes[first..last] {
            let length = if sum > 0.0 { size / sum * side } else { 0.0 };
            areas.push(match rest.width >= rest.height {
                true => Area { x: rest.x, y: rest.y + along, width: thickness, height: length },
                false => Area { x: rest.x + along, y: rest.y, width: length, height: thickness },
            });
            along += length;
        }
        rest = match rest.width >= rest.height {
            true => Area { x: rest.x + thickness, width: rest.width - thickness, ..rest },
            false => Area { y: rest.y + thickness, height: rest.height - thickness, ..rest },
        };
        first = last;
    }
    areas
}
