use std::borrow::Cow;
use std::collections::{HashMap, hash_map::Entry};
use std::hint::black_box;

use crate::dominators::PIECE;
use crate::snapshot::{NodeId, RootKind, Snapshot, SnapshotRoot, TypeId};

const NONE: u32 = u32::MAX;
const ROOT: u32 = u32::MAX - 1;

/// Steps of a path that are reported. Longer paths leave out those in the middle.
const STEPS: usize = 40;

/// Objects of a type whose paths are looked at, evenly spread over all of them.
const EXAMINED: u64 = 20_000;

/// Shortest paths from roots to all objects of a snapshot, which it is to be asked with.
#[derive(Clone, Debug)]
pub struct PathTable {
    /// The object before, `ROOT` for what a root holds, `NONE` for what none reaches.
    before: Vec<u32>,
    /// The first object of the stretch of objects of one type that ends here: links of a list are
    /// one step.
    first: Vec<u32>,
}

impl PathTable {
    /// Shortest paths from all roots of a snapshot. Weak ones never are.
    pub fn of(snapshot: &Snapshot) -> Self {
        Self::from_roots(snapshot, |_| true)
    }

    /// The paths, with the snapshot of which they are.
    pub fn paths<'a>(&'a self, snapshot: &'a Snapshot) -> Paths<'a> {
        Paths { snapshot, table: Cow::Borrowed(self) }
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        self.before.len() * 8
    }
}

/// Shortest paths from roots to all objects.
#[derive(Debug)]
pub struct Paths<'a> {
    snapshot: &'a Snapshot,
    table: Cow<'a, PathTable>,
}

/// Objects of one type in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathStep {
    /// Their type.
    pub type_id: TypeId,
    /// How many there are.
    pub times: u32,
    /// The last one, which is the one that leads on.
    pub node: NodeId,
    /// The object to which that refers on the path, which is of another type.
    pub next: Option<NodeId>,
}

/// A shortest path from a root to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPath {
    /// Where it begins.
    pub root: SnapshotRoot,
    /// From the object that the root holds to the one that was asked for.
    pub steps: Vec<PathStep>,
    /// How many steps are left out in the middle, after the first half of [`Self::steps`].
    pub omitted: u64,
}

/// A kind of path by which objects of a type are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// How many of the objects that were looked at are held in this way.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// One of these paths; the others have the same types in the same order, in stretches of any
    /// length.
    pub example: RootPath,
}

/// How the objects of a type are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// How many objects were looked at.
    pub examined: u64,
    /// How many of them no root reaches.
    pub unreached: u64,
    /// The kinds of path, the most common first.
    pub kinds: Vec<Holding>,
}

impl PathTable {
    fn from_roots(snapshot: &Snapshot, wanted: impl Fn(&SnapshotRoot) -> bool) -> Self {
        let mut before = vec![NONE; snapshot.len()];
        let mut first = vec![NONE; snapshot.len()];
        let mut queue: Vec<NodeId> = Vec::new();
        // Of roots of an equal distance, those that hold for longest go first.
        for kind in RootKind::ALL {
            for root in snapshot
                .roots()
                .iter()
                .filter(|root| root.kind == kind && !root.weak && wanted(root))
            {
                if before[root.node as usize] == NONE {
                    before[root.node as usize] = ROOT;
                    first[root.node as usize] = root.node;
                    queue.push(root.node);
                }
            }
        }
        let all = snapshot.all_references();
        let (mut next, mut places) = (0, Vec::with_capacity(PIECE));
        while next < queue.len() {
            let piece = next..queue.len().min(next + PIECE);
            places.extend(queue[piece.clone()].iter().map(|node| snapshot.references_at(*node)));
            let references =
                places.iter().flat_map(|(from, to)| &all[*from as usize..*to as usize]);
            black_box(
                references.fold(0, |any, to| any ^ before[*to as usize] ^ snapshot.type_of(*to)),
            );
            for (index, (from, to)) in piece.clone().zip(places.drain(..)) {
                let node = queue[index];
                let (own_type, own_first) = (snapshot.type_of(node), first[node as usize]);
                for to in &all[from as usize..to as usize] {
                    if before[*to as usize] == NONE {
                        before[*to as usize] = node;
                        first[*to as usize] =
                            if snapshot.type_of(*to) == own_type { own_first } else { *to };
                        queue.push(*to);
                    }
                }
            }
            next = piece.end;
            // What has been dealt with is given back from time to time.
            if next >= 1 << 20 {
                queue.drain(..next);
                next = 0;
            }
        }
        Self { before, first }
    }
}

