//! `finalizer-backlog`: objects wait for their finalizers.

use crate::{Evidence, Finding, Limits, Rule, Threshold, finding::severity, words};

pub const RULE: Rule = Rule {
    id: "finalizer-backlog",
    summary: "Dead objects accumulate because the finalizer thread does not keep up",
    needs: &["heap"],
    thresholds: &[Threshold { name: "objects", help: "Objects of one type that wait for their \
        finalizer", default: 2000.0 }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(heap) = seen.heap else { return Vec::new() };
    let queue = &heap.last.finalizer_queue;
    let Some(worst) = queue.iter().max_by_key(|row| row.objects) else { return Vec::new() };
    if (worst.objects as f64) < limits.get("objects") {
        return Vec::new();
    }
    let all: u64 = queue.iter().map(|row| row.objects).sum();
    vec![Finding {
        id: RULE.id,
        severity: severity(worst.objects as f64, limits.get("objects"), 50.0),
        confidence: 0.8,
        title: format!("{all} dead objects wait for their finalizers"),
        culprit: Some(worst.name.clone()),
        evidence: vec![format!(
            "{} of them are {}; what they retain cannot be collected: {}",
            worst.objects,
            worst.name,
            words::bytes(worst.retained_bytes as f64)
        )],
        next: "dispose objects that have a finalizer, and do nothing slow in a finalizer: all \
            finalizers share one thread".to_owned(),
    }]
}
