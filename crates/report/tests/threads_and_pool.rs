//! What all formats say of threads and of the thread pool.

mod browser;
mod schema;

use profile::{BuildOptions, Filter, Profile, ProfileBuilder, SeriesKind, session::*};
use profilers::{
    counters::{CounterDef, CounterKind, CounterValue},
    threadpool::PoolEvent,
    threads::Creation,
};
use report::Options;
use serde_json::Value;

const START: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Threads: main, one that sleeps for ever, a worker of the pool, and four that are started a
/// second apart and stay.
const NAMES: [&str; 7] =
    ["shop", "sleeper", ".NET TP Worker", "stays-1", "stays-2", "stays-3", "stays-4"];

/// Six seconds. `busy` has a worker that runs while items wait; else it blocks on a task. The pool
/// wants another number of workers after one and two seconds: how many, the throughput, and why.
/// `counted` has the counters of the pool.
fn records(busy: bool, counted: bool, adjusted: [(u32, f64, &str); 2]) -> Vec<SessionRecord> {
    let run = |id: &str| ProfilerRun {
        id: id.into(),
        engine: "engine".into(),
        rate_hz: None,
        params: vec![],
    };
    let mut records = vec![SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 7,
        process_name: "shop".into(),
        command_line: "dotnet shop.dll".into(),
        runtime: "9.0.0".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: START,
        cpus: 2,
        profilers: vec![run("threads"), run("threadpool")],
    })];
    let began = |id: u32| START + u64::from(id - 3) * 1500 * MS + 100 * MS;
    for (id, name) in (0..).zip(NAMES) {
        records.push(SessionRecord::Thread(ThreadDef {
            id: ThreadId(id),
            os_tid: 7 + id,
            name: Some(name.into()),
            managed: true,
            started: (id >= 3).then(|| began(id)),
            ended: None,
        }));
    }
    for (id, name) in (0..).zip(["shop.dll", "System.Private.CoreLib.dll"]) {
        let (id, name, path) = (ModuleId(id), name.to_owned(), format!("/app/{name}"));
        records.push(SessionRecord::Module(ModuleDef {
            id,
            managed: true,
            name,
            path,
            build_id: None,
        }));
    }
    let functions = [
        ("Shop.App", "Main", 0),
        ("Shop.Night", "Sleep", 0),
        ("System.Threading.Thread", "Sleep", 1),
        ("Shop.Orders", "Load", 0),
        ("System.Threading.Tasks.Task", "InternalWait", 1),
        ("Shop.Leaky", "Spawn", 0),
        ("Shop.Leaky", "Stay", 0),
        ("System.Threading.WaitHandle", "WaitOne", 1),
    ];
    for (id, (type_name, name, module)) in (0..).zip(functions) {
        records.push(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: FunctionKind::Managed,
            module: Some(ModuleId(module)),
            type_name: type_name.into(),
            name: name.into(),
            parameters: "()".into(),
            state_machine: None,
        }));
        let (line, trust) = (None, FrameTrust::Runtime);
        records.push(SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function: FunctionId(id),
            line,
            trust,
        }));
    }
    // Main; Sleep below Night; InternalWait below Load; Spawn below Main; WaitOne below Stay.
    let stacks = [
        (None, 0),
        (None, 1),
        (Some(1), 2),
        (None, 3),
        (Some(3), 4),
        (Some(0), 5),
        (None, 6),
        (Some(6), 7),
    ];
    for (id, (parent, frame)) in (0..).zip(stacks) {
        let (id, parent, frame) = (StackId(id), parent.map(StackId), FrameId(frame));
        records.push(SessionRecord::Stack(StackDef { id, parent, frame }));
    }
    let mut rows = RowBuffer::default();
    let counters = [
        (0, "threadpool-queue-length", CounterKind::Level),
        (1, "threadpool-thread-count", CounterKind::Level),
        (2, "threadpool-completed-items-count", CounterKind::Rate),
    ];
    for (counter, name, kind) in counters.into_iter().filter(|_| counted) {
        rows.push(&CounterDef {
            counter,
            source: "System.Runtime".into(),
            name: name.into(),
            title: name.into(),
            unit: String::new(),
            tags: String::new(),
            kind,
        });
    }
    for second in 0..7 {
        let time = START + second * SECOND;
        let seen = |thread: u32, stack: u32, state, cpu, born: i64| ThreadSeen {
            thread: ThreadId(thread),
            stack: StackId(stack),
            state,
            os_state: b'S',
            cpu,
            born,
            call: Some(202),
            limited: Some(false),
        };
        let mut threads = vec![
            seen(0, 0, ThreadState::Sleep, 5 * MS + second * MS, 0),
            seen(1, 2, ThreadState::Sleep, MS, -(60 * SECOND as i64)),
            seen(2, 4, ThreadState::Task, 2 * MS + second, 0),
        ];
        let there = (3..7).filter(|id| began(*id) < time);
        threads.extend(there.map(|id| seen(id, 7, ThreadState::Lock, MS, began(id) as i64)));
        records.push(SessionRecord::ThreadSnapshot(ThreadSnapshot { time, threads }));
        let values = [second as f64 * 10.0, 3.0, 5.0];
        for (counter, value) in (0..).zip(values).filter(|_| counted) {
            rows.push(&CounterValue { time, counter, value });
        }
    }
    for id in 3..7 {
        rows.push(&Creation {
            time: began(id),
            thread: ThreadId(id),
            creator: Some(ThreadId(0)),
            stack: Some(StackId(5)),
            managed_id: id + 10,
            pool: false,
        });
    }
    records.extend(rows.take());
    let mut batch = SampleBatch { start: START, ..SampleBatch::default() };
    for _ in 0..60 {
        batch.time_delta.push(100 * MS);
        batch.thread.push(ThreadId(2));
        batch.stack.push(StackId(if busy { 3 } else { 4 }));
        batch.weight.push(100 * MS);
        batch.state.push(if busy { ThreadState::Running } else { ThreadState::Task });
        batch.truncated.push(false);
    }
    records.push(SessionRecord::PoolSamples(batch));
    for (at, (workers, throughput, reason)) in (1..).zip(adjusted) {
        let time = START + at * SECOND;
        rows.push(&PoolEvent::adjusted(time, workers, throughput, reason.to_owned()));
    }
    rows.push(&PoolEvent::limits(START + 3 * SECOND, 2, 32767));
    records.extend(rows.take());
    let (time, reason) = (START + 6 * SECOND, EndReason::Stopped);
    records.push(SessionRecord::End(SessionEnd { time, reason, exit_code: None }));
    records
}

