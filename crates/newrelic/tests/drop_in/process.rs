//! What the library needs and what it costs a process: other libraries, memory, and calls while
//! instrumentation changes.

use crate::support::{Home, compile, library, run};
use newrelic_compat::shape::AgentShape;
use std::path::PathBuf;
use std::process::Command;
use testkit::{Extras, Launch, Runtime};

const MODES: [&str; 3] = ["strict", "default", "fast"];

/// Points that match nothing in the programs that are run.
const UNMATCHED: &str = "<extension><instrumentation><tracerFactory><match assemblyName='Nowhere' \
                         className='Nowhere.Type'>\
                         <exactMethodMatcher \
                         methodName='Method'/></match></tracerFactory></instrumentation></extension>";

fn hello() -> PathBuf {
    compile("Hello", "Hello.cs", false, Extras::default())
}

fn compiled() -> PathBuf {
    compile("Compiled", "Compiled.cs", false, Extras::default())
}

/// The agent's own profiler is not loaded with `LD_BIND_NOW`, without a word: it refers to a
/// function that is nowhere.
#[test]
fn all_that_it_refers_to_is_there() {
    let output = Command::new("readelf").args(["-d", "-W"]).arg(library()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let needed: Vec<_> = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .map(|line| line.rsplit_once('[').and_then(|(_, name)| name.strip_suffix(']')).unwrap())
        .collect();
    let known = [
        "libc.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libdl.so.2",
        "libpthread.so.0",
        "ld-linux-x86-64.so.2",
    ];
    assert!(
        needed.contains(&"libc.so.6") && needed.iter().all(|name| known.contains(name)),
        "{needed:?}"
    );
    let points = UNMATCHED
        .replace("Nowhere.Type", "Hello")
        .replace("Nowhere", "Hello")
        .replace("'Method'", "'Greet'");
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let home = Home::new(AgentShape::V10_54, Some(&points));
        let lines = run(home.launch::<&str>(&hello(), runtime, &[]).env("LD_BIND_NOW", "1"))
            .well(&runtime.to_string());
        let tracers = lines.iter().filter(|line| line.starts_with("GETTRACER ")).count();
        assert_eq!(tracers, 1, "{runtime}: {lines:?}\n{}", home.log().join("\n"));
    }
}

#[test]
fn programs_without_points_run_unchanged() {
    let hello = hello();
    for runtime in [Runtime::V3_1, Runtime::V8, Runtime::V9, Runtime::V10] {
        let launch = || match runtime {
            // A trimmed application, which cannot run other programs.
            Runtime::V10 => Launch::new(runtime.require().executable()).arg("--version"),
            _ => Launch::assembly::<&str>(&hello, runtime, &[]),
        };
        let plain = run(launch());
        assert!(plain.status.success() && !plain.out.is_empty(), "{runtime}: {:?}", plain.err);
        for mode in MODES {
            let case = format!("{runtime}, {mode}");
            let home = Home::new(AgentShape::V10_54, Some(UNMATCHED));
            let ran = run(home.under(launch()).env("NEW_RELIC_CLRSCOPE_MODE", mode));
            assert_eq!(
                (ran.status, &ran.out, &ran.err),
                (plain.status, &plain.out, &plain.err),
                "{case}"
            );
            let log = home.log();
            assert!(
                log.iter().any(|line| line.ends_with(" Profiler initialized")),
                "{case}: {log:?}"
            );
            assert!(
                !log.iter().any(|line| line.starts_with("[Error] ")),
                "{case}: {}",
                log.join("\n")
            );
        }
    }
}

/// Methods of each of the three rounds of `Compiled.cs`.
const METHODS: usize = 2500;
/// Bytes by which a round may differ from one without the library. The agent's own profiler keeps
/// two texts for each method: 160,000 bytes, as the smallest block has 32.
const TOLERANCE: u64 = 50_000;

/// How many bytes of native memory the second and the third round add.
fn growth(launch: Launch, case: &str) -> [i64; 2] {
    // The same code is compiled with the library and without.
    let lines =
        run(launch.env("COMPlus_TieredCompilation", "0").env("COMPlus_ReadyToRun", "0")).well(case);
    let [line] = &lines[..] else { panic!("{case}: {lines:?}") };
    let numbers = line.strip_prefix("MEMORY ").and_then(|rest| rest.split_once(' '));
    let (second, third) = numbers.unwrap_or_else(|| panic!("{case}: {line}"));
    [second, third].map(|number| number.parse().unwrap())
}

