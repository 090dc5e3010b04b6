//! What is claimed is true, as often as is said; and what is there is found.

mod common;

use common::{MS, Made, Random, SECOND, busy, compared, name};
use compare::{Basis, FindingKind, Options, Significance, compare};

/// Parts of many methods, as programs have them: few hot ones, and a long tail.
fn tail(methods: usize) -> Vec<f64> {
    (1..=methods).map(|rank| 1.0 / rank as f64).collect()
}

/// The comparisons of so many pairs of recordings of one program that claim a change.
fn false_alarms(pairs: u64, confidence: f64, mut record: impl FnMut(&mut Random) -> Made) -> u64 {
    let claims = (0..pairs).filter(|seed| {
        let mut random = Random::new(seed + 1);
        let (before, after) = (record(&mut random), record(&mut random));
        let comparison = compared(&before.recording("a"), &after.recording("b"), confidence);
        assert!(comparison.tests > 10, "{}", comparison.tests);
        !comparison.changes.is_empty()
    });
    claims.count() as u64
}

/// Most false alarms of so many pairs, if each has this chance: more would be seen once in a
/// thousand times.
fn most(pairs: u64, level: f64) -> u64 {
    let (mean, spread) = (pairs as f64 * level, (pairs as f64 * level * (1.0 - level)).sqrt());
    (mean + 3.1 * spread).ceil() as u64
}

#[test]
fn equal_programs_give_no_more_false_alarms_than_stated() {
    const PAIRS: u64 = 300;
    // A level at which false alarms can be counted. Stays of 1 ms are independent samples, longer
    // ones are bursts of which a recording has no more than a few of most methods.
    let mut alarms = Vec::new();
    for (seconds, stay) in [(10, 1.0), (10, 50.0), (10, 300.0), (40, 1000.0), (3, 20.0)] {
        let found = false_alarms(PAIRS, 0.95, |random| {
            Made::of(seconds, 40, busy(random, seconds, 100, &tail(40), stay))
        });
        alarms.push((seconds, stay, found));
    }
    let is_good = |(_, _, found): &(u64, f64, u64)| *found <= most(PAIRS, 0.05);
    assert!(alarms.iter().all(is_good), "{alarms:?}");
}

#[test]
fn ups_and_downs_of_the_load_are_no_change() {
    const PAIRS: u64 = 300;
    // Requests come in waves: at times the program has nothing to do.
    let waves = |random: &mut Random| {
        let mut samples = busy(random, 20, 100, &tail(20), 5.0);
        let (mut busy_now, mut until) = (true, 0.0);
        samples.retain(|(time, _)| {
            while *time as f64 >= until {
                until += random.exponential(400.0 * MS as f64);
                busy_now = random.unit() < 0.5;
            }
            busy_now
        });
        Made::of(20, 20, samples)
    };
    let alarms = false_alarms(PAIRS, 0.95, waves);
    assert!(alarms <= most(PAIRS, 0.05), "{alarms}");
}

#[test]
fn halves_of_a_recording_are_equal() {
    let alarms = (0..100).filter(|seed| {
        let mut random = Random::new(1000 + seed);
        let made = Made::of(30, 30, busy(&mut random, 30, 100, &tail(30), 100.0));
        let (before, after) =
            (made.part("first", 0..15 * SECOND), made.part("second", 15 * SECOND..30 * SECOND));
        assert_eq!(before.profile.duration(), after.profile.duration());
        !compared(&before, &after, 0.95).changes.is_empty()
    });
    let alarms = alarms.count() as u64;
    assert!(alarms <= most(100, 0.05), "{alarms}");
}

#[test]
fn a_recording_is_equal_to_itself() {
    let made = Made::of(10, 40, busy(&mut Random::new(7), 10, 100, &tail(40), 20.0));
    let recording = made.recording("a");
    for basis in Basis::ALL.map(|(basis, _)| basis) {
        let options = Options { basis: Some(basis), confidence: 0.5, ..Options::default() };
        let comparison = compare(&recording, &recording, &options);
        assert!(comparison.tests > 10 && comparison.changes.is_empty());
        let series = &comparison.series[0];
        assert!(series.functions.iter().all(|row| row.own.difference() == 0.0));
        assert_eq!(series.total.significance, Significance::WithinNoise);
    }
}

