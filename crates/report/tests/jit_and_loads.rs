//! What all formats say of compiled methods, and of loaded assemblies and types.

mod browser;
mod schema;

use profile::{BuildOptions, Filter, Profile, ProfileBuilder, SeriesKind, session::*};
use profilers::{
    jit::{Compilation, JitTier, Lookups, PrecompiledCode},
    loads::{AssemblyLoad, LoadOutcome, TypeLoad, Unloaded},
};
use report::Options;
use serde_json::Value;

const START: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn load(time: u64, name: &str, outcome: LoadOutcome, own: Option<u64>) -> AssemblyLoad {
    AssemblyLoad {
        time: START + time * MS,
        thread: ThreadId(0),
        stack: StackId(3),
        truncated: false,
        duration: own.map(|own| own + 2 * MS),
        own,
        resolution: own.map(|own| own / 2),
        outcome,
        assembly: if outcome == LoadOutcome::Loaded { 0x7000 + time } else { 0 },
        name: format!("{name}, Version=2.1.0.0, Culture=neutral, PublicKeyToken=null"),
        path: if outcome == LoadOutcome::Loaded {
            format!("/app/{name}.dll")
        } else {
            String::new()
        },
        requested: format!("{name}, Version=2.0.0.0"),
        requested_by: "Shop, Version=1.0.0.0".into(),
        context: "Default".into(),
        step: vec!["AppDomain.AssemblyResolve handler Find".into()],
        step_found: vec![outcome == LoadOutcome::Loaded],
        step_result: vec![String::new()],
        step_took: vec![3 * MS],
        dynamic: false,
        collectible: name == "Plugin",
        precompiled: name == "Shop.Data",
    }
}

