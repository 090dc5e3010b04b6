use profile::{CallTree, Totals};

/// Children of the nodes of a tree in order, and how deep it is below each node.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Children of all nodes, those of a node side by side. The roots come first.
    children: Vec<u32>,
    /// Where the children of each node begin, and where the last ones end.
    starts: Vec<u32>,
    /// How many of the children are roots.
    roots: usize,
    /// Levels from each node on: 1 at a leaf.
    heights: Vec<u32>,
}

impl Shape {
    /// The shape of a tree with this number of nodes, each of which stands behind its parent.
    /// `order` says which children come first: those with the least key.
    pub fn new<K: Ord>(
        nodes: usize,
        parent: impl Fn(usize) -> Option<usize>,
        order: impl Fn(usize) -> K,
    ) -> Self {
        // One pass counts, one fills, one goes upwards.
        let mut starts = vec![0_u32; nodes + 1];
        let mut roots = 0;
        for node in 0..nodes {
            match parent(node) {
                Some(parent) => starts[parent + 1] += 1,
                None => roots += 1,
            }
        }
        starts[0] = roots;
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let (mut next, mut next_root) = (starts.clone(), 0);
        let mut children = vec![0_u32; nodes];
        for node in 0..nodes {
            let place = match parent(node) {
                Some(parent) => &mut next[parent],
                None => &mut next_root,
            };
            children[*place as usize] = node as u32;
            *place += 1;
        }
        let key = |child: &u32| (order(*child as usize), *child);
        children[..roots as usize].sort_unstable_by_key(key);
        let mut heights = vec![1_u32; nodes];
        for node in (0..nodes).rev() {
            let range = starts[node] as usize..starts[node + 1] as usize;
            children[range].sort_unstable_by_key(key);
            if let Some(parent) = parent(node) {
                heights[parent] = heights[parent].max(heights[node] + 1);
            }
        }
        Self { children, starts, roots: roots as usize, heights }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.heights.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.heights.is_empty()
    }

    /// Nodes right below a node, or the roots, in order.
    pub fn children(&self, node: Option<usize>) -> &[u32] {
        match node {
            Some(node) => {
                &self.children[self.starts[node] as usize..self.starts[node + 1] as usize]
            }
            None => &self.children[..self.roots],
        }
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
}

/// A call tree that is ready to be drawn: children in order, the heaviest first, and how deep it is
/// below each node.
#[derive(Clone, Debug)]
pub struct Tree {
    calls: CallTree,
    shape: Shape,
}

impl Tree {
    /// Prepares a tree.
    pub fn new(calls: CallTree) -> Self {
        let nodes = calls.nodes();
        let shape = Shape::new(
            nodes.len(),
            |node| calls.parent(node),
            |node| std::cmp::Reverse(nodes[node].total.weight),
        );
        Self { calls, shape }
    }

    /// The calls.
    pub fn calls(&self) -> &CallTree {
        &self.calls
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }

    /// Nodes right below a node, or the roots; heaviest first.
    pub fn children(&self, node: Option<usize>) -> &[u32] {
        self.shape.children(node)
    }

    /// Sums of a node with all below it, or of all.
    pub fn total(&self, node: Option<usize>) -> Totals {
        node.map_or(self.calls.total(), |node| self.calls.nodes()[node].total)
    }

    /// Levels from a node on, or from the whole on, itself included.
    pub fn height(&self, node: Option<usize>) -> u32 {
        self.shape.height(node)
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
