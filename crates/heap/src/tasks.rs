//! Asynchronous methods that wait, and which of them awaits which.

mod graph;
mod names;

pub use names::{blocks_a_thread, is_link, machine_of};

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::Hasher;

use schemars::JsonSchema;
use serde::Serialize;

use crate::snapshot::{NodeId, Snapshot, TypeId};
use graph::{Graph, MOST_STEPS};
use names::Kind;

/// Asynchronous methods that have started and not completed, and which of them awaits which.
///
/// The runtime keeps such a method as an object: a box around its state machine, which is also the
/// task of the method (`AsyncTaskMethodBuilder<T>.AsyncStateMachineBox<M>`). The method that awaits
/// it refers to it by an awaiter, and the task refers back to it as its continuation
/// (`Task.m_continuationObject`). Where that field was read, it says which method awaits which.
/// Where it was not, two boxes that refer to each other are a method and one that awaits it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Methods that wait, or run after they have waited.
    pub pending: u64,
    /// Them by the type of their state machine, most first.
    pub by_machine: Vec<(String, u64)>,
    /// Them by who awaits whom, most frequent first.
    pub stacks: Vec<AsyncStack>,
    /// Stacks that are not among them: there were too many.
    pub left_out: u64,
    /// Which object continues after which: for the next snapshot.
    pub continuations: Continuations,
}

/// Which object continues after which task, as hashes of their addresses and types.
///
/// Objects have no name: an object that is at the same address in two snapshots, has the same type
/// and is in the oldest generation at last was there all the time. One that was moved is not
/// recognized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuations(HashSet<u64>);

impl Continuations {
    fn key(snapshot: &Snapshot, awaiter: NodeId, awaited: NodeId) -> u64 {
        let mut hash = DefaultHasher::new();
        for node in [awaiter, awaited] {
            hash.write_u64(snapshot.address(node));
            // Types have other numbers in each snapshot.
            hash.write(
                snapshot
                    .types()
                    .get(snapshot.type_of(node) as usize)
                    .map_or("", |info| &info.name)
                    .as_bytes(),
            );
        }
        hash.finish()
    }
}

/// Methods that await each other in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncStack {
    /// Types of the state machines, from the method that waits to the one that no other awaits.
    /// Among them are types of tasks that wait for others (`WhenAll`), and of what a thread blocks
    /// on that waits for a task; see [`is_link`].
    pub machines: Vec<String>,
    /// Where each of them stands, as its compiler counts: below zero it runs, or has not begun.
    /// `None` where that was not read.
    pub states: Vec<Option<i32>>,
    /// Type of the task that the first one waits for, where it is one that is no method: of a
    /// `TaskCompletionSource`, of a delay; or of what else it waits for.
    pub awaits: Option<String>,
    /// What kind that is.
    pub cause: Cause,
    /// How many there are.
    pub count: u64,
    /// Those of which every object has lived through two collections at least: the methods, and
    /// what the first one waits for.
    pub old: u64,
    /// Whether the first one waits for a task, which completes only once. What may be used again
    /// (an operation of a socket or a channel) proves no wait.
    pub for_task: bool,
    /// Those that wait for the same task since the first snapshot, where there was one: the same
    /// objects, at the same addresses, wait for each other.
    pub since_first: u64,
    /// There are more methods behind the first one: the stack is too deep.
    pub cut: bool,
}

/// What the method at the leaf of a stack waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A `TaskCompletionSource` that nobody has completed.
    CompletionSource,
    /// A task of another kind that somebody has to complete.
    Promise,
    /// Time: `Task.Delay`, a timer.
    Delay,
    /// A `SemaphoreSlim`.
    Semaphore,
    /// Work that was given to the thread pool, as by `Task.Run`.
    Work,
    /// Other tasks, which are not known: `WhenAll`, `WhenAny`, `ContinueWith`.
    Tasks,
    /// A channel.
    Channel,
    /// A pipe.
    Pipe,
    /// The network.
    Network,
    /// A file or stream.
    Stream,
    /// An object of another type.
    Other,
    /// Nothing: it runs, or is about to.
    Running,
    /// Not known.
    Unknown,
}

