//! Costs of finding problems: heap snapshots, checks of locks, a whole check-up, and exact counts
//! of objects.

use super::observe::{Recorded, Recording};
use super::slowdown::{Comparison, Kind, Patience, Watcher, operations_per_cpu_second};
use super::table::{Distribution, Goal, Row};
use super::work::working;
use super::{BUILD_LIMIT, Options};
use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Launch, Runtime, Sample};

/// For `--only`.
pub const HEAP: &str = "heap snapshot of a million objects";
/// For `--only`.
pub const LESS: &str = "partial heap snapshot";
/// For `--only`.
pub const LARGE: &str = "a heap of 20 M objects, analysed";
/// For `--only`.
pub const LOCKS: &str = "deadlocks, verdict";
/// For `--only`.
pub const TASKS: &str = "200,000 waiting asynchronous methods";
/// For `--only`.
pub const ESTIMATES: &str = "allocations, the truth within the error bars";
/// For `--only`.
pub const STORM: &str = "allocations in a storm, the truth within the error bars";
/// For `--only`.
pub const CHECKUP: &str = "checkup";

/// For `--only`.
pub const EXACT: &str = "exact allocations";

/// Runtimes that run samples.
pub const RUNTIMES: [Runtime; 3] = [Runtime::V3_1, Runtime::V8, Runtime::V9];

/// Objects that the sample holds beside others.
const OBJECTS: &str = "1000000";

/// Objects of the heap of whose roots snapshots are taken: some 250 MB.
const MANY: &str = "5000000";

/// Number of snapshots of a whole heap: one may take half as long as another, or twice.
const HEAP_LOOKS: usize = 9;

/// Number of snapshots of roots.
const ROOT_LOOKS: usize = 5;

/// Orders that wait in the sample, each of which is two methods.
const ORDERS: &str = "100000";

/// How often estimates of allocated bytes are compared with the truth.
const ESTIMATED: usize = 100;

/// How often a verdict is asked for.
const VERDICTS: usize = 10;

/// Objects of one operation of the sample `throughput` that allocates.
const OBJECTS_OF_OPERATION: f64 = 32.0;

/// The profiler that is notified of every object and does nothing: `empty_allocated`, an example of
/// the crate `corprof`.
const EMPTY: &str = "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F04}";

/// What the processes pay while they are checked.
pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "slow-down, CPU-bound",
        work: &["cpu"],
        observers: &[Watcher {
            what: "what a check-up records",
            kind: Kind::Clrscope(&[
                "-p",
                "cpu,wall:rate=10,exceptions,gc,locks,counters,threads,threadpool",
                "--rate",
                "50",
            ]),
            goal: Some(Goal::only(1.0, "%")),
        }],
        patience: None,
    },
    Comparison {
        name: "slow-down, allocation-heavy",
        work: &["alloc"],
        observers: &[
            Watcher {
                what: "allocations",
                kind: Kind::Clrscope(&["-p", "allocations"]),
                goal: Some(Goal::only(5.0, "%")),
            },
            // As the first seconds are, before some of the time is left out.
            Watcher {
                what: "allocations, every sample",
                kind: Kind::Clrscope(&["-p", "allocations:samples=1000000"]),
                goal: None,
            },
        ],
        patience: Some(Patience { settle: 2_500, window: 3_000 }),
    },
    Comparison {
        name: "slow-down, lock-heavy",
        work: &["locks", "--threads", "2"],
        observers: &[Watcher {
            what: "locks",
            kind: Kind::Clrscope(&["-p", "locks"]),
            goal: Some(Goal::only(5.0, "%")),
        }],
        patience: None,
    },
];

/// What `clrscope` prints as JSON, whatever its exit code, and how long it took.
fn json(arguments: &[&str]) -> Result<(Value, f64)> {
    let mut command = Command::new(tool::clrscope());
    command.args(arguments).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output().context("cannot start clrscope")?;
    let took = started.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_str(&text)
        .with_context(|| format!("`{}`: {said}", tool::shown(&command)))?;
    Ok((value, took))
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("there is no number at {pointer}"))
}

