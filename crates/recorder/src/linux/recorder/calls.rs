//! Sums of calls and of allocated objects.

use super::*;

impl Recorder {
    pub(super) fn calls(&mut self, calls: &Calls) {
        let os_tid = self.sources.target.host_tid(calls.os_tid);
        let target = &self.sources.target;
        let thread = self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid));
        let count = self.call_trees.grown(&self.frames, &mut self.definitions, calls, thread);
        let profiler = match calls.kind {
            // The tree of calls that are counted by themselves.
            CallKind::Methods if self.runs("trace") => None,
            CallKind::Methods => Some("calls"),
            CallKind::Transitions => Some("transitions"),
        };
        if let Some(profiler) = profiler {
            self.count(profiler, count);
        }
    }

    pub(super) fn allocated(&mut self, allocated: AllocatedObjects) {
        let os_tid = self.sources.target.host_tid(allocated.os_tid);
        let target = &self.sources.target;
        let thread = self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid));
        let time = allocated.time;
        let mut all = 0_u64;
        for (class, objects, bytes) in allocated.counts {
            let ty = self.definitions.ty(&self.frames.class_name(class));
            self.definitions.row(&Allocated { time, thread, ty, objects, bytes });
            all = all.saturating_add(objects);
        }
        self.count("exact-allocations", all);
    }
}
