//! Collections and pauses out of the runtime's events.

use crate::runtime::{self, GcKind, GcReason, HeapStats, RuntimeEvent, SuspendReason};
use crate::{Collect, Event, Located, thread_id};
use rows::StackId;
use std::collections::VecDeque;
use std::sync::Arc;

pub use profilers::gc::{Collection, Induced, Pause};

/// What a [`Collector`] gives, each when it is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A call that induces a collection. The collection itself follows as [`Output::Gc`].
    /// It has no stack in a session without stacks, and where no managed code calls.
    Induced(Located<Induced>),
    /// A collection.
    Gc(Collection),
    /// A pause.
    Pause(Pause),
}

/// Makes collections and pauses out of events that come in the order of their times.
///
/// Events of other kinds are passed over. What began before the first event is left out, since half
/// of it is not known; what has not ended at the last event likewise.
#[derive(Debug, Default)]
pub struct Collector {
    /// Collections that run: a background one, and a foreground one within it.
    running: Vec<Running>,
    /// Collections that have ended and wait for the heap's sizes, with the thread that will tell.
    ended: VecDeque<(u64, Collection)>,
    /// Threads that began to stop the others. More than one may want to; only one succeeds at a
    /// time.
    suspending: Vec<Suspending>,
    /// The pause for which the runtime is suspended now.
    standing: Option<Standing>,
    /// Threads that let the others go, and have not said yet that it is done.
    resuming: Vec<(u64, Standing)>,
    output: VecDeque<Output>,
}

/// Most threads that are followed in each list; there are one or two in practice.
const MAX_OPEN: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Running {
    number: u32,
    generation: u32,
    reason: GcReason,
    kind: GcKind,
    start: u64,
}

#[derive(Clone, Copy, Debug)]
struct Suspending {
    thread: u64,
    reason: SuspendReason,
    start: u64,
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    reason: SuspendReason,
    gc: Option<u32>,
    suspend_start: u64,
    suspend_end: u64,
    resume_start: u64,
}

/// Removes and gives the first element for which `wanted` holds.
fn take<T>(list: &mut Vec<T>, wanted: impl Fn(&T) -> bool) -> Option<T> {
    let at = list.iter().position(wanted)?;
    Some(list.remove(at))
}

/// Adds to a list that must not grow for ever; the oldest goes.
fn push<T>(list: &mut Vec<T>, element: T) {
    if list.len() >= MAX_OPEN {
        list.remove(0);
    }
    list.push(element);
}

impl Collector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn push_parsed(&mut self, time: u64, thread: u64, event: &RuntimeEvent) {
        match *event {
            RuntimeEvent::GcStart { number, generation, reason, kind } => {
                self.start(Running { number, generation, reason, kind, start: time });
            }
            RuntimeEvent::GcEnd { number, .. } => self.end(time, thread, number),
            RuntimeEvent::GcHeapStats(stats) => self.heap_stats(thread, &stats),
            RuntimeEvent::SuspendBegin { reason, .. } => {
                // A thread that begins anew has given up before, or we missed its end.
                self.suspending.retain(|suspending| suspending.thread != thread);
                push(&mut self.suspending, Suspending { thread, reason, start: time });
            }
            RuntimeEvent::SuspendEnd => {
                let suspending =
                    take(&mut self.suspending, |suspending| suspending.thread == thread);
                self.standing = suspending.map(|suspending| Standing {
                    reason: suspending.reason,
                    gc: None,
                    suspend_start: suspending.start,
                    suspend_end: time,
                    resume_start: 0,
                });
            }
            RuntimeEvent::RestartBegin => {
                // Another thread than the one that suspended the threads may resume them: a
                // background collection does so.
                if let Some(mut pause) = self.standing.take() {
                    pause.resume_start = time;
                    pause.gc = pause.gc.or_else(|| self.gc_of_pause(pause.reason));
                    push(&mut self.resuming, (thread, pause));
                }
            }
            RuntimeEvent::RestartEnd => {
                if let Some((_, pause)) =
                    take(&mut self.resuming, |(resuming, _)| *resuming == thread)
                {
                    self.output.push_back(Output::Pause(Pause {
                        reason: pause.reason.name(),
                        gc: pause.gc,
                        suspend_start: pause.suspend_start,
                        suspend_end: pause.suspend_end,
                        resume_start: pause.resume_start,
                        resume_end: time,
                    }));
                }
            }
            RuntimeEvent::GcTriggered { .. } | RuntimeEvent::GcGlobalHeapHistory(_) => {}
        }
    }

    fn start(&mut self, gc: Running) {
        self.running.retain(|running| running.number != gc.number);
        push(&mut self.running, gc);
        // The first collection that starts while the runtime is suspended is the reason for the
        // pause: before a background collection another one may run in the same pause.
        if let Some(pause) = &mut self.standing
            && matches!(pause.reason, SuspendReason::Gc | SuspendReason::GcPrep)
        {
            pause.gc.get_or_insert(gc.number);
        }
    }

    /// The collection of a pause in which none started: the background collection that needs it.
    fn gc_of_pause(&self, reason: SuspendReason) -> Option<u32> {
        if !matches!(reason, SuspendReason::Gc | SuspendReason::GcPrep) {
            return None;
        }
        let background =
            self.running.iter().rev().find(|running| running.kind == GcKind::Background);
        background.map(|running| running.number)
    }

    fn end(&mut self, time: u64, thread: u64, number: u32) {
        let Some(gc) = take(&mut self.running, |running| running.number == number) else { return };
        if self.ended.len() >= MAX_OPEN
            && let Some((_, oldest)) = self.ended.pop_front()
        {
            self.output.push_back(Output::Gc(oldest));
        }
        let gc = Collection {
            number,
            generation: u8::try_from(gc.generation).unwrap_or(u8::MAX),
            reason: gc.reason.name(),
            kind: gc.kind.name(),
            induced: gc.reason.is_induced(),
            start: gc.start,
            end: time,
            size_after: [0; 5],
            promoted: [0; 5],
            pinned_objects: 0,
            gc_handles: 0,
        };
        self.ended.push_back((thread, gc));
    }

    fn heap_stats(&mut self, thread: u64, stats: &HeapStats) {
        let at = self.ended.iter().position(|(ended, _)| *ended == thread);
        let Some((_, mut gc)) = at.and_then(|at| self.ended.remove(at)) else { return };
        gc.size_after = stats.size;
        gc.promoted = stats.promoted;
        gc.pinned_objects = stats.pinned_objects;
        gc.gc_handles = stats.gc_handles;
        self.output.push_back(Output::Gc(gc));
    }
}

