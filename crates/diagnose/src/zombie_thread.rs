//! `zombie-thread`: threads that wait for what nobody will do.

use crate::{Evidence, Finding, Limits, Rule, Severity, Threshold, words};
use profile::{Confidence, Profile, Standing, Starter, ThreadRow};
use std::collections::{BTreeMap, HashSet};

pub const RULE: Rule = Rule {
    id: "zombie-thread",
    summary: "Threads are blocked indefinitely: they wait without a time limit, and no waker was \
        observed",
    needs: &["threads"],
    thresholds: &[Threshold {
        name: "sure",
        help: "Confidence that a suspect has to have, at least: 0.4, 0.7 or 0.95",
        default: 0.6,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let rows = profile.thread_rows();
    let suspects = rows.iter().filter(|row| row.alive && row.standing == Standing::ZombieSuspect);
    // Threads that wait at the same place for the same reason are one finding. The threads of a
    // leak make no progress either, but have a finding of their own.
    let place_of = |row: &ThreadRow| profile.tables.place(row.seen.stack).function;
    let starts = profile.start_rows();
    let leaking: Vec<Starter> =
        starts.iter().filter(|row| row.leak).map(|row| row.starter).collect();
    let of_leak = |row: &&ThreadRow| {
        row.started_at.is_some_and(|place| leaking.contains(&Starter::Method(place.function)))
    };
    let leaked: HashSet<_> = rows.iter().filter(of_leak).map(place_of).collect();
    let mut groups: BTreeMap<_, Vec<&ThreadRow>> = BTreeMap::new();
    for row in
        suspects.filter(|row| sure(row) >= limits.get("sure") && !leaked.contains(&place_of(row)))
    {
        groups.entry((place_of(row), row.confidence)).or_default().push(row);
    }
    groups.values().filter_map(|rows| finding(profile, rows)).collect()
}

/// How sure it is that a suspect is a zombie.
fn sure(row: &ThreadRow) -> f64 {
    match row.confidence {
        Some(Confidence::High) => 0.95,
        Some(Confidence::Medium) => 0.7,
        Some(Confidence::Low) => 0.4,
        None => 0.0,
    }
}

fn finding(profile: &Profile, rows: &[&ThreadRow]) -> Option<Finding> {
    let first = rows.first()?;
    let place = profile.tables.place(first.seen.stack);
    let name = words::method(profile, place.function);
    let names: Vec<String> =
        rows.iter().take(5).map(|row| profile.tables.thread_name(row.thread)).collect();
    let oldest = rows.iter().map(|row| row.age).max().unwrap_or_default();
    let (number, wait) = match rows.len() {
        1 => ("1 thread".to_owned(), "waits"),
        many => (format!("{many} threads"), "wait"),
    };
    Some(Finding {
        id: RULE.id,
        severity: if rows.len() >= 20 { Severity::Medium } else { Severity::Low },
        confidence: sure(first),
        title: format!("{number} {wait} indefinitely; no waker observed"),
        culprit: Some(name),
        evidence: vec![
            first.reason.clone(),
            format!("at {}", words::place(profile, &place)),
            format!(
                "{}{}; the oldest is {} old",
                names.join(", "),
                if rows.len() > names.len() { " …" } else { "" },
                words::duration(oldest)
            ),
        ],
        figures: Vec::new(),
        next: "give the wait a time limit, or end the thread; all threads: clrscope record <pid> \
            -p threads"
            .to_owned(),
    })
}
