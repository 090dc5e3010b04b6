//! Functions, trees, heaps and measures of two recordings.

mod common;
#[path = "../../profile/tests/shop/mod.rs"]
mod shop;

use common::{MS, Made, SECOND};
use compare::{Basis, Options, Recording, Side, compare};
use heap::{TypeInfo, growth::SnapshotSummary};
use profile::{CallTree, Filter, TreeOptions, session::*};
use std::collections::HashMap;

fn lambda(method: usize) -> String {
    format!("Main.lambda#{method}:40")
}

fn moved_lambda(method: usize) -> String {
    format!("Main.lambda#{method}:57")
}

#[test]
fn functions_are_the_same_in_another_order_and_at_other_lines() {
    let samples = |first: usize| -> Vec<(u64, usize)> {
        (0..1000).map(|at| (at * 10 * MS, if at % 10 < 7 { first } else { 1 - first })).collect()
    };
    let before = Made { name_of: lambda, ..Made::of(10, 2, samples(0)) };
    let after = Made { name_of: moved_lambda, reversed: true, ..Made::of(10, 2, samples(0)) };
    let (before, after) = (before.recording("a"), after.recording("b"));
    let comparison = compare(&before, &after, &Options::default());
    assert!(comparison.changes.is_empty());
    let names: Vec<&str> = comparison.functions.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"Contoso.Shop.Main.lambda#0:57()"), "{names:?}");
    let series = &comparison.series[0];
    let row =
        |index: usize| series.functions.iter().find(|row| row.function as usize == index).unwrap();
    for side in [Side::Before, Side::After] {
        let profile = if side == Side::Before { &before.profile } else { &after.profile };
        let functions = compare::Functions::of(&before.profile, &after.profile);
        for own in profile.top_functions(series.kind) {
            let row = row(functions.index(side, own.function));
            let (value, total) = match side {
                Side::Before => (row.own.before, row.total.before),
                Side::After => (row.own.after, row.total.after),
            };
            // In 10 s: per second, a tenth of the sum.
            assert!((value - own.own.weight as f64 / 10.0).abs() < 1.0);
            assert!((total - own.total.weight as f64 / 10.0).abs() < 1.0);
        }
    }
}

#[test]
fn trees_are_laid_over_each_other() {
    let before = Recording::read("a", &shop::file()[..], &Filter::default()).unwrap();
    let part = Filter { thread: Some("4712".into()), ..Filter::default() };
    let after = Recording::read("b", &shop::file()[..], &part).unwrap();
    let comparison = compare(&before, &after, &Options::default());
    assert!(!comparison.series.is_empty());
    for series in &comparison.series {
        let tree = &series.tree;
        let shape = tree.shape(|node| node);
        for (node, own) in tree.nodes.iter().enumerate() {
            assert!(own.parent.is_none_or(|parent| (parent as usize) < node));
            let depth = own.parent.map_or(0, |parent| tree.nodes[parent as usize].depth + 1);
            assert_eq!(own.depth, depth);
            // Nothing is lost: the total is what is here and below.
            for side in 0..2 {
                let below: u64 = shape
                    .children(Some(node))
                    .iter()
                    .map(|child| tree.nodes[*child as usize].total[side].weight)
                    .sum();
                assert_eq!(own.total[side].weight, own.own[side].weight + below);
            }
        }
        for (side, profile) in [&before.profile, &after.profile].into_iter().enumerate() {
            let own = profile.series(series.kind);
            let source = CallTree::new(&profile.tables, own, TreeOptions::default());
            let roots = shape.children(None);
            let sum: u64 =
                roots.iter().map(|root| tree.nodes[*root as usize].total[side].weight).sum();
            assert_eq!(sum, own.totals.weight);
            let here = tree.nodes.iter().filter(|node| node.total[side].samples > 0).count();
            assert_eq!(here, source.nodes().len());
        }
    }
}

