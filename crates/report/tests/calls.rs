//! What all formats say of calls and of transitions.

mod browser;
mod schema;

use profile::{BuildOptions, Filter, Profile, ProfileBuilder, SeriesKind, session::*};
use profilers::{calls::Calls, transitions::Transitions};
use report::Options;
use serde_json::Value;

const START: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Two seconds of `Main > Read > Parse` and `Main > Parse`, and of `read` in native code that calls
/// back.
fn records() -> Vec<SessionRecord> {
    let run = |id: &str, engine: &str| ProfilerRun {
        id: id.into(),
        engine: engine.into(),
        rate_hz: None,
        params: if id == "calls" { vec![("filter".into(), "Shop.*".into())] } else { vec![] },
    };
    let profilers = vec![
        run("calls", "enter and leave hooks, every call"),
        run("transitions", "runtime callbacks, every call"),
    ];
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
        profilers,
    })];
    for (id, name) in [(0, "main"), (1, "worker")] {
        records.push(SessionRecord::Thread(ThreadDef {
            id: ThreadId(id),
            os_tid: 7 + id,
            name: Some(name.into()),
            managed: true,
            started: None,
            ended: None,
        }));
    }
    let functions = [
        ("Shop.App", "Main"),
        ("Shop.Orders", "Read"),
        ("Shop.Orders", "Parse"),
        ("Shop.Native", "read"),
        ("", "[called from native code]"),
    ];
    for (id, (type_name, name)) in (0..).zip(functions) {
        records.push(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: if type_name.is_empty() { FunctionKind::Native } else { FunctionKind::Managed },
            module: None,
            type_name: type_name.into(),
            name: name.into(),
            parameters: if type_name.is_empty() { "" } else { "()" }.into(),
            state_machine: None,
        }));
        let (id, function) = (FrameId(id), FunctionId(id));
        records.push(SessionRecord::Frame(FrameDef {
            id,
            function,
            line: None,
            trust: FrameTrust::Runtime,
        }));
    }
    // 0: Main, 1: Main > Read, 2: Main > Read > Parse, 3: Main > Parse, 4: read, 6: read >
    // [called] > Parse.
    let stacks = [
        (None, 0),
        (Some(0), 1),
        (Some(1), 2),
        (Some(0), 2),
        (None, 3),
        (Some(4), 4),
        (Some(5), 2),
    ];
    for (id, (parent, frame)) in (0..).zip(stacks) {
        let (id, parent, frame) = (StackId(id), parent.map(StackId), FrameId(frame));
        records.push(SessionRecord::Stack(StackDef { id, parent, frame }));
    }
    let at = |second: u64| START + second * 1000 * MS;
    // Main continues: no further call of it. More calls than a number of 32 bits holds.
    let calls = [
        (1, 0, 0, 1, 100),
        (1, 0, 1, 10, 50),
        (1, 0, 2, 1000, 400),
        (2, 0, 0, 0, 100),
        (2, 0, 2, 5_000_000_000, 250),
        (2, 0, 3, 7, 100),
        (2, 1, 3, 3, 0),
    ];
    let mut rows = RowBuffer::default();
    for (second, thread, stack, count, own) in calls {
        let (thread, stack) = (ThreadId(thread), StackId(stack));
        rows.push(&Calls { time: at(second), thread, stack, count, own: own * MS });
    }
    for (stack, count, own) in [(4, 20, 30), (6, 40, 10)] {
        let (thread, stack) = (ThreadId(1), StackId(stack));
        rows.push(&Transitions { time: at(2), thread, stack, count, own: own * MS });
    }
    records.extend(rows.take());
    let end = SessionEnd {
        time: START + 2000 * MS,
        reason: EndReason::ProcessExited,
        exit_code: Some(0),
    };
    records.push(SessionRecord::End(end));
    records
}

