//! Real programs with every method instrumented that can be, the runtime's own among them, from the
//! first instruction on: they do what they do without, and the calls that begin end.
#![cfg(unix)]
mod common;

use common::binary;
use profile::session::InstrumentState;
use profile::{BuildOptions, NameStyle, Profile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::{Host, Launch, Runtime, Sample, Stream, on_sample_runtimes_at_once};

const LIMIT: Duration = Duration::from_secs(120);
/// Methods that every program has with all that the runtime brings, and those that each program
/// calls.
const MANY: usize = 15_000;
const SOME: usize = 500;

/// `clrscope launch` in front of a program.
fn everything(path: &Path) -> Vec<String> {
    everything_with(&[], path)
}

/// The same with further options for tracing.
fn everything_with(options: &[&str], path: &Path) -> Vec<String> {
    let before = [binary(), "launch", "-q", "-p", "gc", "--trace", "*", "--everything"];
    let words = before.iter().chain(options).chain(&["-o"]).copied();
    words.chain([path.to_str().unwrap(), "--"]).map(str::to_owned).collect()
}

/// With arguments, each method gets a handler around its body also where it would need none.
const WAYS: [&[&str]; 2] = [&[], &["--args"]];

/// What is known of a program all of whose methods were traced.
#[derive(Debug, Default)]
struct World {
    /// Methods that were instrumented, and those of them that were called.
    traced: usize,
    called: usize,
    refused: usize,
    calls: u64,
    /// What was called and has not returned: name, calls, ends.
    open: Vec<(String, u64, u64)>,
    /// Calls that have ended by an exception, by name.
    failed: BTreeMap<String, u64>,
    dropped: Vec<(String, u64)>,
}

impl World {
    /// Reads a session, and checks what is true for every program.
    #[track_caller]
    fn read(path: &Path, runtime: Runtime, what: &str) -> Self {
        let profile = Profile::read(File::open(path).unwrap(), BuildOptions::default()).unwrap();
        let mut world = World::default();
        for method in profile.traced.methods() {
            let name = || profile.tables.function_name(method.function, NameStyle::FULL);
            let (calls, ended) = (method.calls.calls, method.calls.timed);
            if let InstrumentState::Refused(why) = &method.state {
                assert!(!why.trim().is_empty(), "{what}: {} is refused without a reason", name());
                assert!(
                    !why.contains("compile") || why.contains("how it is compiled"),
                    "{what}: {}: {why}",
                    name()
                );
                assert!(!why.contains("rewritten"), "{what}: {}: {why}", name());
                assert_eq!(calls, 0, "{what}: {} is refused, and counted", name());
                world.refused += 1;
                continue;
            }
            assert!(
                method.calls.failed <= ended && ended <= calls,
                "{what}: {}: {:?}",
                name(),
                method.calls
            );
            world.traced += 1;
            world.called += usize::from(calls > 0);
            world.calls += calls;
            if method.calls.failed > 0 {
                world.failed.insert(name(), method.calls.failed);
            }
            if ended != calls {
                world.open.push((name(), calls, ended));
            }
        }
        assert_eq!(profile.traced.unnamed, 0, "{what}: calls of methods that nobody has named");
        if runtime.major() < 9 {
            assert!(world.traced > MANY && world.refused > 1000, "{what}: {world:?}");
        } else {
            // Each is looked at when it is called for the first time.
            assert!(
                (SOME..MANY).contains(&world.traced) && world.refused < 1000,
                "{what}: {world:?}"
            );
            // Where there is no room for the calls of all of them, calls of the last ones are
            // dropped.
            assert!(world.called * 4 > world.traced * 3, "{what}: {world:?}");
        }
        assert!(world.called > 300 && world.calls > 5000, "{what}: {world:?}");
        let observer = profile.observer_total().expect("the agent has said something of itself");
        world.dropped = observer.dropped.iter().filter(|(_, count)| *count > 0).cloned().collect();
        world
    }

    /// Calls that have not ended are those that threads were in when the process ended, which wait
    /// for something, and asynchronous ones.
    #[track_caller]
    fn assert_balanced(&self, threads: u64, what: &str) {
        let open = |(name, calls, ended): &&(String, u64, u64)| {
            calls - ended > threads && !name.contains("Async")
        };
        let too_many: Vec<_> = self.open.iter().filter(open).collect();
        assert!(too_many.is_empty(), "{what}: {too_many:?}");
        // A thread is in a few dozen methods at a time.
        assert!(self.open.len() < 60 * threads as usize, "{what}: {:?}", self.open);
    }

    /// Nothing of the program itself is under way at its end.
    #[track_caller]
    fn assert_over(&self, prefix: &str, what: &str) {
        let open: Vec<_> = self.open.iter().filter(|(name, ..)| name.starts_with(prefix)).collect();
        assert!(open.is_empty(), "{what}: {open:?}");
        assert!(self.dropped.is_empty(), "{what}: {:?}", self.dropped);
    }
}

/// How a program ended, and what it wrote to standard output.
#[derive(Debug, PartialEq)]
struct Ended {
    code: Option<i32>,
    lines: Vec<String>,
}

/// Runs a program to its end, with these lines as its input.
#[track_caller]
fn run(launch: Launch, input: &[&str]) -> Ended {
    let mut process = launch.env("AZURE_MCP_COLLECT_TELEMETRY", "false").start();
    for line in input {
        process.send_line(line).unwrap();
    }
    process.close_stdin();
    let status = process.wait(LIMIT).unwrap();
    // It has ended, but what it wrote may still be on its way.
    let _ = process.wait_for_line(LIMIT, |_| false);
    assert!(status.code().is_some(), "{status}: {}", process.transcript());
    Ended { code: status.code(), lines: process.lines(Stream::Out) }
}

/// A sample with everything traced and without, on one runtime: its two truths.
#[track_caller]
fn twice(
    name: &str,
    runtime: Runtime,
    arguments: &[&str],
    input: &[&str],
) -> (Value, Value, World) {
    twice_with(&[], name, runtime, arguments, input)
}

/// The same with further options for tracing.
#[track_caller]
fn twice_with(
    options: &[&str],
    name: &str,
    runtime: Runtime,
    arguments: &[&str],
    input: &[&str],
) -> (Value, Value, World) {
    let what = format!("{name} on {runtime}");
    let folder = common::scratch();
    let path = common::file(&folder, "world.clrscope");
    let plain = run(Sample::named(name).launch(runtime, arguments), input);
    let traced = run(
        Sample::named(name).launch(runtime, arguments).under(everything_with(options, &path)),
        input,
    );
    assert_eq!((plain.code, traced.code), (Some(0), Some(0)), "{what}: {traced:?}");
    assert_eq!(plain.lines.len(), traced.lines.len(), "{what}: {traced:?}");
    let truth = |ended: &Ended| {
        let line = ended.lines.iter().find(|line| line.starts_with('{')).unwrap();
        serde_json::from_str::<Value>(line).unwrap()
    };
    let world = World::read(&path, runtime, &what);
    world.assert_balanced(12, &what);
    println!(
        "{what}: {} traced, {} called, {} refused, {} calls",
        world.traced, world.called, world.refused, world.calls
    );
    (truth(&plain), truth(&traced), world)
}

/// Which methods of the sample an exception leaves, and how often each.
const LEFT: [(&str, &[(&str, u64)]); 4] = [
    ("Clrscope.Samples.DeepException", &[("Descend(int)", 13)]),
    ("Clrscope.Samples.WrappedException", &[("Wrap()", 1)]),
    ("System.InvalidOperationException", &[("Inner()", 1)]),
    ("System.ArgumentException", &[("ThroughFinally()", 1)]),
];

#[test]
fn exceptions_take_the_same_ways() {
    on_sample_runtimes_at_once(|runtime| {
        let (plain, traced, world) =
            twice("thrower", runtime, &["--count", "200", "--rate", "0"], &[]);
        assert_eq!(plain["exceptions"], traced["exceptions"], "{runtime}");
        world.assert_over("Clrscope.Samples.Thrower.", &runtime.to_string());
        // Of each, there is one before the program counts.
        let failed =
            |name: &str| world.failed.get(&format!("Clrscope.Samples.Thrower.{name}")).copied();
        for (exception, leaves) in LEFT {
            let thrown = traced["exceptions"][exception]["count"].as_u64().unwrap() + 1;
            for (name, times) in leaves {
                assert_eq!(
                    failed(name),
                    Some(thrown * times),
                    "{runtime}: {name}: {:?}",
                    world.failed
                );
            }
        }
        let left: usize = LEFT.iter().map(|(_, leaves)| leaves.len()).sum();
        let of_sample =
            world.failed.keys().filter(|name| name.starts_with("Clrscope.Samples.")).count();
        assert_eq!(of_sample, left, "{runtime}: {:?}", world.failed);
    });
}

#[test]
fn a_program_that_checks_itself_finds_nothing_wrong() {
    on_sample_runtimes_at_once(|runtime| {
        // A lost register makes another exit code.
        let (plain, traced, world) =
            twice("caller", runtime, &["--rounds", "100", "--fib", "12"], &[]);
        for part in ["methods", "paths"] {
            assert_eq!(plain[part], traced[part], "{runtime}");
        }
        world.assert_over("Clrscope.Samples.Caller.", &runtime.to_string());
    });
}

#[test]
fn methods_of_all_shapes_give_the_right_results() {
    on_sample_runtimes_at_once(|runtime| {
        let (plain, traced, world) =
            twice("traced", runtime, &["--sleep", "2"], &["go 20", "exit"]);
        assert_eq!(traced["wrong"], 0, "{runtime}");
        assert_eq!(plain["methods"], traced["methods"], "{runtime}");
        world.assert_over("Clrscope.Samples.Traced.", &runtime.to_string());
    });
}

#[test]
fn arguments_are_read_wherever_there_are_some() {
    on_sample_runtimes_at_once(|runtime| {
        let (plain, traced, _) =
            twice_with(&["--args"], "traced", runtime, &["--sleep", "2"], &["go 20", "exit"]);
        assert_eq!(traced["wrong"], 0, "{runtime}");
        assert_eq!(plain["methods"], traced["methods"], "{runtime}");
        let (plain, traced, _) =
            twice_with(&["--args"], "thrower", runtime, &["--count", "200", "--rate", "0"], &[]);
        assert_eq!(plain["exceptions"], traced["exceptions"], "{runtime}");
    });
}

#[test]
fn asynchronous_methods_wait_for_the_same_things() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let (plain, traced, _) =
            twice("asyncer", runtime, &["--orders", "5", "--burners", "2"], &["more 3", "end"]);
        for part in ["pending", "stacks"] {
            assert_eq!(plain[part], traced[part], "{runtime}");
        }
    }
}

