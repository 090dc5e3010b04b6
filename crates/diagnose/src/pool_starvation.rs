//! `pool-starvation`: work waits for a thread of the pool.

use crate::{Evidence, Finding, Limits, Rule, Threshold, finding::severity, words};
use profile::{Counter, Profile, SeriesKind, session::ThreadState};

pub const RULE: Rule = Rule {
    id: "pool-starvation",
    summary: "Work waits in the queue of the thread pool because its threads are blocked",
    needs: &["counters", "wall"],
    thresholds: &[Threshold { name: "queue", help: "Items in the queue, at the least of all looks but one", default: 5.0 }],
    look,
};

fn counter<'a>(profile: &'a Profile, name: &str) -> Option<&'a Counter> {
    let mut counters = profile.counters.iter();
    counters.find(|counter| counter.def.source == "System.Runtime" && counter.def.name == name)
}

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let Some(queue) = counter(profile, "threadpool-queue-length") else { return Vec::new() };
    let mut lengths: Vec<f64> = queue.values.iter().map(|(_, length)| *length).collect();
    lengths.sort_by(f64::total_cmp);
    // A queue that empties is a burst, not a starvation; one look may have come by chance.
    let Some(&least) = lengths.get(1) else { return Vec::new() };
    if lengths.len() < 3 || least < limits.get("queue") {
        return Vec::new();
    }
    let mut evidence = vec![format!("never fewer than {least:.0} items in the queue, at most {:.0}", lengths.last().unwrap_or(&least))];
    if let Some((first, last)) = counter(profile, "threadpool-thread-count").and_then(|c| Some((c.values.first()?.1, c.values.last()?.1))) {
        evidence.push(format!("the pool went from {first:.0} to {last:.0} threads meanwhile"));
    }
    let blocked = |cell: &profile::Cell| matches!(cell.state, ThreadState::Task | ThreadState::Lock | ThreadState::Sleep | ThreadState::Io);
    let place = words::heaviest_place(profile, SeriesKind::Wall, blocked).map(|(place, _)| place);
    if let Some(place) = &place {
        evidence.push(format!("threads mostly block in {}", words::place(profile, place)));
    }
    vec![Finding {
        id: RULE.id,
        severity: severity(least, limits.get("queue"), 10.0),
        confidence: 0.9,
        title: format!("work waits for a thread of the pool: at least {least:.0} items at any time"),
        culprit: place.map(|place| words::method(profile, place.function)),
        evidence,
        next: "do not block threads of the pool: await, or give long work a thread of its own".to_owned(),
    }]
}
