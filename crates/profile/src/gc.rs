use std::collections::HashMap;

use profilers::gc::Pause;
use session::{Nanos, StackId};

use crate::{CallSite, Distribution, Profile};

/// Names of the parts of the heap, in the order of the columns of a GC event.
pub const HEAPS: [&str; 5] = ["gen 0", "gen 1", "gen 2", "large objects", "pinned objects"];

/// Length of a pause: how long the runtime was suspended, from the first thread that is suspended
/// to the last that is resumed.
pub fn pause_length(pause: &Pause) -> Nanos {
    pause.resume_end.saturating_sub(pause.suspend_start)
}

/// The reason that the runtime reports for a suspension in which a profiler walks stacks: a cost of
/// the observation, not of the program.
pub const PROFILER_PAUSE: &str = "SuspendForProfiler";

/// Collections and pauses in numbers. Pauses for a profiler ([`PROFILER_PAUSE`]) stand in
/// `pause_reasons` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GcSummary {
    /// Collections of the generations 0, 1 and 2.
    pub collections: [u64; 3],
    /// Of those of generation 2, the ones that ran beside the program.
    pub background: u64,
    /// Collections that the program asked for.
    pub induced: u64,
    /// Collections by reason, most frequent first.
    pub reasons: Vec<(String, u64)>,
    /// All pauses, also those for other reasons than a collection.
    pub pauses: Distribution,
    /// Pauses of the collections of generation 0, 1 and 2.
    pub pauses_by_generation: [Distribution; 3],
    /// Pauses by reason, greatest total first.
    pub pause_reasons: Vec<(String, Distribution)>,
    /// The part of each pause in which threads were being suspended.
    pub suspending: Distribution,
    /// Share of the wall time in which the runtime was suspended, 0 to 1.
    pub share: f64,
    /// Bytes in the parts of the heap after the last collection, as [`HEAPS`].
    pub heap_last: [u64; 5],
    /// The most bytes that were in all parts together after a collection.
    pub heap_peak: u64,
    /// Bytes promoted in all, as [`HEAPS`].
    pub promoted: [u64; 5],
}

/// Counted names, most frequent first, then by name.
fn ranked<T>(map: HashMap<String, T>, weight: impl Fn(&T) -> u64) -> Vec<(String, T)> {
    let mut ranked: Vec<_> = map.into_iter().collect();
    order::sort_by(&mut ranked, |a, b| weight(&b.1).cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
    ranked
}

/// A method that induces collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inducer {
    /// The method, and the line of the call.
    pub at: CallSite,
    /// Its calls.
    pub calls: u64,
    /// The most frequent call stack.
    pub stack: StackId,
}

impl Profile {
    /// The methods of the program that induce collections (`GC.Collect` and its like), most calls
    /// first. Empty where the runtime reports no stacks.
    pub fn inducers(&self) -> Vec<Inducer> {
        let mut stacks: HashMap<StackId, u64> = HashMap::new();
        for call in &self.inductions {
            *stacks.entry(call.stack).or_default() += 1;
        }
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        order::sort_by_key(&mut stacks, |(stack, calls)| (std::cmp::Reverse(*calls), *stack));
        let mut inducers: Vec<Inducer> = Vec::new();
        let mut known: HashMap<CallSite, usize> = HashMap::new();
        for (stack, calls) in stacks {
            let at = self.tables.inducing_place(stack);
            let place = *known.entry(at).or_insert(inducers.len());
            match inducers.get_mut(place) {
                Some(known) => known.calls += calls,
                None => inducers.push(Inducer { at, calls, stack }),
            }
        }
        order::sort_by_key(&mut inducers, |inducer| (std::cmp::Reverse(inducer.calls), inducer.at));
        inducers
    }

    /// Collections and pauses in numbers.
    pub fn gc_summary(&self) -> GcSummary {
        let mut summary = GcSummary::default();
        let mut reasons: HashMap<String, u64> = HashMap::new();
        let mut generation_of = HashMap::new();
        for gc in &self.gcs {
            let generation = usize::from(gc.generation.min(2));
            summary.collections[generation] += 1;
            summary.background += u64::from(gc.kind == "BackgroundGC");
            summary.induced += u64::from(gc.induced);
            *reasons.entry(gc.reason.clone()).or_default() += 1;
            generation_of.insert(gc.number, generation);
            for (sum, promoted) in summary.promoted.iter_mut().zip(gc.promoted) {
                *sum = sum.saturating_add(promoted);
            }
            let heap = gc.size_after.iter().fold(0_u64, |sum, size| sum.saturating_add(*size));
            summary.heap_peak = summary.heap_peak.max(heap);
        }
        if let Some(last) = self.gcs.iter().max_by_key(|gc| gc.end) {
            summary.heap_last = last.size_after;
        }
        summary.reasons = ranked(reasons, |count| *count);

        let mut by_generation: [Vec<u64>; 3] = Default::default();
        let mut by_reason: HashMap<String, Vec<u64>> = HashMap::new();
        for pause in &self.pauses {
            let length = pause_length(pause);
            if let Some(generation) = pause.gc.and_then(|number| generation_of.get(&number)) {
                by_generation[*generation].push(length);
            }
            by_reason.entry(pause.reason.clone()).or_default().push(length);
        }
        let of_program = || self.pauses.iter().filter(|pause| pause.reason != PROFILER_PAUSE);
        summary.pauses = Distribution::of(of_program().map(pause_length));
        summary.suspending = Distribution::of(
            of_program().map(|pause| pause.suspend_end.saturating_sub(pause.suspend_start)),
        );
        summary.pauses_by_generation = by_generation.map(Distribution::of);
        let by_reason = by_reason
            .into_iter()
            .map(|(reason, lengths)| (reason, Distribution::of(lengths)))
            .collect();
        summary.pause_reasons = ranked(by_reason, |distribution| distribution.total);
        if self.duration() > 0 {
            summary.share = summary.pauses.total as f64 / self.duration() as f64;
        }
        summary
    }
}
