//! `induced-gc`: the program asks for collections.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use document::Unit;

pub const RULE: Rule = Rule {
    id: "induced-gc",
    summary: "The program calls GC.Collect again and again",
    needs: &["gc"],
    thresholds: &[Threshold { name: "rate", help: "Induced collections per second", default: 0.2 }],
    look,
};

/// Most callers that are named.
const CALLERS: usize = 3;

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let summary = profile.gc_summary();
    let rate = summary.induced as f64 / (profile.duration().max(1) as f64 / 1e9);
    // One may be a habit of a library; it takes several to be the program's.
    if summary.induced < 3 || rate < limits.get("rate") {
        return Vec::new();
    }
    let all: u64 = summary.collections.iter().sum();
    let inducers = profile.inducers();
    let called: u64 = inducers.iter().map(|inducer| inducer.calls).sum();
    let mut evidence = vec![
        format!("{} of {all} collections were induced", summary.induced),
        format!("GC pauses take {} of the time in total", words::percent(summary.share)),
    ];
    evidence.extend(inducers.iter().take(CALLERS).map(|inducer| {
        let at = words::place(profile, &inducer.at);
        format!("{} of {called} calls come from {at}", inducer.calls)
    }));
    if let Some(first) = inducers.first() {
        evidence
            .push(format!("the most frequent call: {}", words::call_path(profile, first.stack)));
    }
    let culprit = inducers.first().map(|inducer| words::method(profile, inducer.at.function));
    let calls = profile.inductions.iter().map(|call| (call.stack, 1));
    vec![Finding {
        id: RULE.id,
        severity: severity(rate, limits.get("rate"), 20.0),
        confidence: 0.99,
        title: format!("the program induces {rate:.1} collections per second"),
        culprit: Some(culprit.unwrap_or_else(|| "GC.Collect".to_owned())),
        evidence,
        figures: figures::stacks(profile, "what induces them", Unit::Count, calls)
            .into_iter()
            .collect(),
        next: "remove the call of GC.Collect, or call it less often".to_owned(),
    }]
}
