use profile::{CallTree, Totals};

/// A call tree that is ready to be drawn: children in order, and how deep it is below each node.
#[derive(Clone, Debug)]
pub struct Tree {
    calls: CallTree,
    /// Children of all nodes, those of a node side by side and the heaviest first. The roots come
    /// first.
    children: Vec<u32>,
    /// Where the children of each node begin, and where the last ones end.
    starts: Vec<u32>,
    /// How many of the children are roots.
    roots: usize,
    /// Levels from each node on: 1 at a leaf.
    heights: Vec<u32>,
}

impl Tree {
    /// Prepares a tree.
    pub fn new(calls: CallTree) -> Self {
        let nodes = calls.nodes();
        // Parents stand before their children: one pass counts, one fills, one goes upwards.
        let mut starts = vec![0_u32; nodes.len() + 1];
        let mut roots = 0;
        for node in 0..nodes.len() {
            match calls.parent(node) {
                Some(parent) => starts[parent + 1] += 1,
                None => roots += 1,
            }
        }
        starts[0] = roots;
        for node in 0..nodes.len() {
            starts[node + 1] += starts[node];
        }
        let (mut next, mut next_root) = (starts.clone(), 0);
        let mut children = vec![0_u32; nodes.len()];
        for node in 0..nodes.len() {
            let place = match calls.parent(node) {
                Some(parent) => &mut next[parent],
                None => &mut next_root,
            };
            children[*place as usize] = node as u32;
            *place += 1;
        }
        let heaviest_first =
            |child: &u32| (std::cmp::Reverse(nodes[*child as usize].total.weight), *child);
        children[..roots as usize].sort_unstable_by_key(heaviest_first);
        let mut heights = vec![1_u32; nodes.len()];
        for node in (0..nodes.len()).rev() {
            let range = starts[node] as usize..starts[node + 1] as usize;
            children[range].sort_unstable_by_key(heaviest_first);
            if let Some(parent) = calls.parent(node) {
                heights[parent] = heights[parent].max(heights[node] + 1);
            }
        }
        Self { calls, children, starts, roots: roots as usize, heights }
    }

    /// The calls.
    pub fn calls(&self) -> &CallTree {
        &self.calls
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.heights.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.heights.is_empty()
    }

    /// Nodes right below a node, or the roots; heaviest first.
    pub fn children(&self, node: Option<usize>) -> &[u32] {
        match node {
            Some(node) => {
                &self.children[self.starts[node] as usize..self.starts[node + 1] as usize]
            }
            None => &self.children[..self.roots],
        }
    }

    /// Sums of a node with all below it, or of all.
    pub fn total(&self, node: Option<usize>) -> Totals {
        node.map_or(self.calls.total(), |node| self.calls.nodes()[node].total)
    }

    /// Levels from a node on, or from the whole on, itself included.
    pub fn height(&self, node: Option<usize>) -> u32 {
        match node {
            Some(node) => self.heights[node],
            None => {
                let deepest = self.children(None).iter().map(|root| self.heights[*root as usize]);
                deepest.max().unwrap_or(0) + 1
            }
        }
    }

    /// From a root down to a node, both included.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path = vec![node];
        let mut at = node;
        while let Some(parent) = self.calls.parent(at) {
            path.push(parent);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Walks a node, or everything, with all below it: children, the heaviest first, between the
    /// entering (`true`) and the leaving (`false`) of their parent.
    pub fn visit(&self, from: Option<usize>, mut see: impl FnMut(usize, bool)) {
        // A node that is to be left has the upper bit.
        const LEAVE: u32 = 1 << 31;
        let mut stack: Vec<u32> = match from {
            Some(node) => vec![node as u32],
            None => self.children(None).iter().rev().copied().collect(),
        };
        while let Some(top) = stack.pop() {
            let node = (top & !LEAVE) as usize;
            if top & LEAVE != 0 {
                see(node, false);
                continue;
            }
            see(node, true);
            stack.push(top | LEAVE);
            stack.extend(self.children(Some(node)).iter().rev());
        }
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        self.len() * (size_of::<profile::Node>() + 12) + self.calls.stacks() * 4
    }
}