/// Pause and memory of heap snapshots with all references.
///
/// # Errors
/// When a snapshot fails.
pub fn heap(runtime: Runtime) -> Result<Vec<Row>> {
    working(runtime, "heapster", &["--count", OBJECTS], |target| {
        let pid = target.pid.to_string();
        let (mut each, mut told) = (Vec::new(), String::new());
        for _ in 0..HEAP_LOOKS {
            let (look, _) = json(&["heap", &pid, "--json", "--no-strings"])?;
            let (objects, pause) =
                (number(&look, "/totals/objects")?, number(&look, "/pause_seconds")?);
            ensure!(objects >= 1e6, "the snapshot has only {objects} objects");
            each.push(pause / objects * 1e9);
            told = format!(
                "{objects:.0} objects, {:.0} references",
                number(&look, "/totals/references")?
            );
        }
        let each = Distribution::of(each);
        let rate = 1e3 / each.median();
        let measured = format!("{}, {rate:.2} M objects/s ({told})", each.with_quartiles("ns"));
        let recorded = Recorded::make(target.pid, &["-p", "heap"], Duration::from_secs(60))?;
        let held = recorded
            .observer()?
            .iter()
            .map(|status| status.target_memory)
            .max()
            .context("no status")?;
        let held = held as f64 / f64::from(1 << 20);
        Ok(vec![
            Row::new(
                format!("{HEAP}: pause per object, all references"),
                runtime,
                each.median(),
                measured,
                Goal::only(222.0, "ns"),
            ),
            Row::new(
                format!("{HEAP}: memory in the process"),
                runtime,
                held,
                format!("{held:.1} MB"),
                Goal::only(64.0, "MB"),
            ),
        ])
    })
}

/// Pauses of partial snapshots, with only objects or only roots, of a program that allocates.
///
/// # Errors
/// When a snapshot fails.
pub fn less(runtime: Runtime) -> Result<Vec<Row>> {
    working(runtime, "heapster", &["--count", MANY, "--churn", "1"], |target| {
        let pid = target.pid.to_string();
        let (look, _) = json(&["heap", &pid, "--json", "--histogram"])?;
        let (objects, pause) =
            (number(&look, "/totals/objects")?, number(&look, "/pause_seconds")?);
        ensure!(objects >= 5e6, "the snapshot has only {objects} objects");
        let each = pause / objects * 1e9;
        let measured = format!(
            "{each:.0} ns, {:.2} M objects/s ({objects:.0} objects, {:.0} ms)",
            objects / pause / 1e6,
            pause * 1e3
        );
        // The collection of that snapshot has made all of them old.
        let mut pauses = Vec::new();
        for _ in 0..ROOT_LOOKS {
            let (look, _) = json(&["heap", &pid, "--json", "--roots"])?;
            ensure!(
                look["complete"] == true,
                "the snapshot of roots is not complete: {}",
                look["note"]
            );
            pauses.push(number(&look, "/pause_seconds")? * 1e3);
        }
        let pauses = Distribution::of(pauses);
        Ok(vec![
            Row::new(
                format!("{LESS}: histogram, pause per object"),
                runtime,
                each,
                measured,
                Goal::only(200.0, "ns"),
            ),
            Row::new(
                format!("{LESS}: roots, pause with the collection"),
                runtime,
                pauses.median(),
                pauses.with_quartiles("ms"),
                Goal::only(10.0, "ms"),
            ),
        ])
    })
}

/// Dominators and retained sizes of a large heap, made up: the example `large` of the crate `heap`
/// says its times itself.
///
/// # Errors
/// When it fails.
pub fn large() -> Result<Vec<Row>> {
    let mut run = cargo();
    run.args(["run", "--quiet", "--release", "-p", "heap", "--example", "large"]);
    let text = tool::output(&mut run, BUILD_LIMIT)?;
    let last = text.lines().last().unwrap_or_default().to_owned();
    let words: Vec<&str> = last.split_whitespace().collect();
    let [seconds, "s,", "peak", megabytes, "MB"] = words[..] else {
        anyhow::bail!("it ended with: {last}")
    };
    let (seconds, megabytes): (f64, f64) = (seconds.parse()?, megabytes.parse()?);
    let all = text.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    Ok(vec![
        Row::new(
            format!("{LARGE}: time, with paths and holders"),
            "·",
            seconds,
            all,
            Goal::only(20.0, "s"),
        ),
        Row::new(
            format!("{LARGE}: memory"),
            "·",
            megabytes,
            format!("{megabytes:.0} MB"),
            Goal::only(3000.0, "MB"),
        ),
    ])
}

