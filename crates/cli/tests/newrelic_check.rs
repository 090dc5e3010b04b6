//! `clrscope newrelic check` on homes, assemblies and processes, compared with what the agent's own
//! profiler did.
#![cfg(target_os = "linux")]
mod common;

use common::{binary, clrscope, run, scratch};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use testkit::{Compiler, Extras, Host, Launch, Runtime, Sample, TargetProcess, source_root};

const CLASS_ID: &str = "{36032161-FFC0-4B61-B559-F6C5D41BAE5A}";
const CONFIGURATION: &str = "<configuration xmlns=\"urn:newrelic-config\" \
     agentEnabled=\"false\"><log level=\"debug\"/>\
     <instrumentation><rules><ignore assemblyName=\"Target\" \
     className=\"RefApp.Ignored\"/></rules></instrumentation>\
     </configuration>";

/// Points for what is not there, or is there in another form.
const MISSING: &str = "<extension><instrumentation><tracerFactory>\
     <match assemblyName='Target' className='RefApp.Nowhere'><exactMethodMatcher \
     methodName='M'/></match>\
     <match assemblyName='Target' className='RefApp.Ignored'><exactMethodMatcher \
     methodName='M'/></match>\
     <match assemblyName='Target' className='RefApp.T'><exactMethodMatcher methodName='Nothing'/>\
     <exactMethodMatcher methodName='Overload' parameters='System.Int64'/></match>\
     <match assemblyName='Target' className='RefApp.T' minVersion='5.0'>\
     <exactMethodMatcher methodName='NoopPlain'/></match>\
     <match assemblyName='Elsewhere' className='C'><exactMethodMatcher methodName='M'/></match>\
     </tracerFactory></instrumentation></extension>";

fn compile(name: &str, source: &str, is_library: bool, extras: Extras<'_>) -> PathBuf {
    let source = source_root().join("crates/newrelic/tests/programs").join(source);
    let compiled = Compiler::find()
        .and_then(|mcs| mcs.compile_with(name, &source, Runtime::V3_1, is_library, extras));
    compiled.unwrap_or_else(|error| panic!("{error}"))
}

/// A home folder with an agent of 10.54, a configuration, and points of the fixture.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(scratch());
        let agent = compile(
            "NewRelic.Agent.Core",
            "Agent.cs",
            true,
            Extras { symbols: &["SHAPE_10_54"], ..Extras::default() },
        );
        fs::copy(agent, home.path().join("NewRelic.Agent.Core.dll")).unwrap();
        fs::write(home.path().join("newrelic.config"), CONFIGURATION).unwrap();
        fs::create_dir_all(home.path().join("extensions/netcore")).unwrap();
        let points = source_root().join("crates/newrelic-compat/tests/fixtures/target.xml");
        fs::copy(points, home.path().join("extensions/target.xml")).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A native library that a runtime can load, and that is no profiler.
    fn library(&self) -> PathBuf {
        let Host::Muxer { framework, .. } = Runtime::V9.require().host() else {
            panic!("a multi-file runtime")
        };
        let library = self.file("libNewRelicProfiler.so");
        fs::copy(framework.join("libSystem.Native.so"), &library).unwrap();
        library
    }

    /// A program with the variables of an agent.
    fn launch(&self, program: Launch) -> Launch {
        program
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", CLASS_ID)
            .env("CORECLR_PROFILER_PATH", self.file("libNewRelicProfiler.so"))
            .env("CORECLR_NEW_RELIC_HOME", self.path())
    }
}

/// A program on .NET 9 that waits for its input to end.
fn waiting() -> Launch {
    Sample::named("traced").launch(Runtime::V9, &[] as &[&str])
}

fn started(launch: Launch) -> TargetProcess {
    let mut process = launch.start();
    process.wait_for_ready();
    process
}

#[track_caller]
fn check(arguments: &[&str]) -> Value {
    run([&["newrelic", "check", "--json"], arguments].concat()).expect(0).json()
}

#[track_caller]
fn check_process(process: &TargetProcess) -> Value {
    check(&["--pid", &process.pid().to_string()])
}

