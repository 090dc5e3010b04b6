use schemars::JsonSchema;
use serde::Serialize;

use crate::Unit;

/// A picture of what the sentences and tables beside it say in words and numbers. Where nothing can
/// be drawn, as in text and Markdown, it is left out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// What it shows.
    pub caption: String,
    /// What is drawn.
    pub drawing: Drawing,
}

/// What a [`Figure`] draws.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drawing {
    /// Things, and how they lead to each other.
    Graph(Graph),
    /// Values over time.
    Series(Series),
    /// A tree whose nodes have weights, such as a call tree: a flame graph.
    Weights(Weights),
}

impl Figure {
    /// Things, and how they lead to each other.
    pub fn graph(caption: impl Into<String>, graph: Graph) -> Self {
        Self { caption: caption.into(), drawing: Drawing::Graph(graph) }
    }

    /// Values over time.
    pub fn series(caption: impl Into<String>, series: Series) -> Self {
        Self { caption: caption.into(), drawing: Drawing::Series(series) }
    }

    /// A tree whose nodes have weights.
    pub fn weights(caption: impl Into<String>, weights: Weights) -> Self {
        Self { caption: caption.into(), drawing: Drawing::Weights(weights) }
    }
}

/// Values over time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// What the values are.
    pub title: String,
    /// What they count.
    pub unit: Unit,
    /// When each was: seconds since some beginning, ascending.
    pub seconds: Vec<f64>,
    /// As many values.
    pub values: Vec<f64>,
}

/// A tree whose nodes have weights.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Weights {
    /// What weights count.
    pub unit: Unit,
    /// What the nodes are, in the singular: `method`, `object`.
    pub noun: &'static str,
    /// The nodes, each after the one that it stands below.
    pub nodes: Vec<WeightedNode>,
}

/// A node of [`Weights`].
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WeightedNode {
    /// How many nodes it stands below: at most one more than the node before.
    pub depth: u32,
    /// The same name, the longest first. The longest that fits is shown.
    pub forms: Vec<String>,
    /// Where it is in the source: file and line.
    pub place: Option<String>,
    /// What has colors of its own: nodes of one number look alike.
    pub kind: u8,
    /// Its weight with all below it. Nodes below a node weigh no more together.
    pub weight: f64,
}

/// Things, and how they lead to each other, laid out in rows and columns: what leads to something
/// else stands above it, as far as that is possible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Graph {
    /// The things, in the order of rows and columns.
    nodes: Vec<GraphNode>,
    /// How they lead to each other.
    edges: Vec<GraphEdge>,
    /// How many rows there are.
    rows: u32,
    /// How many columns there are.
    columns: u32,
}

/// A thing of a [`Graph`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GraphNode {
    /// The same name, the longest first. The longest that fits is shown.
    pub forms: Vec<String>,
    /// What else is to be said of it, in some words; empty if nothing.
    pub note: String,
    /// What it is: nodes of one number look alike, and those of number 1 stand out.
    pub kind: u8,
    /// Its row, from 0 on: set by [`Graph::new`].
    pub row: u32,
    /// Its place in the row, in columns from 0 on, also between two: set by [`Graph::new`].
    pub column: f32,
}

impl GraphNode {
    /// A thing with these names, the longest first.
    pub fn new(forms: impl IntoIterator<Item = String>) -> Self {
        Self { forms: forms.into_iter().collect(), ..Self::default() }
    }

    /// The same with something to say of it.
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The same of another kind.
    pub fn of_kind(self, kind: u8) -> Self {
        Self { kind, ..self }
    }
}

/// How one thing leads to another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GraphEdge {
    /// Index of the thing that leads.
    pub from: u32,
    /// Index of the thing that it leads to.
    pub to: u32,
    /// How; empty if that needs no words.
    pub label: String,
}

impl Graph {
    /// Lays things out. Edges that name no thing are left out.
    pub fn new(nodes: Vec<GraphNode>, mut edges: Vec<GraphEdge>) -> Self {
        edges.retain(|edge| [edge.from, edge.to].iter().all(|end| (*end as usize) < nodes.len()));
        let rows = rows_of(nodes.len(), &edges);
        let depth = rows.iter().map(|row| row + 1).max().unwrap_or(0);
        let mut layers: Vec<Vec<usize>> = vec![Vec::new(); depth as usize];
        for (node, row) in rows.iter().enumerate() {
            layers[*row as usize].push(node);
        }
        let columns = layers.iter().map(Vec::len).max().unwrap_or(0);
        let mut column = vec![0.0_f32; nodes.len()];
        // Things stand below the middle of what leads to them, so that edges cross seldom.
        for layer in &mut layers {
            let middle = |node: &usize| {
                let above: Vec<f32> = (edges.iter())
                    .filter(|edge| {
                        edge.to as usize == *node && rows[edge.from as usize] < rows[*node]
                    })
                    .map(|edge| column[edge.from as usize])
                    .collect();
                above.iter().sum::<f32>() / above.len().max(1) as f32
            };
            let mut keyed: Vec<(f32, usize)> =
                layer.iter().map(|node| (middle(node), *node)).collect();
            order::sort_by(&mut keyed, |one, other| {
                one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
            });
            let left = (columns - keyed.len()) as f32 / 2.0;
            for (place, (_, node)) in keyed.iter().enumerate() {
                column[*node] = left + place as f32;
            }
            *layer = keyed.into_iter().map(|(_, node)| node).collect();
        }
        let order: Vec<usize> = layers.into_iter().flatten().collect();
        let mut place_of = vec![0_u32; nodes.len()];
        order.iter().enumerate().for_each(|(place, node)| place_of[*node] = place as u32);
        for edge in &mut edges {
            edge.from = place_of[edge.from as usize];
            edge.to = place_of[edge.to as usize];
        }
        let place = |node: usize| GraphNode {
            row: rows[node],
            column: column[node],
            ..nodes[node].clone()
        };
        Self {
            nodes: order.into_iter().map(place).collect(),
            edges,
            rows: depth,
            columns: columns as u32,
        }
    }