#[test]
fn compiled_methods_leave_nothing_in_memory() {
    let program = compiled();
    // Of a method that is none of these.
    let points =
        UNMATCHED.replace("Nowhere.Type", "Compiled.Nothing").replace("Nowhere", "Compiled");
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let plain = growth(Launch::assembly(&program, runtime, &["memory"]), "without the library");
        for mode in MODES {
            let case = format!("{runtime}, {mode}");
            let home = Home::new(AgentShape::V10_54, Some(&points));
            let launch =
                home.launch(&program, runtime, &["memory"]).env("NEW_RELIC_CLRSCOPE_MODE", mode);
            let grown = growth(launch, &case);
            for (grown, plain) in grown.into_iter().zip(plain) {
                assert!(
                    grown.abs_diff(plain) < TOLERANCE,
                    "{case}: {grown} bytes, without the library {plain}"
                );
            }
            // Only this mode looks at each of them.
            let looked_at =
                home.log().iter().filter(|line| line.contains(" Possibly instrumenting: ")).count();
            assert!(looked_at >= 3 * METHODS || mode != "strict", "{case}: {looked_at}");
        }
    }
}

#[test]
fn first_calls_while_points_come_and_go() {
    let program = compiled();
    for runtime in [Runtime::V3_1, Runtime::V9] {
        for mode in MODES {
            let case = format!("{runtime}, {mode}");
            let home = Home::new(AgentShape::V10_54, None);
            let launch =
                home.launch(&program, runtime, &["first"]).env("NEW_RELIC_CLRSCOPE_MODE", mode);
            let lines = run(launch.env("AGENT_COUNT", "true")).well(&case);
            let [result, tracers] = &lines[..] else { panic!("{case}: {lines:?}") };
            assert_eq!(result, "FIRST methods=200 wrong=0 called=True", "{case}");
            let counts = tracers
                .strip_prefix("TRACERS started=")
                .and_then(|rest| rest.split_once(" finished="));
            let (started, finished) = counts.unwrap_or_else(|| panic!("{case}: {tracers}"));
            assert!(started == finished && started != "0", "{case}: {tracers}");
        }
    }
}

/// The runtime gives no new bodies to methods of modules that can be unloaded, and says nothing.
/// What is added to such a module must not keep it loaded.
#[test]
fn modules_that_can_be_unloaded_are_unloaded() {
    let plugin =
        compile("Plugin", "Plugins.cs", true, Extras { symbols: &["PLUGIN"], ..Extras::default() });
    let program = compile("Plugins", "Plugins.cs", false, Extras::default());
    let of = |assembly: &str, class: &str, method: &str| {
        format!(
            "<match assemblyName='{assembly}' className='{class}'><exactMethodMatcher \
                methodName='{method}'/></match>"
        )
    };
    let points = [
        of("Plugin", "Plugin", "Add"),
        of("Plugin", "Plugin", "Same"),
        of("Plugin", "Plugin+Inner", "Twice"),
        of("Emitted", "Emitted.Type0", "Add"),
        of("Emitted", "Emitted.Type1", "Add"),
        of("Plugins", "Plugins", "Main"),
    ];
    let points = format!(
        "<extension><instrumentation><tracerFactory>{}</tracerFactory></instrumentation></extension>",
        points.concat()
    );
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let plain = run(Launch::assembly(&program, runtime, &[&plugin]));
        let unloaded = plain.out.iter().filter(|line| *line == "unloaded True").count();
        assert_eq!((plain.status.code(), unloaded), (Some(7), 5), "{runtime}: {:?}", plain.out);
        for mode in MODES {
            let case = format!("{runtime}, {mode}");
            let home = Home::new(AgentShape::V10_54, Some(&points));
            let ran = run(home
                .launch(&program, runtime, &[&plugin])
                .env("NEW_RELIC_CLRSCOPE_MODE", mode));
            assert_eq!((ran.status.code(), &ran.err), (Some(7), &Vec::new()), "{case}");
            // The method that starts the program has a tracer, from its beginning to its end.
            let [first, printed @ .., last] = &ran.out[..] else { panic!("{case}: {:?}", ran.out) };
            assert!(
                first.starts_with("GETTRACER ") && first.contains(" method=Main "),
                "{case}: {first}"
            );
            assert_eq!(last, "FINISH Plugins.Main ret=System.Int32:7 ex=null", "{case}");
            assert_eq!(printed, plain.out, "{case}");
        }
    }
}
