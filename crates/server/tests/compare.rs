//! Sessions compared over HTTP.

mod common;

use common::{Served, column, parts};
use profile::Filter;
use serde_json::{Value, json};

fn ask(served: &Served, body: &Value) -> testkit::Answer {
    served.post("/api/v1/compare", &body.to_string())
}

#[test]
fn what_the_command_says_is_sent() {
    let served = Served::start();
    served.add("a");
    served.add("b");
    let answer = ask(&served, &json!({ "before": "a", "after": "b" })).expect(200);
    let comparison = answer.json();
    served.schema("Comparison").check(&comparison).unwrap();
    let recording = |name: &str| {
        compare::Recording::read(name, &common::file()[..], &Filter::default()).unwrap()
    };
    let options = compare::Options::default();
    let expected = compare::compare(&recording("a"), &recording("b"), &options);
    assert_eq!(answer.text(), serde_json::to_string(&expected).unwrap());
    assert_eq!(comparison["changes"], json!([]));
    assert_eq!(comparison["before"]["name"], "a");
    let part = json!({
        "before": "a", "after": "b", "profiler": "cpu", "thread": "4712", "function": "Price",
        "from": 1.0, "to": 9.0, "per": "total", "confidence": 0.9, "fail_on": 0.05,
        "min_share": 0.1, "tree": true,
    });
    let part = ask(&served, &part).expect(200).json();
    served.schema("Comparison").check(&part).unwrap();
    assert_eq!((&part["per"], &part["gate"]["failed"]), (&json!("total"), &json!(false)));
    assert_eq!(part["before"]["duration_seconds"], 8.0);
    let series = part["series"].as_array().unwrap();
    assert!(series.len() == 1 && !series[0]["tree"].is_null(), "{part}");
}

#[test]
fn wrong_requests_are_named() {
    let served = Served::start();
    served.add("a");
    std::fs::write(served.path("text"), "no session").unwrap();
    ask(&served, &json!({ "before": "a", "after": "none" })).expect_problem(404, "none");
    ask(&served, &json!({ "before": "a", "after": "../a" })).expect_problem(400, "name");
    ask(&served, &json!({ "before": "a", "after": "text" })).expect_problem(422, "");
    for (key, value) in [
        ("per", json!("hour")),
        ("confidence", json!(1.0)),
        ("fail_on", json!(-1)),
        ("min_share", json!(2)),
        ("profiler", json!("nope")),
        ("from", json!(-1)),
        ("colour", json!("red")),
    ] {
        let mut body = json!({ "before": "a", "after": "a" });
        body[key] = value;
        ask(&served, &body).expect_problem(400, key);
    }
    ask(&served, &json!({ "before": "a" })).expect_problem(400, "after");
    served.ask("POST", "/api/v1/compare", &[], b"{}").expect_problem(415, "application/json");
}

#[test]
fn what_is_visible_of_a_comparison_is_answered() {
    let served = Served::start();
    served.add("a");
    served.add("b");
    let get = |path: &str| served.get(&format!("/api/v1/compare/{path}"));
    let overview = get("overview?before=a&after=b&per=second").expect(200).json();
    served.schema("ComparisonOverview").check(&overview).unwrap();
    assert_eq!(overview["series"][0]["id"], "cpu");
    let title = &overview["answer"]["sections"][0]["title"];
    assert_eq!(title, "b compared with a");
    let flame = get("flame?before=a&after=b&per=second&profiler=cpu&width=500&rows=50");
    let (mut head, _) = parts(&flame);
    head.as_object_mut().unwrap().remove("columns");
    served.schema("DifferenceHead").check(&head).unwrap();
    // The same session twice: every box is as wide before as after.
    let (before, after) = (column(&flame, "before_total"), column(&flame, "after_total"));
    assert_eq!(before, after);
    let (row, width) = (column(&flame, "row"), column(&flame, "width"));
    assert!(before.len() > 3 && row.contains(&2.0), "{head}");
    assert_eq!((width[0], before[0]), (500.0, head["whole"][0].as_f64().unwrap()));
    for (box_, width) in width.iter().enumerate() {
        assert!((before[box_] / before[0] * 500.0 - width).abs() < 0.01);
    }
    let children = get("children?before=a&after=b&profiler=cpu&search=price").expect(200).json();
    served.schema("DifferenceChildren").check(&children).unwrap();
    let root = &children["rows"][0];
    assert_eq!(root["hit"], 1);
    let below = format!("children?before=a&after=b&profiler=cpu&root={}", root["node"]);
    assert!(get(&below).expect(200).json()["count"].as_u64().unwrap() > 0);
    let functions = get("functions?before=a&after=b&sort=name&rows=2").expect(200).json();
    served.schema("ChangedFunctions").check(&functions).unwrap();
    let names: Vec<&str> = functions["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert!(names.len() == 2 && names[0] <= names[1], "{names:?}");
    assert_eq!(functions["rows"][0]["total"]["significance"], "within-noise");
    let types = get("types?before=a&after=b").expect(200).json();
    served.schema("ChangedTypes").check(&types).unwrap();
    assert_eq!(types["count"], 0);
    get("flame?before=a&after=b&root=9999").expect_problem(404, "no node 9999");
    get("flame?before=a&after=b&profiler=locks").expect_problem(422, "in common");
    get("functions?before=a&after=b&sort=x").expect_problem(400, "self, total");
    get("overview?before=a").expect_problem(400, "`after`");
    get("overview?before=a&after=none").expect_problem(404, "none");
    get("overview?before=a&after=../b").expect_problem(400, "name");
    get("types?before=a&after=b&colour=red").expect_problem(400, "colour");
}
