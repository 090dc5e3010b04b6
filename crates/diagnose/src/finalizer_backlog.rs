//! `finalizer-backlog`: objects wait for their finalizers.

use crate::{Evidence, Finding, Limits, Rule, Severity, Threshold, finding::severity, words};
use profile::{FinalizerSummary, Profile};

pub const RULE: Rule = Rule {
    id: "finalizer-backlog",
    summary: "Dead objects accumulate because the finalizer thread does not keep up",
    needs: &["finalizers or heap"],
    thresholds: &[
        Threshold {
            name: "objects",
            help: "Objects that wait for their finalizer: in the heap snapshot, of one type; in \
                the recording, for two seconds",
            default: 2000.0,
        },
        Threshold {
            name: "blocked",
            help: "Seconds for which one finalizer has not returned",
            default: 5.0,
        },
    ],
    look,
};

/// Places that are named.
const PLACES: usize = 3;

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let of_heap = in_heap(seen, limits);
    let Some(summary) = seen.profile.finalizer_summary() else { return Vec::from_iter(of_heap) };
    let of_thread = blocked(seen.profile, &summary, limits)
        .or_else(|| too_slow(seen.profile, &summary, limits));
    match (of_thread, of_heap) {
        (Some(mut finding), Some(of_heap)) => {
            finding.evidence.push(of_heap.title);
            finding.evidence.extend(of_heap.evidence);
            finding.confidence = finding.confidence.max(of_heap.confidence);
            vec![finding]
        }
        // A thread that has nothing to do keeps up: what a snapshot finds in the queue has joined
        // it a moment ago.
        (None, Some(_)) if summary.waiting == 0 && is_idle(&summary) => Vec::new(),
        (finding, of_heap) => Vec::from_iter(finding.or(of_heap)),
    }
}

/// Whether the finalizer thread is idle for most of the time.
fn is_idle(summary: &FinalizerSummary) -> bool {
    summary.thread.as_ref().is_some_and(|thread| thread.busy < 0.5)
}

/// A finalizer does not return.
fn blocked(profile: &Profile, summary: &FinalizerSummary, limits: &Limits) -> Option<Finding> {
    let current = summary.current.as_ref()?;
    let seconds = current.runs_for as f64 / 1e9;
    if seconds < limits.get("blocked") {
        return None;
    }
    let at_least = if current.is_whole { "" } else { "at least " };
    let time = words::duration(current.runs_for);
    let mut evidence = Vec::new();
    if let Some(ty) = current.ty {
        evidence.push(format!("the object is a {}", profile.tables.ty(ty).name));
    }
    let place = current.seen.map(|(stack, _)| profile.tables.place(stack));
    if let (Some((stack, doing)), Some(place)) = (current.seen, place) {
        let does = if doing.is_blocked() { "blocked" } else { "running" };
        evidence.push(format!("it is {does} in {}", words::place(profile, &place)));
        evidence.push(format!("call stack: {}", words::call_path(profile, stack)));
    }
    evidence.extend(numbers(summary));
    let method = place.map(|place| words::method(profile, place.function));
    Some(Finding {
        id: RULE.id,
        // No object is finalized any more, and each of them retains its memory.
        severity: if summary.waiting > 0 { Severity::High } else { Severity::Medium },
        confidence: 0.95,
        title: format!("a finalizer has not returned for {at_least}{time}; all others wait for it"),
        culprit: current.ty.map(|ty| profile.tables.ty(ty).name.clone()).or(method),
        evidence,
        figures: Vec::new(),
        next: "do not lock, wait or call other processes in a finalizer: all finalizers share one \
            thread; dispose such objects"
            .to_owned(),
    })
}

/// Finalizers return, but more objects join the queue.
fn too_slow(profile: &Profile, summary: &FinalizerSummary, limits: &Limits) -> Option<Finding> {
    if (summary.waiting as f64) < limits.get("objects") {
        return None;
    }
    let worst = summary.types.first();
    let mut evidence = numbers(summary);
    if let Some(worst) = worst {
        evidence.push(format!(
            "{} of the time of finalizers is that of {}: {} objects, {} each on average, {} at most",
            words::percent(worst.share),
            profile.tables.ty(worst.ty).name,
            worst.objects,
            words::duration(worst.took / worst.objects.max(1)),
            words::duration(worst.longest)
        ));
    }
    let places = summary.thread.iter().flat_map(|thread| &thread.places).take(PLACES);
    evidence.extend(places.map(|place| {
        let does = if place.doing.is_blocked() { "blocked" } else { "running" };
        let share = words::percent(place.share);
        format!("{share} of the time {does} in {}", words::place(profile, &place.place))
    }));
    Some(Finding {
        id: RULE.id,
        severity: severity(summary.waiting as f64, limits.get("objects"), 50.0),
        confidence: 0.9,
        title: format!("at least {} dead objects wait for their finalizers", summary.waiting),
        culprit: worst.map(|worst| profile.tables.ty(worst.ty).name.clone()),
        evidence,
        figures: Vec::new(),
        next: NEXT.to_owned(),
    })
}

const NEXT: &str = "dispose objects that have a finalizer, and do nothing slow in a finalizer: all \
    finalizers share one thread";

/// How many joined the queue, left it, and wait.
fn numbers(summary: &FinalizerSummary) -> Vec<String> {
    let FinalizerSummary { queued, finalized, waiting, .. } = summary;
    vec![format!(
        "{queued} objects joined the queue, {finalized} were finalized, at least {waiting} wait"
    )]
}

/// The queue right after a full collection.
fn in_heap(seen: &Evidence<'_>, limits: &Limits) -> Option<Finding> {
    let queue = &seen.heap?.last.finalizer_queue;
    let worst = queue.iter().max_by_key(|row| row.objects)?;
    if (worst.objects as f64) < limits.get("objects") {
        return None;
    }
    let all: u64 = queue.iter().map(|row| row.objects).sum();
    Some(Finding {
        id: RULE.id,
        severity: severity(worst.objects as f64, limits.get("objects"), 50.0),
        confidence: 0.8,
        title: format!("{all} dead objects wait for their finalizers"),
        culprit: Some(worst.name.clone()),
        evidence: vec![format!(
            "{} of them are {}; what they retain cannot be collected: {}",
            worst.objects,
            worst.name,
            words::bytes(worst.retained_bytes as f64)
        )],
        figures: Vec::new(),
        next: NEXT.to_owned(),
    })
}