/// Time until it is known that a process is stuck, without attaching.
///
/// # Errors
/// When the deadlock is not found.
pub fn locks(runtime: Runtime) -> Result<Vec<Row>> {
    let mut target = Sample::named("deadlock").start(runtime, &["--monitor", "2"]);
    target.wait_for_ready();
    let pid = target.pid().to_string();
    let mut times = Vec::new();
    for _ in 0..VERDICTS {
        let (found, took) = json(&["deadlocks", &pid, "--no-attach", "--json"])?;
        ensure!(
            found["cycles"].as_array().is_some_and(|cycles| cycles.len() == 1),
            "not found: {found}"
        );
        times.push(took * 1e3);
    }
    let times = Distribution::of(times);
    let must = if runtime.major() >= 9 { 1000.0 } else { 3000.0 };
    Ok(vec![Row::new(
        LOCKS,
        runtime,
        times.median(),
        times.with_quartiles("ms"),
        Goal::only(must, "ms"),
    )])
}

/// Logical stacks of many tasks: how long it takes until they are reported, with two snapshots that
/// are a second apart, and how long the process is suspended.
///
/// # Errors
/// When they are not found.
pub fn tasks(runtime: Runtime) -> Result<Vec<Row>> {
    let mut target = Sample::named("asyncer").start(runtime, &["--orders", ORDERS]);
    target.wait_for_ready();
    let pid = target.pid().to_string();
    let (found, took) = json(&["async", &pid, "-d", "1s", "--no-samples", "--json"])?;
    let (pending, orders) = (number(&found, "/pending")?, number(&found, "/stacks/0/count")?);
    ensure!(pending >= 2e5 && orders == 1e5, "{pending} methods in stacks of {orders} at most");
    let pause = |at: usize| number(&found, &format!("/snapshots/{at}/pause_seconds"));
    let pauses = [pause(0)? * 1e3, pause(1)? * 1e3];
    let longest = pauses[0].max(pauses[1]);
    Ok(vec![
        Row::new(
            format!("{TASKS}: stacks, grouped; one second of it lies between two snapshots"),
            runtime,
            took,
            format!(
                "{took:.2} s ({pending:.0} methods, {:.0} objects)",
                number(&found, "/snapshots/1/objects")?
            ),
            Goal::only(3.0, "s"),
        ),
        Row::new(
            format!("{TASKS}: longest pause"),
            runtime,
            longest,
            format!("{:.0} and {:.0} ms", pauses[0], pauses[1]),
            Goal::only(300.0, "ms"),
        ),
    ])
}

/// How often the bytes that a type allocated lie outside of the 95 % interval of their estimate: of
/// a burst, which is followed as a whole, and of a storm, which is not.
///
/// # Errors
/// When a recording fails.
pub fn estimates(runtime: Runtime, name: &'static str) -> Result<Vec<Row>> {
    let storm = name == STORM;
    let amount = if storm { ["--seconds", "5"] } else { ["--mb", "200"] };
    let (mut outside, mut followed) = (BTreeMap::<String, (usize, f64)>::new(), Vec::new());
    for _ in 0..ESTIMATED {
        let arguments = [&["--gate", "--large", "40"], &amount[..]].concat();
        let mut target = Sample::named("allocator").start(runtime, &arguments);
        target.wait_for_ready();
        let recording = Recording::start(target.pid(), &["-p", "allocations"])?.settle()?;
        target.send_line("go")?;
        let truth = target.truth(BUILD_LIMIT);
        // Events come in blocks, a moment late.
        std::thread::sleep(Duration::from_millis(300));
        let recorded = recording.stop()?;
        let file = recorded.file();
        let (report, _) = json(&[
            "report",
            file.to_str().context("a path that is no text")?,
            "--format",
            "json",
        ])?;
        followed.push(number(&report, "/allocations/followed")? * 100.0);
        let rows = report["allocations"]["types"].as_array().context("no types")?;
        for (name, known) in truth["types"].as_object().context("no truth")? {
            let row = rows.iter().find(|row| row["type_name"] == name.as_str());
            let of =
                |field: &str| row.map_or(Ok(0.0), |row| number(row, &format!("/bytes/{field}")));
            let off = of("value")? - number(known, "/bytes")?;
            let sum = outside.entry(name.clone()).or_default();
            sum.0 += usize::from(off.abs() > of("margin")?);
            sum.1 += off / number(known, "/bytes")? / ESTIMATED as f64;
        }
    }
    let each = |(name, (count, bias)): (&String, &(usize, f64))| {
        format!("{name} {count} (mean {:+.1} %)", bias * 100.0)
    };
    let said = format!(
        "of {ESTIMATED}: {}; followed {} of the time",
        outside.iter().map(each).collect::<Vec<_>>().join(", "),
        Distribution::of(followed).with_quartiles("%")
    );
    let worst = outside.values().map(|(count, _)| *count).max().context("no types")?;
    let name = format!("{name}: how often not, worst type");
    Ok(vec![Row::new(name, runtime, worst as f64, said, Goal::only(ESTIMATED as f64 * 0.05, ""))])
}

