//! Call trees on their way from the agent to the session file.

use super::{define::Definitions, frames::Frames};
use profilers::{calls::Calls, transitions::Transitions};
use rustc_hash::FxHashMap;
use session::{FrameTrust, FunctionId, FunctionKind, StackId, ThreadId};
use std::collections::HashMap;
use wire::{CallKind, CallNode};

/// Stands between a method that native code has called and what had called that native code.
const FROM_NATIVE: &str = "[called from native code]";

/// What is known of the trees, by their numbers.
#[derive(Default)]
pub(super) struct CallTrees {
    /// The thread, and the stacks of its nodes.
    trees: HashMap<u32, (ThreadId, FxHashMap<u32, StackId>)>,
}

impl CallTrees {
    /// Makes rows of what was added to a tree, and gives the number of calls. The thread of a tree
    /// is the one that its first record came with.
    pub fn grown(
        &mut self,
        frames: &Frames,
        definitions: &mut Definitions,
        calls: &wire::Calls,
        thread: ThreadId,
    ) -> u64 {
        let (thread, stacks) =
            self.trees.entry(calls.tree).or_insert_with(|| (thread, FxHashMap::default()));
        let (time, thread) = (calls.time, *thread);
        let mut all = 0_u64;
        for node in &calls.nodes {
            let stack = match stacks.get(&node.node) {
                Some(known) => *known,
                None => {
                    let made = stack_of(node, stacks, frames, definitions);
                    stacks.insert(node.node, made);
                    made
                }
            };
            let (count, own) = (node.count, node.own);
            match calls.kind {
                CallKind::Methods => {
                    definitions.row(&Calls { time, thread, stack, count, own });
                }
                CallKind::Transitions => {
                    definitions.row(&Transitions { time, thread, stack, count, own });
                }
            }
            all = all.saturating_add(count);
        }
        if calls.ended {
            self.trees.remove(&calls.tree);
        }
        all
    }
}

fn stack_of(
    node: &CallNode,
    stacks: &FxHashMap<u32, StackId>,
    frames: &Frames,
    definitions: &mut Definitions,
) -> StackId {
    let frame = |function: FunctionId, definitions: &mut Definitions| {
        definitions.frame(function, None, FrameTrust::Runtime)
    };
    let mut parent = stacks.get(&node.parent).copied();
    if node.from_native {
        let mark = definitions.named(FunctionKind::Native, FROM_NATIVE, None);
        let mark = frame(mark, definitions);
        parent = Some(definitions.child(parent, mark));
    }
    let function = node.method.and_then(|method| frames.function_of(method));
    let function =
        function.unwrap_or_else(|| definitions.named(FunctionKind::Unknown, "[unknown]", None));
    let leaf = frame(function, definitions);
    definitions.child(parent, leaf)
}