    /// The things, in the order of rows and columns.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// How they lead to each other.
    pub fn edges(&self) -> &[GraphEdge] {
        &self.edges
    }
}

/// The row of each node: below all that lead to it, except for edges that close a ring.
fn rows_of(nodes: usize, edges: &[GraphEdge]) -> Vec<u32> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut has_above = vec![false; nodes];
    for edge in edges.iter().filter(|edge| edge.from != edge.to) {
        below[edge.from as usize].push(edge.to as usize);
        has_above[edge.to as usize] = true;
    }
    // A depth-first search: nodes are finished after all that they lead to, unless that leads back.
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = vec![State::New; nodes];
    let mut finished = Vec::with_capacity(nodes);
    let mut forward: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    // What nothing leads to comes first; a ring begins with its first node.
    let starts = (0..nodes).filter(|node| !has_above[*node]).chain(0..nodes);
    for start in starts {
        if state[start] != State::New {
            continue;
        }
        state[start] = State::Open;
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            match below[node].get(*next) {
                Some(to) => {
                    *next += 1;
                    match state[*to] {
                        State::Open => {}
                        State::Done => forward[node].push(*to),
                        State::New => {
                            forward[node].push(*to);
                            state[*to] = State::Open;
                            path.push((*to, 0));
                        }
                    }
                }
                None => {
                    state[node] = State::Done;
                    finished.push(node);
                    path.pop();
                }
            }
        }
    }
    let mut rows = vec![0_u32; nodes];
    for node in finished.into_iter().rev() {
        for to in &forward[node] {
            rows[*to] = rows[*to].max(rows[node] + 1);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        let node = |number: usize| GraphNode::new([number.to_string()]);
        let edge =
            |(from, to): &(u32, u32)| GraphEdge { from: *from, to: *to, label: String::new() };
        Graph::new((0..nodes).map(node).collect(), edges.iter().map(edge).collect())
    }

    fn places(graph: &Graph) -> Vec<(&str, u32, f32)> {
        graph.nodes().iter().map(|own| (own.forms[0].as_str(), own.row, own.column)).collect()
    }

    #[test]
    fn what_leads_to_something_stands_above_it() {
        // 0 leads to 3 directly, and by 1 and 2.
        let made = graph(4, &[(0, 3), (0, 2), (0, 1), (1, 3), (2, 3), (7, 1)]);
        assert_eq!(places(&made), [("0", 0, 0.5), ("1", 1, 0.0), ("2", 1, 1.0), ("3", 2, 0.5)]);
        assert_eq!((made.rows, made.columns, made.edges().len()), (3, 2, 5));
    }

    #[test]
    fn a_ring_is_a_column_with_one_edge_back() {
        let made = graph(4, &[(2, 3), (0, 1), (1, 2), (3, 0)]);
        assert_eq!(places(&made), [("0", 0, 0.0), ("1", 1, 0.0), ("2", 2, 0.0), ("3", 3, 0.0)]);
        let back = made.edges().iter().filter(|edge| edge.to <= edge.from).count();
        assert_eq!(back, 1);
        let lone = graph(1, &[(0, 0)]);
        assert_eq!((lone.rows, lone.columns), (1, 1));
        assert_eq!(graph(0, &[]).rows, 0);
    }

    #[test]
    fn children_stand_below_their_parents() {
        // Two trees side by side do not cross.
        let made = graph(6, &[(0, 4), (0, 5), (1, 2), (1, 3)]);
        let row: Vec<&str> = made
            .nodes()
            .iter()
            .filter(|own| own.row == 1)
            .map(|own| own.forms[0].as_str())
            .collect();
        assert_eq!(row, ["4", "5", "2", "3"]);
    }

    #[test]
    fn depth_does_no_harm() {
        let edges: Vec<(u32, u32)> = (0..99_999).map(|node| (node, node + 1)).collect();
        assert_eq!(rows_of(100_000, &edges_of(&edges))[99_999], 99_999);
    }

    fn edges_of(edges: &[(u32, u32)]) -> Vec<GraphEdge> {
        let edge =
            |(from, to): &(u32, u32)| GraphEdge { from: *from, to: *to, label: String::new() };
        edges.iter().map(edge).collect()
    }
}
