//! What all formats say of allocations and of waits for locks.

mod browser;
mod schema;

use document::{Block, Drawing, Figure, Graph};
use profile::{BuildOptions, Filter, Profile, ProfileBuilder, SeriesKind, session::*};
use profilers::{
    allocations::{AllocationHeap, AllocationSample, AllocationSampling, AllocationWindow},
    exact_allocations::Allocated,
    locks::Wait,
};
use report::Options;
use serde_json::Value;
use std::process::Command;

const START: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// 300 samples of two types from two methods.
fn allocations(sampling: AllocationSampling) -> Vec<AllocationSample> {
    let sample = |sample: u64| {
        let large = sample.is_multiple_of(3);
        AllocationSample {
            time: START + (sample + 1) * 5 * MS,
            thread: ThreadId(0),
            stack: StackId(if large { 1 } else { 2 }),
            ty: TypeId(large.into()),
            heap: if large { AllocationHeap::Large } else { AllocationHeap::Small },
            size: if large { 200_000 } else { 100 },
            bytes: if large { 230_000 } else { 102_450 },
            truncated: false,
            sampling,
        }
    };
    (0..300).map(sample).collect()
}

/// Two seconds: these rows, and 20 waits for two locks.
fn records(rows_of: impl FnOnce(&mut RowBuffer), locks_known: bool) -> Vec<SessionRecord> {
    let run = |id: &str| ProfilerRun {
        id: id.into(),
        engine: "EventPipe".into(),
        rate_hz: None,
        params: vec![],
    };
    let mut records = vec![SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 7,
        process_name: "shop".into(),
        command_line: "dotnet shop.dll".into(),
        runtime: "10.0.0".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: START,
        cpus: 2,
        profilers: vec![run("allocations"), run("locks")],
    })];
    for (id, name) in ["main", "worker"].into_iter().enumerate() {
        let (started, ended) = (None, None);
        let thread = ThreadDef {
            id: ThreadId(id as u32),
            os_tid: 7 + id as u32,
            name: Some(name.into()),
            managed: true,
            started,
            ended,
        };
        records.push(SessionRecord::Thread(thread));
    }
    for (id, name) in ["shop.dll", "System.Private.CoreLib.dll"].into_iter().enumerate() {
        let (name, path) = (name.into(), format!("/app/{name}"));
        records.push(SessionRecord::Module(ModuleDef {
            id: ModuleId(id as u32),
            managed: true,
            name,
            path,
            build_id: None,
        }));
    }
    let functions = [
        ("Shop.App", "Main", 0),
        ("Shop.Orders", "Read", 0),
        ("System.String", "Concat", 1),
        ("Shop.Stock", "Take", 0),
        ("System.Threading.Monitor", "Enter", 1),
    ];
    for (id, (type_name, name, module)) in functions.into_iter().enumerate() {
        let id = id as u32;
        records.push(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: FunctionKind::Managed,
            module: Some(ModuleId(module)),
            type_name: type_name.into(),
            name: name.into(),
            parameters: "()".into(),
            state_machine: None,
        }));
        let line =
            (module == 0).then(|| SourceLine { file: format!("/src/{name}.cs"), line: 10 + id });
        records.push(SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function: FunctionId(id),
            line,
            trust: FrameTrust::Runtime,
        }));
    }
    // 0: Main, 1: Main > Read, 2: Main > Read > Concat, 3: Main > Take, 4: Main > Take > Enter.
    for (id, (parent, frame)) in
        [(None, 0), (Some(0), 1), (Some(1), 2), (Some(0), 3), (Some(3), 4)].into_iter().enumerate()
    {
        records.push(SessionRecord::Stack(StackDef {
            id: StackId(id as u32),
            parent: parent.map(StackId),
            frame: FrameId(frame),
        }));
    }
    for (id, name) in ["string", "byte[]"].into_iter().enumerate() {
        records.push(SessionRecord::Type(TypeDef { id: TypeId(id as u32), name: name.into() }));
    }
    let mut rows = RowBuffer::default();
    rows_of(&mut rows);
    for wait in 0..20_u64 {
        let hot = wait % 2 == 0;
        rows.push(&Wait {
            time: START + (wait + 1) * 50 * MS,
            thread: ThreadId(1),
            stack: StackId(if hot { 4 } else { 1 }),
            duration: if hot { 8 * MS } else { 2 * MS },
            lock: locks_known.then_some(0x7f00 + u64::from(hot)),
            owner: (locks_known && hot).then_some(ThreadId(0)),
            truncated: false,
        });
    }
    records.extend(rows.take());
    records.push(SessionRecord::End(SessionEnd {
        time: START + 2000 * MS,
        reason: EndReason::Stopped,
        exit_code: None,
    }));
    records
}