/// A whole check-up of a process with a heap of some 100 MB.
///
/// # Errors
/// When it fails.
pub fn checkup(runtime: Runtime) -> Result<Vec<Row>> {
    let mut target = Sample::named("heapster").start(runtime, &["--count", OBJECTS]);
    target.wait_for_ready();
    let (found, took) = json(&["checkup", &target.pid().to_string(), "--json"])?;
    let said = found["notes"].as_array().map_or(0, Vec::len);
    ensure!(said == 0, "not everything was checked: {}", found["notes"]);
    let ids: Vec<&str> = found["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["id"].as_str())
        .collect();
    let measured = format!(
        "{took:.2} s; found: {}",
        if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") }
    );
    Ok(vec![Row::new(format!("{CHECKUP}: time"), runtime, took, measured, Goal::only(12.0, "s"))])
}

/// What it costs to count every object, against what it costs to be notified of every object: a
/// program that allocates is started without a profiler, with an empty one, and by `clrscope
/// launch`, in turns.
///
/// # Errors
/// When one of them fails.
pub fn exact_allocations(runtime: Runtime, options: &Options) -> Result<Vec<Row>> {
    let empty = tool::release_example("corprof", "empty_allocated", BUILD_LIMIT)?;
    let folder = tempfile::tempdir()?;
    let (clrscope, session) =
        (tool::clrscope().display().to_string(), folder.path().join("exact.clrscope"));
    let session = session.display().to_string();
    let plain = || Sample::named("throughput").launch(runtime, &["--work", "alloc"]);
    let told = || {
        let launch = plain().env("CORECLR_ENABLE_PROFILING", "1").env("CORECLR_PROFILER", EMPTY);
        launch.env("CORECLR_PROFILER_PATH", empty.as_os_str())
    };
    let counted = || {
        plain().under([&clrscope, "launch", "-q", "-p", "allocations:exact", "-o", &session, "--"])
    };
    let launches: [&dyn Fn() -> Launch; 3] = [&plain, &told, &counted];
    let mut costs = [const { Vec::new() }; 3];
    for turn in 0..options.pairs {
        for place in 0..launches.len() {
            let which = (turn + place) % launches.len();
            let mut target = launches[which]().start();
            target.wait_for_ready();
            let speed = operations_per_cpu_second(&mut target, options.window)?;
            costs[which].push(1e9 / speed / OBJECTS_OF_OPERATION);
            target.send_line("quit")?;
            let status = target.wait(Duration::from_secs(60))?;
            ensure!(status.success(), "the target ended with {status}\n{}", target.transcript());
        }
    }
    let [plain, told, counted] = costs.map(Distribution::of);
    let own = told.median() - plain.median();
    ensure!(own > 0.0, "to be told costs nothing: {own} ns");
    let ratio = (counted.median() - plain.median()) / own;
    let measured = format!(
        "{ratio:.2} × (an object takes {} without, {} with an empty callback, {} counted)",
        plain.with_quartiles("ns"),
        told.with_quartiles("ns"),
        counted.with_quartiles("ns")
    );
    Ok(vec![Row::new(
        format!("{EXACT}: against an empty callback"),
        runtime,
        ratio,
        measured,
        Goal::only(1.2, "×"),
    )])
}
