//! Sessions compared over HTTP.

mod common;

use common::Served;
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