/// Methods in one stack at most.
const DEEPEST: usize = 512;

/// What is the same in stacks that count as one.
#[derive(PartialEq, Eq, Hash)]
struct Shape {
    /// From the root on.
    methods: Vec<(TypeId, Option<i32>)>,
    awaits: Option<TypeId>,
    cause: Cause,
    cut: bool,
}

impl Tasks {
    /// Finds them.
    pub fn of(snapshot: &Snapshot) -> Self {
        Self::find(snapshot, &Continuations::default())
    }

    /// Finds them, and which of them have waited since another snapshot of the process that came
    /// before.
    pub fn since(first: &Tasks, snapshot: &Snapshot) -> Self {
        Self::find(snapshot, &first.continuations)
    }

    fn find(snapshot: &Snapshot, before: &Continuations) -> Self {
        let kinds: Vec<Kind> = snapshot.types().iter().map(|info| Kind::of(&info.name)).collect();
        let mut graph =
            Graph { snapshot, kinds, completed_by_source: HashSet::new(), awaits: Vec::new() };
        let sources = snapshot.nodes().filter(|node| graph.kind(*node) == Kind::Source);
        let of_sources = sources.flat_map(|source| graph.references(source));
        graph.completed_by_source =
            of_sources.filter(|task| graph.kind(*task) == Kind::Task).collect();
        let pending: Vec<NodeId> = snapshot
            .nodes()
            .filter(|node| graph.kind(*node) == Kind::Method && graph.is_pending(*node))
            .collect();
        graph.connect(&pending);
        let mut awaited: Vec<NodeId> = graph.awaits.iter().map(|(_, awaited)| *awaited).collect();
        awaited.sort_unstable();
        awaited.dedup();
        let is_awaited = |node: &NodeId| awaited.binary_search(node).is_ok();

        // Whoever is awaited by nobody is a root; so is one of each ring.
        let mut roots: Vec<NodeId> = graph.awaits.iter().map(|(awaiter, _)| *awaiter).collect();
        roots.retain(|node| graph.kind(*node) == Kind::Link);
        roots.extend(&pending);
        roots.sort_unstable();
        roots.dedup();
        let mut seen = vec![false; snapshot.len()];
        let mut walk =
            Walk { graph: &graph, before, groups: HashMap::new(), steps: 0, left_out: 0 };
        for root in roots.iter().filter(|root| !is_awaited(root)) {
            walk.from(*root, &mut seen);
        }
        for root in &roots {
            if !seen[*root as usize] {
                walk.from(*root, &mut seen);
            }
        }

        let name =
            |id: TypeId| snapshot.types().get(id as usize).map_or("", |info| info.name.as_str());
        let shown = |id: TypeId| machine_of(name(id)).unwrap_or(name(id)).to_owned();
        let left_out = walk.left_out;
        let mut stacks: Vec<AsyncStack> = walk
            .groups
            .into_iter()
            .map(|(shape, group)| AsyncStack {
                machines: shape.methods.iter().rev().map(|(id, _)| shown(*id)).collect(),
                states: shape.methods.iter().rev().map(|(_, state)| *state).collect(),
                awaits: shape.awaits.map(|id| name(id).to_owned()),
                cause: shape.cause,
                count: group.count,
                old: group.old,
                for_task: group.for_task,
                since_first: group.since_first,
                cut: shape.cut,
            })
            .collect();
        order::sort_by(&mut stacks, |one, other| {
            let key = |stack: &AsyncStack| {
                (stack.machines.clone(), stack.states.clone(), stack.awaits.clone())
            };
            other.count.cmp(&one.count).then_with(|| key(one).cmp(&key(other)))
        });
        let mut by_machine: HashMap<TypeId, u64> = HashMap::new();
        for node in &pending {
            *by_machine.entry(snapshot.type_of(*node)).or_default() += 1;
        }
        let mut by_machine: Vec<(String, u64)> =
            by_machine.into_iter().map(|(id, count)| (shown(id), count)).collect();
        order::sort_by(&mut by_machine, |one, other| {
            other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0))
        });
        Self {
            pending: pending.len() as u64,
            by_machine,
            stacks,
            left_out,
            continuations: graph.continuations(),
        }
    }
}

