//! `pool-starvation`: work waits for a thread of the pool.

use crate::{
    Evidence, Finding, Limits, Rule, Severity, Threshold, figures, finding::severity, words,
};
use document::Unit;
use profile::{PoolHealth, PoolSummary, Profile, QueueEvidence};

pub const RULE: Rule = Rule {
    id: "pool-starvation",
    summary: "Work waits in the queue of the thread pool because its threads are blocked",
    needs: &["threadpool"],
    thresholds: &[
        Threshold {
            name: "queue",
            help: "Items in the queue, at least, in all readings but one",
            default: 5.0,
        },
        Threshold {
            name: "none-free",
            help: "Where the queue is not read (.NET Core 3.1): percent of the seconds in which no \
                thread of the pool was free, at least",
            default: 75.0,
        },
    ],
    look,
};

/// How badly work waits.
struct Starved {
    title: String,
    evidence: Vec<String>,
    severity: Severity,
}

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let pool = profile.pool_summary();
    if pool.health != PoolHealth::Starved {
        return Vec::new();
    }
    let starved = match pool.evidence {
        QueueEvidence::Length => by_length(profile, limits),
        QueueEvidence::Workers => by_workers(&pool, limits),
    };
    let Some(Starved { title, mut evidence, severity }) = starved else { return Vec::new() };
    evidence.insert(
        1,
        format!(
            "its threads were blocked for {} of the time in which items waited",
            words::percent(pool.blocked.1)
        ),
    );
    let worst = pool.blocking.iter().max_by_key(|row| row.time_queued);
    if let Some(row) = worst {
        evidence.push(format!(
            "{} of the time of its threads in {}",
            words::percent(row.share),
            words::place(profile, &row.place)
        ));
    }
    let queue = profile.pool_counter("queue-length").and_then(|queue| {
        figures::over_time(profile, "items in the queue", Unit::Count, &queue.values)
    });
    vec![Finding {
        id: RULE.id,
        severity,
        confidence: 0.95,
        title: format!("work waits for a thread of the pool: {title}"),
        culprit: worst.map(|row| words::method(profile, row.place.function)),
        evidence,
        figures: Vec::from_iter(queue),
        next: "do not block threads of the pool: await, or give long work a thread of its own"
            .to_owned(),
    }]
}

/// By the length of the queue.
fn by_length(profile: &Profile, limits: &Limits) -> Option<Starved> {
    let queue = profile.pool_counter("queue-length")?;
    let mut lengths: Vec<f64> = queue.values.iter().map(|(_, length)| *length).collect();
    order::sort_by(&mut lengths, f64::total_cmp);
    // A queue that empties is a burst, not a starvation; a single value may be random.
    let (&least, most) = (lengths.get(1)?, lengths.last()?);
    if least < limits.get("queue") {
        return None;
    }
    let mut evidence =
        vec![format!("never fewer than {least:.0} items in the queue, at most {most:.0}")];
    let threads =
        profile.pool_counter("thread-count").map_or([].as_slice(), |counter| &counter.values);
    if let (Some((_, first)), Some((_, last))) = (threads.first(), threads.last()) {
        evidence.push(format!("the pool went from {first:.0} to {last:.0} threads meanwhile"));
    }
    let title = format!("at least {least:.0} items at any time");
    Some(Starved { title, evidence, severity: severity(least, limits.get("queue"), 10.0) })
}

/// By what the threads of the pool do, second by second.
fn by_workers(pool: &PoolSummary, limits: &Limits) -> Option<Starved> {
    let seconds = pool.queued?;
    if seconds * 100.0 < limits.get("none-free") {
        return None;
    }
    let mut evidence =
        vec![format!("in {} of the seconds, no thread was free", words::percent(seconds))];
    if let Some(row) = pool.adjustments.iter().find(|row| row.reason == profile::STARVATION) {
        evidence.push(format!("{} times, no item was taken for half a second", row.count));
    }
    let title = format!("none was free in {} of the seconds", words::percent(seconds));
    // The length of the queue is not known.
    Some(Starved { title, evidence, severity: Severity::Medium })
}
