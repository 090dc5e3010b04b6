//! `exception-storm`: a type of exception is thrown in masses.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use document::Unit;

pub const RULE: Rule = Rule {
    id: "exception-storm",
    summary: "Exceptions are thrown at a high rate: they are slow, and errors hide among them",
    needs: &["exceptions"],
    thresholds: &[Threshold {
        name: "rate",
        help: "Exceptions of one type per second",
        default: 50.0,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let rows = profile.exception_rows();
    let stormy = rows.iter().filter(|row| row.per_second >= limits.get("rate"));
    stormy
        .map(|row| {
            let name = profile.tables.ty(row.ty).name.clone();
            let mut evidence =
                vec![format!("{} thrown, {:.0} per second", row.count, row.per_second)];
            if let Some(message) = &row.message {
                evidence.push(format!("message: {message}"));
            }
            if let Some((function, line)) = row.thrown_at {
                evidence.push(format!(
                    "mostly thrown at {}",
                    words::place(profile, &profile::CallSite { function, line })
                ));
            }
            if let Some(function) = row.caught_by {
                evidence.push(format!("mostly caught by {}", words::method(profile, function)));
            }
            let samples = profile.exceptions.samples.iter().filter(|sample| sample.ty == row.ty);
            let thrown = samples.map(|sample| (sample.stack, sample.weight));
            Finding {
                id: RULE.id,
                severity: severity(row.per_second, limits.get("rate"), 40.0),
                confidence: 0.99,
                title: format!("{name} is thrown {:.0} times per second", row.per_second),
                culprit: row
                    .thrown_at
                    .map_or(Some(name), |(function, _)| Some(words::method(profile, function))),
                evidence,
                figures: figures::stacks(profile, "where it is thrown", Unit::Count, thrown)
                    .into_iter()
                    .collect(),
                next: "test before you throw, or use the Try… form of the call".to_owned(),
            }
        })
        .collect()
}