/// Sockets, HTTP, the thread pool and timers.
#[test]
fn a_service_answers_its_requests() {
    let (plain, traced, _) = twice("clinic", Runtime::V9, &["--seconds", "3"], &[]);
    // Twenty a second; the first ones wait until everything is compiled.
    assert!(traced["requests"].as_u64() >= Some(5), "{traced} is not {plain}");
}

fn ways_of(runtimes: [Runtime; 2]) -> impl Iterator<Item = (Runtime, &'static [&'static str])> {
    runtimes.into_iter().flat_map(|runtime| WAYS.map(|options| (runtime, options)))
}

fn app(runtime: Runtime) -> PathBuf {
    match runtime.require().host() {
        Host::App { app } | Host::StartupHook { app } => app,
        Host::Muxer { .. } => panic!("{runtime} is no application"),
    }
}

#[test]
fn a_trimmed_application_says_its_version() {
    for (runtime, options) in ways_of([Runtime::Azmcp9, Runtime::V10]) {
        let folder = common::scratch();
        let path = common::file(&folder, "version.clrscope");
        let launch = || Launch::new(app(runtime)).arg("--version");
        let begun = Instant::now();
        let plain = run(launch(), &[]);
        let (took, begun) = (begun.elapsed(), Instant::now());
        let traced = run(launch().under(everything_with(options, &path)), &[]);
        let ratio = begun.elapsed().as_secs_f64() / took.as_secs_f64();
        assert_eq!(plain, traced, "{runtime}");
        assert_eq!((plain.code, plain.lines.len()), (Some(0), 1), "{runtime}: {plain:?}");
        let world = World::read(&path, runtime, &runtime.to_string());
        world.assert_balanced(16, &runtime.to_string());
        println!(
            "{runtime} {options:?}: {:.2} times as long; {} methods traced, {} called, {} refused, \
                {} calls, dropped {:?}",
            ratio, world.traced, world.called, world.refused, world.calls, world.dropped
        );
    }
}

