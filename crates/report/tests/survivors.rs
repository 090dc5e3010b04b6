//! What the formats say of survivors.

mod browser;
mod schema;

use document::{Block, Drawing, Unit};
use profile::{BuildOptions, Filter, Profile, ProfileBuilder, session::*};
use report::Options;
use serde_json::Value;

const START: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const TYPES: [&str; 4] =
    ["Shop.Line[]", "Shop.Line", "System.Collections.Generic.List<Shop.Line>", "string"];

/// A collection after `time` milliseconds, in which 10 lines survived in generation 0 and 5 in
/// generation 1.
fn snapshot(time: u64, generation: u8, complete: bool) -> SurvivorSnapshot {
    let count = |ty, before, after, objects| SurvivorCount {
        ty: TypeId(ty),
        before,
        after,
        objects,
        bytes: objects * 32,
    };
    let mut counts = vec![count(1, 0, 1, 10), count(3, 2, 2, 100)];
    if generation > 0 {
        counts.push(count(1, 1, 2, 5));
    }
    let held = |holder, path: &[u32], objects| HeldSurvivors {
        holder,
        path: path.iter().copied().map(TypeId).collect(),
        objects,
        bytes: objects * 32,
    };
    SurvivorSnapshot {
        collection: SurvivedCollection {
            time: START + time * MS,
            generation,
            induced: false,
            paused: 10 * MS,
            telling: 4 * MS,
            before: [64_000, if generation > 0 { 3200 } else { 0 }, 0, 0, 0],
            moved: 320,
            objects: 1000,
            complete,
            reason: (!complete).then(|| "it took longer than 1000 ms".to_owned()),
        },
        counts,
        held: vec![
            held(SurvivorHolder::Older(2), &[0, 1], 7),
            held(SurvivorHolder::Stack("Shop.Cart.Total(int)".into()), &[2, 0, 1], 3),
        ],
    }
}

fn profile() -> Profile {
    let mut records = vec![SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 7,
        process_name: "shop".into(),
        command_line: "dotnet shop.dll".into(),
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: START,
        cpus: 2,
        profilers: vec![ProfilerRun {
            id: "survivors".into(),
            engine: "runtime callbacks".into(),
            rate_hz: None,
            params: vec![],
        }],
    })];
    records.extend(TYPES.iter().enumerate().map(|(id, name)| {
        SessionRecord::Type(TypeDef { id: TypeId(id as u32), name: (*name).to_owned() })
    }));
    let snapshots = [snapshot(100, 0, true), snapshot(1100, 1, true), snapshot(2100, 0, false)];
    records.extend(snapshots.map(SessionRecord::Survivors));
    records.push(SessionRecord::End(SessionEnd {
        time: START + 3000 * MS,
        reason: EndReason::Stopped,
        exit_code: None,
    }));
    let mut builder = ProfileBuilder::new(BuildOptions::default());
    records.iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

