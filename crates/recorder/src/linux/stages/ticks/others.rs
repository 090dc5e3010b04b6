//! Ticks of profilers that are known by their sources alone.

use super::Ticks;
use crate::linux::{
    blocked::{PendingTick, Purpose},
    context::Context,
    held::HOLD,
    running::near,
    sources::{self, Source, Tick, TickedThread},
};
use std::collections::HashMap;
use wire::WallTick;

impl Ticks {
    /// A tick of such a profiler.
    pub fn thread_tick(&mut self, cx: &Context, profiler: &str, tick: WallTick) {
        // The agent is not believed: a profiler that does not run has no ticks.
        let Some(source) = sources::of_ticks(profiler).filter(|_| cx.runs(profiler)) else {
            return;
        };
        let time = tick.time.max(cx.window.start);
        let previous = self.others.insert(source.profiler(), time);
        let (purpose, splits) = (Purpose::Source(source), HashMap::new());
        self.blocked.tick(PendingTick { purpose, tick, previous, splits });
    }

    /// Hands the threads of a tick that are of interest to the source of its profiler. The first
    /// tick stands for no time yet.
    pub(super) fn source_tick(
        &mut self,
        cx: &mut Context,
        source: &Source,
        tick: &WallTick,
        previous: Option<u64>,
    ) {
        let Some(previous) = previous.filter(|_| cx.window.holds(tick.time)) else { return };
        let elapsed = tick.time.saturating_sub(previous);
        let mut threads = Vec::new();
        for sample in &tick.threads {
            let os_tid = cx.target.host_tid(sample.os_tid);
            let target = &cx.target;
            let thread = cx.definitions.thread_at(os_tid, tick.time, || target.thread_name(os_tid));
            let (mut stack, _) = cx.frames.walked(&mut cx.definitions, sample.stack);
            if self.reads_blocked
                && sample.state == b'R'
                && let Some(running) = cx.held.running.at(thread, tick.time, near(elapsed, HOLD))
            {
                stack = running.stack;
            }
            if source.is_of_interest(&mut cx.for_sources(), os_tid, stack) {
                let state = self.state_of(cx, os_tid, sample, stack);
                threads.push(TickedThread { thread, stack, state });
            }
        }
        if source.counts_ticks() {
            cx.count(source.profiler(), threads.len() as u64);
        }
        source.write_tick(&mut cx.for_sources(), &Tick { time: tick.time, elapsed, threads });
    }
}
