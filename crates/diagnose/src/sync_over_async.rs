//! `sync-over-async`: threads block on tasks.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use profile::{SeriesKind, session::ThreadState};

pub const RULE: Rule = Rule {
    id: "sync-over-async",
    summary: "Threads block on tasks (Wait, Result, GetResult) that other threads have to complete",
    needs: &["wall"],
    thresholds: &[Threshold {
        name: "blocked",
        help: "Threads that block on tasks, on average",
        default: 1.5,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let on_task = |cell: &profile::Cell| cell.state == ThreadState::Task;
    let weight: u64 =
        profile.wall.cells.iter().filter(|cell| on_task(cell)).map(|cell| cell.weight).sum();
    let blocked = words::average(profile, weight);
    if blocked < limits.get("blocked") {
        return Vec::new();
    }
    let Some((place, of_it)) = words::heaviest_place(profile, SeriesKind::Wall, on_task) else {
        return Vec::new();
    };
    let calls = figures::calls(profile, SeriesKind::Wall, "where threads block on tasks", on_task);
    vec![Finding {
        id: RULE.id,
        severity: severity(blocked, limits.get("blocked"), 6.0),
        confidence: 0.9,
        title: format!("{blocked:.1} threads block on tasks on average"),
        culprit: Some(words::method(profile, place.function)),
        evidence: vec![format!(
            "{} of that time in {}",
            words::percent(of_it as f64 / weight.max(1) as f64),
            words::place(profile, &place)
        )],
        figures: Vec::from_iter(calls),
        next: "await the task instead of blocking on it".to_owned(),
    }]
}
