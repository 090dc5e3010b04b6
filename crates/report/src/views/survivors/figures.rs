//! Survivors as drawings: how much survived each collection, and what retains what survives.

use std::{cmp::Reverse, collections::HashMap};

use document::{Figure, Graph, GraphEdge, GraphNode, Series, Unit, WeightedNode, Weights};
use profile::{Profile, SurvivorChain, SurvivorSummary, session::SurvivorSnapshot};

use crate::{format, json::values::since};

/// Ways to be retained that the graph shows.
const MOST_WAYS: usize = 12;

/// Nodes of the tree with a lesser part of all are left out.
const LEAST: f64 = 0.01;

/// Nodes of the tree, at most.
const MOST_NODES: usize = 300;

/// Kinds of things: objects on the way, what survived, and where paths begin. The first two are
/// those of graphs of heap snapshots.
const OBJECT: u8 = 0;
const SURVIVOR: u8 = 1;
const ROOT: u8 = 2;

/// All drawings that the recording has data for.
pub fn figures(profile: &Profile, summary: &SurvivorSummary) -> Vec<Figure> {
    let mut figures: Vec<Figure> = over_time(profile).into_iter().collect();
    let tree = Tree::of(profile, &summary.chains);
    let nodes = tree.weighted();
    if !nodes.is_empty() {
        let weights = Weights { unit: Unit::Bytes, noun: "object", nodes };
        figures.push(Figure::weights("bytes of young survivors by what retains them", weights));
    }
    let graph = graph(profile, &summary.chains);
    if !graph.nodes().is_empty() {
        figures.push(Figure::graph("most common ways to retain young survivors", graph));
    }
    figures
}

/// Bytes that survived each collection, of those whose survivors are all known; none of fewer than
/// two collections.
fn over_time(profile: &Profile) -> Option<Figure> {
    let complete = profile.survivors.iter().filter(|of| of.collection.complete);
    let survived = |of: &SurvivorSnapshot| {
        of.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(count.bytes))
    };
    let points = complete.map(|of| (since(profile, of.collection.time), survived(of)));
    let (seconds, values): (Vec<f64>, Vec<f64>) =
        points.map(|(time, bytes)| (time as f64 / 1e9, bytes as f64)).unzip();
    let title = "bytes that survived";
    let series = Series { title: title.to_owned(), unit: Unit::Bytes, seconds, values };
    (series.values.len() > 1).then(|| Figure::series(format!("{title} a collection"), series))
}

/// Paths from what retains survivors, with what they have in common once.
#[derive(Default)]
struct Tree {
    nodes: Vec<Branch>,
    /// Nodes by the node above and their name.
    known: HashMap<(Option<usize>, String), usize>,
    roots: Vec<usize>,
    /// Bytes of all survivors.
    whole: u64,
}

struct Branch {
    forms: Vec<String>,
    kind: u8,
    /// Bytes of survivors here and below.
    bytes: u64,
    children: Vec<usize>,
}

impl Tree {
    fn of(profile: &Profile, chains: &[SurvivorChain]) -> Self {
        let mut tree = Self::default();
        for chain in chains {
            let bytes = chain.totals.weight;
            tree.whole = tree.whole.saturating_add(bytes);
            let parts = profile.chain_parts(chain);
            let last = parts.len().saturating_sub(1);
            let mut above = None;
            for (at, forms) in parts.into_iter().enumerate() {
                let kind = kind_of(at, last);
                above = tree.add(above, forms, kind, bytes);
            }
        }
        tree
    }

    /// Adds bytes to a node, which is made if there is none of this name.
    fn add(
        &mut self,
        above: Option<usize>,
        forms: Vec<String>,
        kind: u8,
        bytes: u64,
    ) -> Option<usize> {
        let next = self.nodes.len();
        let id = *self.known.entry((above, forms.first()?.clone())).or_insert(next);
        if id == next {
            self.nodes.push(Branch { forms, kind, bytes: 0, children: Vec::new() });
            match above.and_then(|above| self.nodes.get_mut(above)) {
                Some(above) => above.children.push(id),
                None => self.roots.push(id),
            }
        }
        let node = self.nodes.get_mut(id)?;
        node.bytes = node.bytes.saturating_add(bytes);
        if kind == SURVIVOR {
            node.kind = SURVIVOR;
        }
        Some(id)
    }

    /// The nodes, each after the one above it, the heaviest first; without those that are too light
    /// to be seen.
    fn weighted(&self) -> Vec<WeightedNode> {
        let least = (self.whole as f64 * LEAST).max(1.0);
        let mut shown = Vec::new();
        let mut open: Vec<(usize, u32)> = Vec::new();
        self.open(&self.roots, 0, least, &mut open);
        while let (Some((id, depth)), true) = (open.pop(), shown.len() < MOST_NODES) {
            let Some(node) = self.nodes.get(id) else { continue };
            shown.push(WeightedNode {
                depth,
                forms: node.forms.clone(),
                place: None,
                kind: node.kind,
                weight: node.bytes as f64,
            });
            self.open(&node.children, depth + 1, least, &mut open);
        }
        shown
    }

    /// Puts nodes that are to be seen onto a stack, the heaviest on top.
    fn open(&self, nodes: &[usize], depth: u32, least: f64, open: &mut Vec<(usize, u32)>) {
        let bytes = |id: &usize| self.nodes.get(*id).map_or(0, |node| node.bytes);
        let mut nodes: Vec<usize> =
            nodes.iter().copied().filter(|id| bytes(id) as f64 >= least).collect();
        order::sort_by_key(&mut nodes, |id| (bytes(id), Reverse(*id)));
        open.extend(nodes.into_iter().map(|id| (id, depth)));
    }
}

/// What stands at a place of a path.
fn kind_of(at: usize, last: usize) -> u8 {
    match at {
        _ if at == last => SURVIVOR,
        0 => ROOT,
        _ => OBJECT,
    }
}

/// The ways in which most bytes are retained, as a graph. Survivors of a type are one node, so that
/// all ways to them end there; edges have numbers of objects.
fn graph(profile: &Profile, chains: &[SurvivorChain]) -> Graph {
    let (mut nodes, mut edges): (Vec<GraphNode>, Vec<GraphEdge>) = Default::default();
    let mut known: HashMap<(Option<u32>, String), u32> = HashMap::new();
    let mut counted: HashMap<(u32, u32), (usize, u64)> = HashMap::new();
    for chain in chains.iter().take(MOST_WAYS) {
        let parts = profile.chain_parts(chain);
        let last = parts.len().saturating_sub(1);
        let mut above: Option<u32> = None;
        for (at, forms) in parts.into_iter().enumerate() {
            let Some(name) = forms.first().cloned() else { continue };
            let (kind, next) = (kind_of(at, last), nodes.len() as u32);
            // What survived is the same node for all ways, whatever retains it.
            let place = if kind == SURVIVOR { None } else { above };
            let name = if kind == SURVIVOR { format!("survivor {name}") } else { name };
            let id = *known.entry((place, name)).or_insert(next);
            if id == next {
                nodes.push(GraphNode::new(forms).of_kind(kind));
            }
            if let Some(from) = above {
                let (edge, objects) = counted.entry((from, id)).or_insert((edges.len(), 0));
                *objects = objects.saturating_add(chain.totals.samples);
                let label = format!("× {}", format::count(*objects));
                match edges.get_mut(*edge) {
                    Some(edge) => edge.label = label,
                    None => edges.push(GraphEdge { from, to: id, label }),
                }
            }
            above = Some(id);
        }
    }
    Graph::new(nodes, edges)
}