/// Two seconds: ten compilations of three methods, four requests for assemblies, six steps of two
/// types.
fn records(timed: bool) -> Vec<SessionRecord> {
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
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Launched,
        start_unix_ms: 1_700_000_000_000,
        start: START,
        cpus: 2,
        profilers: vec![run("jit"), run("loads")],
    })];
    for (id, name) in ["main", "tiering"].into_iter().enumerate() {
        records.push(SessionRecord::Thread(ThreadDef {
            id: ThreadId(id as u32),
            os_tid: 7 + id as u32,
            name: Some(name.into()),
            managed: true,
            started: None,
            ended: None,
        }));
    }
    records.push(SessionRecord::Module(ModuleDef {
        id: ModuleId(0),
        managed: true,
        name: "shop.dll".into(),
        path: "/app/shop.dll".into(),
        build_id: None,
    }));
    let functions = [
        ("Shop.App", "Main", FunctionKind::Managed),
        ("Shop.Orders", "Read", FunctionKind::Managed),
        ("", "made", FunctionKind::Dynamic),
        ("", "[load]", FunctionKind::Runtime),
        ("", "[compiled in the background]", FunctionKind::Runtime),
    ];
    for (id, (type_name, name, kind)) in functions.into_iter().enumerate() {
        let id = id as u32;
        records.push(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind,
            module: (kind == FunctionKind::Managed).then_some(ModuleId(0)),
            type_name: type_name.into(),
            name: name.into(),
            parameters: if kind == FunctionKind::Managed { "()".into() } else { String::new() },
            state_machine: None,
        }));
        let (function, line, trust) = (FunctionId(id), None, FrameTrust::Runtime);
        records.push(SessionRecord::Frame(FrameDef { id: FrameId(id), function, line, trust }));
    }
    // Main; Main calls Read; Main calls what was made; Main loads; the background; Read in it.
    let stacks = [(None, 0), (Some(0), 1), (Some(0), 2), (Some(0), 3), (None, 4), (Some(4), 1)];
    for (id, (parent, frame)) in stacks.into_iter().enumerate() {
        let (id, parent) = (StackId(id as u32), parent.map(StackId));
        records.push(SessionRecord::Stack(StackDef { id, parent, frame: FrameId(frame) }));
    }
    for (id, name) in
        ["Shop.Order", "System.Collections.Generic.List<Shop.Order>"].into_iter().enumerate()
    {
        records.push(SessionRecord::Type(TypeDef { id: TypeId(id as u32), name: name.into() }));
    }
    let mut rows = RowBuffer::default();
    for index in 0..10_u32 {
        // Read thrice: tier 0, then twice in the background; seven dynamic ones, of which one has
        // no beginning.
        let background = matches!(index, 1 | 2);
        let read = index < 3;
        rows.push(&Compilation {
            time: START + u64::from(index) * 100 * MS,
            thread: ThreadId(background.into()),
            stack: StackId(if background {
                5
            } else if read {
                1
            } else {
                2
            }),
            duration: (index != 9).then_some(if read { 4 * MS } else { MS }),
            method: if read { 0x100 } else { 0x200 },
            tier: match index {
                0 => JitTier::Quick,
                1 => JitTier::QuickInstrumented,
                2 => JitTier::Tier1,
                _ => JitTier::Optimized,
            },
            il_size: if read { 100 } else { 0 },
            native_size: 300,
            background,
            precompiled: if index == 0 {
                PrecompiledCode::Missing
            } else {
                PrecompiledCode::NotSought
            },
            truncated: false,
        });
    }
    let lookups =
        Lookups { time: START + 500 * MS, found: 40, missing: 1, duration: 2 * MS, freed: 0 };
    rows.push(&lookups);
    rows.push(&Lookups { freed: 3, ..lookups });
    let own = |own: u64| timed.then_some(own);
    rows.push(&load(10, "Shop.Data", LoadOutcome::Loaded, own(20 * MS)));
    rows.push(&load(50, "Plugin", LoadOutcome::Loaded, own(5 * MS)));
    if timed {
        rows.push(&load(60, "Shop.Data", LoadOutcome::Known, own(MS)));
        rows.push(&load(70, "Shop.resources", LoadOutcome::Failed, own(7 * MS)));
        for (time, ty) in (81..).zip([0, 0, 1, 1, 1, 1]) {
            rows.push(&TypeLoad {
                time: START + time * MS,
                thread: ThreadId(0),
                stack: StackId(3),
                ty: TypeId(ty),
                duration: 2 * MS,
                own: MS,
                truncated: false,
            });
        }
    }
    let name = "Plugin, Version=2.1.0.0".to_owned();
    rows.push(&Unloaded { time: START + 900 * MS, assembly: 0x7000 + 50, name });
    records.extend(rows.take());
    records.push(SessionRecord::End(SessionEnd {
        time: START + 2_000 * MS,
        reason: EndReason::Stopped,
        exit_code: None,
    }));
    records
}