/// Texts in a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The methods of an assembly with an outcome, as log lines name them.
fn methods(assembly: &Value, outcome: &str) -> BTreeSet<String> {
    let text = |method: &Value, name| method[name].as_str().unwrap_or("?").to_owned();
    let all = assembly["methods"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|method| method["outcome"] == outcome);
    all.map(|method| {
        format!(
            "{}.{}({})",
            text(method, "class"),
            text(method, "method"),
            text(method, "parameters")
        )
    })
    .collect()
}

#[test]
fn a_home_by_itself() {
    let home = Home::new();
    home.library();
    fs::write(home.file("extensions/missing.xml"), MISSING).unwrap();
    fs::write(home.file("extensions/netcore/broken.xml"), "<extension><instr").unwrap();
    let report = check(&[home.text()]);
    assert_eq!((&report["schema"], &report["home"]["source"]), (&json!(1), &json!("argument")));
    assert_eq!(
        [&report["verdict"], &report["process"], &report["modules"], &report["decision"]],
        [&Value::Null; 4]
    );
    let agent = &report["agent"];
    assert_eq!(
        (&agent["shape"], &agent["shape_source"], &agent["mode"]),
        (&json!("10.54"), &json!("file"), &json!("default"))
    );
    assert_eq!(
        (&agent["strategy"], &agent["direct"]),
        (&json!("AppDomain Fallback Cache"), &json!(true))
    );
    let library = &report["library"];
    assert_eq!(
        (&library["found"], &library["loadable"], &library["mapped"]),
        (&json!(true), &json!(true), &Value::Null)
    );
    assert_eq!(library["is_clrscope"], false);
    let configuration = &report["configuration"];
    assert_eq!(
        (&configuration["agent_enabled"], &report["agent_enabled_counts"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(configuration["log"]["level"], "debug");
    assert_eq!(
        configuration["ignored"],
        json!([{ "assembly": "Target", "class": "RefApp.Ignored" }])
    );
    let points = &report["points"];
    assert_eq!(
        points["assemblies"],
        json!([{ "name": "Elsewhere", "points": 1 }, { "name": "Target", "points": 43 }])
    );
    assert_eq!((&points["total"], &points["invalid_files"]), (&json!(44), &json!(1)));
    let states: Vec<_> = points["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["read", "invalid", "read"]);

    let text = run(["newrelic", "check", home.text()]).expect(0).out;
    for part in [
        "Agent shape     10.54 (determined from its members)",
        "does not count on .NET",
        "RefApp.Ignored",
        "broken.xml: syntax error",
        "    43  Target",
        "not that of clrscope",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}

#[test]
fn homes_that_lack_something() {
    let home = Home::new();
    fs::write(
        home.file("NewRelic.Agent.Core.dll"),
        &fs::read(home.file("NewRelic.Agent.Core.dll")).unwrap()[..2000],
    )
    .unwrap();
    fs::remove_file(home.file("newrelic.config")).unwrap();
    let report = check(&[home.text()]);
    assert_eq!(
        (&report["agent"]["shape"], &report["agent"]["shape_source"]),
        (&json!("10.53"), &json!("assumed"))
    );
    assert!(
        report["agent"]["problem"].as_str().unwrap().contains("install the agent again"),
        "{}",
        report["agent"]
    );
    assert!(
        report["configuration"]["problem"].as_str().unwrap().contains("newrelic.config"),
        "{report}"
    );
    assert_eq!(
        (&report["library"]["found"], &report["library"]["loadable"]),
        (&json!(false), &json!(false))
    );
    fs::remove_file(home.file("NewRelic.Agent.Core.dll")).unwrap();
    let report = check(&[home.text()]);
    assert_eq!(report["agent"]["path"], Value::Null);
    let core = home.file("netcore/NewRelic.Agent.Core.dll");
    assert_eq!(texts(&report["agent"]["searched"])[1], core.to_str().unwrap());

    // What is no file is not opened: nobody ever writes to this one.
    mknodat(CWD, home.file("newrelic.config"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    mknodat(CWD, home.file("extensions/fifo.xml"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let began = Instant::now();
    let report = check(&[home.text()]);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(report["configuration"]["files"][0]["state"], "unreadable");
    assert_eq!(report["points"]["files"].as_array().unwrap().len(), 1);

    run(["newrelic", "check", "/no/such/home"])
        .expect_error(6, &["/no/such/home", "newrelic.config"]);
    let mut command = clrscope(["newrelic", "check"]);
    for name in ["CORECLR_NEW_RELIC_HOME", "CORECLR_NEWRELIC_HOME"] {
        command.env_remove(name);
    }
    common::Running::start(command)
        .wait()
        .expect_error(2, &["CORECLR_NEW_RELIC_HOME", "clrscope newrelic check HOME"]);
    let mut command = clrscope(["newrelic", "check", "--json"]);
    command.env("CORECLR_NEW_RELIC_HOME", home.path()).env("CORECLR_NEWRELIC_HOME", "/old");
    let report = common::Running::start(command).wait().expect(0).json();
    assert_eq!(report["home"]["source"], "clrscope");
    let expected = json!({
        "purpose": "home folder",
        "name": "CORECLR_NEW_RELIC_HOME",
        "value": home.text(),
        "overrides": [{ "name": "CORECLR_NEWRELIC_HOME", "value": "/old" }],
    });
    assert_eq!(report["variables"][0], expected);
}

#[test]
fn the_methods_of_an_assembly() {
    let home = Home::new();
    fs::write(home.file("extensions/missing.xml"), MISSING).unwrap();
    let api = compile("NewRelic.Api.Agent", "Api.cs", true, Extras::default());
    let target =
        compile("Target", "Target.cs", false, Extras { libraries: &[&api], ..Extras::default() });
    let report = check(&[home.text(), "--assembly", target.to_str().unwrap()]);
    let modules = &report["modules"];
    assert_eq!(
        (&modules["seen"], &modules["single_file"], &modules["not_loaded"]),
        (&json!(1), &json!(false), &Value::Null)
    );
    let assembly = &modules["assemblies"][0];
    assert_eq!((&assembly["name"], &assembly["points"]), (&json!("Target"), &json!(43)));

    // What the agent's own profiler refuses of these, and nothing else.
    let all = assembly["methods"].as_array().unwrap();
    let expected = [
        ("RefApp.Pt.Sum()", "Skipping sequential layout method"),
        ("RefApp.T.RefRet(System.Int32[])", "By ref tokenization not supported."),
        ("RefApp.T.get_Prop()", "Skipping SpecialName method"),
    ];
    let refused = methods(assembly, "refused");
    assert_eq!(
        refused.iter().map(String::as_str).collect::<Vec<_>>(),
        expected.map(|(name, _)| name)
    );
    for (_, reason) in expected {
        assert_eq!(all.iter().filter(|method| method["reason"] == reason).count(), 1, "{reason}");
    }
    assert_eq!(assembly["refused"], 3);

    // All methods that it instrumented are instrumented: these lines are of its log.
    let instrumented = methods(assembly, "instrumented");
    let log =
        fs::read_to_string(source_root().join("crates/newrelic/tests/fixtures/log-9-10.54.txt"))
            .unwrap();
    let logged: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.strip_prefix("[Info ] Instrumenting method: [Target]"))
        .collect();
    assert!(logged.len() > 20, "{logged:?}");
    for method in logged {
        assert!(
            instrumented.contains(method) || refused.contains(method),
            "{method} is in neither list"
        );
    }
    for method in [
        "RefApp.T.Transacted()",
        "RefApp.T.TracedInlinable(System.Int32)",
        "RefApp.Outer+Nested.N(System.Int32)",
    ] {
        assert!(instrumented.contains(method), "{method}");
    }
    let of = |name: &str| all.iter().find(|method| method["method"] == name).unwrap();
    assert_eq!(
        (&of("Transacted")["source"], &of("StaticInt")["source"]),
        (&json!("attribute"), &json!("point"))
    );
    assert_eq!(
        (&of("AsyncM")["is_async"], &of("StaticInt")["is_async"]),
        (&json!(true), &json!(false))
    );
    let overload = all
        .iter()
        .find(|method| method["parameters"] == "System.String" && method["method"] == "Overload");
    let overload = overload.unwrap();
    assert_eq!(
        (&overload["factory"], &overload["metric"]),
        (&json!("My.Factory"), &json!("Custom/X"))
    );

    assert_eq!(
        methods(assembly, "other-parameters").into_iter().collect::<Vec<_>>(),
        ["RefApp.T.Overload(System.Int32)", "RefApp.T.VoidOnly(System.Int32)"]
    );
    assert_eq!(
        methods(assembly, "other-version").into_iter().collect::<Vec<_>>(),
        ["RefApp.T.NoopPlain()"]
    );
    assert!(
        of("NoopPlain")["reason"].as_str().unwrap().contains("versions from 5.0.0.0"),
        "{}",
        of("NoopPlain")
    );
    assert_eq!(assembly["missing_classes"], json!(["RefApp.Nowhere"]));
    let missing = &assembly["missing_methods"];
    assert_eq!(
        missing[0],
        json!({ "class": "RefApp.T", "method": "Nothing", "parameters": null, "overloads": [] })
    );
    assert_eq!(missing[1]["parameters"], "System.Int64");
    assert_eq!(
        texts(&missing[1]["overloads"]),
        ["System.Int32", "System.Int32,System.String", "System.String"]
    );

    let text = run(["newrelic", "check", home.text(), "--assembly", target.to_str().unwrap()])
        .expect(0)
        .out;
    for part in [
        "refused         RefApp.Pt.Sum(): Skipping sequential layout method",
        "instrumented    RefApp.T.Transacted() [by attribute]",
        "no such class   RefApp.Nowhere",
        "no such method  RefApp.T.Overload(System.Int64); there is (System.Int32), \
         (System.Int32,System.String), (System.String)",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    // The API calls the agent itself.
    let report = check(&[home.text(), "--assembly", api.to_str().unwrap()]);
    let api = &report["modules"]["assemblies"][0];
    assert!(
        methods(api, "instrumented").iter().any(|method| method.contains(".RecordMetric(")),
        "{api}"
    );
    assert!(
        api["methods"].as_array().unwrap().iter().all(|method| method["source"] == "api"),
        "{api}"
    );
}

#[test]
fn files_that_are_no_assemblies() {
    let home = Home::new();
    let at = |path: &str| run(["newrelic", "check", home.text(), "--assembly", path]);
    at("/no/such.dll").expect_error(6, &["/no/such.dll"]);
    at("/dev/zero").expect_error(6, &["/dev/zero", "not a regular file"]);
    at(home.file("newrelic.config").to_str().unwrap())
        .expect_error(6, &["not a PE image", "name the .dll"]);
    run(["newrelic", "check", "--pid", "1", "--assembly", "x"])
        .expect_error(2, &["cannot be used with"]);
    run(["newrelic"]).expect(2);
}

#[test]
fn assemblies_inside_of_a_single_file_application() {
    let home = Home::new();
    let point = "<extension><instrumentation><tracerFactory>\
                 <match assemblyName='System.Private.Uri' className='System.Uri'>\
                 <exactMethodMatcher \
                 methodName='CreateThis'/></match></tracerFactory></instrumentation></extension>";
    fs::write(home.file("extensions/uri.xml"), point).unwrap();
    let app = Runtime::V8.require().executable();
    let report = check(&[home.text(), "--assembly", app.to_str().unwrap()]);
    let modules = &report["modules"];
    assert_eq!(modules["single_file"], true);
    assert!(modules["seen"].as_u64().unwrap() > 20, "{modules}");
    let uri = modules["assemblies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|assembly| assembly["name"] == "System.Private.Uri");
    assert!(uri.unwrap()["instrumented"].as_u64().unwrap() >= 1, "{uri:?}");
    let text =
        run(["newrelic", "check", home.text(), "--assembly", app.to_str().unwrap()]).expect(0).out;
    assert!(text.contains("inside of the executable"), "{text}");
    // Nothing is instrumented in this one, whatever the points say.
    let trimmed = Runtime::V10.require().executable();
    let report = check(&[home.text(), "--assembly", trimmed.to_str().unwrap()]);
    assert!(
        texts(&report["notes"]).iter().any(|note| note.contains("the program is trimmed")),
        "{report}"
    );
}

#[test]
fn a_process() {
    let home = Home::new();
    let library = home.library();
    let point = "<extension><instrumentation><tracerFactory>\
                 <match assemblyName='traced' className='Clrscope.Samples.Box`1'>\
                 <exactMethodMatcher methodName='.ctor'/></match>\
                 <match assemblyName='System.Console' className='System.Console'>\
                 <exactMethodMatcher methodName='WriteLine' parameters='void'/></match>\
                 </tracerFactory></instrumentation></extension>";
    fs::write(home.file("extensions/traced.xml"), point).unwrap();
    let folder = scratch();
    fs::write(
        folder.path().join("newrelic.config"),
        "<configuration><log level='info'/></configuration>",
    )
    .unwrap();
    let process = started(
        home.launch(waiting()).current_dir(folder.path()).env("NEWRELIC_LOG_LEVEL", "warn"),
    );
    let report = check_process(&process);
    let pid = process.pid();
    assert_eq!(
        (&report["process"]["pid"], &report["process"]["hosting"]),
        (&json!(pid), &json!("library"))
    );
    assert_eq!(report["process"]["runtime"], Runtime::V9.version());
    assert_eq!(
        (&report["home"]["path"], &report["home"]["source"]),
        (&json!(home.text()), &json!("process"))
    );
    assert_eq!(
        report["verdict"],
        json!({ "instrumented": true, "reasons": ["no rule is about it"] })
    );
    assert_eq!(report["profiling"], json!({ "missing": [], "problems": [] }));
    assert_eq!(report["decision"]["instrument"], true);
    assert!(
        report["decision"]["command_line"].as_str().unwrap().contains("traced.dll "),
        "{}",
        report["decision"]
    );
    let files = &report["configuration"]["files"];
    let local = folder.path().canonicalize().unwrap().join("newrelic.config");
    assert_eq!((&files[1]["kind"], &files[1]["state"]), (&json!("local"), &json!("read")));
    assert_eq!(files[1]["path"], local.to_str().unwrap());
    assert_eq!(files[2]["state"], "missing");
    // The local file takes the place of the global one, and the variable that of both.
    assert_eq!(report["configuration"]["log"]["level"], "warn");
    assert_eq!(report["configuration"]["log"]["file"], format!("NewRelic.Profiler.{pid}.log"));
    assert_eq!(report["configuration"]["ignored"], json!([]));
    let in_use = &report["library"];
    assert_eq!(
        (&in_use["path"], &in_use["variable"]),
        (&json!(library), &json!("CORECLR_PROFILER_PATH"))
    );
    // It is no profiler, so that the runtime did not keep it.
    assert_eq!((&in_use["loadable"], &in_use["mapped"]), (&json!(true), &json!(false)));
    assert!(
        texts(&report["notes"]).iter().any(|note| note.contains("is not loaded in the process")),
        "{report}"
    );
    assert_eq!(report["agent"]["mapped"], false);
    let modules = &report["modules"];
    let names: Vec<_> = modules["assemblies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["System.Console", "traced"]);
    assert_eq!(
        (&modules["assemblies"][0]["instrumented"], &modules["not_loaded"]),
        (&json!(1), &json!(1))
    );
    let text = run(["newrelic", "check", "--pid", &pid.to_string()]).expect(0).out;
    for part in [
        "would be instrumented: no rule is about it",
        "Environment variables that count",
        "NEWRELIC_LOG_LEVEL=warn",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    // Another home, for the same process.
    let other = Home::new();
    let report = check(&[other.text(), "--pid", &pid.to_string()]);
    assert!(
        texts(&report["notes"]).iter().any(|note| note.contains("another home folder")),
        "{report}"
    );
}

#[test]
fn what_stands_in_the_way() {
    let home = Home::new();
    let library = home.library();
    let reasons = |launch: Launch| {
        let process = started(launch);
        let report = check_process(&process);
        assert_eq!(report["verdict"]["instrumented"], false, "{report}");
        texts(&report["verdict"]["reasons"]).join("\n")
    };
    let of = || home.launch(waiting());
    let excluded = reasons(of().env("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "x,dotnet"));
    assert_eq!(excluded, "its name is in the list of excluded applications");
    let missing =
        reasons(of().env_remove("CORECLR_ENABLE_PROFILING").env_remove("CORECLR_PROFILER"));
    assert!(
        missing.contains("CORECLR_ENABLE_PROFILING is not set") && missing.contains(CLASS_ID),
        "{missing}"
    );
    let process = started(of().env("NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED", "true"));
    // Only the library of this project obeys, and this is another one.
    assert_eq!(check_process(&process)["verdict"]["instrumented"], true);

    // Made for another processor.
    let mut bytes = fs::read(&library).unwrap();
    let own = bytes[18];
    bytes[18] = if own == 183 { 62 } else { 183 };
    fs::write(&library, &bytes).unwrap();
    let machine = reasons(of());
    assert!(machine.contains("the runtime does not report this"), "{machine}");
    // The library of this project has this in it, and obeys.
    bytes[18] = own;
    bytes.extend_from_slice(b"NEW_RELIC_CLRSCOPE_MODE");
    fs::write(&library, &bytes).unwrap();
    let disabled = reasons(of().env("NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED", "true"));
    assert_eq!(disabled, "the agent is disabled by newrelic.config");
    fs::remove_file(&library).unwrap();
    let gone = reasons(of());
    assert!(gone.contains("cannot be read") && gone.contains(library.to_str().unwrap()), "{gone}");

    let process =
        started(waiting().env("CORECLR_ENABLE_PROFILING", "1").env("NEW_RELIC_HOME", home.path()));
    let mut command = clrscope(["newrelic", "check", "--pid", &process.pid().to_string()]);
    command.env_remove("CORECLR_NEW_RELIC_HOME").env_remove("CORECLR_NEWRELIC_HOME");
    let ended = common::Running::start(command).wait();
    ended.expect_error(
        2,
        &["no CORECLR_NEW_RELIC_HOME", "CORECLR_PROFILER", "newrelic check HOME --pid"],
    );
    let report = check(&[home.text(), "--pid", &process.pid().to_string()]);
    assert!(
        texts(&report["notes"])
            .iter()
            .any(|note| note.contains("NEW_RELIC_HOME counts for .NET Framework only")),
        "{report}"
    );
}

#[test]
fn a_library_that_is_loaded() {
    let home = Home::new();
    let library = home.library();
    // As if it were the profiler: the runtime gives up one that is none.
    let process = started(home.launch(waiting()).env("LD_PRELOAD", &library));
    let report = check_process(&process);
    assert_eq!(report["library"]["mapped"], true);
    let text = run(["newrelic", "check", "--pid", &process.pid().to_string()]).expect(0).out;
    assert!(text.contains(" is instrumented: no rule is about it"), "{text}");
    fs::remove_file(&library).unwrap();
    home.library();
    let report = check_process(&process);
    let problems = texts(&report["library"]["problems"]).join("\n");
    assert!(problems.contains("replaced since the process loaded it"), "{report}");
}

#[test]
fn processes_that_cannot_be_looked_into() {
    let home = Home::new();
    run(["newrelic", "check", "--pid", "4194305"]).expect_error(3, &["4194305", "clrscope ps"]);
    let sleeper = Launch::new("sleep").arg("60").start();
    run(["newrelic", "check", "--pid", &sleeper.pid().to_string()])
        .expect_error(4, &["is not a .NET process"]);

    // Nobody may look into a process of root.
    assert!(rustix::process::geteuid().is_root(), "this test takes another user, so it needs root");
    let process = started(home.launch(waiting()));
    let folder = scratch();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("clrscope");
    fs::copy(binary(), &program).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["newrelic", "check", "--pid"]);
    command.arg(process.pid().to_string());
    common::Running::start(command).wait().expect_error(4, &["belongs to another user", "as root"]);
}
