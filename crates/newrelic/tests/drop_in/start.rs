//! Which processes are instrumented, the log, and input that is wrong: the program always runs on.

use crate::support::{CONFIGURATION, Home, LIMIT, agent, compile, library, run};
use newrelic_compat::shape::{AgentShape, of_file};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Extras, Launch, Runtime};

fn hello() -> PathBuf {
    compile("Hello", "Hello.cs", false, Extras::default())
}

const POINTS: &str = "<extension><instrumentation><tracerFactory><match assemblyName='Hello' \
                      className='Hello'>\
                      <exactMethodMatcher \
                      methodName='Greet'/></match></tracerFactory></instrumentation></extension>";

fn home() -> Home {
    Home::new(AgentShape::V10_54, Some(POINTS))
}

/// Runs the program, which has to print its line; gives how often it was traced.
fn tracers(home: &Home, change: impl Fn(Launch) -> Launch) -> usize {
    let lines = run(change(home.launch::<&str>(&hello(), Runtime::V9, &[]))).well("hello");
    assert!(lines.iter().any(|line| line == "Hello, world"), "{lines:?}");
    lines.iter().filter(|line| line.starts_with("GETTRACER ")).count()
}

#[test]
fn exports_are_those_that_the_agent_calls() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<_> =
        text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    let expected = [
        "AddCustomInstrumentation",
        "ApplyCustomInstrumentation",
        "DllCanUnloadNow",
        "DllGetClassObject",
        "GetCurrentExecutionEngineThreadId",
        "InstrumentationRefresh",
        "ReleaseProfile",
        "ReloadConfiguration",
        "RequestFunctionNames",
        "RequestProfile",
        "ShutdownThreadProfiler",
    ];
    assert_eq!(names, expected);
}

