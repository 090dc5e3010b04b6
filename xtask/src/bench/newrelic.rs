//! What the drop-in for the native profiler of the New Relic agent costs: at start-up, for each
//! call of an instrumented method, for each method that is compiled, in a service under load, and
//! on disk.
//!
//! The managed agent is one that only makes what each call needs. The figures of the agent's own
//! profiler, which is not built here, are those of docs/newrelic.md: ratios to a program without a
//! profiler carry over to other machines, single nanoseconds less so.

#[cfg(target_os = "linux")]
use super::service;
use super::table::{Distribution, Goal, Row};
use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
#[cfg(target_os = "linux")]
use testkit::Kiosk;
use testkit::{Compiler, Extras, Launch, Runtime, source_root};

/// For `--only`.
pub const START: &str = "drop-in, start of a program";
pub const CALL: &str = "drop-in, one call";
pub const SIZE: &str = "drop-in, size of the library";
/// For `--only`.
pub const COMPILE: &str = "drop-in, a method that is compiled";
/// For `--only`.
pub const LOG: &str = "drop-in, log of everything at the start";
/// For `--only`.
pub const TOGGLE: &str = "drop-in, points that come and go";
/// For `--only`.
pub const SERVICE: &str = "drop-in, service under load";
/// The runtimes that are measured.
pub const RUNTIMES: [Runtime; 2] = [Runtime::V3_1, Runtime::V9];

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const STARTS: usize = 20;
const PROCESSES: usize = 5;

/// The shapes of the managed agent, with the symbols that make them.
const SHAPES: [(&str, &[&str]); 3] =
    [("10.53", &[]), ("10.54", &["SHAPE_10_54"]), ("10.55", &["SHAPE_10_54", "SHAPE_10_55"])];

/// The class of `only_event_mask`, an example of the crate `corprof` that requests events and does
/// nothing with them, and the event masks of the modes on .NET Core: no profiler with such a mask
/// starts a program faster.
const ONLY_MASK_CLASS: &str = "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F05}";
const MASKS: [(&str, &str); 2] = [("default", "B0040224,8"), ("fast", "10040204,0")];

/// Classes and methods of each that are compiled.
const COMPILED: (usize, usize) = (20, 1000);
/// Rounds of processes that compile them.
const COMPILE_ROUNDS: usize = 10;
/// Methods with points that come and go.
const TOGGLED: usize = 100;
/// Seconds in which they do.
const TOGGLE_SECONDS: f64 = 6.0;
/// Rounds of windows of a service under load, and their length in seconds.
const SERVICE_ROUNDS: usize = 12;
const WINDOW: u64 = 4;
/// Connections to the service.
const CONNECTIONS: u32 = 16;

/// Points like those that the agent brings for ASP.NET Core and what such services call: two of
/// them are met for each request.
const SERVICE_POINTS: &str = "<extension><instrumentation><tracerFactory>\
    <match assemblyName='Microsoft.AspNetCore.Hosting' \
    className='Microsoft.AspNetCore.Hosting.HostingApplication'>\
    <exactMethodMatcher methodName='ProcessRequestAsync'/></match>\
    <match assemblyName='Microsoft.AspNetCore.Routing' \
    className='Microsoft.AspNetCore.Routing.EndpointMiddleware'>\
    <exactMethodMatcher methodName='Invoke'/></match>\
    <match assemblyName='Microsoft.AspNetCore.Hosting' \
    className='Microsoft.AspNetCore.Hosting.WebHostBuilder'>\
    <exactMethodMatcher methodName='Build'/></match>\
    <match assemblyName='Microsoft.AspNetCore.Mvc.Core' \
    className='Microsoft.AspNetCore.Mvc.Infrastructure.ControllerActionInvoker'>\
    <exactMethodMatcher methodName='InvokeInnerFilterAsync'/></match>\
    <match assemblyName='System.Net.Http' className='System.Net.Http.SocketsHttpHandler'>\
    <exactMethodMatcher methodName='SendAsync'/></match>\
    <match assemblyName='System.Data.Common' className='System.Data.Common.DbCommand'>\
    <exactMethodMatcher methodName='ExecuteDbDataReaderAsync'/></match>\
    </tracerFactory></instrumentation></extension>";

const POINTS: &str = "<extension><instrumentation><tracerFactory>\
    <match assemblyName='Calls' className='Calls'><exactMethodMatcher methodName='Traced'/></match>\
    <match assemblyName='Hello' className='Hello'><exactMethodMatcher methodName='Greet'/></match>\
    </tracerFactory></instrumentation></extension>";

