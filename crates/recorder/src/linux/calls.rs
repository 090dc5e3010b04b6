//! Call trees on their way from the agent to the session file.

use super::{define::Definitions, frames::Frames};
use rustc_hash::FxHashMap;
use session::{CallBatch, CallKind, FrameTrust, FunctionId, FunctionKind, StackId, ThreadId};
use std::collections::HashMap;
use wire::{CallNode, Calls};

/// Stands between a method that native code has called and what had called that native code.
const FROM_NATIVE: &str = "[called from native code]";

/// What is known of the trees, by their numbers.
#[derive(Default)]
pub(super) struct CallTrees {
    /// The thread, and the stacks of its nodes.
    trees: HashMap<u32, (ThreadId, FxHashMap<u32, StackId>)>,
}

impl CallTrees {
    /// What was added to a tree, as a batch for the session; `None` for nothing. The thread of a
    /// tree is the one that its first record came with.
    pub fn grown(
        &mut self,
        frames: &Frames,
        definitions: &mut Definitions,
        calls: &Calls,
        thread: ThreadId,
    ) -> Option<CallBatch> {
        let (thread, stacks) =
            self.trees.entry(calls.tree).or_insert_with(|| (thread, FxHashMap::default()));
        let thread = *thread;
        let kind = match calls.kind {
            wire::CallKind::Methods => CallKind::Methods,
            wire::CallKind::Transitions => CallKind::Transitions,
        };
        let (stack, count, own) = (Vec::new(), Vec::new(), Vec::new());
        let mut batch = CallBatch { kind, time: calls.time, thread, stack, count, own };
        for node in &calls.nodes {
            let stack = match stacks.get(&node.node) {
                Some(known) => *known,
                None => {
                    let made = stack_of(node, stacks, frames, definitions);
                    stacks.insert(node.node, made);
                    made
                }
            };
            batch.stack.push(stack);
            batch.count.push(node.count);
            batch.own.push(node.own);
        }
        if calls.ended {
            self.trees.remove(&calls.tree);
        }
        (!batch.stack.is_empty()).then_some(batch)
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
