//! `jit-storm`: the program compiles without end.

use crate::{Evidence, Finding, Limits, Rule, Threshold, finding::severity, words};
use profile::{Profile, session};

pub const RULE: Rule = Rule {
    id: "jit-storm",
    summary: "Methods are compiled all the time, not only while the program starts",
    needs: &["cpu"],
    thresholds: &[Threshold {
        name: "rate",
        help: "Methods compiled per second, in each third of the recording",
        default: 200.0,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let profile = seen.profile;
    let Some(jitted) = compiled(profile) else { return Vec::new() };
    // A level: how many there are in all.
    let rate = |values: &[(u64, f64)]| match values {
        [(from, before), .., (to, after)] => {
            (after - before) / (to.saturating_sub(*from).max(1) as f64 / 1e9)
        }
        _ => 0.0,
    };
    // As a program starts it compiles much, but less and less: the least of three parts tells the
    // one from the other.
    let third = jitted.len() / 3;
    if third < 2 {
        return Vec::new();
    }
    let rates: Vec<f64> = jitted.chunks(third).take(3).map(rate).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    if least < limits.get("rate") {
        return Vec::new();
    }
    let time = profile
        .counters
        .iter()
        .find(|c| c.def.source == "System.Runtime" && c.def.name == "time-in-jit");
    let shown: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    let mut evidence = vec![format!(
        "methods per second in the three thirds of the recording: {}",
        shown.join(", ")
    )];
    if let Some(summary) = time.and_then(profile::Counter::summary) {
        evidence.push(format!(
            "{} of compilation per second",
            words::duration((summary.mean * 1e6) as u64)
        ));
    }
    vec![Finding {
        id: RULE.id,
        severity: severity(least, limits.get("rate"), 10.0),
        confidence: 0.85,
        title: format!("at least {least:.0} methods are compiled per second all the time"),
        culprit: None,
        evidence,
        figures: Vec::new(),
        next: "look for expressions, regular expressions or serializers that are made again and \
            again instead of being kept"
            .to_owned(),
    }]
}

/// How many methods have been compiled, time by time: as the runtime counts (.NET 5 and newer),
/// else as the agent does.
fn compiled(profile: &Profile) -> Option<Vec<(u64, f64)>> {
    let is = |counter: &&profile::Counter| {
        counter.def.source == "System.Runtime" && counter.def.name == "methods-jitted-count"
    };
    if let Some(counter) = profile.counters.iter().find(is) {
        return Some(counter.values.clone());
    }
    let of = |status: &session::ObserverStatus| {
        let (_, count) = status.counters.iter().find(|(name, _)| name == "methods compiled")?;
        // The last one is written when the agent has left, which may take seconds.
        Some((status.time.min(profile.stop), *count as f64))
    };
    let mut counted: Vec<(u64, f64)> = profile.observer.iter().filter_map(of).collect();
    if counted.is_empty() {
        return None;
    }
    // The agent counts from the start of the recording.
    counted.insert(0, (profile.start, 0.0));
    Some(counted)
}
