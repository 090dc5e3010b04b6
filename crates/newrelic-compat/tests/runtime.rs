//! New bodies in real runtimes: a program runs under the profiler `examples/trace_methods.rs`, with a managed agent that
//! prints each tracer. Its output is compared with the recorded one, line by line (`fixtures/README.md`).
#![cfg(target_os = "linux")]

use newrelic::shape::{AgentShape, of_file};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Compiler, Extras, Launch, Runtime, Stream, TargetProcess, source_root};

const LIMIT: Duration = Duration::from_secs(120);
const SHAPES: [AgentShape; 3] = [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55];
const CLSID: &str = "{5A0C4E0E-6B1B-4C57-A1F1-2E6D0B8D4C12}";
/// Methods that the recorded profiler loses, since they are inlined before it sees them. Here nothing is inlined.
const INLINED: [&str; 2] = ["RefApp.T.TracedInlinable", "RefApp.Outer+Nested.NInlinable"];

/// Methods that have a point and get no tracer, as under the recorded profiler.
const REFUSED: [&str; 3] = [
    "trace_methods: RefApp.Pt.Sum: Skipping sequential layout method",
    "trace_methods: RefApp.T.RefRet: By ref tokenization not supported.",
    "trace_methods: RefApp.T.get_Prop: Skipping a method with a special name",
];

/// How injected code comes to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Through helpers in the core library, if agents of this shape have any.
    Helpers,
    Reflection,
    /// Through a delegate in the module.
    Direct,
}

/// The example's library; `cargo test` builds the examples beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let library = profile.join("examples").join("libtrace_methods.so");
    assert!(library.is_file(), "{} is missing: build it with `cargo build -p newrelic --examples`", library.display());
    library
}

fn compile(name: &str, source: &str, is_library: bool, extras: Extras<'_>) -> PathBuf {
    let source = source_root().join("crates/newrelic/tests/programs").join(source);
    let assembly = Compiler::find().and_then(|mcs| mcs.compile_with(name, &source, Runtime::V3_1, is_library, extras));
    assembly.unwrap_or_else(|error| panic!("{error}"))
}

/// The managed agent of a shape.
fn agent(shape: AgentShape) -> PathBuf {
    let symbols: &[&str] = match shape {
        AgentShape::V10_53 => &[],
        AgentShape::V10_54 => &["SHAPE_10_54"],
        AgentShape::V10_55 => &["SHAPE_10_54", "SHAPE_10_55"],
    };
    let agent = compile("NewRelic.Agent.Core", "Agent.cs", true, Extras { symbols, ..Extras::default() });
    assert_eq!(of_file(&std::fs::read(&agent).unwrap()), Ok(shape));
    agent
}

/// A program under the profiler.
fn launch(program: &Path, points: &str, runtime: Runtime, shape: AgentShape, way: Way) -> Launch {
    Launch::new(runtime.require().executable())
        .arg(program)
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", CLSID)
        .env("CORECLR_PROFILER_PATH", library())
        .env("NEW_RELIC_DISABLE_APPDOMAIN_CACHING", (way == Way::Reflection).to_string())
        .env("TRACE_METHODS_DIRECTLY", (way == Way::Direct).to_string())
        .env("AGENT_WITHOUT_ARRAYS", (way == Way::Direct).to_string())
        .env("TRACE_METHODS_AGENT", agent(shape))
        .env("TRACE_METHODS_POINTS", source_root().join("crates/newrelic/tests/fixtures").join(points))
}

/// The output of a program under the profiler, once it has ended: the lines of both streams.
fn run(program: &Path, points: &str, runtime: Runtime, shape: AgentShape, way: Way) -> (Vec<String>, Vec<String>) {
    let mut process = launch(program, points, runtime, shape, way).start();
    finish(&mut process, &format!("{runtime}, agent {shape}, {way:?}"));
    (process.lines(Stream::Out), process.lines(Stream::Err))
}

/// Waits until the program has ended well and all of its output is read.
fn finish(process: &mut TargetProcess, case: &str) {
    let ended = process.wait_for_line(LIMIT, |_| false).unwrap_err().to_string();
    assert!(ended.contains("` ended before "), "{case}: {ended}");
    let status = process.wait(LIMIT).unwrap();
    assert!(status.success(), "{case}: {status}\n{}", process.transcript());
}

/// What the recorded program prints on a runtime, with an agent of a shape. Checks what the profiler did not instrument.
fn output(runtime: Runtime, shape: AgentShape, way: Way) -> Vec<String> {
    let api = compile("NewRelic.Api.Agent", "Api.cs", true, Extras::default());
    let target = compile("Target", "Target.cs", false, Extras { libraries: &[&api], ..Extras::default() });
    let (output, mut refused) = run(&target, "target.xml", runtime, shape, way);
    refused.sort();
    assert_eq!(refused, REFUSED, "{runtime}, agent {shape}");
    output
}

/// Splits off the tracers of [`INLINED`].
fn without_inlined(lines: Vec<String>) -> (Vec<String>, Vec<String>) {
    let is_inlined = |line: &str| {
        INLINED.iter().any(|method| {
            let (class, name) = method.rsplit_once('.').unwrap();
            line.starts_with(&format!("FINISH {method} "))
                || line.starts_with("GETTRACER ") && line.contains(&format!(" typeName={class} method={name} "))
        })
    };
    lines.into_iter().partition(|line| !is_inlined(line))
}

