//! `cpu-hot-spot`: one method takes much of a processor.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use profile::SeriesKind;

pub const RULE: Rule = Rule {
    id: "cpu-hot-spot",
    summary: "One method of the program uses much of a processor",
    needs: &["cpu"],
    thresholds: &[
        Threshold {
            name: "busy",
            help: "Processors that the process keeps busy, at least",
            default: 0.5,
        },
        Threshold {
            name: "share",
            help: "Share of that in the method itself, at least (lower end \
            of its interval)",
            default: 0.25,
        },
    ],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let busy = words::average(profile, profile.cpu.totals.weight);
    if busy < limits.get("busy") {
        return Vec::new();
    }
    let functions = profile.top_functions(SeriesKind::Cpu);
    let hot = functions.iter().filter(|function| {
        profile.tables.is_managed(function.function)
            && !profile.tables.is_framework(function.function)
            && function.own_share.low >= limits.get("share")
    });
    let calls = figures::calls(profile, SeriesKind::Cpu, "where the CPU time is", |_| true);
    hot.map(|function| {
        let name = words::method(profile, function.function);
        Finding {
            id: RULE.id,
            severity: severity(
                function.own_share.share * busy,
                limits.get("share") * limits.get("busy"),
                8.0,
            ),
            confidence: 0.95,
            title: format!(
                "{} of {busy:.2} busy processors is in one method",
                words::percent(function.own_share.share)
            ),
            culprit: Some(name.clone()),
            evidence: vec![
                format!(
                    "{name}: {} of the CPU time itself ({} to {}), {} with what it calls",
                    words::percent(function.own_share.share),
                    words::percent(function.own_share.low),
                    words::percent(function.own_share.high),
                    words::percent(function.total_share.share),
                ),
                format!("{} samples", function.own.samples),
            ],
            figures: calls.clone().into_iter().collect(),
            next: "look at its lines in the flame graph: clrscope report <file> --format html"
                .to_owned(),
        }
    })
    .collect()
}
