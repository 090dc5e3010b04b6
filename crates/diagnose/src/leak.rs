//! `leak`: objects become more and more.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use heap::{LeakReport, Suspect, growth::Verdict};

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

/// Findings at most.
const MOST: usize = 3;

/// Growing types of one leak that are named beside the one whose objects accumulate.
const NAMES: usize = 4;

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(growth) = seen.heap.and_then(|heap| heap.growth) else { return Vec::new() };
    let limit = limits.get("growth") * 1e6;
    let leaks = growth.suspects.iter().filter(|suspect| suspect.bytes_per_second >= limit);
    leaks.take(MOST).map(|suspect| finding(suspect, growth, limit)).collect()
}

fn finding(suspect: &Suspect, growth: &LeakReport, limit: f64) -> Finding {
    let row = &suspect.leading().growth;
    let ends = |values: &[u64]| {
        (values.first().copied().unwrap_or(0), values.last().copied().unwrap_or(0))
    };
    let (objects, bytes) = (ends(&row.objects), ends(&row.bytes));
    let mut evidence = vec![format!(
        "{} objects of it at first, {} at last; their own bytes are {} and {}",
        objects.0,
        objects.1,
        words::bytes(bytes.0 as f64),
        words::bytes(bytes.1 as f64)
    )];
    let others = suspect.members.iter().map(|member| member.growth.name.as_str());
    let others: Vec<&str> = others.filter(|name| *name != suspect.name).collect();
    if !others.is_empty() {
        let more = if others.len() > NAMES { ", …" } else { "" };
        let named: Vec<&str> = others.into_iter().take(NAMES).collect();
        evidence.push(format!("with it grow {}{more}", named.join(", ")));
    }
    if let Some(owner) = &suspect.owner {
        let retained = words::bytes(owner.retained_bytes as f64);
        evidence.push(format!("a {} retains {retained}", owner.name));
    }
    if let Some(path) = suspect.path() {
        evidence.push(format!("retained by {}", words::path(path)));
    }
    evidence.push(format!(
        "all objects together grow by {} per second",
        words::bytes(growth.total.per_second)
    ));
    let holders = suspect.leading().holders.iter().map(|holder| (&holder.path, holder.objects));
    let paths = suspect.owner.as_ref().and_then(|owner| owner.path.as_ref()).map(|path| (path, 0));
    let retention = figures::retention("what retains them", holders)
        .or_else(|| figures::retention("what retains them", paths));
    Finding {
        id: RULE.id,
        severity: severity(suspect.bytes_per_second, limit, 50.0),
        confidence: match suspect.verdict {
            Verdict::Leaking => 0.95,
            Verdict::Likely => 0.85,
            Verdict::Grew => 0.7,
        },
        title: format!(
            "{} and what it retains grow by {} per second",
            row.name,
            words::bytes(suspect.bytes_per_second)
        ),
        culprit: Some(row.name.clone()),
        evidence,
        figures: figures::growth(growth, row).into_iter().chain(retention).collect(),
        next: "see whether it continues, and what retains them: clrscope leaks <pid>".to_owned(),
    }
}