fn profile(busy: bool) -> Profile {
    let mut builder =
        ProfileBuilder::new(BuildOptions { keep_samples: true, ..BuildOptions::default() });
    let adjusted = [(4, 1.5, "Starvation"), (5, 1.5, "Starvation")];
    records(busy, true, adjusted).iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

fn text(profile: &Profile, format: &str, options: &Options) -> String {
    let mut out = Vec::new();
    report::exporter(format).unwrap().write(profile, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn programs_get_what_the_schemas_say() {
    schema::check(&profile(false));
    schema::check(&profile(true));
}

#[test]
fn text_page() {
    insta::assert_snapshot!(text(&profile(false), "text", &Options::default()));
}

#[test]
fn json_has_threads_and_the_pool() {
    let json: Value =
        serde_json::from_str(&text(&profile(false), "json", &Options::default())).unwrap();
    let all = &json["all_threads"];
    let suspect = &all["threads"][0];
    assert_eq!((&suspect["thread"], &suspect["standing"]), (&1.into(), &"zombie-suspect".into()));
    assert_eq!((&suspect["confidence"], &suspect["cpu_ns"]), (&"high".into(), &0.into()));
    assert_eq!(
        (&suspect["age_ns"], &suspect["watched_ns"]),
        (&(67 * SECOND).into(), &(6 * SECOND).into())
    );
    let of = |id: u32| {
        all["threads"].as_array().unwrap().iter().find(|row| row["thread"] == id).unwrap()
    };
    assert_eq!(
        (&of(0)["role"], &of(0)["standing"], &of(0)["cpu_ns"]),
        (&"main".into(), &"progress".into(), &(6 * MS).into())
    );
    assert_eq!((&of(2)["role"], &of(3)["role"]), (&"pool".into(), &"program".into()));
    assert_eq!((&of(3)["managed_id"], &of(3)["confidence"]), (&13.into(), &"medium".into()));
    assert_eq!(of(6)["standing"], "unjudged", "two looks have seen it");
    let start = &all["starts"][0];
    assert_eq!(
        (&start["leak"], &start["started"], &start["ended"]),
        (&true.into(), &4.into(), &0.into())
    );
    assert_eq!(
        json["functions"][start["at"]["function"].as_u64().unwrap() as usize]["method"],
        "Spawn"
    );

    let pool = &json["threadpool"];
    assert_eq!(
        (&pool["health"], &pool["blocked_share_while_queued"]),
        (&"starved".into(), &1.0.into())
    );
    assert!((pool["queued_share"].as_f64().unwrap() - 6.0 / 7.0).abs() < 1e-9, "{pool}");
    assert_eq!((&pool["min_workers"], &pool["time_ns"]["task"]), (&2.into(), &(6 * SECOND).into()));
    assert_eq!(
        pool["adjustments"][0],
        serde_json::json!({
            "reason": "Starvation", "count": 2, "workers": 2, "first_ns": SECOND, "last_ns": 2 * SECOND,
        })
    );
    let blocking = &pool["blocking"][0];
    assert_eq!(
        json["functions"][blocking["at"]["function"].as_u64().unwrap() as usize]["method"],
        "Load"
    );
    assert_eq!((&blocking["share"], &blocking["state"]), (&1.0.into(), &"task".into()));
    assert_eq!(pool["counters"]["queue_length"][6]["value"], 60.0);

    let busy: Value =
        serde_json::from_str(&text(&profile(true), "json", &Options::default())).unwrap();
    assert_eq!(busy["threadpool"]["health"], "busy");
    assert_eq!(busy["threadpool"]["blocking"], serde_json::json!([]));
}

/// Older runtimes report no length of the queue: what the workers do says whether items wait.
#[test]
fn without_the_length_of_the_queue_its_workers_tell() {
    let pool = |workers: u32, throughput: f64, reason: &str| {
        let mut builder =
            ProfileBuilder::new(BuildOptions { keep_samples: true, ..BuildOptions::default() });
        let mut records = records(false, false, [(workers, throughput, reason); 2]);
        let Some(SessionRecord::Info(info)) = records.first_mut() else { panic!() };
        info.runtime = "3.1.23".into();
        records.iter().for_each(|record| builder.add(record).unwrap());
        let profile = builder.finish(false).unwrap();
        let json: Value =
            serde_json::from_str(&text(&profile, "json", &Options::default())).unwrap();
        schema::check(&profile);
        let pool = &json["threadpool"];
        assert_eq!(pool["queue_evidence"], "workers");
        let page = text(&profile, "text", &Options::default());
        assert!(!page.contains("queue samples"), "{page}");
        (pool["health"].as_str().unwrap().to_owned(), pool["queued_share"].as_f64().unwrap())
    };
    // Nothing was taken for half a second, at the first and at the second second.
    assert_eq!(pool(4, 0.0, "Starvation"), ("starved".to_owned(), 0.5));
    // As many as the pool wants block all the time, and items are finished.
    assert_eq!(pool(1, 1.5, "Warmup"), ("starved".to_owned(), 1.0));
    // The pool wants more than are at work: others are free.
    assert_eq!(pool(4, 1.5, "Warmup"), ("healthy".to_owned(), 0.0));
    // Nothing is finished: the worker may block for good, with nothing behind it.
    assert_eq!(pool(1, 0.0, "Warmup"), ("healthy".to_owned(), 0.0));
}

#[test]
fn filters_pick_from_both() {
    let all = profile(false);
    let filter = Filter { thread: Some("sleeper".into()), ..Filter::default() };
    let some = all.filtered(&filter).unwrap();
    assert_eq!((some.threads.tracks.len(), some.series(SeriesKind::Threads).totals.weight), (1, 1));
    assert!(some.pool.samples.is_empty() && some.threads.creations.is_empty());
    let filter = Filter { time: Some(0..3 * SECOND), ..Filter::default() };
    let some = all.filtered(&filter).unwrap();
    assert_eq!((some.pool.samples.len(), some.pool.events.len()), (29, 2));
}

#[test]
fn formats_of_other_tools_count_threads_and_time() {
    let profile = profile(false);
    let of = |series| Options { series: Some(series), ..Options::default() };
    let collapsed = text(&profile, "collapsed", &of(SeriesKind::Threads));
    assert!(
        collapsed.contains("sleeper (8);Shop.Night.Sleep();System.Threading.Thread.Sleep() 1\n"),
        "{collapsed}"
    );
    let collapsed = text(&profile, "collapsed", &of(SeriesKind::Pool));
    assert!(collapsed.contains("Task.InternalWait() 6000000000\n"), "{collapsed}");
    let speedscope: Value =
        serde_json::from_str(&text(&profile, "speedscope", &Options::default())).unwrap();
    assert!(speedscope["profiles"].as_array().unwrap().len() >= 8, "{}", speedscope["profiles"]);
}

#[test]
fn the_page_has_a_tab_for_each() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, text(&profile(false), "html", &Options::default())).unwrap();
    for (tab, parts) in [
        (
            "all-threads",
            &["zombie, nearly sure", "sleeper (8)", "Leaky.Spawn", "leak", "sleeps for ever"][..],
        ),
        (
            "pool",
            &["Starved", "sync over async", "Orders.Load", "Starvation", "items in the queue"],
        ),
        ("flame&series=threads", &["All 7 threads", "Flame graph"]),
        ("flame&series=threadpool", &["Flame graph"]),
    ] {
        let shown = browser::shown(&page, folder.path(), tab);
        for part in parts {
            assert!(shown.contains(part), "{tab}: `{part}` is missing in {shown}");
        }
    }
}