/// A home of the agent.
struct Home {
    folder: TempDir,
    library: PathBuf,
}

impl Home {
    fn new(symbols: &[&str]) -> Result<Home> {
        let home = Home { folder: tempfile::tempdir()?, library: library()? };
        let folder = home.folder.path();
        fs::create_dir(folder.join("extensions"))?;
        let agent = compile(
            "NewRelic.Agent.Core",
            "Agent.cs",
            true,
            Extras { symbols, ..Extras::default() },
        )?;
        fs::copy(agent, folder.join("NewRelic.Agent.Core.dll"))?;
        fs::write(
            folder.join("newrelic.config"),
            "<configuration><log level=\"info\"/></configuration>",
        )?;
        fs::write(folder.join("extensions/points.xml"), POINTS)?;
        Ok(home)
    }

    fn under(&self, launch: Launch, mode: &str) -> Launch {
        launch
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", "{36032161-FFC0-4B61-B559-F6C5D41BAE5A}")
            .env("CORECLR_PROFILER_PATH", &self.library)
            .env("CORECLR_NEW_RELIC_HOME", self.folder.path())
            .env("NEW_RELIC_CLRSCOPE_MODE", mode)
            .env("AGENT_QUIET", "true")
    }
}

/// Compiles a program with methods that are generated here, because they are many.
fn compile_with_methods(name: &str, source: &str, methods: &str) -> Result<PathBuf> {
    let written =
        fs::read_to_string(source_root().join("crates/newrelic/tests/programs").join(source))?;
    let folder = tool::target_folder().join("bench");
    fs::create_dir_all(&folder)?;
    let whole = folder.join(source);
    fs::write(&whole, written + methods)?;
    Ok(Compiler::find()?.compile_with(name, &whole, Runtime::V3_1, false, Extras::default())?)
}

fn compile(name: &str, source: &str, is_library: bool, extras: Extras<'_>) -> Result<PathBuf> {
    let source = source_root().join("crates/newrelic/tests/programs").join(source);
    Ok(Compiler::find()?.compile_with(name, &source, Runtime::V3_1, is_library, extras)?)
}

fn library() -> Result<PathBuf> {
    let library = tool::target_folder().join("release/libNewRelicProfiler.so");
    ensure!(library.is_file(), "{} is missing: leave out --no-build", library.display());
    Ok(library)
}

fn under_mask(launch: Launch, library: &Path, mask: &str) -> Launch {
    launch
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", ONLY_MASK_CLASS)
        .env("CORECLR_PROFILER_PATH", library)
        .env("EVENT_MASK", mask)
}

/// Builds the library as users get it.
///
/// # Errors
/// When it cannot be built.
pub fn build() -> Result<()> {
    tool::run(cargo().args(["build", "--release", "--package", "newrelic"]), BUILD_LIMIT)
}

/// A way to start a program.
struct Variant<'a> {
    name: String,
    /// The highest ratio to a start without a profiler.
    goal: Option<f64>,
    launch: Box<dyn Fn() -> Launch + 'a>,
}

