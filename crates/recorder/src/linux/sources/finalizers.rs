//! `finalizers`: objects whose finalizers run, and the thread that runs them.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits. What the
//! finalizer thread reports comes in this order, as seen on .NET Core 3.1 to .NET 9:
//! `GCFinalizersBegin`, `PrvFinalizeObject` before each finalizer, `GCFinalizersEnd`.

use super::{Context, EventReader, EventSample, Made, OfTicks, Samples, Source, Tick};
use crate::linux::window::Window;
use nettrace::{
    Event, Fields,
    runtime::{PROVIDER, RuntimeEvent, parse},
};
use profilers::finalizers::{Doing, Finalized, Queued, Run, SPEC, Seen, Unfinished};
use session::{StackId, ThreadState};
use std::collections::HashMap;

pub const SOURCE: Source = Source {
    ticks: Some(OfTicks { is_of_interest: is_finalizer_thread, made: Made::Rows(write_tick) }),
    ..Source::of_events(SPEC.id, |_| Box::new(Reader::default()))
};

/// The provider of [`FINALIZE_OBJECT`].
const PRIVATE_PROVIDER: &str = "Microsoft-Windows-DotNETRuntimePrivate";

/// `GCFinalizersEnd` and `GCFinalizersBegin` of the public provider.
const FINALIZERS_END: u32 = 13;
const FINALIZERS_BEGIN: u32 = 14;
/// `PrvFinalizeObject`: the finalizer of an object is about to run.
const FINALIZE_OBJECT: u32 = 192;

/// Longest name of a type, in UTF-16 units.
const MAX_NAME: usize = 4096;

/// How long objects are summed up, in nanoseconds, and how many types at most.
const SUMMED: u64 = 250_000_000;
const MAX_TYPES: usize = 4096;

/// Stands for the types beyond [`MAX_TYPES`].
const OTHER_TYPES: &str = "[other types]";

/// The name of the finalizer thread, from .NET 5 on.
const THREAD_NAME: &str = ".NET Finalizer";

/// Reads the events of a session.
#[derive(Default)]
struct Reader {
    thread: Option<u64>,
    /// The object whose finalizer runs: when that began, and its type.
    current: Option<(u64, String)>,
    /// When the thread began to empty the queue.
    run: Option<u64>,
    /// Objects since the last sums were given out, by type; and when the first of them came.
    sums: HashMap<String, Sum>,
    since: u64,
}

/// Objects of one type whose finalizers have returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    /// When the last began.
    time: u64,
    objects: u64,
    took: u64,
    longest: u64,
}

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        let (provider, id) = (event.ty.provider.as_str(), event.ty.id);
        self.push_fields(provider, id, event.timestamp, event.thread_id, &event.payload, out);
        if let Some(RuntimeEvent::GcHeapStats(stats)) = parse(event) {
            let (objects, promoted) =
                (stats.finalization_promoted_count, stats.finalization_promoted_size);
            if objects > 0 {
                out.push(Box::new(Queued { time: event.timestamp, objects, promoted }));
            }
        }
        if event.timestamp.saturating_sub(self.since) >= SUMMED {
            self.give_sums(out);
        }
    }

    fn finish(&mut self, out: &mut Samples) {
        self.give_sums(out);
        if let Some((time, type_name)) = self.current.take() {
            out.push(Box::new(StillRuns { time, type_name }));
        }
    }
}

impl Reader {
    fn push_fields(
        &mut self,
        provider: &str,
        id: u32,
        time: u64,
        thread: u64,
        payload: &[u8],
        out: &mut Samples,
    ) {
        match (provider, id) {
            (PROVIDER, FINALIZERS_BEGIN) => self.run = Some(time),
            (PROVIDER, FINALIZERS_END) => {
                self.returned(time);
                let objects = Fields(payload).u32().map(u64::from);
                if let (Some(start), Some(objects)) = (self.run.take(), objects)
                    && objects > 0
                {
                    out.push(Box::new(Run {
                        time: start,
                        duration: time.saturating_sub(start),
                        objects,
                    }));
                }
            }
            (PRIVATE_PROVIDER, FINALIZE_OBJECT) => {
                self.returned(time);
                self.current = type_name(payload).map(|name| (time, name));
            }
            _ => return,
        }
        if self.thread.replace(thread) != Some(thread) {
            out.push(Box::new(IsFinalizerThread { thread }));
        }
    }

    /// The finalizer that ran has returned.
    fn returned(&mut self, time: u64) {
        let Some((began, name)) = self.current.take() else { return };
        if self.sums.is_empty() {
            self.since = time;
        }
        let is_full = self.sums.len() >= MAX_TYPES && !self.sums.contains_key(&name);
        let name = if is_full { OTHER_TYPES.to_owned() } else { name };
        let sum = self.sums.entry(name).or_default();
        let took = time.saturating_sub(began);
        sum.time = began;
        sum.objects += 1;
        sum.took = sum.took.saturating_add(took);
        sum.longest = sum.longest.max(took);
    }

    fn give_sums(&mut self, out: &mut Samples) {
        for (type_name, sum) in self.sums.drain() {
            out.push(Box::new(OfType { type_name, sum }));
        }
    }
}

/// The type in the fields of `PrvFinalizeObject`: `TypeID`, `ObjectID`, `ClrInstanceID`,
/// `TypeName`.
fn type_name(payload: &[u8]) -> Option<String> {
    let mut fields = Fields(payload);
    let _ids = (fields.u64()?, fields.u64()?, fields.u16()?);
    fields.utf16z(MAX_NAME)
}

/// It is known which thread runs finalizers.
#[derive(Debug)]
struct IsFinalizerThread {
    /// In the pid namespace of the process.
    thread: u64,
}