fn profile(timed: bool) -> Profile {
    let mut builder =
        ProfileBuilder::new(BuildOptions { keep_samples: true, ..BuildOptions::default() });
    records(timed).iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

fn text(profile: &Profile, id: &str, options: &Options) -> String {
    let mut out = Vec::new();
    report::exporter(id).unwrap().write(profile, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn programs_get_what_the_schemas_say() {
    schema::check(&profile(true));
    schema::check(&profile(false));
}

#[test]
fn text_page() {
    insta::assert_snapshot!(text(
        &profile(true),
        "text",
        &Options { width: 160, ..Options::default() }
    ));
}

#[test]
fn markdown_page_of_an_old_runtime() {
    insta::assert_snapshot!(text(&profile(false), "markdown", &Options::default()));
}

#[test]
fn json_has_sums_and_single_ones() {
    let json: Value =
        serde_json::from_str(&text(&profile(true), "json", &Options::default())).unwrap();
    let jit = &json["jit"];
    let sums = |part: &str| {
        (jit[part]["methods"].as_u64().unwrap(), jit[part]["time_ns"].as_u64().unwrap() / MS)
    };
    assert_eq!((sums("all"), sums("blocking"), sums("background")), ((10, 18), (8, 10), (2, 8)));
    // Numbers of dynamic methods come again without being the same method.
    assert_eq!(
        (sums("again"), sums("dynamic"), sums("precompiled_missing")),
        ((2, 8), (7, 6), (1, 4))
    );
    assert_eq!(
        (&jit["untimed"], &jit["precompiled"]["found"], &jit["precompiled"]["freed"]),
        (&1.into(), &80.into(), &3.into())
    );
    let read = &jit["methods"][0];
    assert_eq!(
        (&read["function"], &read["compilations"], &read["methods"], &read["most"]),
        (&1.into(), &3.into(), &1.into(), &3.into())
    );
    assert_eq!(
        (&read["precompiled"], &read["called_at"]["function"]),
        (&"missing".into(), &0.into())
    );
    let made = &jit["methods"][1];
    assert_eq!(
        (&made["methods"], &made["most"], &made["precompiled"]),
        (&7.into(), &1.into(), &Value::Null)
    );
    assert_eq!(jit["compilations"][9]["duration_ns"], Value::Null);
    let loads = &json["loads"];
    let counts = ["loaded", "known", "failed", "unloaded", "precompiled", "collectible"]
        .map(|part| loads[part].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 1, 1, 1, 1]);
    assert_eq!(
        (&loads["assembly_ns"], &loads["type_ns"], &loads["failed_ns"]),
        (&33_000_000.into(), &6_000_000.into(), &7_000_000.into())
    );
    assert_eq!((&loads["distinct_types"], &loads["types"][0]["type"]), (&2.into(), &1.into()));
    let data = &loads["assemblies"][0];
    assert_eq!(
        (&data["name"], &data["version"], &data["called_at"]["function"]),
        (&"Shop.Data".into(), &"2.1.0.0".into(), &0.into())
    );
    assert_eq!(json["series"].as_array().unwrap().len(), 2);
}

#[test]
fn filters_pick_by_thread_time_and_text() {
    let all = profile(true);
    let of = |filter: Filter| all.filtered(&filter).unwrap();
    let some = of(Filter { thread: Some("tiering".into()), ..Filter::default() });
    assert_eq!(
        (some.jit.compilations.len(), some.loads.assemblies.len(), some.loads.types.len()),
        (2, 0, 0)
    );
    let some = of(Filter { time: Some(0..65 * MS), ..Filter::default() });
    assert_eq!(
        (some.jit.compilations.len(), some.loads.assemblies.len(), some.loads.unloads.len()),
        (1, 3, 0)
    );
    let some = of(Filter { text: Some("orders.read".into()), ..Filter::default() });
    assert_eq!((some.jit.compilations.len(), some.loads.types.len()), (3, 0));
    assert_eq!(some.series(SeriesKind::Jit).totals.weight, 12 * MS);
}

#[test]
fn stacks_and_markers_of_other_tools() {
    let of = |series| Options { series: Some(series), ..Options::default() };
    let collapsed = text(&profile(true), "collapsed", &of(SeriesKind::Jit));
    assert!(
        collapsed
            .lines()
            .any(|line| line.contains("Shop.Orders.Read") && line.ends_with(" 4000000")),
        "{collapsed}"
    );
    let firefox: Value =
        serde_json::from_str(&text(&profile(true), "firefox", &Options::default())).unwrap();
    let markers = firefox["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["markers"]["length"].as_u64().unwrap());
    assert_eq!(markers.sum::<u64>(), 10 + 4 + 6);
}

#[test]
fn the_page_has_a_tab_for_each() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, text(&profile(true), "html", &Options::default())).unwrap();
    for (tab, parts) in [
        (
            "jit",
            &[
                "10 methods",
                "tier 0 instrumented",
                "Orders.Read",
                "not in the image",
                "for 80 methods",
                "2 had none that could be used",
                "18.0 ms",
            ][..],
        ),
        (
            "loads",
            &[
                "Shop.Data",
                "2.1.0.0",
                "Shop.resources",
                "not found",
                "handler Find",
                "List&lt;Shop.Order&gt;",
                "33.0 ms",
            ],
        ),
        ("flame&series=jit", &["Flame graph"]),
    ] {
        let shown = browser::shown(&page, folder.path(), tab);
        for part in parts {
            assert!(shown.contains(part), "{tab}: `{part}` is missing in {shown}");
        }
    }
}
