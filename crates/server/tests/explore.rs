//! What viewers of sessions ask over HTTP.

mod common;

use common::{HOSTILE, Served, column, parts};
use serde_json::Value;
use testkit::Answer;

fn served() -> Served {
    let served = Served::start();
    served.add("shop");
    served
}

/// What is answered about the session.
fn ask(served: &Served, path: &str) -> Answer {
    served.get(&format!("/api/v1/sessions/shop/{path}"))
}

fn json(served: &Served, path: &str) -> Value {
    ask(served, path).expect(200).json()
}

#[test]
fn a_session_says_what_can_be_explored() {
    let served = served();
    let description = json(&served, "explore");
    served.schema("Description").check(&description).unwrap();
    let series = description["series"].as_array().unwrap();
    let ids: Vec<_> = series.iter().map(|series| series["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cpu", "wall", "exceptions"]);
    assert_eq!((&series[0]["samples"], &series[0]["unit"]), (&1000.into(), &"nanoseconds".into()));
    assert_eq!((&series[2]["noun"], &series[2]["exact"]), (&"exception".into(), &true.into()));
    let idle = &series[1]["states"].as_array().unwrap().iter().find(|one| one["id"] == "idle");
    assert_eq!(idle.unwrap()["shown"], false);
    assert_eq!(description["threads"].as_array().unwrap().len(), 5);
    assert!(description["warnings"].to_string().contains("12 samples were dropped"));
    // A part of the time has fewer.
    let part = json(&served, "explore?from=0&to=1");
    assert!(part["series"][0]["samples"].as_u64().unwrap() < 200, "{part}");
    assert_eq!(part["to"], 1_000_000_000_u64);
}

#[test]
fn a_flame_graph_has_only_what_is_visible() {
    let served = served();
    let answer = ask(&served, "flame?width=1000").expect(200);
    let (mut head, _) = parts(&answer);
    head.as_object_mut().unwrap().remove("columns");
    served.schema("FlameHead").check(&head).unwrap();
    assert_eq!((&head["total"], &head["samples"]), (&10_000_000_000_u64.into(), &1000.into()));
    assert_eq!(head["found"], Value::Null);
    let (row, width) = (column(&answer, "row"), column(&answer, "width"));
    assert_eq!((row[0], width[0]), (0.0, 1000.0));
    assert_eq!(head["height"].as_f64().unwrap(), row.iter().fold(0.0, |a: f64, b| a.max(*b)) + 1.0);
    // The heaviest call of the first row is 92 % of all.
    let first = row.iter().position(|row| *row == 1.0).unwrap();
    assert_eq!(width[first], 920.0);
    let function = column(&answer, "function")[first] as usize;
    let name = head["functions"][function]["name"].as_str().unwrap().to_owned();
    let node = column(&answer, "node")[first];
    let zoomed = ask(&served, &format!("flame?width=100&root={node}&top=1&rows=2")).expect(200);
    let (head, _) = parts(&zoomed);
    assert_eq!(head["path"][0]["function"]["name"], name);
    assert_eq!((&head["total"], &head["left_out"]), (&9_200_000_000_u64.into(), &0.into()));
    assert!(column(&zoomed, "row").iter().all(|row| [1.0, 2.0].contains(row)));
    assert!(column(&zoomed, "left").iter().all(|left| (0.0..100.0).contains(left)));
    // Names of others are data.
    let text = String::from_utf8_lossy(&ask(&served, "flame").expect(200).body).into_owned();
    assert!(text.contains(&serde_json::to_string(HOSTILE).unwrap().trim_matches('"')[..20]));
}

#[test]
fn views_and_searches_have_limits() {
    let served = served();
    for query in ["flame?width=16384&rows=2000", "timeline?width=16384&rows=2000"] {
        ask(&served, query).expect_problem(400, "`width` times `rows`");
    }
    let search = format!("functions?search={}", "x".repeat(1001));
    ask(&served, &search).expect_problem(400, "1000 letters");
    ask(&served, "functions?search=/(%5Cw%7B1000%7D)%7B1000%7D/").expect_problem(400, "expression");
}