/// What a program that greets and ends takes, as a ratio to the same without a profiler.
///
/// # Errors
/// When a program fails.
pub fn start(runtime: Runtime) -> Result<Vec<Row>> {
    let program = compile("Hello", "Hello.cs", false, Extras::default())?;
    let homes = SHAPES.iter().map(|(_, symbols)| Home::new(symbols)).collect::<Result<Vec<_>>>()?;
    let limit = if runtime == Runtime::V3_1 { 2.0 } else { 3.5 };
    let only_mask = tool::release_example("corprof", "only_event_mask", BUILD_LIMIT)?;
    let only_mask = only_mask.as_path();
    let launch = || Launch::assembly(&program, runtime, &[""; 0]);
    let mut variants = Vec::new();
    for ((shape, _), home) in SHAPES.iter().zip(&homes) {
        for (mode, goal) in [("default", limit), ("fast", 1.15)] {
            variants.push(Variant {
                name: format!("agent {shape}, {mode}"),
                goal: Some(goal),
                launch: Box::new(move || home.under(launch(), mode)),
            });
        }
    }
    let cached = homes.get(1).context("no home")?;
    variants.push(Variant {
        name: "agent 10.54, strict".to_owned(),
        goal: None,
        launch: Box::new(move || cached.under(launch(), "strict")),
    });
    for (mode, mask) in MASKS {
        variants.push(Variant {
            name: format!("nothing but the event mask of {mode}"),
            goal: None,
            launch: Box::new(move || under_mask(launch(), only_mask, mask)),
        });
    }
    let (mut alone, mut ratios) = (Vec::new(), vec![Vec::new(); variants.len()]);
    // The first round finds the files on the disk.
    for round in 0..=STARTS {
        for turn in 0..variants.len() {
            let index = (round + turn) % variants.len();
            let plain = once(launch().command())?;
            let Some(variant) = variants.get(index) else { continue };
            let with = once((variant.launch)().command())?;
            if round > 0 {
                alone.push(plain);
                ratios[index].push(with / plain);
            }
        }
    }
    let mut rows = vec![Row::told(
        format!("{START}, alone"),
        runtime,
        Distribution::of(alone).with_quartiles("ms"),
    )];
    for (Variant { name, goal, .. }, ratios) in variants.iter().zip(ratios) {
        let ratio = Distribution::of(ratios);
        let (what, told) = (format!("{START}: {name}"), ratio.with_quartiles("×"));
        rows.push(match goal {
            Some(goal) => Row::new(what, runtime, ratio.median(), told, Goal::only(*goal, "×")),
            None => Row::told(what, runtime, told),
        });
    }
    Ok(rows)
}

/// What one call of an instrumented method that does nothing takes, with one thread and with two,
/// and of one that does the same by hand.
///
/// # Errors
/// When a program fails.
pub fn call(runtime: Runtime) -> Result<Vec<Row>> {
    let program = compile("Calls", "Calls.cs", false, Extras::default())?;
    let is_old = runtime == Runtime::V3_1;
    let mut rows = Vec::new();
    let (mut by_hand, mut by_hand_two) = (Vec::new(), Vec::new());
    let mut fast_with_two = Vec::new();
    for (shape, symbols) in SHAPES {
        let home = Home::new(symbols)?;
        // What the agent's own profiler of that shape takes, and what the fast mode may take.
        let (own, fast) = match (shape, is_old) {
            ("10.53", true) => (3044.0, 100.0),
            ("10.53", false) => (1974.0, 100.0),
            ("10.54", true) => (411.0, 65.0),
            ("10.54", false) => (117.0, 45.0),
            (_, true) => (81.0, 65.0),
            (_, false) => (56.0, 45.0),
        };
        for (mode, goal) in [("default", own), ("fast", fast)] {
            let (mut one, mut two) = (Vec::new(), Vec::new());
            for _ in 0..PROCESSES {
                for (threads, found, hand) in
                    [("1", &mut one, &mut by_hand), ("2", &mut two, &mut by_hand_two)]
                {
                    let launch = home.under(Launch::assembly(&program, runtime, &[threads]), mode);
                    let [traced, own] = printed(&launch, ["traced", "hand"])?;
                    found.push(traced);
                    if mode == "fast" {
                        hand.push(own);
                    }
                }
            }
            let (one, two) = (Distribution::of(one), Distribution::of(two));
            let what = format!("{CALL}: agent {shape}, {mode}");
            rows.push(Row::new(
                &what,
                runtime,
                one.median(),
                one.with_quartiles("ns"),
                Goal::only(goal, "ns"),
            ));
            let (what, told) = (format!("{what}, each of 2 threads"), two.with_quartiles("ns"));
            match mode {
                "fast" => fast_with_two.push((what, one, two)),
                _ => rows.push(Row::told(what, runtime, told)),
            }
        }
    }
    let (by_hand, by_hand_two) = (Distribution::of(by_hand), Distribution::of(by_hand_two));
    let what = format!("{CALL}, by hand");
    rows.push(Row::told(&what, runtime, by_hand.with_quartiles("ns")));
    rows.push(Row::told(
        format!("{what}, each of 2 threads"),
        runtime,
        by_hand_two.with_quartiles("ns"),
    ));
    // Two processors that share a core, or memory, make any code slower that makes objects. What
    // the calls share themselves comes on top of that.
    let machine = by_hand_two.median() / by_hand.median();
    for (what, one, two) in fast_with_two {
        let goal = Goal::only((1.15 * machine * one.median()).round(), "ns");
        rows.push(Row::new(what, runtime, two.median(), two.with_quartiles("ns"), goal));
    }
    Ok(rows)
}