fn profile(options: BuildOptions) -> Profile {
    let mut builder = ProfileBuilder::new(options);
    records().iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

fn text(profile: &Profile, id: &str, options: &Options) -> String {
    let mut out = Vec::new();
    report::exporter(id).unwrap().write(profile, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn programs_get_what_the_schemas_say() {
    schema::check(&profile(BuildOptions::default()));
    schema::check(&profile(BuildOptions { keep_samples: true, ..BuildOptions::default() }));
}

#[test]
fn text_page() {
    insta::assert_snapshot!(text(&profile(BuildOptions::default()), "text", &Options::default()));
}

#[test]
fn numbers_are_those_of_the_calls() {
    let profile = profile(BuildOptions { keep_samples: true, ..BuildOptions::default() });
    let json: Value = serde_json::from_str(&text(&profile, "json", &Options::default())).unwrap();
    let series = &json["series"][0];
    assert_eq!(
        (&series["profiler"], &series["samples"]),
        (&"calls".into(), &5_000_001_021_u64.into())
    );
    let parse =
        series["functions"].as_array().unwrap().iter().find(|row| row["function"] == 2).unwrap();
    assert_eq!(parse["self_samples"], 5_000_001_010_u64);
    assert_eq!(
        (&parse["self_weight"], &parse["self"]["share"]),
        (&(750 * MS).into(), &0.75.into())
    );
    assert_eq!(parse["self"]["low"], parse["self"]["high"], "nothing is estimated");
    let main =
        series["functions"].as_array().unwrap().iter().find(|row| row["function"] == 0).unwrap();
    assert_eq!((&main["self_samples"], &main["total_weight"]), (&1.into(), &(1000 * MS).into()));
}

#[test]
fn filters_take_threads_methods_and_whole_seconds() {
    let all = profile(BuildOptions::default());
    let worker = Filter { thread: Some("worker".into()), ..Filter::default() };
    let worker = all.filtered(&worker).unwrap();
    assert_eq!((worker.calls.totals.samples, worker.transitions.totals.samples), (3, 60));
    let read =
        all.filtered(&Filter { text: Some("Orders.Read".into()), ..Filter::default() }).unwrap();
    assert_eq!((read.calls.totals.samples, read.calls.totals.weight), (5_000_001_010, 700 * MS));
    let first = profile(BuildOptions { time: Some(0..1500 * MS), ..BuildOptions::default() });
    assert_eq!((first.calls.totals.samples, first.transitions.totals.samples), (1011, 0));
    assert!(
        all.filtered(&Filter { time: Some(0..1), ..Filter::default() }).is_err(),
        "sums know no times"
    );
}

#[test]
fn formats_of_other_tools_weigh_time() {
    let profile = profile(BuildOptions::default());
    let of = |series| Options { series: Some(series), ..Options::default() };
    let collapsed = text(&profile, "collapsed", &of(SeriesKind::Calls));
    assert!(
        collapsed.contains(
            "main (7);Shop.App.Main();Shop.Orders.Read();Shop.Orders.Parse() 650000000\n"
        ),
        "{collapsed}"
    );
    let collapsed = text(&profile, "collapsed", &of(SeriesKind::Transitions));
    assert!(collapsed.contains("worker (8);Shop.Native.read() 30000000\n"), "{collapsed}");
    let speedscope: Value =
        serde_json::from_str(&text(&profile, "speedscope", &of(SeriesKind::Calls))).unwrap();
    assert_eq!(speedscope["profiles"][0]["unit"], "nanoseconds");
    assert_eq!(speedscope["profiles"][0]["endValue"], 1000 * MS);
    let mut pprof = Vec::new();
    report::exporter("pprof").unwrap().write(&profile, &Options::default(), &mut pprof).unwrap();
    assert!(!pprof.is_empty());
    let page = text(&profile, "html", &of(SeriesKind::Calls));
    assert!(page.contains("\"calls\":true") && page.contains("\"id\":\"calls\""));
}

#[test]
fn the_page_shows_calls_without_error_bars() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, text(&profile(BuildOptions::default()), "html", &Options::default()))
        .unwrap();
    for (tab, parts) in [
        ("flame&series=calls", &["Flame graph", "5,000,001,021 calls", "All 2 threads"][..]),
        (
            "functions&series=calls",
            &[
                "Shop.Orders.Parse()",
                "75.0 %",
                "750 ms",
                "5,000,001,010 calls",
                "Every call is counted",
            ],
        ),
        ("functions&series=transitions", &["Shop.Native.read()", "30.0 ms", "20 calls"]),
    ] {
        let shown = browser::shown(&page, folder.path(), tab);
        for part in parts {
            assert!(shown.contains(part), "{tab}: `{part}` is missing in {shown}");
        }
        assert!(!shown.contains("class=\"margin\""), "{tab}: an error bar");
    }
}
