//! Sums that the agent makes of what happens too often to be reported individually: calls, and
//! allocated objects.

use super::stage::Stage;
use crate::linux::{calls::CallTrees, context::Context};
use profilers::exact_allocations::Allocated;
use wire::{AllocatedObjects, CallKind};

/// The profilers `calls`, `transitions` and `exact-allocations`.
#[derive(Default)]
pub(in crate::linux) struct Calls {
    trees: CallTrees,
}

impl Calls {
    /// What was added to the call tree of a thread.
    pub fn grown(&mut self, cx: &mut Context, calls: &wire::Calls) {
        let os_tid = cx.target.host_tid(calls.os_tid);
        let thread = cx.thread_or_ended(os_tid);
        let count = self.trees.grown(&cx.frames, &mut cx.definitions, calls, thread);
        let profiler = match calls.kind {
            // The tree of calls that are counted by themselves.
            CallKind::Methods if cx.runs("trace") => None,
            CallKind::Methods => Some("calls"),
            CallKind::Transitions => Some("transitions"),
        };
        if let Some(profiler) = profiler {
            cx.count(profiler, count);
        }
    }

    /// What a thread has allocated since the last time.
    pub fn allocated(&mut self, cx: &mut Context, allocated: AllocatedObjects) {
        let os_tid = cx.target.host_tid(allocated.os_tid);
        let thread = cx.thread_or_ended(os_tid);
        let time = allocated.time;
        let mut all = 0_u64;
        for (class, objects, bytes) in allocated.counts {
            let ty = cx.definitions.ty(&cx.frames.class_name(class));
            cx.definitions.row(&Allocated { time, thread, ty, objects, bytes });
            all = all.saturating_add(objects);
        }
        cx.count("exact-allocations", all);
    }
}

impl Stage for Calls {}