/// The numbers behind words that a program prints.
fn printed<const N: usize>(launch: &Launch, words: [&str; N]) -> Result<[f64; N]> {
    let output = launch.command().stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = || format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}", shown());
    let mut found = [0.0; N];
    for (found, word) in found.iter_mut().zip(words) {
        let mut behind = text.split_whitespace().skip_while(|candidate| *candidate != word);
        *found = behind.nth(1).and_then(|number| number.parse().ok()).with_context(shown)?;
    }
    Ok(found)
}

/// What it takes longer to compile a method that has no point, and what 20,000 of them leave in
/// memory.
///
/// # Errors
/// When a program fails.
pub fn compile_many(runtime: Runtime) -> Result<Vec<Row>> {
    let (classes, methods) = COMPILED;
    let mut source = String::new();
    for class in 0..classes {
        let methods = (0..methods)
            .map(|number| format!("public static int M{number}(int x){{return x+{number};}}\n"));
        source += &format!("public static class Set{class}{{\n{}}}\n", methods.collect::<String>());
    }
    let program = compile_with_methods("Compiles", "Compiles.cs", &source)?;
    let home = Home::new(SHAPES[1].1)?;
    // As the drop-in has it by default: all is compiled, and at once for good.
    let plain = || {
        let launch = Launch::assembly(&program, runtime, &[""; 0]);
        launch.env("DOTNET_TieredCompilation", "0").env("COMPlus_TieredCompilation", "0")
    };
    let words = ["each", "resident", "methods"];
    let (mut more, mut memory) = (Vec::new(), Vec::new());
    for round in 0..=COMPILE_ROUNDS {
        let alone = printed(&plain(), words)?;
        let with = printed(&home.under(plain(), "default"), words)?;
        ensure!(alone[2] as usize == classes * methods, "{} methods were compiled", alone[2]);
        if round > 0 {
            more.push((with[0] - alone[0]) / 1e3);
            memory.push((with[1] - alone[1]) / 1024.0);
        }
    }
    let (more, memory) = (Distribution::of(more), Distribution::of(memory));
    Ok(vec![
        Row::new(
            COMPILE,
            runtime,
            more.median(),
            more.with_quartiles("µs more"),
            Goal::only(1.0, "µs"),
        ),
        Row::told(
            format!("{COMPILE}: memory of the process with 20,000"),
            runtime,
            memory.with_quartiles("MB more"),
        ),
    ])
}

/// What a log of everything adds to the start of a program.
///
/// # Errors
/// When a program fails.
pub fn log(runtime: Runtime) -> Result<Vec<Row>> {
    let program = compile("Hello", "Hello.cs", false, Extras::default())?;
    let (quiet, loud) = (Home::new(SHAPES[1].1)?, Home::new(SHAPES[1].1)?);
    fs::write(
        loud.folder.path().join("newrelic.config"),
        "<configuration><log level=\"all\"/></configuration>",
    )?;
    let mut rows = Vec::new();
    for mode in ["default", "fast"] {
        let mut more = Vec::new();
        for round in 0..=STARTS {
            let start = |home: &Home| {
                once(home.under(Launch::assembly(&program, runtime, &[""; 0]), mode).command())
            };
            let difference = if round % 2 == 0 {
                -start(&quiet)? + start(&loud)?
            } else {
                start(&loud)? - start(&quiet)?
            };
            if round > 0 {
                more.push(difference);
            }
        }
        let (what, more) = (format!("{LOG}, {mode}"), Distribution::of(more));
        rows.push(Row::new(
            what,
            runtime,
            more.median(),
            more.with_quartiles("ms more"),
            Goal::only(5.0, "ms"),
        ));
    }
    Ok(rows)
}

