//! What viewers of a comparison see has the figures of the comparison.

mod common;

use common::{MS, Made, Random, busy};
use compare::{
    Options, compare,
    viewed::{Order, Viewed},
};
use explore::{Column, Columns, Pattern, View};
use serde_json::Value;

/// Step0 takes twice as much after as before, Step1 half as much; Step3 is new.
fn viewed() -> Viewed {
    let mut random = Random::new(7);
    let mut made = |parts: &[f64]| {
        let samples = busy(&mut random, 20, 200, parts, 5.0);
        Made { weight: 5 * MS, ..Made::of(20, 4, samples) }
    };
    let before = made(&[0.2, 0.3, 0.5, 0.0]).recording("before");
    let after = made(&[0.4, 0.15, 0.25, 0.2]).recording("after");
    Viewed::new(compare(&before, &after, &Options::default()))
}

fn json(answer: &impl serde::Serialize) -> Value {
    serde_json::to_value(answer).unwrap()
}

fn numbers(answer: &Columns, name: &str) -> Vec<f64> {
    match answer.column(name) {
        Some(Column::F64(values)) => values.clone(),
        Some(Column::F32(values)) => values.iter().map(|value| f64::from(*value)).collect(),
        Some(Column::U32(values)) => values.iter().map(|value| f64::from(*value)).collect(),
        Some(Column::U8(values)) => values.iter().map(|value| f64::from(*value)).collect(),
        None => panic!("there is no column {name}"),
    }
}

#[test]
fn frames_are_as_wide_as_the_mean_and_say_what_changed() {
    let viewed = viewed();
    let series = viewed.series(None).unwrap();
    let view = View { root: None, width: 1000.0, top: 0, rows: 20 };
    let flame = viewed.flame(series, view, None).unwrap();
    let columns = ["before_total", "after_total", "width", "row", "node", "function"]
        .map(|name| numbers(&flame, name));
    let [before, after, width, row, node, function] = columns;
    assert_eq!((width[0], row[0]), (1000.0, 0.0));
    let whole = before[0] + after[0];
    for at in 0..width.len() {
        let mean = (before[at] + after[at]) / whole * 1000.0;
        assert!((mean - width[at]).abs() < 0.01, "{at}: {mean} {}", width[at]);
    }
    let head = flame.head();
    let name = |at: usize| &head["functions"][function[at] as usize];
    let of = |wanted: &str| {
        (1..width.len())
            .find(|at| function[*at] < 1e9 && name(*at)["short"].as_str().unwrap().contains(wanted))
            .unwrap_or_else(|| panic!("{wanted}: {head}"))
    };
    let (more, less, new) = (of("Step0"), of("Step1"), of("Step3"));
    assert!((after[more] / before[more] - 2.0).abs() < 0.2);
    assert!((after[less] / before[less] - 0.5).abs() < 0.1);
    assert_eq!(before[new], 0.0);
    for at in [more, less, new] {
        assert_eq!(name(at)["self"]["significance"], "changed", "{}", name(at));
    }
    // Zoomed to a frame, that is as wide as the view, and the path leads to it.
    let root = Some(node[more] as usize);
    let zoomed = viewed.flame(series, View { root, ..view }, None).unwrap();
    assert_eq!(numbers(&zoomed, "width")[0], 1000.0);
    let path = zoomed.head()["path"].as_array().unwrap();
    assert_eq!(path.last().unwrap()["function"]["id"], name(more)["id"]);
    assert!(viewed.flame(series, View { root: Some(10_000), ..view }, None).is_err());
}

#[test]
fn children_and_functions_are_found_and_sorted() {
    let viewed = viewed();
    let series = viewed.series(None).unwrap();
    let search = Pattern::parse("step1").unwrap();
    let roots = json(&viewed.children(series, None, search.as_ref(), 0, 10).unwrap());
    assert_eq!((&roots["count"], &roots["rows"][0]["hit"]), (&1.into(), &1.into()));
    let root = roots["rows"][0]["node"].as_u64().unwrap() as usize;
    let below = json(&viewed.children(series, Some(root), None, 1, 2).unwrap());
    assert_eq!(below["rows"].as_array().unwrap().len(), 2);
    let first = |order: Order| {
        let found = json(&viewed.functions(series, None, order, 0, 1));
        found["rows"][0]["short"].as_str().unwrap().to_owned()
    };
    assert!(first(Order::Own).contains("Step"), "{}", first(Order::Own));
    // The one that has all in common is the greatest before and after.
    assert_eq!(first(Order::Before), first(Order::After));
    let one = json(&viewed.functions(series, search.as_ref(), Order::Name, 0, 10));
    assert_eq!(one["count"], 1);
    // A page that has no server has the widest nodes, and says how many are left out.
    let page = serde_json::to_value(viewed.page(3, 5)).unwrap();
    let series = &page["series"][0];
    let nodes = series["up"].as_array().unwrap().len();
    assert_eq!(series["amounts"][3].as_array().unwrap().len(), nodes);
    assert!(nodes >= 3 && series["left_out"].as_u64().unwrap() > 0, "{series}");
    assert_eq!(page["overview"]["series"][0]["unit"], "nanoseconds");
}

#[test]
fn the_overview_has_what_the_comparison_says() {
    let viewed = viewed();
    let overview: Value = serde_json::to_value(viewed.overview(5)).unwrap();
    let titles = |part: &str| -> Vec<String> {
        let sections = overview[part]["sections"].as_array().unwrap();
        sections.iter().map(|own| own["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles("answer")[1], "What changed for certain");
    assert!(
        !titles("answer").iter().chain(&titles("rest")).any(|title| title.contains("functions"))
    );
    assert!(overview["heap"].is_null());
}