impl<'a> Paths<'a> {
    /// Shortest paths from those roots that are wanted. Weak ones never are.
    pub fn of(snapshot: &'a Snapshot, wanted: impl Fn(&SnapshotRoot) -> bool) -> Self {
        Self { snapshot, table: Cow::Owned(PathTable::from_roots(snapshot, wanted)) }
    }

    /// A shortest path from a root to an object; `None` if no root reaches it.
    pub fn to(&self, node: NodeId) -> Option<RootPath> {
        if self.table.before[node as usize] == NONE {
            return None;
        }
        // From the object to the root. Long paths keep the steps at both ends.
        let mut near: Vec<PathStep> = Vec::new();
        let mut far: std::collections::VecDeque<PathStep> = std::collections::VecDeque::new();
        let mut omitted = 0;
        let (mut at, mut next) = (node, None);
        loop {
            let first = self.table.first[at as usize];
            let step = PathStep {
                type_id: self.snapshot.type_of(at),
                times: self.length(first, at),
                node: at,
                next: next.replace(first),
            };
            if near.len() < STEPS / 2 {
                near.push(step);
            } else {
                far.push_back(step);
                if far.len() > STEPS / 2 {
                    far.pop_front();
                    omitted += 1;
                }
            }
            match self.table.before[first as usize] {
                ROOT => {
                    let root = *self.snapshot.root_of(first)?;
                    let steps = far.into_iter().rev().chain(near.into_iter().rev()).collect();
                    return Some(RootPath { root, steps, omitted });
                }
                before => at = before,
            }
        }
    }

    /// Objects from `first` to `last` of one stretch, both counted.
    fn length(&self, first: NodeId, last: NodeId) -> u32 {
        let mut at = last;
        let mut length = 1;
        // Nobody reads the exact length of a list of more.
        while at != first && length < 100_000 {
            at = self.table.before[at as usize];
            length += 1;
        }
        length
    }

    /// By which kinds of path the objects of a type are held. Of many objects, some are looked at.
    pub fn holdings(&self, type_id: TypeId) -> Holdings {
        let count = self.snapshot.types.iter().filter(|other| **other == type_id).count() as u64;
        let step = count.div_ceil(EXAMINED).max(1);
        let mut holdings = Holdings::default();
        let mut kinds: HashMap<(Option<RootKind>, Vec<TypeId>), Holding> = HashMap::new();
        let of_type = self.snapshot.nodes().filter(|node| self.snapshot.type_of(*node) == type_id);
        for node in of_type.step_by(step as usize) {
            holdings.examined += 1;
            let size = self.snapshot.size(node);
            match kinds.entry(self.pattern(node)) {
                Entry::Occupied(mut holding) => {
                    let holding = holding.get_mut();
                    holding.count += 1;
                    holding.bytes = holding.bytes.saturating_add(size);
                }
                Entry::Vacant(kind) => match self.to(node) {
                    Some(example) => _ = kind.insert(Holding { count: 1, bytes: size, example }),
                    None => holdings.unreached += 1,
                },
            }
        }
        holdings.kinds = kinds.into_values().collect();
        order::sort_by_key(&mut holdings.kinds, |holding| {
            (std::cmp::Reverse(holding.count), holding.example.steps[0].node)
        });
        holdings
    }