/// How many stacks are alike.
#[derive(Clone, Copy, Default)]
struct Group {
    count: u64,
    old: u64,
    since_first: u64,
    for_task: bool,
}

/// What is known of the part of a stack above an object.
#[derive(Clone, Copy)]
struct Above {
    /// The method or link that awaits it.
    awaiter: Option<NodeId>,
    /// All of them are in the oldest generation.
    is_old: bool,
    /// All of them have awaited each other at the first snapshot.
    is_known: bool,
}

/// Puts stacks together.
struct Walk<'a> {
    graph: &'a Graph<'a>,
    /// Of the first snapshot.
    before: &'a Continuations,
    groups: HashMap<Shape, Group>,
    steps: u64,
    left_out: u64,
}

impl Walk<'_> {
    /// All stacks of one root.
    fn from(&mut self, root: NodeId, seen: &mut [bool]) {
        let (graph, snapshot) = (self.graph, self.graph.snapshot);
        let mut path: Vec<(TypeId, Option<i32>)> = Vec::new();
        let mut todo: Vec<(NodeId, usize, Above)> =
            vec![(root, 0, Above { awaiter: None, is_old: true, is_known: true })];
        while let Some((node, depth, above)) = todo.pop() {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                self.left_out += 1 + todo.len() as u64;
                return;
            }
            path.truncate(depth);
            let here = self.with(above, node);
            seen[node as usize] = true;
            let awaited = graph.awaited_by(node);
            let cut = depth + 1 >= DEEPEST && !awaited.is_empty();
            if graph.kind(node) != Kind::Task
                && (!awaited.is_empty() || graph.kind(node) == Kind::Method)
            {
                path.push((snapshot.type_of(node), graph.state(node)));
            }
            if !awaited.is_empty() && !cut {
                todo.extend(awaited.iter().map(|(_, awaited)| (*awaited, depth + 1, here)));
                continue;
            }
            if cut {
                // What lies deeper is no stack of its own.
                let mut rest: Vec<NodeId> = awaited.iter().map(|(_, awaited)| *awaited).collect();
                while let Some(node) = rest.pop() {
                    if !std::mem::replace(&mut seen[node as usize], true) {
                        rest.extend(graph.awaited_by(node).iter().map(|(_, awaited)| *awaited));
                    }
                }
            }
            let (leaf, cause) = if cut { (None, Cause::Unknown) } else { graph.leaf(node) };
            let awaits = leaf.map(|leaf| snapshot.type_of(leaf));
            let whole = match leaf {
                Some(leaf) if leaf != node => self.with(here, leaf),
                _ => here,
            };
            // Whether what is waited for completes once and for all.
            let is_task =
                leaf.is_some_and(|leaf| matches!(graph.kind(leaf), Kind::Task | Kind::Link));
            let shape = Shape { methods: path.clone(), awaits, cause, cut };
            let group = self.groups.entry(shape).or_default();
            group.count += 1;
            group.old += u64::from(whole.is_old);
            group.since_first += u64::from(whole.is_old && whole.is_known && is_task);
            group.for_task = is_task;
        }
    }

    /// What is known of a stack with one more object, which the last one awaits.
    fn with(&self, above: Above, node: NodeId) -> Above {
        let snapshot = self.graph.snapshot;
        let is_known = || {
            above.awaiter.is_none_or(|awaiter| {
                self.before.0.contains(&Continuations::key(snapshot, awaiter, node))
            })
        };
        Above {
            awaiter: Some(node),
            is_old: above.is_old && snapshot.generation_of(node) == 2,
            is_known: above.is_known && is_known(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names::is_task;
    use super::*;
    use crate::{Generation, MemoryBudget, SnapshotBuilder, SnapshotEnd};

    #[test]
    fn methods_are_told_by_who_awaits_whom() {
        const BUILDER: &str = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>";
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        builder.class(1, &format!("{BUILDER}+AsyncStateMachineBox<Shop+<Ask>d__1>"), "shop.dll");
        builder.class(2, &format!("{BUILDER}+AsyncStateMachineBox<Shop+<Order>d__2>"), "shop.dll");
        builder.class(3, "System.Threading.Tasks.Task<int>", "");
        builder.class(4, "object", "");
        builder.class(5, "System.Threading.Tasks.TaskCompletionSource<int>", "");
        // Ten orders, each of which awaits a question, each of which awaits one task; and one that
        // has ended.
        builder.object(0x1000, 3, 72);
        builder.object(0x1100, 5, 24);
        builder.reference(0x1000);
        for order in 0..10_u64 {
            let (ask, wait) = (0x2000 + order * 0x200, 0x2100 + order * 0x200);
            builder.object(ask, 1, 112);
            [0x1000, wait].into_iter().for_each(|to| builder.reference(to));
            builder.object(wait, 2, 112);
            builder.reference(ask);
        }
        builder.object(0x9000, 4, 24);
        builder.object(0x9100, 2, 112);
        builder.reference(0x9000);
        builder.generation(Generation { generation: 2, start: 0x1000, length: 0x2000 });
        let tasks = Tasks::of(&builder.finish(SnapshotEnd::default()));
        assert_eq!(tasks.pending, 20);
        let [stack] = &tasks.stacks[..] else { panic!("{tasks:?}") };
        assert_eq!(stack.machines, ["Shop+<Ask>d__1", "Shop+<Order>d__2"]);
        assert_eq!(stack.awaits.as_deref(), Some("System.Threading.Tasks.Task<int>"));
        assert_eq!((stack.count, stack.old, stack.since_first), (10, 8, 0));
    }

    /// What a snapshot has, as the program below makes it.
    struct Heap(SnapshotBuilder);

    impl Heap {
        fn new() -> Self {
            let mut builder = SnapshotBuilder::new(MemoryBudget::default());
            for (class, name) in [
                (
                    1,
                    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>+AsyncStateMachineBox<Ask>",
                ),
                (
                    2,
                    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>+AsyncStateMachineBox<Order>",
                ),
                (3, "System.Threading.Tasks.Task<int>"),
                (4, "System.Threading.Tasks.Task+DelayPromise"),
                (
                    5,
                    "System.Runtime.CompilerServices.PoolingAsyncValueTaskMethodBuilder<int>+StateMachineBox<Price>",
                ),
                (6, "System.Net.Sockets.Socket+AwaitableSocketAsyncEventArgs"),
            ] {
                builder.class(class, name, "");
            }
            builder.generation(Generation { generation: 2, start: 0x1000, length: 0x10000 });
            Self(builder)
        }

        fn object(&mut self, address: u64, class: u64, references: &[u64]) -> &mut Self {
            self.0.object(address, class, 64);
            references.iter().for_each(|to| self.0.reference(*to));
            self
        }

        fn done(self) -> Snapshot {
            self.0.finish(SnapshotEnd::default())
        }
    }

    /// How many of the stacks that end in a method are proven to wait since the first snapshot, and
    /// how many look so.
    fn since(first: &Snapshot, last: &Snapshot, leaf: &str) -> (u64, u64) {
        let tasks = Tasks::since(&Tasks::of(first), last);
        let of = tasks
            .stacks
            .iter()
            .filter(|stack| stack.machines.first().is_some_and(|name| name == leaf));
        of.fold((0, 0), |sum, stack| (sum.0 + stack.since_first, sum.1 + stack.old))
    }

    #[test]
    fn a_wait_lasts_only_where_the_same_objects_wait_for_the_same_task() {
        // An order awaits a question, which awaits a task.
        let chain = |task: u64, class| {
            let mut heap = Heap::new();
            heap.object(0x2000, 2, &[0x3000]).object(0x3000, 1, &[0x2000, task]).object(
                task,
                class,
                &[0x3000],
            );
            heap.done()
        };
        assert_eq!(since(&chain(0x4000, 3), &chain(0x4000, 3), "Ask"), (1, 1));
        // A loop that awaits a delay anew each time: the methods are old, the delay is another one.
        assert_eq!(since(&chain(0x20000, 4), &chain(0x21000, 4), "Ask"), (0, 0));
        assert_eq!(
            since(&chain(0x4000, 4), &chain(0x5000, 4), "Ask"),
            (0, 1),
            "it may have been moved"
        );
        assert_eq!(
            since(&chain(0x4000, 3), &chain(0x4000, 4), "Ask"),
            (0, 1),
            "another type stands there now"
        );
        // The task is the same, but no method awaited it at first.
        let mut begins = Heap::new();
        begins.object(0x2000, 2, &[0x3000]).object(0x3000, 1, &[0x2000, 0x4000]).object(
            0x4000,
            3,
            &[],
        );
        assert_eq!(since(&begins.done(), &chain(0x4000, 3), "Ask"), (0, 1));
        // The question is the same, but the order awaited something else at first.
        let mut begins = Heap::new();
        begins.object(0x2000, 2, &[0x3000]).object(0x3000, 1, &[0x4000]).object(
            0x4000,
            3,
            &[0x3000],
        );
        assert_eq!(since(&begins.done(), &chain(0x4000, 3), "Ask"), (0, 1));
    }

    #[test]
    fn what_is_used_again_proves_no_wait() {
        // The box of a pooled value task serves one call after the other: what counts is the task
        // that it waits for.
        let pooled = |delay: u64| {
            let mut heap = Heap::new();
            heap.object(0x2000, 2, &[0x3000]).object(0x3000, 5, &[0x2000, delay]).object(
                delay,
                4,
                &[0x3000],
            );
            heap.done()
        };
        assert_eq!(since(&pooled(0x4000), &pooled(0x4000), "Price"), (1, 1));
        assert_eq!(since(&pooled(0x20000), &pooled(0x21000), "Price"), (0, 0));
        // A socket's operation is the same object for all that is received.
        let socket = || {
            let mut heap = Heap::new();
            heap.object(0x3000, 1, &[0x4000]).object(0x4000, 6, &[0x3000]);
            heap.done()
        };
        assert_eq!(since(&socket(), &socket(), "Ask"), (0, 1));
    }

    #[test]
    fn a_long_chain_is_cut_and_a_ring_has_an_end() {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        builder.class(1, "B<int>+AsyncStateMachineBox<M>", "");
        const MANY: u64 = 2000;
        for one in 0..MANY {
            builder.object(0x1000 + one * 0x100, 1, 112);
            builder.reference(0x1000 + (one + 1) % MANY * 0x100);
            builder.reference(0x1000 + (one + MANY - 1) % MANY * 0x100);
        }
        let tasks = Tasks::of(&builder.finish(SnapshotEnd::default()));
        assert_eq!(tasks.pending, MANY);
        // The search enters the ring somewhere and continues from there in both directions.
        assert_eq!(tasks.stacks.iter().map(|stack| stack.count).sum::<u64>(), 2);
        assert!(
            tasks.stacks.iter().all(|stack| stack.machines.len() == DEEPEST && stack.cut),
            "{:?}",
            tasks.stacks
        );
    }

    /// The continuation of each task was read: a chain, a list of two that await one, and
    /// `WhenAll`.
    #[test]
    fn continuations_say_who_awaits_whom() {
        const BUILDER: &str = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>";
        const TASKS: &str = "System.Threading.Tasks";
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        for (class, name) in [
            (1, format!("{BUILDER}+AsyncStateMachineBox<Leaf>")),
            (2, format!("{BUILDER}+AsyncStateMachineBox<Middle>")),
            (3, format!("{BUILDER}+AsyncStateMachineBox<Root>")),
            (4, format!("{TASKS}.Task<int>")),
            (5, format!("{TASKS}.TaskCompletionSource<int>")),
            (6, format!("{TASKS}.Task+WhenAllPromise")),
            (7, "System.Collections.Generic.List<object>".to_owned()),
            (8, "object[]".to_owned()),
            (9, "System.Action".to_owned()),
            (10, "object".to_owned()),
            (11, "Shop".to_owned()),
        ] {
            builder.class(class, &name, "");
        }
        let mut object = |address: u64, class, references: &[u64]| {
            builder.object(address, class, 64);
            references.iter().for_each(|to| builder.reference(*to));
        };
        // Two methods await one leaf, which awaits a source; a root awaits all of two leaves that
        // run. A root that has ended has a result. All refer to the shop, and it to some of them.
        object(0x100, 5, &[0x200]);
        object(0x200, 4, &[0x300]);
        object(0x300, 9, &[0x400]);
        object(0x400, 1, &[0x200, 0x500, 0xf00]);
        object(0x500, 7, &[0x600]);
        object(0x600, 8, &[0x700, 0x800]);
        object(0x700, 2, &[0x400, 0xf00]);
        object(0x800, 2, &[0x400, 0xf00]);
        object(0x900, 1, &[0xb00, 0xf00]);
        object(0xa00, 1, &[0xb00, 0xf00]);
        object(0xb00, 6, &[0xc00, 0x900, 0xa00]);
        object(0xc00, 3, &[0xb00, 0xf00]);
        object(0xd00, 10, &[]);
        object(0xe00, 3, &[0xd00, 0xf00]);
        object(0xf00, 11, &[0x700, 0xc00]);
        for (task, next) in [
            (0x200, 0x300),
            (0x400, 0x500),
            (0x700, 0),
            (0x800, 0),
            (0x900, 0xb00),
            (0xa00, 0xb00),
            (0xb00, 0xc00),
            (0xc00, 0),
            (0xe00, 0xd00),
        ] {
            builder.continuation(task, next);
        }
        for (method, state) in
            [(0x400, 0), (0x700, 3), (0x800, 3), (0x900, -1), (0xa00, -1), (0xc00, 1), (0xe00, 0)]
        {
            builder.state(method, state);
        }
        let tasks = Tasks::of(&builder.finish(SnapshotEnd::default()));
        assert_eq!(tasks.pending, 6);
        let of = |count: u64, name: &str| (name.to_owned(), count);
        assert_eq!(tasks.by_machine, [of(3, "Leaf"), of(2, "Middle"), of(1, "Root")]);
        let [all, one] = &tasks.stacks[..] else { panic!("{tasks:?}") };
        let (all, one) = if one.cause == Cause::Running { (one, all) } else { (all, one) };
        assert_eq!(one.machines, ["Leaf", "Middle"]);
        assert_eq!(
            (&one.states[..], one.count, one.cause),
            (&[Some(0), Some(3)][..], 2, Cause::CompletionSource)
        );
        assert_eq!(one.awaits.as_deref(), Some("System.Threading.Tasks.Task<int>"));
        assert_eq!(all.machines, ["Leaf", "System.Threading.Tasks.Task+WhenAllPromise", "Root"]);
        assert_eq!((&all.states[..], all.count), (&[Some(-1), None, Some(1)][..], 2));
        assert_eq!(all.awaits, None);
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(
            machine_of("A<int>+AsyncStateMachineBox<Shop+<Ask>d__1<int>>"),
            Some("Shop+<Ask>d__1<int>")
        );
        assert_eq!(machine_of("A+DebugFinalizableAsyncStateMachineBox<M>"), Some("M"));
        assert_eq!(machine_of("Shop.Box<int>"), None);
        for (name, task) in [
            ("System.Threading.Tasks.Task", true),
            ("System.Threading.Tasks.Task<int>", true),
            ("System.Threading.Tasks.Task+DelayPromise", true),
            ("System.Threading.SemaphoreSlim+TaskNode", true),
            ("System.Threading.Tasks.TaskCompletionSource<int>", false),
            ("System.Threading.Tasks.TaskFactory", false),
            ("System.Threading.Tasks.Task+<>c", false),
        ] {
            assert_eq!(is_task(name), task, "{name}");
        }
    }
}