/// The finalizer thread's id of the operating system, where it is known.
#[derive(Default)]
struct FinalizerThread(Option<u32>);

impl EventSample for IsFinalizerThread {
    fn time(&self) -> u64 {
        0
    }

    fn clip(&mut self, _window: &Window) -> bool {
        true
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let os_tid = context.host_tid(self.thread);
        context.states.of::<FinalizerThread>().0 = Some(os_tid);
    }
}

/// Objects of one type whose finalizers have returned.
#[derive(Debug)]
struct OfType {
    type_name: String,
    sum: Sum,
}

impl EventSample for OfType {
    fn time(&self) -> u64 {
        self.sum.time
    }

    fn count(&self) -> u64 {
        self.sum.objects
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let ty = context.type_of_events(self.type_name);
        let Sum { time, objects, took, longest } = self.sum;
        context.row(&Finalized { time, ty, objects, took, longest });
    }
}

/// A finalizer that has not returned.
#[derive(Debug)]
struct StillRuns {
    time: u64,
    type_name: String,
}

impl EventSample for StillRuns {
    fn time(&self) -> u64 {
        self.time
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let ty = context.type_of_events(self.type_name);
        context.row(&Unfinished { time: self.time, ty });
    }
}

impl EventSample for Queued {
    fn time(&self) -> u64 {
        self.time
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
    }
}

impl EventSample for Run {
    fn time(&self) -> u64 {
        self.time
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.row(&*self);
    }
}

/// Whether a thread is the finalizer thread: by its events, by its name, or because a finalizer is
/// the outermost method on its stack.
fn is_finalizer_thread(context: &mut Context<'_>, os_tid: u32, stack: StackId) -> bool {
    if let Some(known) = context.states.of::<FinalizerThread>().0 {
        return known == os_tid;
    }
    let is_named =
        context.definitions.thread_name(os_tid).is_some_and(|name| name.starts_with(THREAD_NAME));
    let outermost = context.frames.leaf_names(context.definitions, stack).last();
    let is_it = is_named || outermost.is_some_and(|(_, method)| method == "Finalize");
    if is_it {
        context.states.of::<FinalizerThread>().0 = Some(os_tid);
    }
    is_it
}

fn write_tick(context: &mut Context<'_>, tick: &Tick) {
    for seen in &tick.threads {
        let doing = match seen.state {
            ThreadState::Idle => Doing::Idle,
            ThreadState::Lock => Doing::Lock,
            ThreadState::Sleep => Doing::Sleep,
            ThreadState::Io => Doing::Io,
            ThreadState::Task => Doing::Task,
            ThreadState::Event => Doing::Event,
            // What it has no processor for, and what the runtime does meanwhile, is work, too.
            ThreadState::Running
            | ThreadState::Gc
            | ThreadState::Runtime
            | ThreadState::NoProcessor
            | ThreadState::Throttled => Doing::Running,
            ThreadState::Other => Doing::Other,
        };
        let (thread, stack) = (seen.thread, seen.stack);
        context.row(&Seen { time: tick.time, elapsed: tick.elapsed, thread, stack, doing });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Vec<u8> {
        let name = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        [0; 18].into_iter().chain(name).collect()
    }

    fn shown(out: &Samples) -> Vec<String> {
        let mut shown: Vec<String> = out.iter().map(|sample| format!("{sample:?}")).collect();
        shown.sort();
        shown
    }

    #[test]
    fn each_finalizer_is_measured_up_to_the_next_one_or_the_end_of_the_run() {
        let (mut reader, mut out) = (Reader::default(), Samples::new());
        let mut push = |id, time, payload: &[u8], out: &mut Samples| {
            let private = id == FINALIZE_OBJECT;
            let provider = if private { PRIVATE_PROVIDER } else { PROVIDER };
            reader.push_fields(provider, id, time, 7, payload, out);
        };
        push(FINALIZERS_BEGIN, 100, &[0, 0], &mut out);
        push(FINALIZE_OBJECT, 110, &object("A"), &mut out);
        push(FINALIZE_OBJECT, 150, &object("B"), &mut out);
        push(FINALIZE_OBJECT, 160, &object("A"), &mut out);
        push(FINALIZERS_END, 260, &[3, 0, 0, 0, 0, 0], &mut out);
        push(FINALIZERS_BEGIN, 300, &[0, 0], &mut out);
        push(FINALIZE_OBJECT, 310, &object("C"), &mut out);
        assert_eq!(
            shown(&out),
            ["IsFinalizerThread { thread: 7 }", "Run { time: 100, duration: 160, objects: 3 }"]
        );
        out.clear();
        reader.finish(&mut out);
        let sum = |name, time, objects, took, longest| {
            let sum = Sum { time, objects, took, longest };
            format!("{:?}", OfType { type_name: String::from(name), sum })
        };
        assert_eq!(
            shown(&out),
            [
                sum("A", 160, 2, 140, 100),
                sum("B", 150, 1, 10, 10),
                "StillRuns { time: 310, type_name: \"C\" }".to_owned(),
            ]
        );
    }

    #[test]
    fn a_finalizer_that_began_before_the_recording_is_left_out() {
        let (mut reader, mut out) = (Reader::default(), Samples::new());
        reader.push_fields(PROVIDER, FINALIZERS_END, 5, 7, &[9, 0, 0, 0], &mut out);
        reader.push_fields(PRIVATE_PROVIDER, FINALIZE_OBJECT, 6, 7, &[0; 17], &mut out);
        reader.finish(&mut out);
        assert_eq!(shown(&out), ["IsFinalizerThread { thread: 7 }"]);
    }
}
