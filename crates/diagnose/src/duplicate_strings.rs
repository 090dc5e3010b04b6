//! `duplicate-strings`: the same texts are kept many times.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};

pub const RULE: Rule = Rule {
    id: "duplicate-strings",
    summary: "Much of the heap is duplicate strings",
    needs: &["heap"],
    thresholds: &[
        Threshold {
            name: "wasted",
            help: "Megabytes that the duplicates take: all but one string of each content",
            default: 5.0,
        },
        Threshold {
            name: "share",
            help: "Share of these bytes in the bytes of all objects",
            default: 0.1,
        },
    ],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(heap) = seen.heap else { return Vec::new() };
    let Some(strings) = &heap.last.strings else { return Vec::new() };
    let wasted = strings.wasted_bytes as f64;
    let share = wasted / heap.last.totals.bytes.max(1) as f64;
    if wasted < limits.get("wasted") * 1e6 || share < limits.get("share") {
        return Vec::new();
    }
    let shown = |text: &Option<String>| {
        text.as_deref().map_or_else(|| "(text not kept)".to_owned(), |text| format!("\"{text}\""))
    };
    let mut evidence =
        vec![format!("{} strings, of which {} are distinct", strings.objects, strings.distinct)];
    for row in strings.duplicates.iter().take(3) {
        let held = row
            .path
            .as_ref()
            .map_or_else(String::new, |path| format!(", retained by {}", words::path(path)));
        evidence.push(format!(
            "{} times {}, {} wasted{held}",
            row.objects,
            shown(&row.text),
            words::bytes(row.wasted_bytes as f64)
        ));
    }
    let paths =
        strings.duplicates.iter().take(3).filter_map(|row| Some((row.path.as_ref()?, row.objects)));
    let retention = figures::retention("what retains them", paths);
    vec![Finding {
        id: RULE.id,
        severity: severity(share, limits.get("share"), 8.0),
        confidence: 0.95,
        title: format!(
            "{} ({} of the heap) are duplicate strings",
            words::bytes(wasted),
            words::percent(share)
        ),
        culprit: strings.duplicates.first().map(|row| shown(&row.text)),
        evidence,
        figures: Vec::from_iter(retention),
        next: "keep one of each: a dictionary of known values, string.Intern, or an enum; more: \
            clrscope heap <pid>"
            .to_owned(),
    }]
}