/// Over its standard streams, with System.Text.Json, logging, dependency injection and a lot of
/// asynchronous code.
#[test]
fn a_trimmed_application_answers_the_same() {
    for (runtime, options) in ways_of([Runtime::Azmcp9, Runtime::V10]) {
        let folder = common::scratch();
        let path = common::file(&folder, "server.clrscope");
        let mut plain = testkit::TargetProcess::azmcp(runtime);
        let expected = plain.feed(1).unwrap();
        plain.close_stdin();
        let mut traced = TestServer::start(runtime, options, &path);
        assert_eq!(traced.0.feed(1).unwrap(), expected, "{runtime}");
        let (plain, traced) = (plain.wait(LIMIT).unwrap(), traced.end());
        assert_eq!(plain.code(), traced.code(), "{runtime}");
        let world = World::read(&path, runtime, &runtime.to_string());
        world.assert_balanced(24, &runtime.to_string());
        println!(
            "{runtime} {options:?}: {} called, {} calls, dropped {:?}",
            world.called, world.calls, world.dropped
        );
    }
}

/// `azmcp server start` with everything traced.
struct TestServer(testkit::TargetProcess);

impl TestServer {
    fn start(runtime: Runtime, options: &[&str], path: &Path) -> Self {
        Self(
            testkit::TargetProcess::azmcp_launch(runtime)
                .under(everything_with(options, path))
                .start(),
        )
    }

