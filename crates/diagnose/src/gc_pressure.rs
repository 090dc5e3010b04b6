//! `gc-pressure`: collections cost too much.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};

pub const RULE: Rule = Rule {
    id: "gc-pressure",
    summary: "GC pauses take much of the time, or full collections are frequent",
    needs: &["gc"],
    thresholds: &[
        Threshold {
            name: "paused",
            help: "Share of the time that is spent in GC pauses",
            default: 0.05,
        },
        Threshold {
            name: "full",
            help: "Blocking collections of generation 2 per second",
            default: 1.0,
        },
    ],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let summary = profile.gc_summary();
    let seconds = profile.duration().max(1) as f64 / 1e9;
    let [young, middle, full] = summary.collections;
    // Those that the program asked for have a finding of their own.
    let blocking = full.saturating_sub(summary.background + summary.induced) as f64 / seconds;
    let paused = summary.share;
    if paused < limits.get("paused") && blocking < limits.get("full") {
        return Vec::new();
    }
    let over = (paused / limits.get("paused")).max(blocking / limits.get("full"));
    let reasons: Vec<String> = summary
        .reasons
        .iter()
        .take(3)
        .map(|(reason, count)| {
            format!(
                "{reason} \
        {count}"
            )
        })
        .collect();
    vec![Finding {
        id: RULE.id,
        severity: severity(over, 1.0, 4.0),
        confidence: 0.95,
        title: format!("GC pauses take {} of the time", words::percent(paused)),
        culprit: None,
        evidence: vec![
            format!(
                "{young} collections of generation 0, {middle} of 1, {full} of 2 ({} of them \
                in the background)",
                summary.background
            ),
            format!(
                "{} pauses, half of them up to {}, the longest {}",
                summary.pauses.count,
                words::duration(summary.pauses.p50),
                words::duration(summary.pauses.max)
            ),
            format!("reasons: {}", reasons.join(", ")),
        ],
        figures: figures::pauses(profile).into_iter().collect(),
        next: "find what allocates: clrscope record <pid> -p allocations".to_owned(),
    }]
}
