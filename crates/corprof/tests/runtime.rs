//! The safe interface against real runtimes: names, metadata, code, objects, stacks, events.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use testkit::{Compiler, Host, Launch, Runtime, Sample, Stream, source_root};

const LIMIT: Duration = Duration::from_secs(60);
const RUNTIMES: [Runtime; 3] = [Runtime::V3_1, Runtime::V8, Runtime::V9];

/// An example's library; `cargo test` builds the examples beside the tests.
fn library(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let library = profile.join("examples").join(format!("lib{example}.so"));
    assert!(
        library.is_file(),
        "{} is missing: build it with `cargo build -p corprof --examples`",
        library.display()
    );
    library
}

/// `tests/programs/Names.cs` on a runtime, under an example.
fn names_program(runtime: Runtime, example: &str, clsid: &str) -> Launch {
    let source = source_root().join("crates/corprof/tests/programs/Names.cs");
    let assembly = Compiler::find().and_then(|mcs| mcs.compile("names", &source, runtime, false));
    let assembly = assembly.unwrap_or_else(|error| panic!("{error}"));
    let launch = match runtime.require().host() {
        Host::Muxer { dotnet, .. } => Launch::new(dotnet).arg(assembly),
        Host::StartupHook { .. } => {
            // The hook loads any assembly that it is asked to load; the sample is only its vehicle.
            Sample::named("burn").launch(runtime, &[""; 0]).env("CLRSCOPE_SAMPLE", assembly)
        }
        Host::App { .. } => panic!("no program of ours runs on {runtime}"),
    };
    launch
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", clsid)
        .env("CORECLR_PROFILER_PATH", library(example))
}

#[test]
fn names_are_as_c_sharp_writes_them() {
    for runtime in RUNTIMES {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("names.txt");
        let mut process =
            names_program(runtime, "dump_names", "{6D1C2B7A-3E1F-4F0C-9A53-1C0B7E44A902}")
                .env("DUMP_NAMES_TO", &file)
                .start();
        let status = process.wait(LIMIT).unwrap();
        assert!(status.success(), "{runtime}: {status}\n{}", process.transcript());
        let dumped = std::fs::read_to_string(&file).unwrap();
        let lines = dumped.lines().collect::<Vec<_>>();
        for wanted in [
            "Normal\tGlobal\tNoNamespace\t()",
            "Normal\tNames.Inner.Program\tMain\t(string[])",
            "Normal\tNames.Inner.Program\t.cctor\t()",
            "Normal\tNames.Inner.Program\tKeywords\t(bool, char, sbyte, byte, short, ushort, int, \
             uint, long, ulong, float, double, decimal, string, object, nint, nuint)",
            "Normal\tNames.Inner.Program\tPassing\t(ref int, out string, System.DateTime, \
             ref System.Collections.Generic.List<int[]>, System.DateTime)",
            "Normal\tNames.Inner.Program\tArrays\t(int[], int[][], int[,], int[][,,], \
             System.Collections.Generic.List<string>[], string[,][])",
            "Normal\tNames.Inner.Program\tPointers\t(int*, void**, Names.Inner.Colour*)",
            "Normal\tNames.Inner.Program\tNullables\t(int?, Names.Inner.Colour?, \
             System.ValueTuple<int, string>, Names.Inner.Pair<int?, \
             Names.Inner.Outer<string>+Middle>)",
            "Normal\tNames.Inner.Program\tGeneric<int, byte>\t(T, TOther[], ref T)",
            // All reference types share one body.
            "Normal\tNames.Inner.Program\tGeneric<T, byte>\t(T, TOther[], ref T)",
            "Normal\tNames.Inner.Program\tGröße\t(string)",
            "Normal\tNames.Inner.Program\tget_Item\t(string, int)",
            "Normal\tNames.Inner.Program\tset_Property\t(int)",
            "Normal\tNames.Inner.Program\top_Addition\t(Names.Inner.Program, Names.Inner.Program)",
            "Normal\tNames.Inner.Outer<int>\tConvert<double>\t(T, System.Func<T, TResult>)",
            "Normal\tNames.Inner.Outer<T>\tConvert<TResult>\t(T, System.Func<T, TResult>)",
            "Normal\tNames.Inner.Outer<Names.Inner.Pair<int, long>>\tPlain\t(T)",
            "Normal\tNames.Inner.Outer<byte>+Middle+Leaf<long, short>\tDeep\t(T, TKey, \
             System.Collections.Generic.Dictionary<TKey, System.Collections.Generic.List<TValue>>)",
            "Normal\tNames.Inner.Outer<T>+Middle+Leaf<TKey, TValue>\tDeep\t(T, TKey, \
             System.Collections.Generic.Dictionary<TKey, System.Collections.Generic.List<TValue>>)",
            // What the compiler made of an async method, an iterator and lambdas.
            "Normal\tNames.Inner.Program+<Async>c__async0\tMoveNext\t()",
            "Normal\tNames.Inner.Program+<Iterate>c__Iterator1<double>\tMoveNext\t()",
            "Normal\tNames.Inner.Program+<Iterate>c__Iterator1<T>\tMoveNext\t()",
            "Normal\tNames.Inner.Program+<Lambdas>c__AnonStorey2\t<>m__0\t(int)",
            "Normal\tNames.Inner.Program\t<Lambdas>m__0\t(int, int)",
            "Dynamic\t\tMadeAtRunTime\t(int)",
            "Dynamic\t\tWithTypes\t(System.Collections.Generic.List<string>, System.DateTime, \
                int[][,])",
        ] {
            assert!(lines.contains(&wanted), "{runtime}: {wanted:?} is missing in\n{dumped}");
        }
        let summary = lines.last().unwrap();
        assert!(summary.contains(" 0 without a name"), "{runtime}: {summary}");
        // A question mark by itself stands for a type without a name; behind one it makes it
        // nullable.
        let unknown =
            lines.iter().filter(|line| ["(?", " ?", "<?"].iter().any(|mark| line.contains(mark)));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&&str>::new(), "{runtime}");
        assert!(!dumped.contains("(…)"), "{runtime}: a signature was not understood\n{dumped}");
    }
}