impl Collect for Collector {
    type Output = Output;

    fn push(&mut self, event: &Event) {
        if let Some(parsed) = runtime::parse(event) {
            if let RuntimeEvent::GcTriggered { reason } = parsed
                && reason.is_induced()
            {
                self.output.push_back(Output::Induced(Located {
                    row: Induced {
                        time: event.timestamp,
                        thread: thread_id(event.thread_id),
                        stack: StackId::UNDEFINED,
                        truncated: false,
                    },
                    stack: Arc::clone(&event.stack),
                }));
            }
            self.push_parsed(event.timestamp, event.capture_thread_id, &parsed);
        }
    }

    fn next_output(&mut self) -> Option<Self::Output> {
        self.output.pop_front()
    }

    /// Gives out collections that wait for the heap's sizes; for the end, when no more events come.
    fn finish(&mut self) {
        let ended = self.ended.drain(..).map(|(_, gc)| Output::Gc(gc));
        self.output.extend(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start(number: u32, generation: u32, kind: GcKind) -> RuntimeEvent {
        RuntimeEvent::GcStart { number, generation, reason: GcReason::AllocSmall, kind }
    }

    fn end(number: u32) -> RuntimeEvent {
        RuntimeEvent::GcEnd { number, generation: 0 }
    }

    fn stats(size: u64) -> RuntimeEvent {
        RuntimeEvent::GcHeapStats(HeapStats { size: [size, 0, 0, 0, 0], ..HeapStats::default() })
    }

    fn suspend(reason: SuspendReason) -> RuntimeEvent {
        RuntimeEvent::SuspendBegin { reason, last_gc: 0 }
    }

    /// Feeds events with their threads, one time unit apart, and gives what came out.
    fn collect(events: &[(u64, RuntimeEvent)]) -> Vec<Output> {
        let mut collector = Collector::new();
        for (time, (thread, event)) in (1..).zip(events) {
            collector.push_parsed(time, *thread, event);
        }
        collector.finish();
        std::iter::from_fn(|| collector.next_output()).collect()
    }

    fn pauses(output: &[Output]) -> Vec<(Option<u32>, [u64; 4])> {
        let pauses = output.iter().filter_map(|output| match output {
            Output::Pause(pause) => Some((
                pause.gc,
                [pause.suspend_start, pause.suspend_end, pause.resume_start, pause.resume_end],
            )),
            Output::Gc(_) | Output::Induced(_) => None,
        });
        pauses.collect()
    }

    fn gcs(output: &[Output]) -> Vec<(u32, u64, u64, u64)> {
        let gcs = output.iter().filter_map(|output| match output {
            Output::Gc(gc) => Some((gc.number, gc.start, gc.end, gc.size_after[0])),
            Output::Pause(_) | Output::Induced(_) => None,
        });
        gcs.collect()
    }

    #[test]
    fn a_blocking_collection() {
        let output = collect(&[
            (1, suspend(SuspendReason::Gc)),
            (1, RuntimeEvent::SuspendEnd),
            (1, start(5, 0, GcKind::NonConcurrent)),
            (1, end(5)),
            (1, stats(70)),
            (1, RuntimeEvent::RestartBegin),
            (1, RuntimeEvent::RestartEnd),
        ]);
        assert_eq!(gcs(&output), [(5, 3, 4, 70)]);
        assert_eq!(pauses(&output), [(Some(5), [1, 2, 6, 7])]);
    }

    #[test]
    fn a_background_collection_with_a_foreground_one_inside() {
        let output = collect(&[
            // 1: the background collection begins; another thread than the one that suspended the
            // runtime resumes it.
            (1, suspend(SuspendReason::Gc)),
            (1, RuntimeEvent::SuspendEnd),
            (1, start(5, 2, GcKind::Background)),
            (9, RuntimeEvent::RestartBegin),
            (9, RuntimeEvent::RestartEnd),
            // 6: a foreground collection on another thread.
            (2, suspend(SuspendReason::Gc)),
            (2, RuntimeEvent::SuspendEnd),
            (2, start(6, 0, GcKind::Foreground)),
            (2, end(6)),
            (2, stats(60)),
            (2, RuntimeEvent::RestartBegin),
            (2, RuntimeEvent::RestartEnd),
            // 13: the second stop of the background collection.
            (9, suspend(SuspendReason::GcPrep)),
            (9, RuntimeEvent::SuspendEnd),
            (9, RuntimeEvent::RestartBegin),
            (9, RuntimeEvent::RestartEnd),
            (9, end(5)),
            (9, stats(50)),
        ]);
        assert_eq!(gcs(&output), [(6, 8, 9, 60), (5, 3, 17, 50)]);
        assert_eq!(
            pauses(&output),
            [(Some(5), [1, 2, 4, 5]), (Some(6), [6, 7, 11, 12]), (Some(5), [13, 14, 15, 16])]
        );
    }

    #[test]
    fn two_threads_want_to_stop_the_world() {
        let output = collect(&[
            (1, suspend(SuspendReason::Gc)),
            (2, suspend(SuspendReason::Unspecified)),
            (1, RuntimeEvent::SuspendEnd),
            (1, start(5, 0, GcKind::NonConcurrent)),
            (1, end(5)),
            (1, RuntimeEvent::RestartBegin),
            // The second stops it before the first has said that it is done.
            (2, RuntimeEvent::SuspendEnd),
            (1, RuntimeEvent::RestartEnd),
            (2, RuntimeEvent::RestartBegin),
            (2, RuntimeEvent::RestartEnd),
        ]);
        assert_eq!(pauses(&output), [(Some(5), [1, 3, 6, 8]), (None, [2, 7, 9, 10])]);
        assert_eq!(gcs(&output), [(5, 4, 5, 0)]);
    }

    #[test]
    fn what_began_before_is_left_out() {
        let output = collect(&[
            (1, end(4)),
            (1, stats(1)),
            (1, RuntimeEvent::RestartBegin),
            (1, RuntimeEvent::RestartEnd),
            (1, RuntimeEvent::SuspendEnd),
            (1, RuntimeEvent::RestartBegin),
            (1, RuntimeEvent::RestartEnd),
        ]);
        assert_eq!(output, []);
    }

    proptest! {
        #[test]
        fn any_order_is_survived(events in proptest::collection::vec((0u64..4, 0u32..9, 0u32..4), 0..300)) {
            let events: Vec<_> = events.into_iter().map(|(thread, kind, number)| (thread, match kind {
                0 => suspend(SuspendReason::from_number(number)),
                1 => RuntimeEvent::SuspendEnd,
                2 => RuntimeEvent::RestartBegin,
                3 => RuntimeEvent::RestartEnd,
                4 | 5 => start(number, 0, GcKind::from_number(kind - 4)),
                6 | 7 => end(number),
                _ => stats(1),
            })).collect();
            for output in collect(&events) {
                match output {
                    Output::Induced(_) => {}
                    Output::Gc(gc) => prop_assert!(gc.start < gc.end),
                    Output::Pause(pause) => {
                        prop_assert!(pause.suspend_start < pause.suspend_end);
                        prop_assert!(pause.suspend_end < pause.resume_start && pause.resume_start < pause.resume_end);
                    }
                }
            }
        }
    }
}
