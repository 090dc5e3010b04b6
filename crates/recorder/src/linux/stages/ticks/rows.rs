//! Rows of ticks, which the sources of profilers make.

use super::Ticks;
use crate::linux::{
    context::Context,
    held::HOLD,
    running::near,
    sources::{Source, Tick, TickedThread},
};
use wire::WallTick;

impl Ticks {
    /// Hands the threads of a tick that are of interest to the source of its profiler. The first
    /// tick stands for no time yet.
    pub(super) fn rows_of_tick(
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