/// How long it takes until points of a hundred methods that four threads call have come or gone.
///
/// # Errors
/// When a program fails, or a call has a wrong result.
pub fn toggle(runtime: Runtime) -> Result<Vec<Row>> {
    let method =
        |number: usize| format!("public static int M{number:03}(int x){{return x+{number};}}\n");
    let methods = (0..TOGGLED).map(method).collect::<String>();
    let program = compile_with_methods(
        "Toggle",
        "Toggle.cs",
        &format!("public static class Many{{\n{methods}}}\n"),
    )?;
    let home = Home::new(SHAPES[1].1)?;
    let mut rows = Vec::new();
    for mode in ["default", "fast"] {
        let launch =
            home.under(Launch::assembly(&program, runtime, &[TOGGLE_SECONDS.to_string()]), mode);
        // Counted, not quiet: at its end the agent says how many tracers were started and finished.
        let launch = launch.env("AGENT_COUNT", "true");
        let [toggles, wrong, methods] = printed(&launch, ["toggles", "wrong", "methods"])?;
        ensure!(
            wrong == 0.0 && methods as usize == TOGGLED,
            "{wrong} results were wrong of {methods} methods"
        );
        let each = TOGGLE_SECONDS * 1e3 / toggles;
        let told = format!("{toggles} in {TOGGLE_SECONDS} s, {each:.1} ms each");
        rows.push(Row::new(
            format!("{TOGGLE}, {mode}"),
            runtime,
            each,
            told,
            Goal::only(15.0, "ms"),
        ));
    }
    Ok(rows)
}

/// What a Kestrel service under full load does less, and how much more memory it has, with two
/// traced calls for each request.
///
/// # Errors
/// When the service, or the load generator, fails.
#[cfg(target_os = "linux")]
pub fn service() -> Result<Vec<Row>> {
    let home = Home::new(SHAPES[1].1)?;
    fs::write(home.folder.path().join("extensions/points.xml"), SERVICE_POINTS)?;
    let mut rows = Vec::new();
    for (mode, goal) in [("default", None), ("fast", Some(1.0 / 0.97))] {
        let alone = Kiosk::start_with(|launch| launch)?;
        let with = Kiosk::start_with(|launch| home.under(launch, mode))?;
        let (mut longer, mut memory) = (Vec::new(), Vec::new());
        // The first rounds compile what is called, for good.
        for round in 0..SERVICE_ROUNDS + 3 {
            let rate = |kiosk: &Kiosk| {
                service::requests_per_second(&kiosk.url("/ok"), CONNECTIONS, WINDOW)
            };
            let (plain, observed) = if round % 2 == 0 {
                (rate(&alone)?, rate(&with)?)
            } else {
                let observed = rate(&with)?;
                (rate(&alone)?, observed)
            };
            if round >= 3 {
                longer.push(plain / observed);
                let resident = |kiosk: &Kiosk| {
                    super::observe::memory(kiosk.process.pid(), "VmRSS").context("it has ended")
                };
                memory.push((resident(&with)? as f64 - resident(&alone)? as f64) / 1e6);
            }
        }
        let (what, longer, memory) =
            (format!("{SERVICE}, {mode}"), Distribution::of(longer), Distribution::of(memory));
        let told = longer.with_quartiles("× the time for a request");
        rows.push(match goal {
            Some(goal) => {
                Row::new(&what, Runtime::V9, longer.median(), told, Goal::only(goal, "×"))
            }
            None => Row::told(&what, Runtime::V9, told),
        });
        let (what, told) = (format!("{what}: memory"), memory.with_quartiles("MB more"));
        rows.push(match goal {
            Some(_) => Row::new(what, Runtime::V9, memory.median(), told, Goal::only(30.0, "MB")),
            None => Row::told(what, Runtime::V9, told),
        });
    }
    Ok(rows)
}

/// The stripped library: its size, and that it loads where all symbols are bound at once.
///
/// # Errors
/// When it cannot be stripped, or does not load.
pub fn size() -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let stripped = folder.path().join("libNewRelicProfiler.so");
    super::size::strip(&library()?, &stripped)?;
    let megabytes = fs::metadata(&stripped)?.len() as f64 / 1e6;
    let mut home = Home::new(&[])?;
    home.library = stripped;
    let program = compile("Hello", "Hello.cs", false, Extras::default())?;
    let launch = home.under(Launch::assembly(&program, Runtime::V9, &[""; 0]), "default");
    let output = launch.env("LD_BIND_NOW", "1").env("AGENT_QUIET", "false").command().output()?;
    let traced = String::from_utf8_lossy(&output.stdout).contains("GETTRACER ");
    ensure!(traced, "with LD_BIND_NOW=1 nothing is traced: {output:?}");
    let told = format!("{megabytes:.2} MB; loads with LD_BIND_NOW=1");
    Ok(vec![Row::new(SIZE, "·", megabytes, told, Goal::only(2.0, "MB"))])
}

/// Milliseconds that a command takes until its end.
fn once(mut command: Command) -> Result<f64> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && text.contains("Hello, world"),
        "{}: {output:?}",
        tool::shown(&command)
    );
    Ok(took)
}