    fn end(mut self) -> std::process::ExitStatus {
        self.0.close_stdin();
        self.0.wait(LIMIT).unwrap()
    }
}

/// An application that reads and writes JSON with reflection and Newtonsoft.Json, on .NET 8.
#[test]
fn a_tool_reads_and_writes_the_same_file() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small.sarif");
    let folder = common::scratch();
    let (path, out) = (common::file(&folder, "tool.clrscope"), common::file(&folder, "out.sarif"));
    let written = |ended: Ended| {
        let text = fs::read_to_string(&out).unwrap();
        fs::remove_file(&out).unwrap();
        (ended.code, text)
    };
    let words = ["rewrite", input.to_str().unwrap(), "--output", out.to_str().unwrap()];
    let rewrite = || Launch::new(app(Runtime::V8)).args(words);
    let plain = written(run(rewrite(), &[]));
    let traced = written(run(rewrite().under(everything(&path)), &[]));
    assert!(plain.0 == Some(0) && plain.1.len() > 1000, "{plain:?}");
    assert_eq!(plain, traced);
    let world = World::read(&path, Runtime::V8, "rewrite");
    world.assert_balanced(12, "rewrite");
    println!(
        "rewrite: {} called, {} calls, dropped {:?}",
        world.called, world.calls, world.dropped
    );
}