#[test]
fn everything_of_a_recording_is_compared_with_itself() {
    let recording = Recording::read("shop", &shop::file()[..], &Filter::default()).unwrap();
    let comparison = compare(&recording, &recording, &Options::default());
    assert!(comparison.changes.is_empty() && comparison.notes.is_empty(), "{:?}", comparison.notes);
    let profilers: Vec<&str> = comparison.series.iter().map(|series| series.profiler).collect();
    assert_eq!(profilers, ["cpu", "wall", "exceptions"]);
    let measure = |name: &str| {
        let found = comparison.measures.iter().find(|measure| measure.name == name);
        found.unwrap_or_else(|| panic!("{name} is missing in {:?}", comparison.measures)).change
    };
    let summary = recording.profile.gc_summary();
    let pauses = measure("time in which the runtime was suspended");
    assert!((pauses.after - summary.pauses.total as f64 / 10.0).abs() < 1.0, "{pauses:?}");
    let second = measure("collections of generation 2");
    assert!((second.after - summary.collections[2] as f64 / 10.0).abs() < 1e-9);
    let heap = measure("heap after a collection");
    assert!(heap.after > 0.0 && heap.after <= summary.heap_peak as f64);
    let lock = measure("threads in the state lock");
    assert!(lock.after > 0.0);
    let thrown = measure("System.InvalidOperationException");
    assert!(thrown.after > 0.0);
    // All that there is, by one profiler only.
    let options = Options { series: Some(profile::SeriesKind::Exceptions), ..Options::default() };
    let narrow = compare(&recording, &recording, &options);
    assert!(
        narrow.series.len() == 1 && narrow.measures.iter().all(|own| own.profiler == "exceptions")
    );
}

#[test]
fn heaps_are_compared_by_type() {
    let summary = |types: &[(&str, &str, u64, u64)]| SnapshotSummary {
        time: 0,
        pause_ns: None,
        complete: true,
        count: types.iter().map(|own| own.2).sum(),
        bytes: types.iter().map(|own| own.3).sum(),
        types: types
            .iter()
            .map(|own| (TypeInfo { name: own.0.into(), module: own.1.into() }, (own.2, own.3)))
            .collect(),
        references: HashMap::new(),
    };
    let mut before = Made::of(10, 1, vec![(MS, 0)]).recording("a");
    let mut after = before.clone();
    assert!(compare(&before, &after, &Options::default()).heap.is_none());
    before.heap = Some(summary(&[
        ("Order", "/a/Shop.dll", 10, 400),
        ("Gone", "/a/Shop.dll", 1, 50),
        ("Same", "x", 5, 5),
    ]));
    let only = compare(&before, &after, &Options::default());
    assert!(
        only.notes.iter().any(|note| note.contains("only the recording before")),
        "{:?}",
        only.notes
    );
    after.heap = Some(summary(&[
        ("Order", "/b/Shop.dll", 30, 1200),
        ("New", "/b/Shop.dll", 2, 60),
        ("Same", "x", 5, 5),
    ]));
    let heap = compare(&before, &after, &Options::default()).heap.unwrap();
    let rows: Vec<_> = heap
        .types
        .iter()
        .map(|own| (own.name.as_str(), own.counts.count_change(), own.counts.bytes_change()))
        .collect();
    assert_eq!(rows, [("Order", 20.0, 800.0), ("New", 2.0, 60.0), ("Gone", -1.0, -50.0)]);
    assert_eq!((heap.total.before_bytes, heap.total.after_bytes), (455, 1265));
}

#[test]
fn whole_runs_are_compared_per_run() {
    let run = |seconds: u64| {
        let samples = (0..seconds * 100).map(|at| (at * 10 * MS, 0)).collect();
        let mut made = Made::of(seconds, 1, samples);
        made.info.entry = Entry::Launched;
        made.end.reason = EndReason::ProcessExited;
        made.end.exit_code = Some(0);
        made
    };
    // The same work takes twice as long: a busy thread is as busy as before in each second.
    let (before, after) = (run(10), run(20));
    let comparison = compare(&before.recording("a"), &after.recording("b"), &Options::default());
    assert_eq!(comparison.per, Basis::Run);
    let total = &comparison.series[0].total;
    assert!((total.before - 10.0 * SECOND as f64).abs() < 1e6, "{total:?}");
    assert!((total.after - 20.0 * SECOND as f64).abs() < 1e6 && total.is_certain(), "{total:?}");
    let mut failed = run(20);
    failed.end.exit_code = Some(1);
    let comparison = compare(&before.recording("a"), &failed.recording("b"), &Options::default());
    assert_eq!(comparison.per, Basis::Second);
    // A part of a run is none.
    let part = after.part("b", 0..5 * SECOND);
    assert!(!part.is_whole_run() && after.recording("b").is_whole_run());
}
