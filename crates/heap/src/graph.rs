use std::collections::HashMap;

use document::{
    Graph, GraphEdge, GraphNode,
    format::{count, counted, without_namespaces},
};

use crate::report::PathRow;

/// Kinds of things in the graph: objects on the way, what is retained, and roots.
const OBJECT: u8 = 0;
const RETAINED: u8 = 1;
const ROOT: u8 = 2;

/// What retains something, as a graph: paths from roots to objects of one type, each with the
/// number of objects that are retained so; 0 where that is not to be said. What paths have in
/// common, from their roots on, is drawn once, and so are the objects at their ends.
pub fn retention_graph<'a>(paths: impl IntoIterator<Item = (&'a PathRow, u64)>) -> Graph {
    let mut made = Made::default();
    for (path, objects) in paths {
        made.add(path, objects);
    }
    Graph::new(made.nodes, made.edges)
}

#[derive(Default)]
struct Made {
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
    /// Nodes by the node above, the field that leads to them, and what they are.
    known: HashMap<(Option<u32>, String, String), u32>,
    /// Objects at the ends of paths, by their type.
    ends: HashMap<String, u32>,
    /// The edges that there are, with the number of objects.
    counted: HashMap<(u32, u32, String), (usize, u64)>,
}

impl Made {
    fn add(&mut self, path: &PathRow, objects: u64) {
        let root = GraphNode::new([path.root_text()]).of_kind(ROOT);
        let mut above = self.node(None, "", &path.root_text(), root);
        let half = path.steps.len().div_ceil(2);
        let mut field = String::new();
        for (at, step) in path.steps.iter().enumerate() {
            if path.omitted_steps > 0 && at == half {
                let more = format!("… {} more", count(path.omitted_steps));
                let gap = self.node(Some(above), &field, &more, GraphNode::new([more.clone()]));
                self.edge(above, gap, &field, objects);
                (above, field) = (gap, String::new());
            }
            let is_last = at + 1 == path.steps.len();
            let forms = [step.name.clone(), without_namespaces(&step.name)];
            let times = match step.times {
                0 | 1 => String::new(),
                times => format!("{} in a row", counted(times.into(), "object")),
            };
            let node = GraphNode::new(forms).noted(times);
            let own = match is_last {
                true => self.end(&step.name, node.of_kind(RETAINED)),
                false => self.node(Some(above), &field, &step.name, node.of_kind(OBJECT)),
            };
            self.edge(above, own, &field, objects);
            above = own;
            field = step.field.clone().unwrap_or_default();
        }
    }

    fn node(&mut self, above: Option<u32>, field: &str, name: &str, node: GraphNode) -> u32 {
        let next = self.nodes.len() as u32;
        let key = (above, field.to_owned(), name.to_owned());
        let id = *self.known.entry(key).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        id
    }

    fn end(&mut self, name: &str, node: GraphNode) -> u32 {
        let next = self.nodes.len() as u32;
        let id = *self.ends.entry(name.to_owned()).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        id
    }

    /// Adds an edge, or objects to the one that there is.
    fn edge(&mut self, from: u32, to: u32, field: &str, objects: u64) {
        let next = self.edges.len();
        let key = (from, to, field.to_owned());
        let (at, sum) = self.counted.entry(key).or_insert((next, 0));
        *sum += objects;
        let label = match (*sum, field) {
            (0, field) => field.to_owned(),
            (sum, "") => format!("× {}", count(sum)),
            (sum, field) => format!("{field} × {}", count(sum)),
        };
        match self.edges.get_mut(*at) {
            Some(edge) => edge.label = label,
            None => self.edges.push(GraphEdge { from, to, label }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RootKind, Step};

    fn path(root: &str, steps: &[(&str, u32, &str)]) -> PathRow {
        let step = |(name, times, field): &(&str, u32, &str)| Step {
            name: (*name).to_owned(),
            times: *times,
            address: 8,
            field: (!field.is_empty()).then(|| (*field).to_owned()),
        };
        PathRow {
            root: RootKind::Statics,
            root_name: Some(root.to_owned()),
            pinned: false,
            steps: steps.iter().map(step).collect(),
            omitted_steps: 0,
        }
    }

    #[test]
    fn what_paths_have_in_common_is_drawn_once() {
        let orders =
            path("Shop.Orders", &[("List", 1, "_items"), ("Order[]", 1, "[]"), ("Order", 1, "")]);
        let index =
            path("Shop.Orders", &[("List", 1, "_index"), ("Node", 40, "value"), ("Order", 1, "")]);
        let graph = retention_graph([(&orders, 500), (&index, 20)]);
        let node = |at: u32| graph.nodes()[at as usize].forms[0].as_str();
        let mut edges: Vec<String> = (graph.edges().iter())
            .map(|edge| format!("{} -{}- {}", node(edge.from), edge.label, node(edge.to)))
            .collect();
        edges.sort();
        assert_eq!(
            edges,
            [
                "List -_index × 20- Node",
                "List -_items × 500- Order[]",
                "Node -value × 20- Order",
                "Order[] -[] × 500- Order",
                "static Shop.Orders -× 520- List",
            ]
        );
        let last = graph.nodes().last().unwrap();
        assert_eq!((last.forms[0].as_str(), last.kind, last.row), ("Order", RETAINED, 3));
        let links = graph.nodes().iter().find(|own| own.forms[0] == "Node").unwrap();
        assert_eq!(links.note, "40 objects in a row");
    }

    #[test]
    fn what_is_left_out_of_a_path_is_said() {
        let mut long = path("A.b", &[("L", 1, "x"), ("M", 1, "")]);
        long.omitted_steps = 92;
        let graph = retention_graph([(&long, 0)]);
        let forms: Vec<&str> = graph.nodes().iter().map(|own| own.forms[0].as_str()).collect();
        assert_eq!(forms, ["static A.b", "L", "… 92 more", "M"]);
    }
}