fn check(shape: AgentShape, way: Way) {
    for (runtime, recorded) in [
        (Runtime::V3_1, include_str!("fixtures/scenario-3.1.txt")),
        (Runtime::V9, include_str!("fixtures/scenario-9.txt")),
    ] {
        let case = format!("{runtime}, agent {shape}, {way:?}");
        let (lines, inlined) = without_inlined(output(runtime, shape, way));
        let different = lines.iter().map(String::as_str).zip(recorded.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(different, None, "{case}");
        assert_eq!(lines.len(), recorded.lines().count(), "{case}");
        let count = |lines: &[String], start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        for start in ["GETTRACER ", "FINISH "] {
            assert_eq!([count(&lines, start), count(&inlined, start)], [50, INLINED.len()], "{case}: {start}");
        }
    }
}

#[test]
fn agent_10_53() {
    check(AgentShape::V10_53, Way::Reflection);
}

#[test]
fn agent_10_54_by_helpers() {
    check(AgentShape::V10_54, Way::Helpers);
}

#[test]
fn agent_10_54_by_reflection() {
    check(AgentShape::V10_54, Way::Reflection);
}

#[test]
fn agent_10_55_by_helpers() {
    check(AgentShape::V10_55, Way::Helpers);
}

#[test]
fn agent_10_55_by_reflection() {
    check(AgentShape::V10_55, Way::Reflection);
}

#[test]
fn the_core_library_gets_the_recorded_methods() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helpers.txt");
    for (runtime, recorded) in [
        (Runtime::V3_1, include_str!("fixtures/helpers-3.1.txt")),
        (Runtime::V9, include_str!("fixtures/helpers-9.txt")),
    ] {
        let program = compile("Values", "Values.cs", false, Extras::default());
        let launch = launch(&program, "values.xml", runtime, AgentShape::V10_54, Way::Helpers);
        let mut process = launch.env("TRACE_METHODS_HELPERS_TO", &file).start();
        finish(&mut process, &runtime.to_string());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), recorded, "{runtime}");
    }
}

#[test]
fn directly() {
    for shape in SHAPES {
        check(shape, Way::Direct);
    }
}

/// What the agent gets for the calls in `Values.cs`, except for those of `Inc`: method, arguments and result.
const VALUES: [(&str, &str, &str); 13] = [
    ("Values.Auto.Sum", "System.Int32:1", "System.Int32:5"),
    ("Values.Generic`1.Get", "", "System.String:g"),
    ("Values.Generic`1.Get", "", "System.Int32:7"),
    ("Values.Generic`1+Nested.GetNested", "", "System.Int32:8"),
    ("Values.Takes.Span", "null", "System.Int32:3"),
    ("Values.Takes.ReturnSpan", "Int32[]{System.Int32:0}", "null"),
    ("Values.Takes.Reference", "null", "System.Int32:1"),
    ("Values.Takes.RefStruct", "null", "System.Int32:9"),
    (
        "Values.Takes.Mixed",
        "null,System.Int32:5,null,System.DateTime:01/01/0001 00:00:00,System.DayOfWeek:Friday",
        "System.Int32:2",
    ),
    ("Values.Takes.Value", "Values.Auto:Auto4s", "System.Int32:4"),
    ("Values.Takes.Nested", "System.Environment+SpecialFolder:Desktop", "System.Int32:0"),
    ("System.Net.Http.Headers.RetryConditionHeaderValue..ctor", "System.TimeSpan:00:00:03", "null"),
    ("System.Net.IPAddress.Parse", "null", "System.Net.IPAddress:127.0.0.1"),
];
/// Calls of `Inc` there.
const INCREMENTS: usize = 201;

/// The parts of what the agent prints at the start and the end of a tracer: method, arguments, result.
fn call(start: &str, end: &str) -> (String, String, String) {
    let between = |line: &str, from: &str, to: &str| {
        let rest = line.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {line}")).1;
        rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in {line}")).0.to_owned()
    };
    let method = format!("{}.{}", between(start, " typeName=", " method="), between(start, " method=", " sig="));
    let result = between(end, &format!("FINISH {method} ret="), " ex=null");
    (method, between(start, " params=Object[]{", "} fid=nz"), result)
}

#[test]
fn values_are_boxed_where_they_can_be() {
    let program = compile("Values", "Values.cs", false, Extras::default());
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let mut plain = Launch::new(runtime.require().executable()).arg(&program).start();
        finish(&mut plain, &format!("{runtime}, without the profiler"));
        for (shape, way) in SHAPES.into_iter().flat_map(|shape| [(shape, Way::Helpers), (shape, Way::Direct)]) {
            let case = format!("{runtime}, agent {shape}, {way:?}");
            let (lines, refused) = run(&program, "values.xml", runtime, shape, way);
            assert_eq!(refused, Vec::<String>::new(), "{case}");
            let is_tracer = |line: &String| line.starts_with("GETTRACER ") || line.starts_with("FINISH ");
            let (tracers, printed): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_tracer);
            assert_eq!(printed, plain.lines(Stream::Out), "{case}");
            let calls = tracers.chunks_exact(2).map(|lines| call(&lines[0], &lines[1]));
            let (increments, calls): (Vec<_>, Vec<_>) = calls.partition(|(method, ..)| method == "Values.Auto.Inc");
            assert_eq!(increments.len(), INCREMENTS, "{case}");
            let wanted = VALUES.map(|(method, arguments, result)| (method.into(), arguments.into(), result.into()));
            assert_eq!(calls, wanted, "{case}");
        }
    }
}
