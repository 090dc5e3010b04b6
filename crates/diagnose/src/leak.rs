//! `leak`: objects become more and more.

use crate::{Evidence, Finding, Limits, Rule, Threshold, finding::severity, words};
use heap::{Suspect, growth::Verdict};

pub const RULE: Rule = Rule {
    id: "leak",
    summary: "The number of objects of a type grows from one full collection to the next",
    needs: &["heap"],
    thresholds: &[Threshold {
        name: "growth",
        help: "Megabytes per second by which a type and what it retains grow",
        default: 0.2,
    }],
    look,
};

/// Findings at most: what leaks takes much along with it.
const MOST: usize = 3;

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(growth) = seen.heap.and_then(|heap| heap.growth) else { return Vec::new() };
    let alone = growth.suspects.iter().filter(|suspect| suspect.along_with.is_none());
    // What grows only because a suspect does is part of its harm.
    let rate = |suspect: &Suspect| {
        let along = growth.suspects.iter().filter(|other| other.along_with.as_deref() == Some(&suspect.growth.name));
        std::iter::once(suspect).chain(along).map(|one| one.growth.bytes_trend.per_second.max(0.0)).sum::<f64>()
    };
    let mut leaks: Vec<(&Suspect, f64)> = alone.map(|suspect| (suspect, rate(suspect))).collect();
    leaks.retain(|(_, rate)| *rate >= limits.get("growth") * 1e6);
    leaks.sort_by(|one, other| other.1.total_cmp(&one.1));
    leaks
        .iter()
        .take(MOST)
        .map(|(suspect, rate)| {
            let row = &suspect.growth;
            let ends = |values: &[u64]| (values.first().copied().unwrap_or(0), values.last().copied().unwrap_or(0));
            let (objects, bytes) = (ends(&row.objects), ends(&row.bytes));
            let mut evidence = vec![format!(
                "{} objects of it at first, {} at last; their own bytes are {} and {}",
                objects.0,
                objects.1,
                words::bytes(bytes.0 as f64),
                words::bytes(bytes.1 as f64)
            )];
            if let Some(holder) = suspect.holders.first() {
                evidence.push(format!("retained by {}", words::path(&holder.path)));
            }
            evidence.push(format!("all objects together grow by {} per second", words::bytes(growth.total.per_second)));
            Finding {
                id: RULE.id,
                severity: severity(*rate, limits.get("growth") * 1e6, 50.0),
                confidence: match row.verdict {
                    Some(Verdict::Leaking) => 0.95,
                    Some(Verdict::Likely) => 0.85,
                    Some(Verdict::Grew) | None => 0.7,
                },
                title: format!("{} and what it retains grow by {} per second", row.name, words::bytes(*rate)),
                culprit: Some(row.name.clone()),
                evidence,
                next: "see whether it continues, and what retains them: clrscope leaks <pid>".to_owned(),
            }
        })
        .collect()
}
