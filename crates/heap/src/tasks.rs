use std::collections::HashMap;

use crate::snapshot::{NodeId, Snapshot, TypeId};

/// Asynchronous methods that have begun and not ended, and who awaits whom.
///
/// The runtime keeps such a method as an object, a box around its state machine that is the task of the method as well
/// (`AsyncTaskMethodBuilder<T>.AsyncStateMachineBox<M>`). Whoever awaits it refers to it by an awaiter, and is referred
/// to by it as what goes on after it: two boxes that refer to each other are a method and one that awaits it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Methods that wait.
    pub pending: u64,
    /// Them by who awaits whom, most frequent first.
    pub stacks: Vec<AsyncStack>,
}

/// Methods that await each other in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncStack {
    /// Types of the state machines, from the method that waits to the one that no other awaits.
    pub machines: Vec<String>,
    /// Type of the task that the first one waits for, where it is one that is no method: of a
    /// `TaskCompletionSource`, of a delay.
    pub awaits: Option<String>,
    /// How many there are.
    pub count: u64,
    /// How many of them have lived through two collections at least.
    pub old: u64,
}

/// What the name of every box has in it, before the type of the state machine.
const BOX: &str = "+AsyncStateMachineBox<";
/// The same in Debug builds of the base library's builder.
const DEBUG_BOX: &str = "+DebugFinalizableAsyncStateMachineBox<";

/// Methods in one stack at most.
const DEEPEST: usize = 512;

/// References of one box that are looked at.
const MOST_REFERENCES: usize = 256;

/// The state machine in the name of a box.
fn machine(name: &str) -> Option<&str> {
    let (_, after) = name.split_once(BOX).or_else(|| name.split_once(DEBUG_BOX))?;
    after.strip_suffix('>')
}

/// Whether objects of a type are tasks, but no methods.
fn is_task(name: &str) -> bool {
    let Some(kind) = name.strip_prefix("System.Threading.Tasks.Task") else {
        return name == "System.Threading.SemaphoreSlim+TaskNode";
    };
    kind.is_empty() || kind.starts_with('<') || (kind.starts_with('+') && kind.contains("Promise"))
}

/// A method that waits.
struct Pending {
    node: NodeId,
    /// Those that it refers to and that refer to it, by their places among all.
    near: Vec<usize>,
    awaits: Option<TypeId>,
}

impl Tasks {
    /// Finds them.
    pub fn of(snapshot: &Snapshot) -> Self {
        let types = snapshot.types();
        let boxes: Vec<bool> = types.iter().map(|info| machine(&info.name).is_some()).collect();
        let tasks: Vec<bool> = types.iter().map(|info| is_task(&info.name)).collect();
        let plain: Vec<bool> =
            types.iter().map(|info| matches!(info.name.as_str(), "object" | "System.Object")).collect();
        let is = |flags: &[bool], node: NodeId| flags.get(snapshot.type_of(node) as usize).copied().unwrap_or(false);
        let references = |node| snapshot.references(node).iter().take(MOST_REFERENCES);
        // One that has ended refers to nothing any more, but for a mark that it has.
        let waits = |node: &NodeId| is(&boxes, *node) && references(*node).any(|to| !is(&plain, *to));
        let nodes: Vec<NodeId> = snapshot.nodes().filter(waits).collect();
        let place = |node: NodeId| nodes.binary_search(&node).ok();
        let all: Vec<Pending> = nodes
            .iter()
            .map(|&node| {
                let both = |to: &&NodeId| **to != node && references(**to).any(|back| *back == node);
                let mut near: Vec<usize> = references(node).filter(both).filter_map(|to| place(*to)).collect();
                near.sort_unstable();
                near.dedup();
                let awaits = references(node).find(|to| is(&tasks, **to)).map(|to| snapshot.type_of(*to));
                Pending { node, near, awaits }
            })
            .collect();
        let mut groups: HashMap<(Vec<TypeId>, Option<TypeId>), (u64, u64)> = HashMap::new();
        let mut seen = vec![false; all.len()];
        // Those that wait for a task of their own are the ends where waiting begins; then the ends of what is left; then
        // what has no end.
        let begins: [fn(&Pending) -> bool; 3] = [|one| one.awaits.is_some(), |one| one.near.len() <= 1, |_| true];
        for begins in begins {
            for first in 0..all.len() {
                if seen[first] || !begins(&all[first]) {
                    continue;
                }
                let (mut chain, mut at) = (vec![first], first);
                seen[first] = true;
                while chain.len() < DEEPEST {
                    let mut next =
                        all[at].near.iter().copied().filter(|near| !seen[*near] && all[*near].awaits.is_none());
                    // Where several await one, each of the others begins a stack of its own.
                    let Some(one) = next.next() else { break };
                    seen[one] = true;
                    chain.push(one);
                    at = one;
                }
                let old = snapshot.generation_of(all[first].node) == 2;
                let machines = chain.iter().map(|at| snapshot.type_of(all[*at].node)).collect();
                let group = groups.entry((machines, all[first].awaits)).or_default();
                group.0 += 1;
                group.1 += u64::from(old);
            }
        }
        let name = |id: TypeId| types.get(id as usize).map(|info| info.name.as_str()).unwrap_or_default();
        let mut stacks: Vec<AsyncStack> = groups
            .into_iter()
            .map(|((machines, awaits), (count, old))| AsyncStack {
                machines: machines.into_iter().map(|id| machine(name(id)).unwrap_or_default().to_owned()).collect(),
                awaits: awaits.map(|id| name(id).to_owned()),
                count,
                old,
            })
            .collect();
        stacks.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.machines.cmp(&other.machines)));
        Self { pending: all.len() as u64, stacks }
    }
}

#[cfg(test)]
mod tests {
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
        // Ten orders, each of which awaits a question, each of which awaits one task; and one that has ended.
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
        assert_eq!((stack.count, stack.old), (10, 8));
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
        assert_eq!(tasks.stacks.iter().map(|stack| stack.machines.len() as u64 * stack.count).sum::<u64>(), MANY);
        assert!(tasks.stacks.iter().all(|stack| stack.machines.len() <= DEEPEST));
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(machine("A<int>+AsyncStateMachineBox<Shop+<Ask>d__1<int>>"), Some("Shop+<Ask>d__1<int>"));
        assert_eq!(machine("A+DebugFinalizableAsyncStateMachineBox<M>"), Some("M"));
        assert_eq!(machine("Shop.Box<int>"), None);
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