#[test]
fn ten_percent_of_a_hot_method_are_found() {
    // The hot method has half of a thread's time, and 5 % more of a second of it after: samples of
    // an idle thread are left out, so nothing else changes.
    let parts = |hot: f64| [&[hot][..], &[0.03; 10], &[1.0 - 0.3 - hot]].concat();
    let record = |random: &mut Random, hot: f64| {
        let mut samples = busy(random, 60, 500, &parts(hot), 2.0);
        samples.retain(|(_, method)| *method < 11);
        Made { weight: 2 * MS, ..Made::of(60, 11, samples) }
    };
    let (mut found, mut covered, mut others, mut totals) = (0, 0, 0, 0);
    const TRIALS: u64 = 40;
    for seed in 0..TRIALS {
        let mut random = Random::new(seed + 500);
        let (before, after) = (record(&mut random, 0.5), record(&mut random, 0.55));
        let comparison = compared(&before.recording("a"), &after.recording("b"), 0.99);
        let of = |kind: FindingKind, method: usize| {
            let suffix = format!(".{}()", name(method));
            comparison
                .changes
                .iter()
                .find(move |own| own.kind == kind && own.name.ends_with(&suffix))
        };
        if let Some(finding) = of(FindingKind::Own, 0) {
            found += 1;
            assert_eq!(finding.worse, Some(true));
            let change = &finding.change;
            assert!((0.05..0.15).contains(&change.relative.unwrap()), "{finding:?}");
            let (low, high) = (change.relative_low.unwrap(), change.relative_high.unwrap());
            assert!(high - low < 0.15, "{finding:?}");
            covered += u64::from(low < 0.1 && high > 0.1);
        }
        others += (1..11).filter(|method| of(FindingKind::Own, *method).is_some()).count();
        totals += usize::from(comparison.changes.iter().any(|own| own.kind == FindingKind::All));
    }
    assert!(found >= TRIALS * 9 / 10, "{found}");
    // Intervals are for 95 %.
    assert!(covered >= found * 85 / 100, "{covered} of {found}");
    assert!(totals >= 20, "{totals}");
    assert!(others <= 2, "{others}");
}

#[test]
fn the_limit_is_for_what_is_certain_and_large() {
    let mut random = Random::new(3);
    // A hot method that gets slower by half, one that is small, and one that gets faster.
    let before = busy(&mut random, 30, 200, &[0.4, 0.005, 0.2, 0.395], 5.0);
    let after = busy(&mut random, 30, 200, &[0.6, 0.02, 0.1, 0.28], 5.0);
    let made = |mut samples: Vec<(u64, usize)>| {
        samples.retain(|(_, method)| *method < 3);
        Made { weight: 5 * MS, ..Made::of(30, 3, samples) }.recording("x")
    };
    let (before, after) = (made(before), made(after));
    let gate = |fail_on: f64, min_share: f64| {
        let options = Options { fail_on: Some(fail_on), min_share, ..Options::default() };
        let comparison = compare(&before, &after, &options);
        let gate = comparison.gate.clone().unwrap();
        assert_eq!(gate.failed, !gate.failures.is_empty());
        let of = |index: &usize| {
            let finding = &comparison.changes[*index];
            assert!(finding.worse == Some(true) && finding.change.relative.unwrap() > fail_on);
            (finding.kind == FindingKind::Own).then(|| finding.name.clone())
        };
        gate.failures.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(gate(0.05, 0.1), ["Contoso.Shop.Step0()"]);
    let mut all = gate(0.05, 0.0);
    all.sort();
    assert_eq!(all, ["Contoso.Shop.Step0()", "Contoso.Shop.Step1()"]);
    // The small one is three times as large.
    assert_eq!(gate(1.0, 0.0), ["Contoso.Shop.Step1()"]);
    assert!(gate(20.0, 0.0).is_empty());
}

fn renamed(method: usize) -> String {
    if method == 0 { "Renamed".into() } else { name(method) }
}

#[test]
fn a_function_that_was_renamed_does_not_fail() {
    let mut random = Random::new(21);
    let mut made = || Made::of(20, 3, busy(&mut random, 20, 200, &[0.5, 0.3, 0.2], 2.0));
    let (before, after) = (made(), Made { name_of: renamed, ..made() });
    let options = Options { fail_on: Some(0.05), ..Options::default() };
    let comparison = compare(&before.recording("a"), &after.recording("b"), &options);
    let own: Vec<_> = comparison
        .changes
        .iter()
        .filter(|finding| finding.kind == FindingKind::Own)
        .map(|finding| (finding.name.as_str(), finding.change.relative, finding.worse))
        .collect();
    let gone = ("Contoso.Shop.Step0()", Some(-1.0), Some(false));
    assert_eq!(own, [("Contoso.Shop.Renamed()", None, Some(true)), gone]);
    assert!(!comparison.gate.unwrap().failed);
}

#[test]
fn shares_do_not_depend_on_the_load() {
    // Twice the load, the same parts.
    let mut random = Random::new(9);
    let parts = [0.5, 0.3, 0.2];
    let (before, after) =
        (busy(&mut random, 20, 100, &parts, 2.0), busy(&mut random, 20, 200, &parts, 2.0));
    let (before, after) =
        (Made::of(20, 3, before).recording("a"), Made::of(20, 3, after).recording("b"));
    let by =
        |basis| compare(&before, &after, &Options { basis: Some(basis), ..Options::default() });
    let per_second = by(Basis::Second);
    assert!(per_second.series[0].functions.iter().all(|row| row.total.is_certain()));
    let shares = by(Basis::Total);
    assert!(shares.changes.iter().all(|finding| finding.kind == FindingKind::All), "{shares:?}");
    assert_eq!(shares.changes.len(), 1);
    let own = shares.series[0].functions.iter().map(|row| row.own.after).sum::<f64>();
    assert!((own - 1.0).abs() < 1e-9, "{own}");
}