fn profile(sampling: AllocationSampling, locks_known: bool) -> Profile {
    let mut builder =
        ProfileBuilder::new(BuildOptions { keep_samples: true, ..BuildOptions::default() });
    let allocated = |rows: &mut RowBuffer| {
        allocations(sampling).iter().for_each(|sample| rows.push(sample));
    };
    records(allocated, locks_known).iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

fn render(profile: &Profile, id: &str, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    report::exporter(id).unwrap().write(profile, options, &mut out).unwrap();
    out
}

fn text(profile: &Profile, id: &str, options: &Options) -> String {
    String::from_utf8(render(profile, id, options)).unwrap()
}

#[test]
fn programs_get_what_the_schemas_say() {
    for sampling in [AllocationSampling::Random, AllocationSampling::Tick] {
        schema::check(&profile(sampling, true));
        schema::check(&profile(sampling, false));
    }
}

#[test]
fn text_page() {
    insta::assert_snapshot!(text(
        &profile(AllocationSampling::Random, true),
        "text",
        &Options::default()
    ));
}

#[test]
fn markdown_page_of_an_old_runtime() {
    insta::assert_snapshot!(text(
        &profile(AllocationSampling::Tick, false),
        "markdown",
        &Options::default()
    ));
}

/// The figures of a report.
fn figures(profile: &Profile) -> Vec<Figure> {
    let document = report::document(profile, &Options::default());
    let blocks = document.sections.into_iter().flat_map(|section| section.blocks);
    let figures = blocks.filter_map(|block| match block {
        Block::Figure(figure) => Some(figure),
        _ => None,
    });
    figures.collect()
}

/// The edges of a graph in words.
fn edges(graph: &Graph) -> Vec<String> {
    let name = |at: u32| graph.nodes()[at as usize].forms[0].as_str();
    let edges = graph.edges().iter();
    edges.map(|edge| format!("{} {} {}", name(edge.from), edge.label, name(edge.to))).collect()
}

#[test]
fn waiting_methods_locks_and_their_holders_are_drawn() {
    let drawn = figures(&profile(AllocationSampling::Random, true));
    let [Figure { caption, drawing: Drawing::Graph(graph) }] = &drawn[..] else {
        panic!("one graph: {drawn:?}");
    };
    assert_eq!(caption, "which methods wait for which lock, and which thread holds it");
    assert_eq!(
        edges(graph),
        [
            "Shop.Stock.Take waits for, 80.0 ms lock 0x7f01",
            "lock 0x7f01 held by, 80.0 ms main (7)",
            "Shop.Orders.Read waits for, 20.0 ms lock 0x7f00",
        ]
    );
    let nodes = graph.nodes().iter();
    let nodes: Vec<_> = nodes.map(|own| (own.forms[0].as_str(), &*own.note, own.kind)).collect();
    for node in [
        ("Shop.Stock.Take", "1 thread", 0),
        ("lock 0x7f01", "10 waits, 80.0 ms", 1),
        ("main (7)", "", 2),
    ] {
        assert!(nodes.contains(&node), "{node:?} is not in {nodes:?}");
    }
    // Runtimes before .NET 8 do not say which lock it is.
    assert_eq!(figures(&profile(AllocationSampling::Random, false)), []);
}

#[test]
fn a_graph_of_many_locks_shows_those_with_most_waiting_time() {
    let wait = |number: u64| Wait {
        time: START + (number + 1) * MS,
        thread: ThreadId(1),
        stack: StackId(4),
        duration: (100 + number) * MS,
        lock: Some(0x100 + number),
        owner: Some(ThreadId(0)),
        truncated: false,
    };
    let rows_of = |rows: &mut RowBuffer| (0..30).for_each(|number| rows.push(&wait(number)));
    let mut builder = ProfileBuilder::new(BuildOptions::default());
    records(rows_of, true).iter().for_each(|record| builder.add(record).unwrap());
    let drawn = figures(&builder.finish(false).unwrap());
    let [Figure { drawing: Drawing::Graph(graph), .. }] = &drawn[..] else {
        panic!("one graph: {drawn:?}");
    };
    let edges = edges(graph);
    assert_eq!(edges.len(), 12);
    for (number, pair) in edges.chunks(2).enumerate() {
        let (lock, time) = (0x11d - number, 129 - number);
        assert_eq!(pair[0], format!("Shop.Stock.Take waits for, {time} ms lock {lock:#x}"));
        assert_eq!(pair[1], format!("lock {lock:#x} held by, {time} ms main (7)"));
    }
}

#[test]
fn json_has_estimates_with_their_errors() {
    let json: Value = serde_json::from_str(&text(
        &profile(AllocationSampling::Random, true),
        "json",
        &Options::default(),
    ))
    .unwrap();
    let allocations = &json["allocations"];
    assert_eq!(
        (&allocations["sampling"], &allocations["samples"]),
        (&"random".into(), &300.into())
    );
    let bytes = &allocations["types"][0]["bytes"];
    assert_eq!(
        (&allocations["types"][0]["type_name"], &bytes["value"]),
        (&"byte[]".into(), &23_000_000.0.into())
    );
    // A hundred samples of equal weight: 1.96 times ten of them.
    assert!((bytes["margin"].as_f64().unwrap() - 1.96 * 2_300_000.0).abs() < 1000.0, "{bytes}");
    let objects =
        |row: usize| allocations["types"][row]["objects"]["value"].as_f64().unwrap().round();
    assert_eq!((objects(0), objects(1)), (115.0, 204_900.0));
    // The innermost method of the program, not of .NET.
    assert_eq!(
        json["functions"]
            [allocations["types"][1]["allocated_at"]["function"].as_u64().unwrap() as usize]["method"],
        "Read"
    );
    assert_eq!(allocations["heaps"]["large_objects"]["value"], 23_000_000.0);
    assert_eq!(json["series"][0]["unit"], "bytes");

    let locks = json["locks"]["locks"].as_array().unwrap();
    assert_eq!((&locks[0]["lock"], &locks[1]["lock"]), (&"0x7f01".into(), &"0x7f00".into()));
    assert_eq!(
        (&locks[0]["share"], &locks[0]["owner"], &locks[1]["owner"]),
        (&0.8.into(), &0.into(), &Value::Null)
    );
    assert_eq!(
        json["functions"][locks[0]["waited_at"]["function"].as_u64().unwrap() as usize]["method"],
        "Take"
    );
    let waits = &json["locks"]["waits_ns"];
    assert_eq!(
        (&waits["count"], &waits["total"], &waits["p50"]),
        (&20.into(), &(100 * MS).into(), &(2 * MS).into())
    );
    assert_eq!((&waits["p90"], &waits["max"]), (&(8 * MS).into(), &(8 * MS).into()));
    assert_eq!(
        waits["histogram"],
        serde_json::json!([{"from": 1 << 20, "count": 10}, {"from": 1 << 22, "count": 10}])
    );
}

/// A second half of which only every fifth part was followed.
#[test]
fn what_was_not_followed_is_in_the_errors_and_told() {
    let whole = profile(AllocationSampling::Random, true);
    let window = |slot: u64| {
        let start = START + 750 * MS + slot * 150 * MS;
        let (followed_from, followed_to) = (start + 30 * MS, start + 60 * MS);
        AllocationWindow { start, end: start + 150 * MS, followed_from, followed_to }
    };
    let build = |samples: &[AllocationSample], windows: std::ops::Range<u64>| {
        let rows_of = |rows: &mut RowBuffer| {
            samples.iter().for_each(|sample| rows.push(sample));
            windows.for_each(|slot| rows.push(&window(slot)));
        };
        let mut builder =
            ProfileBuilder::new(BuildOptions { keep_samples: true, ..BuildOptions::default() });
        records(rows_of, true).iter().for_each(|record| builder.add(record).unwrap());
        builder.finish(false).unwrap()
    };
    let samples = allocations(AllocationSampling::Random);
    let thinned = build(&samples, 0..5);
    // 600 of 2000 ms were not.
    assert!((thinned.allocations.followed(thinned.duration()) - 0.7).abs() < 1e-9);
    assert_eq!(whole.allocations.followed(whole.duration()), 1.0);
    // Each has as much as the next: nothing says that chance did more than samples show.
    assert_eq!(thinned.allocations.bytes(), whole.allocations.bytes());
    // One has far more than the others.
    let mut uneven = samples;
    uneven.iter_mut().skip(209).take(30).for_each(|sample| sample.bytes *= 20);
    let without = build(&uneven, 0..0).allocations.bytes();
    let uneven = build(&uneven, 0..5);
    let with = uneven.allocations.bytes();
    assert_eq!(with.value, without.value);
    let jump = 30.0 * 19.0 * (230_000.0 + 2.0 * 102_450.0) / 3.0;
    let expected = 1.96 * (2.0_f64 * (jump * jump / 2.0) * 0.8 * 2.0).sqrt();
    assert!((with.margin / expected - 1.0).abs() < 0.05, "{with:?}, {expected}");
    assert!(with.margin > without.margin);
    for row in uneven.allocation_rows() {
        assert!(row.bytes.margin > row.bytes.value * 0.5, "{row:?}");
    }
    for (id, part) in [
        ("text", "Allocations were recorded in windows (duty cycle 70.0 %)"),
        ("markdown", "Allocations were recorded in windows (duty cycle 70.0 %)"),
        ("json", "\"duty_cycle\":0.7"),
        ("html", "Allocations were recorded in windows (duty cycle 70.0 %)"),
    ] {
        let page = text(&uneven, id, &Options::default());
        assert!(page.contains(part), "{id}: `{part}` is missing in {page}");
    }
    assert!(!text(&whole, "text", &Options::default()).contains("were recorded in windows"));
    let half = uneven.filtered(&Filter { time: Some(0..700 * MS), ..Filter::default() }).unwrap();
    assert!(half.allocations.windows.is_empty());
}

#[test]
fn objects_that_were_counted_have_no_error_bars() {
    let counts = [(0, 0, 2_000_000, 64_000_000), (0, 1, 3, 600_072), (1, 1, 1, 24), (0, 1, 2, 48)];
    let rows_of = |rows: &mut RowBuffer| {
        for (thread, ty, objects, bytes) in counts {
            let (thread, ty) = (ThreadId(thread), TypeId(ty));
            rows.push(&Allocated { time: START + MS, thread, ty, objects, bytes });
        }
    };
    let mut records = records(rows_of, true);
    let Some(SessionRecord::Info(info)) = records.first_mut() else { panic!() };
    info.profilers[0].id = "exact-allocations".into();
    let mut builder =
        ProfileBuilder::new(BuildOptions { keep_samples: true, ..BuildOptions::default() });
    records.iter().for_each(|record| builder.add(record).unwrap());
    let all = builder.finish(false).unwrap();
    schema::check(&all);
    let page = text(&all, "text", &Options::default());
    let page =
        page.split("Allocations").nth(1).and_then(|page| page.split("Locks").next()).unwrap();
    for part in ["2,000,006 objects of 2 types", "every one counted", "byte[]"] {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    assert!(!page.contains('±') && !page.contains("No samples"), "{page}");
    let json: Value = serde_json::from_str(&text(&all, "json", &Options::default())).unwrap();
    let exact = &json["allocations"]["exact"];
    assert_eq!((&exact["objects"], &exact["bytes"]), (&2_000_006.into(), &64_600_144.into()));
    let (first, second) = (&exact["types"][0], &exact["types"][1]);
    assert_eq!((&first["type_name"], &first["objects"]), (&"string".into(), &2_000_000.into()));
    assert_eq!(
        (&second["type_name"], &second["objects"], &second["bytes"]),
        (&"byte[]".into(), &6.into(), &600_144.into())
    );
    assert_eq!(
        (&exact["threads"][1]["thread"], &exact["threads"][1]["objects"]),
        (&1.into(), &1.into())
    );
    // Counts know their thread, but no stack and no time.
    let of = |filter: Filter| all.filtered(&filter).unwrap().allocations.exact_total().objects;
    assert_eq!(of(Filter::default()), 2_000_006);
    assert_eq!(of(Filter { thread: Some("worker".into()), ..Filter::default() }), 1);
    assert_eq!(of(Filter { text: Some("concat".into()), ..Filter::default() }), 0);
    let page = text(&all, "html", &Options::default());
    assert!(page.contains("2,000,006 objects"), "the counts are not in the page");
}

#[test]
fn filters_pick_from_both() {
    let all = profile(AllocationSampling::Random, true);
    let filter = Filter { text: Some("concat".into()), ..Filter::default() };
    let some = all.filtered(&filter).unwrap();
    assert_eq!((some.allocations.samples.len(), some.locks.waits.len()), (200, 0));
    let filter = Filter { time: Some(0..505 * MS), ..Filter::default() };
    let some = all.filtered(&filter).unwrap();
    assert_eq!((some.allocations.samples.len(), some.locks.waits.len()), (100, 10));
    assert_eq!(some.series(SeriesKind::Locks).totals.weight, 50 * MS);
}

#[test]
fn formats_of_other_tools_weigh_bytes_and_waited_time() {
    let profile = profile(AllocationSampling::Random, true);
    let of = |series| Options { series: Some(series), ..Options::default() };
    let collapsed = text(&profile, "collapsed", &of(SeriesKind::Allocations));
    assert!(
        collapsed.contains(
            "main (7);Shop.App.Main();Shop.Orders.Read();System.String.Concat() 20490000\n"
        ),
        "{collapsed}"
    );
    let collapsed = text(&profile, "collapsed", &of(SeriesKind::Locks));
    assert!(collapsed.contains("System.Threading.Monitor.Enter() 80000000\n"), "{collapsed}");
    let speedscope: Value =
        serde_json::from_str(&text(&profile, "speedscope", &Options::default())).unwrap();
    let units: Vec<_> = speedscope["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (&p["unit"], &p["endValue"]))
        .collect();
    assert_eq!(
        units,
        [(&"bytes".into(), &43_490_000.into()), (&"nanoseconds".into(), &(100 * MS).into())]
    );
    let firefox: Value =
        serde_json::from_str(&text(&profile, "firefox", &Options::default())).unwrap();
    let thread = &firefox["threads"][0];
    assert_eq!(thread["samples"]["weightType"], "bytes");
    assert_eq!(thread["samples"]["weight"][0], 230_000);
    assert_eq!(firefox["threads"][1]["markers"]["length"], 20);
}

#[test]
fn go_tool_pprof_reads_bytes_objects_and_types() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("profile.pb.gz");
    std::fs::write(
        &file,
        render(&profile(AllocationSampling::Random, true), "pprof", &Options::default()),
    )
    .unwrap();
    let pprof = |arguments: &[&str]| {
        let mut command = Command::new("go");
        command.args(["tool", "pprof"]).args(arguments).arg(&file);
        let output =
            command.env("HOME", folder.path()).env("PPROF_TMPDIR", folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let objects = pprof(&["-top", "-sample_index=allocated_objects"]);
    assert!(objects.contains("204900"), "{objects}");
    let bytes = pprof(&["-top", "-sample_index=allocations", "-tagfocus=type=string"]);
    assert!(bytes.contains("19.54MB") && !bytes.contains("21.93MB"), "{bytes}");
    let locks = pprof(&["-top", "-sample_index=locks"]);
    assert!(locks.contains("80ms"), "{locks}");
}

#[test]
fn the_page_has_a_tab_for_each() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    let known = text(&profile(AllocationSampling::Tick, true), "html", &Options::default());
    std::fs::write(&page, known).unwrap();
    for (tab, parts) in [
        (
            "allocations",
            &[
                "41.5 MB",
                "byte[]",
                "Orders.Read",
                "large objects",
                "object that fills up each 100 KB",
            ][..],
        ),
        (
            "locks",
            &[
                "20 waits",
                "100 ms",
                "Stock.Take",
                "80.0 %",
                "not known",
                "4.19 ms",
                "which methods wait for which lock",
                "lock 0x7f01",
            ],
        ),
        ("flame&series=allocations", &["All 1 thread", "Flame graph"]),
        ("flame&series=locks", &["Flame graph"]),
    ] {
        let shown = browser::shown(&page, folder.path(), tab);
        for part in parts {
            assert!(shown.contains(part), "{tab}: `{part}` is missing in {shown}");
        }
    }
}
