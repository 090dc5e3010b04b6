//! `pool-starvation`: work waits for a thread of the pool.

use crate::{Evidence, Finding, Limits, Rule, Threshold, finding::severity, words};
use profile::PoolHealth;

pub const RULE: Rule = Rule {
    id: "pool-starvation",
    summary: "Work waits in the queue of the thread pool because its threads are blocked",
    needs: &["threadpool"],
    thresholds: &[Threshold {
        name: "queue",
        help: "Items in the queue, at least, in all readings but one",
        default: 5.0,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let pool = profile.pool_summary();
    if pool.health != PoolHealth::Starved {
        return Vec::new();
    }
    let Some(queue) = profile.pool_counter("queue-length") else { return Vec::new() };
    let mut lengths: Vec<f64> = queue.values.iter().map(|(_, length)| *length).collect();
    lengths.sort_by(f64::total_cmp);
    // A queue that empties is a burst, not a starvation; a single value may be random.
    let (Some(&least), Some(most)) = (lengths.get(1), lengths.last()) else { return Vec::new() };
    if least < limits.get("queue") {
        return Vec::new();
    }
    let mut evidence = vec![
        format!("never fewer than {least:.0} items in the queue, at most {most:.0}"),
        format!("its threads were blocked for {} of the time in which items waited", words::percent(pool.blocked.1)),
    ];
    if let Some((first, last)) =
        profile.pool_counter("thread-count").and_then(|counter| Some((counter.values.first()?.1, counter.values.last()?.1)))
    {
        evidence.push(format!("the pool went from {first:.0} to {last:.0} threads meanwhile"));
    }
    let worst = pool.blocking.iter().max_by_key(|row| row.time_queued);
    if let Some(row) = worst {
        evidence.push(format!("{} of the time of its threads in {}", words::percent(row.share), words::place(profile, &row.place)));
    }
    vec![Finding {
        id: RULE.id,
        severity: severity(least, limits.get("queue"), 10.0),
        confidence: 0.95,
        title: format!("work waits for a thread of the pool: at least {least:.0} items at any time"),
        culprit: worst.map(|row| words::method(profile, row.place.function)),
        evidence,
        next: "do not block threads of the pool: await, or give long work a thread of its own".to_owned(),
    }]
}