#[test]
fn samples_can_be_selected() {
    let served = served();
    let total = |query: &str| {
        parts(&ask(&served, &format!("flame?{query}")).expect(200)).0["total"].as_u64().unwrap()
    };
    assert_eq!(total("profiler=exceptions"), 808);
    assert_eq!(total("thread=4715"), 700_000_000);
    let states = "running,lock,sleep,io,gc";
    let (all, busy) = (total("profiler=wall"), total(&format!("profiler=wall&states={states}")));
    assert!(busy < all && busy > all / 2, "{busy} of {all}");
    assert_eq!(total("profiler=wall&states="), 0);
    assert_eq!(total("function=Discounts.Best"), 2_100_000_000);
    assert!(total("to=1") < 2_000_000_000);
    let callers = ask(&served, "flame?direction=callers&width=1000").expect(200);
    let (head, _) = parts(&callers);
    let first = column(&callers, "row").iter().position(|row| *row == 1.0).unwrap();
    let function = column(&callers, "function")[first] as usize;
    assert!(head["functions"][function]["name"].as_str().unwrap().contains("PriceList.Price"));
    assert_eq!(column(&callers, "width")[first], 420.0);
    // Three frames of a recursion are one.
    let height = |query: &str| {
        let (head, _) = parts(&ask(&served, &format!("flame?{query}")).expect(200));
        head["height"].as_u64().unwrap()
    };
    assert!(height("recursion=merged") < height(""));
}

#[test]
fn the_last_seconds_can_be_selected() {
    let served = served();
    let number = |value: &Value| value.as_u64().unwrap();
    let whole = json(&served, "explore");
    let part = json(&served, "explore?last=3");
    served.schema("Description").check(&part).unwrap();
    assert_eq!(part["to"], whole["to"]);
    assert_eq!(number(&part["from"]), number(&whole["to"]) - 3_000_000_000);
    let total = |query: &str| number(&parts(&ask(&served, query).expect(200)).0["total"]);
    let from = number(&part["from"]) as f64 / 1e9;
    assert_eq!(total("flame?last=3"), total(&format!("flame?from={from}")));
    assert!(total("flame?last=3") < total("flame") && total("flame?last=3") > 0);
    assert_eq!(total("flame?last=1e9"), total("flame"));
    // All views take it.
    let sum = |query: &str| number(&json(&served, query)["whole"]);
    assert_eq!(sum("functions?last=3"), total("flame?last=3"));
    assert_eq!(sum("callers?of=0&last=3"), total("flame?last=3"));
    assert_eq!(sum("explore/lines?of=0&last=3"), total("flame?last=3"));
    assert_eq!(parts(&ask(&served, "timeline?last=3").expect(200)).0["from"], part["from"]);
    // A call has the same number in each part. Where nothing of it was sampled, it is empty.
    let rows = json(&served, "children?nodes=stable");
    let calls = rows["rows"].as_array().unwrap();
    let seconds = |call: &Value| {
        let root = number(&call["node"]);
        json(&served, &format!("children?nodes=stable&last=0.001&root={root}"));
        let answer = ask(&served, &format!("flame?nodes=stable&last=0.001&root={root}"));
        let (head, _) = parts(&answer.expect(200));
        assert_eq!(head["path"][0]["function"], call["function"]);
        number(&head["total"])
    };
    assert!(calls.iter().map(seconds).any(|total| total == 0), "{rows}");
    for query in ["explore?last=0", "flame?last=-1", "flame?last=3&from=1", "callers?of=0&last=NaN"]
    {
        ask(&served, query).expect_problem(400, "last");
    }
}

#[test]
fn nodes_can_have_numbers_that_stay_the_same() {
    let served = served();
    let answer = ask(&served, "flame?nodes=stable&width=1000").expect(200);
    let first = column(&answer, "row").iter().position(|row| *row == 1.0).unwrap();
    let node = column(&answer, "node")[first];
    let zoomed = ask(&served, &format!("flame?nodes=stable&width=100&root={node}")).expect(200);
    let (head, _) = parts(&zoomed);
    assert_eq!(
        (&head["total"], &head["path"][0]["node"]),
        (&9_200_000_000_u64.into(), &(node as u64).into())
    );
    let roots = json(&served, "children?nodes=stable");
    assert_eq!(roots["rows"][0]["node"], node as u64);
    let below = json(&served, &format!("children?nodes=stable&root={node}"));
    assert_eq!(below["count"], roots["rows"][0]["children"]);
    ask(&served, "children?nodes=stable&root=1000000").expect_problem(404, "1000000");
}

