//! `timer-leak`: timers are started and never disposed.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};

pub const RULE: Rule = Rule {
    id: "timer-leak",
    summary: "The number of timers keeps growing: they are not disposed",
    needs: &["heap"],
    thresholds: &[Threshold { name: "rate", help: "Additional timers per second", default: 20.0 }],
    look,
};

/// What every timer of System.Threading has in the runtime's queue while it is armed.
const TIMER: &str = "System.Threading.TimerQueueTimer";

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(growth) = seen.heap.and_then(|heap| heap.growth) else { return Vec::new() };
    let Some(row) = growth.types.iter().find(|row| row.name == TIMER) else { return Vec::new() };
    let rate = row.objects_trend.per_second;
    if rate < limits.get("rate") {
        return Vec::new();
    }
    let (first, last) =
        (row.objects.first().copied().unwrap_or(0), row.objects.last().copied().unwrap_or(0));
    let mut evidence = vec![format!("{first} timers at first, {last} at last")];
    let mut members = growth.suspects.iter().flat_map(|suspect| &suspect.members);
    let timers = members.find(|member| member.growth.name == TIMER);
    if let Some(holder) = timers.and_then(|timers| timers.holders.first()) {
        evidence.push(format!("retained by {}", words::path(&holder.path)));
    }
    let holders = timers.iter().flat_map(|timers| &timers.holders);
    let retention =
        figures::retention("what retains them", holders.map(|own| (&own.path, own.objects)));
    vec![Finding {
        id: RULE.id,
        severity: severity(rate, limits.get("rate"), 50.0),
        confidence: 0.85,
        title: format!("{rate:.0} additional timers per second"),
        culprit: Some(TIMER.to_owned()),
        evidence,
        figures: figures::growth(growth, row).into_iter().chain(retention).collect(),
        next: "dispose timers, and each CancellationTokenSource that has a time limit; what \
            retains them: clrscope heap <pid> --type TimerQueueTimer"
            .to_owned(),
    }]
}