/// The answers of `ask_everything`, by name.
fn everything(runtime: Runtime) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.txt");
    let mut process =
        names_program(runtime, "ask_everything", "{6D1C2B7A-3E1F-4F0C-9A53-1C0B7E44A903}")
            .env("ASK_EVERYTHING_TO", &file)
            .env("NAMES_WAIT", "1")
            .start();
    // The profiler's own thread says when it is done.
    process
        .wait_for_line(LIMIT, |line| line == "asked")
        .unwrap_or_else(|error| panic!("{runtime}: {error}"));
    process.send_line("").unwrap();
    let status = process.wait(LIMIT).unwrap();
    assert!(status.success(), "{runtime}: {status}\n{}", process.transcript());
    // The profiler put another body in the place of the method.
    let out = process.lines(Stream::Out);
    assert!(out.iter().any(|line| line == "answer 42"), "{runtime}: {out:#?}");
    let answers = std::fs::read_to_string(&file).unwrap();
    answers
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

#[test]
fn the_runtime_answers_everything() {
    for runtime in RUNTIMES {
        let answers = everything(runtime);
        let (info, handles, non_gc, heap, events) = match runtime {
            Runtime::V3_1 => ("11", ".NET 7", ".NET 8", ".NET 9", ".NET 5"),
            Runtime::V8 => ("14", "", "", ".NET 9", ""),
            _ => ("15", "", "", "", ""),
        };
        // What is true, or that it takes a newer runtime.
        let since = |interface: &str, since: &str, answer: &str| {
            if since.is_empty() {
                answer.to_owned()
            } else {
                format!("error: this runtime has no {interface}; it requires {since} or newer")
            }
        };
        let mut wanted = BTreeMap::from(
            [
                ("info.version", info),
                ("worker_done", "true"),
                ("done.code", "ok"),
                ("done.emit", "ok"),
                ("done.end", "ok"),
                ("done.exception", "ok"),
                ("done.runtime", "ok"),
                ("class.again", "Names.Inner.Pair<Names.Inner.Constants, Names.Inner.Constants>"),
                ("class.made", "Names.Inner.Pair<Names.Inner.Constants, Names.Inner.Constants>"),
                ("class.open", "Names.Inner.Pair<TFirst, TSecond>"),
                ("class.box", "8"),
                ("class.parameterized", "true"),
                ("class.static", "AppDomain"),
                ("class.token", "true"),
                ("clause", "Ok(true)"),
                ("code.contains", "true"),
                ("code.dynamic", "false"),
                ("code.from_ip", "true"),
                ("code.from_ip2", "true"),
                ("code.from_token", "true"),
                ("code.info4", "true"),
                ("code.map", "true"),
                ("code.map2", "true"),
                ("code.metadata", "Keywords"),
                ("code.nothing", "true"),
                ("code.ranges", "true"),
                ("code.starts", "true"),
                ("emit.assembly_ref", "true [1, 2, 3, 4, 5, 6, 7, 8] []"),
                ("emit.attribute", "Some([1, 0, 7, 0, 0, 0, 0, 0])"),
                ("emit.constant", "true"),
                ("emit.find_method", "true"),
                ("emit.find_type_ref", "true"),
                ("emit.generic_param", "Some((\"TAdded\", GenericParamAttributes(0x4)))"),
                ("emit.layout", "Some((8, 64, Some(16)))"),
                ("emit.marshalling", "Some([20])"),
                ("emit.member_ref", "Do true"),
                ("emit.method_spec", "true [Primitive(I4)]"),
                ("emit.nested", "true"),
                ("emit.param", "value 1 Some(I4(-5))"),
                ("emit.pinvoke", "Some((\"getpid\", true, true))"),
                ("emit.property", "Value true None"),
                ("emit.signature", "true"),
                ("emit.type_ref", "Added.Thing true"),
                ("emit.type_spec", "true"),
                ("emit.user_string", "true"),
                ("env.none", "None"),
                ("env.set", "Some(\"größer\")"),
                ("heap.force_gc", "ok"),
                ("heap.loh", "85000"),
                ("heap.ranges", "true"),
                ("il.before", "[0e, 1f, 29, 2a]"),
                ("il.after", "[0e, 1f, 2a, 2a]"),
                ("layout.string", "StringLayout { length_offset: 8, buffer_offset: 12 }"),
                ("layout.string.capacity", "true"),
                ("mask", "true"),
                ("md.assembly", "names"),
                ("md.constant.Nothing", "Some(Null)"),
                ("md.constant.Number", "Some(I4(-7))"),
                ("md.constant.Real", "Some(R8(2.5))"),
                ("md.constant.Text", "Some(String(\"größer\"))"),
                ("md.event", "Happened add_Happened"),
                ("md.find.none", "None"),
                ("md.invalid", "false"),
                ("md.layout.none", "true"),
                ("md.module", "true"),
                ("md.name_of", "Constants"),
                ("md.no_such_row", "true"),
                ("md.obsolete", "kept for tests"),
                ("md.obsolete.none", "None"),
                ("md.params", "[(\"given\", Some(I4(3))), (\"others\", None)]"),
                ("md.pinvoke", "getpid in libc"),
                ("md.pinvoke.none", "true"),
                ("md.properties", "[\"Property\", \"Item\"]"),
                ("md.resource.none", "None"),
                ("md.scope", "names.dll"),
                ("md.user_strings", "true"),
                ("md.version", "v4.0.30319"),
                ("modules.names", "true"),
                ("modules.total", "true"),
                ("module.names", "true true"),
                ("object.class", "System.InvalidOperationException"),
                ("object.frozen", "false"),
                ("object.generation", "0"),
                ("object.message", "[Ok(Some(\"the message: größer\"))]"),
                ("object.message.cut", "Some(Ok(Some(\"the\"))) Ok(true)"),
                ("object.out_of_bounds", "true"),
                ("object.size", "true"),
                ("object.string.none", "None"),
                ("stack.broken_off", "1"),
                ("stack.panic", "true"),
                ("stack.registers", "true"),
                ("symbols", "0"),
                ("tables.coded", "TypeDefOrRef 3"),
                ("tables.guid", "true"),
                ("tables.heaps", "true"),
                ("tables.name", "TypeDef Constants"),
                ("tables.row", "true"),
                ("thread.current", "true"),
                ("thread.os_id", "true"),
                ("thread.own", "true"),
                ("world.deepest", "true"),
            ]
            .map(|(name, answer)| (name, answer.to_owned())),
        );
        wanted.insert("object.handle", since("ICorProfilerInfo13", handles, "true"));
        wanted.insert("heap.non_gc", since("ICorProfilerInfo14", non_gc, "true"));
        wanted.insert("heap.non_gc_bounds", since("ICorProfilerInfo14", non_gc, "true"));
        wanted.insert("heap.objects", since("ICorProfilerInfo15", heap, "true"));
        wanted.insert("heap.objects.suspended", since("ICorProfilerInfo15", heap, "true"));
        wanted.insert("done.events", since("ICorProfilerInfo12", events, "ok"));
        if events.is_empty() {
            wanted.insert("events.provider", "Corprof-Test-Provider".to_owned());
            wanted.insert("events.session", "true".to_owned());
            wanted.insert("events.delivered", "3".to_owned());
        }
        let wrong = wanted
            .iter()
            .map(|(name, wanted)| (name, wanted, answers.get(*name)))
            .filter(|(_, wanted, got)| *got != Some(wanted))
            .collect::<Vec<_>>();
        assert!(wrong.is_empty(), "{runtime}: wanted and got\n{wrong:#?}\n{answers:#?}");
        // Enumerations are whole, and the same again.
        assert_eq!(answers["md.types.total"], answers["md.types.counted"], "{runtime}");
        assert_eq!(answers["md.types.total"], answers["md.types.again"], "{runtime}");
        // A snapshot's frame does not tell what shared code runs for: the runtime leaves that out.
        assert!(
            answers["stack.exact"].starts_with(
                "Names.Inner.Thrower<T>.Throws(T, System.Collections.Generic.List<string>) < \
                 Names.Inner.Program.Main(string[])"
            ),
            "{runtime}: {}",
            answers["stack.exact"]
        );
    }
}