    /// The types on the path from an object to its root, as many as a path reports, and the kind of
    /// the root if it is near enough.
    fn pattern(&self, node: NodeId) -> (Option<RootKind>, Vec<TypeId>) {
        let mut types = Vec::new();
        let mut at = node;
        // A path of two alternating types can have millions of steps.
        for _ in 0..STEPS * 4 {
            if types.len() < STEPS / 2 {
                types.push(self.snapshot.type_of(at));
            }
            let table = &self.table;
            let first = table.first.get(at as usize);
            match first.and_then(|first| Some((*first, *table.before.get(*first as usize)?))) {
                Some((first, ROOT)) => {
                    return (self.snapshot.root_of(first).map(|root| root.kind), types);
                }
                Some((_, before)) => at = before,
                None => break,
            }
        }
        (None, types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryBudget, Root, SnapshotBuilder, SnapshotEnd};
    use proptest::prelude::*;

    fn snapshot(edges: &[(u64, Vec<u64>)], roots: &[(u64, RootKind)]) -> Snapshot {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        for (node, (class, targets)) in edges.iter().enumerate() {
            builder.object(8 + node as u64 * 8, *class, 8);
            targets.iter().for_each(|to| builder.reference(8 + to * 8));
        }
        for (target, kind) in roots {
            let target = 8 + target * 8;
            builder.root(Root {
                target,
                kind: *kind,
                pinned: false,
                weak: false,
                interior: false,
                id: 0,
            });
        }
        builder.finish(SnapshotEnd { complete: true, ..SnapshotEnd::default() })
    }

    proptest! {
        /// Distances by going round until nothing changes (Bellman and Ford).
        #[test]
        fn paths_are_shortest(
            edges in prop::collection::vec((0u64..4, prop::collection::vec(0u64..30, 0..4)), 30),
            roots in prop::collection::vec(0u64..30, 0..3),
        ) {
            let roots: Vec<_> = roots.iter().map(|node| (*node, RootKind::Stack)).collect();
            let snapshot = snapshot(&edges, &roots);
            let mut distance = [u32::MAX; 30];
            roots.iter().for_each(|(node, _)| distance[*node as usize] = 1);
            for _ in 0..30 {
                for node in snapshot.nodes() {
                    for to in snapshot.references(node) {
                        distance[*to as usize] = distance[*to as usize].min(distance[node as usize].saturating_add(1));
                    }
                }
            }
            let paths = Paths::of(&snapshot, |_| true);
            for node in snapshot.nodes() {
                let path = paths.to(node);
                let length = path.as_ref().map_or(u32::MAX, |path| path.steps.iter().map(|step| step.times).sum());
                prop_assert_eq!(length, distance[node as usize], "to {}", node);
                if let Some(path) = path {
                    prop_assert_eq!(path.steps.last().map(|step| step.node), Some(node));
                    prop_assert!(path.steps.windows(2).all(|pair| pair[0].type_id != pair[1].type_id));
                }
            }
        }
    }

    #[test]
    fn lists_are_one_step_however_long() {
        // A root holds a table (type 0), which holds the first link (1) of a list; each link has a
        // value (2).
        let links = 150_000u64;
        let mut edges = vec![(0, vec![1])];
        for link in 0..links {
            let next = (link + 1 < links).then_some(link + 2);
            edges.push((1, next.into_iter().chain([1 + links + link]).collect()));
        }
        edges.resize(1 + 2 * links as usize, (2, Vec::new()));
        let snapshot = snapshot(&edges, &[(0, RootKind::Statics)]);
        let paths = Paths::of(&snapshot, |_| true);
        let path = paths.to(2 * links as u32).unwrap();
        assert_eq!(
            path.steps.iter().map(|step| (step.type_id, step.times)).collect::<Vec<_>>(),
            [(0, 1), (1, 100_000), (2, 1)]
        );
        let holdings = paths.holdings(2);
        assert!((10_000..=20_000).contains(&holdings.examined), "{}", holdings.examined);
        assert_eq!(holdings.kinds.len(), 1);
        assert_eq!(holdings.kinds[0].count, holdings.examined);
        assert_eq!(holdings.kinds[0].example.root.kind, RootKind::Statics);
    }

    #[test]
    fn long_paths_of_types_in_turn_keep_both_ends() {
        let edges: Vec<_> = (0..1000u64)
            .map(|at| (at % 2, if at < 999 { vec![at + 1] } else { Vec::new() }))
            .collect();
        let snapshot = snapshot(&edges, &[(0, RootKind::Handle)]);
        let paths = Paths::of(&snapshot, |_| true);
        let path = paths.to(999).unwrap();
        assert_eq!((path.steps.len(), path.omitted), (STEPS, 1000 - STEPS as u64));
        assert_eq!((path.steps[0].node, path.steps[STEPS - 1].node), (0, 999));
    }

    #[test]
    fn ways_to_hold_are_counted() {
        // Four orders (2): two in a list (1) of a static, one on a stack, one unreachable.
        let edges = [(1, vec![1, 2]), (2, vec![]), (2, vec![]), (2, vec![]), (2, vec![])];
        let snapshot = snapshot(&edges, &[(3, RootKind::Stack), (0, RootKind::Statics)]);
        let holdings = Paths::of(&snapshot, |_| true).holdings(snapshot.type_of(1));
        assert_eq!((holdings.examined, holdings.unreached), (4, 1));
        assert_eq!(
            holdings
                .kinds
                .iter()
                .map(|kind| (kind.count, kind.example.root.kind))
                .collect::<Vec<_>>(),
            [(2, RootKind::Statics), (1, RootKind::Stack)]
        );
        // Without the static, the two are unreachable as well.
        let holdings =
            Paths::of(&snapshot, |root| root.kind == RootKind::Stack).holdings(snapshot.type_of(1));
        assert_eq!((holdings.unreached, holdings.kinds.len()), (3, 1));
    }
}