#[test]
fn functions_are_found_and_have_callers() {
    let served = served();
    let functions = json(&served, "functions?rows=2");
    served.schema("FunctionsAnswer").check(&functions).unwrap();
    let rows = functions["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["function"]["name"].as_str().unwrap().contains("PriceList.Price"));
    assert_eq!(
        (&rows[0]["own"], &rows[0]["total"]),
        (&4_200_000_000_u64.into(), &8_000_000_000_u64.into())
    );
    assert_eq!(rows[0]["place"], "/src/shop/PriceList.cs:87");
    let by_total = json(&served, "functions?rows=1&sort=total");
    assert_eq!(by_total["rows"][0]["total"], 9_200_000_000_u64);
    let rest = json(&served, "functions?first=1&rows=2000");
    assert_eq!(rest["rows"].as_array().unwrap().len() as u64, rest["count"].as_u64().unwrap() - 1);
    let found = json(&served, "functions?search=discounts");
    assert!(found["count"].as_u64().unwrap() >= 2, "{found}");
    let best = found["rows"].as_array().unwrap().iter();
    let best = best.map(|row| &row["function"]).find(|of| of["name"].to_string().contains("Best"));
    let id = &best.unwrap()["id"];
    let callers = json(&served, &format!("callers?of={id}"));
    served.schema("CallersAnswer").check(&callers).unwrap();
    assert_eq!(
        (&callers["own"], &callers["total"]),
        (&1_200_000_000_u64.into(), &2_100_000_000_u64.into())
    );
    assert!(callers["callers"][0]["function"]["name"].to_string().contains("PriceList.Price"));
    assert!(callers["callees"][0]["function"]["name"].to_string().contains("Discounts.Search"));
    // Lines of a function, in their order.
    let price = &rows[0]["function"]["id"];
    let lines = json(&served, &format!("explore/lines?of={price}"));
    served.schema("LinesAnswer").check(&lines).unwrap();
    assert_eq!((&lines["own"], &lines["total"]), (&rows[0]["own"], &rows[0]["total"]));
    assert_eq!(lines["files"], serde_json::json!(["/src/shop/PriceList.cs"]));
    let list = lines["rows"].as_array().unwrap();
    let numbers: Vec<_> = list.iter().filter_map(|row| row["line"].as_u64()).collect();
    assert!(numbers.len() > 1 && numbers.is_sorted(), "{lines}");
    let own: u64 = list.iter().map(|row| row["own"].as_u64().unwrap()).sum();
    assert_eq!(own, 4_200_000_000);
    let stacks = json(&served, "explore/stacks?profiler=wall&search=WaitForSignal&rows=5");
    served.schema("StacksAnswer").check(&stacks).unwrap();
    assert_eq!((&stacks["count"], &stacks["rows"][0]["threads"]), (&1.into(), &2.into()));
    let rest = json(&served, &format!("explore/lines?of={price}&first=1&rows=1"));
    assert_eq!((&rest["rows"][0], &rest["count"]), (&list[1], &lines["count"]));
    // The same search in the flame graph.
    let answer = ask(&served, "flame?search=/discounts/").expect(200);
    let (head, _) = parts(&answer);
    assert!((head["found"].as_f64().unwrap() - 0.21).abs() < 1e-9, "{}", head["found"]);
    assert!(column(&answer, "hit").contains(&2.0) && column(&answer, "hit").contains(&1.0));
    // Level by level, as a tree.
    let roots = json(&served, "children?search=discounts");
    served.schema("ChildrenAnswer").check(&roots).unwrap();
    let heaviest = &roots["rows"][0];
    assert_eq!((&heaviest["total"], &heaviest["hit"]), (&9_200_000_000_u64.into(), &1.into()));
    let below = json(&served, &format!("children?root={}", heaviest["node"]));
    assert_eq!(below["count"], heaviest["children"]);
}

#[test]
fn a_timeline_has_threads_sums_and_markers() {
    let served = served();
    let answer = ask(&served, "timeline?profiler=wall&width=200&rows=3").expect(200);
    let (mut head, _) = parts(&answer);
    head.as_object_mut().unwrap().remove("columns");
    served.schema("TimelineHead").check(&head).unwrap();
    assert_eq!((&head["threads"], head["lanes"].as_array().unwrap().len()), (&5.into(), 3));
    for name in ["state", "share"] {
        assert_eq!(column(&answer, name).len(), 600);
    }
    let states = head["shown_states"].as_array().unwrap().len();
    let weights = column(&answer, "weights");
    assert_eq!(weights.len(), 200 * states);
    // Weight per second, on pixels of 50 ms.
    let sum: f64 = weights.iter().sum::<f64>() * 0.05 / 1e9;
    assert!((sum - 49.85).abs() < 0.5, "{sum}");
    let share = column(&answer, "share");
    assert!(share.iter().all(|share| (0.0..=1.0).contains(share)));
    let kinds = column(&answer, "marker_kind");
    assert!(kinds.contains(&0.0), "a pause");
    assert!(head["texts"].to_string().contains("generation 2"), "{}", head["texts"]);
    let exceptions = ask(&served, "timeline?width=2000").expect(200);
    let count: f64 = column(&exceptions, "marker_kind")
        .iter()
        .zip(column(&exceptions, "marker_count"))
        .map(|(kind, count)| if *kind == 1.0 { count } else { 0.0 })
        .sum();
    assert_eq!(count, 40.0);
    let part = ask(&served, "timeline?from=2&to=3&width=50").expect(200);
    let (head, _) = parts(&part);
    assert_eq!(
        (&head["from"], &head["to"]),
        (&2_000_000_000_u64.into(), &3_000_000_000_u64.into())
    );
}

#[test]
fn wrong_requests_are_refused() {
    let served = served();
    for (path, status, part) in [
        ("flame?width=0", 400, "width"),
        ("flame?rows=100000", 400, "rows"),
        ("flame?profiler=x", 400, "profiler"),
        ("flame?direction=x", 400, "direction"),
        ("flame?states=x", 400, "no-processor"),
        ("flame?search=/(/", 400, "regular expression"),
        ("flame?root=1000000", 404, "1000000"),
        ("flame?from=2&to=1", 400, "from"),
        ("flame?color=red", 400, "color"),
        ("callers", 400, "of"),
        ("callers?of=1000000", 404, "1000000"),
        ("explore/lines", 400, "of"),
        ("explore/lines?of=1000000", 404, "1000000"),
        ("children?root=1000000", 404, "1000000"),
        ("children?nodes=x", 400, "nodes"),
        ("flame?nodes=stable&direction=callers", 400, "callees"),
        ("functions?sort=x", 400, "own, total, name"),
        ("timeline?width=1000000", 400, "width"),
    ] {
        ask(&served, path).expect_problem(status, part);
    }
    for path in [
        "explore",
        "flame",
        "functions",
        "callers?of=0",
        "explore/lines?of=0",
        "children",
        "timeline",
    ] {
        let other = format!("/api/v1/sessions/none/{path}");
        served.get(&other).expect_problem(404, "no session none");
        // Without a token the request is refused.
        assert_eq!(served.send("GET", &other, &[], b"").status, 401, "{path}");
        let foreign = [("Host", "evil.example")];
        assert_eq!(served.ask("GET", &other, &foreign, b"").status, 403, "{path}");
    }
    std::fs::write(served.path("broken"), b"no session").unwrap();
    served.get("/api/v1/sessions/broken/flame").expect_problem(422, "");
}

#[test]
fn a_session_that_changes_is_read_again() {
    let served = served();
    assert_eq!(json(&served, "explore")["series"][0]["samples"], 1000);
    assert!(served.ask("DELETE", "/api/v1/sessions/shop", &[], b"").expect(204).body.is_empty());
    ask(&served, "explore").expect_problem(404, "shop");
}

#[test]
fn a_heap_is_looked_at_by_types_by_what_retains_what_and_by_paths() {
    let served = served();
    served.add("heap");
    let ask = |path: &str| served.get(&format!("/api/v1/sessions/heap/heap{path}"));
    let described = ask("").expect(200).json();
    served.schema("HeapDescription").check(&described).unwrap();
    assert_eq!((&described["objects"], &described["retention"]), (&4.into(), &true.into()));
    let types = ask("/types?sort=objects&search=order&rows=1").expect(200).json();
    served.schema("HeapTypes").check(&types).unwrap();
    assert_eq!((&types["count"], &types["rows"][0]["name"]), (&2.into(), &"<b>Order".into()));
    let rows = ask("/dominated").expect(200).json();
    served.schema("HeapChildren").check(&rows).unwrap();
    assert_eq!(rows["rows"][1]["retained"], 160);
    assert_eq!(rows["rows"][1]["by"], "static Shop.Orders");
    let map = ask("/treemap?width=200&height=100");
    let (mut head, _) = parts(&map);
    head.as_object_mut().unwrap().remove("columns");
    served.schema("TreemapHead").check(&head).unwrap();
    let (widths, heights) = (column(&map, "width"), column(&map, "height"));
    let depth = column(&map, "depth");
    let area: f64 = (0..depth.len())
        .filter(|cell| depth[*cell] == 0.0)
        .map(|cell| widths[cell] * heights[cell])
        .sum();
    assert!((area - 20_000.0).abs() < 1.0, "{area}");
    let id = types["rows"][0]["id"].as_u64().unwrap();
    let paths = ask(&format!("/paths?type={id}")).expect(200).json();
    served.schema("HeapPaths").check(&paths).unwrap();
    assert_eq!(paths["graph"]["nodes"][0]["forms"][0], "static Shop.Orders");
    assert_eq!(ask("/paths?of=3").expect(200).json()["examined"], 1);
    ask("/paths").expect_problem(400, "`of` or `type`");
    ask("/types?sort=x").expect_problem(400, "retained");
    ask("/treemap?root=99").expect_problem(404, "no node 99");
    ask("?snapshot=2").expect_problem(422, "no such heap snapshot");
    ask("/types?colour=red").expect_problem(400, "colour");
    served.get("/api/v1/sessions/none/heap").expect_problem(404, "none");
    let detail = served.get("/api/v1/sessions/shop").expect(200).json();
    assert_eq!(detail["heap_snapshots"], 0);
}

#[test]
fn growth_is_listed_by_types_over_all_heap_snapshots() {
    let served = served();
    served.add("heap");
    served.add("growth");
    let ask = |params: &str| served.get(&format!("/api/v1/sessions/growth/heap/growth{params}"));
    let growth = ask("").expect(200).json();
    served.schema("HeapGrowth").check(&growth).unwrap();
    let snapshots = growth["snapshots"].as_array().unwrap();
    assert_eq!((snapshots.len(), &snapshots[2]["seconds"]), (3, &4.0.into()));
    assert_eq!((&growth["count"], &growth["bytes"]["change"]), (&1.into(), &4_000_000.0.into()));
    let row = &growth["rows"][0];
    assert_eq!((&row["name"], &row["module"]), (&"<b>Order".into(), &"shop.dll".into()));
    assert_eq!(row["bytes_trend"]["per_second"], 1_000_000.0);
    assert_eq!(
        (&row["objects_trend"]["change"], &row["verdict"]),
        (&2000.0.into(), &"leaking".into())
    );
    assert_eq!(row["objects"].as_array().unwrap().len(), 3);
    assert_eq!(ask("?search=list&sort=objects").expect(200).json()["count"], 0);
    assert_eq!(ask("?first=1").expect(200).json()["rows"], serde_json::json!([]));
    ask("?sort=retained").expect_problem(400, "bytes, objects");
    ask("?search=/(/").expect_problem(400, "");
    ask("?snapshot=1").expect_problem(400, "snapshot");
    let one = served.get("/api/v1/sessions/heap/heap/growth");
    one.expect_problem(422, "two or more");
    served.get("/api/v1/sessions/shop/heap/growth").expect_problem(422, "cannot be read");
    served.get("/api/v1/sessions/none/heap/growth").expect_problem(404, "none");
}
