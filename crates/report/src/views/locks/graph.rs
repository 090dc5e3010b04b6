//! Which methods wait for which locks, and which threads hold these, as a drawing.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::Hash,
};

use document::{Figure, Graph, GraphEdge, GraphNode};
use profile::{
    CallSite, NameStyle, Profile,
    session::{StackId, ThreadId},
};

use crate::format;

/// Edges of the graph, at most.
const MOST_EDGES: usize = 12;

/// Kinds of things.
const METHOD: u8 = 0;
const LOCK: u8 = 1;
const THREAD: u8 = 2;

/// A place that waits for a lock, and the thread that holds it, where that is known.
type Way = (CallSite, u64, Option<ThreadId>);

/// What a node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Thing {
    Method(CallSite),
    Lock(u64),
    Thread(ThreadId),
}

/// Waits of one kind.
#[derive(Default)]
struct Waits {
    count: u64,
    nanos: u64,
    threads: HashSet<ThreadId>,
}

/// All waits for locks that the runtime numbers.
#[derive(Default)]
struct Sums {
    ways: HashMap<Way, u64>,
    edges: HashMap<(Thing, Thing), u64>,
    things: HashMap<Thing, Waits>,
}

/// Waiting methods, locks, and the threads that hold these; none where no lock is known.
pub fn figure(profile: &Profile) -> Option<Figure> {
    let sums = Sums::of(profile);
    let graph = sums.graph(profile);
    let caption = "which methods wait for which lock, and which thread holds it";
    (!graph.edges().is_empty()).then(|| Figure::graph(caption, graph))
}

impl Sums {
    fn of(profile: &Profile) -> Self {
        let mut sums = Self::default();
        let mut places: HashMap<StackId, CallSite> = HashMap::new();
        for wait in &profile.locks.waits {
            let Some(lock) = wait.lock else { continue };
            let place = *(places.entry(wait.stack))
                .or_insert_with(|| profile.tables.waiting_place(wait.stack));
            add(&mut sums.ways, (place, lock, wait.owner), wait.duration);
            let (method, lock) = (Thing::Method(place), Thing::Lock(lock));
            add(&mut sums.edges, (method, lock), wait.duration);
            if let Some(owner) = wait.owner {
                add(&mut sums.edges, (lock, Thing::Thread(owner)), wait.duration);
            }
            for thing in [method, lock] {
                let waits = sums.things.entry(thing).or_default();
                waits.count += 1;
                waits.nanos = waits.nanos.saturating_add(wait.duration);
                waits.threads.insert(wait.thread);
            }
        }
        sums
    }

    /// The ways with most waiting time, as many as there is room for.
    fn graph(&self, profile: &Profile) -> Graph {
        let mut ways: Vec<(&Way, &u64)> = self.ways.iter().collect();
        order::sort_by_key(&mut ways, |(way, nanos)| (Reverse(**nanos), **way));
        let (mut nodes, mut edges): (Vec<GraphNode>, Vec<GraphEdge>) = Default::default();
        let (mut known, mut drawn) = (HashMap::new(), HashSet::new());
        for ((place, lock, owner), _) in ways {
            let (method, lock) = (Thing::Method(*place), Thing::Lock(*lock));
            let waits = (method, lock, "waits for");
            let held = owner.map(|owner| (lock, Thing::Thread(owner), "held by"));
            let parts = [Some(waits), held].into_iter().flatten();
            let new: Vec<_> = parts.filter(|(from, to, _)| drawn.insert((*from, *to))).collect();
            if edges.len() + new.len() > MOST_EDGES {
                break;
            }
            for (from, to, how) in new {
                let mut node = |thing| match known.entry(thing) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(free) => {
                        nodes.push(self.node(profile, thing));
                        *free.insert(nodes.len() as u32 - 1)
                    }
                };
                let nanos = self.edges.get(&(from, to)).copied().unwrap_or_default();
                let label = format!("{how}, {}", format::duration(nanos));
                edges.push(GraphEdge { from: node(from), to: node(to), label });
            }
        }
        Graph::new(nodes, edges)
    }

    fn node(&self, profile: &Profile, thing: Thing) -> GraphNode {
        let (count, nanos, threads) = self
            .things
            .get(&thing)
            .map_or((0, 0, 0), |waits| (waits.count, waits.nanos, waits.threads.len() as u64));
        match thing {
            Thing::Method(place) => {
                let forms = [NameStyle::PLAIN, NameStyle::SHORT]
                    .map(|style| profile.tables.function_name(place.function, style));
                GraphNode::new(forms).noted(format::counted(threads, "thread")).of_kind(METHOD)
            }
            Thing::Lock(lock) => {
                let waits = format::counted(count, "wait");
                let note = format!("{waits}, {}", format::duration(nanos));
                GraphNode::new([format!("lock {lock:#x}")]).noted(note).of_kind(LOCK)
            }
            Thing::Thread(id) => GraphNode::new([profile.tables.thread_name(id)]).of_kind(THREAD),
        }
    }
}

fn add<K: Eq + Hash>(sums: &mut HashMap<K, u64>, key: K, nanos: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(nanos);
}