fn text(profile: &Profile, id: &str) -> String {
    let mut out = Vec::new();
    let options = Options { width: 140, ..Options::default() };
    report::exporter(id).unwrap().write(profile, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn programs_get_what_the_schemas_say() {
    schema::check(&profile());
}

#[test]
fn text_page() {
    insta::assert_snapshot!(text(&profile(), "text"));
}

/// The drawings of the report, by their captions.
fn drawings() -> Vec<(String, Drawing)> {
    let document = report::document(&profile(), &Options::default());
    let blocks = document.sections.into_iter().flat_map(|section| section.blocks);
    let figures = blocks.filter_map(|block| match block {
        Block::Figure(figure) => Some((figure.caption, figure.drawing)),
        _ => None,
    });
    figures.collect()
}

#[test]
fn what_survives_and_what_retains_it_is_drawn() {
    let drawings = drawings();
    let captions: Vec<&str> = drawings.iter().map(|(caption, _)| caption.as_str()).collect();
    assert_eq!(
        captions,
        [
            "bytes that survived a collection",
            "bytes of young survivors by what retains them",
            "most common ways to retain young survivors"
        ]
    );
    let [(_, Drawing::Series(series)), (_, Drawing::Weights(tree)), (_, Drawing::Graph(graph))] =
        &drawings[..]
    else {
        panic!("a line, a tree and a graph: {drawings:?}");
    };
    // The collection of which survivors are missing is not in it.
    assert_eq!((series.seconds.as_slice(), series.unit), (&[0.1, 1.1][..], Unit::Bytes));
    assert_eq!(series.values, [110.0 * 32.0, 115.0 * 32.0]);
    // Both complete collections, by what retains survivors; the heaviest root first.
    let nodes: Vec<(u32, &str, f64)> =
        tree.nodes.iter().map(|own| (own.depth, own.forms[0].as_str(), own.weight)).collect();
    assert_eq!(
        nodes,
        [
            (0, "older object Shop.Line[] (gen 2)", 448.0),
            (1, "Shop.Line", 448.0),
            (0, "variable of Shop.Cart.Total(int)", 192.0),
            (1, "System.Collections.Generic.List<Shop.Line>", 192.0),
            (2, "Shop.Line[]", 192.0),
            (3, "Shop.Line", 192.0),
        ]
    );
    assert_eq!(tree.nodes[0].forms[1], "older object Line[] (gen 2)");
    // Both ways end at one node, that of what survives, below all others.
    let name = |at: u32| graph.nodes()[at as usize].forms[0].as_str();
    let mut edges: Vec<String> = (graph.edges().iter())
        .map(|edge| format!("{} {} {}", name(edge.from), edge.label, name(edge.to)))
        .collect();
    edges.sort();
    assert_eq!(
        edges,
        [
            "Shop.Line[] × 6 Shop.Line",
            "System.Collections.Generic.List<Shop.Line> × 6 Shop.Line[]",
            "older object Shop.Line[] (gen 2) × 14 Shop.Line",
            "variable of Shop.Cart.Total(int) × 6 System.Collections.Generic.List<Shop.Line>",
        ]
    );
    let last = graph.nodes().last().unwrap();
    assert_eq!((last.forms[0].as_str(), last.kind, last.row), ("Shop.Line", 1, 3));
}

#[test]
fn json_has_sums_and_single_ones() {
    let json: Value = serde_json::from_str(&text(&profile(), "json")).unwrap();
    let survivors = &json["survivors"];
    assert_eq!(survivors["collections"], serde_json::json!([2, 1, 0]));
    assert_eq!(
        (&survivors["incomplete"], &survivors["snapshot_ns"]),
        (&1.into(), &(12 * MS).into())
    );
    let young = &survivors["generations"]["gen_0"];
    assert_eq!(
        (&young["before"], &young["survived"], &young["rate"]),
        (&128_000.into(), &640.into(), &0.005.into())
    );
    assert_eq!(survivors["generations"]["gen_1"]["rate"], 0.05);
    assert_eq!(survivors["generations"]["gen_2"]["rate"], Value::Null);
    let first = &survivors["types"][0];
    assert_eq!(
        (&first["type_name"], &first["young"]["objects"]),
        (&"Shop.Line".into(), &25.into())
    );
    assert_eq!(
        first["moves"][1],
        serde_json::json!({"before": 1, "after": 2, "objects": 5, "bytes": 160})
    );
    let held = &survivors["held"][0];
    assert_eq!(held["text"], "older object Shop.Line[] (gen 2) → Shop.Line");
    assert_eq!((&held["objects"], &held["collections"]), (&14.into(), &2.into()));
    assert_eq!(survivors["held"][1]["method"], "Shop.Cart.Total(int)");
    assert_eq!(survivors["snapshots"].as_array().unwrap().len(), 3);
}

#[test]
fn a_time_picks_its_collections() {
    let filter = Filter { time: Some(0..1000 * MS), ..Filter::default() };
    let summary = profile().filtered(&filter).unwrap().survivor_summary();
    assert_eq!((summary.collections, summary.incomplete), ([1, 0, 0], 0));
}

#[test]
fn the_page_has_a_tab_for_it() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, text(&profile(), "html")).unwrap();
    let shown = browser::shown(&page, folder.path(), "survivors");
    for part in [
        "gen 0: 2",
        "In 1 of them some survivors are missing",
        "12.0 ms",
        "0.5 %",
        "Shop.Line",
        "older object Shop.Line[]",
        "Cart.Total",
        "bytes of young survivors by what retains them",
        "most common ways to retain young survivors",
    ] {
        assert!(shown.contains(part), "`{part}` is missing in {shown}");
    }
}
