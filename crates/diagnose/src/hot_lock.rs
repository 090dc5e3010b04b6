//! `hot-lock`: threads wait for one lock for much of the time.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use document::Unit;

pub const RULE: Rule = Rule {
    id: "hot-lock",
    summary: "Threads spend much time waiting for one lock",
    needs: &["locks"],
    thresholds: &[Threshold {
        name: "waiting",
        help: "Threads that wait for the lock, on average",
        default: 0.3,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let rows = profile.lock_rows();
    let hot =
        rows.iter().filter(|row| words::average(profile, row.waits.total) >= limits.get("waiting"));
    hot.map(|row| {
        let waiting = words::average(profile, row.waits.total);
        let mut evidence = vec![
            format!(
                "{} waits, {} in total; half up to {}, 99 % up to {}, the longest {}",
                row.waits.count,
                words::duration(row.waits.total),
                words::duration(row.waits.p50),
                words::duration(row.waits.p99),
                words::duration(row.waits.max)
            ),
            format!(
                "mostly waited in {}, by {} threads",
                words::place(profile, &row.waited_at),
                row.threads
            ),
        ];
        if let Some(owner) = row.owner {
            evidence
                .push(format!("mostly held by the thread {}", profile.tables.thread_name(owner)));
        }
        let waits = profile.waits_of(row).map(|wait| (wait.stack, wait.duration));
        Finding {
            id: RULE.id,
            severity: severity(waiting, limits.get("waiting"), 6.0),
            confidence: 0.95,
            title: format!("{waiting:.1} threads wait for one lock on average"),
            culprit: Some(words::method(profile, row.waited_at.function)),
            evidence,
            figures: figures::stacks(
                profile,
                "where threads wait for it",
                Unit::Nanoseconds,
                waits,
            )
            .into_iter()
            .collect(),
            next: "hold the lock for a shorter time, or split it: clrscope report <file> \
                --profiler locks"
                .to_owned(),
        }
    })
    .collect()
}