#[test]
fn decisions_and_the_log() {
    let home = home();
    assert_eq!(tracers(&home, |launch| launch), 1);
    let log = home.log();
    assert!(log[0].starts_with("[Info ] ") && log[0].ends_with(" Logger initialized."), "{log:?}");
    let has = |text: &str| log.iter().any(|line| line.ends_with(text));
    assert!(has(" Profiler initialized"), "{log:?}");
    assert!(
        has(" Calls to the managed agent will use the calling strategy - AppDomain Fallback Cache"),
        "{log:?}"
    );
    assert!(has(" Instrumenting method: [Hello]Hello.Greet(System.String)"), "{log:?}");
    // Excluded, by its name.
    assert_eq!(
        tracers(&home, |launch| launch.env("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "x,dotnet")),
        0
    );
    let force = |launch: Launch| {
        launch
            .env("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "dotnet")
            .env("NEW_RELIC_FORCE_PROFILING", "0")
    };
    assert_eq!(tracers(&home, force), 1);
    // On .NET Core, `agentEnabled` counts only for those who ask for it.
    fs::write(home.path().join("newrelic.config"), CONFIGURATION.replace("\"true\"", "\"false\""))
        .unwrap();
    assert_eq!(tracers(&home, |launch| launch), 1);
    assert_eq!(
        tracers(&home, |launch| launch.env("NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED", "true")),
        0
    );
}

#[test]
fn a_managed_agent_that_is_replaced_before_the_first_call_is_found_by_its_name() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        // The method that starts tracers has another token in the second file, and the first one's
        // is that of another method.
        let home = Home::new(AgentShape::V10_53, Some(POINTS));
        let (other, own) = (agent(AgentShape::V10_54), home.path().join("NewRelic.Agent.Core.dll"));
        let start = |path: &Path| of_file(&fs::read(path).unwrap()).unwrap().start;
        assert_ne!(start(&other), start(&own));
        let lines = run(home.launch(&hello(), runtime, &[&other, &own])).well("replaced");
        let greets = lines.iter().any(|line| line == "Hello, world");
        let traced = lines.iter().filter(|line| line.starts_with("GETTRACER ")).count();
        assert!(greets && traced == 1, "{lines:?}");
    }
}

#[test]
fn the_log_goes_where_it_is_asked_to() {
    let home = home();
    let elsewhere = home.path().join("a/b");
    assert_eq!(
        tracers(&home, |launch| launch.env("NEW_RELIC_PROFILER_LOG_DIRECTORY", &elsewhere)),
        1
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    assert_eq!(home.log(), Vec::<String>::new());
    // A folder that cannot be made: no log, and everything else as always.
    let file = home.path().join("newrelic.config/logs");
    assert_eq!(tracers(&home, |launch| launch.env("NEW_RELIC_PROFILER_LOG_DIRECTORY", &file)), 1);
    let console = run(home
        .launch::<&str>(&hello(), Runtime::V9, &[])
        .env("NEW_RELIC_LOG_CONSOLE", "true")
        .env("NEW_RELIC_LOG_LEVEL", "off"));
    assert!(console.status.success());
}

#[test]
fn wrong_input_leaves_the_program_alone() {
    let large = format!("<configuration>{}</configuration>", "<a/>".repeat(500_000));
    let laughs = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b \
        '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'>]><configuration>&b;</configuration>";
    let configurations: [(&str, &[u8], usize); 7] = [
        ("unclosed", b"<configuration><log level=", 0),
        ("empty", b"", 0),
        ("UTF-16", &[0xff, 0xfe, b'<', 0, b'c', 0], 0),
        ("invalid UTF-8", b"<configuration a='\xff\xfe'/>", 0),
        ("byte order mark", "\u{feff}<configuration/>".as_bytes(), 1),
        ("large", large.as_bytes(), 1),
        ("entities", laughs.as_bytes(), usize::MAX),
    ];
    for (name, configuration, expected) in configurations {
        let home = home();
        fs::write(home.path().join("newrelic.config"), configuration).unwrap();
        let seen = tracers(&home, |launch| launch);
        assert!(
            expected == usize::MAX || seen == expected,
            "{name}: {seen}\n{}",
            home.log().join("\n")
        );
    }
    let extensions: [(&str, &[u8]); 4] = [
        ("unclosed", b"<extension><instr"),
        ("empty", b""),
        ("zeros", &[0; 100]),
        ("invalid UTF-8", b"<extension a='\xff'/>"),
    ];
    for (name, extension) in extensions {
        let home = home();
        fs::write(home.path().join("extensions/wrong.xml"), extension).unwrap();
        assert_eq!(tracers(&home, |launch| launch), 1, "{name}");
        assert!(home.log().iter().any(|line| line.starts_with("[Warn ] ")), "{name}");
    }
    let agent = fs::read(home().path().join("NewRelic.Agent.Core.dll")).unwrap();
    let agents: [(&str, &[u8]); 3] = [
        ("truncated", &agent[..agent.len() / 2]),
        ("empty", b""),
        ("native", &fs::read(library()).unwrap()[..4096]),
    ];
    for (name, agent) in agents {
        let home = home();
        fs::write(home.path().join("NewRelic.Agent.Core.dll"), agent).unwrap();
        assert_eq!(tracers(&home, |launch| launch), 0, "{name}");
        let said = |line: &String| {
            line.starts_with("[Warn ] ") && line.ends_with("Shape 10.53 is assumed.")
        };
        assert!(home.log().iter().any(said), "{name}: {}", home.log().join("\n"));
    }
    let home = home();
    fs::remove_file(home.path().join("NewRelic.Agent.Core.dll")).unwrap();
    assert_eq!(tracers(&home, |launch| launch), 0);
    assert!(
        home.log().iter().any(|line| line.contains("NewRelic.Agent.Core.dll was not found")),
        "{:?}",
        home.log()
    );
    // No home at all.
    assert_eq!(tracers(&home, |launch| launch.env_remove("CORECLR_NEW_RELIC_HOME")), 0);
}

#[test]
fn what_is_no_file_is_not_read() {
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let zero = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let makers: [&dyn Fn(&Path); 2] = [&fifo, &zero];
    for (name, expected) in
        [("newrelic.config", 0), ("extensions/other.xml", 1), ("NewRelic.Agent.Core.dll", 0)]
    {
        for make in makers {
            let home = home();
            let path = home.path().join(name);
            let _absent = fs::remove_file(&path);
            make(&path);
            assert_eq!(
                tracers(&home, |launch| launch),
                expected,
                "{name}: {}",
                home.log().join("\n")
            );
        }
    }
    // The local configuration, in the current folder.
    let home = home();
    let folder = tempfile::tempdir().unwrap();
    fifo(&folder.path().join("newrelic.config"));
    assert_eq!(tracers(&home, |launch| launch.current_dir(folder.path())), 1);
}

#[test]
fn the_log_never_holds_the_program_up() {
    // A limit on the size of files, at which the kernel ends whoever writes more.
    let home = home();
    let limited = |launch: Launch| {
        launch
            .under(["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"])
            .env("DOTNET_EnableWriteXorExecute", "0")
    };
    assert_eq!(tracers(&home, limited), 1);
    let log = home.log().join("\n");
    assert!(log.len() > 100 && log.len() <= 1024, "{} bytes", log.len());
    // Standard output is a pipe that is full, and nobody reads it.
    let (_reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b' '; 65536]).unwrap();
    let launch = home.launch(&hello(), Runtime::V9, &[""]).env("NEW_RELIC_LOG_CONSOLE", "true");
    let launch = launch.env("AGENT_QUIET", "true");
    let mut child = launch.command().stdout(writer).spawn().unwrap();
    let until = Instant::now() + LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("the program waits for its log");
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_trimmed_program_is_left_alone() {
    let points = "<extension><instrumentation><tracerFactory><match \
                  assemblyName='System.Private.Uri' className='System.Uri'>\
                  <exactMethodMatcher methodName='CreateThis'/><exactMethodMatcher \
                  methodName='CreateUri'/></match>\
                  <match assemblyName='System.Linq' \
                  className='System.Linq.Enumerable'><exactMethodMatcher methodName='Select'/>\
                  <exactMethodMatcher \
                  methodName='ToList'/></match></tracerFactory></instrumentation></extension>";
    let launch = || Launch::new(Runtime::V10.require().executable()).arg("--version");
    let plain = run(launch());
    assert!(plain.status.success() && !plain.out.is_empty(), "{:?}", plain.err);
    for mode in ["strict", "default", "fast"] {
        let home = Home::new(AgentShape::V10_54, Some(points));
        let launch = home.under(launch()).env("NEW_RELIC_CLRSCOPE_MODE", mode);
        let ran = run(launch);
        assert_eq!(
            (ran.status, &ran.out, &ran.err),
            (plain.status, &plain.out, &plain.err),
            "{mode}"
        );
        let log = home.log();
        assert!(log.iter().any(|line| line.ends_with(" Profiler initialized")), "{mode}: {log:?}");
        assert!(!log.iter().any(|line| line.starts_with("[Error] ")), "{mode}: {log:?}");
    }
}
