//! `thread-leak`: threads are started and do not end.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use document::Unit;
use profile::Starter;

pub const RULE: Rule = Rule {
    id: "thread-leak",
    summary: "The program starts threads that do not end",
    needs: &["threads"],
    thresholds: &[Threshold {
        name: "rate",
        help: "Threads that one method starts per second",
        default: 0.3,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let rows = profile.start_rows();
    let leaks = rows.iter().filter(|row| row.leak && row.per_second >= limits.get("rate"));
    let counts: Vec<_> =
        profile.threads.counts.iter().map(|(time, count)| (*time, *count as f64)).collect();
    let growth = figures::over_time(profile, "threads of the process", Unit::Count, &counts);
    leaks
        .map(|row| {
            let culprit = match row.starter {
                Starter::Method(function) => Some(words::method(profile, function)),
                Starter::Pool | Starter::Unknown | Starter::Native => None,
            };
            let mut evidence = vec![
                format!(
                    "{} started, {} ended, such as the thread {}",
                    row.started, row.ended, row.example
                ),
                row.reason.clone(),
            ];
            if let Some(place) = &row.place {
                evidence.push(format!("started in {}", words::place(profile, place)));
            }
            let counts = &profile.threads.counts;
            if let (Some((_, first)), Some((_, last))) = (counts.first(), counts.last()) {
                evidence.push(format!("the process went from {first} to {last} threads"));
            }
            Finding {
                id: RULE.id,
                severity: severity(row.per_second, limits.get("rate"), 30.0),
                confidence: 0.9,
                title: format!(
                    "{:.1} threads are started per second, and do not end",
                    row.per_second
                ),
                culprit,
                evidence,
                figures: growth.clone().into_iter().collect(),
                next: "use the thread pool, or end the thread when its work is done".to_owned(),
            }
        })
        .collect()
}
