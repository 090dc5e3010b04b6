//! `native-memory`: the process grows, and the managed heap does not.

use crate::{Evidence, Finding, Limits, Rule, Threshold, figures, finding::severity, words};
use diagnostics::MemorySplit;
use document::Unit;
use profile::Profile;

pub const RULE: Rule = Rule {
    id: "native-memory",
    summary: "Memory outside of the managed heap keeps growing",
    needs: &["gc"],
    thresholds: &[Threshold {
        name: "growth",
        help: "Megabytes per second, in each half of the recording",
        default: 1.0,
    }],
    look,
};

/// Looks that it takes to speak of growth.
const LOOKS: usize = 5;

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let looks = seen.memory;
    let (Some(first), Some(middle), Some(last)) =
        (looks.first(), looks.get(looks.len() / 2), looks.last())
    else {
        return Vec::new();
    };
    if looks.len() < LOOKS {
        return Vec::new();
    }
    // Without its counters the runtime does not tell how much is allocated. The managed heap of
    // runtimes that are that old is seen among the mappings.
    let estimated = managed_growth(seen.profile);
    if estimated.is_none() && seen.has("counters") {
        return Vec::new();
    }
    let segments = |split: &MemorySplit| match estimated {
        Some(_) => 0,
        None => split.segments,
    };
    // Assemblies and libraries are files: loading one is no leak.
    let own = |split: &MemorySplit| {
        (split.resident - split.assemblies - split.native_modules - segments(split)) as f64
    };
    let managed = estimated.unwrap_or_default();
    let rate = |from: &(f64, MemorySplit), to: &(f64, MemorySplit)| {
        let seconds = (to.0 - from.0).max(f64::MIN_POSITIVE);
        (own(&to.1) - own(&from.1) - managed * seconds) / seconds
    };
    let (early, late) = (rate(first, middle), rate(middle, last));
    if early.min(late) < limits.get("growth") * 1e6 {
        return Vec::new();
    }
    let grown = |part: fn(&MemorySplit) -> u64| part(&last.1) as f64 - part(&first.1) as f64;
    let in_segments = segments(&last.1) as f64 - segments(&first.1) as f64;
    let parts = [
        ("heap of malloc", grown(|split| split.native_heap)),
        ("stacks of threads", grown(|split| split.stacks)),
        ("compiled code", grown(|split| split.code)),
        ("other mappings, the managed heap among them", {
            grown(|split| split.other + split.segments) - in_segments
        }),
    ];
    let seconds = last.0 - first.0;
    let mut evidence = vec![
        format!(
            "resident memory went from {} to {} in {seconds:.1} s; the managed heap may account \
                for {} of that",
            words::bytes(first.1.resident as f64),
            words::bytes(last.1.resident as f64),
            words::bytes(managed * seconds + in_segments.max(0.0))
        ),
        format!("{} per second at first, {} at last", words::bytes(early), words::bytes(late)),
    ];
    evidence.extend(parts.iter().filter(|(_, bytes)| *bytes > 1e6).map(|(part, bytes)| {
        format!(
            "{} \
        more in: {part}",
            words::bytes(*bytes)
        )
    }));
    let resident = looks.iter().map(|(seconds, split)| (*seconds, split.resident as f64));
    let growth = figures::line("resident memory", Unit::Bytes, resident);
    vec![Finding {
        id: RULE.id,
        severity: severity(late, limits.get("growth") * 1e6, 10.0),
        confidence: 0.8,
        title: format!(
            "memory outside of the managed heap grows by {} per second",
            words::bytes(early.min(late))
        ),
        culprit: None,
        evidence,
        figures: Vec::from_iter(growth),
        next: "look for handles that are not disposed, native libraries, and AllocHGlobal without \
            FreeHGlobal"
            .to_owned(),
    }]
}

/// By how many bytes per second the managed heap may have made the process grow, at most: what it
/// held more after collections, and what was allocated where no collection tells. `None` where
/// nothing tells how much is allocated.
fn managed_growth(profile: &Profile) -> Option<f64> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let mut counters = profile.counters.iter();
    let allocated =
        counters.find(|c| c.def.source == "System.Runtime" && c.def.name == "alloc-rate");
    let allocated = allocated.and_then(profile::Counter::summary)?.mean;
    let whole = seconds(profile.duration()).max(f64::MIN_POSITIVE);
    let held = |gc: &profile::profilers::gc::Collection| gc.size_after.iter().sum::<u64>() as f64;
    Some(match (profile.gcs.first(), profile.gcs.last()) {
        (Some(first), Some(last)) => {
            let untold = seconds(first.end.saturating_sub(profile.start))
                + seconds(profile.stop.saturating_sub(last.end));
            ((held(last) - held(first)).max(0.0) + allocated * untold.min(whole)) / whole
        }
        _ => allocated,
    })
}
